"""Classifiers of others keep the contract of a system: five of scikit-learn's, six of river's, and one's own."""

import copy
import pickle

import numpy as np
import pytest
from conftest import Means
from river import compose, ensemble, linear_model, multiclass, naive_bayes, neighbors, preprocessing, tree
from sklearn.cluster import MiniBatchKMeans
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Perceptron, SGDClassifier, SGDRegressor
from sklearn.naive_bayes import BernoulliNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.neural_network import MLPClassifier

from ocrrlib.adapters import as_system
from ocrrlib.adapters.sklearn import LINEAR_PASSES, PASSES, SklearnSystem
from ocrrlib.errors import InputError
from ocrrlib.policies import POLICIES, Policy
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import SYSTEMS, make
from ocrrlib.systems.base import Storage, System

SKLEARN = {
    "sgd": SGDClassifier(),
    "sgd, log loss": SGDClassifier(loss="log_loss"),
    "perceptron": Perceptron(),
    "gaussian": GaussianNB(),
    "bernoulli": BernoulliNB(),
    "mlp": MLPClassifier(hidden_layer_sizes=(32,), learning_rate_init=0.02),
}
RIVER = {
    "gaussian, river": naive_bayes.GaussianNB(),
    "neighbours": neighbors.KNNClassifier(),
    "tree": tree.HoeffdingTreeClassifier(),
    "softmax": linear_model.SoftmaxRegression(),
    "one against the rest": multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
    "scaled": compose.Pipeline(preprocessing.StandardScaler(), naive_bayes.GaussianNB()),
    "leveraging": ensemble.LeveragingBaggingClassifier(naive_bayes.GaussianNB(), n_models=3),
}
ALL = SKLEARN | RIVER | {"own": Means(), "registry": make("ncm")}
each = pytest.mark.parametrize("name", ALL)


@pytest.fixture(scope="module")
def s(tiny):
    return make_scenario(tiny, 0, held_out=4, cap=None)


def run(thing, s, seed=0):
    return list(run_stream(as_system(thing, seed), s, POLICIES["oracle"]))


def fitted(name, s, seed=0):
    return as_system(ALL[name], seed).fit(s.X_initial, s.y_initial, s.classes)


@each
def test_it_streams_and_learns_new_classes(name, s):
    first, *_, last = run(ALL[name], s)
    assert first.novel_acc == 0 and first.original_acc > 0.5
    assert last.novel_acc > 0.5 and last.corrections > 0


@each
def test_a_new_class_is_no_answer_before_it_was_met_and_is_learnt(name, s):
    system, x, new = fitted(name, s), s.X_stream[0], int(s.y_stream[0])
    assert set(system.predict(s.queries).tolist()) <= set(s.y_initial.tolist())
    for row in np.tile(s.X_stream[s.y_stream == new], (4, 1)):
        system.correct(row, new)
    assert system.predict(x[None]).tolist() == [new]
    assert set(system.predict(s.queries).tolist()) <= {*s.y_initial.tolist(), new}


@each
def test_the_same_seed_gives_the_same_answers(name, s):
    first, second = run(ALL[name], s, 3), run(ALL[name], s, 3)
    for one, other in zip(first, second):
        np.testing.assert_array_equal(one.answers, other.answers)
        assert one.scalars == other.scalars


@pytest.mark.parametrize("name", ["sgd", "mlp", "leveraging"])
def test_another_seed_is_another_draw(name, s):
    answers = [fitted(name, s, seed) for seed in (0, 1)]
    for row, label in zip(s.X_stream[:20], s.y_stream[:20]):
        for system in answers:
            system.correct(row, int(label))
    assert pickle.dumps(answers[0].model) != pickle.dumps(answers[1].model)


@each
def test_what_was_given_stays_as_it_is(name, s):
    given = copy.deepcopy(ALL[name])
    before = pickle.dumps(given)
    run(given, s)
    assert pickle.dumps(given) == before


@each
def test_fit_again_starts_afresh(name, s):
    system = fitted(name, s)
    before = system.predict(s.queries)
    for row, label in zip(s.X_stream, s.y_stream):
        system.correct(row, int(label))
    np.testing.assert_array_equal(system.fit(s.X_initial, s.y_initial, s.classes).predict(s.queries), before)


@pytest.mark.parametrize("name", SKLEARN | RIVER)
def test_it_has_no_answer_before_anything_was_learnt_and_answers_after_one_row(name, s):
    system = as_system(ALL[name]).fit(s.X_initial[:0], s.y_initial[:0], s.classes)
    assert system.predict(s.queries[:5]).tolist() == [-1] * 5
    system.correct(s.X_stream[0], int(s.y_stream[0]))
    assert set(system.predict(s.queries).tolist()) <= {int(s.y_stream[0]), -1}
    assert system.predict(s.queries[:0]).shape == (0,)


