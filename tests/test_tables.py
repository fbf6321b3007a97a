"""Tables: rounding, missing values, spreads, and the three files that each is written to."""

import numpy as np
import pandas as pd
import pytest

from paper import tables
from paper.tables import Table

SCALES = pd.DataFrame([(10, 0.15, 10_000), (10, 0.15, 500), (7, 0.3, 10_000)], columns=tables.BY)


@pytest.mark.parametrize("mean, count, shown", [(np.nan, 0, "never"), (12.4, 3, "12"), (12.6, 2, "13 (2/3)")])
def test_corrections_to_a_level_say_how_many_seeds_reach_it(mean, count, shown):
    assert tables.reached(pd.DataFrame({"seeds": 3, "to_10": mean, "to_10_reached": count}, index=[0]), 10) == [shown]


@pytest.mark.parametrize(
    "found, shown",
    [
        (tables.spread([0.5, 0.25, np.nan], [0.0004, np.nan, np.nan]), ["0.500 ± 0.000", "0.250", "–"]),
        (tables.shown([1234.5, np.nan, -0.05], ",.1f"), ["1,234.5", "", "-0.1"]),
        (tables.shown([-0.001, np.nan], "+z.1f", "–"), ["+0.0", "–"]),
        (list(map(tables.count, (999, 1000, 999_999, 10**7))), ["999", "1k", "999k", "10M"]),
        (list(map(tables.duration, (0.04, 99.9, 100, 1000))), ["0.0 µs", "99.9 µs", "100 µs", "1.0 ms"]),
    ],
)
def test_numbers_for_readers(found, shown):
    assert found == shown


def test_columns_name_what_the_summary_has_as_readers_know_it():
    named = pd.DataFrame({"dataset": ["banking77", "mine"], "policy": ["random10", "other"]})
    found = {name: list(column) for name, column in tables.titles(named).items()}
    assert found == {"Dataset": ["Banking77", "mine"], "Policy": ["random-10", "other"]}


def test_a_table_is_written_for_machines_for_markdown_and_for_latex(tmp_path):
    text = pd.DataFrame({"a_b": ["0.1 ± 0.2", "1 → 2 & 3"]})
    table = Table("name", "50 % of a_b.", pd.DataFrame({"a": [0.1, 1e-17]}), text)
    assert table.write(tmp_path) is table
    csv, markdown, latex = ((tmp_path / f"name.{end}").read_text() for end in ("csv", "md", "tex"))
    assert csv == "a\n0.1\n1e-17\n"
    assert markdown.endswith("| 1 → 2 & 3 |\n\n: 50 % of a_b.\n")
    assert r"0.1 $\pm$ 0.2" in latex and r"1 $\to$ 2 \& 3" in latex and r"\caption{50 \% of a\_b.}" in latex
    assert "<td>1 → 2 &amp; 3</td>" in table._repr_html_()


def test_all_sizes_are_shown_where_none_is_the_originals():
    assert tables.at_scales(SCALES, [(10, 0.15)])["n"].tolist() == [10_000]
    assert tables.at_scales(SCALES[1:], [(10, 0.15)])["n"].tolist() == [500]
