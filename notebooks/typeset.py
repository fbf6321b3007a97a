"""Set the paper from the tables, figures and values that the notebooks made."""

import shutil

from ocrrlib import results
from ocrrlib.files import ROOT
from ocrrlib.provenance import digest
from paper.build import build

SOURCES = ("ocrr.md", "references.bib")


def typeset(out=ROOT, formats=("pdf", "html"), target=None):
    """Write the paper beside its tables, or into ``target``."""
    folder = out / "paper"
    if out != ROOT:
        for name in SOURCES:
            shutil.copyfile(ROOT / "paper" / name, folder / name)
    paths = build(folder / "ocrr.md", target or folder, formats, results_hash(out))
    print(f"the paper: {', '.join(map(str, paths.values()))}")


def results_hash(out=ROOT):
    """One hash of the code that all results in ``out`` came from."""
    files = sorted((out / "data/results").glob("*.parquet"))
    return digest({path.stem: results.read(path)[1]["code"] for path in files})[:12]
