"""Harder streams: one figure per study."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from ocrrlib.encoders import LEXICAL_ENCODER
from paper.figures import mean_curve
from ocrrlib.report.streams.rows import detection, last, of_study
from paper.style import PALETTE, WIDTH, style_of

NOVEL, ORIGINAL = "novel accuracy", "original accuracy"
WAYS = {"random": ("grey", "o"), "margin": ("blue", "s"), "entropy": ("vermilion", "^")}
# Rates of wrong labels, from none to the highest: ever warmer and bolder.
RATES = [
    dict(color=PALETTE[name], linewidth=width, linestyle=dashes)
    for name, width, dashes in (
        ("black", 1.0, "-"),
        ("sky", 1.2, (0, (1, 1))),
        ("orange", 1.5, (0, (4, 1.5))),
        ("vermilion", 1.9, "-"),
    )
]
DRIFTS = {"none": ("black", "o"), "gradual": ("blue", "s"), "abrupt": ("vermilion", "^"), "recurring": ("green", "D")}


def _label_ends(axes, ends, x):
    """Names beside the right ends of lines, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    gap, names = (high - low) / 14, sorted(ends, key=ends.get)
    places = np.array([ends[name] for name in names])
    places = np.maximum.accumulate(places - gap * np.arange(len(names))) + gap * np.arange(len(names))
    from_top = gap * np.arange(len(names))[::-1]
    places = np.minimum(places, high - from_top)
    for name, y in zip(names, places):
        where = dict(xytext=(6, 0), textcoords="offset points", va="center", fontsize=7, annotation_clip=False)
        axes.annotate(name, (x, y), color=style_of(name)[0], **where)


def _lines(axes, rows, x, y, ticks=None, labels=True):
    """Mean over seeds of ``y`` against ``x``, with one standard deviation either way, a line per system."""
    ends, right = {}, 0
    for system, cell in rows.groupby("system", sort=False):
        colour, marker = style_of(system)
        if ticks:
            means = cell.groupby(x)[y].agg(["mean", "std"])
            places, (mean, std) = [ticks.index(value) for value in means.index], means.to_numpy().T
        else:
            places, curves = mean_curve(cell, y, along=x)
            mean, std = curves.mean(axis=0), pd.DataFrame(curves).std().to_numpy()  # no spread of one seed
        axes.fill_between(places, mean - std, mean + std, color=colour, alpha=0.12, linewidth=0)
        axes.plot(places, mean, color=colour, marker=marker if ticks else None, markersize=5)
        ends[system], right = mean[-1], max(right, places[-1])
    if ticks:
        axes.set_xticks(range(len(ticks)), [f"{value:g}" for value in ticks])
    if labels:
        _label_ends(axes, ends, right)


def _panels(n, height=2.9, **more):
    return plt.subplots(1, n, figsize=(WIDTH, height), **more)


def wrong(rows):
    """Wrong corrections: novel accuracy, and the share of entries that are wrong, as the stream goes on, by rate."""
    rows = of_study(rows, "wrong")
    rows = rows[rows["confusion"].isin(["none", "nearest"])]
    systems, rates = list(dict.fromkeys(rows["system"])), sorted(rows["wrong"].unique())
    figure, panels = plt.subplots(2, len(systems), figsize=(WIDTH, 3.6), sharex=True, sharey="row", squeeze=False)
    for column, system in zip(panels.T, systems):
        own = rows[rows["system"] == system]
        column[0].set_title(system, color=style_of(system)[0], fontsize=7)
        for axes, metric, size in zip(column, ("novel_acc", "wrong_entries"), (1, 100)):
            for rate, look in zip(rates, RATES):
                cell = own[own["wrong"] == rate].dropna(subset=metric)
                if len(cell):
                    steps, curves = mean_curve(cell, metric, along="step")
                    axes.plot(steps, size * curves.mean(axis=0), **look, label=f"{100 * rate:g} %")
        if own["wrong_entries"].isna().all():
            column[1].text(0.5, 0.5, "stores\nno entries", transform=column[1].transAxes, ha="center", fontsize=7)
    panels[0][0].set(ylim=(-0.04, 1.04), ylabel=NOVEL)
    panels[1][0].set(ylabel="% of entries wrong")
    figure.supxlabel("stream items", fontsize=8)
    handles, names = panels[0][0].get_legend_handles_labels()
    title = "corrections that name the nearest wrong class:"
    figure.legend(handles, names, loc="outside upper center", ncols=len(names), title=title, title_fontsize=7)
    return figure


def late(rows):
    """Late corrections: accuracy on the way, and mistakes that are corrected twice."""
    final, (left, right) = last(of_study(rows, "late")), _panels(2)[1]
    ticks = sorted(final["delay"].unique())
    left.set(ylim=(-0.04, 1.04), xlabel="delay (stream items)", title=f"{NOVEL}, mean over the stream")
    _lines(left, final, "delay", "mean_novel", ticks, labels=False)
    right.set(xlabel="delay (stream items)", title="corrections in all")
    _lines(right, final, "delay", "corrections", ticks)
    return left.figure


