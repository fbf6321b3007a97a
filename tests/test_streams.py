"""Harder streams: cells run as any other run, studies come out the same however they are run, reports read them."""

import re
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from ocrrlib import stream_plan
from ocrrlib.cache import RunCache
from ocrrlib.embeddings import load
from ocrrlib.errors import InputError
from ocrrlib.policies import POLICIES, UNCERTAINTIES, Policy
from ocrrlib.publish import published
from ocrrlib.report.streams import advice, figures, values
from ocrrlib.report.streams.differences import METRICS, Difference, compared, differences_table, measured
from ocrrlib.report.streams.rows import RUN, detection, last
from ocrrlib.report.streams.table import settings as settings_table
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.stream_plan import KEY, STUDIES, plan, rows_of, run_cells, run_studies
from ocrrlib.streams import Cell, right_rows, wrong_entries
from ocrrlib.streams import scenario_of as scenario_from
from ocrrlib.systems import make

QUICK = dict(cap=60, thin=24)
# Differences that the advice says the seeds cannot tell from 0; of all others it may say which way they go.
CANNOT_TELL = set(
    "late.slda_end late.ours_end asked.slda_gained asked.ours_gained_entropy drift.substrate_end drift.ours_end "
    "new.slda_novel new.ours_novel new.ours_over_original scope.ours_through order.reservoir_novel "
    "order.reservoir_original encoder.linear_novel digits.tuned_over_novel digits.tuned_over_original".split()
)

BLIND = Policy("blind", 1.0, exact=True)


def scenario_of(cell):
    return scenario_from(cell, rows_of(*cell.source)[0])


def run_cell(cell):
    return run_cells([cell], cache=None, progress=False)[0]


@pytest.fixture(scope="module")
def rows():
    return run_studies(seeds="0,1", profile="quick", cache=None, progress=False)


@given(p=st.floats(0, 1), n=st.integers(0, 300), seed=st.integers(0, 2**32 - 1))
def test_all_ways_of_asking_spend_exactly_the_same_number_of_questions(p, n, seed):
    rng, blind = np.random.default_rng(seed), replace(BLIND, p=p).draws(seed, n)
    gates = [replace(POLICIES["oracle"], p=p, ask=way).gate(n) for way in UNCERTAINTIES]
    asked = [sum(gate.asks(x) for x in rng.dirichlet(np.ones(4), n)) for gate in gates]
    assert blind.shape == (n,) and blind.dtype == bool and {int(blind.sum()), *asked} == {round(p * n)}


@given(p=st.floats(0, 1), more=st.floats(0, 1), n=st.integers(0, 300), seed=st.integers(0, 99))
def test_what_is_asked_with_few_questions_is_asked_with_more_by_the_draws_of_the_coins(p, more, n, seed):
    few, many = (replace(BLIND, p=share).draws(seed, n) for share in sorted((p, more)))
    assert not (few & ~many).any()
    coins = Policy("coins", p).draws(seed, n)
    blind = replace(BLIND, p=p).draws(seed, n)
    assert (blind <= coins).all() or (coins <= blind).all()  # the same draws, but for how many


def test_random_questions_are_a_cell_of_their_own_and_other_cells_keep_their_keys():
    cells = plan("asked", seeds="0", profile="quick", systems=("slda",))
    assert [cell.policy.name for cell in cells] == ["blind", "oracle", "oracle"] * 4
    assert len({stream_plan._key(cell) for cell in cells}) == len(cells)
    usual, blind = Cell("slda", 0, **QUICK), Cell("slda", 0, policy=BLIND, **QUICK)
    assert stream_plan._key(usual) != stream_plan._key(blind) and usual.start == blind.start
    assert "ocrrlib.policies" in stream_plan.closure("ocrrlib.streams")[0]  # so that naming it anew changes no key


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
    told = replace(POLICIES["oracle"], wrong=0.5).labels(s)
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
    usual = set(stream_plan.COMPARED)
    few = {"order": set(stream_plan.QUEUES), "digits": usual | set(stream_plan.TUNED)}
    for study, own in rows.groupby("study"):
        assert set(own["system"]) == few.get(study, usual)
    final = last(rows)
    assert sorted(final.loc[final["study"] == "wrong", "wrong"].unique()) == [0, 0.1, 0.2, 0.4]
    assert sorted(final.loc[final["study"] == "late", "delay"].unique()) == [0, 10, 50, 200]
    assert sorted(final.loc[final["study"] == "new", "new"].unique()) == [1, 5, 10, 20, 40]
    assert set(final.loc[final["study"] == "new", "known"]) == {37}


