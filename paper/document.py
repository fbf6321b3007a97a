"""The paper as pandoc's tree, numbered and with references set, and in each format's markup."""

import json
import math
import re
import shutil
import subprocess
import textwrap
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pandocfilters as pf
import pypandoc

from ocrrlib.files import InputError

TEMPLATES = Path(__file__).resolve().parent
READER = "markdown-raw_tex-raw_html-raw_attribute"  # what is raw would show in one format only
NUMBER = r"[+\-−]?\d[\d.,]*"
NUMERIC = re.compile(rf"({NUMBER}( [±→–] {NUMBER})?( \(\d+/\d+\))?(\s?%)?)|never|–|—|")
TEXT = 45  # characters from which on a column is running text, set in several lines
WIDE_TABLE = 80  # characters from which on a table's heads are broken into lines
SPACE = "\N{NO-BREAK SPACE}"
OTHER_DOCUMENT = "document:"  # before the target of a link to another of the documents


class Document(NamedTuple):
    """The paper or its supplement: pandoc's tree, and names of images as paths from a folder."""

    tree: dict
    root: Path
    images: list[str]


def pandoc(text: str, *arguments: str | Path) -> str:
    """What pandoc makes of ``text``, whatever the user's own settings of pandoc are.

    InputError with what it says if it fails or warns: of a reference or citation without a target,
    too.
    """
    # The one that pypandoc brings along: its own search prefers a newer one, wherever that comes
    # from.
    program = shutil.which("pandoc", path=Path(pypandoc.__file__).with_name("files"))
    run = subprocess.run(
        [program, "--data-dir", TEMPLATES, *arguments], input=text.encode(), capture_output=True
    )
    if run.returncode or run.stderr:
        raise InputError(f"pandoc: {run.stderr.decode().strip()}")
    return run.stdout.decode()


def parse(
    texts: dict[str, str], folder: Path, makers: dict[str, str] | None = None
) -> dict[str, Document]:
    """Documents in Markdown, by name, that refer to one another.

    Figures and ``references.bib`` are found from ``folder``. ``makers`` names the notebook that
    makes a figure or a table, by the name of its file.
    """
    trees = {
        name: json.loads(pandoc(text, "-f", READER, "-t", "json")) for name, text in texts.items()
    }
    names = {name: number(tree) for name, tree in trees.items()}
    ids = Counter(id for own in names.values() for id in own)
    if twice := [id for id, n in ids.items() if n > 1]:
        raise InputError(f"{twice[0]} is in more than one document: give one of them another id")
    return {name: _settled(tree, name, names, folder, makers or {}) for name, tree in trees.items()}


def _settled(tree, document, names, folder, makers):
    """One of the documents, with references, citations and tables set."""
    images = []
    places = {
        id: (title, f"#{id}" if name == document else f"{OTHER_DOCUMENT}{name}#{id}")
        for name, titles in names.items()
        for id, title in titles.items()
    }

    def settle(kind, content, *_):
        """Put links in place of references to numbered things; set images as wide as the text."""
        if kind == "Cite":
            id = content[0][0]["citationId"]
            if id in places:
                title, target = places[id]
                return pf.Link(["", ["reference"], []], [pf.Str(title)], [target, ""])
        if kind in ("Figure", "Table"):
            name = _file_name(kind, content)
            if name in makers:
                content[1][1][-1]["c"] += [pf.Space(), _maker(makers[name], name)]
        if kind == "Image":
            (_, _, options), _, target = content
            # From the folder above, where all formats look for it.
            target[0] = target[0].removeprefix("../")
            images.append(target[0])
            options.append(["width", "100%"])

    def finish(kind, content, *_):
        # Set citations are text; left as they are, writers would set them in their own way.
        if kind == "Cite":
            return content[1]
        if kind == "Table":
            arrange(content)

    options = [
        "--citeproc",
        "-M",
        "link-citations=true",
        "--bibliography",
        folder / "references.bib",
    ]
    tree = json.loads(
        pandoc(json.dumps(pf.walk(tree, settle, "", {})), "-f", "json", "-t", "json", *options)
    )
    return Document(pf.walk(tree, finish, "", {}), folder.parent, images)


def _file_name(kind, content):
    """Name of the files of a figure or a table, without their endings."""
    if kind == "Table":
        return dict(content[0][2]).get("file", "")
    found = []

    def visit(kind, content, *_):
        if kind == "Image":
            found.append(Path(content[2][0]).stem)

    pf.walk(content[2], visit, "", {})
    return found[0] if found else ""


def _maker(notebook, name):
    """A link to the cell of a notebook that makes a figure or a table, for the margin."""
    words = [pf.Str("notebook"), pf.Str(SPACE), pf.Str(notebook.partition("_")[0])]
    link = pf.Link(["", [], []], words, [f"notebooks/{notebook}.html#{name}", ""])
    return pf.Span(["", ["maker"], []], [link])


