"""The paper's builder: what it refuses, and what every format has in common."""

import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zlib
from html.parser import HTMLParser

import pytest
from matplotlib import rc_context
from matplotlib.figure import Figure

from ocrrlib.files import ROOT, InputError
from paper import values
from paper.values import Value
from paper import render
from paper.build import build, bundle, pdf
from paper.document import parse
from paper.expand import expand
from tests.browser import browser, find

SOURCE = """\
---
title: A small paper
author:
  - name: Ada Example
    affiliation: Nowhere
abstract: |
  The abstract says {{accuracy}}.
date: 3.11.2026
lang: en-GB
---

# Start {#sec:start}

Prose says {{accuracy}} and {{cost.append}}, as @smith2020 did [@jones-2021, p. 3.5]. Look at @fig:curves, @tbl:small
and @sec:deeper; more is in @sec:more.[^note]

[^note]: A note, with {{loss}}.

![Curves that end at {{accuracy}}.](../figures/curves.pdf){#fig:curves width=80%}

## Deeper {#sec:deeper}

{{table:small columns="System,MB, start → end,Accuracy" caption="A small one, at {{accuracy}}."}}

Maths $x = 0.5$, `code 0.5` and @fig:bars.

![Bars.](../figures/bars.pdf){#fig:bars}

# More {#sec:more .appendix}

See @tbl:claims, @sec:last and @sec:start.

{{table:claims size=tiny long=yes}}

## Last {#sec:last}

The end.
"""
VALUES = {"accuracy": Value(0.8925), "loss": Value(-0.5, 1, "MB"), "cost.append": Value(3.84, 1, "µs")}
SMALL = """\
| System     | Unused   | Accuracy      | MB, start → end   | Change   |
|:-----------|:---------|:--------------|:------------------|:---------|
| `one_head` | x        | 0.893 ± 0.024 | 1.25              | -0.5     |
| two_heads  | y        | 0.925 ± 0.002 | 12.50             | +0.5     |

: The caption that the notebook wrote.
"""
WORDS = "said of the systems that were compared, in so many words that a cell must break its lines"
ROWS = 90
CLAIMS = "| Section | Claim | Printed | Found | Ours |\n|:---|:---|:---|:---|:---|\n" + "".join(
    f"| {1 + n // 10} | Claim {n} is {WORDS} {WORDS} | printed {n}, {WORDS} | {n / 100} | holds |\n"
    for n in range(ROWS)
)
BIBLIOGRAPHY = """\
@article{smith2020,
  author = {Smith, Anna}, title = {One Thing}, journal = {Things}, year = {2020}, url = {https://example.org/1.5},
}
@book{jones-2021, author = {Jones, Bo}, title = {Another Thing}, publisher = {Things}, year = {2021}}
"""
NUMBERS = {
    "sec:start": "Section 1",
    "sec:deeper": "Section 1.1",
    "sec:more": "Appendix A",
    "sec:last": "Appendix A.1",
    "fig:curves": "Figure 1",
    "fig:bars": "Figure 2",
    "tbl:small": "Table 1",
    "tbl:claims": "Table 2",
}
FORMATS = ("pdf", "html", "arxiv")
NEEDS_LATEX = pytest.mark.skipif(not shutil.which("pdflatex"), reason="the archive is compiled where there is pdflatex")
NEEDS_BROWSER = pytest.mark.skipif(not find(), reason="no Chromium is installed")


def write(folder, text=SOURCE):
    """All that a paper is made of but its figures, in ``folder``; the path of its source."""
    paper = folder / "paper"
    (paper / "tables").mkdir(parents=True)
    (paper / "ocrr.md").write_text(text, encoding="utf-8")
    (paper / "references.bib").write_text(BIBLIOGRAPHY, encoding="utf-8")
    (paper / "tables/small.md").write_text(SMALL, encoding="utf-8")
    (paper / "tables/claims.md").write_text(f"{CLAIMS}\n: All claims.\n", encoding="utf-8")
    values.write(VALUES, paper / "values/01_notebook.json")
    return paper / "ocrr.md"


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawn") / "figures"
    folder.mkdir()
    for name in ("curves", "bars"):
        figure = Figure(figsize=(4, 2))
        figure.subplots().set_title(name)
        with rc_context({"pdf.fonttype": 42}):
            figure.savefig(folder / f"{name}.pdf", metadata={"CreationDate": None})
        figure.savefig(folder / f"{name}.png")
    return folder


