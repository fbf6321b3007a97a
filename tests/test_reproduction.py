"""The original's tables beside ours: verdicts, and where each number on their page comes from."""

from math import inf, nan

import numpy as np
import pandas as pd
import pytest

from ocrrlib.files import ROOT
from paper import claims, pages
from paper.reproduction import Row, compare, word

TABLES = ROOT / "paper/tables"
RUNS = {"novel": "novel", "original": "original", "to_10": "to_10", "to_70": "to_70"}
# Where our numbers are published: table, rows, and its columns by measure.
FULL = "table_six_cells", "policy == 'oracle' and dataset == '{}'"
OURS = {
    "table1": ("table1_headline", "experiment != 'full sweep' or system != 'river_logreg'", RUNS),
    "figure1": ("table1_headline", "experiment == 'storage sweep'", RUNS),
    "figure2": (FULL[0], FULL[1].format("banking77"), RUNS | {"corrections": "corrections"}),
    "figure4": (FULL[0], FULL[1].format("banking77"), RUNS),
    "figure5": (FULL[0], FULL[1].format("clinc150"), RUNS),
    "figure6": ("table_lora", "index == index", RUNS | {"start_original": "start"}),
    "vote": ("table_vote_ablation", "index == index", RUNS),
    "compute": ("table_costs", "dataset == 'banking77'", {"us": "correct_median"}),
}
NAMES = sorted(path.stem for path in TABLES.glob("table_reproduction_*.csv"))


def numbers(tree):
    """All numbers in nested dicts and lists; None, a level never reached, is infinite."""
    if isinstance(tree, dict | list):
        parts = tree.values() if isinstance(tree, dict) else tree
        return set().union(*map(numbers, parts))
    return {inf if tree is None else float(tree)} if isinstance(tree, int | float | None) else set()


@pytest.mark.parametrize(
    "theirs, ours, scale, verdict",
    [
        (-0.30, -0.315, "difference", "as far"),
        (-0.30, -0.33, "difference", "same side"),
        (-0.03, 0.01, "difference", "other side"),
        (-0.01, 0.01, "difference", "as far"),
        (3.0, 3.9, "ratio", "as far"),
        (3.0, 4.1, "ratio", "same side"),
        (inf, inf, "ratio", "as far"),
        (inf, 3.0, "ratio", "same side"),
    ],
)
def test_a_verdict_is_about_distances_from_the_reference(theirs, ours, scale, verdict):
    assert word(theirs, ours, scale) == verdict


def test_a_row_has_its_worst_verdict_and_is_compared_with_the_release_where_nothing_is_printed():
    rows = [
        Row({"System": "a"}, {"novel": 0.9, "original": 0.8}, {"novel": 0.8}, {"original": 0.9}),
        Row({"System": "b"}, {"novel": 0.5, "original": 0.9}, {"novel": 0.4}, {"original": 0.8}),
        Row({"System": "c"}, {"novel": 0.5, "original": 0.7}, {"novel": 0.2}, {"original": 0.6}),
        Row({"System": "d"}, {"novel": 0.5}, {"novel": nan}),
    ]
    table = compare("some", rows, ["novel", "original"], "Some.", "")
    assert [*table.text["Verdict"]] == ["reference", "other side (original)", "same side", "–"]
    assert "Original: printed" not in table.text
    assert table.caption == "Some. Kendall's tau of the rows: novel 0.82; original 0.33."


@pytest.mark.parametrize("name", NAMES)
def test_what_is_printed_and_released_is_in_the_claims(name):
    facts, listed = claims.read()
    known = {
        "printed": numbers([facts["paper"], [claim["printed"] for claim in listed]]),
        "released": numbers(facts["released"]),
    }
    table = pd.read_csv(TABLES / f"{name}.csv")
    found = [column for column in table if column.removesuffix("_std").endswith((*known,))]
    assert found or name.endswith("hyperparameters")
    for column in found:
        source = column.removesuffix("_std").rpartition("_")[2]
        if column != "lead_released":  # a difference of two
            assert {*table[column].dropna()} <= known[source], column


@pytest.mark.parametrize("name", OURS)
def test_what_is_ours_is_as_in_the_published_table(name):
    source, rows, measures = OURS[name]
    table = pd.read_csv(TABLES / f"table_reproduction_{name}.csv")
    ours = pd.read_csv(TABLES / f"{source}.csv").query(rows).drop_duplicates("system")
    ours = ours.set_index("system")
    systems = table["System"].replace("lora_deberta", "lora")
    columns = {measure: f"{measure}_ours" for measure in measures if f"{measure}_ours" in table}
    assert len(columns) >= min(2, len(measures))
    for measure, column in columns.items():
        published = ours.loc[systems, measures[measure]].fillna(inf)
        assert np.allclose(table[column], published, rtol=0, atol=1e-12), column


def test_the_page_shows_the_tables_of_today():
    text = (ROOT / "docs/reproduction.md").read_text(encoding="utf-8")
    assert pages.reproduction(text) == text
    assert all(f"<!--{name}-->" in text for name in NAMES)
