"""The document in the markup of each format: what pandoc's own writers do not set as a paper needs it."""

import base64
import json
import re
from html import escape
from pathlib import Path

from paper.document import Table, inlines, node, pandoc, plain, walk

TEMPLATES = Path(__file__).resolve().parent
BEGIN, END = "%<<<", "%>>>"  # around what goes to a file of its own
LATEX_SIZES = {"normal": r"\small", "small": r"\footnotesize", "tiny": r"\scriptsize"}


def html(document, code_hash):
    """The paper as one HTML page, images within."""

    def visit(element):
        kind, content = element["t"], element.get("c")
        if kind == "Header":  # one below the title, which is the page's only heading of the first level
            number = document.numbers.get(content[1][0])
            label = [node("Span", ["", ["number"], []], [node("Str", number[1])]), node("Space")] if number else []
            return [node("Header", content[0] + 1, content[1], label + walk(content[2], visit))]
        if kind == "Figure":
            id, image, caption = _figure(element)
            tag = f'<img src="{_data(document.figures[id])}" alt="{escape(plain(image[1]))}">\n'
            parts = [f'<figure id="{id}">\n{tag}', *_html_caption(_name(document, id), caption)]
            return [_joined("html", [*parts, "</figure>"], visit)]
        if kind == "Table":
            table = Table.of(element)
            name = _name(document, table.id)
            start = f'<figure id="{table.id}" class="table {table.size}{" long" * table.long}">\n'
            parts = [start, *_html_caption(name, table.caption), *_html_table(table, name), "</figure>"]
            return [_joined("html", parts, visit)]
        return None

    return _write(document, code_hash, visit, "html", "--toc", "--toc-depth=3", "--section-divs", "--mathml")


def _html_caption(name, caption):
    return [f'<figcaption><span class="label">{name}:</span> ', caption, "</figcaption>\n"]


def _html_table(table, name):
    parts = [f'<div class="scroll" role="region" tabindex="0" aria-label="{name}"><table>\n<thead><tr>']
    for cell, align in zip(table.head, table.aligns):
        parts += [f'<th scope="col" class="{align}">', cell, "</th>"]
    parts.append("</tr></thead>\n<tbody>\n")
    for number, row in enumerate(table.rows):
        parts.append('<tr class="group">' if number in table.gaps else "<tr>")
        for c, (cell, align) in enumerate(zip(row, table.aligns)):
            tag = "td" if c else 'th scope="row"'
            parts += [f'<{tag} class="{align}{" text" if c in table.text else ""}">', cell, f"</{tag[:2]}>"]
        parts.append("</tr>\n")
    return [*parts, "</tbody></table></div>\n"]


def _data(path):
    """The PNG beside a PDF, as a data address."""
    return f"data:image/png;base64,{base64.b64encode(path.with_suffix('.png').read_bytes()).decode()}"


def typst(document, code_hash):
    """The paper in Typst's markup; its figures are expected at ``file_name(id)``."""

    flush = [node("RawBlock", "typst", "#place.flush()")]  # all floats that still wait for a place come first

    def visit(element):
        kind, content = element["t"], element.get("c")
        if kind == "Header":
            number = document.numbers.get(content[1][0])
            label = [node("Str", f"{number[1]}\N{EM SPACE}")] if number else []
            before = flush if content[0] == 1 else []
            if content[1][0] == document.appendix:  # tables upon tables: they need not float
                before = [*flush, node("RawBlock", "typst", "#set figure(placement: none)")]
            return [*before, node("Header", content[0], content[1], label + walk(content[2], visit))]
        if kind == "Figure":
            id, image, caption = _figure(element)
            alt = json.dumps(plain(image[1]), ensure_ascii=False)
            start = f'#figure(image("{file_name(id)}", width: {_width(image)}%, alt: {alt}), '
            parts = [start, *_typst_caption(_name(document, id), caption), f") <{id}>"]
            return [_joined("typst", parts, visit)]
        if kind == "Table":
            table = Table.of(element)
            caption = _typst_caption(_name(document, table.id), table.caption)
            start = '#figure(kind: "long", ' if table.long else "#figure(kind: table, "
            parts = [start, *caption, *_typst_table(table), f") <{table.id}>"]
            return [*flush * table.long, _joined("typst", parts, visit)]
        if kind == "Div" and content[0][0] == "refs":
            return [_joined("typst", ["#entry[", inlines(e["c"][1]), f"] <{e['c'][0][0]}>"], visit) for e in content[1]]
        return None

    # Without smart quotes: after a digit Typst would make a prime of an apostrophe.
    return _write(document, code_hash, visit, "typst-citations-smart")


