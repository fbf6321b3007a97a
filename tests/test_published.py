"""Notebooks make tables and figures of the published results, byte for byte."""

import re
import shutil
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import pytest

from ocrrlib.experiments import OURS
from ocrrlib.files import ROOT
from ocrrlib.runs import published
from ocrrlib.systems import SYSTEMS
from paper import figures, style
from paper.makefile import Makefile
from paper.quotes import Quotes
from paper.streams import TOLD, difference
from studies import ledger_search, scale

STEMS = sorted(path.stem for path in (ROOT / "notebooks").glob("0[1-8]_*.ipynb"))
# Cells that run grids, and their results.
SWEPT = {"02_full_sweep": "02-06", "03_storage_pareto": "03-03", "05_vote_ablation": "05-run"}
PARAMETERS = "04-02|04-12b|04-12c|04-13"  # cells of 04_lora that count parameters
# Differences of which the paper says that the seeds cannot tell them from 0; of the others it says
# which way they go.
CANNOT_TELL = set(
    "late.slda_end asked.slda_gained drift.substrate_end "
    "drift.ours_end new.slda_novel wrong.ours_lost known.ours_novel "
    "order.reservoir_novel order.reservoir_original encoder.linear_novel digits.tuned_over_novel "
    "digits.tuned_over_original".split()
)


@plt.rc_context()  # the style of a notebook ends with it
def execute(stem, out, only="", skip=(), **given):
    """Variables of a notebook after its code cells whose ids match ``only``; some are ``given``."""
    given["OUT"] = str(out)
    names = dict(given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCRR_BY_MAKE", "1")
        for cell in nbformat.read(ROOT / f"notebooks/{stem}.ipynb", as_version=4).cells:
            if cell.cell_type == "code" and re.match(only, cell.id) and cell.id not in skip:
                exec(compile(cell.source, f"{stem}, cell {cell.id}", "exec"), names)
                names.update(given)
    return names


def execute_swept(stem, out, skip=(), **given):
    """Execute a notebook on published results where it would run a grid."""
    if stem in SWEPT:
        skip = (*skip, SWEPT[stem])
        given["results"] = published(stem.partition("_")[2])
    execute(stem, out, skip=skip, **given)


def results(out):
    """A folder with the published results, for notebooks that would else run experiments."""
    shutil.copytree(ROOT / "data/results", out / "data/results")
    (out / "paper/tables").mkdir(parents=True)
    for name in ("datasets", "file_order", "ties"):
        shutil.copy(ROOT / f"paper/tables/table_{name}.csv", out / "paper/tables")
    return out


@pytest.fixture
def out(tmp_path, monkeypatch):
    monkeypatch.setattr(
        scale, "run_cells", lambda *given, **options: (published("scale"), published("scale_costs"))
    )
    yield results(tmp_path)
    plt.close("all")


def assert_published(out):
    """All files that a notebook made are the committed ones; their names."""
    made = {
        path.relative_to(out)
        for path in out.rglob("*")
        if path.is_file() and path.suffix != ".parquet"
    }
    for path in made:
        assert (out / path).read_bytes() == (ROOT / path).read_bytes(), (
            f"{path}: make it anew with `make paper`"
        )
    return {path.stem for path in made}


@pytest.mark.parametrize("stem", STEMS)
def test_tables_are_those_of_the_published_results(stem, out, monkeypatch):
    monkeypatch.setattr(style, "save", lambda figure, name, folder: None)
    monkeypatch.setattr(figures, "noise_map", lambda found: None)  # takes longest
    monkeypatch.setenv("OCRR_DATA_DIR", str(out))  # no texts: nothing is encoded again
    monkeypatch.setattr(ledger_search, "search_ledgers", lambda *given: published("ledger_search"))
    orders = pd.read_csv(ROOT / "paper/tables/table_file_order.csv")
    ties = pd.read_csv(ROOT / "paper/tables/table_ties.csv")
    turns = (f"{stem[:2]}-turn-run", f"{stem[:2]}-turn-said")
    skip = ("03-11", "05-11", "05-12", *turns)
    execute_swept(stem, out, skip, orders=orders, ties=ties)
    tables = {Path(file).stem for file in Makefile().made[stem] if "/tables/" in file}
    assert tables <= assert_published(out)


def test_table_1_is_that_of_the_published_results(out):
    execute("15_headline", out)
    assert "table1_headline" in assert_published(out)


@pytest.mark.slow
@pytest.mark.parametrize("stem", STEMS)
def test_figures_and_fresh_streams_are_the_published_ones(stem, out):
    execute_swept(stem, out)
    assert_published(out)
    assert stem == "01_embed" or list(out.glob("figures/*.png"))


@pytest.mark.slow
def test_parameters_are_counted_in_the_models(out, monkeypatch):
    monkeypatch.setattr(
        "studies.results.Study.publish", lambda study, counted, *given, **options: counted
    )
    counted = execute("04_lora", out, only=PARAMETERS, LORA="live")["counted"]
    kept = published("parameters")[list(counted)]
    assert (
        counted.sort_values("backbone").values.tolist()
        == kept.sort_values("backbone").values.tolist()
    )
    large = counted.iloc[0]
    assert large["adapters"] == 24 * 2 * 2 * 8 * 1024  # blocks, projections, A and B, rank, width
    assert large["head"] == 77 * (1024 + 1)


def test_a_new_system_leaves_the_table_of_hyperparameters_as_it_is(out, monkeypatch):
    monkeypatch.setitem(SYSTEMS, "new", SYSTEMS["substrate"])
    execute("02_full_sweep", out, only="02-0[24]")
    assert "table_hyperparameters" in assert_published(out)


def test_a_rerun_of_an_experiment_leaves_the_published_bytes(out):
    name = "data/results/vote_ablation.parquet"
    (out / name).unlink()
    execute("05_vote_ablation", out, "05-0[12]|05-setup|05-grid|05-run")
    assert (out / name).read_bytes() == (ROOT / name).read_bytes()


# --- harder streams


@pytest.fixture(scope="module")
def streams(tmp_path_factory):
    out = results(tmp_path_factory.mktemp("streams"))
    return out, execute("10_streams", out)


def test_figures_and_tables_of_harder_streams_are_the_published_ones(streams):
    made = assert_published(streams[0])
    assert made >= {"streams_digits", "table_streams", "table_stream_differences"}
    assert len(made) >= 12


def test_the_advice_claims_only_effects_whose_interval_leaves_out_0(streams):
    studies, rows = (streams[1][name] for name in ("studies", "rows"))
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


# --- the wider comparison


def test_tables_of_the_wider_comparison_that_need_no_curves_are_the_published_ones(out):
    execute("09_beyond", out, "09-0[124]|09-setup|09-24")
    copied = {"table_datasets", "table_file_order", "table_ties"}
    assert assert_published(out) == {"table_corrections"} | copied


@pytest.mark.slow
@pytest.mark.parametrize(
    "stem, some",
    [
        ("09_beyond", {"beyond_areas", "beyond_curves", "table_compared"}),
        ("19_ledger_lda", {"boldness", "table_even", "table_target"}),
    ],
)
def test_figures_and_tables_of_the_wider_comparison_are_the_published_ones(stem, some, out):
    execute(stem, out)
    assert some < assert_published(out)
