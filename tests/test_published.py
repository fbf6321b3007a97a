"""Notebooks make results, tables and figures as published, byte for byte."""

import os
import re
import shutil

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

import notebooks.run  # noqa: F401 - with its nbclient, which cannot wait forever
from ocrrlib.experiments import OURS
from ocrrlib.files import ROOT, cache_folder
from ocrrlib.runs import published
from ocrrlib.systems import SYSTEMS
from paper import style
from paper.makefile import Makefile
from paper.quotes import Quotes
from paper.streams import TOLD, Studies, difference
from tests.samples import git
from tests.slim import PINS, names, only

STEMS = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
# They need no more packages than Binder has.
IN_BINDER = ("00_tour", "11_your_own", "12_explore", "13_correction_memory")
ELSEWHERE = "15_headline"  # is told to write to the checkout itself, and does not
PARAMETERS = "04-02|04-12b|04-12c|04-13"  # cells of 04_lora that count parameters
# Differences of which the paper says that the seeds cannot tell them from 0; of the others it says
# which way they go.
CANNOT_TELL = set(
    "late.slda_end asked.slda_gained asked.ours_gained_entropy drift.substrate_end "
    "drift.ours_end new.slda_novel wrong.ours_lost known.ours_novel "
    "order.reservoir_novel order.reservoir_original encoder.linear_novel encoder.ours_novel "
    "digits.tuned_over_novel digits.tuned_over_original".split()
)


def by_hand(notebook, checkout):
    """Execute a notebook as JupyterLab does, in a checkout; the folder that it writes to."""
    shutil.rmtree(checkout / "build/lab", ignore_errors=True)
    where = {"metadata": {"path": checkout / "notebooks"}}
    NotebookClient(notebook, resources=where, timeout=600).execute()
    return checkout / "build/lab"


