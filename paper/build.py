"""Make the paper and its supplement: Markdown with quotes in; PDF, HTML and a LaTeX bundle out.

    python -m paper.build [--out paper] [--formats pdf,html,arxiv]

The same inputs give the same bytes, whenever, wherever and by whomever it is built.
"""

import argparse
import gzip
import io
import json
import re
import sys
import tarfile
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import jinja2
import nbformat
import typst

from ocrrlib.files import ROOT, InputError, atomic, pick
from paper import document
from paper.quotes import Quotes

# A number with decimals is a result, which quotes.yml must have, but in code, maths, attributes,
# citations, places.
NO_PROSE = (
    r"^---\n(?s:.*?)^abstract:|^```(?s:.*?)^```$|`[^`\n]+`|"
    r"\$\$(?s:.+?)\$\$|\$[^$\n]+\$|\{\{.*?\}\}|\{[#.][^{}]*\}|"
    r"\]\([^)]*\)|https?://\S+|\[[^\[\]]*@(?!fig:|tbl:|sec:)[^\[\]]*\]|"
    r"(?:§+|\b(?:[Ss]ection|[Tt]able|[Ff]igure|[Aa]ppendix)s?)"
    r"\s*(?:[A-Z]\b|\d)[\d.]*(?:(?:, | and |–)§?(?:[A-Z]\b|\d)[\d.]*)*"
)
DOCUMENTS = ("ocrr", "supplement")
FORMATS = ("pdf", "html", "arxiv")
BUNDLE = "ocrr-arxiv.tar.gz"
DECIMAL = r"(?<![\w.-])\d[\d,]*\.\d+|(?<![\w.])\.\d+"


def keys(quotes: Quotes) -> type[jinja2.Undefined]:
    """The class of dotted keys in the source, for Jinja2: one that is shown gives its quote."""

    class Key(jinja2.Undefined):
        def __getattr__(self, name):
            return Key(name=f"{self._undefined_name}.{name}")

        def __getitem__(self, number):  # as in {{mixed.above.90}}
            return self.__getattr__(number)

        def __str__(self):
            return quotes.text(self._undefined_name)

    return Key


def read_table(
    folder: Path,
    name: str,
    columns: list[str] | None = None,
    size: str = "small",
    long: bool = False,
    where: dict[str, str] | None = None,
    id: str | None = None,
    caption: str | None = None,
) -> str:
    """A table of ``paper/tables`` as pandoc Markdown, with the columns named.

    ``where`` keeps the rows that have these cells; references call it ``id``, by default its name,
    and ``caption`` stands in place of its own. InputError if the table or a column is unknown, or
    no row is left.
    """
    path = folder / f"{name}.md"
    if not path.is_file():
        raise InputError(f"unknown table {name!r}: a notebook must write it")
    body, _, own_caption = path.read_text(encoding="utf-8").strip().partition("\n\n: ")
    words = " ".join((caption or own_caption).split())
    head, rule, *rows = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in body.splitlines()
    ]
    heads = {title: place for place, title in enumerate(head)}
    places = [pick(f"column of {name}", column, heads) for column in columns or head]
    for column, cell in (where or {}).items():
        place = pick(f"column of {name}", column, heads)
        rows = [row for row in rows if row[place] == cell]
        if not rows:
            raise InputError(f"no row of table {name!r} has {cell!r} in its column {column}")
    shown = [[row[place] for place in places] for row in (head, rule, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in shown]
    about = f"#tbl:{id or name} size={size} file={name}" + " long=yes" * long
    return "\n".join(["", *lines, "", f": {words} {{{about}}}", ""])


def expand(folder: Path) -> dict[str, str]:
    """The Markdown of the documents in a folder, by name, with their quotes and tables in.

    InputError if a quote or table is unknown, a quote is used in none of them, or a result is typed
    by hand.
    """
    quotes = Quotes(folder)
    sources = [folder / f"{name}.md" for name in DOCUMENTS]
    made = {path.stem: _expanded(path, quotes) for path in sources if path.is_file()}
    quotes.check_headlines(_headlines(sources[0]))
    for key in sorted(quotes.lines.keys() - quotes.used):
        raise InputError(f"{folder / 'quotes.yml'}: {key!r} is never used: use it, or drop it")
    return made


def _headlines(source):
    """Abstract and first section of the paper: the findings."""
    return source.read_text(encoding="utf-8").partition("\n# The benchmark")[0]


def _expanded(source, quotes):
    """The Markdown of one document."""
    text = source.read_text(encoding="utf-8")
    typed = re.sub(
        NO_PROSE, lambda match: re.sub(r"[^\n]", " ", match[0]), text, flags=re.MULTILINE
    )
    for match in re.finditer(DECIMAL, typed):
        line = 1 + typed.count("\n", 0, match.start())
        way_out = "quotes.yml must have it, or it is code"
        raise InputError(f"{source}, line {line}: {match[0]} is typed by hand: {way_out}")
    # Braces of pandoc's attributes are not Jinja2's.
    marks = dict(
        comment_start_string="{{#",
        comment_end_string="#}}",
        block_start_string="{%%",
        block_end_string="%%}",
    )
    jinja = jinja2.Environment(undefined=keys(quotes), keep_trailing_newline=True, **marks)
    try:
        return jinja.from_string(text).render(table=partial(read_table, source.parent / "tables"))
    except (jinja2.TemplateError, InputError) as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = next(
            frame.lineno for frame in frames if frame.filename in ("<template>", "<unknown>")
        )
        raise InputError(f"{source}, line {line}: {error}") from error


def places(folder: Path = ROOT / "paper") -> dict[str, str]:
    """What sections, figures and tables of the documents are called, by their ids."""
    names = {}
    for text in expand(folder).values():
        tree = document.pandoc(text, "-f", document.READER, "-t", "json")
        names |= document.number(json.loads(tree))
    return names


def makers(folder: Path) -> dict[str, str]:
    """The notebook that makes a figure or a table, by its name: tags of cells say so."""
    found = {}
    for path in sorted(folder.glob("[0-9]*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            found |= dict.fromkeys(cell.metadata.get("tags", []), path.stem)
    return found


def build(
    folder: Path | str = ROOT / "paper",
    out: Path | str | None = None,
    formats: Sequence[str] = ("pdf",),
) -> dict[str, Path]:
    """Write the paper and its supplement in formats of ``pdf``, ``html`` and ``arxiv``.

    Returns the path of each by its name. Nothing is written if anything is wrong. In ``folder`` lie
    ``ocrr.md``, ``supplement.md``, ``quotes.yml``, ``tables/`` and ``references.bib``, and by
    default what is made; notebooks and results lie beside it.
    """
    folder = Path(folder)
    chosen = {name: pick("format", name, dict.fromkeys(FORMATS, name)) for name in formats}
    papers = document.parse(expand(folder), folder, makers(folder.parent / "notebooks"))
    made = {}
    for name, paper in papers.items():
        if "pdf" in chosen:
            made[f"{name}.pdf"] = pdf(paper)
        if "html" in chosen:
            made[f"{name}.html"] = document.html(paper)
    if "arxiv" in chosen:
        made[BUNDLE] = bundle(papers)
    paths = {name: Path(out or folder) / name for name in made}
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


def bundle(papers: dict[str, document.Document]) -> bytes:
    """What arXiv takes: LaTeX of the documents and figures as a gzipped tar archive, in bytes."""
    files = {}
    for document_name, paper in papers.items():
        files |= {name: (paper.root / name).read_bytes() for name in paper.images}
        files[f"{document_name}.tex"] = document.latex(paper).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files.items()):
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
