"""Shuffling the initial rows changes their order and nothing else; queues notice, other memories do not."""

import numpy as np

from ocrrlib.experiments import PROFILES
from ocrrlib.file_order import compare_orders, in_both_orders
from ocrrlib.report import tables
from ocrrlib.scenario import make_scenario, shuffled


def test_the_same_rows_come_in_another_order(banking):
    scenario = make_scenario(banking, 3, **PROFILES["quick"])
    other = shuffled(scenario)
    assert not np.array_equal(other.y_initial, scenario.y_initial)
    pairs = [sorted(zip(map(bytes, s.X_initial), s.y_initial.tolist())) for s in (scenario, other)]
    assert pairs[0] == pairs[1]
    for name in ("X_stream", "y_stream", "X_novel", "X_original", "held_out"):
        assert np.array_equal(getattr(scenario, name), getattr(other, name))
    again = shuffled(make_scenario(banking, 3, **PROFILES["quick"]))
    assert np.array_equal(again.y_initial, other.y_initial)


def test_what_a_queue_knows_depends_on_the_order_and_what_the_whole_ledger_knows_does_not():
    queue = in_both_orders("bounded_fifo_100", "banking77", "all-MiniLM-L6-v2", 0)
    assert queue[1]["start_original"] > queue[0]["start_original"] + 0.2
    ledger = in_both_orders("static_knn", "banking77", "all-MiniLM-L6-v2", 0, "quick")
    assert ledger[0] | {"order": "shuffled"} == ledger[1]


def test_workers_find_the_same_and_the_table_shows_each_pair():
    one, two = (
        compare_orders(["bounded_fifo_100"], "banking77", "all-MiniLM-L6-v2", "0,1", "quick", n) for n in (1, 2)
    )
    assert one.equals(two) and len(one) == 4
    table = tables.file_order(one)
    assert table.text["Initial rows"].tolist() == ["sorted by class", "shuffled"]
    assert (
        table.numbers["start_original"].tolist() == one.groupby("order", sort=False)["start_original"].mean().tolist()
    )
