"""The paper as pandoc's tree: numbered, its references resolved and its citations set; and in each format's markup."""

import base64
import json
import math
import re
import shutil
import subprocess
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import pypandoc

from ocrrlib.files import InputError

TEMPLATES = Path(__file__).resolve().parent
READER = "markdown-raw_tex-raw_html-raw_attribute"  # what is raw would show in one format only
KINDS = {"fig": "Figure", "tbl": "Table", "sec": "Section"}
NUMBER = r"[+\-−]?\d[\d.,]*"
NUMERIC = re.compile(rf"({NUMBER}( [±→–] {NUMBER})?( \(\d+/\d+\))?(\s?%)?)|never|–|—|")
TEXT = 45  # characters from which on a column is running text, set in several lines
WIDE = 80  # characters from which on a table's heads are broken into lines
LATEX_SIZES = {"normal": r"\small", "small": r"\footnotesize", "tiny": r"\scriptsize"}
SPACE = "\N{NO-BREAK SPACE}"


@dataclass
class Document:
    """Pandoc's tree; paths of figures and (kind, number) of all that is numbered, by id; the first appendix' id."""

    tree: dict
    figures: dict = field(default_factory=dict)
    numbers: dict = field(default_factory=dict)
    appendix: str = ""

    def name(self, id):
        """What a figure, table or section is called, such as ``Table 3``."""
        return SPACE.join(self.numbers[id])


def pandoc(text, *arguments):
    """What pandoc makes of ``text``, whatever the user's own settings of pandoc are.

    Raises
    ------
    InputError
        With what pandoc says, if it fails or warns: of a reference or citation without a target, too.
    """
    # The one that pypandoc brings along: its own search prefers a newer one, wherever that comes from.
    program = shutil.which("pandoc", path=Path(pypandoc.__file__).with_name("files"))
    command = [program, "--data-dir", TEMPLATES, "--wrap=none", *arguments]
    run = subprocess.run(command, input=text.encode(), capture_output=True)
    if run.returncode or run.stderr:
        raise InputError(f"pandoc: {run.stderr.decode().strip()}")
    return run.stdout.decode()


def parse(text, folder):
    """The document in Markdown text; its figures and ``references.bib`` are found from ``folder``."""
    paper = Document(json.loads(pandoc(text, "-f", READER, "-t", "json")))
    _number(paper, folder)
    tree = walk(paper.tree, lambda element: _reference(paper, element))
    blocks, heading = tree["blocks"], node("Header", 1, ["references", ["unnumbered"], []], [node("Str", "References")])
    place = next((i for i, b in enumerate(blocks) if b["t"] == "Header" and "appendix" in b["c"][1][1]), len(blocks))
    blocks[place:place] = [heading, node("Div", ["refs", [], []], [])]
    options = ["--citeproc", "-M", "link-citations=true", "--bibliography", folder / "references.bib"]
    tree = json.loads(pandoc(json.dumps(tree), "-f", "json", "-t", "json", *options))
    # Set citations are text; left as they are, writers would set them in their own way.
    paper.tree = walk(tree, lambda element: element["c"][1] if element["t"] == "Cite" else None)
    return paper


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
    if part["t"] in ("Str", "Code", "Math"):
        return part["c"] if part["t"] == "Str" else part["c"][1]
    return " " if part["t"] in ("Space", "SoftBreak", "LineBreak") else plain(part.get("c"))


