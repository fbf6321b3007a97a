"""The paper's metrics, on two seeds by hand."""

import pandas as pd
import pytest

from ocrrlib.metrics import DATASET_POLICY_SYSTEM, RUN, by_cell, corrections_to, summarise

# Corrections, novel and original accuracy of each checkpoint, by seed.
CURVES = {
    0: [(0, 0.0, 1.0), (7, 0.3, 0.9), (9, 0.5, 0.8)],
    1: [(0, 0.1, 0.9), (5, 0.1, 0.8), (8, 0.3, 0.7)],
}
PLACE = ("banking77", "oracle", "ewc")


@pytest.fixture
def results():
    """Checkpoints in the order of their steps, runs mixed with each other."""
    rows = []
    for seed, curve in CURVES.items():
        run = dict(zip(DATASET_POLICY_SYSTEM, PLACE)) | {
            "encoder": "e",
            "seed": seed,
            "stored_entries": 10 + seed,
            "storage_bytes": 2e6,
        }
        names = ("corrections", "novel_acc", "original_acc")
        rows += [run | {"step": 50 * i} | dict(zip(names, point)) for i, point in enumerate(curve)]
    return pd.DataFrame(rows).sort_values("step", kind="stable")


def test_corrections_to_a_level_are_those_of_the_first_checkpoint_there(results):
    found = {
        level: corrections_to(results, level).droplevel(RUN[:3] + RUN[4:]).to_dict()
        for level in (10, 30, 50, 70)
    }
    assert found == {10: {0: 7, 1: 0}, 30: {0: 7, 1: 8}, 50: {0: 9}, 70: {}}


def test_cells_are_means_and_population_spreads_over_seeds(results):
    ends = {
        "novel": 0.4,
        "novel_std": 0.1,
        "original": 0.75,
        "original_std": 0.05,
        "corrections": 8.5,
        "seeds": 2,
    }
    row = summarise(results).set_index(DATASET_POLICY_SYSTEM).loc[PLACE].to_dict()
    levels = {10: (3.5, 2), 30: (7.5, 2), 50: (9, 1), 70: (float("nan"), 0), 90: (float("nan"), 0)}
    expected = ends | {"stored_entries": 10.5, "storage_bytes": 2e6}
    for level, (mean, reached) in levels.items():
        expected |= {f"to_{level}": mean, f"to_{level}_reached": reached}
    assert row == pytest.approx(expected, nan_ok=True)
    expected = ends | {"entries": 10.5, "mb": 2, "start_novel": 0.05, "start_original": 0.95}
    expected |= {
        f"to_{level}": mean if reached else None for level, (mean, reached) in levels.items()
    }
    assert by_cell(results)["banking77"]["oracle"]["ewc"] == pytest.approx(expected)
    sample = summarise(results, ddof=1).set_index(DATASET_POLICY_SYSTEM).loc[PLACE]
    assert sample["novel_std"] == pytest.approx(2**0.5 * ends["novel_std"])
