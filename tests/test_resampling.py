"""Test rows and seeds drawn anew: as a bootstrap draws, and which rows of the dataset a run was tested on."""

import numpy as np
import pandas as pd
import pytest

from ocrrlib.errors import InputError
from ocrrlib.scenario import make_scenario
from ocrrlib.statistics.resampling import bootstrap_counts, places_of, resampled_cells


def test_as_many_are_drawn_as_there_are_and_their_means_spread_as_a_bootstraps():
    found = bootstrap_counts(np.random.default_rng(0), 4000, 50)
    assert found.shape == (4000, 50) and (found.sum(axis=1) == 50).all()
    values = np.random.default_rng(1).random(50)
    means = found @ values / 50
    assert means.mean() == pytest.approx(values.mean(), abs=0.003)
    assert means.std() == pytest.approx(values.std() / np.sqrt(50), rel=0.05)


def packed(scenario, answers, **names):
    """A run's row: which test rows it got right."""
    right = answers == np.concatenate([scenario.y_novel, scenario.y_original])
    sizes = {"n_novel": len(scenario.y_novel), "n_original": len(scenario.y_original)}
    return names | sizes | {"right": np.packbits(right).tobytes()}


@pytest.mark.parametrize("cap", [None, 7])
def test_the_places_are_those_of_the_rows_that_a_scenario_tests(tiny, cap):
    rows = []
    for seed in (0, 3):
        scenario = make_scenario(tiny, seed, cap=cap)
        rows.append(packed(scenario, 0, dataset="tiny", policy="oracle", seed=seed, system="substrate"))
    found = places_of(pd.DataFrame(rows), {"tiny": tiny})
    for seed in (0, 3):
        scenario = make_scenario(tiny, seed, cap=cap)
        for places, X, y in zip(
            found["tiny", seed], (scenario.X_novel, scenario.X_original), (scenario.y_novel, scenario.y_original)
        ):
            assert np.array_equal(tiny.X_test[places], X) and np.array_equal(tiny.y_test[places], y)


def test_runs_on_other_rows_and_unknown_datasets_are_refused(tiny):
    scenario = make_scenario(tiny, 0, cap=None)
    row = packed(scenario, 0, dataset="tiny", policy="oracle", seed=0, system="substrate")
    with pytest.raises(InputError, match="seed 0: the runs were not tested on the rows of this tiny"):
        places_of(
            pd.DataFrame([row | {"n_novel": row["n_novel"] + 1, "n_original": row["n_original"] - 1}]), {"tiny": tiny}
        )
    with pytest.raises(InputError, match="unknown dataset 'tiny'"):
        places_of(pd.DataFrame([row]), {})


def test_where_all_seeds_are_places_of_the_same_rows_the_spread_is_that_of_one_of_them():
    rng = np.random.default_rng(0)
    bits = rng.random((2, 300)) < 0.7
    runs, rows = [], []
    for seed in range(10):
        for system, right in zip("ab", bits):
            names = {"dataset": "d", "policy": "oracle", "seed": seed, "system": system}
            runs.append(names | {"novel": right[:100].mean(), "original": right[100:].mean()})
            rows.append(names | {"n_novel": 100, "n_original": 200, "right": np.packbits(right).tobytes()})
    places = {("d", seed): (np.arange(100), np.arange(100, 300)) for seed in range(10)}
    ((cell, accuracies, found),) = resampled_cells(pd.DataFrame(runs), pd.DataFrame(rows), places, resamples=3000)
    assert cell == ("d", "oracle") and set(found) == {"seeds", "rows", "both"}
    assert found["seeds"].shape == found["rows"].shape == (2, 3000, 2)
    np.testing.assert_allclose(found["both"], found["rows"])
    for axis, n, table in zip(range(2), (100, 200), accuracies.values()):
        mean = table.mean().to_numpy()
        np.testing.assert_allclose(found["seeds"][axis], np.broadcast_to(mean, (3000, 2)))
        np.testing.assert_allclose(found["rows"][axis].mean(axis=0), mean, atol=0.005)
        np.testing.assert_allclose(found["rows"][axis].std(axis=0), np.sqrt(mean * (1 - mean) / n), rtol=0.1)
