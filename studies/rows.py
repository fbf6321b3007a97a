"""Test rows of published runs: which of them were right, class by class."""

from dataclasses import replace

import numpy as np
import pandas as pd

from ocrrlib.embeddings import Embedded
from ocrrlib.metrics import RUN
from ocrrlib.scenario import make_scenario


def right_rows(runs: pd.DataFrame) -> list[np.ndarray]:
    """Test rows that each run answered right, from their packed bits.

    Two arrays of 0 and 1: (runs, novel rows) and (runs, original rows).
    """
    sizes = runs[["n_novel", "n_original"]].iloc[0]
    packed = np.frombuffer(b"".join(runs["right"]), np.uint8).reshape(len(runs), -1)
    return np.split(np.unpackbits(packed, axis=1, count=sizes.sum()), [sizes["n_novel"]], axis=1)


def places_of(
    rows: pd.DataFrame, datasets: dict[str, Embedded]
) -> dict[tuple[str, int], tuple[np.ndarray, np.ndarray]]:
    """Numbers of the novel and of the original test rows by dataset and seed, in order of bits."""
    found = {}
    for row in rows.drop_duplicates(["dataset", "seed"]).to_dict("records"):
        data = datasets[row["dataset"]]
        # A scenario keeps rows, not their places.
        numbered = replace(data, X_test=np.arange(len(data.y_test))[:, None])
        whole = row["n_novel"] + row["n_original"] == len(data.y_test)
        cap = None if whole else max(row["n_novel"], row["n_original"])
        scenario = make_scenario(numbered, int(row["seed"]), draw="fresh", cap=cap)
        found[row["dataset"], row["seed"]] = scenario.X_novel[:, 0], scenario.X_original[:, 0]
    return found


def by_class(
    rows: pd.DataFrame,
    places: dict[tuple[str, int], tuple[np.ndarray, np.ndarray]],
    datasets: dict[str, Embedded],
) -> pd.DataFrame:
    """Each run on each class, a row each.

    Macro accuracy and accuracy in scope need these. ``rows`` are as ``ocrrlib.runs.run_grid``
    returns them. Columns are ``RUN``, ``axis`` (novel or original), ``class`` (its name), ``share``
    of the test rows of this axis, and ``accuracy``. Means weighted by ``share`` are those of the
    run.
    """
    found = []
    for (dataset, seed), own in rows.groupby(["dataset", "seed"], sort=False):
        data = datasets[dataset]
        for axis, right, at in zip(("novel", "original"), right_rows(own), places[dataset, seed]):
            labels, members, n = np.unique(data.y_test[at], return_inverse=True, return_counts=True)
            part = own.loc[own.index.repeat(len(labels)), RUN].reset_index(drop=True)
            part = part.assign(axis=axis, share=np.tile(n / n.sum(), len(own)))
            part["class"] = np.tile(np.array(data.classes)[labels], len(own))
            part["accuracy"] = _class_means(right, members, n)
            found.append(part)
    return pd.concat(found, ignore_index=True)


def _class_means(values, members, n):
    """Means by class of values (runs, rows), run by run: (runs · classes,)."""
    return np.concatenate([np.bincount(members, row) / n for row in values])
