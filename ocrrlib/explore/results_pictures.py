"""What the explorer shows: curves, the plane of both accuracies, and the inside of one run."""

import numpy as np

from ocrrlib.errors import InputError
from ocrrlib.explore.looks import AXES, KNOWN, NEW, accuracy_lines, colours, drawn, flat, subplots
from ocrrlib.explore.queries import texts_at_hand
from paper import style
from paper.fronts import edged, from_left, staircase, write_names

LISTED = 200  # corrected rows in the table
MOST = 8  # systems side by side: more can be told apart by nobody
CHANGED = 10  # known classes that are shown: those whose accuracy changes most


def heading(dataset, policy, seed):
    """A cell in words."""
    seeds = "mean over seeds, 95 % t interval" if seed is None else f"seed {seed}"
    return f"{style.cell_title(dataset, policy)}, {seeds}"


def overview(results, dataset, policy, systems, seed=None):
    """Curves of one to ``MOST`` systems, and all systems in the plane of both final accuracies.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    InputError
        If there are no systems, or too many.
    """
    if not 1 <= len(systems) <= MOST:
        raise InputError(f"{len(systems)} systems are chosen: choose 1 to {MOST} of them")
    curves, finals = results.curves(dataset, policy, systems, seed), results.finals(dataset, policy, seed)
    return _overview(curves, finals, heading(dataset, policy, seed))


@drawn
def _overview(curves, finals, title):
    figure, panels = subplots(1, 3, figsize=(1.35 * style.WIDTH, 3.4), width_ratios=(1, 1, 1.5))
    for axes, axis, rows, colour in accuracy_lines(panels[:2], curves, "step"):
        low, high = rows[f"{axis} low"], rows[f"{axis} high"]
        axes.fill_between(rows["step"], low, high, color=colour, alpha=0.2, linewidth=0)
        axes.set_xlabel("stream items")
    looks = colours(list(curves["system"].unique()))
    named = _plane(panels[2], finals, looks)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=7.5)
    figure.suptitle(title, fontsize=9)
    figure.draw_without_rendering()  # names need to know where everything is
    write_names(*named)
    return figure


def _plane(axes, finals, looks):
    """Returns what ``write_names`` needs for systems on the front and chosen ones."""
    chosen = finals.index.isin(looks)
    from_left(axes, finals[~finals["collapsed"] | chosen], finals)
    others = finals[~chosen & (finals["original"] >= axes.get_xlim()[0])]
    axes.scatter(others["original"], others["novel"], color="#B0B0B0", s=14, zorder=3)
    for system in finals.index[chosen]:
        axes.scatter(finals.at[system, "original"], finals.at[system, "novel"], color=looks[system], s=32, zorder=4)
    axes.set(title="where all end; the dashed line is the front", xlabel="known classes", ylabel="new classes")
    lines = staircase(axes, finals[finals["front"]])
    named = finals[finals["front"] | chosen]
    labels = [
        ((row["original"], row["novel"]), system, dict(color=looks.get(system, "#606060")))
        for system, row in named.to_dict("index").items()
    ]
    return axes, edged(axes, finals), lines, labels


@drawn
def classes(replay):
    """Accuracy of each new class, and of the known ones that change most, before the stream and after it.

    Returns
    -------
    matplotlib Figure
    """
    change = (replay.classes["after"] - replay.classes["before"]).abs()
    known = replay.classes[~replay.classes["new"]]
    most = change[known.index].sort_values(ascending=False, kind="stable")
    most = most.index[: min(CHANGED, int((most > 0).sum()))]
    changed = f"the {len(most)} of {len(known)} that change most" if len(most) else f"none of {len(known)} changes"
    parts = (
        ("new classes", replay.classes[replay.classes["new"]].sort_values("after", kind="stable"), NEW),
        (f"known classes: {changed}", known.loc[most[::-1]], KNOWN),
    )
    height = 0.8 + 0.22 * max(len(rows) for _, rows, _ in parts)
    figure, panels = subplots(1, 2, figsize=(1.35 * style.WIDTH, height), sharex=True)
    for axes, (name, rows, colour) in zip(panels, parts):
        places = np.arange(len(rows))
        axes.hlines(places, rows["before"], rows["after"], color=colour, linewidth=1.6, zorder=2)
        axes.plot(rows["before"], places, "o", markerfacecolor="white", markeredgecolor=colour, label="before")
        axes.plot(rows["after"], places, "o", color=colour, label="after")
        axes.set_yticks(places, rows.index)
        axes.set(xlabel="accuracy on test rows", xlim=(-0.04, 1.04), ylim=(-0.7, max(1, len(rows)) - 0.3))
        axes.set_title(name, loc="right")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=7.5)
    return figure


