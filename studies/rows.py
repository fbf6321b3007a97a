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

    Macro accuracy, accuracy in scope and a bootstrap over classes need these. ``rows`` are as
    ``ocrrlib.runs.run_grid`` returns them. Columns are ``RUN``, ``axis`` (novel or original),
    ``class`` (its name), ``share`` of the test rows of this axis, ``accuracy``, and of novel
    classes ``ausuc``. Means weighted by ``share`` are those of the run.
    """
    found = []
    for (dataset, seed), own in rows.groupby(["dataset", "seed"], sort=False):
        data = datasets[dataset]
        heights = np.frombuffer(b"".join(own["heights"]), "<i4").reshape(len(own), -1)
        areas = np.maximum(heights, 0) / own["n_original"].to_numpy()[:, None]
        for axis, right, at in zip(("novel", "original"), right_rows(own), places[dataset, seed]):
            labels, members, n = np.unique(data.y_test[at], return_inverse=True, return_counts=True)
            part = own.loc[own.index.repeat(len(labels)), RUN].reset_index(drop=True)
            part = part.assign(axis=axis, share=np.tile(n / n.sum(), len(own)))
            part["class"] = np.tile(np.array(data.classes)[labels], len(own))
            part["accuracy"] = _class_means(right, members, n)
            if axis == "novel":
                part["ausuc"] = _class_means(areas, members, n)
            found.append(part)
    return pd.concat(found, ignore_index=True)


def _class_means(values, members, n):
    """Means by class of values (runs, rows), run by run: (runs · classes,)."""
    return np.concatenate([np.bincount(members, row) / n for row in values])


def over_classes(
    classes: pd.DataFrame, system: str, level: float, resamples: int = 2_000
) -> pd.DataFrame:
    """One-sided bounds ``low_classes`` of a system's area minus each other one's.

    They hold over draws of the held-out classes. ``classes`` is as ``by_class`` returns it.
    Held-out classes are drawn with replacement, each with all of its test rows in all seeds that
    hold it out (cluster bootstrap, percentiles).
    """
    found = {}
    novel = classes[classes["axis"] == "novel"]
    novel = novel.assign(ausuc=novel["share"] * novel["ausuc"])
    for cell, own in novel.groupby(["dataset", "policy"], sort=False):
        table = own.pivot_table(
            index="class", columns="system", values=["ausuc", "share"], aggfunc="sum", sort=False
        )
        n = len(table)
        counts = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), resamples)
        drawn = counts @ table["ausuc"] / (counts @ table["share"])
        found[cell] = (drawn[[system]].to_numpy() - drawn).quantile(1 - level).drop(system)
    return pd.concat(found, names=["dataset", "policy"]).rename("low_classes").reset_index()