@pytest.fixture
def source(tmp_path, figures):
    shutil.copytree(figures, tmp_path / "figures")
    return write(tmp_path)


@pytest.fixture(scope="module")
def document(tmp_path_factory, figures):
    folder = tmp_path_factory.mktemp("paper")
    shutil.copytree(figures, folder / "figures")
    return parse(expand(write(folder)))


@pytest.fixture(scope="module")
def built(tmp_path_factory, figures):
    """The paper in all formats: their bytes, and the source's path."""
    folder = tmp_path_factory.mktemp("built")
    shutil.copytree(figures, folder / "figures")
    source = write(folder)
    paths = build(source, folder / "out", FORMATS, "0123abc")
    return source, {name: paths[name].read_bytes() for name in FORMATS}


@pytest.fixture(scope="module")
def page(document):
    return render.html(document, "0123abc")


def problems(source):
    with pytest.raises(InputError) as error:
        expand(source)
    return str(error.value).splitlines()


def change(source, old, new):
    text = source.read_text(encoding="utf-8")
    assert text.count(old) == 1
    source.write_text(text.replace(old, new), encoding="utf-8")
    return 1 + text[: text.index(old)].count("\n")


# What is refused


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("Prose says", "Prose says {{acuracy}} and", "unknown value 'acuracy' (did you mean 'accuracy'?)"),
        ("abstract says", "abstract says {{nothing}} and", "unknown value 'nothing'"),
        ("Curves that", "Curves {{nothing}} that", "unknown value 'nothing'"),
        ("A small one", "A {{nothing}} small one", "unknown value 'nothing'"),
        ("Prose says", "Prose says {{accuracy} and", "{{ without its like"),
        ("Prose says", "Prose {{table:small}} says", "a table stands on a line of its own"),
        ("$x = 0.5$", "$x = {{accuracy}}$", "{{accuracy}} stands in maths"),
        ("Prose says", "Prose says 0.5 and", "0.5 is typed by hand"),
        ("Prose says", "Prose says _0.5_ and", "0.5 is typed by hand"),
        ("Prose says", "Prose says **.5** and", ".5 is typed by hand"),
        ("Prose says", "Prose says 1,234.5 and", "1,234.5 is typed by hand"),
        ("Prose says", "Prose (Section 1.234) says", ".234 is typed by hand"),
        ("abstract says", "abstract says −12.5 % and", "12.5 % is typed by hand"),
        ("title: A small", "title: A 0.5 small", "0.5 is typed by hand"),
        ("# Start", "# Start at 0.5", "0.5 is typed by hand"),
        ("A note", "A note of 0.5", "0.5 is typed by hand"),
        ("Curves that", "Curves at 0.5 that", "0.5 is typed by hand"),
        ("A small one", "A small one at 0.5", "0.5 is typed by hand"),
        (', at {{accuracy}}."', ', at 0.5."', "0.5 is typed by hand"),
        ("Prose says", "Prose says @sec:deepr and", "unknown reference @sec:deepr (did you mean 'sec:deeper'?)"),
        ("Prose says", "Prose says @fig:nothing and", "unknown reference @fig:nothing"),
        ("Curves that", "Curves as in @tbl:nothing that", "unknown reference @tbl:nothing"),
        ("A small one", "One as in @fig:nothing", "unknown reference @fig:nothing"),
        ("Prose says", "Prose [see @sec:deeper] says", "@sec:deeper shares its brackets"),
        ("Prose says", "Prose [@sec:deeper; @smith2020] says", "@sec:deeper shares its brackets"),
        ("Prose says", "Prose says @smith2002 and", "citation @smith2002 is not in references.bib (did you mean"),
        ("abstract says", "abstract says [see @nobody] and", "citation @nobody is not in references.bib"),
        ("{{table:small ", "{{table:smal ", "unknown table 'smal' (did you mean 'small'?)"),
        ("{{table:small ", "{{table:../small ", "is not of the form"),
        ('columns="System,', 'columns="Sytem,', "table 'small' has no column 'Sytem' (did you mean 'System'?)"),
        ('columns="', 'colums="', "is not of the form columns="),
        ("size=tiny", "size=huge", "size=huge is unknown; there are: normal, small, tiny"),
        ("long=yes", "long=very", "long=very is unknown; there are: yes, no"),
        ("figures/bars.pdf", "figures/bar.pdf", "figure ../figures/bar.pdf is missing"),
        ("figures/bars.pdf", "figures/bars.png", "figure ../figures/bars.png is not a PDF"),
        ("{#fig:bars}", "", "figure ../figures/bars.pdf: write {#fig:name}"),
        ("{#fig:bars}", "{#fig:bars width=8cm}", "figure ../figures/bars.pdf: write {#fig:name}"),
        ("![Bars.]", "![]", "figure ../figures/bars.pdf has no caption"),
        ("## Deeper {#sec:deeper}", "## Deeper {#sec:start}", "sec:start is there already, in line 12"),
        ("{#fig:bars}", "{#fig:curves}", "fig:curves is there already, in line 19"),
        ("{{table:claims size=tiny long=yes}}", "{{table:small}}", "tbl:small is there already, in line 23"),
        ("Prose says", "Prose ✘ says", "'✘' (U+2718) is not known to LaTeX"),
    ],
)
def test_what_is_wrong_is_named_with_its_file_and_line(source, old, new, said):
    line = change(source, old, new)
    found = problems(source)
    assert any(text.startswith(f"{source}, line {line}: ") and said in text for text in found), found


