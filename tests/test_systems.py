"""The contract of a system, kept by every row of the registry."""

import pickle

import numpy as np
import pytest
from conftest import EMBEDDED, assert_watched_equals_predicted, rows

from ocrrlib.errors import InputError
from ocrrlib.scenario import make_scenario
from ocrrlib.systems import BUDGETS, SYSTEMS, make
from ocrrlib.systems.base import Storage
from ocrrlib.systems.klda import KLDA

STATIC = {"static_knn", "static_linear"}
NEIGHBOURS = {name for name in SYSTEMS if name.startswith(("substrate", "bounded"))}
every_system = pytest.mark.parametrize("name", EMBEDDED)  # tests/test_lora.py has the same for the others


@pytest.fixture(scope="module")
def s(tiny):
    """Eight known classes, four new ones; new rows stream by, known ones among them."""
    return make_scenario(tiny, 0, held_out=4, cap=None)


def fitted(name, s, seed=0):
    return make(name, seed).fit(s.X_initial, s.y_initial, s.classes)


def corrections(s, n):
    """New rows, with some known ones in between."""
    X, y = np.concatenate([s.X_stream, s.X_initial]), np.concatenate([s.y_stream, s.y_initial])
    chosen = np.random.default_rng(5).permutation(len(y))[:n]
    return list(zip(X[chosen], y[chosen].tolist()))


def teach(system, pairs):
    for x, y in pairs:
        system.correct(x, y)
    return system


def assert_ids(predictions, s, m):
    assert predictions.shape == (m,) and predictions.dtype.kind == "i"
    assert -1 <= predictions.min() and predictions.max() < len(s.classes)


@every_system
@pytest.mark.parametrize("seed", [0, 3])
def test_same_seed_gives_the_same_predictions(name, seed, s):
    first, second = fitted(name, s, seed), fitted(name, s, seed)
    for pair in corrections(s, 60):
        teach(first, [pair])
        teach(second, [pair])
        np.testing.assert_array_equal(first.predict(s.queries[:5]), second.predict(s.queries[:5]))
    np.testing.assert_array_equal(first.predict(s.queries), second.predict(s.queries))
    assert first.storage() == second.storage()


@every_system
def test_corrections_alone_change_a_system(name, s):
    system = fitted(name, s)
    before = system.predict(s.queries)
    np.testing.assert_array_equal(system.predict(s.queries), before)
    teach(system, corrections(s, 150))
    changed = not np.array_equal(system.predict(s.queries), before)
    assert changed != (name in STATIC)


@every_system
def test_initial_state_answers_known_classes_well(name, s):
    predictions = fitted(name, s).predict(s.X_original)
    chance = 1 / len(np.unique(s.y_initial))
    assert np.mean(predictions == s.y_original) > 2 * chance
    assert set(predictions.tolist()) <= set(s.y_initial.tolist()) | set(s.held_out.tolist())


# hnswlib keeps its rows and links, but not the state of its random generator.
@pytest.mark.parametrize("name", [name for name in EMBEDDED if name != "substrate_hnsw"])
def test_pickled_system_goes_on_as_the_original(name, s):
    pairs = corrections(s, 160)
    system = make(name, 2)
    system = pickle.loads(pickle.dumps(system)).fit(s.X_initial, s.y_initial, s.classes)
    for part in (pairs[:40], pairs[40:]):
        copy = pickle.loads(pickle.dumps(system))
        np.testing.assert_array_equal(copy.predict(s.queries), system.predict(s.queries))
        teach(copy, part)
        teach(system, part)
        np.testing.assert_array_equal(copy.predict(s.queries), system.predict(s.queries))
        assert copy.storage() == system.storage()


