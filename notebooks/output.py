"""Where notebooks write, and whose results they read: those made there, or published ones."""

import os
from pathlib import Path

import pandas as pd

from ocrrlib.files import ROOT, atomic, cache_folder, writable
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
