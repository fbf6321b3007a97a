"""Figures of the original's experiments show what their tables say."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import PathCollection

from ocrrlib.metrics import summarise
from ocrrlib.report import curves, figures, lora
from ocrrlib.report.beyond.figures import MAIN, recovery

SYSTEMS = ("static_linear", "online_linear", "knn_lm", "substrate")
ENDS = ["corrections", "novel", "original"]


def runs(systems=SYSTEMS, seeds=3, number=0, dataset="banking77", policy="oracle"):
    """Made-up runs of random length, none of which makes as many corrections as another."""
    rng, rows = np.random.default_rng(number), []
    for system in systems:
        for seed in range(seeds):
            steps = np.append(np.arange(0, rng.integers(100, 300), 50), rng.integers(300, 400))
            corrections = np.append(0, np.cumsum(rng.integers(0, 40, len(steps) - 1)))
            names = dict(dataset=dataset, encoder="e", policy=policy, system=system, seed=seed)
            for step, made in zip(steps, corrections):
                held = dict(
                    stored_entries=1, storage_bytes=1, novel_acc=rng.uniform(), original_acc=rng.uniform(0.3, 1)
                )
                rows.append(names | dict(step=int(step), corrections=int(made)) | held)
    return pd.DataFrame(rows)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def ends(axes, n):
    """Where the first curves of a panel end, and where their marks are."""
    marks = [dots.get_offsets()[0] for dots in axes.collections if isinstance(dots, PathCollection)]
    return np.array([line.get_xydata()[-1] for line in axes.lines[:n]]), np.array(marks)


@given(number=st.integers(0, 2**32 - 1), seeds=st.integers(1, 5))
def test_a_mean_curve_ends_at_the_means_of_the_table_however_long_its_seeds_are(number, seeds):
    cell = runs(SYSTEMS[:2], seeds, number)
    told = summarise(cell).set_index("system")
    for system, own in cell.groupby("system"):
        for axis in ("novel", "original"):
            x, found = curves.mean_curve(own, f"{axis}_acc")
            last = told.loc[system]
            assert (x[-1], found[:, -1].mean()) == pytest.approx((last["corrections"], last[axis]))
            assert (np.diff(x) >= 0).all(), "corrections are never taken back"


def test_a_seed_whose_stream_is_over_stays_where_it_ended():
    rows = [(0, 0, 0, 0.0), (0, 10, 4, 0.5), (1, 0, 0, 0.0), (1, 10, 2, 0.1), (1, 20, 8, 0.7)]
    x, found = curves.mean_curve(pd.DataFrame(rows, columns=["seed", "step", "corrections", "novel_acc"]), "novel_acc")
    assert x.tolist() == [0, 3, 6]
    assert found.tolist() == [[0.0, 0.5, 0.5], [0.0, 0.1, 0.7]]


def test_all_curves_that_are_drawn_end_in_a_mark_at_the_means():
    cell = runs()
    told = summarise(cell).set_index("system")[ENDS]
    panels = figures.recovery(cell).axes
    for axes, axis in zip(panels, curves.AXES):
        for found in ends(axes, len(SYSTEMS)):
            np.testing.assert_allclose(found, told.loc[list(SYSTEMS), ["corrections", axis]])
    names = list(figures.VARIANTS)
    variants = runs(names)
    told = summarise(variants).set_index("system")[ENDS]
    for found in ends(figures.ablation(variants).axes[0], len(names)):
        np.testing.assert_allclose(found, told.loc[names, ["corrections", "novel"]])
    names = list(lora.LOOKS)
    variants = runs(names)
    told = summarise(variants).set_index("system")[ENDS]
    for axes, axis in zip(lora.variants(variants).axes, curves.AXES):
        for found in ends(axes, len(names)):
            np.testing.assert_allclose(found, told.loc[names, ["corrections", axis]])
    only = variants[variants["system"] == "lora"]
    for axes, axis in zip(lora.recovery(only, cell[cell["system"] == "substrate"]).axes, curves.AXES):
        np.testing.assert_allclose(ends(axes, 1)[0], told.loc[["lora"], ["corrections", axis]])
        assert len(axes.lines) == 2 * (1 + 3), "a mean and its seeds"


def test_curves_over_the_stream_end_at_the_mean_length_and_the_mean_accuracy():
    cell = runs(MAIN)
    last = cell.groupby(["system", "seed"]).last().groupby("system").mean(numeric_only=True)
    for axes, axis in zip(recovery(cell).axes, curves.AXES):
        for found in ends(axes, len(MAIN)):
            np.testing.assert_allclose(found, last.loc[list(MAIN), ["step", f"{axis}_acc"]])


def test_seeds_are_filled_for_novel_and_hollow_for_original_as_their_means_are():
    cell = runs()
    (axes,) = [axes for axes in figures.six_cells(cell).axes if axes.get_title()]
    dots = [d for d in axes.collections if isinstance(d, PathCollection)]
    faces = [tuple(d.get_facecolor()[0][:3]) == (1, 1, 1) for d in dots]
    assert faces == [False, False, True, True] * len(SYSTEMS), "mean and seeds of novel, then of original"
    said = [text.get_text() for text in axes.figure.legends[0].get_texts()]
    assert said == ["novel, mean", "original, mean", "novel, seeds", "original, seeds"]
