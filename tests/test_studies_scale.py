"""Scale and costs: synthetic ledgers, judgement of both searches, calls timed alone."""

from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocrrlib import codes
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.files import ROOT, InputError
from ocrrlib.scenario import make_scenario
from ocrrlib.search import top_k
from ocrrlib.systems import make
from ocrrlib.voting import vote
from studies import costs, ledger_search, memory_growth, race, scale
from studies.scale import Cell, Narrow, cells, compare, to_grid
from tests.test_codes import Integers

hnswlib = pytest.importorskip("hnswlib")
# Hard enough for both searches to err.
CELL = Cell(n=600, classes=120, noise=0.15, queries=60, ef=5)
OUTCOMES = ["exact_acc", "hnsw_acc", "recall", "agreement", "exact_acc_k1", "hnsw_acc_k1"]
COLUMNS = {
    f"{what}_{value}" for what in ("predict", "correct") for value in ("median", "low", "high")
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(scale, "ROWS_PER_DRAW", 64)


# --- synthetic ledgers


@given(
    ends=st.tuples(st.integers(0, 600), st.integers(0, 600)).filter(lambda ends: ends[0] != ends[1])
)
@settings(max_examples=40)
def test_rows_are_the_same_whatever_is_asked_for_with_them(ends):
    start, stop = sorted(ends)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scale, "ROWS_PER_DRAW", 64)
        rows = CELL.rows(start, stop)
        whole = CELL.rows(0, CELL.n)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, whole[start:stop])


@given(n=st.integers(1, 3000), share=st.floats(0, 1), in_turn=st.booleans())
def test_classes_have_equal_shares(n, share, in_turn):
    cell = Cell(n, 1 + int(share * (n - 1)), 0.1, in_turn=in_turn)
    labels = cell.labels(0, n)
    sizes = np.bincount(labels, minlength=cell.classes)
    assert len(sizes) == cell.classes and sizes.max() - sizes.min() <= 1
    assert labels[0] == 0 and (in_turn or set(np.diff(labels)) <= {0, 1})


def test_rows_and_queries_lie_around_the_centre_of_their_class_with_the_noise_that_is_stated():
    for kind, noise in ((Cell, 0.0), (Cell, 0.05), (Narrow, 0.05)):
        cell = kind(300, 40, noise, queries=130)
        np.testing.assert_array_equal(cell.query_rows()[0], replace(cell, n=900).query_rows()[0])
        for rows, y in ((cell.rows(0, 300), cell.labels(0, 300)), cell.query_rows()):
            assert set(y) == set(range(40))
            centre = cell.centres[y].astype(np.float64)
            rows = rows.astype(np.float64)
            apart = rows / (rows * centre).sum(axis=1, keepdims=True) - centre
            assert np.sqrt((apart**2).sum(axis=1).mean() / (scale.DIM - 1)) == pytest.approx(
                noise, rel=0.03, abs=5e-4
            )
            assert np.abs(np.linalg.norm(rows, axis=1) - 1).max() < 0.002


@given(d=st.integers(1, 384), seed=st.integers(0, 999))
def test_float32_cosines_on_the_grid_are_exact_in_any_order_of_summation(d, seed):
    rng = np.random.default_rng(seed)
    q, x = to_grid(rng.normal(size=(2, d)))
    true = float(q.astype(np.float64) @ x.astype(np.float64))
    for order in (np.arange(d), np.argsort(q * x, kind="stable"), rng.permutation(d)):
        assert (
            float(np.add.accumulate((q * x)[order], dtype=np.float32)[-1])
            == float(q[order] @ x[order])
            == true
        )


# --- both searches


@pytest.mark.parametrize("chunk", [41, 256, 1000])
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_exact_neighbours_do_not_depend_on_chunks_and_of_equal_cosines_the_newest_come_first(
    chunk, noise, monkeypatch
):
    monkeypatch.setattr(scale, "ROWS_AT_ONCE", chunk)
    cell = replace(CELL, noise=noise, classes=9)
    Q = cell.query_rows()[0][:7]
    (sims, slots), seconds = scale.exact_neighbours(cell, Q, 12)
    expected = top_k(Q, cell.rows(0, cell.n), np.arange(cell.n), 12)
    np.testing.assert_array_equal(sims, expected[0])
    np.testing.assert_array_equal(slots, expected[1])
    assert seconds > 0


