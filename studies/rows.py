"""Test rows of published runs: which of them were right, class by class."""

import numpy as np
import pandas as pd

from ocrrlib.metrics import RUN


def right_rows(runs):
    """Test rows that each run answered right, from their packed bits: (runs, novel rows) and (runs, original rows)."""
    sizes = runs[["n_novel", "n_original"]].iloc[0]
    packed = np.frombuffer(b"".join(runs["right"]), np.uint8).reshape(len(runs), -1)
    return np.split(np.unpackbits(packed, axis=1, count=sizes.sum()), [sizes["n_novel"]], axis=1)


def by_class(rows, places, datasets):
    """Each run on each class, a row each: what macro accuracy, accuracy in scope and a bootstrap over classes need.

    ``rows`` are as ``ocrrlib.runs.run_grid`` returns them, ``places`` as of ``statistics.places_of``. Columns are
    ``RUN``, ``axis`` (novel or original), ``class`` (its name), ``n`` test rows, ``accuracy``, and of novel classes, if
    the rows have heights, ``ausuc``. Means weighted by ``n`` are those of the run.
    """
    found = []
    for (dataset, seed), own in rows.groupby(["dataset", "seed"], sort=False):
        data = datasets[dataset]
        for axis, right, at in zip(("novel", "original"), right_rows(own), places[dataset, seed]):
            labels, members = np.unique(data.y_test[at], return_inverse=True)
            measures = {"accuracy": right}
            if axis == "novel" and "heights" in own:
                heights = np.frombuffer(b"".join(own["heights"]), "<i4").reshape(len(own), -1)
                measures["ausuc"] = np.maximum(heights, 0) / own["n_original"].to_numpy()[:, None]
            part = own.loc[own.index.repeat(len(labels)), RUN].reset_index(drop=True)
            part = part.assign(axis=axis, n=np.tile(n := np.bincount(members), len(own)))
            part["class"] = np.tile(np.array(data.classes)[labels], len(own))
            for name, values in measures.items():
                part[name] = np.concatenate([np.bincount(members, row) / n for row in values])
            found.append(part)
    return pd.concat(found, ignore_index=True)