@pytest.mark.parametrize("name", SKLEARN)
def test_where_all_classes_were_met_the_answer_is_the_classifiers_own(name, s, tiny):
    system = as_system(ALL[name]).fit(tiny.X_train, tiny.y_train, tiny.classes)
    np.testing.assert_array_equal(system.predict(tiny.X_test), system.model.predict(tiny.X_test))


@pytest.mark.parametrize("max_iter, passes, made", [(1000, None, LINEAR_PASSES), (1000, 7, 7), (3, 7, 3)])
def test_it_passes_over_the_initial_rows_as_often_as_it_is_told(max_iter, passes, made, s):
    system = SklearnSystem(SGDClassifier(max_iter=max_iter), passes=passes).fit(s.X_initial, s.y_initial, s.classes)
    assert system.model.t_ - 1 == made * len(s.y_initial)  # scikit-learn counts rows from 1


def test_a_network_passes_more_often_than_linear_classifiers_which_need_longer_for_it():
    assert SklearnSystem(MLPClassifier()).passes == PASSES > SklearnSystem(Perceptron()).passes == LINEAR_PASSES


@pytest.mark.parametrize("passes", [0, -1, 2.5])
def test_a_number_of_passes_that_is_none_is_refused(passes):
    with pytest.raises(InputError, match="passes are out of range: give a number from 1 up"):
        SklearnSystem(SGDClassifier(), passes=passes)


def test_two_classes_are_answered_by_the_sign_of_one_score(s):
    known = np.flatnonzero(s.y_initial < 2)
    X, y = s.X_initial[known], s.y_initial[known]
    for thing in (SGDClassifier(), GaussianNB(), naive_bayes.GaussianNB()):
        system = as_system(thing).fit(X[y == 1], y[y == 1], ("no", "yes"))
        assert set(system.predict(X).tolist()) == {1}
        for x, label in zip(X, y):
            system.correct(x, int(label))
        assert np.mean(system.predict(X) == y) > 0.9


def test_storage_is_the_arrays_in_the_model_and_0_for_river(s):
    rows, classes = s.queries.shape[1], len(s.classes)
    model = fitted("gaussian", s).model
    arrays = (model.theta_, model.var_, model.class_count_, model.class_prior_, model.classes_)
    assert fitted("gaussian", s).storage() == Storage(bytes=sum(array.nbytes for array in arrays))
    assert fitted("sgd", s).storage().bytes >= 4 * (rows + 1) * classes
    assert fitted("mlp", s).storage().bytes > 3 * 4 * 32 * (rows + classes)  # weights, and two moments of each
    assert all(fitted(name, s).storage() == Storage(bytes=0) for name in RIVER)


def test_an_object_without_storage_holds_0_bytes_and_one_with_it_is_asked(s):
    class Counted(Means):
        def storage(self):
            return Storage(bytes=self.sums.nbytes, entries=7)

    assert run(Means(), s)[-1].storage_bytes == 0
    last = run(Counted(), s)[-1]
    assert last.stored_entries == 7 and last.storage_bytes == 8 * len(s.classes) * s.queries.shape[1]


def test_a_classifier_with_scikit_learns_methods_only_will_do(s):
    class Alone:
        def partial_fit(self, X, y, classes):
            self.inner = getattr(self, "inner", SGDClassifier(random_state=0)).partial_fit(X, y, classes)

        def predict(self, X):
            return self.inner.predict(X)

    assert run(Alone(), s)[-1].novel_acc > 0.5


@pytest.mark.parametrize("name", ["er", "substrate", "bounded_reservoir_100", "klda"])
def test_a_system_of_the_registry_is_copied_and_gets_the_seed(name, s):
    given = SYSTEMS[name].make(0)
    for one, other in zip(run(given, s, 5), run_stream(make(name, 5), s, POLICIES["oracle"])):
        np.testing.assert_array_equal(one.answers, other.answers)
    assert given.seed == 0 and given.row_shape is None


class WithoutClasses:
    """Its ``partial_fit`` is not scikit-learn's."""

    def partial_fit(self, X, y): ...

    def predict(self, X): ...


