"""Exact and approximate search side by side: what is counted is right, and a stopped build or table goes on."""

import importlib.metadata
import itertools
import json
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocrrlib import provenance, scale, synthetic
from ocrrlib.errors import InputError
from ocrrlib.indexes import INDEXES
from ocrrlib.race import EFFORTS, race
from ocrrlib.scale import Cell, build, check_memory, compare, exact_neighbours, memory_needed, recall, run_cells
from ocrrlib.search import top_k
from ocrrlib.synthetic import Synthetic
from ocrrlib.voting import vote

CELL = Cell(n=600, classes=120, noise=0.15, queries=60, ef=5)  # hard enough for both searches to err


@pytest.fixture(autouse=True, scope="module")
def small_blocks():
    """Data that are drawn as fast as they are few."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synthetic, "BLOCK", 64)
        yield


@pytest.fixture(autouse=True)
def hnswlib():
    return pytest.importorskip("hnswlib")


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes one second between any two looks at it."""
    ticks = itertools.count()
    monkeypatch.setattr(scale, "time", SimpleNamespace(perf_counter=lambda: float(next(ticks))))


def slots_of(index, cell=CELL):
    return index.search(cell.data.queries(cell.queries)[0], 5)[1]


# --- recall


@given(m=st.integers(1, 6), k=st.integers(1, 6), seed=st.integers(0, 9999))
def test_recall_is_the_share_of_true_neighbours_found(m, k, seed):
    rng = np.random.default_rng(seed)
    true, found = (np.stack([rng.permutation(9)[:k] for _ in range(m)]) for _ in range(2))
    found[rng.random(found.shape) < 0.2] = -1
    hits = sum(len(set(t) & set(f)) for t, f in zip(true.tolist(), found.tolist()))
    assert recall(found, true) == pytest.approx(hits / (m * k), abs=1e-12)


def test_recall_does_not_ask_for_an_order():
    assert recall(np.array([[3, 1, 2], [6, 5, 4]]), np.array([[1, 2, 3], [4, 5, 6]])) == 1.0
    assert recall(np.array([[3, -1, -1], [7, 8, 9]]), np.array([[1, 2, 3], [4, 5, 6]])) == pytest.approx(1 / 6)


def test_recall_counts_neighbours_and_not_places_without_one():
    assert recall(np.array([[0, -1, -1, -1, -1]]), np.array([[2, 1, 0, -1, -1]])) == pytest.approx(1 / 3)
    assert recall(np.array([[0, 1, 2, -1, -1]]), np.array([[2, 1, 0, -1, -1]])) == 1.0


# --- exact search in chunks


@given(
    n=st.integers(1, 150),
    chunk=st.integers(1, 160),
    k=st.integers(1, 12),
    noise=st.sampled_from([0.0, 0.2]),
    classes=st.integers(1, 9),
)
@settings(max_examples=60)
def test_exact_neighbours_are_those_among_all_rows_whatever_the_chunks(n, chunk, k, noise, classes):
    """Without noise there are many equal cosines, of which the newest come first, also from another chunk."""
    data = Synthetic(n, min(n, classes), noise, dim=6)
    Q = data.queries(7)[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scale, "CHUNK", chunk)
        sims, slots, seconds = exact_neighbours(data, Q, k)
    expected = top_k(Q, data.rows(0, n), np.arange(n), k)
    np.testing.assert_array_equal(sims, expected[0])
    np.testing.assert_array_equal(slots, expected[1])
    assert seconds >= 0


# --- memory


def free_memory(monkeypatch, nbytes):
    monkeypatch.setattr(scale.psutil, "virtual_memory", lambda: SimpleNamespace(available=nbytes))


def test_ten_million_entries_need_about_eighteen_gigabytes():
    assert 17e9 < memory_needed(10_000_000) < 19e9
    assert 1.7e9 < memory_needed(1_000_000) < 2.5e9


