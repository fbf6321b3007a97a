"""Your own system: as published for names, as expected for others, one line per mistake."""

import functools
import io
import os
import subprocess
import sys
import threading
from dataclasses import replace

import joblib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scipy.stats
from river import (
    base,
    cluster,
    compat,
    ensemble,
    forest,
    linear_model,
    multiclass,
    naive_bayes,
    neighbors,
    preprocessing,
)
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import MiniBatchKMeans
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    SGDClassifier,
    SGDOneClassSVM,
    SGDRegressor,
)
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from ocrr.adapters import Refit, _unfitted, as_system, settings_of
from ocrr.evaluator import evaluate
from ocrrlib.datasets import Texts
from ocrrlib.files import ROOT, InputError
from ocrrlib.policies import POLICIES, Policy
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import Unwatched, run_stream
from ocrrlib.systems import make
from ocrrlib.systems.base import Storage, System, TextSystem
from tests.samples import Means

QUIET = dict(progress=False)
SKLEARN = {
    "sgd": SGDClassifier(),
    "bernoulli": BernoulliNB(),
    "mlp": MLPClassifier(hidden_layer_sizes=(32,), learning_rate_init=0.02),
}
RIVER = {
    "neighbours": neighbors.KNNClassifier(),
    "one against the rest": multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
}


class Silent(base.Classifier):
    """A river classifier that has labels only."""

    _multiclass = True

    def learn_one(self, x, y):
        self.last = y

    def predict_one(self, x, **kwargs):
        return self.last


