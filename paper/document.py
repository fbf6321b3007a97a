"""The paper as pandoc's tree: numbered, its references resolved and its citations set, the same for every format."""

import json
import math
import re
import shutil
import subprocess
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import pypandoc

from ocrrlib.errors import InputError

READER = "markdown-raw_tex-raw_html-raw_attribute"  # what is raw would show in one format only
KINDS = {"fig": "Figure", "tbl": "Table"}
NUMBER = r"[+\-−]?\d[\d.,]*"
NUMERIC = re.compile(rf"({NUMBER}( [±→–] {NUMBER})?( \(\d+/\d+\))?(\s?%)?)|never|–|—|")
TEXT = 45  # characters from which on a column is running text, set in several lines
WIDE = 80  # characters from which on a table's heads are broken into lines


@dataclass
class Document:
    """Pandoc's tree; the paths of figures and (kind, number) of all that is numbered, by id; the first appendix' id."""

    tree: dict
    figures: dict
    numbers: dict = field(default_factory=dict)
    appendix: str = ""


def pandoc(text, *arguments):
    """What pandoc makes of ``text``, whatever the user's own settings of pandoc are.

    Raises
    ------
    InputError
        With what pandoc says, if it fails or warns.
    """
    # The one that pypandoc brings along: its own search prefers a newer one, wherever that comes from.
    program = shutil.which("pandoc", path=Path(pypandoc.__file__).with_name("files"))
    if program is None:
        raise InputError("pypandoc came without pandoc; install the package pypandoc-binary")
    command = [program, "--data-dir", Path(__file__).parent, "--wrap=none", *arguments]
    run = subprocess.run(command, input=text.encode(), capture_output=True)
    if run.returncode or run.stderr:
        raise InputError(f"pandoc: {run.stderr.decode().strip()}")
    return run.stdout.decode()


def parse(source):
    """The document that an expanded source describes.

    Raises
    ------
    InputError
        If pandoc cannot read it, or something stands where it gets no number.
    """
    try:
        tree = json.loads(pandoc(source.text, "-f", READER, "-t", "json"))
    except InputError as error:
        raise InputError(f"{source.path}: {error}") from error
    document = Document(tree, source.figures)
    _number(document, source)
    tree = walk(tree, lambda element: _reference(document, source, element))
    if '"t": "Cite"' in json.dumps(tree):
        _make_room_for_references(tree["blocks"])
    bibliography = ["--bibliography", path] if (path := source.path.parent / "references.bib").is_file() else []
    options = ["-f", "json", "-t", "json", "--citeproc", "-M", "link-citations=true", *bibliography]
    tree = json.loads(pandoc(json.dumps(tree), *options))
    # Set citations are text; left as they are, writers would set them in their own way.
    document.tree = walk(tree, lambda e: e["c"][1] if e["t"] == "Cite" else None)
    return document


def node(kind, *content):
    """One element of pandoc's tree."""
    return {"t": kind, "c": content[0] if len(content) == 1 else list(content)} if content else {"t": kind}


def walk(part, visit):
    """A copy of a part of the tree in which ``visit(element)`` has put a list in an element's place, or kept it."""
    if isinstance(part, dict):
        return {name: walk(value, visit) for name, value in part.items()}
    if not isinstance(part, list):
        return part
    new = []
    for item in part:
        instead = visit(item) if isinstance(item, dict) and "t" in item else None
        new += [walk(item, visit)] if instead is None else instead
    return new


def inlines(blocks):
    """The text of paragraphs, as inline elements."""
    return [inline for block in blocks if block["t"] in ("Plain", "Para") for inline in block["c"]]


def plain(part):
    """The words of a part of the tree, without markup."""
    if isinstance(part, list):
        return "".join(map(plain, part))
    if not isinstance(part, dict):
        return ""
    if part["t"] == "Quoted":
        return f"“{plain(part['c'][1])}”"
    if part["t"] in ("Str", "Code", "Math"):
        return part["c"] if part["t"] == "Str" else part["c"][1]
    return " " if part["t"] in ("Space", "SoftBreak", "LineBreak") else plain(part.get("c"))


def _number(document, source):
    """Number sections, figures and tables in order, as LaTeX and Typst do; refuse what gets no number but needs one."""
    counts, sections = {"fig": 0, "tbl": 0}, []

    def count(element):
        nonlocal sections
        kind, content = element["t"], element.get("c")
        if kind == "Header" and "unnumbered" not in content[1][1]:
            level, (id, classes, _), _ = content
            if "appendix" in classes and not document.appendix:
                sections, document.appendix = [], id
            sections = (sections + [0] * level)[:level]
            sections[-1] += 1
            first = chr(64 + sections[0]) if document.appendix else str(sections[0])
            name = "Appendix" if document.appendix else "Section"
            document.numbers[id] = (name, ".".join([first, *map(str, sections[1:])]))
        elif kind in ("Figure", "Table") and content[0][0] in source.labels:
            name = content[0][0].split(":")[0]
            counts[name] += 1
            document.numbers[content[0][0]] = (KINDS[name], str(counts[name]))
        elif kind == "Table":
            raise InputError(f"{source.path}: a table has no id; let a notebook write it, and write {{{{table:name}}}}")
        elif kind == "Image" and source.path.parent / content[2][0] not in source.figures.values():
            raise InputError(f"{source.path}: image {content[2][0]}; write ![Caption](figure.pdf){{#fig:name}}")

    walk(document.tree["blocks"], count)
    for id, line in source.labels.items():
        if id not in document.numbers:
            place = "on a numbered heading" if id.startswith("sec:") else "in a paragraph of its own"
            raise InputError(f"{source.path}, line {line}: {id} gets no number here; it must stand {place}")