def _number(paper, folder):
    """Number sections, figures and tables in order, as LaTeX and Typst do."""
    counts, sections = {"fig": 0, "tbl": 0}, []

    def count(element):
        nonlocal sections
        kind, content = element["t"], element.get("c")
        if kind == "Header" and "unnumbered" not in content[1][1]:
            level, (id, classes, _), _ = content
            if "appendix" in classes and not paper.appendix:
                sections, paper.appendix = [], id
            sections = (sections + [0] * level)[:level]
            sections[-1] += 1
            first = chr(64 + sections[0]) if paper.appendix else str(sections[0])
            paper.numbers[id] = ("Appendix" if paper.appendix else KINDS["sec"], ".".join([first, *map(str, sections[1:])]))
        elif kind in ("Figure", "Table") and (kind_of := (id := content[0][0]).split(":")[0]) in counts:
            counts[kind_of] += 1
            paper.numbers[id] = (KINDS[kind_of], str(counts[kind_of]))
            if kind == "Figure":
                paper.figures[id] = folder / _figure(element)[1][2][0]
                if not paper.figures[id].with_suffix(".png").is_file():
                    raise InputError(f"figure {paper.figures[id]} or its .png is missing: the notebooks make it")

    walk(paper.tree["blocks"], count)


def _reference(paper, element):
    """A link in place of a reference to something numbered."""
    id = element["c"][0][0]["citationId"] if element["t"] == "Cite" else None
    if id in paper.numbers:
        return [node("Link", ["", ["reference"], []], [node("Str", paper.name(id))], [f"#{id}", ""])]


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
    text: dict
    gaps: set

    @classmethod
    def of(cls, element):
        """The table that a ``Table`` of pandoc's tree describes; columns of numbers are set to the right."""
        (id, _, attributes), (_, caption), columns, (_, heads), bodies, _ = element["c"]
        head, *rows = [[inlines(cell[4]) for cell in row[1]] for row in [*heads, *bodies[0][3]]]
        words = [[plain(row[c]) for row in rows] for c in range(len(head))]
        numeric = [all(map(NUMERIC.fullmatch, column)) and re.search(r"\d", "".join(column)) for column in words]
        rows = [[_in_one_line(cell) if right else cell for cell, right in zip(row, numeric)] for row in rows]
        widths = [max(map(len, column), default=0) for column in words]
        total = sum(max(width, len(plain(cell))) + 2 for width, cell in zip(widths, head))
        if total > WIDE:
            head = [_broken(cell, width) for cell, width in zip(head, widths)]
        options = dict(attributes)
        # Long cells count for more: it is they that make rows high.
        text = {c: round(math.hypot(*map(len, words[c])) / len(rows) ** 0.5) for c, w in enumerate(widths) if w > TEXT}
        aligns = ["right" if right or column[0]["t"] == "AlignRight" else "left" for right, column in zip(numeric, columns)]
        size = options.get("size") or ("normal" if total <= WIDE else "small")
        return cls(id, size, options.get("long") == "yes", inlines(caption), aligns, head, rows, text, _groups(words))


def _in_one_line(cell):
    """A number with a real minus sign in place of a hyphen, and nothing to break a line at."""
    if any(inline["t"] not in ("Str", "Space") for inline in cell):
        return cell
    return [node("Str", re.sub(r"^-(?=\d)", "−", plain(cell)).replace(" ", SPACE))]


def _broken(cell, width):
    """A head's words in lines hardly longer than ``width`` or its longest word; signs stay with their neighbours."""
    if any(inline["t"] not in ("Str", "Space") for inline in cell) or len(plain(cell)) <= width + 2:
        return cell
    words = re.sub(r" (?=[%→±])|(?<=[→±]) ", SPACE, plain(cell))
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


# --- the formats


def html(paper):
    """The paper as one HTML page, images within."""

    def visit(element):
        kind, content = element["t"], element.get("c")
        if kind == "Header":  # one below the title, which is the page's only heading of the first level
            number = [node("Str", f"{paper.numbers[content[1][0]][1]} ")] if content[1][0] in paper.numbers else []
            return [node("Header", content[0] + 1, content[1], number + walk(content[2], visit))]
        if kind in ("Figure", "Table") and content[0][0] in paper.numbers:
            id, (short, caption) = content[0][0], content[1]
            label = [node("Strong", [node("Str", f"{paper.name(id)}:")]), node("Space")]
            content[1] = [short, [node("Plain", label + walk(inlines(caption), visit))]]
            if kind == "Figure":
                png = base64.b64encode(paper.figures[id].with_suffix(".png").read_bytes()).decode()
                _figure(element)[1][2][0] = f"data:image/png;base64,{png}"
                return [element]
            table = Table.of(element)
            for column, align in zip(content[2], table.aligns):
                column[0], column[1] = node(f"Align{align.capitalize()}"), node("ColWidthDefault")
            return [node("Div", ["", ["scroll"], []], [element])]
        return None

    copy = Document(json.loads(json.dumps(paper.tree)), paper.figures, paper.numbers, paper.appendix)
    return _write(copy, visit, "html", "--toc", "--toc-depth=3", "--section-divs", "--mathml")


