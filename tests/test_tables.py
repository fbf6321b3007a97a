"""Tables: rounding, missing values, order, spreads, and the three files that each is written to."""

import numpy as np
import pandas as pd
import pytest

from paper import tables
from paper.tables import Table

SETTINGS = ((100, 0.1), (10, 0.15))
FOUND = pd.DataFrame(
    [
        (100, 0.1, 10_000, 0, 1.0, 0.9, 0.9, 0.6),
        (100, 0.1, 10_000, 1, 0.8, 0.7, 0.7, 0.4),
        (10, 0.15, 10_000, 0, 1.0, 1.0, 0.98, 0.3),
        (10, 0.15, 100_000, 0, 0.99, 0.99, 0.99, 0.2),
        (10, 0.15, 500, 0, 0.99, 0.99, 0.99, 0.2),
        (7, 0.3, 10_000, 0, 0.5, 0.4, 0.4, 0.1),
    ],
    columns=["classes", "noise", "n", "seed", "exact_acc", "hnsw_acc", "hnsw_acc_k1", "recall"],
).assign(agreement=1.0, exact_acc_k1=1.0, queries=10, ef=64, threads=1, in_turn=False)
COSTS = FOUND[["classes", "noise", "n", "seed", "queries", "ef", "threads", "in_turn"]].assign(
    build_s=[1.0, 3.0, 5.0, 7.0, 9.0, 9.0],
    hnsw_ms=0.1,
    exact_ms=[0.5, 0.5, 0.5, np.nan, 0.5, 0.5],
    hnsw_batch_ms=0.1,
    exact_batch_ms=0.2,
    bytes=2 * 10**9,
    resident=3 * 10**9,
)


def summary(**columns):
    return pd.DataFrame({"seeds": 3, "to_10": np.nan, "to_10_reached": 0} | columns, index=[0])


@pytest.mark.parametrize(
    "columns, shown",
    [
        (dict(), "never"),
        (dict(to_10=12.4, to_10_reached=3), "12"),
        (dict(to_10=12.6, to_10_reached=2), "13 (2/3)"),
        (dict(to_10=0.0, to_10_reached=1), "0 (1/3)"),
    ],
)
def test_corrections_to_a_level_say_how_many_seeds_reach_it(columns, shown):
    assert tables.reached(summary(**columns), 10) == [shown]


def test_a_spread_is_shown_where_there_is_one_and_a_missing_number_is_an_empty_cell():
    assert tables.spread([0.5, 0.25], [0.0004, np.nan]) == ["0.500 ± 0.000", "0.250"]
    assert tables.shown([1234.5, np.nan, -0.05], ",.1f") == ["1,234.5", "", "-0.1"]
    assert tables.shown([3, 2000], ",") == ["3", "2,000"]


@pytest.mark.parametrize("n, shown", [(999, "999"), (1000, "1k"), (999_999, "999k"), (10**6, "1M"), (10**7, "10M")])
def test_numbers_of_entries_are_short(n, shown):
    assert tables.count(n) == shown


@pytest.mark.parametrize("us, shown", [(0.04, "0.0 µs"), (99.9, "99.9 µs"), (100, "100 µs"), (1000, "1.0 ms")])
def test_durations_have_a_unit_that_fits(us, shown):
    assert tables.duration(us) == shown


def test_columns_name_what_the_summary_has_as_readers_know_it():
    named = pd.DataFrame({"dataset": ["banking77", "mine"], "policy": ["random10", "other"]})
    assert {name: list(column) for name, column in tables.titles(named).items()} == {
        "Dataset": ["Banking77", "mine"],
        "Policy": ["random-10", "other"],
    }


def test_a_table_is_written_for_machines_for_markdown_and_for_latex(tmp_path):
    text = pd.DataFrame({"a_b": ["0.1 ± 0.2", "1 → 2 & 3"]})
    table = Table("name", "50 % of a_b.", pd.DataFrame({"a": [0.1, 1e-17]}), text)
    assert table.write(tmp_path) is table
    csv, markdown, latex = ((tmp_path / f"name.{end}").read_text() for end in ("csv", "md", "tex"))
    assert csv == "a\n0.1\n1e-17\n"
    assert markdown.endswith("| 1 → 2 & 3 |\n\n: 50 % of a_b.\n")
    assert r"0.1 $\pm$ 0.2" in latex and r"1 $\to$ 2 \& 3" in latex and r"\caption{50 \% of a\_b.}" in latex
    assert "<td>1 → 2 &amp; 3</td>" in table._repr_html_()


def test_scales_have_mean_and_spread_over_seeds_at_the_sizes_of_the_original():
    table = tables.scale(FOUND, COSTS, SETTINGS)
    rows = table.numbers[["classes", "n", "seeds"]].to_numpy().tolist()
    assert rows == [[100, 10_000, 2], [10, 10_000, 1], [10, 100_000, 1]]
    columns = ["Classes, noise", "Exact", "Gap (pp)", "Recall@5", "Seeds"]
    assert table.text[columns].iloc[0].tolist() == ["100, 0.1", "0.900 ± 0.100", "+10.0", "0.500 ± 0.100", 2]
    assert table.text[columns].iloc[1].tolist() == ["10, 0.15", "1.000", "+0.0", "0.300", 1]
    assert table.numbers["build_s"].tolist() == [2.0, 5.0, 7.0]


def test_all_sizes_are_shown_where_none_is_the_originals():
    small = FOUND[FOUND["n"] == 500]
    assert tables.at_scales(small, SETTINGS)["n"].tolist() == [500]
    assert tables.at_scales(FOUND, SETTINGS[1:])["n"].tolist() == [10_000, 100_000]


def test_costs_of_searches_are_medians_over_data_seeds_with_most_classes_first():
    numbers, text = tables.by_setting(tables.cost_medians(COSTS, SETTINGS))
    assert text["Classes, noise"] == ["100, 0.1", "10, 0.15", "10, 0.15"]
    assert text["Entries"].tolist() == ["10k", "10k", "100k"]
    assert numbers["build_s"].tolist() == [2.0, 5.0, 7.0]
    assert tables.shown(numbers["exact_ms"], ".1f") == ["0.5", "0.5", ""], "not timed where rows do not fit"


def test_costs_are_relative_to_the_substrate_of_the_same_run():
    rows = pd.DataFrame({"correct_median": [5.0, 200.0], "predict_median": [2000.0, 100.0]})
    rows = rows.assign(substrate_correct=[5.0, 10.0], substrate_predict=[2000.0, 3000.0])
    assert tables.relative(rows, "correct").tolist() == [1.0, 20.0]
    assert tables.relative(rows).tolist() == pytest.approx([1.0, 300 / 3010])
    ours = rows.assign(system=["other", "ledger_plda"], dataset="banking77")
    assert tables.times_of_ours(ours) == {"banking77": pytest.approx(300 / 3010)}
