"""Pareto fronts of novel against original accuracy."""

import numpy as np
import pandas as pd

from studies.statistics import BOTH_ACCURACIES, DATASET_POLICY, by_seed


def on_front(novel: np.ndarray, original: np.ndarray) -> np.ndarray:
    """Which systems no other dominates, (..., s) to bool.

    What differs in the twelfth decimal only is equal.
    """
    novel = np.round(novel, 12)
    original = np.round(original, 12)
    # (..., i, j): by how much i, which may dominate, is above j.
    novel_gap = novel[..., None] - novel[..., None, :]
    original_gap = original[..., None] - original[..., None, :]
    not_below = (novel_gap >= 0) & (original_gap >= 0)
    above = (novel_gap > 0) | (original_gap > 0)
    return ~(not_below & above).any(axis=-2)


def means(runs: pd.DataFrame, resamples: int = 2_000) -> pd.DataFrame:
    """Mean accuracies by cell and system, ``front`` and ``front_seeds``.

    ``front``: whether no other system of the cell dominates this one; ``front_seeds``: how often so
    among drawn seeds.
    """
    found = {}
    for cell, novel, original in by_seed(runs, *BOTH_ACCURACIES):
        own = pd.DataFrame({"novel": novel.mean(), "original": original.mean()})
        own["front"] = on_front(own["novel"].to_numpy(), own["original"].to_numpy())
        n = len(novel)
        weights = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), resamples) / n
        drawn = on_front(weights @ novel.to_numpy(), weights @ original.to_numpy())
        own["front_seeds"] = drawn.mean(axis=0)
        found[cell] = own
    return pd.concat(found, names=DATASET_POLICY).reset_index()
