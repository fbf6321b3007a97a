"""Costs are measured through the public contract; no test depends on how long anything takes."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import EMBEDDED

from ocrrlib import cost_plan, costs, scale
from ocrrlib.errors import InputError
from ocrrlib.scenario import make_scenario

COLUMNS = {f"{what}_{value}" for what in ("predict", "correct") for value in ("median", "low", "high")}


class Clock:
    """A clock that tells what it is given."""

    def __init__(self, *times):
        self.times = iter(times)

    def perf_counter(self):
        return next(self.times)


def test_each_call_is_timed_by_itself(monkeypatch):
    monkeypatch.setattr(scale, "time", Clock(0, 1, 10, 13))
    called = []
    assert costs.timed(called.append, [("a",), ("b",)]) == [1, 3]
    assert called == ["a", "b"]


def test_quantiles_are_in_microseconds():
    found = costs.microseconds(np.arange(101) * 1e-6, "predict")
    assert found == pytest.approx({"predict_median": 50, "predict_low": 5, "predict_high": 95})


@pytest.mark.parametrize("name", EMBEDDED)
def test_every_system_is_predicted_and_corrected_once_per_item(name, tiny, monkeypatch):
    calls = {"predict": [], "correct": []}
    make = costs.make

    def counted(*args):
        system = make(*args)
        for method in calls:
            monkeypatch.setattr(system, method, count(getattr(system, method), calls[method]))
        return system

    def count(method, seen):
        def call(*args):
            seen.append(args)
            return method(*args)

        return call

    monkeypatch.setattr(costs, "make", counted)
    s = make_scenario(tiny, 0, held_out=4)
    *_, found = costs.turns(costs.fitted(name, s), s, items=7)
    assert found.keys() == COLUMNS | {"bytes"} and found["bytes"] > 0
    assert [x.shape for (x,) in calls["predict"]] == [(1, s.X_stream.shape[1])] * 7
    assert [y for _, y in calls["correct"]] == s.y_stream[:7].tolist()


def test_a_system_gets_so_many_items_in_a_row_and_no_more_than_the_stream_has(tiny):
    s = make_scenario(tiny, 0, held_out=4)
    held = [found["bytes"] for found in costs.turns(costs.fitted("substrate", s), s, items=10**6)]
    assert len(held) == -(-len(s.y_stream) // costs.TURN) and held == sorted(set(held))


def test_systems_take_turns_and_each_has_its_last_costs():
    order = []

    def of(name, count):
        for turn in range(count):
            order.append((name, turn))
            yield {"system": name, "turn": turn}

    rows = costs.of_items([of("long", 3), of("short", 1), of("middle", 2)], progress=False)
    assert order == [("long", 0), ("short", 0), ("middle", 0), ("long", 1), ("middle", 1), ("long", 2)]
    assert rows == [dict(system=name, turn=turn) for name, turn in (("long", 2), ("short", 0), ("middle", 1))]


@pytest.mark.parametrize("name", ["substrate", "substrate_hnsw"])
def test_a_ledger_of_any_size_is_measured(name):
    small, large = (costs.of_ledger(name, n, dim=16, items=5, classes=10, copied=8) for n in (50, 500))
    assert small.keys() == COLUMNS | {"system", "entries", "bytes", "bandwidth"}
    assert (small["entries"], large["entries"]) == (50, 500) and large["bytes"] > 5 * small["bytes"]


def test_a_ledger_that_does_not_fit_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr(scale.psutil, "virtual_memory", lambda: SimpleNamespace(available=10**6))
    with pytest.raises(InputError, match="10,000,000 entries need"):
        costs.of_ledger("substrate", 10_000_000, copied=8)


def test_a_copy_reads_and_writes_every_byte_and_takes_turns_with_searches(monkeypatch):
    monkeypatch.setattr(costs, "TURN", 2)
    timed, took = costs.timed, iter([2, 1, 4])
    copies = []

    def copied(function, calls):
        if function is not np.copyto:
            return timed(function, calls)
        copies.append(len(searched))
        return [next(took)]

    make, searched = costs.make, []

    def counted(name):
        system = make(name)
        predict = system.predict
        system.predict = lambda Q: (searched.append(len(Q)), predict(Q))
        return system

    monkeypatch.setattr(costs, "timed", copied)
    monkeypatch.setattr(costs, "make", counted)
    assert costs.of_ledger("substrate", 50, dim=16, items=5, classes=10, copied=1000)["bandwidth"] == 2000 / 2
    assert copies == [1 + 2, 1 + 4, 1 + 5], "one search warms up"


# --- all systems, all sizes


def test_all_systems_are_measured_that_can_be(monkeypatch):
    def no_texts(*_):
        raise InputError("no texts here")

    monkeypatch.setattr(cost_plan, "load_sentences", no_texts)
    monkeypatch.setattr(cost_plan, "PROFILES", {"paper": dict(cap=60, thin=24), "quick": {}})
    with pytest.warns(UserWarning, match="lora is left out: no texts here"):
        table = cost_plan.of_systems("paper", progress=False, systems=("static_linear", "lora"))
    assert list(zip(table["dataset"], table["system"])) == [
        (dataset, system) for dataset in ("banking77", "clinc150") for system in ("substrate", "static_linear")
    ]


def test_a_system_whose_library_is_missing_is_left_out_and_the_others_are_measured(monkeypatch):
    monkeypatch.setitem(sys.modules, "ocrrlib.systems.pa", None)
    with pytest.warns(UserWarning, match=r"pa is left out: .*pip install 'ocrrlib\[river\]'"):
        table = cost_plan.of_systems("quick", progress=False, systems=("pa", "static_linear"), datasets=("clinc150",))
    assert list(table["system"]) == ["substrate", "static_linear"]


def test_a_ledger_whose_library_is_missing_is_left_out_and_the_other_is_measured(monkeypatch):
    monkeypatch.setitem(sys.modules, "hnswlib", None)
    with pytest.warns(UserWarning, match="substrate_hnsw is left out: .*pip install hnswlib"):
        table = cost_plan.of_ledgers("quick", progress=False)
    assert table[["system", "entries"]].values.tolist() == [["substrate", 100], ["substrate", 1000]]


def test_the_quick_profile_measures_every_system_that_reads_embeddings():
    table = cost_plan.of_systems("quick", progress=False)
    assert not table.duplicated(["dataset", "system"]).any() and set(table["dataset"]) == {"banking77", "clinc150"}
    for _, own in table.groupby("dataset"):
        assert set(own["system"]) == set(cost_plan.MEASURED) & set(EMBEDDED)
    assert set(cost_plan.MEASURED) - set(EMBEDDED) == {"lora"}
    assert (table["seed_s"] > 0).all()
    for _, own in table.groupby("dataset"):
        beside = own.set_index("system").loc["substrate"]
        for what in ("predict", "correct"):
            assert (own[f"substrate_{what}"] == beside[f"{what}_median"]).all(), "each row has what it can be held to"


def test_ledgers_of_all_sizes_are_measured_beside_the_bandwidth():
    table = cost_plan.of_ledgers("quick", progress=False)
    assert list(zip(table["system"], table["entries"])) == [(s, n) for n in (100, 1000) for s in cost_plan.LEDGERS]
    assert (table["bandwidth"] > 1e8).all()


@pytest.mark.parametrize("measure", [cost_plan.of_systems, cost_plan.of_ledgers])
def test_an_unknown_profile_is_refused_before_anything_runs(measure, monkeypatch):
    monkeypatch.setattr(cost_plan, "turns", None)
    monkeypatch.setattr(cost_plan, "of_ledger", None)
    with pytest.raises(InputError, match="unknown profile"):
        measure("fast")
