"""The paper's tables as pages show them, and the order that their cells sort in."""

import math
import re
from dataclasses import dataclass, field
from pathlib import Path

from ocrrlib.errors import InputError
from pages.figures import CONTENT

SCALE = {"µs": 1e-6, "ms": 1e-3, "s": 1, "k": 1e3, "M": 1e6, "G": 1e9}
NUMBER = re.compile(r"[~≈]?([+−-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)\s?(µs|ms|s|k|M|G|%|pp)?(?:\s*[±(→].*)?")
MISSING = ("", "–", "nan", "not reached")


@dataclass(frozen=True)
class Table:
    """A table as text; ``keys`` holds, for each column of numbers, what its cells sort by."""

    name: str
    title: str
    caption: str
    header: list
    rows: list
    files: list = field(default_factory=list)

    @property
    def keys(self):
        """Sort keys by column; a column with a cell that is no number is text, and has none."""
        columns = {i: [sort_key(row[i]) for row in self.rows] for i in range(len(self.header))}
        return {i: keys for i, keys in columns.items() if keys and None not in keys and set(keys) != {""}}


def sort_key(text):
    """What a cell sorts by: its first number; ``never`` after all others; "" if missing, None if it is text."""
    if text in MISSING:
        return ""
    if text == "never":
        return math.inf
    match = NUMBER.fullmatch(text)
    if not match:
        return None
    return float(match[1].replace(",", "").replace("−", "-")) * SCALE.get(match[2], 1)


def parse(text, name="", title="", files=()):
    """A Markdown table and the caption that follows it.

    Raises
    ------
    InputError
        If there is no table, or a row has not as many cells as the header.
    """
    lines = [line.strip() for line in text.strip().splitlines()]
    grid = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    if len(grid) < 2 or any(len(row) != len(grid[0]) for row in grid):
        raise InputError(f"{name} is not a Markdown table: make it anew with `make paper`")
    caption = " ".join(line for line in lines if line and not line.startswith("|"))
    return Table(Path(name).stem, title, caption.removeprefix(":").strip(" *"), grid[0], grid[2:], list(files))


def read(folder):
    """All tables of a folder, those with a title first and in the order of their titles' list."""
    titles, shown = CONTENT["tables"], []
    places = {name: place for place, name in enumerate(titles)}
    for path in sorted(folder.glob("*.md"), key=lambda p: (places.get(p.stem, len(places)), p.stem)):
        title = titles.get(path.stem, path.stem.removeprefix("table_").replace("_", " ").capitalize())
        files = [other for suffix in (".csv", ".md", ".tex") if (other := path.with_suffix(suffix)).exists()]
        shown.append(parse(path.read_text(encoding="utf-8"), str(path), title, files))
    return shown