@pytest.mark.parametrize(
    "thing, clue",
    [
        (LogisticRegression(), "LogisticRegression has no partial_fit"),
        (RandomForestClassifier(), "RandomForestClassifier has no partial_fit"),
        (MultinomialNB(), "MultinomialNB refuses negative numbers"),
        (ComplementNB(), "ComplementNB refuses negative numbers"),
        (WithoutClasses(), r"WithoutClasses.partial_fit must take \(X, y, classes\)"),
        (SGDRegressor(), "not a classifier"),
        (MiniBatchKMeans(), "not a classifier"),
        (linear_model.LogisticRegression(), "two classes: give river.multiclass.OneVsRestClassifier"),
        (linear_model.LinearRegression(), "LinearRegression is not a classifier"),
        (SGDClassifier, r"a class: give an object, SGDClassifier\(\)"),
        ("substrate", "str cannot be used"),
        (None, "NoneType cannot be used"),
        (np.zeros(3), "ndarray cannot be used"),
    ],
)
def test_what_cannot_be_a_system_is_refused_in_one_line_with_the_way_out(thing, clue):
    with pytest.raises(InputError, match=clue) as caught:
        as_system(thing)
    message = str(caught.value)
    assert "\n" not in message and "give " in message


@pytest.mark.parametrize(
    "methods, clue",
    [
        ("fit predict", r"Some lacks correct\(x, y\): give an object"),
        ("predict", r"Some lacks partial_fit: give"),
        ("correct", r"Some lacks fit\(X, y, classes\) and predict\(X\): give"),
        ("learn_one", r"Some lacks predict_one: give"),
        ("score", r"Some cannot be used as a system: give"),
    ],
)
def test_what_is_missing_is_named(methods, clue):
    thing = type("Some", (), dict.fromkeys(methods.split(), lambda self, *given: None))()
    with pytest.raises(InputError, match=clue):
        as_system(thing)


def test_a_method_that_takes_something_else_is_named():
    class Two(Means):
        def fit(self, X, y):
            pass

    with pytest.raises(InputError, match=r"Two.fit must take \(X, y, classes\)"):
        as_system(Two())


@pytest.mark.parametrize(
    "answers, clue",
    [
        (lambda X: np.zeros((len(X), 1), int), "one class id for each of .*: take argmax"),
        (lambda X: ["card"] * len(X), "one class id for each of .*: give places in classes, not names"),
        (lambda X: np.zeros(len(X)), "one class id for each of .*: give integers"),
        (lambda X: np.full(len(X), 12), "class ids are 0 to 11"),
        (lambda X: np.full(len(X), -2), "-1 for no answer"),
        (lambda X: None, "one class id for each of"),
    ],
)
def test_answers_that_are_no_class_ids_are_refused(answers, clue, s):
    class Odd(Means):
        def predict(self, X):
            return answers(X)

    with pytest.raises(InputError, match=clue):
        run(Odd(), s)


def test_storage_of_another_kind_is_refused(s):
    class Odd(Means):
        def storage(self):
            return 3

    with pytest.raises(InputError, match="Odd.storage must give"):
        run(Odd(), s)


@pytest.mark.parametrize("name", SKLEARN | RIVER | {"own": None})
def test_rows_and_labels_are_checked_as_for_every_system(name, s):
    system = fitted(name, s)
    assert isinstance(system, System)
    with pytest.raises(InputError, match="not normalised"):
        system.predict(2 * s.queries)
    with pytest.raises(InputError, match="class id"):
        system.correct(s.queries[0], 99)


@pytest.mark.parametrize("given", [GaussianNB(), naive_bayes.GaussianNB(), MLPClassifier(hidden_layer_sizes=(8,))])
def test_who_gives_probabilities_may_be_asked_where_it_is_unsure(given, s):
    system = as_system(given, seed=0)
    system.fit(s.X_initial, s.y_initial, s.classes)
    found = system.probabilities(s.X_novel)
    assert found.shape == (len(s.X_novel), len(s.classes)) and (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(
        system.watch_probabilities(s.queries)(np.arange(3)), system.probabilities(s.queries[:3])
    )
    *_, last = run_stream(as_system(given, seed=0), s, Policy("asked", 0.3, ask="margin"))
    assert last.corrections > 0


class Sure(Means):
    """Gives a probability to whatever it answers."""

    def predict_proba(self, X):
        return np.eye(self.n)[self.predict(X)] * self.size

    def fit(self, X, y, classes):
        super().fit(X, y, classes)
        self.n, self.size = len(classes), 3.0


def test_an_object_may_give_probabilities_and_what_are_none_is_refused(s):
    system = as_system(Sure())
    system.fit(s.X_initial, s.y_initial, s.classes)
    np.testing.assert_array_equal(system.probabilities(s.X_novel).argmax(axis=1), system.predict(s.X_novel))
    system.model.size = -1.0
    with pytest.raises(InputError, match="Sure.predict_proba must give .* numbers from 0 to 1 for each"):
        system.probabilities(s.X_novel)
    silent = as_system(Means())
    silent.fit(s.X_initial, s.y_initial, s.classes)
    with pytest.raises(InputError, match=r"Means gives no class probabilities.* give it predict_proba\(X\)"):
        silent.probabilities(s.X_novel)
