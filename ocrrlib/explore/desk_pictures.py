"""What the desk shows: answers, neighbours, accuracies, links of the chain."""

import pandas as pd
from matplotlib.ticker import MaxNLocator

from ocrrlib.explore.looks import KNOWN, NEW, accuracy_lines, drawn, subplots
from paper import style

MARK = "▶"  # the entry that is not what was written
SIGNS = {True: "✓", False: "✗", None: ""}


def answers(reply):
    """The answers as a table for readers; columns that would be empty are left out."""
    found = reply.answers.copy()
    found["right"] = [SIGNS[None if pd.isna(right) else bool(right)] for right in found["right"]]
    found["probability"] = [f"{p:.2f}" if pd.notna(p) else "" for p in found["probability"]]
    return found.loc[:, (found != "").any()]


def title(reply):
    """The query in a line, with its class where it is known."""
    return f"“{reply.query}”" if reply.truth is None else f"“{reply.query}”, in truth {reply.truth}"


@drawn
def neighbours(reply, source=None):
    """Cosines of the nearest entries as bars; those inside the margin band are filled.

    Parameters
    ----------
    reply : Reply
        What was said.
    source : str, optional
        The system whose entries are shown; by default the first that keeps any.

    Returns
    -------
    matplotlib Figure
    """
    source = source or next(iter(reply.neighbours), None)
    near, margin = reply.neighbours.get(source, pd.DataFrame()), reply.margins.get(source)
    figure, axes = subplots(figsize=(style.WIDTH, 0.6 + 0.28 * max(2, len(near))))
    if near.empty:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "none of these systems keeps entries", ha="center", transform=axes.transAxes)
        return figure
    places = range(len(near))[::-1]
    edges = [NEW if new else KNOWN for new in near["new"]]
    fills = [edge if inside else "white" for edge, inside in zip(edges, near["inside"])]
    axes.barh(places, near["cosine"], height=0.6, color=fills, edgecolor=edges, linewidth=1.2, zorder=3)
    low, high = min(0.0, near["cosine"].min()), near["cosine"].max()
    if margin is not None:
        axes.axvspan(high - margin, high, color="#E6E6E6", zorder=1, label="margin band")
    for place, cosine in zip(places, near["cosine"]):
        axes.text(cosine + 0.01, place, f"{cosine:.3f}", va="center", fontsize=7.5, zorder=4)
    labels = [f"{label}  (entry {entry})" for label, entry in zip(near["class"], near["entry"])]
    axes.set_yticks(places, labels)
    axes.set(xlim=(low, max(1.08, high + 0.08)), ylim=(-0.6, len(near) - 0.4), xlabel="cosine to the query")
    axes.grid(axis="y", visible=False)
    for colour, name in ((NEW, "new class"), (KNOWN, "known class")):
        axes.barh([-9], [0], color=colour, label=name)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7.5)
    how = "filled ones vote" if margin is not None else "shown as they are, without a vote"
    axes.set_title(f"Nearest entries of {source}; {how}", fontsize=8.5, loc="left")
    return figure


def chain(links, named=None):
    """Links of the chain as a table for readers, with a sign at the entry that ``verify`` has named."""
    signs = [f"{MARK} {place}" if place == named else str(place) for place in links.index]
    return links.set_axis(pd.Index(signs, name=links.index.name))


@drawn
def accuracies(history):
    """Accuracy on new and known classes after each correction, a line for each system.

    Returns
    -------
    matplotlib Figure
    """
    figure, panels = subplots(1, 2, figsize=(style.WIDTH, 2.2), sharey=True)
    for axes, axis, rows, colour in accuracy_lines(panels, history, "corrections"):
        axes.plot(rows["corrections"].iloc[-1:], rows[axis].iloc[-1:], "o", color=colour, markersize=4)
    for axes in panels:
        axes.set(xlabel="corrections", xlim=(-0.5, max(10, 1.03 * history["corrections"].max())))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    panels[1].legend(loc="lower right", fontsize=7.5)
    return figure


def accuracy_line(history):
    """Where all systems stand now, in a line."""
    last = history.groupby("system", sort=False).last()
    return "; ".join(f"{name}: new {row['novel']:.3f}, known {row['original']:.3f}" for name, row in last.iterrows())