def test_the_memory_needed_is_that_of_the_index_and_some_chunks(tmp_path):
    index, _ = build(CELL, tmp_path)
    rows = memory_needed(CELL.n) - memory_needed(0)
    assert index.nbytes <= rows <= 1.2 * index.nbytes  # 1.07 times: locks and labels are not in the file
    assert memory_needed(0) == 4 * 384 * 4 * scale.CHUNK
    narrow = memory_needed(CELL.n, dim=32) - memory_needed(0, dim=32)
    assert rows - narrow == CELL.n * 4 * (384 - 32)


def test_a_scale_that_does_not_fit_is_refused_with_what_it_needs_and_what_is_free(monkeypatch):
    free_memory(monkeypatch, 3.14e9)
    with pytest.raises(InputError, match="^10,000,000 entries need 18.4 GB and 3.1 GB are free: ") as caught:
        check_memory(10_000_000)
    assert "\n" not in str(caught.value)
    check_memory(1_000_000)
    free_memory(monkeypatch, memory_needed(10_000_000))
    check_memory(10_000_000)
    free_memory(monkeypatch, memory_needed(10_000_000) - 1)
    with pytest.raises(InputError):
        check_memory(10_000_000)


@pytest.mark.parametrize("use", [compare, lambda cell: race("hnswlib", cell)], ids=["compare", "race"])
def test_nothing_is_drawn_or_built_that_does_not_fit(monkeypatch, use):
    def refuse(*_, **__):
        raise AssertionError("it was begun")

    free_memory(monkeypatch, 10**6)
    for name in ("HNSW", "Exact", "Synthetic"):
        monkeypatch.setattr(scale, name, refuse)
    with pytest.raises(InputError, match="choose fewer"):
        use(CELL)


# --- building, in parts that are saved

PARTS, ADDS = 10, 30  # parts of 60 rows, each added as 25, 25 and 10


@pytest.fixture
def short_parts(monkeypatch):
    """Each tenth is saved, however few rows it has."""
    monkeypatch.setattr(scale, "SEGMENT", 1)
    monkeypatch.setattr(scale, "CHUNK", 25)


@pytest.fixture
def adds(monkeypatch):
    """Rows of each call of ``add``; the call after ``stop_after`` of them is interrupted."""
    log, add = SimpleNamespace(rows=[], stop_after=None), scale.HNSW.add

    def logged(index, rows):
        if len(log.rows) == log.stop_after:
            raise KeyboardInterrupt
        log.rows.append(len(rows))
        return add(index, rows)

    monkeypatch.setattr(scale.HNSW, "add", logged)
    return log


def files(folder):
    return sorted(Path(folder).rglob("*"))


@pytest.fixture
def uninterrupted(short_parts, tmp_path):
    """The index and the bytes of its last part, built at one go."""
    index, _ = build(CELL, tmp_path / "whole")
    (part,) = files(tmp_path / "whole")
    return index, part.read_bytes()


def test_a_short_build_is_not_saved(tmp_path, adds):
    index, seconds = build(CELL, tmp_path)
    assert index.size == CELL.n == sum(adds.rows) and seconds > 0
    assert files(tmp_path) == []


def test_a_build_holds_the_cells_rows_and_has_its_settings(tmp_path):
    cell = replace(CELL, seed=7)
    index, _ = build(cell, tmp_path)
    np.testing.assert_array_equal(index._index.get_items(np.arange(cell.n)), cell.data.rows(0, cell.n))
    assert (index.size, index.seed, index.threads, index.settings["ef"]) == (cell.n, 7, cell.threads, cell.ef)


def test_a_long_build_leaves_one_saved_part_with_everything(uninterrupted, tmp_path, adds):
    adds.stop_after = 0
    again, _ = build(CELL, tmp_path / "whole")
    assert again.size == CELL.n
    np.testing.assert_array_equal(slots_of(again), slots_of(uninterrupted[0]))


