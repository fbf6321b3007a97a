"""One class among the others: how often its test rows are answered right, and how alike its rows are."""

import numpy as np
import pandas as pd

from ocrrlib.errors import InputError, pick
from ocrrlib.statistics.resampling import places_of, right_rows


def apart(rows, data, name="oos"):
    """Final accuracy on one class, on the other original ones and on novel ones; means over seeds that know the class.

    Parameters
    ----------
    rows : DataFrame
        Which test rows each run got right, as ``sweep.right_answers`` has them, of this dataset.
    data : Embedded
        The dataset.
    name : str
        The class, by default CLINC150's out-of-scope queries.

    Returns
    -------
    DataFrame
        One row per policy and system: ``inside`` (the class), ``others``, ``novel``, ``share`` of the class
        among original test rows, ``seeds``.

    Raises
    ------
    InputError
        If there is no such class, no seed knows it, or the runs were not tested on this dataset's rows.
    """
    label = pick("class", name, {one: id for id, one in enumerate(data.classes)})
    found, places = [], places_of(rows, {data.dataset: data})
    for seed, runs in rows.groupby("seed", sort=False):
        novel, right = right_rows(runs)
        inside = data.y_test[places[data.dataset, seed][1]] == label
        if inside.any():
            mean = {"inside": right[:, inside].mean(axis=1), "others": right[:, ~inside].mean(axis=1)}
            mean["novel"] = novel.mean(axis=1)
            found.append(runs[["policy", "system", "seed"]].assign(**mean, share=np.mean(inside)))
    if not found:
        raise InputError(f"no seed knows {name!r} from the start: add seeds")
    seeds = pd.concat(found).groupby(["policy", "system"], sort=False)
    return seeds[["inside", "others", "novel", "share"]].mean().assign(seeds=seeds.size()).reset_index()


def alike(data, name="oos"):
    """How often the nearest training row of a row of one class is of that class, too.

    Returns
    -------
    dict
        ``train``, of the class's training rows, each among all others; ``test``, of its test rows.

    Raises
    ------
    InputError
        If there is no such class, or it has no rows to compare.
    """
    label = pick("class", name, {one: id for id, one in enumerate(data.classes)})
    places = np.flatnonzero(data.y_train == label)
    tested = data.X_test[data.y_test == label]
    if not len(places) or not len(tested):
        raise InputError(f"{data.dataset} has no training rows, or no test rows, of {name!r}: name another class")
    cosines = data.X_train[places] @ data.X_train.T
    cosines[np.arange(len(places)), places] = -np.inf
    near = {"train": cosines.argmax(axis=1), "test": (tested @ data.X_train.T).argmax(axis=1)}
    return {part: float(np.mean(data.y_train[rows] == label)) for part, rows in near.items()}