@pytest.mark.parametrize(
    "text",
    [
        "`0.5` and ``a ` 0.5``",
        "$y = 0.5$ and $$z = 0.25$$",
        "```\nx = 0.5\n```",
        "~~~python\nx = {{0.5}}\n~~~",
        "<!-- 0.5, {{nothing}} and @fig:nothing -->",
        "On 3.11.2026.",
        "[@smith2020, Section 3.5]",
        "Section 5.1, Sections 4.3, 5.6 and 5.7, § 4.2, §4.2–4.4, Table A.1 and Appendix B.2.",
        "arXiv:2605.03153 and <https://example.org/0.5> and [a link](https://example.org/1.5)",
        "Qwen2.5, MiniLM-2.5 and v1.5 are names.",
        "1,024 rows, 99 % and 10⁶ bytes.",
        "a@example.org and recall@5",
        "a \\$ sign",
    ],
)
def test_what_is_no_result_may_be_typed(source, text):
    change(source, "The end.", f"The end.\n\n{text}\n")
    expand(source)


def test_a_value_that_nobody_shows_is_named_with_its_line_and_notebook(source):
    path = source.with_name("values") / "02_other.json"
    values.write({"never.shown": 1}, path)
    line = 1 + path.read_text().splitlines().index(' "never.shown": {')
    assert problems(source) == [
        f"{path}, line {line}: value 'never.shown' is never used; use it, or drop it from 02_other"
    ]


def test_a_value_in_code_is_not_shown(source):
    change(source, "{{cost.append}}", "`{{cost.append}}`")
    assert ["value 'cost.append' is never used" in text for text in problems(source)] == [True]