@pytest.mark.parametrize("stops", [[0], [1], [3], [4], [29], [2, 7], [3, 3, 3], [28, 2]], ids=str)
def test_a_stopped_build_goes_on_from_its_last_part(uninterrupted, tmp_path, adds, stops):
    folder, kept = tmp_path / "stopped", 0
    for stop in stops:
        adds.rows, adds.stop_after = [], stop
        with pytest.raises(KeyboardInterrupt):
            build(CELL, folder)
        kept += stop // 3
        assert len(files(folder)) == min(kept, 1)
    adds.rows, adds.stop_after = [], None
    index, _ = build(CELL, folder)
    assert sum(adds.rows) == CELL.n - 60 * kept and len(adds.rows) == ADDS - 3 * kept
    (part,) = files(folder)
    assert part.read_bytes() == uninterrupted[1]
    np.testing.assert_array_equal(slots_of(index), slots_of(uninterrupted[0]))


def test_a_build_does_not_depend_on_the_chunks(uninterrupted, monkeypatch, tmp_path):
    for chunk in (7, 10_000):
        monkeypatch.setattr(scale, "CHUNK", chunk)
        build(CELL, tmp_path / str(chunk))
        (part,) = files(tmp_path / str(chunk))
        assert part.read_bytes() == uninterrupted[1]


def test_a_build_that_is_stopped_while_it_saves_goes_on_from_the_part_before(
    uninterrupted, tmp_path, adds, monkeypatch
):
    saves, save = itertools.count(1), scale.HNSW.save

    def half(index, path):
        save(index, path)
        if next(saves) == 4:
            Path(path).write_bytes(Path(path).read_bytes()[:1000])
            raise KeyboardInterrupt

    monkeypatch.setattr(scale.HNSW, "save", half)
    folder = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        build(CELL, folder)
    assert len(files(folder)) == 1 and sum(adds.rows) == 240
    adds.rows = []
    build(CELL, folder)
    assert sum(adds.rows) == CELL.n - 180
    (part,) = files(folder)
    assert part.read_bytes() == uninterrupted[1]


def stopped_between_two_parts(monkeypatch, folder, saves):
    """A build that is stopped when the part before is about to be removed, after ``saves`` of them."""
    unlink, removals = Path.unlink, itertools.count(2)

    def remove(path, missing_ok=False):
        if not path.name.startswith(".") and next(removals) == saves:
            raise KeyboardInterrupt
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "unlink", remove)
        build(CELL, folder)
    assert len(files(folder)) == 2


@pytest.mark.parametrize(
    "saves",
    [
        2,
        7,
        PARTS,
    ],
)
def test_of_two_parts_the_larger_goes_on_and_the_other_goes(uninterrupted, tmp_path, adds, monkeypatch, saves):
    folder = tmp_path / "stopped"
    stopped_between_two_parts(monkeypatch, folder, saves)
    adds.rows = []
    index, _ = build(CELL, folder)
    assert sum(adds.rows) == CELL.n - 60 * saves
    np.testing.assert_array_equal(slots_of(index), slots_of(uninterrupted[0]))
    (part,) = files(folder)
    assert part.read_bytes() == uninterrupted[1]


def test_the_seconds_of_a_stopped_build_are_those_of_all_that_was_kept(short_parts, clock, tmp_path, adds):
    assert build(CELL, tmp_path / "whole")[1] == ADDS
    adds.rows, adds.stop_after = [], 8
    with pytest.raises(KeyboardInterrupt):
        build(CELL, tmp_path / "stopped")
    adds.stop_after = None
    assert build(CELL, tmp_path / "stopped")[1] == ADDS
    assert build(CELL, tmp_path / "stopped")[1] == ADDS