def test_accuracy_over_the_stream_is_the_area_under_the_curve(rows):
    final = last(rows).set_index(RUN)
    for name, run in rows.groupby(RUN):
        area = np.trapezoid(run["novel_acc"], run["step"]) / run["step"].max()
        assert np.isclose(final.loc[name, "mean_novel"], area)
        assert final.loc[name, "novel_acc"] == run["novel_acc"].iloc[-1]


def test_differences_are_paired_over_seeds(rows):
    table, runs = compared(rows), measured(rows)
    assert not table.duplicated(["study", "system", "setting", "than", "metric"]).any()
    assert (table["seeds"] == 2).all() and set(table["study"]) == set(STUDIES) and set(table["metric"]) == set(METRICS)
    places = runs.set_index(["study", "system", "setting", "metric", "seed"])["value"]
    for row in table.sample(60, random_state=0).itertuples():
        other = (row.than, row.setting) if row.than in set(runs["system"]) else (row.system, row.than)
        d = [
            places[row.study, row.system, row.setting, row.metric, s] - places[row.study, *other, row.metric, s]
            for s in (0, 1)
        ]
        assert np.isclose(row.difference, np.mean(d))
        assert np.isclose(row.high - row.low, 2 * 12.7062 * np.std(d, ddof=1) / 2**0.5, rtol=1e-4, atol=1e-12)
    text = differences_table(table).text
    assert len(text) == len(table) and not text.isna().any().any()


def test_a_difference_says_its_interval_and_whether_it_leaves_out_0():
    gained = Difference(5.12, 1, "pp", -3.0, 13.24)
    assert gained.text == "5.1\u00a0pp [−3.0, 13.2]" and not gained.sure
    assert (-gained).text == "−5.1\u00a0pp [−13.2, 3.0]" and Difference(2.0, 0, "", 1.0, 3.0).sure
    assert Difference(5.12, 1, "pp").text == "5.1\u00a0pp" and not Difference(5.12, 1, "pp").sure


def test_a_difference_that_stands_is_marked_either_way_round():
    row = {"difference": 0.051, "low": 0.02, "high": 0.082, "p_holm": 0.04}
    stands = Difference.of("novel_acc", row)
    assert stands.text == "5.1\u00a0pp [2.0, 8.2]†" and (-stands).text == "−5.1\u00a0pp [−8.2, −2.0]†"
    for p in (0.06, np.nan):
        assert Difference.of("novel_acc", row | {"p_holm": p}).text == "5.1\u00a0pp [2.0, 8.2]"


def test_p_values_are_of_paired_t_tests_and_corrected_by_holm_within_each_study():
    rows = published("streams")
    table, runs = compared(rows), measured(rows).set_index(["study", "system", "setting", "metric"]).sort_index()
    assert ((table["p"] < 0.05) == (table["low"] > 0) | (table["high"] < 0)).all()  # p and interval say the same
    for row in table[table["sd"] > 0].sample(40, random_state=1).itertuples():
        own = runs.loc[row.study, row.system, row.setting, row.metric].set_index("seed")["value"]
        other = (row.than, row.setting) if row.than in runs.loc[row.study].index else (row.system, row.than)
        found = ttest_rel(own, runs.loc[row.study, *other, row.metric].set_index("seed")["value"][own.index])
        assert np.isclose(row.p, found.pvalue, rtol=1e-6, atol=1e-12)
    for _, own in table.groupby("study"):
        own, n = own.sort_values("p"), len(own)
        steps = np.maximum.accumulate(np.arange(n, 0, -1) * own["p"].to_numpy())
        assert np.allclose(own["p_holm"], np.minimum(steps, 1))