@drawn
def confusion(replay):
    """Test rows of new classes and their answers at the end, known classes taken together.

    Returns
    -------
    matplotlib Figure
    """
    new = list(replay.classes.index[replay.classes["new"]])
    counts = replay.confusion.T.groupby(lambda name: name if name in new else "known classes").sum().T
    counts = counts.groupby(lambda name: name if name in new else "known classes").sum()
    names = [*new, "known classes"]
    counts = counts.reindex(index=names, columns=names, fill_value=0)
    shares = counts.div(counts.sum(axis=1), axis=0).fillna(0).to_numpy()
    figure, axes = subplots(figsize=(style.WIDTH, 0.9 * style.WIDTH * (len(names) + 4) / 18))
    axes.imshow(shares, cmap="Greys", vmin=0, vmax=1, aspect="auto")
    for row, column in np.argwhere(counts.to_numpy() > 0):
        dark = shares[row, column] > 0.5
        axes.text(
            column,
            row,
            counts.iat[row, column],
            ha="center",
            va="center",
            fontsize=7,
            color="white" if dark else "black",
        )
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right")
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="answer", ylabel="true class", title="test rows at the end; shades are shares of a row")
    axes.grid(visible=False)
    return figure


@drawn
def corrections(replay):
    """Every stream item in its class: answered right, corrected, or wrong and left so.

    Returns
    -------
    matplotlib Figure
    """
    stream = replay.stream
    names = sorted(stream["class"].unique())
    places = stream["class"].map({name: place for place, name in enumerate(names)})
    figure, axes = subplots(figsize=(1.35 * style.WIDTH, 1.1 + 0.22 * len(names)))
    left = ~stream["right"] & ~stream["corrected"]
    looks = (
        ("right", stream["right"], dict(marker="|", color="#B0B0B0", s=22, linewidth=0.7)),
        ("wrong, not corrected", left, dict(marker="o", facecolor="none", edgecolor=NEW, s=12, linewidth=0.8)),
        ("corrected", stream["corrected"], dict(marker="o", color=NEW, s=12)),
    )
    for name, chosen, look in looks:
        axes.scatter(stream.index[chosen], places[chosen], label=f"{name} ({chosen.sum()})", **look)
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="stream items", ylim=(len(names) - 0.4, -0.6))
    axes.grid(axis="y", visible=False)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=7.5)
    return figure


def corrected(run, dataset):
    """The first corrected rows of a run, with their sentences where these are on this machine."""
    rows = run.stream.loc[run.stream["corrected"], ["row", "class", "answered"]].head(LISTED)
    texts = texts_at_hand(dataset)
    return rows if texts is None else rows.assign(text=[texts.train[row] for row in rows["row"]])


def standings(finals):
    """Where all systems end, as a table for readers."""
    marks = {"front": {True: "●", False: ""}, "collapsed": {True: "collapsed", False: ""}}
    shown = finals.assign(**{name: finals[name].map(said) for name, said in marks.items()})
    for axis in AXES:
        shown[axis] = shown[axis].map("{:.3f}".format)
    shown["corrections"] = shown["corrections"].map("{:.0f}".format)
    return flat(shown.rename(columns=AXES))


def run_line(replay):
    """What a run came to, in a line."""
    end = replay.end
    return (
        f"{replay.system}, seed {replay.seed}: {end['corrections']} of {end['step']} stream items corrected; "
        f"in the end {end['novel_acc']:.3f} on new classes, {end['original_acc']:.3f} on known ones, as published."
    )