@pytest.mark.parametrize("old, new", [("@fig:bars", "bars"), ("Look at @fig:curves", "Look"), ("@tbl:claims, ", "")])
def test_a_figure_or_table_that_is_never_spoken_of_is_named_where_it_stands(source, old, new):
    change(source, old, new)
    id = {"@fig:bars": "fig:bars", "@tbl:claims, ": "tbl:claims"}.get(old, "fig:curves")
    place = "{{table:claims" if id == "tbl:claims" else f"{{#{id}"
    line = 1 + source.read_text()[: source.read_text().index(place)].count("\n")
    assert problems(source) == [
        f"{source}, line {line}: @{id} is never referred to in the text; speak of it or leave it out"
    ]


def test_a_caption_does_not_count_as_speaking_of_a_figure(source):
    change(source, "and @fig:bars", "")
    change(source, "A small one", "A small one beside @fig:bars")
    assert ["@fig:bars is never referred to" in text for text in problems(source)] == [True]


def test_a_figure_without_its_image_for_the_browser_is_named(source):
    (source.parent.parent / "figures/bars.png").unlink()
    assert ["figure ../figures/bars.png is missing" in text for text in problems(source)] == [True]


@pytest.mark.parametrize(
    "content, said",
    [
        (SMALL.replace("| x        |", "| x | x    |"), "small.md, line 3: 6 cells under 5 heads; write | as \\|"),
        ("", "small.md is no pipe table"),
        ("| A |\n|---|\n", "small.md is no pipe table"),
        ("Just words.\n", "small.md is no pipe table"),
    ],
)
def test_a_damaged_table_is_named(source, content, said):
    source.with_name("tables").joinpath("small.md").write_text(content)
    assert [said in text for text in problems(source)] == [True]


def test_a_table_needs_a_caption_from_somewhere(source):
    path = source.with_name("tables") / "small.md"
    path.write_text(SMALL.partition("\n\n:")[0])
    expand(source)
    change(source, ' caption="A small one, at {{accuracy}}."', "")
    assert ["table 'small' has no caption" in text for text in problems(source)] == [True]


def test_a_citation_that_is_defined_twice_is_named_in_its_own_file(source):
    path = source.with_name("references.bib")
    path.write_text(BIBLIOGRAPHY + "@book{smith2020, title = {Again}}\n")
    assert problems(source) == [f"{path}, line 5: smith2020 is there already, in line 1"]


def test_everything_that_is_wrong_is_said_at_once_in_order(source):
    lines = [change(source, "abstract says", "abstract says {{nothing}}"), change(source, "A note", "A note of 0.5")]
    lines += [
        change(source, "{{table:claims ", "{{table:claim "),
        change(source, "The end.", "The end of @sec:nothing."),
    ]
    found = [int(re.search(r"line (\d+)", text)[1]) for text in problems(source)]
    assert found == sorted(found) and set(found) >= set(lines)


@pytest.mark.parametrize("name", ["ocrr.md", "references.bib", "tables/small.md"])
def test_a_file_that_is_not_utf_8_is_named(source, name):
    (source.parent / name).write_bytes(b"caf\xe9")
    with pytest.raises(InputError, match="is not UTF-8") as error:
        expand(source)
    assert name in str(error.value)


def test_a_missing_source_is_named(tmp_path):
    with pytest.raises(InputError, match="nowhere.md"):
        build(tmp_path / "nowhere.md")


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("## Deeper {#sec:deeper}", "[Deeper]{#sec:deeper}", "line 21: sec:deeper gets no number here"),
        ("![Bars.]", "Words ![Bars.]", "line 27: fig:bars gets no number here"),
        ("The end.", "| A |\n|---|\n| 1 |\n", "a table has no id"),
        ("Prose says", "Prose [see [x](#y) and @sec:deeper] says", "@sec:deeper shares its brackets"),
    ],
)
def test_what_would_get_no_number_is_refused(source, old, new, said):
    change(source, old, new)
    with pytest.raises(InputError, match=re.escape(said)):
        parse(expand(source))


# What all formats have in common