@pytest.mark.parametrize(
    "change",
    [dict(n=660), dict(classes=121), dict(noise=0.16), dict(seed=2), dict(threads=2)],
    ids=lambda change: next(iter(change)),
)
def test_no_part_of_another_cell_is_used(uninterrupted, tmp_path, adds, change):
    other = replace(CELL, **change)
    index, _ = build(other, tmp_path / "whole")
    assert sum(adds.rows) == index.size == other.n
    assert len(files(tmp_path / "whole")) == 2  # each has its own


@pytest.mark.parametrize("change", [dict(queries=7), dict(ef=50)], ids=lambda change: next(iter(change)))
def test_the_questions_and_the_effort_of_a_search_need_no_other_build(uninterrupted, tmp_path, adds, change):
    other = replace(CELL, **change)
    index, _ = build(other, tmp_path / "whole")
    assert adds.rows == [] and index._index.ef == other.ef
    np.testing.assert_array_equal(slots_of(index), slots_of(build(other, tmp_path / "other")[0]))


@pytest.fixture
def changed(monkeypatch):
    """Change the code of a module, or the version of a library, as far as keys can tell."""

    def change(name):
        if name.startswith("ocrrlib"):
            parsed = provenance._parsed
            edited = {name: ("another hash", parsed(name)[1])}
            monkeypatch.setattr(provenance, "_parsed", lambda module: edited.get(module) or parsed(module))
        else:
            version = importlib.metadata.version
            monkeypatch.setattr(importlib.metadata, "version", lambda of: "0.0" if of == name else version(of))
        provenance.closure.cache_clear()

    yield change
    provenance.closure.cache_clear()


@pytest.mark.parametrize("name", ["ocrrlib.indexes.hnsw", "ocrrlib.synthetic", "numpy", "hnswlib"])
def test_no_part_of_other_code_is_used(uninterrupted, tmp_path, adds, changed, name):
    changed(name)
    build(CELL, tmp_path / "whole")
    assert sum(adds.rows) == CELL.n


@pytest.mark.parametrize("name", ["ocrrlib.voting", "ocrrlib.scale", "pandas"])
def test_parts_outlive_changes_of_code_that_does_not_build(uninterrupted, tmp_path, adds, changed, name):
    changed(name)
    build(CELL, tmp_path / "whole")
    assert adds.rows == []


# --- comparing


def by_hand(cell, near, places, k=5):
    """What ``compare`` should find, with all cosines at once and the neighbours of an index."""
    data = cell.data
    X, (Q, y) = data.rows(0, cell.n), data.queries(cell.queries)
    class_of = data.labels(0, cell.n)
    cosines = Q.astype(np.float64) @ X.astype(np.float64).T
    slots = np.lexsort((np.broadcast_to(-np.arange(cell.n), cosines.shape), -cosines), axis=-1)[:, :k]
    sims = np.take_along_axis(cosines, slots, axis=1)
    labels_near = np.where(places >= 0, class_of[places], -1)
    elected, elected_near = vote(sims, class_of[slots]), vote(near, labels_near)
    hits = [len(set(t) & set(f)) for t, f in zip(slots.tolist(), places.tolist())]
    return {
        "exact_acc": (elected == y).mean(),
        "hnsw_acc": (elected_near == y).mean(),
        "recall": sum(hits) / slots.size,
        "agreement": (elected == elected_near).mean(),
        "exact_acc_k1": (class_of[slots[:, 0]] == y).mean(),
        "hnsw_acc_k1": (labels_near[:, 0] == y).mean(),
    }


@pytest.mark.parametrize("cell", [CELL, Cell(n=500, classes=31, noise=0.1, seed=4, queries=40)], ids=["hard", "easy"])
def test_what_is_found_is_what_a_plain_computation_finds(cell, tmp_path):
    found, _ = compare(cell, folder=tmp_path)
    near, places = build(cell, tmp_path)[0].search(cell.data.queries(cell.queries)[0], 5)
    assert found == pytest.approx(by_hand(cell, near, places), abs=1e-12)
    if cell is CELL:
        assert len(set(found.values())) > 4 and max(found.values()) < 1 and min(found.values()) > 0.05