@every_system
def test_empty_initial_set_is_coped_with(name, s):
    system = make(name).fit(s.X_initial[:0], s.y_initial[:0], s.classes)
    assert_ids(system.predict(s.queries), s, len(s.queries))
    answers = system.watch(s.queries)
    assert_ids(answers(np.arange(len(s.queries))), s, len(s.queries))
    teach(system, [(s.X_stream[0], int(s.y_stream[0]))])
    assert_ids(system.predict(s.queries), s, len(s.queries))
    if name in NEIGHBOURS:  # one entry is all there is to vote
        assert set(system.predict(s.queries).tolist()) == {int(s.y_stream[0])}
    teach(system, corrections(s, 30))
    assert_ids(system.predict(s.queries), s, len(s.queries))
    np.testing.assert_array_equal(answers(np.arange(len(s.queries))), system.predict(s.queries))


@pytest.mark.parametrize("name", sorted(NEIGHBOURS | {"static_knn", "knn_lm"}))
def test_fewer_entries_than_neighbours_wanted_still_vote(name):
    X = np.eye(4, dtype=np.float32)
    system = make(name).fit(X[:2], np.array([1, 0]), range(4))
    assert system.predict(X[:2]).tolist() == [1, 0]
    system.correct(X[2], 3)
    learnt = [1, 0] if name == "static_knn" else [1, 0, 3]
    assert system.predict(X[: len(learnt)]).tolist() == learnt


R = rows(24, 8, 0)
TWINS = R[:4] + np.float32(2e-4) * rows(4, 8, 1)  # what is encoded twice may differ in the last digit
# Rows that say nothing of how rows of one class vary: the initial ones, and those of corrections.
ALIKE = {
    "two equal rows a class": (np.repeat(R[:4], 2, 0), np.repeat(np.arange(4), 2), R[4:], np.arange(20) % 8),
    "three equal rows a class": (np.repeat(R[:4], 3, 0), np.repeat(np.arange(4), 3), R[4:], np.arange(20) % 8),
    "one row a class, and itself again": (R[:6], np.arange(6), R[np.arange(30) % 6], np.arange(30) % 6),
    "one row a class, and its twin": (R[:4], np.arange(4), TWINS[np.arange(20) % 4], np.arange(20) % 4),
    "one row a class, then others": (R[:6], np.arange(6), R[6:], np.arange(18) % 8),
    "one row under two labels": (R[[0] * 6], np.arange(6) % 2, R[[0] * 12], np.arange(12) % 4),
}


@pytest.mark.parametrize("X, y, more, labels", ALIKE.values(), ids=ALIKE)
@every_system
def test_rows_that_do_not_vary_within_a_class_are_coped_with(name, X, y, more, labels):
    Q = np.concatenate([R, rows(10, 8, 2)])
    one = KLDA(features=200) if name == "klda" else make(name)  # 2000 features take long to invert again and again
    system, everything = one.fit(X, y, range(8)), np.arange(len(Q))
    answers, p_of = system.watch(Q), system.watch_probabilities(Q)
    for step in range(len(labels) + 1):
        if step:
            system.correct(more[step - 1], int(labels[step - 1]))
        if step not in (0, 1, 2, 5, len(labels)):
            continue
        predicted, p = system.predict(Q), system.probabilities(Q)
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-9)
        np.testing.assert_array_equal(np.concatenate([system.predict(q[None]) for q in Q]), predicted)
        np.testing.assert_array_equal(answers(everything), predicted)
        np.testing.assert_allclose(p_of(everything), p, atol=1e-6)


@every_system
def test_unseen_class_is_accepted_and_learnt(name, s):
    system, x, new = fitted(name, s), s.X_stream[0], int(s.y_stream[0])
    assert new not in s.y_initial and system.predict(x[None])[0] != new
    teach(system, [(x, new)] * 150)
    assert_ids(system.predict(s.queries), s, len(s.queries))
    if name != "ewc":  # on so few rows its published penalty overshoots
        assert (system.predict(x[None])[0] == new) != (name in STATIC)


@every_system
def test_a_class_that_was_never_met_is_not_answered_however_far_away_the_query_is(name, s):
    system, Q = fitted(name, s), np.concatenate([-s.X_initial, rows(100, s.X_initial.shape[1], 3)])
    met = set(s.y_initial.tolist())
    for x, y in corrections(s, 3):
        assert set(system.predict(Q).tolist()) <= met
        system.correct(x, y)
        met.add(y)