def typst(paper):
    """The paper in Typst's markup; its figures are expected at ``file_name(id)``."""
    flush = [node("RawBlock", "typst", "#place.flush()")]  # all floats that still wait for a place come first

    def visit(element):
        kind, content = element["t"], element.get("c")
        if kind == "Header":
            number = paper.numbers.get(content[1][0])
            label = [node("Str", f"{number[1]}\N{EM SPACE}")] if number else []
            before = flush if content[0] == 1 else []
            if content[1][0] == paper.appendix:  # tables upon tables: they need not float
                before = [*flush, node("RawBlock", "typst", "#set figure(placement: none)")]
            return [*before, node("Header", content[0], content[1], label + walk(content[2], visit))]
        if kind == "Figure":
            id, image, caption = _figure(element)
            alt = json.dumps(plain(image[1]), ensure_ascii=False)
            start = f'#figure(image("{file_name(id)}", width: {_width(image)}%, alt: {alt}), '
            return [_joined("typst", [start, *_typst_caption(paper.name(id), caption), f") <{id}>"], visit)]
        if kind == "Table":
            table = Table.of(element)
            start = f'#figure(kind: {chr(34)}long{chr(34) if table.long else ""}, ' if table.long else "#figure(kind: table, "
            parts = [start, *_typst_caption(paper.name(table.id), table.caption), *_typst_table(table), f") <{table.id}>"]
            return [*flush * table.long, _joined("typst", parts, visit)]
        if kind == "Div" and content[0][0] == "refs":
            return [_joined("typst", ["#entry[", inlines(e["c"][1]), f"] <{e['c'][0][0]}>"], visit) for e in content[1]]
        return None

    # Without smart quotes: after a digit Typst would make a prime of an apostrophe.
    return _write(paper, visit, "typst-citations-smart")


def _typst_caption(name, caption):
    return [f"supplement: [{name}], caption: [", caption, "], "]


def _typst_table(table):
    columns = ", ".join(f"{table.text[c]}fr" if c in table.text else "auto" for c in range(len(table.head)))
    long = "true" if table.long else "false"
    parts = [f'booktabs(name: "{table.id}", size: "{table.size}", long: {long}, columns: ({columns},), align: (']
    parts += [", ".join(table.aligns), ",), head: ("]
    parts += [part for cell in table.head for part in ("[", cell, "], ")] + ["),\n"]
    for number, row in enumerate(table.rows):
        parts.append("gap,\n" if number in table.gaps else "")
        parts += [part for cell in row for part in ("[", cell, "], ")] + ["\n"]
    return [*parts, ")"]


