"""Every index keeps the same contract: true cosines, best first, nothing lost, nothing made up."""

import importlib.util
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocrrlib.errors import InputError
from ocrrlib.indexes import HNSW, INDEXES, Exact, make_index
from ocrrlib.search import top_k
from ocrrlib.synthetic import Synthetic, to_grid

LIBRARIES = {
    "hnswlib": "hnswlib",
    "faiss_flat": "faiss",
    "faiss_hnsw": "faiss",
    "faiss_ivf": "faiss",
    "usearch": "usearch",
}
PACKAGES = {"hnswlib": "hnswlib", "faiss": "faiss-cpu", "usearch": "usearch"}
LISTS = dict(lists=4, probes=4)
FIRST = 160  # rows that faiss wants to see before it makes four lists
POOR = dict(M=2, ef_construction=4, ef=2)  # a graph that depends on every draw, and misses neighbours

every = pytest.mark.parametrize("name", INDEXES)
graphs = pytest.mark.parametrize("name", ["hnswlib", "faiss_hnsw", "usearch"])
compares_all = pytest.mark.parametrize("name", ["exact", "faiss_flat"])

EASY = Synthetic(n=800, classes=20, noise=0.05, dim=32)
X, Q = EASY.rows(0, EASY.n), EASY.queries(50)[0]
HARD = to_grid(np.random.default_rng(0).normal(size=(800, 32)))  # in no clusters
HARD_Q = to_grid(HARD[:100] + HARD[100:200])


def make(name, dim=32, **settings):
    """An empty index, fit for few rows; or the test is skipped for want of its library."""
    if name in LIBRARIES:
        pytest.importorskip(LIBRARIES[name])
    return make_index(name, dim, **(LISTS if name == "faiss_ivf" else {}) | settings)


def poor(name, dim=32, **settings):
    worst = POOR if "M" in INDEXES[name].defaults else dict(lists=12, probes=1) if name == "faiss_ivf" else {}
    return make(name, dim, **worst | settings)


def brute_force(Q, X, k):
    """All cosines in float64 (exact on the grid), then a full sort per query; of equal ones the newest first."""
    cosines = Q.astype(np.float64) @ X.astype(np.float64).T
    order = np.lexsort((np.broadcast_to(-np.arange(len(X)), cosines.shape), -cosines), axis=-1)[:, :k]
    return np.take_along_axis(cosines, order, axis=1), order


def share_found(index, Q, X, k=5):
    """Share of the true neighbours that an index over ``X`` finds."""
    found, true = index.search(Q, k)[1], brute_force(Q, X, k)[1]
    return (found[:, :, None] == true[:, None, :]).any(axis=1).mean()


def assert_valid(found, Q, X, k):
    """Slots of entries, each at most once, with their true cosines, best first; then nothing."""
    sims, slots = found
    assert sims.shape == slots.shape == (len(Q), k)
    assert sims.dtype == np.float64 and slots.dtype == np.int64
    there = slots >= 0
    assert slots.max(initial=-1) < len(X) and slots.min(initial=-1) >= -1
    assert (there[:, :-1] >= there[:, 1:]).all() and (sims[~there] == -np.inf).all()
    assert all(len(set(row[row >= 0])) == (row >= 0).sum() for row in slots)
    assert (sims[:, 1:] <= sims[:, :-1]).all()
    rows, places = np.nonzero(there)
    true = np.einsum("id,id->i", Q[rows].astype(np.float64), X[slots[there]].astype(np.float64))
    np.testing.assert_allclose(sims[rows, places], true, atol=1e-5)


def assert_same(found, expected):
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_array_equal(found[0], expected[0])


# --- what is found


@every
@pytest.mark.parametrize("k", [1, 5, 40])
def test_entries_are_found_with_their_cosines_best_first(name, k):
    index = make(name).add(X)
    assert index.size == len(X)
    found = index.search(Q, k)
    assert_valid(found, Q, X, k)
    assert (found[1] >= 0).all()
    assert share_found(index, Q, X, k) > 0.95


@every
def test_rows_that_are_on_no_grid_have_their_cosines_too(name):
    X, Q = (np.random.default_rng(seed).normal(size=(n, 24)).astype(np.float32) for seed, n in ((0, 400), (1, 20)))
    X, Q = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (X, Q))
    assert_valid(make(name, 24).add(X).search(Q, 7), Q, X, 7)


