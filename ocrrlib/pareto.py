"""How often a system is on the Pareto front of novel and original accuracy, seeds or test rows drawn anew."""

import numpy as np
import pandas as pd

from ocrrlib.errors import InputError
from ocrrlib.metrics import CELL
from ocrrlib.pairs import by_seed

RESAMPLES = 2_000
AXES = ("novel", "original")
_BLOCK = 2**17  # test rows drawn at a time; their counts fit in a core's cache


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


def draws(rng, resamples, n):
    """How often each of ``n`` things is drawn when ``n`` are, with replacement: (resamples, n) float32."""
    found = rng.integers(0, n, (resamples, n), dtype=np.int32)
    found += np.arange(resamples, dtype=np.int32)[:, None] * n
    return np.bincount(found.ravel(), minlength=resamples * n).reshape(resamples, n).astype(np.float32)


def right_rows(runs):
    """Packed test rows as two arrays of bits, one row per run: novel and original.

    Raises
    ------
    InputError
        If runs differ in the number of rows, or a run's bytes are not as long as its rows.
    """
    sizes = runs[["n_novel", "n_original"]].drop_duplicates().to_numpy()
    n = sizes[0].sum()
    if len(sizes) > 1 or any(len(packed) != -(-n // 8) for packed in runs["right"]):
        first = runs.iloc[0]
        place = f"{first['dataset']}, {first['policy']}, seed {first['seed']}"
        raise InputError(f"{place}: systems were not tested on the same rows: give `right` with one bit for each row")
    packed = np.frombuffer(b"".join(runs["right"]), np.uint8).reshape(len(runs), -1)
    return np.split(np.unpackbits(packed, axis=1, count=n), [sizes[0][0]], axis=1)


def _redrawn(right, resamples, rng):
    """Accuracies of systems on resampled test rows, (resamples, systems), from their (systems, rows) bits."""
    n, block = right.shape[1], max(1, _BLOCK // max(1, right.shape[1]))
    bits = np.ascontiguousarray(right.T, np.float32)  # whole numbers below 2 ** 24 are exact in float32
    counts = [draws(rng, min(block, resamples - at), n) @ bits for at in range(0, resamples, block)]
    return np.concatenate(counts).astype(float) / n


def _bits(own, novel, original):
    """Right rows of each seed, novel and original, by systems in the tables' order; refused if not of the same runs."""
    for seed in novel.index:
        runs = own[own["seed"] == seed]
        same = sorted(runs["system"]) == sorted(novel.columns)
        if same:
            runs = runs.set_index("system", drop=False).loc[novel.columns]
            both = right_rows(runs)
            seen = (table.loc[seed].to_numpy() for table in (novel, original))
            same = all(np.allclose(right.mean(axis=1), acc, rtol=0, atol=1e-9) for right, acc in zip(both, seen))
        if not same:
            raise InputError(f"rows of seed {seed} are not those of the results: give both of one sweep")
        yield both


def _of_rows(bits, weights, resamples, rng):
    """Accuracies on resampled rows, (2, 2, resamples, systems): seeds as they are or resampled; novel, original."""
    means = 0
    for weight, both in zip(weights.T, bits):
        accuracies = np.stack([_redrawn(right, resamples, rng) for right in both])
        means = means + np.stack([accuracies / weights.shape[1], accuracies * weight[:, None]])
    return means


def front_frequency(runs, rows=None, resamples=RESAMPLES, seed=0):
    """Share of bootstrap resamples in which a system is on its cell's Pareto front.

    All systems of a cell meet the same resamples.  Test rows are drawn within each seed and
    axis, so that rows which several seeds have in common count as different ones.

    Parameters
    ----------
    runs : DataFrame
        One row per run: dataset, policy, seed, system and the final accuracies ``novel``, ``original``.
    rows : DataFrame, optional
        One row per run: dataset, policy, seed, system, ``n_novel``, ``n_original`` and ``right``, bytes of
        ``numpy.packbits``: which test rows were answered right, novel ones first.
    resamples : int
        Bootstrap resamples.
    seed : int
        Their seed.

    Returns
    -------
    DataFrame
        One row per dataset, policy, system: means ``novel`` and ``original``, ``front`` (whether they are on the
        front) and the shares ``front_seeds`` (seeds resampled) and, with ``rows``, ``front_rows``
        (test rows resampled) and ``front_both``.

    Raises
    ------
    InputError
        If systems of a cell have different seeds or test rows, or ``rows`` are not those of ``runs``.
    """
    found = []
    for (cell, novel), (_, original) in zip(by_seed(runs, "novel"), by_seed(runs, "original")):
        rng = np.random.default_rng(seed)
        weights = draws(rng, resamples, len(novel)).astype(float) / len(novel)
        means = novel.mean(), original.mean()
        table = pd.DataFrame(dict(zip(CELL[:2], cell)) | {"system": novel.columns, "novel": means[0].to_numpy()})
        table["original"] = means[1].to_numpy()
        table["front"] = on_front(*(mean.to_numpy() for mean in means))
        table["front_seeds"] = on_front(weights @ novel.to_numpy(), weights @ original.to_numpy()).mean(axis=0)
        if rows is not None:
            own = rows[(rows["dataset"] == cell[0]) & (rows["policy"] == cell[1])]
            redrawn = _of_rows(_bits(own, novel, original), weights, resamples, rng)
            for name, accuracies in zip(("front_rows", "front_both"), redrawn):
                table[name] = on_front(*accuracies).mean(axis=0)
        found.append(table)
    return pd.concat(found, ignore_index=True)
