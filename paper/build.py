"""Make the paper: Markdown with live values in; PDF, HTML and a LaTeX bundle out.

    python -m paper.build [--source paper/ocrr.md] [--out paper] [--formats pdf,html,arxiv] [--code-hash HASH]

The same inputs give the same bytes, whenever, wherever and by whomever it is built.
"""

import argparse
import gzip
import io
import sys
import tarfile
import tempfile
from pathlib import Path

import typst

from ocrrlib.errors import InputError, pick
from ocrrlib.files import ROOT, atomic
from ocrrlib.provenance import closure, digest
from paper import render
from paper.document import parse
from paper.expand import expand

SUFFIXES = {"pdf": ".pdf", "html": ".html", "arxiv": "-arxiv.tar.gz"}


def build(source=ROOT / "paper/ocrr.md", out=None, formats=tuple(SUFFIXES), code_hash=""):
    """Write the paper in each of ``formats`` into the folder ``out``; nothing if anything is wrong.

    Parameters
    ----------
    source : Markdown file; ``values/``, ``tables/`` and ``references.bib`` lie beside it.
    out : folder, by default the source's own.
    formats : of ``pdf``, ``html`` and ``arxiv``.
    code_hash : what the results were made with, shown on the first page.

    Returns
    -------
    dict from format to the path written: ``<out>/<source's name>.pdf``, ``.html``, ``-arxiv.tar.gz``.

    Raises
    ------
    InputError
        With a line for each thing that is wrong in the source, or if a format is unknown.
    """
    source = Path(source)
    makers = {"pdf": pdf, "html": lambda *given: render.html(*given).encode(), "arxiv": bundle}
    chosen = {name: pick("format", name, makers) for name in formats}
    document = parse(expand(source))
    made = {name: make(document, code_hash) for name, make in chosen.items()}
    paths = {name: Path(out or source.parent) / f"{source.stem}{SUFFIXES[name]}" for name in made}
    for name, path in paths.items():
        with atomic(path) as temporary:
            temporary.write_bytes(made[name])
    return paths


def pdf(document, code_hash, **options):
    """The paper as PDF, in bytes; with ``format="png", ppi=100`` its pages as images, in a list if there are several.

    Raises
    ------
    InputError
        If Typst fails or warns, with what it says.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = {"paper.typ": render.typst(document, code_hash).encode()} | _figures(document)
        for name, content in files.items():
            (Path(folder) / name).parent.mkdir(exist_ok=True)
            (Path(folder) / name).write_bytes(content)
        # Only Typst's own fonts, and no date: the same bytes everywhere.
        options = {"format": "pdf", "ignore_system_fonts": True, "timestamp": 0} | options
        try:
            made, warnings = typst.compile_with_warnings(f"{folder}/paper.typ", root=folder, **options)
        except typst.TypstError as error:
            raise InputError(f"Typst: {error.diagnostic}") from error
    if warnings:
        raise InputError(f"Typst: {warnings[0].diagnostic}")
    return made


def bundle(document, code_hash):
    """What arXiv takes: ``ocrr.tex``, ``ocrr.bbl``, tables and figures as a gzipped tar archive, in bytes."""
    files = {name: text.encode() for name, text in render.latex(document, code_hash).items()} | _figures(document)
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as compressed:
        with tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name, content in sorted(files.items()):
                about = tarfile.TarInfo(name)  # time, owner and mode are the same everywhere
                about.size = len(content)
                archive.addfile(about, io.BytesIO(content))
    return packed.getvalue()


def _figures(document):
    return {render.file_name(id): path.read_bytes() for id, path in document.figures.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", default=ROOT / "paper/ocrr.md")
    parser.add_argument("--out")
    parser.add_argument("--formats", default=",".join(SUFFIXES))
    parser.add_argument("--code-hash", default=digest(closure("ocrrlib.publish")[0])[:12])
    given = parser.parse_args()
    try:
        paths = build(given.source, given.out, given.formats.split(","), given.code_hash)
    except InputError as error:
        sys.exit(f"error: {error}")
    print(*paths.values(), sep="\n")


if __name__ == "__main__":
    main()
