"""Tables: how many seeds reach a level, and the three files that each is written to."""

import numpy as np
import pandas as pd
import pytest

from paper import tables
from paper.tables import Table


@pytest.mark.parametrize(
    "mean, count, shown", [(np.nan, 0, "never"), (12.4, 3, "12"), (12.6, 2, "13 (2/3)")]
)
def test_corrections_to_a_level_say_how_many_seeds_reach_it(mean, count, shown):
    assert tables.reached(
        pd.DataFrame({"seeds": 3, "to_10": mean, "to_10_reached": count}, index=[0]), 10
    ) == [shown]


def test_a_table_is_written_for_machines_for_markdown_and_for_latex(tmp_path):
    text = pd.DataFrame({"a_b": ["0.1 ± 0.2", "1 → 2 & 3"]})
    table = Table("name", "50 % of a_b.", pd.DataFrame({"a": [0.1, 1e-17]}), text)
    assert table.write(tmp_path) is table
    csv, markdown, latex = ((tmp_path / f"name.{end}").read_text() for end in ("csv", "md", "tex"))
    assert csv == "a\n0.1\n1e-17\n"
    assert markdown.endswith("| 1 → 2 & 3 |\n\n: 50 % of a_b.\n")
    assert (
        r"0.1 $\pm$ 0.2" in latex
        and r"1 $\to$ 2 \& 3" in latex
        and r"\caption{50 \% of a\_b.}" in latex
    )
