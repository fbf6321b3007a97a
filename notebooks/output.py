"""Where notebooks write, whose results they read, and how what they made differs from these."""

import os
import subprocess
from io import BytesIO
from pathlib import Path

import pandas as pd

from ocrrlib.files import ROOT, atomic, cache_folder, writable
from ocrrlib.metrics import DATASET_POLICY_SYSTEM
from ocrrlib.runs import path_of, read_results


def by_make() -> bool:
    """Whether ``make`` executes this notebook: published files change by ``make`` alone."""
    return "OCRR_BY_MAKE" in os.environ


def output_folder(out: str | os.PathLike = "") -> Path:
    """Folder that a notebook writes to, which is printed; ``out`` is its parameter ``OUT``.

    A relative ``out`` is a folder of the checkout. A notebook run by hand writes there only below
    ``build``, by default to ``build/lab``; if the checkout cannot be written, to the cache.
    """
    folder = (ROOT / out).resolve()
    if by_make():
        published = "data/results, figures and paper" if folder == ROOT else folder
        print(f"Run by make: this notebook writes to {published}.")
        return folder
    if folder.is_relative_to(ROOT) and not folder.is_relative_to(ROOT / "build"):
        folder = ROOT / "build/lab"
    if not writable(folder):
        folder = cache_folder().absolute() / "lab"
    print(
        f"Run by hand: this notebook writes to {folder}, and reads results from there if they "
        "exist, else the published ones. Published files change by `make` alone."
    )
    return folder


def made_or_published(path: str, out: Path) -> Path:
    """A file below the folder ``out``; by hand, if it was not made there, the published one."""
    if by_make() or (out / path).exists():
        return out / path
    return ROOT / path


def made(name: str, out: Path) -> pd.DataFrame:
    """Read results made below ``out``; by hand, if there are none, as published."""
    return read_results(made_or_published(f"data/results/{name}.parquet", out))


def published(name: str, out: Path = ROOT) -> pd.DataFrame:
    """Read results as published; ``make`` copies them to ``out``, so that all stand together."""
    frame = read_results(path_of(name))
    if by_make() and out != ROOT:
        with atomic(path_of(name, out)) as temporary:
            temporary.write_bytes(path_of(name).read_bytes())
    return frame


def against_published(out: Path, *names: str) -> str:
    """Say how many cells, in files just made below ``out``, differ from those committed.

    ``names`` are results, or tables (``table...``). A cell of a table is a row, a cell of runs all
    rows of one dataset, policy and system. It is as published if all rows made are rows of the
    committed file: fewer seeds change nothing, but are said.
    """
    n = 0
    same = 0
    rows_made = 0
    rows_committed = 0
    for name in names:
        table = f"paper/tables/{name}.csv"
        path = table if name.startswith("table") else f"data/results/{name}.parquet"
        before = _committed(path, out)
        if before is None:
            return f"There is no committed `{name}` to compare with."
        there = _cells(path, before)
        here = _cells(path, (out / path).read_bytes())
        n += max(len(here), len(there))
        same += sum(rows <= there.get(cell, set()) for cell, rows in here.items())
        rows_made += sum(map(len, here.values()))
        rows_committed += sum(map(len, there.values()))
    files = ", ".join(f"`{name}`" for name in names)
    if same == n:
        fewer = f", with {rows_made} of {rows_committed} rows" if rows_made < rows_committed else ""
        return f"All {n} cells of {files} are as published{fewer}."
    return f"{n - same} of {n} cells of {files} differ from the published."


def _committed(path: str, out: Path) -> bytes | None:
    """A published file as committed; without Git as it lies there, unless ``out`` is there, too."""
    command = ["git", "show", f"HEAD:./{path}"]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        beside = out != ROOT and (ROOT / path).exists()
        return (ROOT / path).read_bytes() if beside else None


def _cells(path: str, content: bytes) -> dict[tuple, set]:
    """Rows of each cell of a file."""
    if path.endswith(".csv"):
        frame = pd.read_csv(BytesIO(content), dtype=str, keep_default_na=False)
    else:
        frame = pd.read_parquet(BytesIO(content)).astype(str)
    of_cell = DATASET_POLICY_SYSTEM if "step" in frame else list(frame)
    cells: dict[tuple, set] = {}
    for row in frame.to_dict("records"):
        cell = tuple(row[name] for name in of_cell)
        cells.setdefault(cell, set()).add(tuple(row.items()))
    return cells
