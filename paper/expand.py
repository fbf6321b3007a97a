"""The paper's source with its values and tables filled in, and everything that is wrong in it named by its line."""

import re
from pathlib import Path

from ocrrlib.errors import InputError
from paper import values
from paper.checks import check
from paper.source import CODE, COMMENT, FIGURE, LABEL, MATHS, TABLE, VALUE, Source, blank, close, matches, read

OPTION = r'\s+(\w+)=(?:"([^"]*)"|([^\s"]+))'
OPTIONS = {"columns": None, "caption": None, "size": ("normal", "small", "tiny"), "long": ("yes", "no")}
FORM = 'columns="A,B" caption="Text" size=small long=yes'
ABOUT = re.compile(r"\{#(?P<id>fig:\w+(?:-\w+)*)(?: width=(?:100|[1-9]\d?)(?:\.\d+)?%)?\}")
SUFFIXES = (".pdf", ".png")  # PDF for print, PNG for the browser


def expand(path):
    """Read the Markdown source at ``path``; beside it lie ``values/``, ``tables/`` and ``references.bib``.

    Returns
    -------
    Source whose ``text`` is plain pandoc Markdown, tables as pipe tables with their ids.

    Raises
    ------
    InputError
        With one line ``file, line N: what is wrong; the way out`` for everything that is wrong.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"cannot read {path}; name a Markdown file")
    keep = re.compile(f"{CODE}|{COMMENT}", re.MULTILINE)
    text = keep.sub(lambda match: blank(COMMENT, match[0]) if match["comment"] else match[0], read(path))
    source = Source(path, text, values.read(path.parent / "values"))
    prose = blank(TABLE, source.plain)
    _tables(source)
    _values(source, prose)
    _figures(source, prose)
    for match in matches(LABEL, blank(FIGURE, prose)):
        source.label(match["id"], source.line(match.start()))
    check(source)
    if source.problems:
        lines = dict.fromkeys(f"{file}, line {line}: {what}" for file, line, what in sorted(source.problems))
        raise InputError("\n".join(lines))
    for start, end, new in sorted(source.edits, reverse=True):
        source.text = source.text[:start] + new + source.text[end:]
    return source


def _values(source, prose):
    for match in matches(VALUE, prose):
        line = source.line(match.start())
        if match["key"].startswith("table:"):
            source.problem(line, "a table stands on a line of its own, and in one line")
        else:
            source.edits.append((*match.span(), _fill(source, match[0], line)))
    for match in matches(r"\{\{|\}\}", blank(VALUE, prose)):
        what = f"{match[0]} without its like; write {{{{key}}}} or {{{{table:name}}}}"
        source.problem(source.line(match.start()), what)
    for maths in matches(MATHS, blank(CODE, source.text)):
        for match in matches(VALUE, maths[0]):
            if match["key"] in source.values:
                source.used.add(match["key"])
                what = "stands in maths, where values are not filled in; end the maths before it"
                source.problem(source.line(maths.start() + match.start()), f"{match[0]} {what}")


def _fill(source, text, line):
    """``text`` with the values' texts in it; unknown ones are problems of ``line``."""

    def shown(match):
        source.used.add(key := match["key"])
        if key not in source.values:
            hint = close(key, source.values)
            source.problem(line, f"unknown value {key!r}{hint}; a notebook must write it")
        return source.values.get(key, {"text": key})["text"]

    return re.sub(VALUE, shown, text)


def _tables(source):
    for match in matches(TABLE, source.plain):
        line = source.line(match.start())
        source.label(f"tbl:{match['name']}", line)
        try:
            source.edits.append((*match.span(), _table(source, match["name"], match["options"], line)))
        except InputError as error:
            source.problem(line, str(error))


def _table(source, name, options, line):
    """A table file as pandoc Markdown, with the columns, caption, size and length that are asked for."""
    given = {key: quoted or bare for key, quoted, bare in re.findall(OPTION, options)}
    caption = _fill(source, given.get("caption", ""), line)  # first: what it says is wrong there, whatever else is
    if re.sub(OPTION, "", options).strip() or given.keys() - OPTIONS.keys():
        raise InputError(f"{options.strip()!r} is not of the form {FORM}")
    for option, allowed in OPTIONS.items():
        if allowed and given.get(option, allowed[0]) not in allowed:
            raise InputError(f"{option}={given[option]} is unknown; there are: {', '.join(allowed)}")
    rows, own_caption = _read_table(source.path.parent / "tables" / f"{name}.md")
    if "columns" in given:
        rows = _columns(rows, given["columns"], name)
    caption = caption or _fill(source, own_caption, line)
    if not caption:
        raise InputError(f'table {name!r} has no caption; write caption="..."')
    about = "".join(f" {option}={given[option]}" for option in ("size", "long") if option in given)
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"\n{table}\n\n: {' '.join(caption.split())} {{#tbl:{name}{about}}}\n"


def _read_table(path):
    """A pipe table's rows, the second of which sets the alignments, as lists of cells; and its caption."""
    if not path.is_file():
        raise InputError(f"unknown table {path.stem!r}{close(path.stem, (p.stem for p in path.parent.glob('*.md')))}")
    body, _, caption = read(path).strip().partition("\n\n: ")
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in body.splitlines()]
    if len(rows) < 3 or not all(re.fullmatch(":?-+:?", cell) for cell in rows[1]):
        raise InputError(f"{path} is no pipe table with at least one row; run the notebook that makes it")
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise InputError(f"{path}, line {number}: {len(row)} cells under {len(rows[0])} heads; write | as \\|")
    return rows, caption


def _columns(rows, columns, name):
    """The columns that are asked for; names may have commas themselves: those that are there count as a whole."""
    names = "|".join(map(re.escape, sorted(rows[0], key=len, reverse=True)))
    wanted = [column.strip() for column in re.findall(rf"\s*(?:{names})\s*(?=,|$)|[^,]+", columns)]
    for column in wanted:
        if column not in rows[0]:
            raise InputError(f"table {name!r} has no column {column!r}{close(column, rows[0])}")
    return [[row[rows[0].index(column)] for column in wanted] for row in rows]


def _figures(source, prose):
    for match in matches(FIGURE, prose):
        line, about, name = source.line(match.start()), ABOUT.fullmatch(match["about"] or ""), match["path"]
        path = source.path.parent / name
        if not about:
            source.problem(line, f"figure {name}: write {{#fig:name}} or {{#fig:name width=80%}} right behind it")
            continue
        source.label(about["id"], line)
        source.figures[about["id"]] = path
        if not match["caption"].strip():
            source.problem(line, f"figure {name} has no caption; write ![Caption]({name})")
        if path.suffix != SUFFIXES[0]:
            source.problem(line, f"figure {name} is not a PDF; name the .pdf, the .png lies beside it")
        for suffix in SUFFIXES:
            if path.suffix == SUFFIXES[0] and not path.with_suffix(suffix).is_file():
                source.problem(line, f"figure {Path(name).with_suffix(suffix)} is missing; the notebooks make it")
