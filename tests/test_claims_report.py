"""The audit's tables, figure and file say what was checked, in one order, and nothing twice."""

import json

import matplotlib.pyplot as plt
import pytest

from ocrrlib.claims import VERDICTS
from ocrrlib.report import claims as report


def row(id, section, verdict, checks=(), **more):
    found = {kind: {"verdict": said, "found": {"novel": 0.5, "to_70": None}} for kind, said in dict(checks).items()}
    return dict(
        id=id, section=section, claim=f"{id} is said", printed={"novel": 0.887}, checks=found, verdict=verdict
    ) | (dict(note="", unchecked="") | more)


ROWS = [
    row("c", "table 1", VERDICTS[3], unchecked="no weights"),
    row("b", "5.1", VERDICTS[2], {"released": VERDICTS[0], "ours": VERDICTS[2]}, note="ours is smaller"),
    row("d", "10", VERDICTS[1], {"paper": VERDICTS[1]}),
    row("a", "abstract", VERDICTS[0], {"ours": VERDICTS[0]}),
    row("e", "5.2", VERDICTS[0], {"ours": VERDICTS[0]}),
    row("f", "figure 2", VERDICTS[0], {"ours": VERDICTS[0]}),
    row("g", "2.1", VERDICTS[0], {"ours": VERDICTS[0]}),
]


@pytest.mark.parametrize(
    "value, said",
    [
        (0.887, "0.887"),
        (0.9, "0.9"),
        (-0.00001, "0"),
        (0.0005, "0.0005"),
        (0.9996, "1"),
        (14.9275, "14.9"),
        (-0.05, "-0.05"),
        (1172.4, "1,172"),
        (10, "10"),
        (1500000000, "1,500,000,000"),
        (None, "none"),
        (True, "yes"),
        (False, "no"),
        ({"novel": 0.9, "novel_std": 0.029, "to_70": None}, "novel = 0.900 ± 0.029; to 70 % = never"),
        ({"novel_std": 0.029}, "novel SD = 0.029"),
        ({"us": 14.9275, "hnsw_ms": 0.99, "mb": 20}, "14.9 µs; HNSW = 0.99 ms; 20 MB"),
        ({"noise_0_3": 0.083, "at_1m": 1, "k1_original": 0.9}, "noise 0.3 = 0.083; at 1M = 1; k1 original = 0.9"),
        (
            {"random10_clinc150": 0.4, "a_gem": 0.5, "exact_acc": 1},
            "random-10 CLINC150 = 0.4; A-GEM = 0.5; exact accuracy = 1",
        ),
        ({"others": [], "substrate": True}, "others = none; substrate = yes"),
        ([1, "ewc"], "1, ewc"),
        ({}, ""),
    ],
)
def test_figures_read_as_people_write_them(value, said):
    assert report.shown(value) == said


def test_means_are_shown_with_their_spread():
    check = {"found": {"novel": 0.9, "lead": 0.25}, "spread": {"novel": 0.0304}}
    assert report.found(check) == "novel = 0.900 ± 0.030; lead = 0.25"


def test_the_table_has_every_claim_once_in_the_order_of_the_paper():
    table = report.table(ROWS)
    assert table.numbers["id"].tolist() == ["a", "g", "b", "e", "d", "f", "c"]
    assert len(table.text) == len(ROWS)
    third = table.text.iloc[2]
    assert third[["Itself", "Release", "Ours"]].tolist() == ["–", "✓", "✗"]
    assert third["Found"].replace("\N{NO-BREAK SPACE}", " ") == "novel = 0.5; to 70 % = never"
    assert third["Printed"] == "novel =\N{NO-BREAK SPACE}0.887", "no line ends before a figure"
    assert "✓ holds" in table.caption and "✗ does not hold" in table.caption
    assert table.text.iloc[-1]["Found"] == ""
    assert table.text["Verdict"].tolist() == ["holds", "holds", "no", "holds", "direction", "holds", "unchecked"]


def test_the_summary_counts_every_check_and_every_claim():
    numbers = report.summary(ROWS).numbers.set_index("checked")
    assert numbers.loc["in all", "claims"] == len(ROWS)
    assert numbers.loc["in all", list(VERDICTS)].tolist() == [4, 1, 1, 1]
    assert numbers["claims"].tolist() == [1, 1, 5, 7]


def test_the_figure_has_one_square_for_every_claim_and_names_every_part():
    axes = report.overview(ROWS).axes[0]
    assert len(axes.patches) == len(ROWS)
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["abstract", "section 2", "section 5.1", "section 5.2", "section 10", "figures", "tables"]
    plt.close("all")


def test_the_file_for_the_site_holds_every_claim_as_text(tmp_path):
    report.write(ROWS, tmp_path / "claims.json")
    entries = json.loads((tmp_path / "claims.json").read_text())
    assert [entry["id"] for entry in entries] == ["a", "g", "b", "e", "d", "f", "c"]
    assert entries[2]["checks"]["ours"] == {"verdict": VERDICTS[2], "found": "novel = 0.5; to 70 % = never"}
    assert entries[2]["note"] == "ours is smaller" and entries[-1]["note"] == "no weights"