def test_what_is_found_is_what_a_plain_computation_finds_and_the_same_twice():
    found, cost = compare(CELL)
    assert found == compare(CELL)[0] and list(found) == OUTCOMES
    X = CELL.rows(0, CELL.n)
    Q, y = CELL.query_rows()
    labels = CELL.labels(0, CELL.n)
    sims, slots = top_k(Q, X, np.arange(CELL.n), 5)
    index = hnswlib.Index("ip", 384)
    index.init_index(CELL.n, 16, 200, random_seed=CELL.seed)
    index.set_ef(CELL.ef)
    index.add_items(X, num_threads=1)
    near, distances = index.knn_query(Q, 5, num_threads=1)
    elected = vote(sims, labels[slots])
    other = vote(1.0 - distances.astype(np.float64), labels[near])
    hits = [len(set(a) & set(b)) for a, b in zip(slots.tolist(), near.tolist())]
    expected = [
        np.mean(elected == y),
        np.mean(other == y),
        sum(hits) / slots.size,
        np.mean(elected == other),
    ]
    expected += [np.mean(labels[slots[:, 0]] == y), np.mean(labels[near[:, 0]] == y)]
    assert (
        list(found.values()) == pytest.approx(expected, abs=1e-12)
        and 0.05 < min(found.values()) < 0.95
    )
    assert set(cost) == {
        *"build_s hnsw_ms exact_ms hnsw_batch_ms exact_batch_ms bytes resident".split()
    }
    assert cost["resident"] > cost["bytes"] > 4 * 384 * CELL.n and min(cost.values()) > 0


def test_a_query_that_reaches_few_entries_keeps_those():
    # Four heaps with hardly a way between them.
    cell = Cell(n=300, classes=4, noise=0.0001, queries=8)
    index = hnswlib.Index("ip", 384)
    index.init_index(300, 2, 4, random_seed=0)
    index.set_ef(2)
    index.add_items(cell.rows(0, 300), num_threads=1)
    with pytest.raises(RuntimeError):
        index.knn_query(cell.query_rows()[0], 250)
    sims, slots = scale.search(index, cell.query_rows()[0], 250)
    reached = (slots >= 0).sum(axis=1)
    assert (
        (reached > 0).all() and (reached < 250).any() and ((sims == -np.inf) == (slots < 0)).all()
    )
    assert (np.diff(sims[:, : reached.min()], axis=1) <= 0).all()


def test_a_large_index_that_was_saved_and_loaded_on_the_way_holds_all_rows(monkeypatch):
    monkeypatch.setattr(scale, "PART", 100)
    index, seconds = scale.build(CELL)
    np.testing.assert_array_equal(index.get_items(np.arange(CELL.n)), CELL.rows(0, CELL.n))
    assert seconds > 0 and index.ef == CELL.ef
    assert (
        scale.nbytes(index)
        == 96
        + sum(index.__getstate__()[0][part].nbytes for part in ("data_level0", "link_lists"))
        + 4 * CELL.n
    )


def test_a_scale_that_does_not_fit_is_refused_before_anything_is_built(monkeypatch):
    monkeypatch.setattr(scale.psutil, "virtual_memory", lambda: SimpleNamespace(available=3.14e9))
    for use in (
        lambda: compare(Cell(10**7, 100, 0.1)),
        lambda: race.race("exact", Cell(10**7, 100, 0.1)),
    ):
        with pytest.raises(
            InputError, match="^10,000,000 entries need 18.4 GB and 3.1 GB are free: choose fewer$"
        ):
            use()


# --- the plan


