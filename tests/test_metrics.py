"""The paper's metrics equal plain-Python ones, run by run."""

import math
import statistics

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocrrlib.metrics import CELL, LEVELS, RUN, by_cell, corrections_to, final, summarise

RUNS = [
    (dataset, "encoder", policy, seed, system)
    for dataset in ("banking77", "clinc150")
    for policy in ("oracle", "random10")
    for seed in (0, 1, 2)
    for system in ("substrate", "ewc")
]


@st.composite
def checkpoints(draw):
    """Rows of a results frame, each run's in the order of its steps, runs mixed with each other."""
    accuracies = st.integers(0, 20).map(lambda n: n / 20)  # levels are met exactly, too
    items = st.tuples(st.sampled_from(RUNS), accuracies, accuracies, st.integers(0, 50), st.integers(0, 9))
    rows, totals, steps = [], {}, {}
    for run, novel, original, corrections, stored in draw(st.lists(items, min_size=1, max_size=40)):
        totals[run] = totals.get(run, 0) + corrections
        steps[run] = steps.get(run, -50) + 50
        about = dict(step=steps[run], corrections=totals[run], novel_acc=novel, original_acc=original)
        rows.append(dict(zip(RUN, run)) | about | dict(stored_entries=stored, storage_bytes=100 * stored))
    return rows


def by_run(rows):
    runs = {}
    for row in rows:
        runs.setdefault(tuple(row[name] for name in RUN), []).append(row)
    return runs


def first_reached(run, level):
    """Corrections at the first checkpoint with this novel accuracy, or None."""
    return next((row["corrections"] for row in run if row["novel_acc"] >= level / 100), None)


@given(checkpoints(), st.sampled_from(LEVELS))
def test_corrections_to_is_the_first_checkpoint_at_the_level_and_nan_where_there_is_none(rows, level):
    found = corrections_to(pd.DataFrame(rows), level)
    expected = {run: first_reached(checkpoints, level) for run, checkpoints in by_run(rows).items()}
    assert list(found.index) == list(expected)
    for run, value in expected.items():
        assert math.isnan(found[run]) if value is None else found[run] == value


@settings(max_examples=25)
@given(checkpoints())
def test_cells_are_means_and_population_spreads_over_seeds(rows):
    cells = {}
    for (dataset, _, policy, _, system), own in by_run(rows).items():
        cells.setdefault((dataset, policy, system), []).append(own)
    frame = pd.DataFrame(rows)
    table, nested = summarise(frame).set_index(CELL), by_cell(frame)
    assert list(table.index) == list(dict.fromkeys(map(tuple, final(frame)[CELL].to_numpy())))
    for cell, runs in cells.items():
        last = {column: [own[-1][column] for own in runs] for column in runs[0][0]}
        expected = {"seeds": len(runs)}
        for axis in ("novel", "original"):
            expected[axis] = statistics.fmean(last[f"{axis}_acc"])
            expected[f"{axis}_std"] = statistics.pstdev(last[f"{axis}_acc"])
        for column in ("corrections", "stored_entries", "storage_bytes"):
            expected[column] = statistics.fmean(last[column])
        for level in LEVELS:
            reached = [value for own in runs if (value := first_reached(own, level)) is not None]
            expected[f"to_{level}"] = statistics.fmean(reached) if reached else math.nan
            expected[f"to_{level}_reached"] = len(reached)
        row = table.loc[cell].to_dict()
        assert row == pytest.approx(expected, nan_ok=True)
        found = nested[cell[0]][cell[1]][cell[2]]
        same = {"entries": row["stored_entries"], "mb": row["storage_bytes"] / 1e6}
        same |= {f"to_{level}": row[f"to_{level}"] if row[f"to_{level}_reached"] else None for level in LEVELS}
        same |= {name: row[name] for name in ("novel", "novel_std", "original", "original_std", "corrections", "seeds")}
        assert {name: found.pop(f"start_{name}") for name in ("novel", "original")} == pytest.approx(
            {name: statistics.fmean(own[0][f"{name}_acc"] for own in runs) for name in ("novel", "original")}
        )
        assert found == same
