"""How often a system is on the Pareto front of novel and original accuracy, seeds or test rows drawn anew."""

import numpy as np
import pandas as pd

from ocrrlib.metrics import CELL


def on_front(novel, original):
    """Which systems no other dominates: at least as good on both axes and better on one; (..., s) to bool.

    What differs in the twelfth decimal only is equal.
    """
    novel, original = np.round(novel, 12), np.round(original, 12)
    novel_first, original_first = novel[..., None], original[..., None]  # of the one that may dominate
    novel, original = novel[..., None, :], original[..., None, :]
    as_good = (novel_first >= novel) & (original_first >= original)
    better = (novel_first > novel) | (original_first > original)
    return ~(as_good & better).any(axis=-2)


def front_frequency(resampled):
    """Share of bootstrap resamples in which a system is on its cell's Pareto front.

    Parameters
    ----------
    resampled : iterable
        As ``resampling.resampled_cells`` yields it.

    Returns
    -------
    DataFrame
        One row per dataset, policy, system: means ``novel`` and ``original``, ``front`` (whether they are on the
        front) and the shares ``front_seeds`` (seeds resampled) and, with ``rows``, ``front_rows``
        (test rows resampled) and ``front_both``.
    """
    found = []
    for cell, accuracies, drawn in resampled:
        means = {axis: table.mean() for axis, table in accuracies.items()}
        table = pd.DataFrame(dict(zip(CELL[:2], cell)) | {"system": means["novel"].index})
        table = table.assign(**{axis: mean.to_numpy() for axis, mean in means.items()})
        table["front"] = on_front(table["novel"].to_numpy(), table["original"].to_numpy())
        for what, (novel, original) in drawn.items():
            table[f"front_{what}"] = on_front(novel, original).mean(axis=0)
        found.append(table)
    return pd.concat(found, ignore_index=True)
