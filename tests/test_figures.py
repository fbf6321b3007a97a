"""Curves end at the means that tables show, and no seed is left out."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection

from ocrrlib.metrics import summarise
from paper import figures

SYSTEMS = ("static_linear", "online_linear", "knn_lm", "substrate")


def runs(systems=SYSTEMS):
    """Random runs of random length over three seeds, with different numbers of corrections."""
    rng, rows = np.random.default_rng(0), []
    for system in systems:
        for seed in range(3):
            steps = np.append(np.arange(0, rng.integers(100, 300), 50), rng.integers(300, 400))
            corrections = np.append(0, np.cumsum(rng.integers(0, 40, len(steps) - 1)))
            names = dict(dataset="banking77", encoder="e", policy="oracle", system=system, seed=seed)
            for step, made in zip(steps, corrections):
                held = dict(stored_entries=1, storage_bytes=1, novel_acc=rng.uniform(), original_acc=rng.uniform())
                rows.append(names | dict(step=int(step), corrections=int(made)) | held)
    return pd.DataFrame(rows)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_a_seed_whose_stream_is_over_stays_where_it_ended():
    rows = [(0, 0, 0, 0.0), (0, 10, 4, 0.5), (1, 0, 0, 0.0), (1, 10, 2, 0.1), (1, 20, 8, 0.7)]
    cell = pd.DataFrame(rows, columns=["seed", "step", "corrections", "novel_acc"])
    x, found = figures.mean_curve(cell, "novel_acc")
    assert x.tolist() == [0, 3, 6] and found.tolist() == [[0.0, 0.5, 0.5], [0.0, 0.1, 0.7]]


def test_every_curve_ends_in_a_mark_at_the_means():
    cell, (_, panels) = runs(), figures.both_axes(3)
    told = summarise(cell).set_index("system")
    for axis, axes in panels.items():
        figures.curves(axes, cell, axis)
        marks = [dots.get_offsets()[0] for dots in axes.collections if isinstance(dots, PathCollection)]
        for found in (marks, [line.get_xydata()[-1] for line in axes.lines]):
            np.testing.assert_allclose(found, told.loc[list(SYSTEMS), ["corrections", axis]])
