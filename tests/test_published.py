"""Tables, values, claims and figures of notebooks 01 to 08 are those of the published results, byte for byte."""

import shutil
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pandas as pd
import pytest

from ocrrlib import embeddings
from ocrrlib.datasets import DATASETS
from ocrrlib.files import ROOT
from ocrrlib.runs import published
from paper import costs, lora, race, scale, tables
from paper import values as numbers
from studies.scale import SETTINGS

FOLDER = ROOT / "paper/tables"
results = cache(published)
data = cache(embeddings.load)


def substrate():
    runs = results("storage_pareto")
    return runs[runs["system"] == "substrate"]


def with_lora():
    runs = results("lora")
    return tables.headline(results("full_sweep"), results("storage_pareto"), runs[runs["system"] == "lora"])


def held():
    bounded = results("storage_pareto")
    bounded = bounded[bounded["system"].str.startswith("bounded_")]
    return tables.constraints(pd.concat([results("full_sweep"), bounded], ignore_index=True))


TABLES = {
    "table1_headline": with_lora,
    "table_constraints": held,
    "table_costs": lambda: costs.per_item(results("costs")),
    "table_datasets": lambda: tables.datasets([data(name) for name in DATASETS]),
    "table_growth": lambda: costs.ledger_growth(results("growth")),
    "table_hyperparameters": tables.hyperparameters,
    "table_lora": lambda: lora.table(results("lora"), substrate()),
    "table_parameters": lambda: tables.parameters(results("parameters")),
    "table_race": lambda: race.equal_recall(results("race")),
    "table_ranking": lambda: tables.ranking(results("full_sweep")),
    "table_scale": lambda: scale.comparison(results("scale"), results("scale_costs"), SETTINGS),
    "table_scale_costs": lambda: scale.scale_costs(results("scale_costs"), SETTINGS),
    "table_six_cells": lambda: tables.six_cells(results("full_sweep")),
    "table_sparse_policies": lambda: tables.sparse_policies(results("full_sweep")),
    "table_vote_ablation": lambda: tables.vote_ablation(results("vote_ablation")),
    "table_vote_or_distance": lambda: scale.vote_or_distance(results("scale")),
}
# Tables of notebooks 09 and 10: see test_published_beyond.
BEYOND = set(
    "table_bar table_bar_best table_beyond table_corrections table_out_of_scope table_search table_statistics "
    "table_stream_differences table_streams table_target table_tuning table_variance".split()
)
# Of what their notebooks run anew each time; claims have tests of their own.
FRESH = {"table_file_order", "table_ledger_search", "table_claims", "table_claims_summary"}


def test_every_published_table_is_looked_at():
    assert {path.stem for path in FOLDER.iterdir()} == {*TABLES, *BEYOND, *FRESH}


@pytest.fixture
def out(tmp_path, monkeypatch):
    """A folder with the published results, in which notebooks find them instead of running experiments."""
    shutil.copytree(ROOT / "data/results", tmp_path / "data/results", ignore=shutil.ignore_patterns("cards"))
    (tmp_path / "paper/tables").mkdir(parents=True)
    shutil.copy(ROOT / "paper/tables/table_file_order.csv", tmp_path / "paper/tables")
    monkeypatch.setattr(publish, "run_experiment", lambda name, *given, **options: published(name))
    monkeypatch.setattr(scale, "run_cells", lambda *given, **options: (published("scale"), published("scale_costs")))
    yield tmp_path
    plt.close("all")


def assert_published(out, stem, exact=True):
    made = {path.relative_to(out) for path in out.rglob("*") if path.is_file() and path.suffix != ".parquet"}
    tables = {path.stem for path in made if path.suffix == ".tex"} - {"table1_headline"}
    assert tables == {f"table_{name}" for name in TABLES[stem].split()}
    assert (out / f"paper/values/{stem}.json").is_file()
    if not exact:  # means of means differ from means in the last digit
        fresh, kept = ({k: e["text"] for k, e in values.read(path / "paper/values").items()} for path in (out, ROOT))
        assert fresh.items() <= kept.items()
        made.remove(Path(f"paper/values/{stem}.json"))
    for path in made:
        assert (out / path).read_bytes() == (ROOT / path).read_bytes(), f"{path}: run {stem} again"


@pytest.mark.parametrize("stem", TABLES)
def test_tables_and_values_are_those_of_the_published_results(stem, out, monkeypatch):
    monkeypatch.setattr(style, "save", lambda figure, name, folder: None)
    monkeypatch.setattr(embeddings, "recheck", lambda data, texts: 1.0)
    folder = ROOT / "paper/tables"
    ledgers, orders = (pd.read_csv(folder / f"table_{name}.csv") for name in ("ledger_search", "file_order"))
    monkeypatch.setattr(scale_plan, "after_streams", lambda *given: ledgers)
    execute(stem, {"OUT": str(out), "orders": orders}, skip=("03-11",))
    assert_published(out, stem, exact=stem != "06_hnsw_scale")


def test_published_numbers_of_costs_are_those_of_the_published_results(tmp_path):
    made = costs.quoted(results("costs"), results("growth"))
    assert are_published(made, "07_compute", tmp_path) == len(made)
