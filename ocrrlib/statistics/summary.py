"""All statistics of a sweep over seeds, cell by cell (dataset and policy), as tidy tables."""

from dataclasses import dataclass

import pandas as pd

from ocrrlib.statistics.anytime import measure
from ocrrlib.statistics.intervals import RESAMPLES, intervals
from ocrrlib.statistics.pairs import by_seed, compare
from ocrrlib.statistics.pareto import front_frequency
from ocrrlib.statistics.resampling import AXES, resampled_cells
from ocrrlib.statistics.survival import corrections_to_levels

REFERENCE = "substrate"
METRICS = ("novel", "original", *(f"{axis}_over_{way}" for way in ("steps", "corrections") for axis in AXES))


@dataclass(frozen=True)
class Summary:
    """What a sweep comes to.

    Attributes
    ----------
    accuracies : DataFrame
        One row per dataset, policy, metric and system: ``seeds``, then as ``intervals`` and ``compare`` have it.
    corrections : DataFrame
        One row per dataset, policy, system and level, as ``corrections_to_levels`` has it.
    fronts : DataFrame
        One row per dataset, policy and system, as ``front_frequency`` has it.
    """

    accuracies: pd.DataFrame
    corrections: pd.DataFrame
    fronts: pd.DataFrame


def accuracies(runs, resamples=RESAMPLES):
    """Mean, spread and paired difference to ``REFERENCE`` of every system, metric by metric.

    Parameters
    ----------
    runs : DataFrame
        One row per run, as ``measure`` makes them.

    Returns
    -------
    DataFrame
        See ``Summary.accuracies``, NaN where the reference would be compared to itself; p-values are corrected over
        the systems of a cell and metric.
    """
    found = []
    for metric in METRICS:
        for (dataset, policy), table in by_seed(runs, metric):
            own = intervals(table.T, resamples).set_index(table.columns)
            own = own.join(compare(table, REFERENCE, resamples)).reset_index()
            names = {"dataset": dataset, "policy": policy, "metric": metric, "system": own.pop("system")}
            found.append(pd.DataFrame(names | {"seeds": len(table)}).join(own))
    return pd.concat(found, ignore_index=True)


def summary(results, resampled=None, resamples=RESAMPLES):
    """All statistics of a sweep.

    Parameters
    ----------
    results : DataFrame
        One row per checkpoint, every system of a cell on the same seeds.
    resampled : iterable, optional
        As ``resampling.resampled_cells`` yields it of these runs; by default with their seeds drawn anew, not rows.
    resamples : int
        Bootstrap resamples of means.

    Returns
    -------
    Summary

    Raises
    ------
    InputError
        If runs are not whole or not paired by seed, or the reference is missing in a cell.
    """
    runs = measure(results)
    return Summary(
        accuracies(runs, resamples),
        corrections_to_levels(results),
        front_frequency(resampled_cells(runs) if resampled is None else resampled),
    )
