"""Tables, values, claims and figures of notebooks 01 to 08 are those of the published results, byte for byte."""

import shutil

import matplotlib.pyplot as plt
import nbformat
import pandas as pd
import pytest

from ocrrlib import runs
from ocrrlib.files import ROOT
from ocrrlib.runs import published
from ocrrlib.systems import SYSTEMS
from paper import figures, style, values
from studies import scale

TABLES = {
    "01_embed": "datasets",
    "02_full_sweep": "hyperparameters six_cells sparse_policies ranking",
    "03_storage_pareto": "file_order constraints",
    "04_lora": "lora parameters",
    "05_vote_ablation": "vote_ablation",
    "06_hnsw_scale": "scale scale_costs vote_or_distance ledger_search race",
    "07_compute": "costs growth",
    "08_claims": "claims claims_summary",
}
PARAMETERS = ("04-02", "04-12b", "04-12c", "04-13")  # cells of 04_lora that count parameters


def execute(stem, names, only=None, skip=()):
    """Run a notebook's code cells here; ``names`` overrides its parameters and holds its variables in the end."""
    given = dict(names)
    for cell in nbformat.read(ROOT / f"notebooks/{stem}.ipynb", as_version=4).cells:
        if cell.cell_type == "code" and cell.id not in skip and (only is None or cell.id in only):
            exec(cell.source, names)
            names.update(given)
    return names


@pytest.fixture
def out(tmp_path, monkeypatch):
    """A folder with the published results, in which notebooks find them instead of running experiments."""
    shutil.copytree(ROOT / "data/results", tmp_path / "data/results", ignore=shutil.ignore_patterns("cards"))
    (tmp_path / "paper/tables").mkdir(parents=True)
    shutil.copy(ROOT / "paper/tables/table_file_order.csv", tmp_path / "paper/tables")
    monkeypatch.setattr(runs, "run_experiment", lambda name, *given, **options: published(name))
    monkeypatch.setattr(scale, "run_cells", lambda *given, **options: (published("scale"), published("scale_costs")))
    yield tmp_path
    plt.close("all")


def assert_published(out, stem):
    made = {path.relative_to(out) for path in out.rglob("*") if path.is_file() and path.suffix != ".parquet"}
    tables = {path.stem for path in made if path.suffix == ".tex"} - {"table1_headline"}
    assert tables == {f"table_{name}" for name in TABLES[stem].split()}
    assert (out / f"paper/values/{stem}.json").is_file()
    for path in made:
        assert (out / path).read_bytes() == (ROOT / path).read_bytes(), f"{path}: run {stem} again"


@pytest.mark.parametrize("stem", TABLES)
def test_tables_and_values_are_those_of_the_published_results(stem, out, monkeypatch):
    monkeypatch.setattr(style, "save", lambda figure, name, folder: None)
    monkeypatch.setattr(figures, "noise_map", lambda found: None)  # takes longest
    monkeypatch.setenv("OCRR_DATA_DIR", str(out))  # no texts: nothing is encoded again
    monkeypatch.setattr(scale, "after_streams", lambda *given: published("ledger_search"))
    orders = pd.read_csv(ROOT / "paper/tables/table_file_order.csv")
    execute(stem, {"OUT": str(out), "orders": orders}, skip=("03-11",))
    assert_published(out, stem)


@pytest.mark.slow
@pytest.mark.parametrize("stem", TABLES)
def test_figures_and_fresh_streams_are_the_published_ones(stem, out):
    execute(stem, {"OUT": str(out)})
    assert_published(out, stem)
    assert stem == "01_embed" or list(out.glob("figures/*.png"))


@pytest.mark.slow
def test_parameters_are_counted_in_the_models(out, monkeypatch):
    monkeypatch.setattr(runs, "publish_study", lambda name, counted, *given, **options: counted)
    counted = execute("04_lora", {"OUT": str(out), "LORA": "live"}, only=PARAMETERS)["counted"]
    kept = published("parameters")[list(counted)]
    assert counted.sort_values("backbone").values.tolist() == kept.sort_values("backbone").values.tolist()
    large = counted.iloc[0]
    assert large["adapters"] == 24 * 2 * 2 * 8 * 1024  # blocks, projections, A and B, rank, width
    assert large["head"] == 77 * (1024 + 1)


def test_a_new_system_leaves_the_table_of_hyperparameters_as_it_is(out, monkeypatch):
    monkeypatch.setitem(SYSTEMS, "new", SYSTEMS["substrate"])
    execute("02_full_sweep", {"OUT": str(out)}, only=("02-02", "02-04"))
    for path in out.glob("paper/tables/table_hyper*"):
        assert path.read_bytes() == (ROOT / "paper/tables" / path.name).read_bytes()


def test_no_key_is_written_by_two_notebooks():
    assert len(values.read()) > 150
