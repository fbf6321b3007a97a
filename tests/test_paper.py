"""The paper's builder: what it refuses, and what every format has in common."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup

from ocrrlib.files import ROOT, InputError, write_text
from paper.build import build, expand, makers, pdf
from paper.document import html, latex, parse, typst
from tests.browser import browser, find

SMALL = Path(__file__).with_name("small_paper")
SOURCE = (SMALL / "ocrr.md").read_text(encoding="utf-8")
QUOTES = """
accuracy: one('table_numbers', 'value', name='accuracy')
loss: one('table_numbers', 'value', name='loss') | 1 MB
cost.{name}: one('table_numbers', 'value', name=name) | 1 µs
"""
NUMBERS_CSV = "name,value\naccuracy,0.8925\nloss,-0.5\nappend,3.84\n"
CLAIMS = "| Section | Claim | Printed | Found |\n|:---|:---|:---|:---|\n"
CLAIMS += "".join(
    f"| {n // 10} | Claim {n} is {'said, ' * 30} | {'so and ' * 12} | {n / 100} |\n"
    for n in range(90)
)
CLAIMS += "\n: All claims.\n"
NUMBERS = {
    "sec:start": "Section 1",
    "sec:deeper": "Section 1.1",
    "sec:more": "Section 2",
    "sec:last": "Section 2.1",
}
NUMBERS |= {
    "fig:curves": "Figure 1",
    "fig:bars": "Figure 2",
    "tbl:small": "Table 1",
    "tbl:claims": "Table 2",
}
DOCUMENTS = ("ocrr", "supplement")
NAMES = [*(f"{name}.{kind}" for name in DOCUMENTS for kind in ("pdf", "html")), "ocrr-arxiv.tar.gz"]
FORMATS = ["pdf", "html", "arxiv"]


def write(folder):
    """Write a small paper with all that it is made of; the path of its source."""
    shutil.copytree(SMALL, folder / "paper")
    (folder / "paper/tables/claims.md").write_text(CLAIMS)
    (folder / "figures").mkdir()
    for name in ("curves.pdf", "curves.png", "bars.pdf", "bars.png"):
        shutil.copy(ROOT / f"figures/vote_ablation{name[-4:]}", folder / "figures" / name)
    cell = nbformat.v4.new_code_cell("draw()", metadata={"tags": ["curves", "small"]})
    (folder / "notebooks").mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), folder / "notebooks/03_draw.ipynb")
    (folder / "paper/quotes.yml").write_text(QUOTES)
    (folder / "paper/tables/table_numbers.csv").write_text(NUMBERS_CSV)
    return folder / "paper/ocrr.md"


@pytest.fixture
def source(tmp_path):
    return write(tmp_path)


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    folder = write(tmp_path_factory.mktemp("small")).parent
    return parse(expand(folder), folder, makers(folder.parent / "notebooks"))


@pytest.fixture(scope="module")
def paper(papers):
    return papers["ocrr"]


def marked(document):
    """A document as HTML, for Typst and for LaTeX."""
    return html(document).decode(), typst(document), latex(document)


@pytest.fixture(scope="module")
def markup(paper):
    return marked(paper)


def change(source, old, new):
    write_text(source, SOURCE.replace(old, new))
    return 1 + SOURCE[: SOURCE.index(old)].count("\n")


@pytest.mark.parametrize(
    "old, new, said",
    [
        (
            "Prose says",
            "Prose says {{acuracy}} and",
            "unknown quote 'acuracy' (did you mean 'accuracy'?)",
        ),
        ("Prose says", "Prose says {{accuracy} and", "unexpected '}'"),
        ("Prose says", "Prose says 0.5 and", "0.5 is typed by hand"),
        ("abstract says", "abstract says −12.5 % and", "12.5 is typed by hand"),
        ("Curves that", "Curves at 0.5 that", "0.5 is typed by hand"),
        ('table("small"', 'table("smal"', "unknown table 'smal'"),
        (
            '"Accuracy"]',
            '"Acuracy"]',
            "unknown column of small 'Acuracy' (did you mean 'Accuracy'?)",
        ),
        (
            '"Accuracy"]',
            '"Accuracy"], where={"System": "none"}',
            "no row of table 'small' has 'none'",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_file_and_line(source, old, new, said):
    line = change(source, old, new)
    with pytest.raises(InputError, match=re.escape(f"{source}, line {line}: ")) as error:
        expand(source.parent)
    assert said in str(error.value)


@pytest.mark.parametrize("unknown", ["sec:deepr", "tbl:none", "smith"])
def test_an_unknown_reference_or_citation_is_named(source, unknown):
    change(source, "The end.", f"The end of @{unknown}.")
    with pytest.raises(InputError, match=unknown):
        parse(expand(source.parent), source.parent)


def test_a_quote_that_nobody_shows_is_named(source):
    quotes = source.with_name("quotes.yml")
    quotes.write_text(QUOTES + "never.shown: len(cells('table_numbers', 'value'))")
    with pytest.raises(InputError, match="quotes.yml: 'never.shown' is never used"):
        expand(source.parent)
    supplement = source.with_name("supplement.md")
    write_text(supplement, supplement.read_text() + "\n{{never.shown}}\n")
    assert "never" not in expand(source.parent)["supplement"]


def test_an_id_in_both_documents_is_named(source):
    supplement = source.with_name("supplement.md")
    write_text(supplement, supplement.read_text().replace("sec:details", "sec:deeper"))
    with pytest.raises(InputError, match="sec:deeper is in more than one document"):
        parse(expand(source.parent), source.parent)


def test_a_failed_build_leaves_older_files_as_they_were(source, tmp_path):
    out = tmp_path / "out"
    for name in NAMES:
        write_text(out / name, "older")
    (tmp_path / "figures/bars.pdf").write_text("no PDF")  # nothing but Typst finds that out
    with pytest.raises(InputError, match="Typst"):
        build(source.parent, out, ["html", "arxiv", "pdf"])
    assert {path.name: path.read_text() for path in out.iterdir()} == dict.fromkeys(NAMES, "older")


@pytest.mark.parametrize(
    "table, said", [(CLAIMS, "higher than a page"), (None, "too wide for a page")]
)
def test_a_table_that_cannot_be_set_is_named_with_a_way_out(source, table, said):
    wide = "\n".join(f"{cell * 40}|" for cell in ("| A ", "| --- ", "| 12.34 ± 0.5 "))
    source.with_name("tables").joinpath("claims.md").write_text(
        f"{table or wide}\n\n: A caption.\n"
    )
    change(source, ', size="tiny", long=true', "")
    with pytest.raises(InputError, match=f"tbl:claims is {said}"):
        build(source.parent, formats=["pdf"])


def test_quotes_are_filled_in_everywhere(markup):
    text = re.sub(r"<[^>]*>", "", markup[0])
    for shown in (
        "The abstract says 0.892.",
        "Prose says 0.892 and 3.8\xa0",
        "end at 0.892",
        "with −0.5\xa0MB",
    ):
        assert shown in text and all(shown.replace("\xa0", "~") in marked for marked in markup[1:])


@pytest.mark.parametrize("id, name", NUMBERS.items())
def test_numbers_and_references_are_the_same_in_all_formats(id, name, markup):
    page, printed, bundled = markup
    shown = name.replace(" ", "\xa0")
    marked = name.replace(" ", "~")
    head = f"{name.split()[1]}\N{EM SPACE}"
    assert f'<a href="#{id}" class="reference">{shown}</a>' in page
    assert rf"\hyperref[{id}]{{{marked}}}" in bundled and f"#link(<{id}>)[{marked}]" in printed
    if id.startswith("sec:"):
        assert re.search(rf'id="{id}"[^>]*>\s*<h\d[^>]*>{head}', page)
        assert re.search(rf"section\{{{head}\w+\}}\\label\{{{id}\}}", bundled)
        assert re.search(rf"^=+ {head}\w+\s*<{id}>", printed, re.MULTILINE)
    else:
        assert re.search(rf'id="{id}".*?<figcaption><strong>{shown}:</strong>', page, re.DOTALL)
        assert rf"\textbf{{{marked}:}}" in bundled and f"#strong[{marked}:]" in printed


def test_documents_refer_to_each_other_by_their_own_numbers(papers):
    page, printed, bundled = marked(papers["supplement"])
    assert '<a href="ocrr.html#sec:start" class="reference">Section\xa01</a>' in page
    assert '#link("ocrr.pdf")[Figure~1]' in printed and r"\href{ocrr.pdf}{Figure~1}" in bundled
    assert '<a href="#tbl:rows" class="reference">Table\xa0S1</a>' in page
    assert (
        '<a href="supplement.html#sec:details" class="reference">Section\xa0S1</a>'
        in html(papers["ocrr"]).decode()
    )


def test_rows_are_chosen_by_their_cells(papers):
    table = BeautifulSoup(html(papers["supplement"]), "html.parser").find(id="tbl:rows")
    assert [row.td.text for row in table.tbody.find_all("tr")] == ["one_head"]


def test_figures_and_tables_link_to_the_cells_that_make_them(papers):
    page, printed, bundled = marked(papers["ocrr"])
    made = BeautifulSoup(page, "html.parser")
    for id, name in (("fig:curves", "curves"), ("tbl:small", "small")):
        link = made.find(id=id).find(class_="maker").a
        assert link["href"] == f"notebooks/03_draw.html#{name}" and link.text == "notebook\xa003"
        assert f'"notebooks/03_draw.html#{name}"' in printed
    assert bundled.count("(notebook~03)") == 2 and not made.find(id="fig:bars").find(class_="maker")


def test_columns_are_chosen_numbers_set_to_the_right_and_long_tables_whole(paper, markup):
    page, printed, bundled = markup
    table = re.search(r'id="tbl:small".*?</figure>', page, re.DOTALL)[0]
    heads = re.findall(r'<th style="text-align: (\w+);">(.*?)</th>', table)
    assert heads == [("left", "System"), ("right", "MB, start → end"), ("right", "Accuracy")]
    assert "<code>one_head</code>" in table and "0.893\xa0±\xa00.024" in table and "−12.50" in table
    assert r"\settable{LRR}" in bundled and "align: (left, right, right,)" in printed
    assert all(f"Claim {n} is said" in text for text in (page, bundled) for n in range(90))
    assert len(pdf(paper, format="png", ppi=10)) > 4


def test_the_page_asks_for_nothing_outside_and_can_be_read_by_everybody(markup):
    made = BeautifulSoup(markup[0], "html.parser")
    assert not made.find_all(["link", "script", "iframe", "object", "embed", "base"])
    assert not re.search(r"@import|url\(", str(made))
    assert all(
        found["src"].startswith("data:image/png;base64,") for found in made.find_all(src=True)
    )
    assert [image["alt"][:9] for image in made.find_all("img")] == ["Curves th", "Bars."]
    assert made.html["lang"] == "en-GB" and all(
        len(made.find_all(tag)) == 1 for tag in ("h1", "main", "title")
    )
    ids = [found["id"] for found in made.find_all(id=True)]
    assert len(ids) == len(set(ids))
    assert {link["href"][1:] for link in made.find_all("a") if link["href"].startswith("#")} <= set(
        ids
    )


@pytest.mark.slow
@pytest.mark.skipif(not find(), reason="no Chromium is installed")
def test_on_a_phone_tables_scroll_within_their_boxes(source):
    with browser() as tab:
        tab.show(width=400, height=700)
        tab.open(build(source.parent, formats=["html"])["ocrr.html"].as_uri())
        assert tab.errors == [] and all(url.startswith(("file:", "data:")) for url in tab.requests)
        assert tab.run("document.documentElement.scrollWidth") == 400
        assert tab.run(
            "(e => e.scrollWidth > e.clientWidth)"
            "(document.querySelector('[id=\"tbl:claims\"] .scroll'))"
        )


@pytest.mark.published
def test_the_bytes_depend_on_nothing_but_the_inputs(source, tmp_path):
    first = build(source.parent, tmp_path / "out", FORMATS)
    home = tmp_path / "home"
    write_text(home / "pandoc/default.csl", "no style")
    settings = {
        "TZ": "Asia/Kathmandu",
        "LC_ALL": "C",
        "PYTHONPATH": ROOT,
        "HOME": home,
        "XDG_DATA_HOME": home,
    }
    folder = str(source.parent)
    program = f"from paper.build import build; build({folder!r}, 'new', {FORMATS})"
    subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=os.environ | settings, check=True
    )
    assert first.keys() == {*NAMES}
    for name, path in first.items():
        assert (tmp_path / "new" / name).read_bytes() == path.read_bytes()
    with tarfile.open(first["ocrr-arxiv.tar.gz"]) as archive:
        assert {(m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode) for m in archive} == {
            (0, 0, 0, "", "", 0o644)
        }
        figures = ["figures/bars.pdf", "figures/curves.pdf"]
        assert archive.getnames() == [*figures, "ocrr.tex", "supplement.tex"]


@pytest.mark.slow
@pytest.mark.parametrize("real", [False, True], ids=["small", "ours"])
def test_every_font_is_in_the_pdf_and_the_archive_compiles(real, source, tmp_path):
    paths = build(ROOT / "paper" if real else source.parent, tmp_path / "out", FORMATS)
    if shutil.which("pdffonts"):
        for name in DOCUMENTS:
            fonts = subprocess.run(
                ["pdffonts", paths[f"{name}.pdf"]], capture_output=True, text=True, check=True
            ).stdout
            assert all(line.split()[-5] == "yes" for line in fonts.splitlines()[2:])
    if not shutil.which("pdflatex"):
        pytest.skip("the archive is compiled where there is pdflatex")
    with tarfile.open(paths["ocrr-arxiv.tar.gz"]) as packed:
        packed.extractall(tmp_path / "tex", filter="data")
    for name in DOCUMENTS:
        for _ in range(2):
            command = f"pdflatex -interaction=nonstopmode -halt-on-error {name}.tex"
            run = subprocess.run(
                command.split(),
                cwd=tmp_path / "tex",
                capture_output=True,
                text=True,
                errors="replace",
            )
            assert run.returncode == 0, run.stdout[-3000:]
        log = (tmp_path / f"tex/{name}.log").read_text(errors="replace")
        assert not re.search(r"undefined|multiply|Overfull \\hbox \(\d\d|Float too large", log)


@pytest.mark.published
def test_the_paper_is_short():
    text = expand(ROOT / "paper")["ocrr"]
    abstract = re.search(r"^abstract: \|\n((?:  .*\n)+)", text, re.MULTILINE)[1]
    assert len(abstract.split()) <= 180
    assert len(re.findall(r"\d[\d.,]*", abstract)) <= 6
    assert len(re.findall(r"\{#fig:", text)) <= 6
    assert len(re.findall(r"\{#tbl:", text)) <= 4


@pytest.mark.slow
def test_the_paper_without_its_references_has_at_most_twelve_pages():
    folder = ROOT / "paper"
    text = expand(folder)
    text["ocrr"] = text["ocrr"].partition("# References")[0]
    paper = parse(text, folder)["ocrr"]
    assert len(pdf(paper, format="png", ppi=10)) <= 12