def latex(paper):
    """The paper in LaTeX; its figures are expected at ``file_name(id)``."""

    def visit(element):
        kind, content = element["t"], element.get("c")
        if kind == "Link" and "reference" in content[0][1]:
            id = content[2][0][1:]
            return [_raw("latex", rf"\hyperref[{id}]{{{paper.numbers[id][0]}~\ref*{{{id}}}}}")]
        if kind == "Link" and content[2][0].startswith("#ref-"):
            start = rf"\hyperlink{{cite.{content[2][0].removeprefix('#ref-')}}}{{"
            return [_raw("latex", start), *walk(content[1], visit), _raw("latex", "}")]
        if kind == "Header" and content[1][0] == "references":
            return [node("RawBlock", "latex", r"\FloatBarrier")]  # the list of references brings its own heading
        if kind == "Header" and content[0] == 1 and "Appendix" in paper.numbers.get(content[1][0], ()):
            start = "\\FloatBarrier" + "\n\\appendix\n\\floatshere" * (content[1][0] == paper.appendix)
            return [node("RawBlock", "latex", start), element]
        if kind == "Figure":
            id, image, caption = _figure(element)
            start = f"\\begin{{figure}}\n\\centering\n\\includegraphics[width={_width(image) / 100:g}\\linewidth]"
            end = f"}}\\label{{{id}}}\n\\end{{figure}}"
            return [_joined("latex", [f"{start}{{{file_name(id)}}}\n\\caption{{", caption, end], visit)]
        if kind == "Table":
            return [_joined("latex", _latex_table(Table.of(element)), visit)]
        if kind == "Div" and content[0][0] == "refs":
            items = [(e["c"][0][0].removeprefix("ref-"), inlines(e["c"][1])) for e in content[1]]
            entries = [_joined("latex", [rf"\bibitem[]{{{key}}} ", words], visit) for key, words in items]
            return [_raw_block(r"\begin{thebibliography}{}"), *entries, _raw_block(r"\end{thebibliography}")]
        return None

    return _write(paper, visit, "latex")


def _latex_table(table):
    caption, total = ["\\caption{", table.caption, f"}}\\label{{{table.id}}}"], sum(table.text.values())
    share = {c: 0.6 * width / total for c, width in table.text.items()}
    kinds = [rf">{{\raggedright\arraybackslash}}p{{{share[c]:.3f}\linewidth}}" if c in share else align[0]
             for c, align in enumerate(table.aligns)]  # fmt: skip
    columns, gap = f"{{@{{}}{''.join(kinds)}@{{}}}}", "\\addlinespace\n"
    heads = [part for c, cell in enumerate(table.head) for part in (" & " * bool(c), rf"\head{{{table.aligns[c][0]}}}{{", cell, "}")]
    head, rows = ["\\toprule\n", *heads, " \\\\\n\\midrule\n"], []
    for number, row in enumerate(table.rows):
        rows.append(gap if number in table.gaps else "")
        rows += [part for c, cell in enumerate(row) for part in (" & " * bool(c), cell)] + [" \\\\\n"]
    size = LATEX_SIZES[table.size]
    if table.long:
        start = ["\\FloatBarrier\n\\begingroup", size, f"\\begin{{longtable}}{columns}\n", *caption, "\\\\\n"]
        again = ["\\endfirsthead\n", *head, "\\endhead\n\\bottomrule\n\\endfoot\n"]
        return [*start, *head, *again, *rows, "\\end{longtable}\n\\endgroup"]
    start = ["\\begin{table}\n\\centering\n", *caption, size, f"\\fit{{\\begin{{tabular}}{columns}\n"]
    return [*start, *head, *rows, "\\bottomrule\n\\end{tabular}}\n\\end{table}"]


def file_name(id):
    """Where a figure's file lies beside the paper."""
    return f"figures/{id.split(':')[1]}.pdf"


def _raw(format, text):
    return node("RawInline", format, text)


def _raw_block(text):
    return node("RawBlock", "latex", text)


def _joined(format, parts, visit):
    """One paragraph of markup (strings) and of inline elements (lists)."""
    return node("Para", [w for p in parts for w in ([_raw(format, p)] if isinstance(p, str) else walk(p, visit))])


def _figure(element):
    """A figure's id, its image's content (attributes, words, target), and its caption as inline elements."""
    (id, *_), (_, caption), blocks = element["c"]
    return id, inlines(blocks)[0]["c"], inlines(caption)


def _width(image):
    """A figure's width in percent of the text's."""
    return float(dict(image[0][2]).get("width", "100%").rstrip("%"))


def _write(paper, visit, writer, *arguments):
    suffix = {"html": "html", "latex": "tex"}.get(writer, "typ")
    options = ["--standalone", "--template", TEMPLATES / f"template.{suffix}", "--syntax-highlighting=none"]
    return pandoc(json.dumps(walk(paper.tree, visit)), "-f", "json", "-t", writer, *options, *arguments)