def inlines(blocks: list[dict]) -> list[dict]:
    """The text of paragraphs, as inline elements."""
    return [inline for block in blocks if block["t"] in ("Plain", "Para") for inline in block["c"]]


def number(tree: dict) -> dict[str, str]:
    """Number sections, figures and tables in place, in headings and captions.

    Numbers of a document with ``numbers: S`` in its head begin with an S. Returns what each is
    called, by its id.
    """
    names = {}
    prefix = pf.stringify(tree["meta"].get("numbers", {}))
    counts = Counter()
    sections = []

    def visit(kind, content, *_):
        if kind == "Header" and "unnumbered" not in content[1][1]:
            level, (id, *_), words = content
            sections[:] = (sections + [0] * level)[:level]
            sections[-1] += 1
            place = prefix + ".".join(map(str, sections))
            names[id] = f"Section{SPACE}{place}"
            words[:0] = [pf.Str(f"{place}\N{EM SPACE}")]
        elif kind in ("Figure", "Table"):
            (id, *_), (_, caption), *_ = content
            counts[kind] += 1
            names[id] = f"{kind}{SPACE}{prefix}{counts[kind]}"
            caption[0]["c"][:0] = [pf.Strong([pf.Str(f"{names[id]}:")]), pf.Space()]

    pf.walk(tree["blocks"], visit, "", {})
    return names


def arrange(table: list) -> None:
    """Set a table in place, a list as pandoc has it.

    Numbers go to the right, heads are broken into lines, columns of text get relative widths, and
    rows at which a new group begins are marked.
    """
    _, _, columns, (_, heads), bodies, _ = table
    head, *rows = [row[1] for row in [*heads, *bodies[0][3]]]
    words = [[pf.stringify(row[c]) for row in rows] for c in range(len(head))]
    widths = [max(map(len, column), default=0) for column in words]
    total = sum(max(width, len(pf.stringify(cell))) + 2 for width, cell in zip(widths, head))
    for c, (column, width) in enumerate(zip(words, widths)):
        cells = [row[c] for row in rows]
        columns[c][1] = pf.elt("ColWidthDefault", 0)()
        if all(map(NUMERIC.fullmatch, column)) and re.search(r"\d", "".join(column)):
            columns[c][0] = pf.elt("AlignRight", 0)()
            for cell in cells:
                _set(cell, [re.sub(r"^-(?=\d)", "−", pf.stringify(cell)).replace(" ", SPACE)])
        elif width > TEXT:
            # Long cells count for more: it is they that make rows high.
            length = math.hypot(*map(len, column)) / len(rows) ** 0.5
            columns[c][1] = pf.elt("ColWidth", 1)(round(length))
            for cell in cells:
                cell[0][1].append("text")
        if total > WIDE_TABLE and len(pf.stringify(head[c])) > width + 2:
            _set(head[c], _lines(pf.stringify(head[c]), width))
    for r in _group_starts(words, len(rows)):
        bodies[0][3][r][0][1].append("group")


def _lines(text, width):
    """The lines of a head over a column of this width; signs stay with their neighbours."""
    text = re.sub(r" (?=[%→±])|(?<=[→±]) ", SPACE, text)
    longest = max(map(len, text.split(" ")))
    return textwrap.wrap(text, max(width, longest), break_on_hyphens=False)


def _group_starts(words, n):
    """Rows at which the leading columns change that say the same for several rows on end."""
    starts = set()
    for column in words:
        changes = {r for r in range(1, n) if column[r] != column[r - 1]}
        if 3 * (len(changes) + 1) > n:
            break
        starts |= changes
    return starts


def _set(cell, lines):
    """Put lines of words into a cell; one with markup stays."""
    if all(inline["t"] in ("Str", "Space") for inline in inlines(cell[4])):
        cell[4] = [
            pf.Plain([part for line in lines for part in (pf.LineBreak(), pf.Str(line))][1:])
        ]


