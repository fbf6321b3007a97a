"""The site: built by Sphinx from two executed notebooks, read in headless Chromium."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from urllib.parse import unquote, urldefrag

import nbformat
import pytest
from bs4 import BeautifulSoup

from ocrrlib.files import ROOT
from paper.quotes import Quotes

pytestmark = pytest.mark.slow
BOOKS = ("00_tour", "05_vote_ablation")
WIDGET = "application/vnd.jupyter.widget-view+json"
PAPER = '<!doctype html><meta name="viewport" content="width=device-width"><h1>OCRR</h1>'
OUTPUTS = [
    nbformat.v4.new_output("stream", name="stdout", text="a line\n"),
    nbformat.v4.new_output("display_data", {"text/plain": "Desk()", WIDGET: {"model_id": "1"}}),
    nbformat.v4.new_output(
        "display_data", {"text/plain": "x", "text/markdown": "| a | b |\n|---|---|\n| 1 | 2 |"}
    ),
    nbformat.v4.new_output(
        "display_data", {"text/plain": "x", "text/html": f"<table><td>{'wide ' * 99}</table>"}
    ),
]
PAGES = (
    *"index reproduction claims leaderboard live figures tables notebooks protocol map".split(),
    *"api checklist paper references ocrr search genindex".split(),
    *(f"notebooks/{name}" for name in BOOKS),
    "05_vote_ablation",
)


def executed(path, folder):
    """Write a notebook with outputs of every kind in its first cell of code."""
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata.widgets = {"application/vnd.jupyter.widget-state+json": {"state": {"1": {}}}}
    next(cell for cell in notebook.cells if cell.cell_type == "code").outputs = OUTPUTS
    nbformat.write(notebook, folder / path.name)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Folder of the site of a checkout with the published results and two notebooks."""
    source = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("notebooks", "made")
    shutil.copytree(ROOT / "docs", source / "docs", ignore=ignored)
    for name in ("figures", "ocrrlib", "ocrr", "memory", "studies", "data", "CITATION.cff"):
        (source / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "paper", source / "paper")
    for name in ("ocrr", "supplement"):
        (source / f"paper/{name}.html").write_text(PAPER)
    (source / "build/notebooks").mkdir(parents=True)
    for name in BOOKS:
        executed(ROOT / f"notebooks/{name}.ipynb", source / "build/notebooks")
    for name in ("figures", "products", "reproduction"):  # links to notebooks not built here
        page = source / f"docs/{name}.md"
        links = re.sub(r"(\[[^]]*\])\(\.\./notebooks/(?!05)\w+\.ipynb\)", r"\1", page.read_text())
        page.write_text(links)
    command = [sys.executable, *"-m sphinx -W --keep-going -q -b html docs build/site".split()]
    run = subprocess.run(command, cwd=source, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return source / "build/site"


@pytest.fixture(scope="module")
def pages(site):
    """Links and anchors of each page."""
    found = {}
    for path in set(site.rglob("*.html")) - set(site.glob("_static/**/*")):
        tags = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser").find_all(True)
        links = [tag[name] for tag in tags for name in ("href", "src") if tag.get(name)]
        found[path] = links, {tag.get(name) for tag in tags for name in ("id", "name")}
    return found


def test_links_inside_the_site_lead_somewhere(site, pages):
    broken = []
    for path, (links, _) in pages.items():
        for link in links:
            if (
                re.match(r"\w+:", link)
                or path.name in ("search.html", "genindex.html")
                and link == "#"
            ):
                continue
            address, anchor = urldefrag(link)
            target = (
                (path.parent / unquote(address.partition("?")[0])).resolve() if address else path
            )
            lost = anchor and target in pages and not {anchor, unquote(anchor)} & pages[target][1]
            broken += [f"{path.relative_to(site)}: {link}"] if lost or not target.exists() else []
    assert broken == []


@pytest.mark.parametrize(
    "places, published",
    [(["figures"], "figures/*.png"), (["tables", "reproduction"], "paper/tables/*.csv")],
)
def test_every_figure_and_table_is_shown(places, published, site, pages):
    links = [link for place in places for link in pages[site / f"{place}.html"][0]]
    shown = {link.rpartition("/")[2] for link in links}
    assert {path.name for path in ROOT.glob(published)} <= shown


@pytest.mark.parametrize("name", BOOKS)
def test_a_notebook_opens_in_jupyterlab_and_as_one_file(name, site, pages):
    links = " ".join(pages[site / f"notebooks/{name}.html"][0])
    assert (
        f"http://localhost:8888/lab/tree/notebooks/{name}.ipynb" in links
        and f"../{name}.html" in links
    )


def test_the_gallery_leads_to_every_notebook_and_a_figure_or_table_to_the_cell_that_makes_it(
    site, pages
):
    links = pages[site / "notebooks.html"][0]
    assert {f"notebooks/{name}.html" for name in BOOKS} <= {*links}
    anchors = pages[site / "notebooks/05_vote_ablation.html"][1]
    assert {"vote_ablation", "table_vote_ablation", "table_ties"} <= anchors


@pytest.mark.parametrize("repository", [None, "someone/their.fork"])
def test_a_notebook_opens_in_binder_if_the_repository_is_known(repository, tmp_path):
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs/conf.py", tmp_path / "docs")
    cited = f"repository-code: https://github.com/{repository}\n" if repository else ""
    (tmp_path / "CITATION.cff").write_text(f"title: x\n{cited}")
    buttons = runpy.run_path(str(tmp_path / "docs/conf.py"))["BUTTONS"]
    assert ("Binder" in buttons) == bool(repository) and "OWNER" not in buttons
    assert repository is None or f"/gh/{repository}/HEAD?urlpath=lab/tree/notebooks/" in buttons


def test_tables_of_a_notebook_are_html_and_widgets_are_left_out(site):
    text = (site / "notebooks/05_vote_ablation.html").read_text(encoding="utf-8")
    assert "<td><p>1</p></td>" in text and "| 1 |" not in text and "Desk()" not in text


@pytest.mark.parametrize("width", (400, 1300))
@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_its_window_and_requests_nothing_elsewhere(page, width, site, tab):
    tab.show(width=width, height=900)
    tab.open((site / f"{page}.html").as_uri())
    foreign = [url for url in tab.requests if not url.startswith((site.as_uri(), "data:", "blob:"))]
    complaints = [
        error for error in tab.errors if "[PST]" not in error and "theme mode" not in error
    ]
    assert foreign == [] and complaints == []
    assert tab.run("document.documentElement.scrollWidth") <= tab.run("innerWidth") == width


def test_the_first_page_has_one_figure_six_systems_and_no_key_without_its_value(site):
    page = BeautifulSoup((site / "index.html").read_text(encoding="utf-8"), "html.parser").article
    assert len(page.select("figure img")) == 1 and len(page.select(".systems tbody tr")) == 6
    assert "{{" not in page.text and Quotes().text("claims.total") in page.text


def test_a_key_moves_the_slider_of_the_first_page_and_its_bars(site, tab):
    tab.open((site / "index.html").as_uri())
    shown = "[...document.querySelectorAll('.slider .bar')].map(bar => parseFloat(bar.textContent))"
    told = "parseInt(document.querySelector('.slider output').value)"
    before, corrections = tab.run(shown), tab.run(told)
    tab.run("document.querySelector('.slider input').focus()")
    for _ in range(3):
        tab.press("ArrowUp")
    assert tab.run(told) > corrections and len(before) == 8
    after = tab.run(shown)
    assert all(after[place] >= before[place] for place in (0, 2, 4, 6)) and after != before


def test_the_leaderboard_is_read_on_a_narrow_window_a_tab_at_a_time(site, tab):
    tab.show(width=400, height=900)
    tab.open((site / "leaderboard.html").as_uri())
    shown = "[...document.querySelectorAll('.tabs section')].map(one => one.offsetHeight > 0)"
    assert tab.run(shown) == [True] + 8 * [False]
    tab.click(".tabs label:nth-of-type(5)")
    assert tab.run(shown) == 4 * [False] + [True] + 4 * [False]
    box = "document.querySelector('.tabs section:nth-of-type(5) .box')"
    edges = "{}.querySelectorAll('tbody tr:first-child > *')[{}].getBoundingClientRect().{}"
    assert tab.run(edges.format(box, 5, "right")) <= 400  # rank to holds
    tab.run(f"{box}.scrollLeft = 200")
    assert tab.run(edges.format(box, 1, "left")) == tab.run(f"{box}.getBoundingClientRect().left")


@pytest.mark.parametrize("by", ["click", "key"])
def test_a_column_sorts_both_ways_by_click_and_by_key(by, site, tab):
    tab.open((site / "leaderboard.html").as_uri())
    button = ".tabs section:first-of-type th:nth-child(4) button"
    cells = ".tabs section:first-of-type tbody td[data-title=Original]"
    for direction in ("descending", "ascending"):
        if by == "click":
            tab.click(button)
        else:
            tab.run(f"document.querySelector('{button}').focus()")
            tab.press("Enter")
        shown = tab.run(f"[...document.querySelectorAll('{cells}')].map(e => e.textContent)")
        numbers = [float(text.split(" ")[0]) for text in shown]
        assert numbers == sorted(numbers, reverse=direction == "descending")
        said = f"document.querySelector('{button}').parentElement.getAttribute('aria-sort')"
        assert tab.run(said) == direction


@pytest.mark.parametrize("width", (400, 1300))
def test_claims_are_filtered_by_verdict_and_words(width, site, tab):
    tab.show(width=width, height=900)
    tab.open((site / "claims.html").as_uri())
    claims = json.loads((ROOT / "paper/claims.json").read_text(encoding="utf-8"))
    fallen = [f"claim-{one['id']}" for one in claims if one["verdict"] == "does not hold"]
    every = "document.querySelectorAll('.choice ~ .box tbody tr')"
    rows = f"[...{every}].filter(e => e.offsetHeight > 0)"
    tab.click("[name=verdict][value='does not hold']")
    assert tab.run(f"{rows}.map(row => row.id)") == fallen
    tab.run("document.querySelector('[name=words]').focus()")
    tab.press("LoRA")
    some = tab.run(f"{rows}.map(row => row.textContent.toLowerCase())")
    assert 0 < len(some) < len(fallen) and all("lora" in text for text in some)
    edges = f"{rows}.flatMap(row => [...row.cells].map(e => e.getBoundingClientRect().right))"
    assert max(tab.run(edges)) <= width


@pytest.mark.parametrize(
    "words, page",
    [
        ("abstain", "memory/memory"),
        ("undo", "memory/memory"),
        ("merge labels", "memory/memory"),
        ("umlaut", "your-data"),
        ("few classes", "your-data"),
    ],
)
def test_search_leads_to_the_page_that_answers(words, page, site, tab):
    tab.open(f"{(site / 'search.html').as_uri()}?q={words.replace(' ', '+')}")
    first = "document.querySelector('#search-results li a')"
    tab.until(f"{first} !== null")
    assert tab.run(f"{first}.getAttribute('href')").startswith(f"{page}.html")


@pytest.mark.parametrize("caption, folder", [("How-to", "."), ("The memory", "memory")])
def test_how_tos_and_the_objects_that_they_use_link_to_each_other(caption, folder, site):
    first = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    listed = re.search(rf":caption: {caption}\n:hidden:\n\n(.*?)```", first, re.DOTALL)[1]
    pages = [page.rpartition("/")[2] for page in listed.split() if page != "memory/api"]
    site = site / folder
    library = BeautifulSoup((site / "api.html").read_text(encoding="utf-8"), "html.parser").article
    named = {tag["id"]: tag for tag in library.select("[id]")}
    called = {tag["id"] for tag in library.select("#what-users-call section[id]")}
    lonely = []
    for page in pages:
        text = (site / f"{page}.html").read_text(encoding="utf-8")
        links = BeautifulSoup(text, "html.parser").article.select("a[href^='api.html#']")
        assert links, f"{page} links to no object"
        for name in sorted({link["href"].partition("#")[2] for link in links}):
            target = named[name]
            section = target if target.name == "section" else target.find_parent("section")
            if section["id"] in called and not section.select(f"a[href^='{page}.html']"):
                lonely.append((page, name))
    assert lonely == []
