"""Published tables, and numbers of the paper, are what the code makes of the published results."""

from functools import cache

import pandas as pd
import pytest

from ocrrlib import embeddings
from ocrrlib.datasets import DATASETS
from ocrrlib.files import ROOT
from ocrrlib.publish import published
from ocrrlib.report import costs, lora, race, scale, tables
from ocrrlib.report import values as numbers
from ocrrlib.scale_plan import SETTINGS

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


def is_published(made, folder):
    made.write(folder)
    for suffix in ("csv", "md", "tex"):
        name = f"{made.name}.{suffix}"
        assert (folder / name).read_bytes() == (FOLDER / name).read_bytes(), f"{name}: make it anew with `make paper`"


def are_published(made, notebook, folder):
    """All numbers of a notebook's that are published and made here are the same; how many."""
    numbers.write(made, notebook, folder / "values.json")
    fresh = numbers.read(folder / "values.json")
    quoted = {name for name, entry in numbers.read().items() if entry["notebook"] == notebook and name in fresh}
    assert {name: fresh[name] for name in quoted} == {name: numbers.read()[name] for name in quoted}
    return len(quoted)


@pytest.mark.parametrize("name", TABLES)
def test_a_published_table_is_that_of_the_published_results(name, tmp_path):
    made = TABLES[name]()
    assert made.name == name
    is_published(made, tmp_path)


def test_published_numbers_of_costs_are_those_of_the_published_results(tmp_path):
    made = costs.quoted(results("costs"), results("growth"))
    assert are_published(made, "07_compute", tmp_path) == len(made)