@every_system
def test_batch_equals_row_by_row(name, s):
    system = fitted(name, s)
    for part in ([], corrections(s, 100)):
        teach(system, part)
        whole = system.predict(s.queries)
        np.testing.assert_array_equal(np.concatenate([system.predict(x[None]) for x in s.queries]), whole)
        parts = [system.predict(part) for part in np.array_split(s.queries, 7)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
        np.testing.assert_array_equal(system.predict(s.queries[::-1]), whole[::-1])
    assert system.predict(s.queries[:0]).shape == (0,)


@every_system
def test_fit_again_starts_afresh(name, s, tiny):
    other = make_scenario(tiny, 1, held_out=6)
    used = teach(make(name, 4).fit(other.X_initial[:, ::-1], other.y_initial, other.classes), corrections(other, 50))
    used.fit(s.X_initial, s.y_initial, s.classes)
    new = fitted(name, s, 4)
    for part in ([], corrections(s, 80)):
        np.testing.assert_array_equal(teach(used, part).predict(s.queries), teach(new, part).predict(s.queries))
        assert used.storage() == new.storage()


@every_system
def test_fit_returns_the_system(name, s):
    system = make(name)
    assert system.fit(s.X_initial, s.y_initial, s.classes) is system


@every_system
def test_fit_again_may_change_dimension_and_classes(name, s):
    system = fitted(name, s)
    X = np.eye(5, dtype=np.float32)
    system.fit(X, np.arange(5) % 2, ("no", "yes", "perhaps"))
    predictions = teach(system, [(X[0], 2)]).predict(X)
    assert predictions.shape == (5,) and set(predictions.tolist()) <= {0, 1, 2}


@every_system
def test_watched_queries_equal_predict_at_any_time(name, s):
    assert_watched_equals_predicted(fitted(name, s), s, corrections(s, 80), halfway=40)


@every_system
def test_storage_is_counted_in_whole_numbers_and_within_budget(name, s):
    system = fitted(name, s)
    budget = system.budget if name.startswith("bounded") else np.inf
    if name.startswith("bounded"):
        assert budget in BUDGETS and name.endswith(f"_{budget}")
    for pair in [None, *corrections(s, 120)]:
        if pair:
            teach(system, [pair])
        held = system.storage()
        assert isinstance(held, Storage)
        for value in (held.bytes, held.entries, held.parameters):
            assert type(value) is int and value >= 0
        assert held.entries <= budget and held.bytes > 0


@pytest.mark.parametrize("name", sorted(NEIGHBOURS | {"knn_lm"}))
def test_stored_entries_grow_by_one_per_correction_up_to_the_budget(name, s):
    system = fitted(name, s)
    budget = getattr(system, "budget", np.inf)
    for n, pair in enumerate(corrections(s, 100)):
        assert system.storage().entries == min(budget, len(s.y_initial) + n)
        teach(system, [pair])


@every_system
def test_inputs_are_neither_changed_nor_depended_on_later(name, s):
    X, y, classes = s.X_initial.copy(), s.y_initial.copy(), list(s.classes)
    system = make(name).fit(X, y, classes)
    np.testing.assert_array_equal(X, s.X_initial)
    np.testing.assert_array_equal(y, s.y_initial)
    assert classes == list(s.classes)
    X[:], y[:] = X[::-1].copy(), 0
    classes.clear()
    untouched = fitted(name, s)
    for x, label in corrections(s, 40):
        own = x.copy()
        system.correct(own, label)
        np.testing.assert_array_equal(own, x)
        own[:] = 0
        untouched.correct(x, label)
    Q = s.queries.copy()
    np.testing.assert_array_equal(system.predict(Q), untouched.predict(s.queries))
    np.testing.assert_array_equal(Q, s.queries)
    assert X.flags.writeable and Q.flags.writeable


@every_system
def test_lists_and_other_number_types_are_read_as_the_same_rows(name, s):
    plain, loose = fitted(name, s), make(name).fit(s.X_initial.tolist(), s.y_initial.astype(np.int32), s.classes)
    for x, y in corrections(s, 20):
        plain.correct(x, y)
        loose.correct(x.astype(np.float64) if y % 2 else x.tolist(), np.int16(y))
    np.testing.assert_array_equal(plain.predict(s.queries), loose.predict(s.queries.astype(np.float64)))


def nan_row(X):
    X = X.copy()
    X[-1, 3] = np.nan
    return X


def zero_row(X):
    X = X.copy()
    X[-1] = 0
    return X


BAD_ROWS = {
    "NaN": (nan_row, "NaN"),
    "infinity": (lambda X: nan_row(X) * 0 + np.inf, "infinity"),
    "zero vector": (zero_row, "zero"),
    "not normalised": (lambda X: X * 2, "not normalised"),
}
BAD_SHAPES = {
    "wrong dimension": (lambda X: X[:, :-1], "length 16"),
    "one row too flat": (lambda X: X[0], "rows must be embeddings"),
    "sentences": (lambda X: np.array(["how do I top up?"] * len(X)), "rows must be embeddings"),
    "one axis too many": (lambda X: X[None], "rows must be embeddings"),
}


def assert_refused(clue, call, *args):
    with pytest.raises(InputError, match=clue) as caught:
        call(*args)
    message = str(caught.value)
    assert "\n" not in message and 20 < len(message) < 200


@every_system
def test_bad_input_is_refused_in_one_clear_line_and_changes_nothing(name, s):
    system = teach(fitted(name, s), corrections(s, 30))
    X, y, C = s.X_initial[:20], s.y_initial[:20], len(s.classes)
    before, held = system.predict(s.queries), system.storage()

    for spoil, clue in BAD_ROWS.values():
        assert_refused(clue, system.predict, spoil(X))
        assert_refused(clue, system.correct, spoil(X)[-1], 0)
        assert_refused(clue, system.fit, spoil(X), y, s.classes)
    for spoil, clue in BAD_SHAPES.values():
        assert_refused(clue, system.predict, spoil(X))
    assert_refused("length 16", system.correct, X[0, :-1], 0)
    assert_refused("length 16", system.correct, X[:1], 0)
    assert_refused("rows must be embeddings", system.fit, X[0], y, s.classes)
    assert_refused("fit needs", system.fit, X, y[:-1], s.classes)
    assert_refused("fit needs", system.fit, X, y[:, None], s.classes)
    for label in (-1, C, 10**12, 1.5, np.nan, "card", None):
        assert_refused("class id", system.correct, X[0], label)
    for label in (-1, C):
        assert_refused("class ids", system.fit, X, np.append(y[:-1], label), s.classes)
    assert_refused("class ids", system.fit, X, y.astype(float), s.classes)
    assert_refused("class ids", system.fit, X, y, s.classes[: y.max()])
    assert_refused("not normalised", system.fit, np.ones((20, 3), np.float32), y, s.classes)  # of another dimension

    np.testing.assert_array_equal(system.predict(s.queries), before)
    assert system.storage() == held
    fresh = teach(fitted(name, s), corrections(s, 30))
    for system in (system, fresh):
        teach(system, corrections(s, 60)[30:])
    np.testing.assert_array_equal(system.predict(s.queries), fresh.predict(s.queries))


@pytest.mark.parametrize("name", ["nearest", "Substrate", "", None])
def test_unknown_system_is_refused_with_the_names_there_are(name):
    with pytest.raises(InputError) as caught:
        make(name)
    assert repr(name) in str(caught.value) and "\n" not in str(caught.value)
    assert all(known in str(caught.value) for known in SYSTEMS)


def test_near_miss_gets_a_hint():
    with pytest.raises(InputError, match="did you mean 'substrate'"):
        make("substrat")


@every_system
def test_a_system_that_was_not_fitted_says_so(name, tiny):
    with pytest.raises(InputError, match="call fit first"):
        make(name).predict(tiny.X_test)
    with pytest.raises(InputError, match="call fit first"):
        make(name).correct(tiny.X_test[0], 0)