def test_values_are_filled_in_everywhere(document, page):
    text = re.sub(r"<[^>]*>", "", page)
    assert "The abstract says 0.892." in text and "Prose says 0.892 and 3.8\N{NO-BREAK SPACE}µs" in text
    assert "Curves that end at 0.892." in text and "with −0.5\N{NO-BREAK SPACE}MB" in text
    latex = "".join(render.latex(document, "").values())
    for whole in (page, render.typst(document, ""), latex):
        assert "{{" not in re.sub(r"\\\w+\{\{|data:[^\"]*", "", whole) or whole is latex
        assert "accuracy}}" not in whole


def test_numbers_are_the_same_in_all_formats(document, page):
    assert {id: " ".join(name) for id, name in document.numbers.items()} == NUMBERS
    typst = render.typst(document, "")
    for id, name in NUMBERS.items():
        kind, number = name.split(" ")
        shown = f"{kind}\N{NO-BREAK SPACE}{number}"
        assert f'<a href="#{id}" class="reference">{shown}</a>' in page
        assert re.search(rf"#link\(<{id}>\)\[{kind}[~\N{{NO-BREAK SPACE}}]{re.escape(number)}\]", typst)
        if id.startswith("sec:"):
            assert re.search(rf'id="{id}"[^>]*>\s*<h\d[^>]*><span class="number">{number}</span>', page)
            assert re.search(rf"^=+ {re.escape(number)}\N{{EM SPACE}}[^=]*<{id}>", typst, re.MULTILINE)
        else:
            assert re.search(rf'id="{id}".*?<figcaption><span class="label">{shown}:</span>', page, re.DOTALL)
            assert re.search(rf"supplement: \[{shown}\].*?<{id}>", typst, re.DOTALL)
    assert latex_numbers(render.latex(document, "")) == {id: name.split(" ")[1] for id, name in NUMBERS.items()}


def latex_numbers(files):
    """The numbers that LaTeX gives, by label: counted in the order of the text."""
    text = re.sub(
        r"\\input\{(.*?)\}", lambda match: files[match[1]], files["ocrr.tex"].partition(r"\begin{document}")[2]
    )
    counts, numbers, last, appendix = {"figure": 0, "table": 0, "section": 0, "subsection": 0}, {}, "", False
    for word, kind, label in re.findall(
        r"\\(begin\{(figure|table|longtable)\}|section\{|subsection\{|appendix\b|label\{(.*?)\})", text
    ):
        if label:
            numbers[label] = last
        elif word == "appendix":
            appendix, counts["section"] = True, 0
        elif kind:
            counts[kind := kind.removeprefix("long")] += 1
            last = str(counts[kind])
        else:
            counts[word[:-1]] += 1
            counts["subsection"] *= word == "subsection{"
            first = chr(64 + counts["section"]) if appendix else str(counts["section"])
            last = f"{first}.{counts['subsection']}" if counts["subsection"] else first
    return numbers


def test_columns_are_chosen_and_numbers_set_to_the_right(document, page):
    table = re.search(r'<figure id="tbl:small".*?</figure>', page, re.DOTALL)[0]
    heads = re.findall(r'<th scope="col" class="(\w+)">(.*?)</th>', table)
    assert heads == [("left", "System"), ("right", "MB, start → end"), ("right", "Accuracy")]
    assert re.findall(r'<td class="(\w+)">(.*?)</td>', table)[0] == ("right", "1.25")
    assert '<th scope="row" class="left"><code>one_head</code></th>' in table and "Unused" not in table
    assert "0.893\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.024" in table
    assert "align: (left, right, right,)" in render.typst(document, "")
    assert "{@{}lrr@{}}" in render.latex(document, "")["tables/small.tex"]