@pytest.mark.parametrize("k", [1, 3])
def test_any_number_of_neighbours_can_be_compared(tmp_path, k):
    near, places = build(CELL, tmp_path)[0].search(CELL.data.queries(CELL.queries)[0], k)
    found, _ = compare(CELL, k, folder=tmp_path)
    assert found == pytest.approx(by_hand(CELL, near, places, k), abs=1e-12)


def test_without_noise_exact_search_is_always_right(tmp_path):
    found, _ = compare(replace(CELL, noise=0.0), folder=tmp_path)
    assert found["exact_acc"] == found["exact_acc_k1"] == 1.0
    assert found["hnsw_acc"] == found["hnsw_acc_k1"] == found["agreement"] > 0.9


def test_fewer_entries_than_neighbours_can_be_compared(tmp_path):
    found, _ = compare(Cell(n=3, classes=3, noise=0.01, queries=6), folder=tmp_path)
    assert set(found.values()) == {1.0}


def test_what_is_found_does_not_depend_on_the_chunks(tmp_path, monkeypatch):
    found, _ = compare(CELL, folder=tmp_path)
    for chunk in (41, 256):
        monkeypatch.setattr(scale, "CHUNK", chunk)
        assert compare(CELL, folder=tmp_path)[0] == found


def test_what_is_found_is_the_same_twice_and_holds_no_times(tmp_path, clock):
    found, cost = compare(CELL, folder=tmp_path / "a")
    scale.time.perf_counter = lambda ticks=itertools.count(): 3.0 * next(ticks)
    again, slower = compare(CELL, folder=tmp_path / "b")
    assert found == again
    sizes = ("bytes", "resident")
    assert {name: 3 * value for name, value in cost.items() if name not in sizes} == {
        name: value for name, value in slower.items() if name not in sizes
    }
    assert cost["bytes"] == slower["bytes"] == build(CELL, tmp_path / "a")[0].nbytes


def test_costs_are_seconds_milliseconds_a_query_and_bytes(tmp_path, clock):
    _, cost = compare(CELL, folder=tmp_path)
    assert cost.pop("resident") > cost.pop("bytes") > 4 * 384 * CELL.n
    assert cost == {
        "build_s": 1.0,
        "hnsw_ms": 1000.0,
        "exact_ms": 1000.0,
        "hnsw_batch_ms": pytest.approx(1000 / CELL.queries),
        "exact_batch_ms": pytest.approx(1000 / CELL.queries),
    }


def test_a_single_query_is_timed_exactly_only_where_all_rows_may_be_held(tmp_path, monkeypatch):
    monkeypatch.setattr(scale, "HELD", CELL.n - 1)
    assert np.isnan(compare(CELL, folder=tmp_path)[1]["exact_ms"])


def test_what_is_found_can_be_kept_as_text(tmp_path):
    result = compare(CELL, folder=tmp_path)
    assert json.loads(json.dumps(result)) == list(result)


# --- one index against the others


@pytest.mark.parametrize("name", INDEXES)
def test_a_race_has_the_recall_of_every_effort(name):
    if name != "exact":
        pytest.importorskip(name.split("_")[0])
    table = pd.DataFrame(race(name, CELL))
    assert (table["index"] == name).all() and (table.n == CELL.n).all()
    assert table.build_s.nunique() == 1 and (table.qps > 0).all() and (table.bytes > 4 * 384 * CELL.n - 1).all()
    if name in ("exact", "faiss_flat"):
        assert len(table) == 1 and table.recall[0] == 1.0
    else:
        assert tuple(table.effort) == EFFORTS[INDEXES[name].effort]
        assert table.recall.iloc[0] < 0.9 and table.recall.iloc[-1] > 0.98 and table.recall.diff().min() > -0.02


