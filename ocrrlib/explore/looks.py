"""Colours of any systems side by side, and pictures as HTML."""

import base64
import functools
import html
import io
import re

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd

from paper.style import PALETTE, STYLES, apply

DPI, SCALE = 150, 100  # dots drawn and shown for an inch: sharp on dense screens, too
NEW, KNOWN = PALETTE["vermilion"], PALETTE["blue"]  # of classes met in the stream, and from the start

STANDS_OUT = f"background:{NEW}33; outline:1px solid {NEW}"

AXES = {"novel": "new classes", "original": "known classes"}
FEW, DASHES = 4, ("-", "--")  # so many lines are told apart by colour alone
UNIT = (-0.03, 1.03)  # limits of an axis of accuracies


def colours(systems):
    """A colour for each system: that of all figures, or the next that is free where two would have the same.

    There are enough for twelve.
    """
    wanted = {system: STYLES[system][0] for system in systems if system in STYLES}
    found = {}
    for system, name in wanted.items():
        if name not in found.values():
            found[system] = name
    free = [name for name in PALETTE if name not in found.values()]
    rest = [system for system in systems if system not in found]
    found |= dict(zip(rest, free))
    return {system: PALETTE[found[system]] for system in systems}


def drawn(draw):
    """A function that draws in the look of all figures, without a change of the settings of others."""

    @functools.wraps(draw)
    def drawing(*args):
        with mpl.rc_context():
            apply()
            figure = draw(*args)
            figure.canvas.draw()  # while the look is set
        return figure

    return drawing


def subplots(*shape, **settings):
    """A figure that belongs to no pyplot window, and its axes: as ``plt.subplots`` returns them."""
    figure, axes = plt.subplots(*shape, **settings)
    plt.close(figure)
    return figure, axes


def accuracy_lines(panels, frame, x):
    """Accuracies on new and on known classes, in a panel each, as a line for each system.

    Parameters
    ----------
    panels : sequence of two matplotlib Axes
        What is drawn on.
    frame : DataFrame
        One row per system and point: ``system``, the column ``x``, ``novel`` and ``original`` (fractions).
    x : str
        The column that the lines go along.

    Yields
    ------
    axes, axis, rows, colour
        For every line its panel, ``novel`` or ``original``, its rows, and its colour.
    """
    looks = colours(list(frame["system"].unique()))
    for axes, (axis, title) in zip(panels, AXES.items()):
        axes.set(title=title, ylim=UNIT)
        for at, (system, rows) in enumerate(frame.groupby("system", sort=False)):
            dashes = DASHES[at // FEW % len(DASHES)]
            axes.plot(rows[x], rows[axis], color=looks[system], linestyle=dashes, label=system)
            yield axes, axis, rows, looks[system]
    panels[0].set_ylabel("accuracy on test rows")


def image(figure, alt):
    """A figure as an HTML image with a description."""
    kept = io.BytesIO()
    figure.savefig(kept, format="png", dpi=DPI)
    data = base64.b64encode(kept.getvalue()).decode()
    # With its size said beforehand, what stands below does not jump when the picture is drawn.
    width, height = (round(SCALE * inches) for inches in figure.get_size_inches())
    size = f'width="{width}" height="{height}" style="max-width:100%; height:auto"'
    return f'<img src="data:image/png;base64,{data}" alt="{html.escape(alt)}" {size}>'


def flat(frame):
    """A data frame whose header is one line: the index's name stands among those of the columns."""
    return frame.rename_axis(index=None, columns=frame.index.name or frame.columns.name)


def table(frame, marked=None):
    """A data frame as an HTML table, styled as JupyterLab's own; it never makes what is around it wider.

    Numbers are flush right and texts flush left. Names break after an underscore where there is no room for them;
    what is wider still scrolls by itself. Rows whose first cell begins with ``marked`` stand out.
    """
    text = flat(frame).to_html(border=0).replace("<table", '<table style="margin-left:0"', 1)
    text = re.sub(r"_(?=[^<>]*</td>)", "_<wbr>", text)
    if marked:
        text = re.sub(rf"<tr>(?=\s*<th>{marked})", f'<tr style="{STANDS_OUT}">', text)
    lefts = [not _are_numbers(cells, marked) for cells in (frame.index, *(cells for _, cells in frame.items()))]
    text = re.sub("<tr.*?</tr>", lambda row: _flush(row[0], lefts), text, flags=re.DOTALL)
    # The content asks for no width of its own: around it are flex boxes, which would grow with it.
    own = "overflow-x:auto; width:0; min-width:100%; box-sizing:border-box; padding-right:0"
    return f'<div class="jp-RenderedHTMLCommon" style="{own}">{text}</div>'


def _are_numbers(cells, marked):
    """Whether all cells of a column that hold something hold a number, perhaps after a mark."""
    told = [str(cell).removeprefix(marked or "") for cell in cells if cell != "" and pd.notna(cell)]
    return bool(told) and bool(pd.notna(pd.to_numeric(told, errors="coerce")).all())


def _flush(row, lefts):
    """A row of a table in HTML whose cells are flush left where it says so; JupyterLab's are flush right."""
    left = iter(lefts)
    return re.sub("<t[hd]>", lambda cell: f'{cell[0][:-1]} style="text-align:left">' if next(left) else cell[0], row)