def test_without_a_choice_all_columns_are_there_with_the_notebook_s_caption(source):
    change(source, ' columns="System,MB, start → end,Accuracy" caption="A small one, at {{accuracy}}."', "")
    page = render.html(parse(expand(source)), "")
    table = re.search(r'<figure id="tbl:small".*?</figure>', page, re.DOTALL)[0]
    assert re.findall(r"<th scope=\"col\"[^>]*>(.*?)</th>", table) == [
        "System", "Unused", "Accuracy", "MB, start → end", "Change",
    ]  # fmt: skip
    assert "The caption that the notebook wrote." in table
    assert "−0.5" in table and "+0.5" in table


def test_a_long_table_breaks_between_rows_in_print_and_is_whole_on_the_page(document, page):
    latex = render.latex(document, "")["tables/claims.tex"]
    assert r"\begin{longtable}" in latex and r"\begin{table}" not in latex and latex.count(r"\endhead") == 1
    assert len(pdf(document, "", format="png", ppi=10)) > 4
    assert page.count("<tr") == 1 + 2 + 1 + ROWS
    assert all(f"Claim {n} is said" in text for text in (page, latex) for n in range(ROWS))


@pytest.mark.parametrize(
    "table, said",
    [
        (CLAIMS, "tbl:claims is higher than a page: choose long=yes"),
        (
            "| A " * 40 + "|\n" + "| --- " * 40 + "|\n" + "| 12.34 ± 0.5 " * 40 + "|\n",
            "tbl:claims is too wide for a page: choose some of its columns",
        ),
    ],
)
def test_a_table_that_cannot_be_set_is_named_with_a_way_out(source, table, said):
    source.with_name("tables").joinpath("claims.md").write_text(f"{table}\n: A caption.\n")
    change(source, " size=tiny long=yes", "")
    with pytest.raises(InputError, match=said):
        build(source, formats=["pdf"])


# The page


class Elements(HTMLParser):
    """All elements as (tag, attributes), and the style sheet."""

    def __init__(self, text):
        super().__init__()
        self.found, self.style, self.inside = [], "", ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        self.inside = tag

    def handle_data(self, data):
        self.style += data if self.inside == "style" else ""

    def all(self, tag):
        return [attributes for name, attributes in self.found if name == tag]


def test_the_page_asks_for_nothing_outside(page):
    elements = Elements(page)
    assert not {"link", "script", "iframe", "object", "base"} & {tag for tag, _ in elements.found}
    assert all(about["src"].startswith("data:image/png;base64,") for _, about in elements.found if "src" in about)
    assert not re.search(r"@import|url\(", elements.style)
    outside = [about["href"] for _, about in elements.found if not about.get("href", "#").startswith("#")]
    assert outside == re.findall(r'href="(http[^"]*)"', page[page.index('id="refs"') :]) == ["https://example.org/1.5"]


def test_the_page_can_be_read_by_everybody(page):
    elements = Elements(page)
    assert elements.all("html")[0]["lang"] == "en-GB"
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in elements.all("meta")
    assert {"name": "author", "content": "Ada Example"} in elements.all("meta")
    assert len(elements.all("h1")) == len(elements.all("main")) == len(elements.all("title")) == 1
    assert [about["alt"] for about in elements.all("img")] == ["Curves that end at 0.892.", "Bars."]
    assert elements.all("th") and all(about["scope"] in ("col", "row") for about in elements.all("th"))
    ids = [about["id"] for _, about in elements.found if "id" in about]
    assert len(ids) == len(set(ids))
    assert {about["href"][1:] for about in elements.all("a") if about["href"].startswith("#")} <= set(ids)
    levels = [int(tag[1]) for tag, _ in elements.found if re.fullmatch(r"h\d", tag)]
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:]))


@NEEDS_BROWSER
def test_on_a_phone_tables_scroll_within_their_boxes(built, tmp_path):
    path = tmp_path / "ocrr.html"
    path.write_bytes(built[1]["html"])
    with browser() as tab:
        tab.show(width=360, height=640)
        tab.open(path.as_uri())
        assert tab.errors == [] and all(url.startswith(("file:", "data:")) for url in tab.requests)
        assert tab.run("document.documentElement.scrollWidth") == 360
        assert tab.run("(e => e.scrollWidth > e.clientWidth)(document.querySelector('[id=\"tbl:claims\"] .scroll'))")