def _typst_caption(name, caption):
    return [f"supplement: [{name}], caption: [", caption, "], "]


def _typst_table(table):
    columns = ", ".join(f"{table.text[c]}fr" if c in table.text else "auto" for c in range(len(table.head)))
    long = "true" if table.long else "false"
    parts = [f'booktabs(name: "{table.id}", size: "{table.size}", long: {long}, columns: ({columns},), align: (']
    parts += [", ".join(table.aligns), ",), head: ("]
    for cell in table.head:
        parts += ["[", cell, "], "]
    parts.append("),\n")
    for number, row in enumerate(table.rows):
        parts.append("gap,\n" if number in table.gaps else "")
        for cell in row:
            parts += ["[", cell, "], "]
        parts.append("\n")
    return [*parts, ")"]


def latex(document, code_hash):
    """The paper in LaTeX, as texts by the names of files; ``ocrr.tex`` reads the others."""

    def visit(element):
        kind, content = element["t"], element.get("c")
        if kind == "Link" and "reference" in content[0][1]:
            id = content[2][0][1:]
            return [_raw("latex", rf"\hyperref[{id}]{{{document.numbers[id][0]}~\ref*{{{id}}}}}")]
        if kind == "Link" and content[2][0].startswith("#ref-"):
            start = rf"\hyperlink{{cite.{content[2][0].removeprefix('#ref-')}}}{{"
            return [_raw("latex", start), *walk(content[1], visit), _raw("latex", "}")]
        if kind == "Header" and content[1][0] == "references":
            return [node("RawBlock", "latex", r"\FloatBarrier")]  # the list of references brings its own heading
        if kind == "Header" and content[0] == 1 and "Appendix" in document.numbers.get(content[1][0], ()):
            start = "\\FloatBarrier" + "\n\\appendix\n\\floatshere" * (content[1][0] == document.appendix)
            return [node("RawBlock", "latex", start), element]
        if kind == "Figure":
            id, image, caption = _figure(element)
            start = f"\\begin{{figure}}\n\\centering\n\\includegraphics[width={_width(image) / 100:g}\\linewidth]"
            end = f"}}\\label{{{id}}}\n\\end{{figure}}"
            return [_joined("latex", [f"{start}{{{file_name(id)}}}\n\\caption{{", caption, end], visit)]
        if kind == "Table":
            table = Table.of(element)
            return _apart(file_name(table.id), [_joined("latex", _latex_table(table), visit)])
        if kind == "Div" and content[0][0] == "refs":
            return _apart("ocrr.bbl", _latex_references(content[1], visit))
        return None

    text, files = _write(document, code_hash, visit, "latex"), {}

    def take(match):
        files[match[1]] = match[2].strip() + "\n"
        return r"\bibliography{references}" if match[1].endswith(".bbl") else rf"\input{{{match[1]}}}"

    files["ocrr.tex"] = re.sub(rf"{BEGIN}(\S+)\n(.*?){END}", take, text, flags=re.DOTALL)
    return files


def _apart(name, blocks):
    return [node("RawBlock", "latex", BEGIN + name), *blocks, node("RawBlock", "latex", END)]


