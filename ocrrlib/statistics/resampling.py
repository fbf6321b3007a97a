"""Final accuracies with seeds or test rows drawn anew; a row that several seeds have in common is drawn for all."""

from dataclasses import replace

import numpy as np

from ocrrlib.errors import InputError, pick
from ocrrlib.scenario import make_scenario
from ocrrlib.statistics.pairs import by_seed

RESAMPLES = 2_000
AXES = ("novel", "original")


def bootstrap_counts(rng, resamples, n):
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


def places_of(rows, datasets):
    """Which test rows of a dataset each seed's runs were tested on.

    Parameters
    ----------
    rows : DataFrame
        One row per run: dataset, seed, ``n_novel``, ``n_original``.
    datasets : dict of str to Embedded
        The datasets that they name.

    Returns
    -------
    dict of (dataset, seed) to two (n,) int64 arrays
        Row numbers of the novel and of the original test rows, as their bits stand in ``right``.

    Raises
    ------
    InputError
        If a dataset is not there, or its test rows are not as many as were tested.
    """
    found = {}
    for row in rows.drop_duplicates(["dataset", "seed"]).to_dict("records"):
        data = pick("dataset", row["dataset"], datasets)
        numbered = replace(data, X_test=np.arange(len(data.y_test))[:, None])  # a scenario keeps rows, not their places
        cap = None if row["n_novel"] + row["n_original"] == len(data.y_test) else max(row["n_novel"], row["n_original"])
        scenario = make_scenario(numbered, int(row["seed"]), draw="fresh", cap=cap)
        places = scenario.X_novel[:, 0], scenario.X_original[:, 0]
        if [len(part) for part in places] != [row["n_novel"], row["n_original"]]:
            raise InputError(
                f"seed {row['seed']}: the runs were not tested on the rows of this {data.dataset}: run them anew"
            )
        found[row["dataset"], row["seed"]] = places
    return found


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


def _redrawn(right, places, weights, rng):
    """Mean accuracies with test rows drawn anew, (2, 2, resamples, systems): seeds as they are or weighted; by axis."""
    n = 1 + max(part.max(initial=0) for both in places for part in both)
    often, means = bootstrap_counts(rng, len(weights), n), 0.0
    for weight, both, at in zip(weights.T, right, places):
        accuracies = []
        for answers, own in zip(both, at):
            drawn = often[:, own]  # whole numbers below 2 ** 24 are exact in float32
            hits = drawn @ np.ascontiguousarray(answers.T, np.float32)
            accuracies.append(hits.astype(float) / np.maximum(drawn.sum(axis=1), 1)[:, None])
        accuracies = np.stack(accuracies)
        means = means + np.stack([accuracies / weights.shape[1], accuracies * weight[:, None]])
    return means


def resampled_cells(runs, rows=None, places=None, resamples=RESAMPLES, seed=0):
    """Bootstrap resamples of final accuracies, cell by cell; all systems of a cell meet the same ones.

    A test row is drawn as often for one seed as for all others that have it, so that what seeds have in common is not
    taken for new. With seeds and rows drawn at once the spread comes out somewhat too wide, never too narrow
    (Owen 2007, the pigeonhole bootstrap).

    Parameters
    ----------
    runs : DataFrame
        One row per run: dataset, policy, seed, system and the final accuracies ``novel``, ``original``.
    rows : DataFrame, optional
        One row per run: dataset, policy, seed, system, ``n_novel``, ``n_original`` and ``right``, bytes of
        ``numpy.packbits``: which test rows were answered right, novel ones first.
    places : dict, with ``rows``
        Which rows of the dataset these are, as ``places_of`` has it.
    resamples : int
        How many.
    seed : int
        Their seed.

    Yields
    ------
    (dataset, policy), {axis: DataFrame}, dict
        Accuracies by axis, seeds by systems, and their means in resamples, (2, resamples, systems), novel and original,
        with ``seeds`` drawn anew and, with ``rows``, ``rows`` or ``both``.

    Raises
    ------
    InputError
        If systems of a cell have different seeds or test rows, or ``rows`` are not those of ``runs``.
    """
    for (cell, novel), (_, original) in zip(*(by_seed(runs, axis) for axis in AXES)):
        rng = np.random.default_rng(seed)
        weights = bootstrap_counts(rng, resamples, len(novel)).astype(float) / len(novel)
        found = {"seeds": np.stack([weights @ table.to_numpy() for table in (novel, original)])}
        if rows is not None:
            own = rows[(rows["dataset"] == cell[0]) & (rows["policy"] == cell[1])]
            at = [places[cell[0], number] for number in novel.index]
            found["rows"], found["both"] = _redrawn(_bits(own, novel, original), at, weights, rng)
        yield cell, dict(zip(AXES, (novel, original))), found