def _table(content, typst):
    """A table's markup in Typst, or in LaTeX, and its cells' inline elements between."""
    (id, _, options), (_, caption), columns, (_, [head]), [(*_, rows)], _ = content
    size = dict(options)["size"]
    long = ["long", "yes"] in options
    caption = inlines(caption)
    sides = ["right" if align["t"] == "AlignRight" else "left" for align, _ in columns]
    widths = [width.get("c") for _, width in columns]  # of running text only

    def line(row, start, between, end):
        return [start, *[part for cell in row[1] for part in (between, inlines(cell[4]))][1:], end]

    def body(gap, *marks):
        return [part for row in rows for part in (gap * ("group" in row[0][1]), *line(row, *marks))]

    if typst:
        places = ", ".join(f"{width}fr" if width else "auto" for width in widths)
        about = f'name: "{id}", size: "{size}", long: {str(long).lower()}'
        start = f"booktabs({about}, columns: ({places},), align: ("
        top = [
            "#figure(kind: ",
            '"long"' if long else "table",
            ", caption: [",
            caption,
            "], ",
            start,
            ", ".join(sides),
        ]
        top += [",), head: ", *line(head, "([", "], [", "],),\n")]
        return [*top, *body("gap,\n", "[", "], [", "],\n"), f")) <{id}>"]
    texts = [width for width in widths if width]
    part = len(texts) / (sum(texts) or 1)
    places = [
        f"T{{{width * part:.3f}}}" if width else side[0].upper()
        for width, side in zip(widths, sides)
    ]
    start = f"\\set{'long' * long}{'text' if texts else 'table'}{{{''.join(places)}}}{{{size}}}{{"
    top = [
        start,
        caption,
        f"\\label{{{id}}}}}{{",
        *line(head, "\\head{", "} & \\head{", "} \\\\"),
        "}{\n",
    ]
    return [*top, *body("\\addlinespace\n", "", " & ", " \\\\\n"), "}"]


def html(paper: Document) -> bytes:
    """The paper as one HTML page, images within, in bytes."""

    def visit(kind, content, *_):
        if kind == "Image":
            about, words, (name, _) = content
            return pf.Image(about, words, [str((paper.root / name).with_suffix(".png")), ""])
        # A caption stays where it is while its table scrolls; tables in boxes have no id.
        if kind == "Table" and content[0][0]:
            id = content[0][0]
            bare = pf.elt("Table", 6)(["", [], content[0][2]], [None, []], *content[2:])
            box = pf.Div(["", ["scroll"], [["tabindex", "0"]]], [bare])
            return pf.elt("Figure", 3)([id, ["table"], []], content[1], [box])

    options = (
        "--toc --toc-depth=3 --section-divs --mathml --embed-resources --shift-heading-level-by=1"
    )
    return _write(paper, visit, "html", *options.split()).encode()


def typst(paper: Document) -> str:
    """The paper in Typst's markup; it expects its images by their names."""

    def visit(kind, content, *_):
        # Where there are tables upon tables, they need not float.
        if kind == "Header" and "tables" in content[1][1]:
            return [
                pf.RawBlock("typst", "#set figure(placement: none)"),
                pf.elt("Header", 3)(*content),
            ]
        if kind == "Image":
            _, words, (name, _) = content
            alt = json.dumps(pf.stringify(words), ensure_ascii=False)
            return pf.RawInline("typst", f'#image("{name}", width: 100%, alt: {alt})')
        if kind == "Table":
            return _joined("typst", _table(content, typst=True))
        if kind == "Div" and content[0][0] == "refs":
            return [
                _joined("typst", ["#entry[", inlines(e["c"][1]), f"] <{e['c'][0][0]}>"])
                for e in content[1]
            ]

    # Without smart quotes: after a digit Typst would make a prime of an apostrophe.
    return _write(paper, visit, "typst-citations-smart")


def latex(paper: Document) -> str:
    """The paper in LaTeX; it expects its images by their names."""

    def visit(kind, content, *_):
        return _joined("latex", _table(content, typst=False)) if kind == "Table" else None

    return _write(paper, visit, "latex")


def _joined(format, parts):
    """One paragraph of markup (strings) and of inline elements (lists)."""
    marked = [[pf.RawInline(format, part)] if isinstance(part, str) else part for part in parts]
    return pf.Para([inline for part in marked for inline in part])


def _write(paper, visit, writer, *arguments):
    suffix = {"html": "html", "latex": "tex"}.get(writer, "typ")
    options = [
        "--wrap=none",
        "--standalone",
        "--syntax-highlighting=none",
        f"--template={TEMPLATES}/template.{suffix}",
    ]
    tree = pf.walk(paper.tree, _linked(writer), "", {})
    return pandoc(
        json.dumps(pf.walk(tree, visit, "", {})),
        "-f",
        "json",
        "-t",
        writer,
        *options,
        *arguments,
    )


def _linked(writer):
    """What sets links to other documents, and to notebooks, as a format can have them."""

    def visit(kind, content, *_):
        if kind == "Link" and content[2][0].startswith(OTHER_DOCUMENT):
            name, _, id = content[2][0].removeprefix(OTHER_DOCUMENT).partition("#")
            target = f"{name}.html#{id}" if writer == "html" else f"{name}.pdf"
            return pf.Link(content[0], content[1], [target, ""])
        if kind == "Span" and "maker" in content[0][1] and writer != "html":
            (link,) = content[1]
            words = pf.stringify(link["c"][1])
            parts = json.dumps([words, link["c"][2][0]], ensure_ascii=False)[1:-1]
            if writer == "latex":
                return pf.Str(f"({words})")
            return pf.RawInline("typst", f"#metadata(({parts}))")
        return None

    return visit
