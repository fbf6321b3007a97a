"""Reports on harder streams."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from ocrrlib.publish import published
from ocrrlib.report.streams import advice, figures, values
from ocrrlib.report.streams.differences import METRICS, Difference, compared, differences_table, measured
from ocrrlib.report.streams.rows import RUN, detection, last
from ocrrlib.report.streams.table import settings as settings_table
from studies.streams import KEY, STUDIES, run_studies

# Differences that the advice says the seeds cannot tell from 0; of all others it may say which way they go.
CANNOT_TELL = set(
    "late.slda_end late.ours_end asked.slda_gained asked.ours_gained_entropy drift.substrate_end drift.ours_end "
    "new.slda_novel new.ours_novel new.ours_over_original scope.ours_through order.reservoir_novel "
    "order.reservoir_original encoder.linear_novel digits.tuned_over_novel digits.tuned_over_original".split()
)

BLIND = Policy("blind", 1.0, exact=True)


@pytest.fixture(scope="module")
def rows():
    return run_studies(seeds="0,1", profile="quick", cache=None, progress=False)


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
