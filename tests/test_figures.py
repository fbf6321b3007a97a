"""Figures show what the tables say: curves end at means, marks are means and seeds, no row is left out."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection

from ocrrlib.metrics import summarise
from paper import figures, style

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


def test_dots_are_filled_for_novel_and_hollow_for_original_means_and_seeds():
    figure, axes = plt.subplots()
    figures.dots(axes, runs(), {system: style.style_of(system)[0] for system in SYSTEMS})
    figures.dots_legend(figure)
    marks = [d for d in axes.collections if isinstance(d, PathCollection)]
    hollow = [tuple(d.get_facecolor()[0][:3]) == (1, 1, 1) for d in marks]
    assert hollow == [False, False, True, True] * len(SYSTEMS), "mean and seeds of novel, then of original"
    assert [len(d.get_offsets()) for d in marks[:4]] == [1, 3, 1, 3]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["novel, mean", "original, mean", "novel, seeds", "original, seeds"]


def test_the_map_of_noise_has_a_number_for_every_setting_of_the_first_seed():
    settings = [(100, 0.1, 10_000, 0), (100, 0.1, 10_000, 1), (10, 0.15, 10_000, 0), (10, 0.15, 100_000, 0)]
    found = pd.DataFrame([*settings, (7, 0.3, 10_000, 0)], columns=["classes", "noise", "n", "seed"])
    panels = figures.noise_map(found.assign(exact_acc=0.9, hnsw_acc=0.8, recall=0.5)).axes
    assert len(panels) == 3 * 3 + 3, "a colour bar for each column"
    shown = [sum(text.get_text() != "nan" for text in axes.texts) for axes in panels[:9]]
    assert shown == [1] * 3 + [2] * 3 + [1] * 3


def test_the_front_of_storage_names_every_budget():
    names = ["substrate", "online_linear", *(f"bounded_{kind}_{n}" for kind in ("reservoir", "fifo") for n in (5, 10))]
    for axes in figures.storage_pareto(runs(names)).axes:
        assert [text.get_text() for text in axes.texts] == ["5", "10", "5", "10"]