def _reference(document, source, element):
    """A link in place of a reference to something numbered."""
    citations = element["c"][0] if element["t"] == "Cite" else []
    known = [citation["citationId"] for citation in citations if citation["citationId"] in source.labels]
    if not known:
        return None
    if len(citations) > 1 or citations[0]["citationPrefix"] or citations[0]["citationSuffix"]:
        raise InputError(f"{source.path}: @{known[0]} shares its brackets; write it by itself, without brackets")
    text = "\N{NO-BREAK SPACE}".join(document.numbers[known[0]])
    return [node("Link", ["", ["reference"], []], [node("Str", text)], [f"#{known[0]}", ""])]


def _make_room_for_references(blocks):
    """A place for the references: at the end, but before an appendix."""
    appendix = [i for i, b in enumerate(blocks) if b["t"] == "Header" and "appendix" in b["c"][1][1]]
    heading = node("Header", 1, ["references", ["unnumbered"], []], [node("Str", "References")])
    place = appendix[0] if appendix else len(blocks)
    blocks[place:place] = [heading, node("Div", ["refs", [], []], [])]


@dataclass
class Table:
    """A table, ready to be set: cells are inline elements, ``text`` the relative widths of columns of running text.

    ``aligns`` are ``left``, ``right`` or ``center``, one per column; ``gaps`` the rows that a new group begins with;
    a ``long`` table may break between rows, others stand on one page.
    """

    id: str
    size: str
    long: bool
    caption: list
    aligns: list
    head: list
    rows: list
    text: set
    gaps: set

    @classmethod
    def of(cls, element):
        """The table that a ``Table`` of pandoc's tree describes; columns of numbers are set to the right."""
        (id, _, attributes), (_, caption), columns, (_, heads), bodies, _ = element["c"]
        head, *rows = [[inlines(cell[4]) for cell in row[1]] for row in [*heads, *bodies[0][3]]]
        aligns = [column[0]["t"].removeprefix("Align").lower().replace("default", "left") for column in columns]
        words = [[plain(row[c]) for row in rows] for c in range(len(head))]
        widths = [max(map(len, column), default=0) for column in words]
        for c, column in enumerate(words):
            if all(map(NUMERIC.fullmatch, column)) and any(map(re.compile(r"\d").search, column)):
                aligns[c] = aligns[c].replace("left", "right")
                for row in rows:
                    row[c] = _in_one_line(row[c])
        total = sum(max(width, len(plain(cell))) + 2 for width, cell in zip(widths, head))
        if total > WIDE:
            head = [_broken(cell, width) for cell, width in zip(head, widths)]
        options = dict(attributes)
        size = options.get("size") or ("normal" if total <= WIDE else "small")
        text = {c: _extent(words[c]) for c, width in enumerate(widths) if width > TEXT}
        long = options.get("long") == "yes"
        return cls(id, size, long, inlines(caption), aligns, head, rows, text, _groups(words))


def _extent(column):
    """The cells' usual length in characters; long ones count for more, since it is they that make rows high."""
    return round(math.sqrt(sum(len(cell) ** 2 for cell in column) / len(column)))


def _in_one_line(cell):
    """A number with a real minus sign in place of a hyphen, and nothing to break a line at."""
    if any(inline["t"] not in ("Str", "Space") for inline in cell):
        return cell
    return [node("Str", re.sub(r"^-(?=\d)", "−", plain(cell)).replace(" ", "\N{NO-BREAK SPACE}"))]


def _broken(cell, width):
    """A head's words in lines hardly longer than ``width`` or its longest word; signs stay with their neighbours."""
    if any(inline["t"] not in ("Str", "Space") for inline in cell) or len(plain(cell)) <= width + 2:
        return cell
    words = re.sub(r" (?=[%→±])|(?<=[→±]) ", "\N{NO-BREAK SPACE}", plain(cell))
    lines = textwrap.wrap(words, max(width, *map(len, words.split(" "))), break_on_hyphens=False)
    return [inline for line in lines for inline in (node("LineBreak"), node("Str", line))][1:]


def _groups(words):
    """Rows at which the leading columns change that say the same for several rows on end."""
    rows = set()
    for column in words:
        changes = {i for i in range(1, len(column)) if column[i] != column[i - 1]}
        if 3 * (len(changes) + 1) > len(column):
            break
        rows |= changes
    return rows