def test_a_races_recall_is_what_a_plain_computation_finds(tmp_path):
    data = CELL.data
    Q, X = data.queries(CELL.queries)[0], data.rows(0, CELL.n)
    true = top_k(Q, X, np.arange(CELL.n), 5)[1]
    for row in race("hnswlib", CELL):
        index, _ = build(replace(CELL, ef=row["effort"]), tmp_path)
        assert row["recall"] == pytest.approx(
            np.mean([len(set(f) & set(t)) / 5 for f, t in zip(slots_of(index), true)])
        )


# --- a table of many cells

CELLS = [CELL, replace(CELL, noise=0.1), replace(CELL, ef=50), replace(CELL, seed=1)]


@pytest.fixture
def compared(monkeypatch):
    """The cells that are compared, at once and by name; the one after ``stop_after`` of them is interrupted."""
    log = SimpleNamespace(cells=[], stop_after=None)

    def answer(cell, folder=None, progress=False):
        if len(log.cells) == log.stop_after:
            raise KeyboardInterrupt
        log.cells.append(cell)
        return {"exact_acc": cell.noise / 3}, {"build_s": cell.ef / 7}

    monkeypatch.setattr(scale, "compare", answer)
    return log


def table(cells, tmp_path):
    return run_cells(cells, tmp_path / "cache", tmp_path / "indexes", progress=False)


def assert_same_tables(found, expected):
    for one, other in zip(found, expected, strict=True):
        pd.testing.assert_frame_equal(one, other, check_exact=True)


def test_a_table_has_a_row_for_every_cell_in_order(compared, tmp_path):
    found, cost = table(CELLS, tmp_path)
    assert compared.cells == CELLS
    assert found.to_dict("records") == [asdict(cell) | {"exact_acc": cell.noise / 3} for cell in CELLS]
    assert cost.to_dict("records") == [asdict(cell) | {"build_s": cell.ef / 7} for cell in CELLS]


def test_finished_cells_come_from_the_cache(compared, tmp_path):
    first = table(CELLS, tmp_path)
    assert_same_tables(table(CELLS, tmp_path), first)
    assert len(compared.cells) == len(CELLS)
    table([*CELLS[::-1], replace(CELL, queries=61)], tmp_path)
    assert compared.cells[len(CELLS) :] == [replace(CELL, queries=61)]


@pytest.mark.parametrize("stop", [0, 1, 3])
def test_a_stopped_table_goes_on_where_it_was(compared, tmp_path, stop):
    compared.stop_after = stop
    with pytest.raises(KeyboardInterrupt):
        table(CELLS, tmp_path)
    compared.cells, compared.stop_after = [], None
    stopped = table(CELLS, tmp_path)
    assert compared.cells == CELLS[stop:]
    assert_same_tables(stopped, table(CELLS, tmp_path / "whole"))


@pytest.mark.parametrize(
    "change",
    [dict(n=601), dict(classes=5), dict(noise=0.2), dict(seed=3), dict(queries=9), dict(ef=6), dict(threads=2)],
    ids=lambda change: next(iter(change)),
)
def test_another_cell_is_compared_anew(compared, tmp_path, change):
    table([CELL], tmp_path)
    table([replace(CELL, **change)], tmp_path)
    assert compared.cells == [CELL, replace(CELL, **change)]


@pytest.mark.parametrize(
    "name", ["ocrrlib.scale", "ocrrlib.indexes.hnsw", "ocrrlib.voting", "ocrrlib.search", "numpy", "hnswlib"]
)
def test_other_code_compares_anew(compared, tmp_path, changed, name):
    table([CELL], tmp_path)
    changed(name)
    table([CELL], tmp_path)
    assert len(compared.cells) == 2