# Bytes


def test_the_bytes_depend_on_nothing_but_the_inputs(built, tmp_path):
    source, first = built
    home = tmp_path / "home"
    for folder in (home / ".local/share/pandoc", home / ".pandoc", home / "pandoc"):
        (folder / "templates").mkdir(parents=True)
        (folder / "default.csl").write_text("no style")
        (folder / "abbreviations").write_text("says\n")
        for name in ("typst", "html5", "latex"):
            (folder / f"templates/default.{name}").write_text("another template")
    stranger = tmp_path / "bin/pandoc"
    stranger.parent.mkdir()
    stranger.write_text("#!/bin/sh\necho pandoc 99.9\n")
    stranger.chmod(0o755)
    settings = {"SOURCE_DATE_EPOCH": "1", "TZ": "Asia/Kathmandu", "LANG": "tr_TR.UTF-8", "LC_ALL": "C"}
    settings |= {"HOME": str(home), "XDG_DATA_HOME": str(home), "PYPANDOC_PANDOC": str(stranger)}
    settings |= {"PATH": f"{stranger.parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "paper.build", "--source", source, "--out", "new", "--code-hash", "0123abc"]
    run = subprocess.run(command, cwd=tmp_path, env=os.environ | settings, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    names = ["ocrr.pdf", "ocrr.html", "ocrr-arxiv.tar.gz"]
    assert run.stdout.split() == [str(os.path.join("new", name)) for name in names]
    assert {path.name for path in (tmp_path / "new").iterdir()} == set(names)
    for name, format in zip(names, FORMATS):
        assert (tmp_path / "new" / name).read_bytes() == first[format]


def test_the_command_says_what_is_wrong_and_fails(source):
    change(source, "Prose says", "Prose says 0.5")
    command = [sys.executable, "-m", "paper.build", "--source", source, "--formats", "html", "--code-hash", "0"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 1 and run.stderr.startswith(f"error: {source}, line 14: 0.5 is typed by hand")


def test_a_changed_value_changes_all_formats(built, tmp_path):
    source = tmp_path / "paper/ocrr.md"
    shutil.copytree(built[0].parent.parent, tmp_path, dirs_exist_ok=True)
    values.write(VALUES | {"accuracy": Value(0.111)}, source.with_name("values") / "01_notebook.json")
    for name, path in build(source, code_hash="0123abc").items():
        assert path.read_bytes() != built[1][name]


def test_all_fonts_are_in_the_pdf(built):
    objects = pdf_dictionaries(built[1]["pdf"])
    fonts = [text for text in objects if re.search(rb"/Type\s*/Font\b", text)]
    kinds = {re.search(rb"/Subtype\s*/(\w+)", font)[1] for font in fonts}
    assert kinds >= {b"Type0"}
    assert all(re.search(rb"/Subtype\s*/Type0\b|/FontDescriptor\b", font) for font in fonts)  # a composite has others
    descriptors = [text for text in objects if re.search(rb"/Type\s*/FontDescriptor\b", text)]
    assert len(descriptors) > 3 and all(re.search(rb"/FontFile[23]?\b", text) for text in descriptors)


def pdf_dictionaries(content):
    """All dictionaries of a PDF, those in compressed object streams too."""
    stream = re.compile(rb"stream\r?\n(.*?)\r?\n?endstream", re.DOTALL)
    parts = [stream.sub(b"", content)]
    for packed in re.findall(rb"/ObjStm.{0,200}?stream\r?\n(.*?)endstream", content, re.DOTALL):
        parts.append(zlib.decompressobj().decompress(packed))
    found = []
    for part in parts:
        starts = []
        for match in re.finditer(rb"<<|>>", part):
            if match[0] == b"<<":
                starts.append(match.start())
            elif starts:
                found.append(part[starts.pop() : match.end()])
    return found


# The archive for arXiv


@pytest.fixture(scope="module")
def files(built):
    with tarfile.open(fileobj=io.BytesIO(built[1]["arxiv"])) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def test_the_archive_has_all_that_the_paper_reads_and_nothing_else(files):
    text = files["ocrr.tex"].decode()
    read = re.findall(r"\\(?:input|includegraphics)(?:\[[^\]]*\])?\{([^#}]*)\}", text)
    assert sorted(read) == ["figures/bars.pdf", "figures/curves.pdf", "tables/claims.tex", "tables/small.tex"]
    assert sorted(files) == sorted([*read, "ocrr.tex", "ocrr.bbl"])
    assert r"\bibliography{" in text and r"\bibitem[]{smith2020}" in files["ocrr.bbl"].decode()
    assert files["figures/bars.pdf"].startswith(b"%PDF")


def test_the_archive_says_nothing_of_who_made_it_and_when(built):
    packed = built[1]["arxiv"]
    assert packed[4:8] == bytes(4)  # the time in the header
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(packed))) as archive:
        assert {(m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode) for m in archive} == {(0, 0, 0, "", "", 0o644)}


@NEEDS_LATEX
def test_the_archive_compiles_and_latex_counts_as_the_other_formats_do(files, tmp_path):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    for _ in range(2):
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "ocrr.tex"]
        run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
        assert run.returncode == 0, run.stdout[-3000:]
    log = (tmp_path / "ocrr.log").read_text(errors="replace")
    assert not re.search(r"undefined|multiply|Overfull \\hbox \((?!\d\.)", log)
    numbers = dict(
        re.findall(r"\\newlabel\{((?:sec|fig|tbl):[^}]*)\}\{\{([^}]*)\}", (tmp_path / "ocrr.aux").read_text())
    )
    assert numbers == {id: name.split(" ")[1] for id, name in NUMBERS.items()}


