"""Class probabilities, over the registry: rows sum to 1, agree with the answers, leave unseen classes out."""

import numpy as np
import pytest
from conftest import EMBEDDED

from ocrrlib.errors import InputError
from ocrrlib.scenario import make_scenario
from ocrrlib.systems import SYSTEMS, make
from ocrrlib.systems.base import System

VOTING = {name for name in SYSTEMS if name.startswith(("substrate", "bounded", "static_knn"))}


@pytest.fixture(scope="module")
def s(tiny):
    return make_scenario(tiny, 0, held_out=4, cap=20)


def taught(name, s, n):
    system = make(name).fit(s.X_initial, s.y_initial, s.classes)
    for x, y in zip(s.X_stream[:n], s.y_stream[:n].tolist()):
        system.correct(x, y)
    return system


@pytest.mark.parametrize("n", [0, 1, 40])
@pytest.mark.parametrize("name", EMBEDDED)
def test_rows_sum_to_one_and_only_over_classes_met(name, n, s):
    p = taught(name, s, n).probabilities(s.queries)
    met = set(s.y_initial.tolist()) | set(s.y_stream[:n].tolist())
    assert p.shape == (len(s.queries), len(s.classes)) and p.dtype == np.float64
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=0, atol=1e-12)
    assert set(np.flatnonzero(p.any(axis=0)).tolist()) <= met


@pytest.mark.parametrize("name", sorted(set(EMBEDDED) - VOTING))
def test_the_likeliest_class_is_the_answer_unless_neighbours_vote(name, s):
    for n in (0, 60):
        system = taught(name, s, n)
        p, answers = system.probabilities(s.queries), system.predict(s.queries)
        np.testing.assert_allclose(p[np.arange(len(p)), answers], p.max(axis=1), rtol=1e-9)


def test_the_share_of_a_class_is_that_of_its_neighbours():
    X = np.eye(4, dtype=np.float32)
    p = make("substrate").fit(X[:3], np.array([2, 0, 2]), "abcd").probabilities(X[:1])
    e = np.exp([10, 0, 0])
    np.testing.assert_allclose(p, [[e[1] / e.sum(), 0, (e[0] + e[2]) / e.sum(), 0]])


@pytest.mark.parametrize("name", EMBEDDED)
def test_watched_probabilities_equal_those_of_rows(name, s):
    system = taught(name, s, 0)
    watched = system.watch_probabilities(s.queries)
    for x, y in zip(s.X_stream[:30], s.y_stream[:30].tolist()):
        system.correct(x, y)
        rows = np.array([3, 0, y])
        np.testing.assert_allclose(watched(rows), system.probabilities(s.queries[rows]), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", EMBEDDED)
def test_without_any_class_there_is_no_probability(name, s):
    system = make(name).fit(s.X_initial[:0], s.y_initial[:0], s.classes)
    assert not system.probabilities(s.queries[:3]).any()
    system.correct(s.X_stream[0], int(s.y_stream[0]))
    p = system.probabilities(s.queries[:3])
    expected = np.zeros(len(s.classes))
    expected[s.y_stream[0]] = not name.startswith("static")
    np.testing.assert_allclose(p, [expected] * 3)


def test_a_system_without_probabilities_says_so(s):
    class Silent(System):
        def _fit(self, X, y):
            pass

    silent = Silent()
    with pytest.raises(InputError, match="call fit first"):
        silent.probabilities(s.queries)
    silent.fit(s.X_initial, s.y_initial, s.classes)
    with pytest.raises(InputError, match="Silent gives no class probabilities"):
        silent.probabilities(s.queries)
    with pytest.raises(InputError, match="length 16"):
        silent.probabilities(s.queries[:, 1:])