def test_one_seed_has_neither_spread_nor_intervals(rows):
    one = rows[rows["seed"] == 0]
    assert compared(one)[["low", "high", "p", "p_holm"]].isna().all().all()
    assert "nan" not in differences_table(compared(one)).text.to_csv()
    text = settings_table(one).text.to_csv() + advice.advice(values.quoted(one)).text.to_csv()
    assert not re.search(r"\bnan\b|±", text)
    for name in STUDIES:
        plt.close(getattr(figures, name)(one))


def test_the_advice_claims_only_effects_whose_interval_leaves_out_0():
    rows = published("streams")
    quoted = values.quoted(rows)
    found = {name.removeprefix("streams."): v for name, v in quoted.items() if isinstance(v, Difference)}
    assert {name for name, value in found.items() if not value.sure} == CANNOT_TELL
    directed = {name for name in found if name.endswith(("_lost", "_more", "_way", "_below", "_met"))}
    assert all(found[name].value > 0 for name in directed)
    table = compared(rows).set_index(["study", "setting", "than", "metric"]).sort_index()
    lost = -table.loc[("wrong", *values.WORST["wrong"], "novel_acc")].set_index("system")[["low", "high"]]
    models, head = ["slda", "ledger_plda"], ["online_linear"]
    votes = lost.index.difference(models + head)
    assert lost.loc[models, "low"].max() < lost.loc[votes, "high"].min()  # negated: low is the most that is lost
    assert lost.loc[votes, "low"].max() < lost.loc[head, "high"].min()
    assert (table.loc[("late", *values.WORST["late"], "novel_acc"), "high"] > 0).all()
    assert (table.loc[("known", *values.WORST["known"], "novel_acc"), "low"] > 0).all()
    digits = rows[rows["study"] == "digits"].set_index("system")[["seed", "step", "novel_acc", "original_acc"]]
    roomy, whole = (digits.loc[name].reset_index(drop=True) for name in ("bounded_reservoir_1000", "substrate"))
    assert roomy.equals(whole)  # the caption of its figure says so
    asked = table.loc["asked"].query("metric == 'novel_acc' and setting.str.endswith('margin')")
    assert (asked["p_holm"] > 0.05).all()  # "none of these changes stands"
    few = [table.loc[("known", f"{n} known", "substrate", "original_acc")].set_index("system") for n in (5, 10)]
    ours = pd.DataFrame([part.loc["ledger_plda"] for part in few])
    assert (ours["difference"] < 0).all() and (ours["high"] > 0).all()


def test_detection_is_measured_before_and_after_the_stream(rows):
    found = detection(rows)
    assert set(found["when"]) == {"before", "after"} and found["value"].between(0, 1).all()
    assert set(found.loc[found["system"] == "substrate", "score"]) == {"probability", "cosine"}
    assert set(found.loc[found["system"] == "slda", "score"]) == {"probability"}


def test_further_systems_take_part_when_they_are_named():
    cells = plan("late", seeds="3", profile="quick", systems=(*stream_plan.COMPARED, "ncm"))
    assert len(cells) == 4 * (len(stream_plan.COMPARED) + 1) and {cell.seed for cell in cells} == {3}


@pytest.mark.parametrize("study", STUDIES)
def test_every_study_has_a_figure(study, rows):
    drawn = getattr(figures, study)(rows)
    top = [axes for axes in drawn.axes if axes.get_subplotspec().is_first_row()]
    assert len(top) >= 2 and all(axes.get_title() for axes in top)
    plt.close(drawn)


def test_the_table_has_every_setting_and_the_advice_only_numbers_from_the_values(rows):
    table = settings_table(rows)
    assert len(table.text) == len(rows.drop_duplicates([name for name in KEY if name not in ("seed", "step")]))
    quoted = values.quoted(rows)
    said = advice.advice(quoted)
    assert set(said.numbers["study"]) == set(STUDIES)
    text = " ".join([said.caption, *said.text.astype(str).to_numpy().ravel()])
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
