"""Statistics over seeds, against SciPy and statsmodels, and by worked examples."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from ocrrlib.experiments import Run
from ocrrlib.metrics import RUN, final
from ocrrlib.runs import published, run_grid
from ocrrlib.scenario import make_scenario
from studies import differences, statistics
from studies.rows import by_class, places_of
from studies.statistics import DATASET_POLICY, LEVEL, REFERENCE, TESTED, VOTES

BOUNDS = ["t_low", "t_high", "bca_low", "bca_high"]


def checkpoints(
    steps, corrections, novel, original=0.5, policy="oracle", seed=0, system="substrate"
):
    """Checkpoints of one run."""
    names = dict(zip(RUN, ("banking77", "encoder", policy, seed, system)))
    return pd.DataFrame(
        names | dict(step=steps, corrections=corrections, novel_acc=novel, original_acc=original)
    )


def test_a_run_is_measured_by_its_end_its_start_and_its_mean_over_steps():
    run = checkpoints([0, 50, 70], [0, 30, 30], [0.0, 0.4, 0.6], [1.0, 0.9, 0.9])
    found = statistics.measure(run.assign(ausuc=[0.0, 0.2, 0.4], mistakes=[0, 40, 49])).iloc[0]
    assert (found["novel"], found["original"], found["start"], found["corrections"]) == (
        0.6,
        0.9,
        1.0,
        30,
    )
    assert found["hm"] == pytest.approx(2 / (1 / 0.6 + 1 / 0.9)) and found["ausuc"] == 0.4
    assert found["novel_over_steps"] == pytest.approx((50 * 0.2 + 20 * 0.5) / 70)
    assert found["original_over_steps"] == pytest.approx((50 * 0.95 + 20 * 0.9) / 70)
    assert found["ausuc_over_steps"] == pytest.approx((50 * 0.1 + 20 * 0.3) / 70)
    assert found["prequential"] == pytest.approx(0.3)
    assert statistics.measure(checkpoints([0, 9], 0, 0.0, 0.0))["hm"].item() == 0


def test_tables_of_pairs_are_in_order_of_appearance():
    rows = [(1, "z", 0.1), (1, "a", 0.2), (0, "a", 0.3), (0, "z", 0.4)]
    runs = pd.DataFrame(
        [("d", "oracle", *row) for row in rows],
        columns=[*DATASET_POLICY, "seed", "system", "novel"],
    )
    ((cell, table),) = statistics.by_seed(runs, "novel")
    assert (cell, list(table), list(table.index)) == (("d", "oracle"), ["z", "a"], [1, 0])
    assert table.to_numpy().tolist() == [[0.1, 0.2], [0.4, 0.3]]


def test_intervals_are_those_of_scipy():
    values = np.random.default_rng(0).beta(8, 2, (3, 20))
    for row, found in zip(values, statistics.t_and_bca_intervals(values).to_dict("records")):
        t = stats.ttest_1samp(row, 0).confidence_interval(LEVEL)
        bca = stats.bootstrap(
            (row,), np.mean, confidence_level=LEVEL, method="BCa", rng=np.random.default_rng(0)
        )
        expected = [*t, *bca.confidence_interval]
        assert [found[bound] for bound in BOUNDS] == pytest.approx(expected)
        assert (found["mean"], found["sd"]) == pytest.approx((row.mean(), row.std(ddof=1)))


def test_equal_values_have_intervals_of_no_width_and_one_value_has_none():
    (found,) = statistics.t_and_bca_intervals([0.1 + 0.2, 0.3, 0.3]).to_dict("records")
    assert found["sd"] == 0 and all(found[bound] == found["mean"] for bound in BOUNDS)
    assert statistics.t_intervals([0.4]).notna().to_numpy().tolist() == [
        [True, False, False, False]
    ]


@settings(max_examples=25)
@given(st.lists(st.integers(-40, 40), min_size=2, max_size=9))
def test_the_p_value_of_flips_is_that_of_scipys_permutation_test(numbers):
    # Sums are exact: SciPy takes those that differ by rounding for different.
    d = np.array(numbers) / 64
    theirs = stats.permutation_test((d,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert statistics.flip_p(d) == statistics.flip_p(-7 * d) == pytest.approx(theirs.pvalue)


def test_flips_beyond_twenty_are_drawn():
    d = np.random.default_rng(1).normal(0.35, 1, 20)
    assert statistics.flip_p(np.concatenate([d, np.full(4, 1e-6)])) == pytest.approx(
        statistics.flip_p(d), abs=0.005
    )


@pytest.mark.parametrize(
    "d, p",
    [
        ([0.1, 0.2, -0.3], 1),
        ([0.1, 0.2, 0.3], 0.25),
        ([0] * 5, 1),
        (np.linspace(0.1, 0.2, 20), 2 / 2**20),
    ],
)
def test_sums_of_flips_that_differ_by_rounding_are_equal(d, p):
    assert statistics.flip_p(d) == p


SOME = ["ewc", "slda", "knn_lm", "substrate_k1", "substrate"]


def test_every_system_is_compared_with_the_nearest_entry_in_its_cell_and_metric():
    some = "dataset == 'clinc150' and policy != 'random50' and seed < 3 and system in @SOME"
    runs = statistics.measure(published("beyond").query(some))
    found = statistics.accuracies(runs, resamples=99)
    metrics = [name for name in TESTED if name != "share"]
    assert len(found) == 2 * len(SOME) * len(metrics) and (found["seeds"] == 3).all()
    assert (
        found[["difference", "p_holm"]].isna().all(axis=1) == (found["system"] == REFERENCE)
    ).all()
    for (dataset, policy, metric), own in found.groupby([*DATASET_POLICY, "metric"], sort=False):
        cell = runs[(runs["dataset"] == dataset) & (runs["policy"] == policy)]
        table = cell.pivot(index="seed", columns="system", values=metric)
        own = own.set_index("system")
        np.testing.assert_allclose(own["mean"], table[own.index].mean())
        own = own.drop(index=REFERENCE)
        theirs = stats.ttest_rel(table["ewc"], table[REFERENCE]).confidence_interval(LEVEL)
        assert tuple(own.loc["ewc", ["difference_t_low", "difference_t_high"]]) == pytest.approx(
            tuple(theirs)
        )
        better = (np.sign(table[own.index].sub(table[REFERENCE], axis=0).round(12)) + 1) / 2
        np.testing.assert_allclose(own["improvement"], better.mean())
        np.testing.assert_allclose(own["p_holm"], multipletests(own["p"], method="holm")[1])


def test_shares_are_compared_on_the_rows_that_both_have_right():
    # Of four original rows the first two are right in both; of ten novel ones, depths are counts.
    depths = {"slda": [10, 6, 10, -1], REFERENCE: [8, 4, -1, 10]}
    runs = pd.DataFrame(
        [("banking77", "encoder", "oracle", 0, system) for system in depths], columns=RUN
    )
    packed = [np.array(own, "<i4").tobytes() for own in depths.values()]
    found = statistics.with_share(runs, runs.assign(depths=packed, n_novel=10))
    assert found["share"].tolist() == pytest.approx([0.8, 22 / 30])
    assert found["share_of_reference"].tolist() == pytest.approx([0.6, 22 / 30])
    compared = statistics.accuracies(found, resamples=9).set_index("system")
    assert compared.loc["slda", "difference"] == pytest.approx(0.2)


def test_no_point_lies_off_its_own_curve_but_those_of_votes():
    some = "dataset == 'clinc150' and seed < 2"
    ends = final(published("beyond").query(some)).merge(published("beyond_rows"), on=RUN)
    off = set()
    for run in ends.itertuples():
        curve = np.frombuffer(run.heights, "<i4")
        # Original rows that are right where so many novel ones are, and where one more would be.
        steps = np.append(np.sort(curve[curve >= 0]), run.n_original)[::-1]
        novel = round(run.novel_acc * run.n_novel)
        least = np.append(steps, 0)[novel + 1]
        if not least <= round(run.original_acc * run.n_original) <= steps[novel]:
            off.add(run.system)
    assert off == set(VOTES)


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=20))
def test_a_median_lies_in_its_interval_and_is_the_plain_one_without_censoring(runs):
    middle, low, high = statistics.median(*zip(*runs))
    assert not low > middle and not middle > high
    times = [time for time, _ in runs]
    assert statistics.median(times, [True] * len(times))[0] == np.median(times)


# Of five, one in sixteen has all on one side of the median.
@pytest.mark.parametrize(
    "times, reached, expected",
    [
        ([5, 9, 9], [True, False, False], (np.nan, 5, np.nan)),  # the curve never falls to one half
        ([5, 9], [True, False], (5, 5, np.nan)),  # exactly one half, and there it stays
        (
            [7] * 6,
            [True] * 6,
            (7, 7, 7),
        ),
        ([7] * 5, [True] * 5, (7, np.nan, np.nan)),
        ([2] * 19 + [50], [False] * 19 + [True], (50, np.nan, np.nan)),
        ([5, 9], [False, False], (np.nan, np.nan, np.nan)),
    ],
)
def test_what_few_runs_leave_open_is_not_known(times, reached, expected):
    np.testing.assert_array_equal(statistics.median(times, reached), expected)


def test_runs_that_never_reach_a_level_are_censored_at_the_corrections_that_they_made():
    curves = [0.0, 0.6, 0.6], [0.0, 0.1, 0.6], [0.0, 0.1, 0.2], [0.0, 0.9, 0.2]
    runs = [
        checkpoints([0, 50, 100], [0, 10 + s, 20 + s], curve, seed=s)
        for s, curve in enumerate(curves)
    ]
    found = statistics.corrections_to_levels(pd.concat(runs), (10, 50, 90)).set_index("to")
    assert found["seeds"].tolist() == [4, 4, 4] and found["reached"].tolist() == [4, 3, 1]
    assert found.loc[10, "median"] == np.median([10, 11, 12, 13])
    # 10, 13 and 21 corrections; one had made 22 without getting there.
    assert found.loc[50, "median"] == (13 + 21) / 2
    assert np.isnan(found.loc[90, "median"])


@pytest.mark.parametrize("cap", [None, 7])
def test_places_are_those_of_the_rows_that_a_scenario_tests(tiny, cap):
    scenarios = {seed: make_scenario(tiny, seed, cap=cap) for seed in (0, 3)}
    rows = [
        {
            "dataset": "tiny",
            "seed": seed,
            "n_novel": len(s.y_novel),
            "n_original": len(s.y_original),
        }
        for seed, s in scenarios.items()
    ]
    found = places_of(pd.DataFrame(rows), {"tiny": tiny})
    for seed, s in scenarios.items():
        for places, X in zip(found["tiny", seed], (s.X_novel, s.X_original)):
            np.testing.assert_array_equal(tiny.X_test[places], X)


def test_classes_of_a_run_add_up_to_its_accuracies(tiny):
    named = [
        Run("tiny", tiny.encoder, "random50", seed, system, cap=20)
        for seed in (0, 1)
        for system in ("ncm", "slda")
    ]
    checkpoints, rows = run_grid(named, {"tiny": tiny}, cache=None, progress=False)
    found = by_class(rows, places_of(rows, {"tiny": tiny}), {"tiny": tiny})
    for run, end in zip(named, final(checkpoints).itertuples()):
        own = found[(found[list(RUN)] == pd.Series(run.names)).all(axis=1)]
        novel, original = (own[own["axis"] == axis] for axis in statistics.BOTH_ACCURACIES)
        assert np.average(novel["accuracy"], weights=novel["share"]) == pytest.approx(end.novel_acc)
        assert np.average(original["accuracy"], weights=original["share"]) == pytest.approx(
            end.original_acc
        )


def test_differences_of_streams_are_paired_t_tests_corrected_by_holm_within_each_study():
    rows = published("streams")
    table = differences.compared(rows)
    runs = differences.measured(rows)
    assert not table.duplicated(["study", "system", "setting", "than", "metric"]).any()
    assert set(table["study"]) == set(rows["study"]) and set(table["metric"]) == {
        *differences.ENDS,
        "auroc",
        "fpr95",
    }
    runs = runs.pivot(
        index=["study", "system", "setting", "metric"], columns="seed", values="value"
    )
    for row in table[table["sd"] > 0].sample(60, random_state=1).itertuples():
        # Another setting, or else another system.
        other = (
            row.study,
            row.system,
            row.than,
            row.metric,
        )
        other = other if other in runs.index else (row.study, row.than, row.setting, row.metric)
        theirs = stats.ttest_rel(
            runs.loc[row.study, row.system, row.setting, row.metric], runs.loc[other]
        )
        assert (row.p, row.low, row.high) == pytest.approx(
            (theirs.pvalue, *theirs.confidence_interval()), rel=1e-6
        )
    for _, own in table.groupby("study"):
        np.testing.assert_allclose(own["p_holm"], multipletests(own["p"], method="holm")[1])
    one_seed = differences.compared(rows[rows["seed"] == 0])
    assert one_seed[["low", "high", "p", "p_holm"]].isna().all(axis=None)
