"""Published artefacts of the wider comparison and of harder streams are those that their notebooks make, byte by byte."""

import json
import re

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from ocrrlib.experiments import OURS
from ocrrlib.files import ROOT
from paper.streams import QUOTED, Difference
from paper.values import Value, read

# Differences of which the paper says that the seeds cannot tell them from 0; of the others it says which way they go.
CANNOT_TELL = set(
    "late.slda_end late.ours_end asked.slda_gained asked.ours_gained_entropy drift.substrate_end drift.ours_end "
    "new.slda_novel new.ours_novel new.ours_over_original scope.ours_through order.reservoir_novel "
    "order.reservoir_original encoder.linear_novel digits.tuned_over_novel digits.tuned_over_original".split()
)


def execute(notebook, out, wanted=""):
    """Run the code cells of a notebook whose ids match ``wanted``; returns their names. Artefacts go to ``out``."""
    matplotlib.use("agg")
    for folder in ("figures", "paper/tables"):
        (out / folder).mkdir(parents=True)
    (out / "data").symlink_to(ROOT / "data")
    names = {"quoted": {}}
    for cell in json.loads((ROOT / f"notebooks/{notebook}.ipynb").read_text())["cells"]:
        if cell["cell_type"] == "code" and re.match(wanted, cell["id"]):
            exec(compile("".join(cell["source"]), f"{notebook}, cell {cell['id']}", "exec"), names)
            names["OUT"] = out if "parameters" in cell["metadata"].get("tags", []) else names["OUT"]
    plt.close("all")
    return names


def assert_published(out):
    """All files that a notebook made are the committed ones; returns their names."""
    made = [path for path in out.rglob("*.*") if path.is_file()]
    for path in made:
        name = path.relative_to(out)
        assert path.read_bytes() == (ROOT / name).read_bytes(), f"{name}: make it anew with `make paper`"
    return {path.stem for path in made}


@pytest.fixture(scope="module")
def streams(tmp_path_factory):
    out = tmp_path_factory.mktemp("streams")
    return out, execute("10_streams", out)


def test_figures_tables_and_values_of_harder_streams_are_the_published_ones(streams):
    made = assert_published(streams[0])
    studies = ("wrong", "late", "asked", "drift", "new", "known", "scope", "order", "encoder", "digits")
    assert made >= {
        *(f"streams_{study}" for study in studies),
        "table_streams",
        "table_stream_differences",
        "10_streams",
    }


def test_the_advice_claims_only_effects_whose_interval_leaves_out_0(streams):
    quoted, studies, rows = (streams[1][name] for name in ("quoted", "studies", "rows"))
    found = {name: value for name, value in quoted.items() if isinstance(value, Difference)}
    assert {name for name, value in found.items() if value.low <= 0 <= value.high} == CANNOT_TELL
    directed = [value for name, value in found.items() if name.endswith(("_lost", "_more", "_way", "_below", "_met"))]
    assert directed and all(value.value > 0 for value in directed)
    table = studies.table.set_index(["study", "setting", "than", "metric"]).sort_index()
    lost = -table.loc[("wrong", *QUOTED["wrong"], "novel_acc")].set_index("system")[["low", "high"]]
    models, head = ["slda", OURS], ["online_linear"]
    votes = lost.index.difference(models + head)
    assert lost.loc[models, "low"].max() < lost.loc[votes, "high"].min()  # negated: low is the most that is lost
    assert lost.loc[votes, "low"].max() < lost.loc[head, "high"].min()
    assert (table.loc[("late", *QUOTED["late"], "novel_acc"), "high"] > 0).all()
    assert (table.loc[("known", *QUOTED["known"], "novel_acc"), "low"] > 0).all()
    asked = table.loc["asked"].query("metric == 'novel_acc' and setting.str.endswith('margin')")
    assert (asked["p_holm"] > 0.05).all()  # "none of these changes stands"
    few = [
        table.loc[("known", f"{n} known", "substrate", "original_acc")].set_index("system").loc[OURS] for n in (5, 10)
    ]
    assert all(row["difference"] < 0 < row["high"] for row in few)  # section on known classes of the notebook
    digits = rows[rows["study"] == "digits"].set_index("system")[["seed", "step", "novel_acc", "original_acc"]]
    roomy, whole = (digits.loc[name].reset_index(drop=True) for name in ("bounded_reservoir_1000", "substrate"))
    assert roomy.equals(whole)  # caption of the figure


def test_a_difference_is_shown_with_its_interval_and_a_mark_if_it_stands():
    row = {"metric": "novel_acc", "difference": 0.051, "low": 0.02, "high": 0.082, "p_holm": 0.04}
    stands = Difference.of(row)
    assert stands.text == "5.1\u00a0pp [2.0, 8.2]†" and (-stands).text == "−5.1\u00a0pp [−8.2, −2.0]†"
    assert Difference.of(row | {"p_holm": 0.06}).text == "5.1\u00a0pp [2.0, 8.2]"
    one_seed = dict.fromkeys(("low", "high", "p_holm"), np.nan)
    assert Difference.of(row | one_seed).text == Value(5.1, 1, "pp").text


def test_tables_of_the_wider_comparison_that_need_no_resampling_are_the_published_ones(tmp_path):
    load = "09-0[12]|09-setup|09-04|data"
    names = execute("09_beyond", tmp_path, rf"({load}|09-24|09-26|09-28)")
    made = {"table_corrections", "table_variance", "table_search", "table_tuning"}
    assert assert_published(tmp_path) == made
    entries, quoted = read(), names["quoted"]
    assert len(quoted) == 23 and all(
        entries[f"beyond.{name}"]["value"] == getattr(v, "value", v) for name, v in quoted.items()
    )


@pytest.mark.slow
def test_figures_tables_and_values_of_the_wider_comparison_are_the_published_ones(tmp_path):
    execute("09_beyond", tmp_path)
    made = assert_published(tmp_path)
    assert {"beyond_front", "beyond_anytime", "beyond_recovery", "09_beyond"} < made and len(made) == 14


def test_the_paper_names_every_system_whose_mean_over_the_stream_is_above_ours():
    means = pd.read_csv(ROOT / "paper/tables/table_statistics.csv").query("metric == 'novel_over_steps'")
    means = means.pivot(index=["dataset", "policy"], columns="system", values="mean").round(4)  # equal so far: level
    above = {cell: {name for name in row.index if row[name] > row[OURS]} for cell, row in means.iterrows()}
    assert {cell: names for cell, names in above.items() if names} == {
        ("banking77", "random10"): {"ncm_cosine"},
        ("clinc150", "oracle"): {"pa", "ncm", "slda_shrunk"},
        ("clinc150", "random50"): {"pa", "ncm_cosine"},
    }
    rivals = pd.read_csv(ROOT / "paper/tables/table_bar.csv")
    assert set(rivals["system"]).isdisjoint({"pa", "ncm_cosine"})
    assert {"ncm", "slda_shrunk"} <= set(rivals.query("dataset == 'clinc150' and policy == 'oracle'")["system"])