@compares_all
@pytest.mark.parametrize("k", [1, 5, 40])
def test_an_index_that_compares_all_finds_what_top_k_finds(name, k):
    sims, _ = expected = top_k(Q, X, np.arange(len(X)), k + 1)
    assert (sims[:, 1:] < sims[:, :-1]).all()  # no ties, of which faiss would take the oldest
    assert_same(make(name).add(X).search(Q, k), (sims[:, :k], expected[1][:, :k]))
    assert_same(expected, brute_force(Q, X, k + 1))


@every
def test_cosines_on_the_grid_are_exact(name):
    sims, slots = make(name).add(X).search(Q, 5)
    np.testing.assert_array_equal(
        sims, np.take_along_axis(Q.astype(np.float64) @ X.astype(np.float64).T, slots, axis=1)
    )


SAME = Synthetic(n=200, classes=4, noise=0.0, dim=8)  # entries of a class are equal


def test_of_equal_entries_the_exact_index_finds_the_newest():
    rows, Q = SAME.rows(0, SAME.n), SAME.queries(8)[0]
    assert_same(Exact(8).add(rows).search(Q, 60), brute_force(Q, rows, 60))


@every
def test_of_equal_entries_that_are_found_the_newest_stands_first(name):
    rows, Q = SAME.rows(0, SAME.n), SAME.queries(8)[0]
    sims, slots = found = make(name, SAME.dim).add(rows).search(Q, 20)
    assert_valid(found, Q, rows, 20)
    equal = sims[:, 1:] == sims[:, :-1]
    assert equal.any() and (slots[:, 1:] < slots[:, :-1])[equal].all()


@every
def test_a_search_changes_nothing(name):
    index = poor(name).add(X)
    before, kept = Q.copy(), index.search(Q, 5)
    assert_same(index.search(Q, 5), kept)
    np.testing.assert_array_equal(Q, before)
    alone = [index.search(q[None], 5) for q in Q]
    assert_same([np.concatenate(parts) for parts in zip(*alone)], kept)


@every
def test_rows_of_any_kind_are_taken(name):
    """Rows in columns' order, every second row, float64: what is searched is the same."""
    twice = np.repeat(X, 2, axis=0)[::2]
    for rows in (np.asfortranarray(X), X.astype(np.float64), twice):
        index = make(name).add(rows)
        assert_valid(index.search(np.asfortranarray(Q).astype(np.float64), 5), Q, X, 5)


# --- nothing there, and more than there is