# Whole or not at all


def test_a_failed_build_leaves_older_files_as_they_were(source):
    out = source.parent.parent / "out"
    out.mkdir()
    for name in ("ocrr.pdf", "ocrr.html", "ocrr-arxiv.tar.gz"):
        (out / name).write_text("older")
    (source.parent.parent / "figures/bars.pdf").write_text("no PDF")  # nothing but Typst finds that out
    with pytest.raises(InputError, match="Typst"):
        build(source, out, ("html", "arxiv", "pdf"))
    change(source, "Prose says", "Prose says 0.5")
    with pytest.raises(InputError, match="typed by hand"):
        build(source, out, ("html", "arxiv", "pdf"))
    assert {path.name: path.read_text() for path in out.iterdir()} == {
        name: "older" for name in ("ocrr.pdf", "ocrr.html", "ocrr-arxiv.tar.gz")
    }


def test_only_the_formats_that_are_asked_for_are_written(source, tmp_path):
    assert build(source, tmp_path / "out", ["html"]) == {"html": tmp_path / "out/ocrr.html"}
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["ocrr.html"]


def test_an_unknown_format_is_named(source, tmp_path):
    with pytest.raises(InputError, match="unknown format 'htm' \\(did you mean 'html'\\?\\)"):
        build(source, tmp_path / "out", ["htm"])
    assert not (tmp_path / "out").exists()


def test_a_paper_without_date_hash_figures_tables_or_references_is_one(tmp_path):
    source = tmp_path / "plain.md"
    source.write_text("---\ntitle: Plain\n---\n\n# Only {-}\n\nThe word Cite, and nothing else.\n")
    paths = build(source)
    assert [path.name for path in paths.values()] == ["plain.pdf", "plain.html", "plain-arxiv.tar.gz"]
    assert "References" not in paths["html"].read_text() and "results:" not in paths["html"].read_text()


def test_the_bundle_is_the_same_twice(document):
    assert bundle(document, "0") == bundle(document, "0")
