"""Make the paper: Markdown with live values in; PDF, HTML and a LaTeX bundle out.

    python -m paper.build [--out paper] [--formats pdf,html,arxiv]

The same inputs give the same bytes, whenever, wherever and by whomever it is built.
"""

import argparse
import gzip
import io
import re
import sys
import tarfile
import tempfile
from difflib import get_close_matches
from pathlib import Path

import jinja2
import typst

from ocrrlib.files import ROOT, InputError, atomic, pick
from paper import document, values

SUFFIXES = {"pdf": ".pdf", "html": ".html", "arxiv": "-arxiv.tar.gz"}
# A number with decimals is a result, which a notebook must write, but in code, maths, attributes, citations, places.
NO_PROSE = (
    r"^---\n(?s:.*?)^abstract:|^```(?s:.*?)^```$|`[^`\n]+`|\$\$(?s:.+?)\$\$|\$[^$\n]+\$|\{\{.*?\}\}|\{[#.][^{}]*\}|"
    r"\]\([^)]*\)|https?://\S+|\[[^\[\]]*@(?!fig:|tbl:|sec:)[^\[\]]*\]|(?:§+|\b(?:[Ss]ection|[Tt]able|[Ff]igure|[Aa]ppendix)s?)"
    r"\s*(?:[A-Z]\b|\d)[\d.]*(?:(?:, | and |–)§?(?:[A-Z]\b|\d)[\d.]*)*"
)
DECIMAL = r"(?<![\w.-])\d[\d,]*\.\d+|(?<![\w.])\.\d+"


class Values:
    """Values by their dotted keys, for Jinja2; keeps note of those that were shown."""

    def __init__(self, entries, used, prefix=""):
        self._entries, self._used, self._prefix = entries, used, prefix

    def __getattr__(self, name):
        key = self._prefix + name
        if key in self._entries:
            self._used.add(key)
            return self._entries[key]["text"]
        if any(known.startswith(f"{key}.") for known in self._entries):
            return Values(self._entries, self._used, f"{key}.")
        close = get_close_matches(key, self._entries, n=1)
        raise InputError(f"unknown value {key!r}{f' (did you mean {close[0]!r}?)' if close else ''}")

    def __str__(self):
        raise InputError(f"unknown value {self._prefix[:-1]!r}: it is the beginning of others")


def read_table(folder, name, columns=None, size=None, long=False):
    """A table of ``paper/tables`` as pandoc Markdown, with the columns that are asked for, in their order.

    Raises
    ------
    InputError
        If there is no such table or column.
    """
    path = folder / f"{name}.md"
    if not path.is_file():
        raise InputError(f"unknown table {name!r}: a notebook must write it")
    body, _, caption = path.read_text(encoding="utf-8").strip().partition("\n\n: ")
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in body.splitlines()]
    heads = {head: place for place, head in enumerate(rows[0])}
    places = [pick(f"column of {name}", column, heads) for column in columns or rows[0]]
    lines = [f"| {' | '.join(row[place] for place in places)} |" for row in rows]
    about = f"{f' size={size}' if size else ''}{' long=yes' if long else ''}"
    return "\n".join(["", *lines, "", f": {' '.join(caption.split())} {{#tbl:{name}{about}}}", ""])


def expand(source):
    """The Markdown at ``source`` with its values and tables in.

    Raises
    ------
    InputError
        If a value or table is unknown, a value is never used, or a result is typed by hand.
    """
    text, entries, used = source.read_text(encoding="utf-8"), values.read(source.parent / "values"), set()
    typed = re.sub(NO_PROSE, lambda match: re.sub(r"[^\n]", " ", match[0]), text, flags=re.MULTILINE)
    for match in re.finditer(DECIMAL, typed):
        line = 1 + typed.count("\n", 0, match.start())
        raise InputError(f"{source}, line {line}: {match[0]} is typed by hand: let a notebook write it, or set it as code")
    # Braces of pandoc's attributes are not Jinja2's.
    marks = dict(comment_start_string="{{#", comment_end_string="#}}", block_start_string="{%%", block_end_string="%%}")
    jinja = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False, **marks)
    jinja.globals = {key.split(".")[0]: None for key in entries}
    jinja.globals = {first: getattr(Values(entries, used), first) for first in jinja.globals}
    try:
        made = jinja.from_string(text).render(table=lambda *args, **how: read_table(source.parent / "tables", *args, **how))
    except jinja2.TemplateError as error:
        raise InputError(f"{source}: {error.message}") from error
    except InputError as error:
        name = str(error).split("'")[1]
        raise InputError(f"{source}, line {1 + text[: max(0, text.find(name))].count(chr(10))}: {error}") from error
    if unused := sorted(entries.keys() - used):
        raise InputError(f"{source}: value {unused[0]!r} is never used: use it, or drop it from its notebook")
    return made


def build(source=ROOT / "paper/ocrr.md", out=None, formats=("pdf",)):
    """Write the paper in each of ``formats`` into the folder ``out``; nothing if anything is wrong.

    Parameters
    ----------
    source : Markdown file; ``values/``, ``tables/`` and ``references.bib`` lie beside it.
    out : folder, by default the source's own.
    formats : of ``pdf``, ``html`` and ``arxiv``.

    Returns
    -------
    dict from format to the path written: ``<out>/<source's name>.pdf``, ``.html``, ``-arxiv.tar.gz``.

    Raises
    ------
    InputError
        If something is wrong in the source, or a format is unknown.
    """
    makers = {"pdf": pdf, "html": lambda paper: document.html(paper).encode(), "arxiv": bundle}
    chosen = {name: pick("format", name, makers) for name in formats}
    paper = document.parse(expand(Path(source)), Path(source).parent)
    made = {name: make(paper) for name, make in chosen.items()}
    paths = {name: Path(out or Path(source).parent) / f"{Path(source).stem}{SUFFIXES[name]}" for name in made}
    for name, path in paths.items():
        with atomic(path) as temporary:
            temporary.write_bytes(made[name])
    return paths


def pdf(paper, **options):
    """The paper as PDF, in bytes; with ``format="png", ppi=100`` its pages as images.

    Raises
    ------
    InputError
        If Typst fails or warns, with what it says.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, content in ({"paper.typ": document.typst(paper).encode()} | _figures(paper)).items():
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


def bundle(paper):
    """What arXiv takes: ``ocrr.tex`` and figures as a gzipped tar archive, in bytes."""
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as compressed:
        with tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name, content in sorted(({"ocrr.tex": document.latex(paper).encode()} | _figures(paper)).items()):
                about = tarfile.TarInfo(name)  # time, owner and mode are the same everywhere
                about.size = len(content)
                archive.addfile(about, io.BytesIO(content))
    return packed.getvalue()


def _figures(paper):
    return {document.file_name(id): path.read_bytes() for id, path in paper.figures.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out")
    parser.add_argument("--formats", default="pdf")
    given = parser.parse_args()
    try:
        paths = build(out=given.out, formats=given.formats.split(","))
    except InputError as error:
        sys.exit(f"error: {error}")
    print("the paper:", *paths.values())


if __name__ == "__main__":
    main()