@every
def test_more_neighbours_than_entries_are_padded(name):
    few = X[:FIRST]
    sims, slots = found = make(name).add(few).search(Q[:9], FIRST + 20)
    assert_valid(found, Q[:9], few, FIRST + 20)
    assert (slots[:, FIRST:] == -1).all() and (sims[:, FIRST:] == -np.inf).all()
    assert (slots[:, : FIRST // 2] >= 0).all()
    if name in ("exact", "faiss_flat", "faiss_ivf"):  # every list is probed
        assert (np.sort(slots[:, :FIRST]) == np.arange(FIRST)).all()


@every
def test_an_empty_index_finds_nothing(name):
    index = make(name)
    assert index.size == 0
    sims, slots = found = index.search(Q, 3)
    assert_valid(found, Q, X[:0], 3)
    assert (slots == -1).all() and (sims == -np.inf).all()


@every
def test_no_queries_have_no_neighbours(name):
    for index in (make(name), make(name).add(X)):
        sims, slots = index.search(Q[:0], 3)
        assert sims.shape == slots.shape == (0, 3)


@every
def test_adding_no_rows_changes_nothing(name):
    index = make(name).add(X)
    before = index.search(Q, 5)
    assert index.add(X[:0]).size == len(X)
    assert_same(index.search(Q, 5), before)


@every
def test_adding_no_rows_to_an_empty_index_leaves_it_empty(name):
    index = make(name).add(X[:0])
    assert index.size == 0 and (index.search(Q, 3)[1] == -1).all()
    assert_valid(index.add(X).search(Q, 3), Q, X, 3)


@every
def test_rows_of_another_length_are_refused(name):
    index, wider = make(name).add(X), np.zeros((3, 33), np.float32)
    for use in (lambda: index.search(wider, 5), lambda: index.add(wider)):
        with pytest.raises(InputError, match="33.*32|32.*33"):
            use()
    assert index.size == len(X)


# --- adding


@given(parts=st.lists(st.integers(0, 30), max_size=6), capacity=st.integers(0, 50), k=st.integers(1, 12))
@settings(max_examples=50)
def test_the_exact_index_holds_what_was_added_in_any_parts(parts, capacity, k):
    index, ends = Exact(32, capacity), np.cumsum([0, *parts])
    for start, end in zip(ends, ends[1:]):
        index.add(X[start:end])
    assert index.size == ends[-1]
    assert_same(index.search(Q[:6], k), top_k(Q[:6], X[: ends[-1]], np.arange(ends[-1]), k))


@compares_all
def test_adding_in_parts_is_adding_at_once(name):
    at_once, in_parts = make(name).add(X), make(name, capacity=1)
    for start, end in ((0, 1), (1, 3), (3, 500), (500, len(X))):
        in_parts.add(X[start:end])
    assert in_parts.size == at_once.size
    assert_same(in_parts.search(Q, 5), at_once.search(Q, 5))


@every
def test_what_is_added_in_parts_is_found(name):
    index, ends = make(name), [0, FIRST, FIRST + 1, 400, len(X)]
    for start, end in zip(ends, ends[1:]):
        index.add(X[start:end])
        assert index.size == end
        assert_valid(index.search(Q, 5), Q, X[:end], 5)
        assert share_found(index, Q, X[:end]) > 0.9


@every
def test_growing_past_the_capacity_loses_nothing(name):
    index = make(name, capacity=FIRST).add(X[:FIRST])
    for row in X[FIRST : FIRST + 60]:
        index.add(row[None])
    index.add(X[FIRST + 60 :])
    assert index.size == len(X)
    sims, slots = index.search(X, 1)
    np.testing.assert_array_equal(slots[:, 0], np.arange(len(X)))
    np.testing.assert_array_equal(sims[:, 0], (X.astype(np.float64) ** 2).sum(axis=1))


@every
def test_an_index_keeps_its_rows_when_the_callers_change(name):
    rows = X.copy()
    index = make(name, capacity=len(X)).add(rows)
    before = index.search(Q, 5)
    rows[:] = 0
    assert_same(index.search(Q, 5), before)


@every
def test_the_bytes_held_grow_with_the_rows(name):
    index = make(name).add(X[:FIRST])
    before, rows = index.nbytes, 4 * X.shape[1]
    assert before >= FIRST * rows
    index.add(X[FIRST:])
    more = (len(X) - FIRST) * rows if name != "usearch" else 0  # which takes memory in large pieces
    assert index.nbytes >= before + more and index.nbytes >= len(X) * rows


# --- one thread, one index


@every
def test_one_thread_and_one_seed_give_the_same_index(name):
    (_, slots), again = (poor(name, seed=3).add(HARD[:500]).add(HARD[500:]).search(HARD_Q, 8) for _ in range(2))
    np.testing.assert_array_equal(slots, again[1])
    assert_valid(again, HARD_Q, HARD, 8)
    if name not in ("exact", "faiss_flat"):
        assert (slots != brute_force(HARD_Q, HARD, 8)[1]).any()  # it could have come out otherwise


def test_hnswlibs_files_of_one_seed_are_the_same(tmp_path):
    def saved(seed):
        poor("hnswlib", seed=seed).add(HARD).save(tmp_path / "index.bin")
        return (tmp_path / "index.bin").read_bytes()

    assert saved(3) == saved(3) != saved(4)


def test_the_seed_decides_faisss_lists():
    found = [poor("faiss_ivf", seed=seed).add(HARD).search(HARD_Q, 8)[1] for seed in (3, 4)]
    assert (found[0] != found[1]).any()


@every
def test_two_threads_find_as_well(name):
    index = make(name, threads=2).add(X)
    assert_valid(index.search(Q, 5), Q, X, 5)
    assert share_found(index, Q, X) > 0.9  # each time another graph is built, by who comes first


@pytest.mark.parametrize("name", ["faiss_flat", "faiss_hnsw", "faiss_ivf"])
def test_an_index_keeps_its_threads_when_another_is_made(name):
    faiss = pytest.importorskip("faiss")
    index = make(name).add(X)
    try:
        make(name, threads=2)
        index.search(Q, 5)
        assert faiss.omp_get_max_threads() == 1
    finally:
        faiss.omp_set_num_threads(1)


# --- fewer entries reached than wanted

APART = Synthetic(n=300, classes=4, noise=0.0005, dim=8)  # four heaps with no way between them


def apart(name, **settings):
    rows = APART.rows(0, APART.n)
    return rows, APART.queries(16)[0], poor(name, APART.dim, **settings).add(rows)


@pytest.mark.parametrize(
    "name",
    [
        "hnswlib",
        "faiss_hnsw",
        "usearch",
    ],
)
def test_a_query_that_reaches_few_entries_finds_those(name):
    rows, Q, index = apart(name)
    found = index.search(Q, 100)
    assert 0 < (found[1] >= 0).sum(axis=1).min() < 100
    assert_valid(found, Q, rows, 100)
    for q, cosines, places in zip(Q, *found):
        assert_same(index.search(q[None], 100), (cosines[None], places[None]))


@pytest.mark.parametrize("k", [5, 60, 200])
def test_hnswlib_gives_a_short_query_all_that_it_reaches(k):
    """As it does when the query is alone and wants no more than that."""
    rows, Q = SAME.rows(0, SAME.n), SAME.queries(8)[0]
    index = poor("hnswlib", SAME.dim).add(rows)
    sims, slots = index.search(Q, k)
    for q, cosines, places in zip(Q, sims, slots):
        reached = int((places >= 0).sum())
        found, distances = index._index.knn_query(q, reached)
        order = np.lexsort((-found[0].astype(np.int64), distances[0]))
        np.testing.assert_array_equal(found[0][order], places[:reached])
        np.testing.assert_array_equal(1.0 - distances[0][order], cosines[:reached])
        if reached < k:
            with pytest.raises(RuntimeError):
                index._index.knn_query(q, reached + 1)


class Reaches:
    """Stands for hnswlib's index: query ``q`` reaches its first ``q[0]`` entries."""

    def knn_query(self, Q, k, num_threads):
        Q = np.atleast_2d(Q)
        if (Q[:, 0] < k).any():
            raise RuntimeError("Cannot return the results in a contiguous 2D array. Probably ef or M is too small")
        slots = np.tile(np.arange(k, dtype=np.uint64), (len(Q), 1))
        return slots, slots.astype(np.float32) / 16


def test_every_query_of_a_batch_has_its_own_share():
    pytest.importorskip("hnswlib")
    index = HNSW(1)
    index._index, index.size = Reaches(), 9
    reach = np.array([9, 4, 0, 1, 5, 6])
    sims, slots = index.search(reach[:, None].astype(np.float32), 5)
    there = np.arange(5) < reach[:, None]
    np.testing.assert_array_equal(slots, np.where(there, np.arange(5), -1))
    np.testing.assert_array_equal(sims, np.where(there, 1 - np.arange(5) / 16, -np.inf))


# --- saved and loaded


@pytest.fixture
def saved(tmp_path):
    """A poor index over the first 500 rows, and where it was saved."""
    index = poor("hnswlib", seed=3, ef=30).add(X[:500])
    index.save(tmp_path / "index.bin")
    return index, tmp_path / "index.bin"


def test_a_loaded_index_answers_as_the_saved_one(saved):
    index, path = saved
    again = poor("hnswlib", seed=3, ef=30).load(path, len(X))
    assert again.size == 500 and again.nbytes == index.nbytes
    assert_same(again.search(Q, 8), index.search(Q, 8))


def test_a_loaded_index_takes_more_rows_and_grows(saved):
    for capacity in (len(X), 500, 1):
        index = poor("hnswlib", seed=3, ef=30).load(saved[1], capacity).add(X[500:600])
        for row in X[600:]:
            index.add(row[None])
        assert index.size == len(X)
        assert_valid(index.search(Q, 8), Q, X, 8)
        assert (index.search(X[500:], 1)[1][:, 0] == np.arange(500, len(X))).mean() > 0.5  # slots go on counting


def test_two_loaded_indexes_go_on_alike(saved, tmp_path):
    files = []
    for place in ("a.bin", "b.bin"):
        poor("hnswlib", seed=3).load(saved[1], len(X)).add(X[500:]).save(tmp_path / place)
        files.append((tmp_path / place).read_bytes())
    assert files[0] == files[1]


def test_a_loaded_index_searches_with_its_own_effort(saved):
    index, path = saved
    lazy, eager = (poor("hnswlib", seed=3, ef=ef).load(path, len(X)).search(Q, 2) for ef in (2, 30))
    assert_same(eager, index.search(Q, 2))
    assert (lazy[1] != eager[1]).any()


def test_loading_replaces_what_was_there(saved):
    index, path = saved
    assert_same(poor("hnswlib", ef=30).add(X[500:]).load(path, len(X)).search(Q, 8), index.search(Q, 8))


# --- what there is


def test_an_unknown_index_is_refused_with_those_that_there_are():
    with pytest.raises(InputError, match="did you mean 'hnswlib'") as caught:
        make_index("hnswlab", 8)
    assert "\n" not in str(caught.value) and all(name in str(caught.value) for name in INDEXES)


@every
def test_an_unknown_setting_is_refused_with_those_that_there_are(name):
    with pytest.raises(InputError, match="unknown setting 'effort'") as caught:
        make_index(name, 8, effort=3)
    assert "\n" not in str(caught.value) and all(name in str(caught.value) for name in INDEXES[name].defaults)


@every
def test_settings_stand_over_the_defaults_and_leave_them_alone(name):
    defaults = INDEXES[name].defaults
    kept = dict(defaults)
    assert make(name).settings == kept | (LISTS if name == "faiss_ivf" else {})
    for setting in kept:
        assert make(name, **{setting: 3}).settings[setting] == 3
    assert defaults == kept


@graphs
def test_every_setting_of_a_graph_reaches_its_library(name):
    def share(**settings):
        return share_found(poor(name, **settings).add(HARD), HARD_Q, HARD)

    least = share(ef_construction=8, ef=5)
    assert share(ef_construction=8, ef=60) > least + 0.05
    assert share(ef_construction=8, ef=5, M=16) > least + 0.05
    assert share(ef_construction=80, ef=5, M=16) > share(ef_construction=8, ef=5, M=16)


def test_more_lists_probed_find_more():
    few, all_lists = (share_found(make("faiss_ivf", lists=12, probes=n).add(HARD), HARD_Q, HARD) for n in (1, 12))
    assert few < 0.9 and all_lists == 1


efforts = [name for name in INDEXES if INDEXES[name].effort]


@pytest.mark.parametrize("name", efforts)
def test_an_index_that_is_tuned_searches_as_if_made_so(name):
    effort, kept = INDEXES[name].effort, dict(INDEXES[name].defaults)
    tuned = poor(name, **{effort: 1}).add(HARD)
    for value in (30, 1, 4):
        assert tuned.tune(value) is tuned and tuned.settings[effort] == value
        assert_same(tuned.search(HARD_Q, 3), poor(name, **{effort: value}).add(HARD).search(HARD_Q, 3))
    shares = [share_found(tuned.tune(value), HARD_Q, HARD, 3) for value in (1, 30, 1)]
    assert shares[0] == shares[2] < shares[1]
    assert INDEXES[name].defaults == kept


def test_indexes_without_an_effort_say_so():
    assert [name for name in INDEXES if name not in efforts] == ["exact", "faiss_flat"]


@every
def test_training_adds_nothing(name):
    index = make(name)
    assert index.train(X) is index and index.size == 0 and (index.search(Q, 3)[1] == -1).all()
    assert_valid(index.add(X[:9]).search(Q, 3), Q, X[:9], 3)


def test_lists_that_are_trained_on_a_sample_do_not_depend_on_what_is_added_first():
    def found(first, sample=None):
        index = make("faiss_ivf", lists=10, probes=1)
        index = index if sample is None else index.train(sample)
        return index.add(HARD[:first]).add(HARD[first:]).search(HARD_Q, 8)

    trained = found(len(HARD), HARD[::2])
    for first in (1, 400):
        assert_same(found(first, HARD[::2]), trained)
    assert (found(400)[1] != trained[1]).any()


def test_fewer_rows_than_lists_are_refused_in_one_line():
    index = make("faiss_ivf", lists=40)
    with pytest.raises(InputError, match="40") as caught:
        index.add(X[:39])
    assert "\n" not in str(caught.value) and index.size == 0


# --- libraries that are not there


def without(monkeypatch, library):
    for module in (library, *(name for name in sys.modules if name.startswith(f"{library}."))):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, f"{library}.index", None)


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_missing_library_is_named_with_the_way_to_get_it(monkeypatch, name):
    without(monkeypatch, LIBRARIES[name])
    with pytest.raises(InputError, match=f"pip install {PACKAGES[LIBRARIES[name]]}$") as caught:
        make_index(name, 8)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("library", PACKAGES)
def test_the_other_indexes_work_without_a_library(monkeypatch, library):
    without(monkeypatch, library)
    for name in INDEXES:
        wants = LIBRARIES.get(name)
        if wants != library and (wants is None or importlib.util.find_spec(wants)):
            assert_valid(make(name).add(X).search(Q, 3), Q, X, 3)


def test_the_exact_index_needs_no_library(monkeypatch):
    for library in PACKAGES:
        without(monkeypatch, library)
    assert_same(make_index("exact", 32).add(X).search(Q, 3), brute_force(Q, X, 3))
