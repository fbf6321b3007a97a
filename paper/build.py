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
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import jinja2
import typst

from ocrrlib.files import ROOT, InputError, atomic, pick
from paper import document, values

# A number with decimals is a result, which a notebook must write, but in code, maths, attributes,
# citations, places.
NO_PROSE = (
    r"^---\n(?s:.*?)^abstract:|^```(?s:.*?)^```$|`[^`\n]+`|"
    r"\$\$(?s:.+?)\$\$|\$[^$\n]+\$|\{\{.*?\}\}|\{[#.][^{}]*\}|"
    r"\]\([^)]*\)|https?://\S+|\[[^\[\]]*@(?!fig:|tbl:|sec:)[^\[\]]*\]|"
    r"(?:§+|\b(?:[Ss]ection|[Tt]able|[Ff]igure|[Aa]ppendix)s?)"
    r"\s*(?:[A-Z]\b|\d)[\d.]*(?:(?:, | and |–)§?(?:[A-Z]\b|\d)[\d.]*)*"
)
DECIMAL = r"(?<![\w.-])\d[\d,]*\.\d+|(?<![\w.])\.\d+"


def keys(entries: dict[str, dict], used: set[str]) -> type[jinja2.Undefined]:
    """The class of dotted keys in the source, for Jinja2.

    One that is shown is added to ``used`` and gives its value's text.
    """

    class Key(jinja2.Undefined):
        def __getattr__(self, name):
            return Key(name=f"{self._undefined_name}.{name}")

        def __getitem__(self, number):  # as in {{mixed.above.90}}
            return self.__getattr__(number)

        def __str__(self):
            used.add(self._undefined_name)
            return values.show(self._undefined_name, entries)

    return Key


def read_table(
    folder: Path,
    name: str,
    columns: list[str] | None = None,
    size: str = "small",
    long: bool = False,
) -> str:
    """A table of ``paper/tables`` as pandoc Markdown, with the columns named.

    InputError if the table or a column is unknown.
    """
    path = folder / f"{name}.md"
    if not path.is_file():
        raise InputError(f"unknown table {name!r}: a notebook must write it")
    body, _, caption = path.read_text(encoding="utf-8").strip().partition("\n\n: ")
    rows = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in body.splitlines()
    ]
    heads = {head: place for place, head in enumerate(rows[0])}
    places = [pick(f"column of {name}", column, heads) for column in columns or rows[0]]
    lines = [f"| {' | '.join(row[place] for place in places)} |" for row in rows]
    about = f"#tbl:{name} size={size}" + " long=yes" * long
    return "\n".join(["", *lines, "", f": {' '.join(caption.split())} {{{about}}}", ""])


def expand(source: Path) -> str:
    """The Markdown at ``source`` with its values and tables in.

    InputError if a value or table is unknown, a value is never used, or a result is typed by hand.
    """
    text = source.read_text(encoding="utf-8")
    entries = values.read(source.parent / "values")
    used = set()
    typed = re.sub(
        NO_PROSE, lambda match: re.sub(r"[^\n]", " ", match[0]), text, flags=re.MULTILINE
    )
    for match in re.finditer(DECIMAL, typed):
        line = 1 + typed.count("\n", 0, match.start())
        way_out = "a notebook must write it, or it is code"
        raise InputError(f"{source}, line {line}: {match[0]} is typed by hand: {way_out}")
    # Braces of pandoc's attributes are not Jinja2's.
    marks = dict(
        comment_start_string="{{#",
        comment_end_string="#}}",
        block_start_string="{%%",
        block_end_string="%%}",
    )
    jinja = jinja2.Environment(undefined=keys(entries, used), keep_trailing_newline=True, **marks)
    try:
        made = jinja.from_string(text).render(table=partial(read_table, source.parent / "tables"))
    except (jinja2.TemplateError, InputError) as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = next(
            frame.lineno for frame in frames if frame.filename in ("<template>", "<unknown>")
        )
        raise InputError(f"{source}, line {line}: {error}") from error
    for key in sorted(entries.keys() - used):
        way_out = f"use it, or drop it from {entries[key]['notebook']}"
        raise InputError(f"{source}: value {key!r} is never used: {way_out}")
    return made


def build(
    source: Path | str = ROOT / "paper/ocrr.md",
    out: Path | str | None = None,
    formats: Sequence[str] = ("pdf",),
) -> dict[str, Path]:
    """Write the paper in formats of ``pdf``, ``html`` and ``arxiv``; the path of each.

    Nothing is written if anything is wrong. Beside ``source``, a Markdown file, lie ``values/``,
    ``tables/`` and ``references.bib``, and by default the paper.
    """
    makers = {
        "pdf": (pdf, ".pdf"),
        "html": (document.html, ".html"),
        "arxiv": (bundle, "-arxiv.tar.gz"),
    }
    chosen = {name: pick("format", name, makers) for name in formats}
    source = Path(source)
    paper = document.parse(expand(source), source.parent)
    made = {name: make(paper) for name, (make, _) in chosen.items()}
    paths = {
        name: Path(out or source.parent) / f"{source.stem}{suffix}"
        for name, (_, suffix) in chosen.items()
    }
    for name, path in paths.items():
        with atomic(path) as temporary:
            temporary.write_bytes(made[name])
    return paths


def pdf(paper: document.Document, **options) -> bytes | list[bytes]:
    """The paper as PDF, in bytes; with ``format="png", ppi=100`` its pages.

    InputError if Typst fails or warns.
    """
    # Only Typst's own fonts, and no date: the same bytes everywhere.
    options = {"format": "pdf", "ignore_system_fonts": True, "timestamp": 0} | options
    try:
        made, warnings = typst.compile_with_warnings(
            document.typst(paper).encode(), root=paper.root, **options
        )
    except typst.TypstError as error:
        raise InputError(f"Typst: {error.diagnostic}") from error
    if warnings:
        raise InputError(f"Typst: {warnings[0].diagnostic}")
    return made


def bundle(paper: document.Document) -> bytes:
    """What arXiv takes: ``ocrr.tex`` and figures as a gzipped tar archive, in bytes."""
    packed = io.BytesIO()
    files = {name: (paper.root / name).read_bytes() for name in paper.images}
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted((files | {"ocrr.tex": document.latex(paper).encode()}).items()):
            about = tarfile.TarInfo(name)  # time, owner and mode are the same everywhere
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out")
    parser.add_argument("--formats", default="pdf")
    given = parser.parse_args()
    try:
        print("the paper:", *build(out=given.out, formats=given.formats.split(",")).values())
    except (InputError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
