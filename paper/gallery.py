"""Executed notebooks for the site: places to link to, and a gallery of all."""

import base64
import io
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from PIL import Image

from ocrrlib.files import ROOT, atomic

WIDTH = 480  # pixels of a thumbnail, twice what it is shown at
MINUTE = 60
ANSWER = "## What came out"  # the section that answers a notebook's question
FOLDS = ("hide-input", "hide-cell")  # tags of cells that the site folds


@dataclass(frozen=True)
class Card:
    """What the gallery shows of a notebook: running time in seconds, first figure as PNG."""

    name: str
    title: str
    question: str
    seconds: float | None
    figure: bytes | None


def artefacts(root: Path = ROOT) -> set[str]:
    """Names of all published figures and tables."""
    found = [*root.glob("figures/*.png"), *root.glob("paper/tables/*.csv")]
    return {path.stem for path in found}


def answer_first(notebook: NotebookNode) -> None:
    """Put the section that answers the question right behind the cell that asks it."""
    first, *others = notebook.cells
    heads = [place for place, cell in enumerate(others) if cell.source.startswith("## ")]
    (start,) = (place for place in heads if others[place].source.startswith(ANSWER))
    end = min((place for place in heads if place > start), default=len(others))
    notebook.cells = [first, *others[start:end], *others[:start], *others[end:]]


def join_folded(notebook: NotebookNode) -> None:
    """Join each folded cell that shows nothing with the next one, if that is folded likewise."""
    cells: list[NotebookNode] = []
    for cell in notebook.cells:
        if cells and _joins(cells[-1], cell):
            before = cells.pop()
            cell.source = f"{before.source}\n\n{cell.source}"
            cell.metadata["tags"] = list(dict.fromkeys(_tags(before) + _tags(cell)))
        cells.append(cell)
    notebook.cells = cells


def _joins(before, cell):
    folds = [{*FOLDS} & {*_tags(one)} for one in (before, cell)]
    return bool(folds[0]) and folds[0] == folds[1] and not before.get("outputs")


def _tags(cell):
    return list(cell.metadata.get("tags", []))


def add_places(notebook: NotebookNode, names: Iterable[str]) -> None:
    """Put an HTML anchor before each cell that one of the ``names`` is a tag of.

    Cells of parameters that papermill put in are folded.
    """
    cells = []
    for cell in notebook.cells:
        tags = _tags(cell)
        for name in sorted({*tags} & {*names}):
            anchor = f'<div id="{name}"></div>'
            cells.append(nbformat.v4.new_markdown_cell(anchor, id=f"place-{name}"))
        if "injected-parameters" in tags:
            cell.metadata["tags"] = [*tags, "hide-input"]
        cells.append(cell)
    notebook.cells = cells


def card(name: str, notebook: NotebookNode) -> Card:
    """The card of an executed notebook that begins with a title and a question."""
    text = notebook.cells[0].source
    title = re.search(r"^# (.+)$", text, re.MULTILINE)[1]
    asked = re.search(r"\*\*Question\.\*\* (.+)$", text, re.MULTILINE)[1]
    sentences = re.split(r"(?<=[.?]) ", asked)
    question = next(sentence for sentence in sentences if sentence.endswith("?"))
    seconds = notebook.metadata.get("papermill", {}).get("duration")
    return Card(name, title, question, seconds, first_figure(notebook))


def first_figure(notebook: NotebookNode) -> bytes | None:
    """The first PNG among the outputs, also one within HTML; None if there is none."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            inside = re.search(r"data:image/png;base64,([^\"]+)", data.get("text/html", ""))
            picture = data.get("image/png") or (inside and inside[1])
            if picture:
                return base64.b64decode(picture)
    return None


def running_time(seconds: float) -> str:
    """A rounded time, such as 15 s or 2 min."""
    if seconds <= MINUTE:
        return f"{5 * math.ceil(seconds / 5)} s"
    return f"{math.ceil(seconds / MINUTE)} min"


def write_thumbnail(figure: bytes, path: Path) -> None:
    """Write a figure as a small PNG on white."""
    picture = Image.open(io.BytesIO(figure)).convert("RGBA")
    white = Image.new("RGBA", picture.size, "white")
    flat = Image.alpha_composite(white, picture).convert("RGB")
    flat.thumbnail((WIDTH, WIDTH))
    with atomic(path) as temporary:
        flat.save(temporary, format="PNG", optimize=True)


def page(cards: Iterable[Card], thumbnails: str) -> str:
    """The gallery as HTML; ``thumbnails`` is the address of their folder."""
    parts = []
    for one in cards:
        about = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(one.question))
        lines = [f'<a href="notebooks/{one.name}.html">']
        if one.figure:
            lines.append(f'<img src="{thumbnails}/{one.name}.png" alt="" loading="lazy">')
        title = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(one.title))
        lines.append(f"<strong>{title}</strong></a>")
        lines.append(f"<p>{about}</p>")
        if one.seconds:
            lines.append(f"<small>{running_time(one.seconds)}</small>")
        parts.append("<li>" + "\n".join(lines) + "</li>")
    return '<ul class="gallery">\n' + "\n".join(parts) + "\n</ul>\n"