@pytest.mark.parametrize(
    "damage",
    [lambda text: text[:-5], lambda text: text.replace("0.0", "0.1"), lambda text: ""],
    ids=["cut", "digit", "no"],
)
def test_a_damaged_entry_is_reported_and_compared_anew(compared, tmp_path, damage):
    first = table(CELLS, tmp_path)
    path = next(path for path in files(tmp_path / "cache") if path.is_file())
    path.write_text(damage(path.read_text()))
    compared.cells = []
    with pytest.warns(UserWarning, match="damaged: its run is repeated"):
        again = table(CELLS, tmp_path)
    assert len(compared.cells) == 1
    assert_same_tables(again, first)
    assert_same_tables(table(CELLS, tmp_path), first)
    assert len(compared.cells) == 1


def test_a_table_of_real_comparisons_comes_back_whole_from_the_cache(tmp_path, monkeypatch):
    cells = CELLS[:2]
    first = table(cells, tmp_path)
    fresh = table(cells, tmp_path / "fresh")
    pd.testing.assert_frame_equal(first[0], fresh[0], check_exact=True)
    monkeypatch.setattr(scale, "compare", None)
    assert_same_tables(table(cells, tmp_path), first)
    assert list(first[0].columns[len(asdict(CELL)) :]) == [
        "exact_acc",
        "hnsw_acc",
        "recall",
        "agreement",
        "exact_acc_k1",
        "hnsw_acc_k1",
    ]
    costs = ["build_s", "hnsw_ms", "exact_ms", "hnsw_batch_ms", "exact_batch_ms", "bytes", "resident"]
    assert list(first[1].columns[len(asdict(CELL)) :]) == costs
    assert (first[0].iloc[:, :7] == first[1].iloc[:, :7]).all(axis=None)


def test_no_cells_make_an_empty_table(tmp_path):
    found, cost = table([], tmp_path)
    assert len(found) == len(cost) == 0


def test_a_damaged_part_is_reported_and_built_again(uninterrupted, tmp_path, adds):
    whole, folder = uninterrupted[1], tmp_path / "damaged"
    build(CELL, folder)
    (part,) = files(folder)
    part.write_bytes(whole[:100])
    with pytest.warns(UserWarning, match="damaged"):
        build(CELL, folder)
    (again,) = files(folder)
    assert again.read_bytes() == whole


def test_what_a_stop_while_saving_left_is_removed(short_parts, tmp_path):
    build(CELL, tmp_path)
    (part,) = files(tmp_path)
    left = tmp_path / f".{part.name}.left.bin"
    left.write_bytes(b"half")
    build(CELL, tmp_path)
    assert not left.exists() and part.exists()


def test_on_a_ledger_at_hand_every_effort_is_judged_against_exact_search():
    data = Synthetic(600, 6, 0.2, dim=32)
    Q, y = data.queries(50)
    X, labels = data.rows(0, 600), data.labels(0, 600)
    rows = scale.on_ledger(X, labels, Q, y, efforts=(5, 50, 600))
    assert [row["ef"] for row in rows] == [5, 50, 600]
    sims, slots = top_k(Q, X, np.arange(600), 5)
    assert {row["exact_acc"] for row in rows} == {np.mean(vote(sims, labels[slots]) == y)}
    assert {row["exact_acc_k1"] for row in rows} == {np.mean(labels[slots[:, 0]] == y)}
    assert rows[0]["recall"] <= rows[1]["recall"] <= rows[2]["recall"] == 1.0
    assert rows[2]["agreement"] == 1.0 and rows[2]["hnsw_acc"] == rows[2]["exact_acc"]


def test_what_is_found_does_not_depend_on_the_jobs(tmp_path, monkeypatch):
    monkeypatch.setattr(synthetic, "BLOCK", 4096)  # as in the workers
    cells = [Cell(300, 30, 0.15, seed=seed, queries=20, ef=5) for seed in range(3)]
    one = run_cells(cells, cache=tmp_path / "one", folder=tmp_path, progress=False)[0]
    two = run_cells(cells, cache=tmp_path / "two", folder=tmp_path, progress=False, jobs=2)[0]
    assert two.equals(one) and len(files(tmp_path / "two")) >= 3