def _latex_table(table):
    caption = ["\\caption{", table.caption, f"}}\\label{{{table.id}}}"]
    columns, running = _latex_columns(table)
    gap = "\\addlinespace\n" if table.long else "\\midrule[\\cmidrulewidth]\n"  # a rule would double at a page's end
    head, rows = ["\\toprule\n"], []
    for c, cell in enumerate(table.head):
        head += [" & " if c else "", rf"\head{{{table.aligns[c][0]}}}{{", cell, "}"]
    head.append(" \\\\\n\\midrule\n")
    for number, row in enumerate(table.rows):
        rows.append(gap if number in table.gaps else "")
        for c, cell in enumerate(row):
            rows += [" & " if c else "", cell]
        rows.append(" \\\\\n")
    size = LATEX_SIZES[table.size]
    if table.long:
        start = ["\\FloatBarrier\n\\begingroup", size, *running, f"\\begin{{longtable}}{columns}\n", *caption, "\\\\\n"]
        again = ["\\endfirsthead\n", *head, "\\endhead\n\\bottomrule\n\\endfoot\n"]
        return [*start, *head, *again, *rows, "\\end{longtable}\n\\endgroup"]
    start = ["\\begin{table}\n\\centering\n", *caption, size, *running, f"\\fit{{\\begin{{tabular}}{columns}\n"]
    return [*start, *head, *rows, "\\bottomrule\n\\end{tabular}}\n\\end{table}"]


def _latex_columns(table):
    """The columns, and what sets ``\running``, the width that those of running text share."""
    kinds, rest, total = [align[0] for align in table.aligns], [], sum(table.text.values())
    for c, kind in enumerate(kinds):
        if c in table.text:
            kinds[c] = rf">{{\raggedright\arraybackslash}}p{{{table.text[c] / total:.3f}\running}}"
        else:
            rest += [r"\head{l}{", max((row[c] for row in table.rows), key=lambda cell: len(plain(cell))), r" \\ "]
            rest += [table.head[c], "}"]
    spec = f"{{@{{}}{''.join(kinds)}@{{}}}}"
    if not table.text:
        return spec, []
    gaps = 2 * len(kinds) - 2
    return spec, ["\\setrunning{1}{", *rest, f"}}{{{gaps}}}{{{2.5 * len(table.text)}cm}}\n"]


def _latex_references(entries, visit):
    blocks = [node("RawBlock", "latex", r"\begin{thebibliography}{}")]
    for entry in entries:
        key = entry["c"][0][0].removeprefix("ref-")
        blocks.append(_joined("latex", [rf"\bibitem[]{{{key}}} ", inlines(entry["c"][1])], visit))
    return [*blocks, node("RawBlock", "latex", r"\end{thebibliography}")]


def file_name(id):
    """Where a figure's or a table's file lies beside the paper."""
    kind, name = id.split(":")
    return f"figures/{name}.pdf" if kind == "fig" else f"tables/{name}.tex"


def _name(document, id):
    """What a figure or a table is called: ``Table 3``."""
    return "\N{NO-BREAK SPACE}".join(document.numbers[id])


def _raw(format, text):
    return node("RawInline", format, text)


def _joined(format, parts, visit):
    """One paragraph of markup (strings) and of inline elements (lists)."""
    words = [w for p in parts for w in ([_raw(format, p)] if isinstance(p, str) else walk(p, visit))]
    return node("Plain" if format == "html" else "Para", words)


def _figure(element):
    """A figure's id, its image's content (attributes, words, target), and its caption as inline elements."""
    (id, *_), (_, caption), blocks = element["c"]
    return id, inlines(blocks)[0]["c"], inlines(caption)


def _width(image):
    """A figure's width in percent of the text's."""
    return float(dict(image[0][2]).get("width", "100%").rstrip("%"))


def _write(document, code_hash, visit, writer, *arguments):
    suffix = {"html": "html", "latex": "tex"}.get(writer, "typ")
    options = ["--standalone", "--template", TEMPLATES / f"template.{suffix}", "-V", f"code-hash={code_hash}"]
    tree = json.dumps(walk(document.tree, visit))
    return pandoc(tree, "-f", "json", "-t", writer, *options, "--syntax-highlighting=none", *arguments)
