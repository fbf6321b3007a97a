"""The front of systems in the plane of both accuracies, and names beside points."""

from itertools import product
from operator import itemgetter

import numpy as np

DASHED = dict(color="#404040", linewidth=0.9, linestyle=(0, (4, 2)))
# Where a name may stand, in points from its mark, best first.
SPOTS = [(r * dx, r * dy) for r in (6, 11, 17, 24, 32) for dx, dy in product((-1, 1, 0), (0.45, -0.45, 1, -1, 0))]


def staircase(axes, front, **label):
    """Draw the border of what some system dominates.

    Parameters
    ----------
    axes : matplotlib Axes
        Of ``original`` and ``novel`` accuracy, with its limits.
    front : DataFrame
        ``original`` and ``novel`` of the systems on it.

    Returns
    -------
    (n, 2) float64
        Points along it.
    """
    front, (x_low, y_low) = front.sort_values("original"), (axes.get_xlim()[0], axes.get_ylim()[0])
    x = np.concatenate([[x_low - 1], np.repeat(front["original"], 2)])
    y = np.concatenate([np.repeat(front["novel"], 2), [y_low - 1]])
    axes.plot(x, y, zorder=1, **DASHED, **label)
    along = np.linspace(0, len(x) - 1, 100 * len(x))
    return np.column_stack([np.interp(along, range(len(x)), part) for part in (x, y)])


def write_names(axes, marks, lines, labels):
    """Write names beside their marks, each where it hides least of marks, lines and other names.

    Parameters
    ----------
    axes : matplotlib Axes
        Of a figure that has been drawn, so that all is in its place.
    marks, lines : (m, 2), (n, 2)
        Points that should not be hidden, in the coordinates of the data.
    labels : list of ((x, y), str, dict)
        Where each name belongs, the name, and how its text looks.
    """
    to_points = 72 / axes.figure.dpi
    dots, strokes = (axes.transData.transform(np.array(part)) * to_points for part in (marks, lines))
    inside, taken = axes.get_window_extent().extents * to_points, []
    for (x, y), text, style in labels:
        note = axes.annotate(text, (x, y), textcoords="offset points", xytext=(0, 0), va="center", fontsize=7, **style)
        note.set_in_layout(False)
        width, height = note.get_window_extent().size * to_points
        at, costs = axes.transData.transform((x, y)) * to_points, []
        for rank, (dx, dy) in enumerate(SPOTS):
            left, low = at + (dx - (dx < 0) * width - (dx == 0) * width / 2, dy - height / 2)
            box = np.array([[left, low], [left + width, low + height]])
            outside = np.maximum(0, [inside[:2] - box[0], box[1] - inside[2:]]).sum()
            hidden, crossed = (((p > box[0] - 2) & (p < box[1] + 2)).all(axis=1).sum() for p in (dots, strokes))
            over = sum(((box[0] < other[1]) & (box[1] > other[0])).all() for other in taken)
            gaps = np.hypot(*np.maximum(0, [box[0] - dots, dots - box[1]]).max(axis=0).T)
            another = (gaps < np.hypot(*np.maximum(0, [box[0] - at, at - box[1]]).max(axis=0)) - 0.5).any()
            costs.append(
                (1000 * over + 100 * outside + 60 * hidden + 45 * (crossed > 0) + 20 * another + rank, rank, box)
            )
        _, rank, box = min(costs, key=itemgetter(0))
        taken.append(box)
        dx, dy = SPOTS[rank]
        strokes = np.concatenate([strokes, at + np.linspace(0, 1, 12)[:, None] * (dx, dy)])  # its own line
        note.set(position=(dx, dy), horizontalalignment="right" if dx < 0 else "left" if dx > 0 else "center")
        line = dict(arrowstyle="-", color=style["color"], linewidth=0.5, shrinkA=0, shrinkB=2)
        axes.annotate("", (x, y), xytext=(dx, dy), textcoords="offset points", arrowprops=line).set_in_layout(False)