def asked(rows):
    """Asked-for corrections: random questions against those about uncertain items, at equal budgets."""
    final = last(of_study(rows, "asked"))
    systems = list(dict.fromkeys(final["system"]))
    figure, panels = _panels(len(systems), 2.6, sharey=True, squeeze=False)
    ticks = sorted(final["p"].unique())
    for axes, system in zip(panels[0], systems):
        for way, (colour, marker) in WAYS.items():
            cell = final[(final["system"] == system) & (final["asking"] == way)]
            mean = cell.groupby("p")["novel_acc"].mean()
            axes.plot(range(len(mean)), mean, color=PALETTE[colour], marker=marker, markersize=4, label=way)
        axes.set_xticks(range(len(ticks)), [f"{100 * p:.0f}" for p in ticks])
        axes.set_title(system, color=style_of(system)[0], fontsize=7)
        axes.set_ylim(-0.04, 1.04)
    panels[0][0].set_ylabel(f"final {NOVEL}")
    figure.supxlabel("% of the stream asked about", fontsize=8)
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def _dots(axes, final, by, looks, metric):
    """A line per system, a mark per value of ``by``: mean over seeds."""
    systems = list(dict.fromkeys(final["system"]))
    for place, system in enumerate(systems):
        means = final[final["system"] == system].groupby(by)[metric].mean()
        axes.plot([means.min(), means.max()], [place, place], color="#C0C0C0", linewidth=2, zorder=1)
        for value, (colour, marker) in looks.items():
            label = value if place == 0 else None
            mark = dict(color=PALETTE[colour], marker=marker, s=30, zorder=2, label=label)
            axes.scatter(means[value], place, **mark)
    axes.set_yticks(range(len(systems)), systems)
    axes.set_ylim(len(systems) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)


def _dotted(final, by, looks, metrics, titles=None):
    figure, panels = _panels(len(metrics), 2.6, sharey=True, squeeze=False)
    for axes, (metric, title) in zip(panels[0], metrics.items()):
        _dots(axes, final, by, looks, metric)
        axes.set_title(title)
    handles, names = panels[0][0].get_legend_handles_labels()
    names = [(titles or {}).get(name, name) for name in names]
    figure.legend(handles, names, loc="outside lower center", ncols=len(names))
    return figure


def drift(rows):
    """Within-class drift: the same rows from the centre of their classes outwards."""
    metrics = {"novel_acc": f"final {NOVEL}", "mean_novel": f"{NOVEL}, mean over the stream"}
    return _dotted(last(of_study(rows, "drift")), "drift", DRIFTS, metrics, {"none": "no drift"})


def _against(rows, x, label):
    """Both final accuracies against a number of classes."""
    final, (left, right) = last(rows), _panels(2)[1]
    ticks = sorted(final[x].unique())
    for axes, metric, title in ((left, "novel_acc", NOVEL), (right, "original_acc", ORIGINAL)):
        spread = final.groupby(["system", x])[metric].agg(["mean", "std"]).fillna(0)  # one seed has no spread
        low = max(0, np.floor(20 * (spread["mean"] - spread["std"]).min()) / 20)  # each panel shows its own range
        axes.set(ylim=(low, 1 + 0.04 * (1 - low)), xlabel=label, title=f"final {title}")
        _lines(axes, final, x, metric, ticks, labels=axes is right)
    return left.figure


def new(rows):
    """How many classes are new, to a system that knows equally many."""
    return _against(of_study(rows, "new"), "new", "new classes")


def known(rows):
    """How many classes were known, to a system that meets equally many new ones."""
    return _against(of_study(rows, "known"), "known", "known classes")


def scope(rows):
    """Out of scope: what confidence is worth, before and after the stream."""
    found = detection(rows)
    found = found[found["within"] == "all"].assign(system=found["system"] + ", " + found["score"])
    looks = {"before": ("grey", "o"), "after": ("vermilion", "o")}
    wide = found.pivot(index=["system", "seed", "when"], columns="metric", values="value").reset_index()
    metrics = {"auroc": "AUROC", "fpr95": "let through at 95 % recall"}
    titles = {"before": "before the stream", "after": "after the stream"}
    return _dotted(wide.sort_values("system"), "when", looks, metrics, titles)


def order(rows):
    """Initial rows sorted by class or shuffled, for memories with a budget."""
    looks = {"file": ("grey", "o"), "shuffled": ("vermilion", "o")}
    metrics = {"novel_acc": f"final {NOVEL}", "original_acc": f"final {ORIGINAL}"}
    return _dotted(last(of_study(rows, "order")), "order", looks, metrics, {"file": "sorted by class"})


def encoder(rows):
    """A sentence encoder and a lexical one."""
    final = last(of_study(rows, "encoder"))
    looks = dict(zip(dict.fromkeys(final["encoder"]), (("black", "o"), ("orange", "s"))))
    metrics = {"novel_acc": f"final {NOVEL}", "original_acc": f"final {ORIGINAL}"}
    seen = f"{LEXICAL_ENCODER}, fitted on all training sentences, those of the new classes too"
    return _dotted(final, "encoder", looks, metrics, {LEXICAL_ENCODER: seen})


def digits(rows):
    """Handwritten digits: both accuracies as the stream goes on."""
    cell, (left, right) = of_study(rows, "digits"), _panels(2)[1]
    for axes, metric, title in ((left, "novel_acc", NOVEL), (right, "original_acc", ORIGINAL)):
        axes.set(ylim=(-0.04, 1.04), xlabel="stream items", title=title)
        _lines(axes, cell, "step", metric, labels=axes is right)
    return left.figure