def test_the_plan_has_the_papers_scales_the_map_and_a_short_live_part():
    plan = cells(",".join(scale.PARTS))
    seeds = {}
    for cell in plan:
        seeds.setdefault((cell.n, cell.classes, cell.noise), set()).add(cell.seed)
    assert [seeds[n, 100, 0.1] for n in (10**4, 10**5, 10**6, 10**7)] == [
        {*range(5)},
        {*range(5)},
        {0},
        {0},
    ]
    assert len(cells("map")) == 60 and len(set(plan)) == len(plan)
    assert {cell.n for cell in plan if cell.threads > 1} == {10**7}
    assert [cell.n for cell in cells(scale.LIVE)] == 3 * [10_000]
    assert max(cell.n for cell in cells(",".join(scale.PARTS), "quick")) <= 2000
    with pytest.raises(
        InputError, match="unknown part of the scale experiment '5k'.*10k, 100k, seeds, 1M"
    ):
        cells("10k,5k")


def test_published_comparisons_are_of_the_plan_and_come_out_again(monkeypatch):
    monkeypatch.setattr(scale, "ROWS_PER_DRAW", 4096)
    published = pd.read_parquet(ROOT / "data/results/scale.parquet")
    plan = {tuple(asdict(cell).values()) for cell in cells(",".join(scale.PARTS))}
    assert {tuple(row) for row in published[list(asdict(CELL))].values.tolist()} == plan
    for row in published[published["n"] <= 2000].sample(2, random_state=0).to_dict("records"):
        assert scale.SCALE.rerun(row) == {name: row[name] for name in OUTCOMES}


def test_the_ledger_that_is_searched_has_seen_a_whole_stream():
    rows = ledger_search.search_ledgers(["banking77"], DEFAULT_ENCODER, "0", "quick")
    assert list(rows["ef"]) == 3 * list(scale.EFFORTS) and list(rows["order"].unique()) == list(
        ledger_search.ORDERS
    )
    assert rows["entries"].nunique() == 1 and rows["entries"][0] > 100
    assert (
        rows["recall"].iloc[-1] > 0.99 and rows["hnsw_acc"].iloc[-1] == rows["exact_acc"].iloc[-1]
    )


@pytest.mark.parametrize("d", [2, 8])
def test_the_local_dimension_of_a_uniform_cloud_is_that_of_its_space(d):
    cloud = np.random.default_rng(0).uniform(-0.1, 0.1, (4000, d))
    X = np.hstack([cloud, np.ones((4000, 1))]) / np.sqrt(1 + (cloud**2).sum(axis=1, keepdims=True))
    cosines = -np.sort(-X[:200] @ X.T)[:, 1 : 1 + ledger_search.NEAREST]
    assert ledger_search.dimension(cosines) == pytest.approx(d, rel=0.15)


# --- the race


def test_narrow_rows_have_about_the_local_dimension_of_real_ledgers():
    narrow = Narrow(4000, 20, 0.05)
    cell = Cell(4000, 20, 0.05)
    found = [
        scale.exact_neighbours(one, one.query_rows()[0], ledger_search.NEAREST)[0][0]
        for one in (narrow, cell)
    ]
    assert 6 < ledger_search.dimension(found[0]) < 12 < 60 < ledger_search.dimension(found[1])


@pytest.mark.parametrize("name", race.RACED)
def test_a_race_has_the_recall_of_every_effort(name, monkeypatch):
    monkeypatch.setattr(codes, "library", Integers)  # on any processor
    library, _, efforts = race.RACED[name]
    pytest.importorskip(library)
    few = replace(CELL, n=codes.GROUPS - 1, classes=40)  # too few for codes
    assert len(race.race(name, few)) == len(efforts)
    rows = pd.DataFrame(race.race(name, CELL))
    assert set(rows["index"]) == {name} and rows["effort"].fillna(0).tolist() == [
        effort or 0 for effort in efforts
    ]
    assert (
        (rows[["qps", "qps_alone"]] > 0).all(axis=None)
        and rows["build_s"].nunique() == 1
        and (rows["bytes"] >= 384 * CELL.n).all()
    )
    assert rows["recall"].iloc[-1] > 0.95 and (len(efforts) == 1 or rows["recall"].iloc[0] < 0.9)