@pytest.mark.published
@pytest.mark.parametrize("stem", STEMS)
def test_a_notebook_run_by_hand_makes_what_is_published_and_says_where(
    stem, checkout, tmp_path, monkeypatch
):
    monkeypatch.setenv("OCRR_CACHE_DIR", str(cache_folder().absolute()))  # of runs, as far as made
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (checkout, checkout / "memory"))))
    if stem in IN_BINDER:
        monkeypatch.delenv("OCRR_DATA_DIR", raising=False)
        for variable, value in only(names(PINS), tmp_path, checkout, checkout / "memory").items():
            monkeypatch.setenv(variable, value)
    notebook = nbformat.read(checkout / f"notebooks/{stem}.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if stem == ELSEWHERE:
        cells[0].source = cells[0].source.replace('OUT = "build/lab"', 'OUT = "."')
    lab = by_hand(notebook, checkout)
    first = next(output for cell in cells for output in cell.outputs)
    assert "writes " in first.text
    assert git(checkout, "status", "--porcelain") == ""
    made = {str(path.relative_to(lab)) for path in lab.rglob("*") if path.is_file()}
    assert made >= set(Makefile().made.get(stem, ()))
    for name in made:
        assert (lab / name).read_bytes() == (ROOT / name).read_bytes(), f"{name}: `make paper`"


@plt.rc_context()  # the style of a notebook ends with it
def execute(stem, out, only="", **given):
    """Variables of a notebook after its code cells whose ids match ``only``; some are ``given``."""
    given["OUT"] = str(out)
    names = dict(given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCRR_BY_MAKE", "1")
        for cell in nbformat.read(ROOT / f"notebooks/{stem}.ipynb", as_version=4).cells:
            if cell.cell_type == "code" and re.match(only, cell.id):
                exec(compile(cell.source, f"{stem}, cell {cell.id}", "exec"), names)
                names.update(given)
    plt.close("all")
    return names


@pytest.mark.slow
def test_parameters_are_counted_in_the_models(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "studies.results.Study.publish", lambda study, counted, *given, **options: counted
    )
    counted = execute("04_lora", tmp_path, only=PARAMETERS, LORA="live")["counted"]
    kept = published("parameters")[list(counted)]
    assert (
        counted.sort_values("backbone").values.tolist()
        == kept.sort_values("backbone").values.tolist()
    )
    large = counted.iloc[0]
    assert large["adapters"] == 24 * 2 * 2 * 8 * 1024  # blocks, projections, A and B, rank, width
    assert large["head"] == 77 * (1024 + 1)


def test_a_new_system_leaves_the_table_of_hyperparameters_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setitem(SYSTEMS, "new", SYSTEMS["substrate"])
    execute("02_full_sweep", tmp_path, only="02-0[24]")
    name = "paper/tables/table_hyperparameters.csv"
    assert (tmp_path / name).read_bytes() == (ROOT / name).read_bytes()


# --- harder streams


@pytest.fixture(scope="module")
def streams():
    """The studies of harder streams as published, and their rows."""
    rows = published("streams")
    return Studies(rows), rows


@pytest.mark.published
def test_the_advice_claims_only_effects_whose_interval_leaves_out_0(streams):
    studies, rows = streams
    prose = (ROOT / "paper/supplement.md").read_text(encoding="utf-8")
    quotes = Quotes()
    keys = re.findall(r"{{streams\.([\w.]+)}}", prose)
    shown = {name: quotes.quote(f"streams.{name}").value for name in keys}
    found = {name: value for name, value in shown.items() if np.isfinite(value.low)}
    assert {name for name, value in found.items() if value.low <= 0 <= value.high} == CANNOT_TELL
    directed = [
        value
        for name, value in found.items()
        if name.endswith(("_lost", "_more", "_way", "_below", "_met"))
    ]
    assert directed and all(value.value > 0 for value in directed)
    table = studies.table.set_index(["study", "setting", "than", "metric"]).sort_index()
    lost = -table.loc[("wrong", *TOLD["wrong"], "novel_acc")].set_index("system")[["low", "high"]]
    models = ["slda", OURS]
    head = ["online_linear"]
    votes = lost.index.difference(models + head)
    # Negated: low is the most that is lost.
    assert lost.loc[models, "low"].max() < lost.loc[votes, "high"].min()
    assert lost.loc[votes, "low"].max() < lost.loc[head, "high"].min()
    assert (table.loc[("late", *TOLD["late"], "novel_acc"), "high"] > 0).all()
    assert (table.loc[("known", "5 known", "67 known", "novel_acc"), "high"] > 0).all()
    asked = table.loc["asked"].query("metric == 'novel_acc' and setting.str.endswith('margin')")
    assert (asked["p_holm"] > 0.05).all()  # "none of these changes stands"
    kept = table.xs(
        ("known", "substrate", "original_acc"), level=("study", "than", "metric")
    ).query("system == @OURS")
    assert (kept[["low", "high"]].prod(axis=1) <= 0).all()  # known classes, in the notebook
    digits = rows[rows["study"] == "digits"].set_index("system")[
        ["seed", "step", "novel_acc", "original_acc"]
    ]
    roomy, whole = (
        digits.loc[name].reset_index(drop=True) for name in ("bounded_reservoir_1000", "substrate")
    )
    assert roomy.equals(whole)  # caption of the figure


def test_a_difference_is_shown_with_its_interval_and_a_mark_if_it_stands():
    row = {"metric": "novel_acc", "difference": 0.051, "low": 0.02, "high": 0.082, "p_holm": 0.04}
    stands = difference(row)
    assert (
        stands.text == "5.1\u00a0pp [2.0, 8.2]†" and (-stands).text == "−5.1\u00a0pp [−8.2, −2.0]†"
    )
    assert difference(row | {"p_holm": 0.06}).text == "5.1\u00a0pp [2.0, 8.2]"
    one_seed = dict.fromkeys(("low", "high", "p_holm"), np.nan)
    assert difference(row | one_seed).text == style.Value(5.1, 1, "pp").text
