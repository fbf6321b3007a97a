"""Harder streams: cells run as any other run, studies come out the same however they are run, reports read them."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from ocrrlib import stream_plan
from ocrrlib.cache import RunCache
from ocrrlib.embeddings import load
from ocrrlib.errors import InputError
from ocrrlib.policies import POLICIES
from ocrrlib.report import stream_advice
from ocrrlib.report import streams as report
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.stream_plan import KEY, STUDIES, plan, rows_of, run_cells, run_studies
from ocrrlib.streams import Cell, right_rows, wrong_entries
from ocrrlib.streams import scenario_of as scenario_from
from ocrrlib.systems import make

QUICK = dict(cap=60, thin=24)


def scenario_of(cell):
    return scenario_from(cell, rows_of(*cell.source)[0])


def run_cell(cell):
    return run_cells([cell], cache=None, progress=False)[0]


@pytest.fixture(scope="module")
def rows():
    return run_studies(seeds="0,1", profile="quick", cache=None, progress=False)


def test_the_usual_cell_is_the_usual_run():
    scenario = make_scenario(load("banking77"), 1, **QUICK)
    usual = [c.scalars for c in run_stream(make("substrate", 1), scenario, POLICIES["oracle"])]
    rows = run_cell(Cell("substrate", 1, **QUICK))
    assert [{name: row[name] for name in usual[0]} for row in rows] == usual
    assert {row["wrong_entries"] for row in rows} == {0} and {row["known"] for row in rows} == {67}


def test_scenarios_are_changed_as_cells_say():
    cell = Cell("substrate", 0, new=5, known=3, **QUICK)
    s = scenario_of(cell)
    assert len(s.held_out) == 5 and len(set(s.y_initial)) == 3
    for change in (dict(drift="gradual"), dict(order="shuffled")):
        other = scenario_of(replace(cell, **change))
        part = "X_stream" if "drift" in change else "X_initial"
        assert not np.array_equal(getattr(other, part), getattr(s, part))
    assert len(scenario_of(Cell("substrate", 0, "digits", "pixels", new=5)).classes) == 10
    assert "oos" not in scenario_of(Cell("substrate", 0, "clinc150", out_of_scope=True, **QUICK)).classes


@pytest.mark.parametrize("name", ["substrate", "bounded_reservoir_100", "bounded_fifo_100", "knn_lm"])
def test_the_share_of_wrong_entries_is_that_of_rows_stored_with_a_wrong_label(name):
    s = scenario_of(Cell(name, 0, **QUICK))
    system = make(name).fit(s.X_initial, s.y_initial, s.classes)
    assert wrong_entries(system, s, right_rows(s)) == 0
    told = replace(POLICIES["oracle"], wrong=0.5).told(s)
    for x, y in zip(s.X_stream, told.tolist()):
        system.correct(x, y)
    kept = {x.tobytes() for x in system.entries.X}
    wrong = sum(x.tobytes() in kept for x, y, true in zip(s.X_stream, told, s.y_stream) if y != true)
    assert wrong_entries(system, s, right_rows(s)) == wrong / system.entries.size > 0


def test_without_entries_there_is_no_share_of_wrong_ones():
    assert run_cell(Cell("slda", 0, **QUICK))[-1]["wrong_entries"] is None


def test_results_do_not_depend_on_jobs_or_on_where_it_was_stopped(tmp_path, rows):
    names, how = ("late", "digits"), dict(seeds="0,1", profile="quick", progress=False)
    run_studies(names[:1], **how, cache=tmp_path)
    two = run_studies(names, **how, cache=tmp_path, jobs=2)
    expected = rows[rows["study"].isin(names)].reset_index(drop=True)[list(two)]
    assert two.to_csv() == expected.to_csv()


def test_finished_cells_are_not_run_again_and_the_same_cell_only_once(tmp_path, monkeypatch):
    cells, ran, run = [Cell("ncm", seed, **QUICK) for seed in (0, 1, 0)], [], stream_plan.run_cell
    monkeypatch.setattr(stream_plan, "run_cell", lambda cell, *rest: ran.append(cell.seed) or run(cell, *rest))
    first = run_cells(cells, cache=tmp_path, progress=False)
    assert run_cells(cells, cache=tmp_path, progress=False) == first and first[0] == first[2]
    assert sorted(ran) == [0, 1]
    assert all(RunCache(tmp_path).load(stream_plan._key(cell)) is not None for cell in cells)


def test_every_row_has_a_name_of_its_own_and_all_settings(rows):
    assert not rows.duplicated(KEY).any() and not rows[KEY].isna().any().any()
    assert set(rows["study"]) == set(STUDIES) and set(rows["seed"]) == {0, 1}
    for study, few in {"order": set(stream_plan.QUEUES)}.items():
        assert set(rows.loc[rows["study"] == study, "system"]) == few
    final = report.last(rows)
    assert sorted(final.loc[final["study"] == "wrong", "wrong"].unique()) == [0, 0.1, 0.2, 0.4]
    assert sorted(final.loc[final["study"] == "late", "delay"].unique()) == [0, 10, 50, 200]
    assert sorted(final.loc[final["study"] == "new", "new"].unique()) == [1, 5, 10, 20, 40]
    assert set(final.loc[final["study"] == "new", "known"]) == {37}


def test_detection_is_measured_before_and_after_the_stream(rows):
    found = report.detection(rows)
    assert set(found["when"]) == {"before", "after"} and found["value"].between(0, 1).all()
    assert set(found.loc[found["system"] == "substrate", "score"]) == {"probability", "cosine"}
    assert set(found.loc[found["system"] == "slda", "score"]) == {"probability"}


def test_further_systems_take_part_when_they_are_named():
    cells = plan("late", seeds="3", profile="quick", systems=(*stream_plan.COMPARED, "ncm"))
    assert len(cells) == 4 * (len(stream_plan.COMPARED) + 1) and {cell.seed for cell in cells} == {3}


@pytest.mark.parametrize("figure", report.FIGURES, ids=lambda figure: figure.__name__)
def test_every_study_has_a_figure(figure, rows):
    assert figure.__name__ in STUDIES and len(report.FIGURES) == len(STUDIES)
    drawn = figure(rows)
    assert len(drawn.axes) >= 2 and all(axes.get_title() for axes in drawn.axes)
    plt.close(drawn)


def test_the_table_has_every_setting_and_the_advice_only_numbers_from_the_values(rows):
    table = report.settings(rows)
    assert len(table.text) == len(rows.drop_duplicates([name for name in KEY if name not in ("seed", "step")]))
    quoted = stream_advice.quoted(rows)
    said = stream_advice.advice(quoted)
    assert set(said.numbers["study"]) == set(STUDIES)
    text = " ".join(said.text.astype(str).to_numpy().ravel())
    for value in quoted.values():
        assert value.text in text


@pytest.mark.parametrize(
    "call, clue",
    [
        (lambda: plan("noise"), "unknown study 'noise'; there are: wrong, late"),
        (lambda: plan("late", systems=("substrat",)), "did you mean 'substrate'"),
        (lambda: plan("late", seeds="a"), "not a list of integers"),
        (lambda: plan("late", profile="fast"), "unknown profile"),
        (lambda: run_cells([], jobs=0), "0 jobs"),
        (lambda: scenario_of(Cell("ncm", 0, drift="sudden")), "unknown drift"),
        (lambda: scenario_of(Cell("ncm", 0, order="random")), "unknown order"),
    ],
)
def test_what_does_not_exist_is_refused_in_one_line(call, clue):
    with pytest.raises(InputError) as caught:
        call()
    assert clue in str(caught.value) and "\n" not in str(caught.value)