def test_an_index_whose_library_is_missing_is_left_out_with_a_warning(tmp_path, monkeypatch):
    there = race.importlib.util.find_spec
    monkeypatch.setattr(
        race.importlib.util,
        "find_spec",
        lambda name: there(name) if name in ("numpy", "hnswlib") else None,
    )
    monkeypatch.setattr(race, "library", lambda: None)  # as on a processor without int8 products
    with pytest.warns(UserWarning, match="left out, .*: exact_int8, faiss_flat"):
        rows = race.races("race_100k,10k", "quick", cache=tmp_path, progress=False)
    assert set(rows["index"]) == {"exact", "hnswlib"} and set(rows["n"]) == {200}


# --- costs


def test_items_are_predicted_alone_and_then_corrected_in_turns(tiny):
    s = make_scenario(tiny, 0, held_out=4)
    calls = []
    system = make("substrate").fit(s.X_initial, s.y_initial, s.classes)
    predict = system.predict
    correct = system.correct
    system.predict = lambda X: (calls.append(X), predict(X))
    system.correct = lambda x, y: (calls.append(y), correct(x, y))
    held = [found["bytes"] for found in costs.turns(system, s, items=60)]
    assert len(held) == 3 and held == sorted(set(held))
    assert all(X.shape == (1, 16) for X in calls[::2]) and calls[1::2] == s.y_stream[:60].tolist()


def test_systems_are_measured_beside_the_substrate_and_what_is_missing_is_left_out(monkeypatch):
    def no_texts(*_):
        raise InputError("no texts here")

    monkeypatch.setattr(costs, "load_sentences", no_texts)
    monkeypatch.setattr(costs, "PROFILES", {"paper": dict(cap=60, thin=24)})
    with pytest.warns(UserWarning, match="lora is left out: no texts here"):
        table = costs.of_systems(systems=("static_linear", "lora"))
    names = [
        (dataset, system)
        for dataset in costs.MEASURED_ON
        for system in ("substrate", "static_linear")
    ]
    assert list(zip(table["dataset"], table["system"])) == names and (table["seed_s"] > 0).all()
    for _, own in table.groupby("dataset"):
        for what in ("predict", "correct"):
            assert (own[f"substrate_{what}"] == own[f"{what}_median"].iloc[0]).all()


def test_ledgers_of_growing_size_are_measured_beside_the_bandwidth(monkeypatch):
    monkeypatch.setattr(costs, "COPIED", 2**20)
    monkeypatch.setattr(costs, "SIZES", {"quick": (50, 500)})
    table = costs.of_ledgers("quick")
    assert set(table) == COLUMNS | {"system", "entries", "bytes", "bandwidth"}
    assert list(zip(table["system"], table["entries"])) == [
        (name, n) for n in (50, 500) for name in costs.LEDGERS
    ]
    assert (table["bandwidth"] > 1e6).all() and (
        table.groupby("system")["bytes"].agg(np.ptp) > 5e5
    ).all()


def test_a_memory_is_measured_by_entries_and_by_classes_beside_what_limits_it(monkeypatch):
    monkeypatch.setattr(memory_growth, "ENTRIES", {"quick": (100, 200)})
    monkeypatch.setattr(memory_growth, "CLASSES", {"quick": (5,)})
    table = memory_growth.of_memories("quick")
    costs_of = table.groupby(["grows", "size"])["what"].agg(set)
    assert costs_of.index.tolist() == [("classes", 5), ("entries", 100), ("entries", 200)]
    assert all(len(of) == 6 for of in costs_of)
    assert (table["measured"] > 0).all() and (table["limit"].dropna() > 0).all()


def test_an_exponent_is_the_slope_of_the_larger_sizes():
    sizes = np.array([1.0, 10, 100, 1000])
    rows = pd.DataFrame({"grows": "entries", "size": sizes, "what": "run"})
    rows["measured"] = [100, 10, 100, 1000]  # flat or falling at first, then linear
    assert memory_growth.exponents(rows)["exponent"].item() == pytest.approx(1)