ALL = (
    SKLEARN
    | RIVER
    | {"own": Means(), "registry": make("ncm"), "class": Means, "lambda": lambda: Means()}
)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """An empty cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCRR_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def ncm(banking):
    return evaluate("ncm", banking, seeds=[0, 3], **QUIET)


def test_registry_name_gives_the_published_rows_exactly(ncm):
    published = pd.read_parquet(ROOT / "data/results/beyond.parquet")
    own = published.query(
        "dataset == 'banking77' and policy == 'oracle' and system == 'ncm' and seed in [0, 3]"
    )
    there = own[[name for name in ncm.curve if name in own]].reset_index(drop=True)
    pd.testing.assert_frame_equal(ncm.curve[list(there)], there, check_exact=True)
    assert (
        set(own) <= set(ncm.curve)
        and ncm.curve["ausuc"].iloc[[0, -1]].between(0, 1, inclusive="neither").any()
    )


def test_finals_are_the_last_checkpoint_and_the_mean_over_the_stream(ncm):
    run = ncm.curve[ncm.curve["seed"] == 3]
    row = ncm.runs.iloc[1]
    area = np.trapezoid(run["original_acc"], run["step"]) / run["step"].iloc[-1]
    assert row["novel"] == run["novel_acc"].iloc[-1] and row["anytime original"] == pytest.approx(
        area, abs=1e-12
    )


def test_intervals_are_those_of_students_t_and_nan_for_one_seed(tiny, ncm):
    row = ncm.summary.set_index("metric").loc["anytime novel"]
    theirs = scipy.stats.ttest_1samp(ncm.runs["anytime novel"], 0).confidence_interval()
    assert tuple(row[["low", "high"]]) == pytest.approx(theirs) and row["n"] == 2
    assert evaluate("ncm", tiny, [0], **QUIET).summary["low"].isna().all()


PUBLISHED = pd.read_parquet(ROOT / "data/results/beyond.parquet")["system"].nunique()


def test_compared_ranks_it_beside_its_published_twin_over_shared_seeds(banking, ncm):
    table = ncm.compared()
    twins = table[table["system"] == "ncm"].drop(columns=["source", "own"])
    assert len(table) == PUBLISHED + 1 and table["own"].sum() == 1 and set(table["seeds"]) == {2}
    pd.testing.assert_series_equal(twins.iloc[0], twins.iloc[1], check_names=False)
    assert table["hm"].is_monotonic_decreasing
    some = evaluate("ncm", banking, seeds=[19, 20], **QUIET).compared()
    assert set(some["seeds"]) == {1}


def test_against_a_published_name_takes_its_published_runs(ncm):
    rerun = evaluate("slda", "banking77", [0, 3], **QUIET)
    pd.testing.assert_frame_equal(ncm.against("slda"), ncm.against(rerun))
    assert (ncm.against("ncm")["mean"] == 0).all()


@pytest.mark.parametrize(
    "options, clue",
    [
        (dict(every=300), "every 300"),
        (dict(held_out=9), "held_out 9"),
        (dict(policy=Policy("half", 0.5)), "policy half"),
        (dict(seeds=[20]), "these seeds"),
        (dict(fewer=True), "other rows"),
    ],
)
def test_comparisons_with_published_runs_say_why_none_fits(options, clue, banking):
    fewer = replace(banking, X_test=banking.X_test[::4], y_test=banking.y_test[::4])
    options = dict(dataset=banking, seeds=[0]) | options
    if options.pop("fewer", False):
        options["dataset"] = fewer
    result = evaluate("ncm", **options, **QUIET)
    for compare in (result.compared, lambda: result.against("ledger_lda")):
        with pytest.raises(InputError, match=f"nothing is published for .*{clue}") as caught:
            compare()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "other, clue",
    [("ledger_lad", "did you mean 'ledger_lda'"), ("lora", "unknown"), (None, "no evaluation")],
)
def test_against_an_unknown_name_is_one_line(other, clue, ncm):
    with pytest.raises(InputError, match=clue) as caught:
        ncm.against(other)
    assert "\n" not in str(caught.value)


def test_the_summary_has_hm_and_what_was_lost_and_the_sizes_are_told(banking, ncm):
    means = ncm.summary.set_index("metric")["mean"]
    hm = 2 / (1 / ncm.runs["novel"] + 1 / ncm.runs["original"])
    first = ncm.curve.groupby("seed")["original_acc"].first().mean()
    assert means["hm"] == pytest.approx(hm.mean()) and means["starts at"] == pytest.approx(first)
    assert means["lost"] == pytest.approx(first - means["original"])
    assert ncm.sizes == "10 of 77 classes held out; test rows: 400 novel, 2,680 original"
    n = len(banking.y_test)
    assert (ncm.runs["novel_rows"] + ncm.runs["original_rows"] == n).all()


def never(texts):
    raise AssertionError("nothing is to be encoded")


@pytest.mark.parametrize("kind", ["file", "frame", "published", "vectors"])
def test_too_many_held_out_classes_are_refused_before_encoding(kind, tmp_path, monkeypatch):
    texts = Texts(["a", "b", "c"], [*"abc"], ["a", "b", "c"], [*"abc"])
    monkeypatch.setattr("ocrr.evaluator.load_texts", lambda name: texts)
    frame = pd.DataFrame({"text": [f"text {n}" for n in range(12)], "label": [*"abc"] * 4})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    dataset = {"file": tmp_path / "rows.csv", "frame": frame, "published": "banking77"}
    dataset["vectors"] = {"X": np.random.default_rng(0).normal(size=(12, 3)), "y": frame["label"]}
    with pytest.raises(InputError, match="3 classes cannot be held out of 3"):
        evaluate("ncm", dataset[kind], [0], encoder=never, held_out=3, **QUIET)


def test_against_pairs_by_seed(tiny):
    one = evaluate("slda", tiny, [2, 0, 1], **QUIET)
    other = evaluate("ncm", tiny, [0, 1, 5], **QUIET)
    table = one.against(other).set_index("metric")
    gaps = (one.runs.set_index("seed")["original"] - other.runs.set_index("seed")["original"])[
        [0, 1]
    ]
    assert table.at["original", "mean"] == pytest.approx(gaps.mean()) and (table["n"] == 2).all()
    assert table.at["original", "higher"] == (gaps > 0).sum()
    with pytest.raises(InputError, match="no stream in common"):
        one.against(evaluate("ncm", tiny, [0], "random10", **QUIET))


def test_against_refuses_other_data_under_the_same_name(tiny):
    fewer = replace(tiny, X_test=tiny.X_test[::2], y_test=tiny.y_test[::2])
    for other in (fewer, replace(fewer, encoder="another")):
        with pytest.raises(InputError, match="different data"):
            evaluate("ncm", tiny, [0], **QUIET).against(evaluate("ncm", other, [0], **QUIET))


def some_rows(result, path, seeds):
    """Add the rows of seeds to a file, one after the other."""
    for seed in seeds:
        replace(result, runs=result.runs.query("seed == @seed")).to_csv(path, keep=True)


@pytest.mark.parametrize("keep", [False, True])
def test_rows_replace_no_file_of_another_kind(tiny, tmp_path, keep):
    path = tmp_path / "tickets.csv"
    path.write_text("body,queue\nmy PIN is gone,pin\n")
    with pytest.raises(InputError, match="has no rows of the leaderboard"):
        evaluate("ncm", tiny, [0], **QUIET).to_csv(path, keep=keep)
    assert path.read_text() == "body,queue\nmy PIN is gone,pin\n"


@pytest.mark.slow
def test_two_processes_that_add_rows_to_one_file_lose_none(tiny, tmp_path):
    result = evaluate("ncm", tiny, range(40), **QUIET)
    path = tmp_path / "rows" / "ncm.csv"
    joblib.Parallel(n_jobs=2)(
        joblib.delayed(some_rows)(result, path, range(first, 40, 2)) for first in (0, 1)
    )
    assert sorted(pd.read_csv(path)["seed"]) == list(range(40))


@pytest.mark.parametrize("name", ALL)
def test_it_streams_learns_new_classes_and_stays_as_given(name, tiny):
    before = repr(vars(ALL[name]))
    first, again = (evaluate(ALL[name], tiny, "0-1", **QUIET) for _ in range(2))
    assert first.summary["mean"][0] > 0.5 and before == repr(vars(ALL[name]))
    pd.testing.assert_frame_equal(first.curve, again.curve)


@pytest.mark.parametrize("name", SKLEARN)
def test_a_class_without_a_row_is_masked_until_it_is_corrected(name, tiny):
    s = make_scenario(tiny, 0, held_out=4, cap=None)
    system = as_system(SKLEARN[name]).fit(s.X_initial, s.y_initial, s.classes)
    new = int(s.y_stream[0])
    assert set(system.predict(s.queries).tolist()) <= set(s.y_initial.tolist())
    for row in np.tile(s.X_stream[s.y_stream == new], (4, 1)):
        system.correct(row, new)
    assert system.predict(s.X_stream[:1]).tolist() == [new]
    assert set(system.predict(s.queries).tolist()) <= {*s.y_initial.tolist(), new}
    everything = as_system(SKLEARN[name]).fit(tiny.X_train, tiny.y_train, tiny.classes)
    np.testing.assert_array_equal(
        everything.predict(tiny.X_test), everything.model.predict(tiny.X_test)
    )


def test_of_two_classes_one_is_masked_until_it_is_corrected(tiny):
    X = tiny.X_train[tiny.y_train == 3]
    system = as_system(SGDClassifier()).fit(X, np.zeros(len(X), int), ("three", "other"))
    assert (system.predict(tiny.X_test) == 0).all()
    for row in tiny.X_train[tiny.y_train == 5]:
        system.correct(row, 1)
    assert (system.predict(tiny.X_test[tiny.y_test == 5]) == 1).all()


class Counting(Means):
    def storage(self):
        return Storage(bytes=self.sums.nbytes, entries=self.fits)


def test_each_seed_gets_a_deep_copy_and_storage_is_asked(tiny):
    curve = evaluate(Counting(), tiny, seeds=range(3), **QUIET).curve
    assert set(curve["stored_entries"]) == {1}
    assert (evaluate(Means(), tiny, [0], **QUIET).curve["storage_bytes"] == 0).all()


class Probable(Means):
    def predict_proba(self, X):
        p = np.exp(10 * X @ self.sums.T)
        return p / p.sum(axis=1, keepdims=True)


def test_an_object_with_probabilities_has_a_curve_and_others_have_none(tiny):
    plain, probable = (evaluate(given, tiny, [0], **QUIET) for given in (Means(), Probable()))
    assert plain.curve[["ausuc", "best_hm"]].isna().all(axis=None) and "ausuc" not in repr(plain)
    assert 0.5 < probable.runs["ausuc"].item() <= 1 and "ausuc" in repr(probable)
    assert "ausuc" not in set(plain.against(probable)["metric"])


@pytest.mark.parametrize("name", ["bernoulli", "mlp", *RIVER])
def test_a_classifier_of_a_library_with_probabilities_has_a_curve(name, tiny):
    ausuc = evaluate(ALL[name], tiny, [0], **QUIET).runs["ausuc"].item()
    assert 0.3 < ausuc <= 1


@pytest.mark.parametrize("model", [SGDClassifier(), Silent(), "mlp"])
def test_probabilities_are_there_only_where_the_model_has_them(model, tiny):
    ausuc = evaluate(ALL.get(model, model), tiny, [0], **QUIET).runs["ausuc"]
    assert ausuc.isna().item() == (model != "mlp")


@pytest.mark.parametrize("name", ["bernoulli", "mlp"])
def test_a_class_without_a_row_has_no_probability_and_the_others_sum_to_one(name, tiny):
    s = make_scenario(tiny, 0, held_out=4, cap=None)
    system = as_system(SKLEARN[name]).fit(s.X_initial, s.y_initial, s.classes)
    p = system.predict_proba(s.queries)
    assert p.shape == (len(s.queries), 12)
    assert (p[:, s.held_out] == 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)
    system.correct(s.X_stream[0], int(s.y_stream[0]))
    np.testing.assert_allclose(system.predict_proba(s.queries).sum(axis=1), 1)


class Missing(MLPClassifier):
    """Of some rows it does not know the probability of a class."""

    def predict_proba(self, X):
        p = super().predict_proba(X)
        p[::2, 0] = np.nan
        return p


class Undecided(SGDClassifier):
    """Of some rows it has no score."""

    def decision_function(self, X):
        return np.where(np.arange(len(X))[:, None] % 2, super().decision_function(X), np.nan)


class Unsure(neighbors.KNNClassifier):
    """A river classifier without a probability."""

    def predict_proba_one(self, x, **kwargs):
        return dict.fromkeys(super().predict_proba_one(x), np.nan)


class Scoreless(System):
    """A system of the registry's kind without scores."""

    def _fit(self, X, y):
        pass

    def _scores(self, X):
        return np.full((len(X), self.n_classes), np.nan)

    def storage(self):
        return Storage(bytes=0)


