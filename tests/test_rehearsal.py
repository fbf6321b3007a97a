"""The rate is chosen on initial rows alone, by a rehearsal that keeps training, stream and test rows apart."""

import numpy as np
import pytest
from conftest import clusters, halve, rows, widen
from hypothesis import given
from hypothesis import strategies as st

from ocrrlib.systems import SYSTEMS, rehearsal
from ocrrlib.systems.base import System
from ocrrlib.systems.er_ace_tuned import ERACETuned
from ocrrlib.systems.er_tuned import ERTuned
from ocrrlib.systems.online_linear_tuned import OnlineLinearTuned
from ocrrlib.systems.rehearsal import HELD_OUT, TESTED, best_rate, rehearse

CLASSES, D = 12, 16
TRAINING = dict(epochs=6, fit_lr=1e-2, weight_decay=1e-4, batch=32)
SURE = TRAINING | dict(epochs=30, fit_lr=0.1)  # so sure of known classes that small steps change no answer
X0, Y0 = clusters(CLASSES - 2, 12, D, seed=3)
every_tuned = pytest.mark.parametrize("cls", [OnlineLinearTuned, ERTuned, ERACETuned])


def corners(n_classes, per_class):
    """Rows close to a unit vector of their class's own, and their class ids."""
    y = np.repeat(np.arange(n_classes), per_class)
    return widen(halve(np.eye(D)[y] + 0.05 * np.random.default_rng(0).normal(size=(len(y), D)))), y


class Recorder(System):
    """Never right; notes the numbers of the rows that it is given, which are the first values of these."""

    def _fit(self, X, y):
        self.trained, self.corrected, self.asked = self.numbers(X), [], []

    def _predict(self, X):
        self.asked.append(self.numbers(X))
        return np.full(len(X), -1)

    def _correct(self, x, y):
        self.corrected += self.numbers(x[None])

    @staticmethod
    def numbers(X):
        return np.rint(X[:, 0] * 1000).astype(int).tolist()


@given(st.lists(st.integers(0, 9), max_size=50), st.integers(0, 9))
def test_a_rehearsal_trains_streams_and_tests_each_row_in_one_place_only(counts, seed):
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    first, recorder = np.arange(len(y)) / 1000, Recorder()
    rehearse(recorder, np.stack([first, np.sqrt(1 - first**2)], axis=1), y, len(counts), seed)
    trained, streamed = recorder.trained, recorder.corrected
    assert [rows[0] for rows in recorder.asked[: len(streamed)]] == streamed  # each asked about before it is learnt
    assert all(set(rows) <= set(streamed) for rows in recorder.asked[: len(streamed)])
    tested = sum(recorder.asked[len(streamed) :], [])
    assert sorted(trained + streamed + tested) == list(range(len(y)))
    classes, counts = np.unique(y, return_counts=True)
    assert not set(y[trained]) & set(y[streamed])
    assert len(set(y[streamed])) == min(HELD_OUT, len(classes) // 4)
    np.testing.assert_array_equal([np.count_nonzero(y[tested] == c) for c in classes], counts // TESTED)


@every_tuned
def test_the_rate_depends_on_initial_rows_only(cls):
    system = cls(1, **TRAINING).fit(X0, Y0, range(CLASSES))
    chosen = system.lr
    for x, y in zip(rows(30, D, 4), np.random.default_rng(5).integers(0, CLASSES, 30).tolist()):
        system.correct(x, y)
        system.predict(X0[:3])
    assert system.lr == chosen == best_rate(cls.head, cls.rates, X0, Y0, CLASSES, 1, **TRAINING)
    assert cls(1, **TRAINING).fit(X0, Y0, range(CLASSES)).lr == chosen


@every_tuned
def test_apart_from_its_rate_it_is_the_system_that_is_rehearsed(cls):
    tuned = cls(1, **TRAINING).fit(X0, Y0, range(CLASSES))
    plain = cls.head(1, lr=tuned.lr, **TRAINING).fit(X0, Y0, range(CLASSES))
    for x, y in zip(rows(30, D, 4), np.random.default_rng(5).integers(0, CLASSES, 30).tolist()):
        tuned.correct(x, y)
        plain.correct(x, y)
    np.testing.assert_array_equal(tuned.W, plain.W)
    np.testing.assert_array_equal(tuned.b, plain.b)
    np.testing.assert_array_equal(tuned.predict(X0), plain.predict(X0))


@every_tuned
def test_large_steps_are_chosen_where_small_ones_teach_nothing(cls):
    X, y = corners(8, 8)
    system = cls(0, **SURE).fit(X, y, range(CLASSES))
    assert system.lr >= 0.5
    assert rehearse(cls.head(0, lr=system.lr, **SURE), X, y, CLASSES, 0) == 1.0
    assert rehearse(cls.head(0, lr=0.01, **SURE), X, y, CLASSES, 0) == 0.5  # known classes only


def test_small_steps_are_chosen_where_classes_overlap():
    X, y = clusters(CLASSES, 40, 8, seed=0, spread=1.5)
    assert OnlineLinearTuned(0, **TRAINING).fit(X, y, range(CLASSES)).lr == OnlineLinearTuned.rates[0]


@every_tuned
def test_the_best_rate_wins_and_of_equal_ones_the_lowest(cls, monkeypatch):
    best_rate.forget()
    lowest, second, *_, highest = cls.rates
    for scores, expected in (
        ([1, 3, 2, 0, 0, 0], second),
        ([1, 3, 3, 0, 3, 0], second),
        ([2] * 6, lowest),
        ([0] * 5 + [1], highest),
    ):
        of_rate = dict(zip(cls.rates, scores))
        monkeypatch.setattr(rehearsal, "rehearse", lambda system, *args: of_rate[system.lr])
        assert best_rate(cls.head, cls.rates, X0, Y0, CLASSES, 0) == expected
        best_rate.forget()


@every_tuned
@pytest.mark.parametrize("n_classes", [0, 1, 3])
def test_with_fewer_than_four_classes_there_is_no_rehearsal(n_classes, cls, monkeypatch):
    monkeypatch.setattr(rehearsal, "best_rate", None)
    few = Y0 < n_classes
    assert cls(0, **TRAINING).fit(X0[few], Y0[few], range(CLASSES)).lr == cls.rates[0]


@every_tuned
def test_a_rate_from_outside_is_refused_at_once(cls):
    with pytest.raises(TypeError, match="lr"):
        cls(0, lr=0.7)


@every_tuned
def test_classes_too_small_to_be_tested_leave_the_lowest_rate(cls):
    X, y = corners(8, TESTED - 1)
    assert cls(0, **SURE).fit(X, y, range(CLASSES)).lr == cls.rates[0]


def test_replays_try_no_rate_below_their_sources():
    for cls, name in ((ERTuned, "er"), (ERACETuned, "er_ace")):
        assert cls.rates[0] == SYSTEMS[name].params["lr"] and list(cls.rates) == sorted(cls.rates)
        tuned = SYSTEMS[f"{name}_tuned"].params
        assert tuned == {key: value for key, value in SYSTEMS[name].params.items() if key != "lr"}


@every_tuned
def test_four_classes_are_enough_for_a_rehearsal(cls, monkeypatch):
    monkeypatch.setattr(rehearsal, "best_rate", lambda *args, **params: cls.rates[-1])
    four = Y0 < 4
    assert cls(0, **TRAINING).fit(X0[four], Y0[four], range(CLASSES)).lr == cls.rates[-1]
