"""Published tables, and numbers of the paper, are what the code makes of the published results."""

from functools import cache

import pandas as pd
import pytest

from ocrrlib import embeddings
from ocrrlib.datasets import DATASETS
from ocrrlib.experiments import OURS
from ocrrlib.files import ROOT
from ocrrlib.publish import published
from ocrrlib.report import costs, lora, race, scale, tables, tuning
from ocrrlib.report import values as numbers
from ocrrlib.report.beyond import out_of_scope
from ocrrlib.report.beyond import tables as beyond
from ocrrlib.report.beyond import values as quotes
from ocrrlib.report.streams import advice, differences, table, values
from ocrrlib.statistics import one_class
from ocrrlib.statistics.anytime import measure
from ocrrlib.statistics.bar import bar, conditions
from ocrrlib.statistics.bar import costs as times_of
from ocrrlib.statistics.resampling import places_of, resampled_cells
from ocrrlib.statistics.summary import summary
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


def out_of_clinc150():
    rows = results("beyond_rows")
    return out_of_scope.table(one_class.apart(rows[rows["dataset"] == "clinc150"], data("clinc150")))


TABLES = {
    "table1_headline": with_lora,
    "table_constraints": held,
    "table_costs": lambda: costs.per_item(results("costs")),
    "table_datasets": lambda: tables.datasets([data(name) for name in DATASETS]),
    "table_growth": lambda: costs.ledger_growth(results("growth")),
    "table_hyperparameters": tables.hyperparameters,
    "table_lora": lambda: lora.table(results("lora"), substrate()),
    "table_out_of_scope": out_of_clinc150,
    "table_parameters": lambda: tables.parameters(results("parameters")),
    "table_race": lambda: race.equal_recall(results("race")),
    "table_ranking": lambda: tables.ranking(results("full_sweep")),
    "table_scale": lambda: scale.comparison(results("scale"), results("scale_costs"), SETTINGS),
    "table_scale_costs": lambda: scale.scale_costs(results("scale_costs"), SETTINGS),
    "table_search": lambda: tuning.search(results("search")),
    "table_six_cells": lambda: tables.six_cells(results("full_sweep")),
    "table_sparse_policies": lambda: tables.sparse_policies(results("full_sweep")),
    "table_stream_advice": lambda: advice.advice(values.quoted(results("streams"))),
    "table_stream_differences": lambda: differences.differences_table(differences.compared(results("streams"))),
    "table_streams": lambda: table.settings(results("streams")),
    "table_tuning": lambda: tuning.one_at_a_time(results("tuning")),
    "table_variance": lambda: beyond.variance(results("variance")),
    "table_vote_ablation": lambda: tables.vote_ablation(results("vote_ablation")),
    "table_vote_or_distance": lambda: scale.vote_or_distance(results("scale")),
}
WIDER = {"table_bar", "table_bar_best", "table_beyond", "table_corrections", "table_statistics", "table_target"}
# Of what their notebooks run anew each time; claims have tests of their own.
FRESH = {"table_file_order", "table_ledger_search", "table_claims", "table_claims_summary"}


def test_every_published_table_is_looked_at():
    assert {path.stem for path in FOLDER.iterdir()} == {*TABLES, *WIDER, *FRESH}


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


def test_published_numbers_of_costs_and_streams_are_those_of_the_published_results(tmp_path):
    made = costs.quoted(results("costs"), results("growth"))
    assert are_published(made, "07_compute", tmp_path) == len(made)
    assert are_published(values.quoted(results("streams")), "10_streams", tmp_path) > 20


def test_the_wider_comparison_is_that_of_its_runs_and_rows(tmp_path):
    runs, rows = measure(results("beyond")), results("beyond_rows")
    places = places_of(rows, {name: data(name) for name in rows["dataset"].unique()})
    resampled = list(resampled_cells(runs, rows, places))
    found, compared = summary(results("beyond"), resampled), bar(runs, resampled)
    times = costs.times_of_ours(results("costs"))
    reached = conditions(compared, found.accuracies, times_of(results("beyond"), times))
    wider = (
        beyond.comparison(beyond.joined(found, runs)),
        beyond.statistics(found.accuracies),
        beyond.corrections(found.corrections),
        beyond.against_all(compared),
        beyond.against_best(compared),
        beyond.target(reached),
    )
    assert {made.name for made in wider} == WIDER
    for made in wider:
        is_published(made, tmp_path)
    cells = quotes.cells(beyond.joined(found, runs), compared, found.corrections)
    made = {f"beyond.{cell}.{name}": value for cell, own in cells.items() for name, value in own.items()}
    made |= quotes.overall(beyond.joined(found, runs), reached) | quotes.worst(compared)
    assert are_published(made, "09_beyond", tmp_path) > 20


def test_the_paper_names_every_system_whose_mean_over_the_stream_is_above_ours():
    means = pd.read_csv(FOLDER / "table_statistics.csv").query("metric == 'novel_over_steps'")
    means = means.pivot(index=["dataset", "policy"], columns="system", values="mean").round(4)  # equal so far: level
    above = {cell: {name for name in row.index if row[name] > row[OURS]} for cell, row in means.iterrows()}
    assert {cell: names for cell, names in above.items() if names} == {
        ("banking77", "random10"): {"ncm_cosine"},
        ("clinc150", "oracle"): {"pa", "ncm", "slda_shrunk"},
        ("clinc150", "random50"): {"pa", "ncm_cosine"},
    }
    rivals = pd.read_csv(FOLDER / "table_bar.csv")
    assert set(rivals["system"]).isdisjoint({"pa", "ncm_cosine"})
    assert {"ncm", "slda_shrunk"} <= set(rivals.query("dataset == 'clinc150' and policy == 'oracle'")["system"])