@pytest.mark.parametrize(
    "model",
    [
        GaussianNB(),  # a class of one row has no variance
        GaussianNB(var_smoothing=1e-2),
        OneVsRestClassifier(GaussianNB()),
        Missing(),
        Undecided(),
        Unsure(),
        Scoreless(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_nan_scores_are_an_error_with_system_seed_and_step(model, tiny):
    with pytest.raises(InputError, match=rf"{type(model).__name__} on tiny, seed 3.*step \d+.*NaN"):
        evaluate(model, tiny, [3], **QUIET)


def test_a_river_model_without_any_probability_of_a_row_gives_zeros(tiny):
    class Empty(neighbors.KNNClassifier):
        def predict_proba_one(self, x, **kwargs):
            return {}

        def predict_one(self, x, **kwargs):
            return None

    result = evaluate(Empty(), tiny, [0], **QUIET)
    assert result.runs["novel"].item() == result.runs["ausuc"].item() == 0


class Seeded(Means):
    def __init__(self, k=5, *, seed=None):
        super().__init__()
        self.seed = seed
        self.k = k


def trained(model, data):
    """A model of river that has met all training rows, those of classes to be held out too."""
    for x, y in zip(data.X_train, data.y_train):
        model.learn_one(dict(enumerate(x.tolist())), int(y))
    return model


TRAINED = {
    "river": lambda data: trained(neighbors.KNNClassifier(), data),
    "river pipeline": lambda data: trained(
        preprocessing.StandardScaler() | naive_bayes.GaussianNB(), data
    ),
    "river list": lambda data: trained(
        ensemble.VotingClassifier([neighbors.KNNClassifier(), naive_bayes.GaussianNB()]), data
    ),
    "river of scikit-learn": lambda data: trained(
        compat.convert_sklearn_to_river(SGDClassifier(), classes=list(range(12))), data
    ),
    "scikit-learn": lambda data: BernoulliNB().fit(data.X_train, data.y_train),
    "scikit-learn of river": lambda data: compat.convert_river_to_sklearn(
        trained(neighbors.KNNClassifier(), data)
    ),
}


@pytest.mark.parametrize("make_one", [False, True], ids=["object", "function"])
@pytest.mark.parametrize("kind", TRAINED)
def test_a_trained_classifier_of_a_library_starts_unfitted(kind, make_one, tiny):
    model = TRAINED[kind](tiny)
    curve = evaluate((lambda: model) if make_one else model, tiny, [0], **QUIET).curve
    assert curve["novel_acc"].iloc[0] == 0 < curve["novel_acc"].iloc[-1]


class Bare:
    """A trained classifier with scikit-learn's methods, but for parameters."""

    def __init__(self):
        self.classes_ = [0]

    def partial_fit(self, X, y, classes): ...

    def predict(self, X): ...


def test_a_trained_classifier_that_cannot_be_made_anew_is_refused(tiny):
    with pytest.raises(InputError, match="Bare has no get_params"):
        evaluate(Bare(), tiny, [0], **QUIET)
    with pytest.raises(InputError, match="Bare is fitted already"):
        evaluate(Bare, tiny, [0], **QUIET)


class Reversed(ClassifierMixin, BaseEstimator):
    """Nearest mean with the columns of its scores in another order than class ids."""

    def partial_fit(self, X, y, classes=None):
        if not hasattr(self, "classes_"):
            self.classes_ = np.array(classes)[::-1]
            self.sums_ = np.zeros((len(classes), X.shape[1]))
        np.add.at(self.sums_, len(self.sums_) - 1 - y, X)
        return self

    def predict_proba(self, X):
        lengths = np.linalg.norm(self.sums_, axis=1, keepdims=True)
        p = np.exp(20 * X @ (self.sums_ / np.maximum(lengths, 1e-12)).T)
        return p / p.sum(axis=1, keepdims=True)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class Met(Reversed):
    """Scores of the classes that it has met only."""

    def partial_fit(self, X, y, classes=None):
        super().partial_fit(X, y, np.arange(12))
        self.all_ = getattr(self, "all_", self.classes_)
        self.classes_ = self.all_[self.sums_.any(axis=1)]
        return self

    def predict_proba(self, X):
        p = super().predict_proba(X)[:, self.sums_.any(axis=1)]
        return p / p.sum(axis=1, keepdims=True)


class Thirds(Reversed):
    """Answers otherwise than its scores say."""

    def predict(self, X):
        return np.full(len(X), 3)


def test_scores_are_those_of_the_classes_that_a_model_names(tiny):
    ordered = evaluate(Means, tiny, [0], **QUIET).runs
    for model in (Reversed(), Met()):
        found = evaluate(model, tiny, [0], **QUIET).runs
        for metric in ("novel", "original"):
            assert found[metric].tolist() == ordered[metric].tolist()
        assert found["ausuc"][0] > 0.9


def test_a_predict_of_its_own_counts(tiny):
    system = as_system(Thirds()).fit(tiny.X_train, tiny.y_train, tiny.classes)
    assert set(system.predict(tiny.X_test)) == {3}


def needs(a, b): ...


@pytest.mark.parametrize("maker", [make_scenario, needs, SGDOneClassSVM.set_params, Storage, dict])
def test_what_cannot_be_made_with_a_seed_alone_is_one_line(maker, tiny):
    with pytest.raises(InputError, match="cannot be (made|used)"):
        evaluate(maker, tiny, [0], **QUIET)


def fails(texts):
    open("/nonexistent")


def leaves(texts):
    sys.exit(0)


@pytest.mark.parametrize("encoder", [fails, leaves, lambda texts: {}["none"]])
def test_an_error_in_an_encoder_is_none_of_the_data(encoder):
    frame = pd.DataFrame({"text": [f"text {n}" for n in range(12)], "label": [*"abc"] * 4})
    with pytest.raises(RuntimeError, match="the encoder failed"):
        evaluate("ncm", frame, [0], encoder=encoder, **QUIET)


FOREST = forest.ARFClassifier(n_models=2, seed=1)


@pytest.mark.parametrize(
    "model, part",
    [
        (preprocessing.StandardScaler() | FOREST, lambda model: model["ARFClassifier"].seed),
        (multiclass.OneVsRestClassifier(FOREST), lambda model: model.classifier.seed),
        (ensemble.VotingClassifier([FOREST, FOREST]), lambda model: model.models[0].seed),
        (
            compat.convert_river_to_sklearn(FOREST.clone()),
            lambda model: model.river_estimator.seed,
        ),
        (OneVsRestClassifier(SGDClassifier()), lambda model: model.estimator.random_state),
    ],
    ids=["pipeline", "wrapper", "list", "river in scikit-learn", "scikit-learn in itself"],
)
def test_parts_of_a_model_get_the_seed(model, part):
    assert part(as_system(model, 7).model) == 7


def test_a_pipeline_with_a_forest_repeats_its_results(tiny):
    model = preprocessing.StandardScaler() | forest.ARFClassifier(n_models=2)
    one, other = (evaluate(model, tiny, [5], **QUIET).curve for _ in range(2))
    pd.testing.assert_frame_equal(one, other)


@pytest.mark.parametrize(
    "model",
    [
        linear_model.LinearRegression(),
        preprocessing.StandardScaler() | linear_model.LinearRegression(),
        preprocessing.TargetStandardScaler(linear_model.LinearRegression()),
        neighbors.KNNRegressor(),
        cluster.KMeans(),
        compat.convert_river_to_sklearn(linear_model.LinearRegression()),
        SGDRegressor(),
        SGDRegressor,
        SGDOneClassSVM(),
        MiniBatchKMeans(),
    ],
    ids=str,
)
def test_what_is_no_classifier_is_refused(model):
    with pytest.raises(InputError, match="is no classifier") as caught:
        evaluate(model, "missing")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "given, found",
    [
        (Seeded, lambda system: (system.model.seed, system.model.k)),
        (lambda number: Seeded(seed=number), lambda system: (system.model.seed, system.model.k)),
        (lambda k=5: Seeded(k, seed=3), lambda system: (system.model.seed, system.model.k)),
        (SGDClassifier, lambda system: (system.model.random_state, 5)),
        (SGDClassifier(random_state=1), lambda system: (system.model.random_state, 5)),
        (make("er", 9), lambda system: (system.seed, 5)),
        (RIVER["one against the rest"], lambda system: (system.seed, 5)),
    ],
)
def test_the_seed_is_passed_on_where_it_is_taken(given, found):
    assert found(as_system(given, 3)) == (3, 5)


def test_global_draws_are_repeated(tiny):
    class Noisy(Means):
        def fit(self, X, y, classes):
            super().fit(X, y, classes)
            self.sums += np.random.normal(size=self.sums.shape)

    both = evaluate(Noisy(), tiny, [0, 1], **QUIET).curve
    one = evaluate(Noisy(), tiny, [1], **QUIET).curve
    assert one.equals(both[both["seed"] == 1].reset_index(drop=True))


@pytest.mark.parametrize(
    "options, clue",
    [
        (dict(system=LogisticRegression()), "LogisticRegression cannot be used"),
        (
            dict(system=type("Held", (Means,), {"__deepcopy__": lambda self, memo: 1 / 0})()),
            "Held cannot be copied",
        ),
        (dict(system=linear_model.LogisticRegression()), "OneVsRestClassifier"),
        (dict(system="substrat"), "unknown system.*substrate"),
        (dict(system=TextSystem(), dataset={}), "sentences"),
        (dict(policy="orcale"), "policy"),
        (dict(policy=Policy("oracle", 0.5)), "policy 'oracle'"),
        (dict(dataset="rows.txt"), "rows.txt: not a file"),
        *((dict(every=every), "every") for every in (0, -5, 2.5, "50", True, None)),
        *((dict(held_out=held_out), "held_out") for held_out in (0, 10.0, True, "3", np.nan)),
        *((dict(seeds=seeds), "seeds") for seeds in ("3-1", -1, "-1", "", [], [0, 0], [1.0])),
        *((dict(jobs=jobs), "jobs") for jobs in (0, 1.5)),
        *((dict(encoder=encoder), "encoder") for encoder in (3, None, object(), Means, [str])),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_runs(options, clue):
    with pytest.raises(InputError, match=clue) as caught:
        evaluate(**dict(system="ncm", dataset="missing") | options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "answers, clue",
    [
        (lambda X: np.zeros((len(X), 1), int), "shape"),
        (lambda X: ["card"] * len(X), "<U4"),
        (lambda X: np.full(len(X), 12), "12 12"),
    ],
)
def test_predictions_that_are_not_class_ids_are_refused(answers, clue, tiny):
    with pytest.raises(InputError, match=f"seed 4.*Odd.predict must give class ids.*{clue}"):
        evaluate(
            type("Odd", (Means,), {"predict": lambda self, X: answers(X)})(), tiny, [4], **QUIET
        )


@pytest.mark.parametrize(
    "answers", [lambda p: p[:, :3], lambda p: p - 1, lambda p: p * np.nan, lambda p: p + np.inf]
)
def test_probabilities_that_are_none_are_refused(answers, tiny):
    odd = type(
        "Odd",
        (Probable,),
        {"predict_proba": lambda self, X: answers(Probable.predict_proba(self, X))},
    )
    with pytest.raises(InputError, match="Odd.predict_proba must give numbers .*, 12"):
        evaluate(odd(), tiny, [4], **QUIET)


@pytest.mark.parametrize(
    "correct, cause",
    [
        (lambda self, x, y: {}["no such thing"], KeyError),
        (lambda self, x, y: sys.exit(0), SystemExit),
    ],
)
def test_an_error_or_exit_in_a_system_names_the_seed(correct, cause, tiny):
    failing = type("Failing", (Means,), {"correct": correct})
    with pytest.raises(RuntimeError, match="Failing on tiny, seed 0") as caught:
        evaluate(failing, tiny, [0], **QUIET)
    assert isinstance(caught.value.__cause__, cause)


@pytest.mark.parametrize("maker", [lambda: open("/nonexistent"), lambda: sys.exit(0)])
def test_an_error_or_exit_in_a_function_that_makes_a_system_is_one_of_it(maker, tiny):
    with pytest.raises(RuntimeError, match="own_system failed"):
        evaluate(maker, tiny, [0], **QUIET)


def test_any_number_of_jobs_gives_the_same(tiny):
    for given in (SGDClassifier(), lambda seed: Means(), Refit(Centroids(), every=5)):
        one, many = (
            evaluate(given, tiny, [4, 0], "random50", jobs=jobs, **QUIET).curve
            for jobs in (1, 100_000)
        )
        pd.testing.assert_frame_equal(one, many)


MINE = """
import os
import numpy as np

class Mine:
    def __init__(self, step=1):
        self.step = step

    def fit(self, X, y, classes):
        with open("fitted", "a") as file:
            print("once", file=file)
        with open("fitted") as file:
            if str(len(file.readlines())) == os.environ["STOP"]:
                os._exit(9)
        self.sums = np.eye(len(classes))[y].T @ X

    def predict(self, X):
        return (X @ self.sums.T).argmax(axis=1)

    def correct(self, x, y):
        self.sums[y] += self.step * x
"""
KILLED = """
import mine, ocrr
run = ocrr.evaluate(mine.Mine(), {path!r}, [0, 1, 2], every=5, progress=False, out="out")
print(run.curve.to_csv())
"""


def test_resume_after_a_kill_equals_an_uninterrupted_run(tmp_path, vectors):
    (tmp_path / "mine.py").write_text(MINE)

    def run(folder, stop=""):
        where = tmp_path / folder
        where.mkdir(exist_ok=True)
        more = {"STOP": stop, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
        command = [sys.executable, "-c", KILLED.format(path=str(vectors))]
        kept = dict(env=os.environ | more, capture_output=True, text=True, cwd=where)
        done = subprocess.run(command, **kept)
        return done, (where / "fitted").read_text().count("once")

    killed, fits = run("one", stop="3")
    assert (killed.returncode, killed.stdout, fits) == (9, "", 3)
    resumed, fits = run("one")
    whole, _ = run("other")
    assert resumed.stdout == whole.stdout and resumed.stdout.count("\n") > 9
    assert (fits, whole.stderr) == (4, "")
    assert resumed.stderr.startswith("2 of 3 runs are taken from out: a changed system wants ")


class Counted(Means):
    n_fits = 0

    def __init__(self, k=1):
        super().__init__()
        self.k = k

    def fit(self, X, y, classes):
        super().fit(X, y, classes)
        Counted.n_fits += 1


def test_runs_of_your_own_are_taken_from_the_folder_by_all_that_is_declared(tiny, tmp_path, capsys):
    def fits(system=Counted(), dataset=tiny, seeds=(0, 1), out=tmp_path, **options):
        before = Counted.n_fits
        evaluate(system, dataset, seeds, out=out, **options, **QUIET)
        said = capsys.readouterr().err
        assert said.count("\n") == (Counted.n_fits - before < len(seeds))
        return Counted.n_fits - before

    other = replace(tiny, X_test=tiny.X_test[::-1])
    assert fits() == 2
    for options in (
        {},
        {"version": "2"},
        {"system": Counted(k=2)},
        {"name": "another"},
        {"dataset": other},
        {"policy": "random50"},
        {"every": 10},
        {"held_out": 4},
        {"out": tmp_path / "other"},
    ):
        assert (options, fits(**options)) == (options, 2 if options else 0)
    assert (fits(), fits(seeds=(1, 2, 3)), fits(out=None), fits(out=None)) == (0, 2, 2, 2)


@pytest.mark.parametrize(
    "system, settings",
    [
        (Seeded(k=3), "'k': 3"),
        (Seeded, "()"),
        (functools.partial(Seeded, k=3), "'k': 3"),
        (SGDClassifier(alpha=0.5), "'alpha': 0.5"),
        (OneVsRestClassifier(SGDClassifier(alpha=0.5)), "'estimator__alpha': 0.5"),
        (neighbors.KNNClassifier(n_neighbors=3), "'n_neighbors': 3"),
        (preprocessing.StandardScaler() | neighbors.KNNClassifier(4), "'n_neighbors': 4"),
    ],
)
def test_settings_of_a_system_are_in_what_its_runs_are_known_by(system, settings):
    found = settings_of(system)
    assert settings in found and found == settings_of(system) and " at 0x" not in found


def test_a_folder_that_cannot_be_written_is_refused(tiny, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot write into .*file"):
        evaluate(Means(), tiny, [0], out=tmp_path / "file", **QUIET)


def test_a_system_that_cannot_be_sent_to_other_processes_is_one_line(tiny):
    lock = threading.Lock()
    with pytest.raises(InputError, match="sent to other processes .*jobs=1"):
        evaluate(lambda: Means() if lock else None, tiny, [0, 1], jobs=2, **QUIET)


def test_finished_seeds_of_a_name_are_cached_by_all_that_decides_them(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("OCRR_CACHE_DIR", str(tmp_path))
    counts = []
    for options in (
        {},
        {},
        {"every": 10},
        {"policy": "random50"},
        {"held_out": 4},
        {"system": "ncm_cosine"},
    ):
        evaluate(**dict(system="ncm", dataset=tiny, seeds=[0, 1], progress=False) | options)
        counts.append(sum(path.is_file() for path in tmp_path.rglob("*")))
    assert counts == [2, 2, 4, 6, 8, 10]
    evaluate(Means(), tiny, [2], **QUIET)
    assert sum(path.is_file() for path in tmp_path.rglob("*")) == 10


class Centroids:
    """Somebody's classifier of vectors with fit and predict alone."""

    def fit(self, X, y):
        self.classes = np.unique(y)
        self.means = np.array([X[y == label].mean(axis=0) for label in self.classes])

    def predict(self, X):
        return self.classes[(X @ self.means.T).argmax(axis=1)]


class Scored(Centroids):
    """The same with scores, in the order of the labels it was given."""

    def decision_function(self, X):
        return X @ self.means.T


# With what gives probabilities, if anything does.
REFITTED = {
    "logistic": (LogisticRegression(), "predict_proba"),
    "forest": (RandomForestClassifier(5), "predict_proba"),
    "neighbours": (KNeighborsClassifier(), "predict_proba"),
    "histogram": (HistGradientBoostingClassifier(max_iter=2), "predict_proba"),
    "pipeline": (make_pipeline(StandardScaler(), LinearSVC()), "decision_function"),
    "search": (GridSearchCV(LinearSVC(), {"C": [0.1, 1]}, cv=2), "decision_function"),
    "votes": (VotingClassifier([("tree", DecisionTreeClassifier())]), None),
    "own": (Centroids(), None),
    "own with scores": (Scored(), "decision_function"),
}


@pytest.fixture
def stream(tiny):
    """Rows and class ids of a scenario whose stream is of new classes only."""
    return make_scenario(tiny, 0, held_out=3, cap=None)


@pytest.mark.parametrize("name", REFITTED)
@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
def test_a_classifier_without_partial_fit_is_fitted_anew_after_some_corrections(name, stream):
    model, scores = REFITTED[name]
    system = as_system(Refit(model, every=20), 4)
    system.fit(stream.X_initial, stream.y_initial, stream.classes)
    for n in range(45):
        fitted_on = n // 20 * 20  # corrections
        assert system.refits == n // 20
        if n % 10 == 5:
            X = np.concatenate([stream.X_initial, stream.X_stream[:fitted_on]])
            y = np.concatenate([stream.y_initial, stream.y_stream[:fitted_on]])
            alone = _unfitted(model, 4)
            alone.fit(X, y)
            np.testing.assert_array_equal(
                system.predict(stream.queries), alone.predict(stream.queries)
            )
            if scores == "predict_proba":
                p = system.predict_proba(stream.queries)[:, np.unique(y)]
                np.testing.assert_allclose(p, alone.predict_proba(stream.queries), atol=1e-6)
        system.correct(stream.X_stream[n], int(stream.y_stream[n]))
    assert system.storage().entries == len(stream.y_initial) + 45
    assert not hasattr(model, "classes_")  # what was given stays as it was


@pytest.mark.parametrize("name", REFITTED)
@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
def test_a_refitted_classifier_learns_and_has_a_curve_where_it_has_scores(name, tiny):
    model, scores = REFITTED[name]
    result = evaluate(Refit(model, every=10), tiny, "0-1")
    assert result.curve.query("step == 0")["novel_acc"].eq(0).all()
    assert result.runs["novel"].gt(0.5).all()
    assert result.runs["ausuc"].gt(0.3).all() == (scores is not None)
    assert result.runs["refits"].tolist() == (result.runs["corrections"] // 10).tolist()
    assert result.name == f"Refit_{type(model).__name__}"
    assert repr(result).endswith(f", {result.runs['refits'].mean():.0f} refits>")


def test_a_refitted_classifier_answers_the_stream_as_row_by_row(tiny, stream):
    watched, asked = (as_system(Refit(LogisticRegression(), every=7)) for _ in range(2))
    asked.watch = lambda Q: Unwatched(asked, Q)
    runs = [list(run_stream(one, stream, POLICIES["oracle"], 5)) for one in (watched, asked)]
    for one, other in zip(*runs):
        np.testing.assert_array_equal(one.given, other.given)
        assert one.ausuc == pytest.approx(other.ausuc)


def test_of_two_classes_one_score_is_enough(stream):
    known = np.isin(stream.y_initial, np.unique(stream.y_initial)[:2])
    system = as_system(Refit(LinearSVC(), every=1))
    system.fit(stream.X_initial[known], stream.y_initial[known], stream.classes)
    p = system.predict_proba(stream.queries)
    assert (p.argmax(axis=1) == system.predict(stream.queries)).all()
    assert ((p > 0).sum(axis=1) == 2).all()


def test_the_seed_is_passed_on_to_what_is_refitted_and_training_is_not(tiny):
    trained = RandomForestClassifier(3).fit(tiny.X_train, tiny.y_train)
    system = as_system(lambda seed: Refit(trained), 7)
    system.fit(tiny.X_train[:50], tiny.y_train[:50], tiny.classes)
    assert system.fitted_model.random_state == 7 and trained.random_state is None
    one, again = (evaluate(Refit(trained), tiny, [3]).curve for _ in range(2))
    pd.testing.assert_frame_equal(one, again)


def test_settings_of_what_is_refitted_are_in_what_its_runs_are_known_by():
    found = settings_of(Refit(LogisticRegression(C=0.5), every=30))
    assert "'C': 0.5" in found and "30" in found


def test_scores_of_pairs_of_classes_are_refused(tiny):
    with pytest.raises(InputError, match="SVC.decision_function must give one column for each"):
        evaluate(Refit(SVC(decision_function_shape="ovo")), tiny, [0])


class Stub:
    """Has the methods, but answers nothing that is a class id."""

    def __init__(self, answer):
        self.answer = answer

    def fit(self, X, y):
        pass

    def predict(self, X):
        return np.full(len(X), self.answer)


@pytest.mark.parametrize("answer", [12, 0.5, "card", np.nan])
def test_answers_of_what_is_refitted_must_be_class_ids(answer, tiny):
    with pytest.raises(InputError, match="seed 4.*Stub.predict must give class ids"):
        evaluate(Refit(Stub(answer)), tiny, [4])


@pytest.mark.parametrize(
    "model, every, clue",
    [
        (LogisticRegression, 50, r"give an object, as LogisticRegression\(\)"),
        ("ncm", 50, "fit and predict"),
        (make("ncm"), 50, "fit and predict"),
        (LinearRegression(), 50, "is no classifier"),
        (LogisticRegression(), 0, "every 0"),
        (LogisticRegression(), 2.5, "every 2.5"),
    ],
)
def test_what_cannot_be_refitted_is_refused(model, every, clue):
    with pytest.raises(InputError, match=clue) as caught:
        Refit(model, every=every)
    assert "\n" not in str(caught.value)


def test_a_classifier_without_partial_fit_is_told_of_the_one_that_refits():
    with pytest.raises(InputError, match="LogisticRegression cannot.* ocrr.Refit of one without"):
        evaluate(LogisticRegression(), "missing")


SEVERAL = {"means": Means(), "forest": Refit(RandomForestClassifier(5), every=10), "ncm": "ncm"}


@pytest.fixture(scope="module")
def several(tiny):
    return evaluate(SEVERAL, tiny, "0-3")


def test_several_classifiers_are_one_result_with_a_row_each(several, tiny):
    assert several.names == [*SEVERAL] == several.table.index.tolist()
    assert several.summary["system"].drop_duplicates().tolist() == [*SEVERAL]
    for name, system in SEVERAL.items():
        alone = evaluate(system, tiny, "0-3", name=name)
        one = several[name]
        pd.testing.assert_frame_equal(one.curve, alone.curve)
        pd.testing.assert_frame_equal(one.summary, alone.summary)
        assert (
            several.table.loc[name].tolist()
            == alone.table.loc[name].reindex(several.table.columns, fill_value="–").tolist()
        )
    with pytest.raises(InputError, match="unknown system 'nmc'.*did you mean 'ncm'"):
        several["nmc"]


def test_names_of_several_are_their_own(tiny):
    found = evaluate([Means(), "ncm", Means, Refit(BernoulliNB()), Refit(BernoulliNB())], tiny, [0])
    assert found.names == ["Means", "ncm", "Means_2", "Refit_BernoulliNB", "Refit_BernoulliNB_2"]
    assert len(found.runs) == 5 == len(repr(found).splitlines())


@pytest.mark.parametrize(
    "systems, options, clue",
    [
        ([], {}, "no system"),
        ({}, {}, "no system"),
        (["ncm", "slda"], dict(name="both"), "name 'both' is for one system"),
        ({"a<b": "ncm"}, {}, "not a plain name"),
        ({1: "ncm"}, {}, "not a plain name"),
        (["ncm", "substrat"], {}, "unknown system.*substrate"),
        (["ncm", LogisticRegression()], {}, "LogisticRegression cannot be used"),
    ],
)
def test_several_that_cannot_be_used_are_refused_before_anything_runs(systems, options, clue):
    with pytest.raises(InputError, match=clue) as caught:
        evaluate(systems, "missing", **options)
    assert "\n" not in str(caught.value)


def test_several_are_compared_with_what_is_published_and_with_another(banking):
    both = evaluate(["ncm", "slda"], banking, [0, 3])
    ranked = both.compared()
    assert ranked["own"].sum() == 2 and len(ranked) == PUBLISHED + 2
    gaps = both.against("ncm")
    assert gaps.columns[0] == "system"
    zero = gaps[gaps["system"] == "ncm"]["mean"]
    assert (zero == 0).all()
    alone = both["slda"].against("ncm").reset_index(drop=True)
    there = gaps[gaps["system"] == "slda"].drop(columns="system").reset_index(drop=True)
    pd.testing.assert_frame_equal(alone, there)
    with pytest.raises(InputError, match=r"several systems.*\['ncm'\]"):
        both["slda"].against(both)


def test_the_table_has_means_and_half_of_their_intervals(several):
    row = several["ncm"].summary.set_index("metric").loc["novel"]
    half = (row["high"] - row["low"]) / 2
    assert several.table.at["ncm", "novel"] == f"{row['mean']:.3f} ± {half:.3f}"
    assert several.table.columns.tolist() == ["novel", "original", "hm", "ausuc", "corrections"]
    assert several.table.at["means", "ausuc"] == "–"  # it has no probabilities
    assert "ausuc" not in several["means"].table
    assert "±" not in several["ncm"].table.iloc[0, -1][:2]


def test_a_table_of_one_seed_has_no_interval(tiny):
    assert evaluate("ncm", tiny, [0]).table.at["ncm", "novel"].count("±") == 0


def test_the_latex_table_has_a_row_each_and_names_that_latex_takes(tiny):
    named = {"my_means 50%": Means(), "ncm": "ncm"}
    lines = evaluate(named, tiny, "0-2").to_latex().splitlines()
    assert lines[0] == r"\begin{tabular}{lrrrrr}" and lines[-1] == r"\end{tabular}"
    assert sum(line.startswith(r"my\_means 50\% & ") for line in lines) == 1
    assert sum(line.count(r"$\pm$") for line in lines) == 9  # the means have no area


def test_the_plot_has_two_lines_and_bands_of_each_system(several):
    axes = several.plot()
    drawn = {line.get_label(): line for line in axes.lines}
    assert [*drawn] == [f"{name}, {axis}" for name in SEVERAL for axis in ("novel", "original")]
    assert len(axes.collections) == 6
    line = drawn["ncm, novel"]
    ends = several["ncm"].runs["novel"].mean()
    assert line.get_xdata()[0] == line.get_ydata()[0] == 0
    assert line.get_ydata()[-1] == pytest.approx(ends)
    assert line.get_xdata()[-1] == several.curve["step"].max()
    assert several["ncm"].plot(axes) is axes and len(axes.lines) == 8
    plt.close(axes.figure)


def test_a_plot_of_one_seed_has_no_band(tiny):
    axes = evaluate("ncm", tiny, [0]).plot()
    assert len(axes.lines) == 2 and not axes.collections
    plt.close(axes.figure)


@pytest.mark.parametrize("missing, use", [("matplotlib.pyplot", "plot"), ("jinja2", "to_latex")])
def test_a_missing_package_is_one_line_with_its_extra(missing, use, several, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(InputError, match=r"pip install 'ocrrlib\[report\]'"):
        getattr(several, use)()


class Terminal(io.StringIO):
    def isatty(self):
        return True


class OutStream(io.StringIO):
    """Where a notebook's stderr goes."""

    __module__ = "ipykernel.iostream"


@pytest.mark.parametrize(
    "stderr, progress, shown",
    [
        (Terminal, None, True),
        (OutStream, None, True),
        (io.StringIO, None, False),
        (Terminal, False, False),
        (io.StringIO, True, True),
    ],
)
def test_progress_is_shown_by_name_where_somebody_looks(stderr, progress, shown, tiny, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stderr())
    evaluate([Means(), "ncm"], tiny, [0], progress=progress)
    said = sys.stderr.getvalue()
    assert all((f"{name}: 100%" in said) == shown for name in ("Means", "ncm"))
    assert bool(said) == shown
