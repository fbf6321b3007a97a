"""The site: whole, linked, readable by everyone, the same bytes each time; in a browser, too, where there is one."""

import base64
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote

import nbformat
import pytest

import ocrrlib
from ocrrlib.errors import InputError
from ocrrlib.files import ROOT
from pages import build, claims, howtos, notebooks, reference, tables
from paper import build as typeset
from tests import browser as chromium

CLAIMS = json.loads((ROOT / "tests/claims_sample.json").read_text(encoding="utf-8"))
PAPER = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>OCRR</title>
<style>body { max-width: 36em; margin: 0 auto }</style></head><body class="paper"><h1>OCRR</h1>
<p><a href="#s1">To section 1</a></p><h2 id="s1">1 Introduction</h2></body></html>"""
VOID = "area base br col embed hr img input link meta source track wbr".split()
FRAME = """<div><style scoped>td {color: red}</style>
<table border="1" class="dataframe"><tr style="x"><td>1</td></tr></table></div>"""


def executed(path, folder):
    """A notebook as if it had run: outputs of all kinds after its first cells of code."""
    notebook = nbformat.read(path, as_version=4)
    picture = base64.b64encode((ROOT / "figures/six_cells.png").read_bytes()).decode()
    table = (ROOT / "paper/tables/table_ranking.md").read_text(encoding="utf-8").replace("\n: ", "\n*")
    outputs = [
        nbformat.v4.new_output("stream", name="stderr", text="\r  0%|   | 0/9 [00:00<?, ?run/s]"),
        nbformat.v4.new_output("stream", name="stderr", text="\r100%|###| 9/9 [00:01<00:00]\na warning <1>\n"),
        nbformat.v4.new_output("display_data", {"text/plain": "0%|", notebooks.WIDGET: {"model_id": "1"}}),
        nbformat.v4.new_output("stream", name="stdout", text="said & done\n"),
        nbformat.v4.new_output("execute_result", {"text/plain": "'plain'"}),
        nbformat.v4.new_output("execute_result", {"text/plain": "x", "text/markdown": f"{table.strip()}*"}),
        nbformat.v4.new_output("execute_result", {"text/plain": "x", "text/html": FRAME}),
        nbformat.v4.new_output("display_data", {"image/png": picture, "text/plain": "<Figure>"}),
    ]
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(cells, 1):
        cell.execution_count, cell.outputs = number, outputs[number - 2 :: len(cells)] if number > 1 else []
    cells[-1].outputs = outputs[-1:]
    nbformat.write(notebook, folder / path.name)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A checkout in which everything is there: this one's results, and a paper, claims and runs made up."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("build/notebooks", "paper", "data"):
        (folder / name).mkdir(parents=True)
    for name in ("figures", "paper/tables", "data/results", "notebooks", "requirements.lock", "docs", "ocrrlib"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "paper/ocrr.html").write_text(PAPER)
    (folder / "paper/ocrr.pdf").write_bytes(b"%PDF-1.7")
    (folder / "paper/claims.json").symlink_to(ROOT / "tests/claims_sample.json")
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        executed(path, folder / "build/notebooks")
    return folder


@pytest.fixture(scope="module")
def site(source, tmp_path_factory):
    target = tmp_path_factory.mktemp("out") / "site"
    build.build(source, target)
    return target


@pytest.fixture(scope="module")
def published(source, tmp_path_factory):
    """The site of what is published here: the real claims and the real paper."""
    folder = tmp_path_factory.mktemp("published")
    for name in ("figures", "paper/tables", "paper/claims.json", "paper/provenance.json", "paper/ocrr.pdf"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).symlink_to(ROOT / name)
    for name in ("data/results", "notebooks", "requirements.lock"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).symlink_to(ROOT / name)
    (folder / "build").symlink_to(source / "build")
    typeset.build(ROOT / "paper/ocrr.md", folder / "paper", ["html"])
    build.build(folder, folder / "site")
    return folder / "site"


@pytest.fixture
def empty(tmp_path):
    (tmp_path / "checkout").mkdir()
    return tmp_path / "checkout"


def content(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Page(HTMLParser):
    """What a page holds; what is wrong with its tags is in ``faults``."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.loaded, self.tags, self.faults, self.text, self._open = [], [], [], [], [], "", []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        self.faults += [f"<{tag}> stays open" for tag in self._open]
        self.headings = [int(tag[1]) for tag, _ in self.tags if re.fullmatch("h[1-6]", tag)]

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if len(values) < len(attributes):
            self.faults.append(f"<{tag}> has an attribute twice")
        if "p" in self._open and tag in "p div ul dl table section figure pre details h1 h2 h3".split():
            self.faults.append(f"<{tag}> inside <p>")
        self.tags.append((tag, values))
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values["href"]] if tag == "a" and "href" in values else []
        if tag != "a":
            self.loaded += [values[name] for name in "src href srcset data poster action".split() if name in values]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag):
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"</{tag}> closes something else, line {self.getpos()[0]}")

    def handle_data(self, data):
        self.text += data if not {"script", "style"} & set(self._open) else ""


@pytest.fixture(scope="module")
def pages(site):
    return {path.relative_to(site).as_posix(): Page(path) for path in sorted(site.rglob("*.html"))}


def at_the_top(pages):
    return {name: page for name, page in pages.items() if "/" not in name}


def led_to(name, link):
    """Place in the site that a link on the page ``name`` leads to, and the anchor."""
    path, _, anchor = link.partition("#")
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name, anchor


def of_the_site(pages):
    return {name: page for name, page in pages.items() if name != "paper.html"}


class TestPages:
    def test_there_is_one_for_each_part_and_each_executed_notebook(self, pages, source):
        books = {f"{path.stem}.html" for path in (source / "build/notebooks").iterdir()}
        books |= {f"{howtos.PREFIX}{path.stem}.html" for path in (ROOT / "docs").glob("*.md")}
        assert set(at_the_top(pages)) == {f"{name}.html" for name in build.NAVIGATION} | books and len(books) >= 13

    def test_tags_are_nested_and_ids_are_unique(self, pages):
        assert {name: page.faults for name, page in pages.items() if page.faults} == {}
        assert {name for name, page in pages.items() if len(set(page.ids)) < len(page.ids)} == set()

    def test_each_has_one_first_heading_and_the_others_in_order(self, pages):
        for name, page in pages.items():
            assert page.headings[0] == 1 and page.headings.count(1) == 1, name
            assert all(b <= a + 1 for a, b in zip(page.headings, page.headings[1:])), name

    def test_each_has_a_language_a_title_of_its_own_and_landmarks(self, pages, site):
        titles = {re.search("<title>(.*)</title>", (site / name).read_text(encoding="utf-8"))[1] for name in pages}
        assert len(titles) == len(pages)
        for name, page in of_the_site(pages).items():
            tags = [tag for tag, _ in page.tags]
            assert ("html", {"lang": "en"}) in page.tags
            assert all(tags.count(tag) == 1 for tag in ("main", "header", "footer")), name
            assert page.links[0] == "#main" and "main" in page.ids

    def test_each_leads_to_all_parts(self, pages):
        for name, page in pages.items():
            assert {f"{part}.html" for part in build.NAVIGATION} <= {led_to(name, link)[0] for link in page.links}

    def test_all_links_and_anchors_lead_somewhere(self, pages, site):
        for name, page in pages.items():
            for link in (link for link in page.links if not link.startswith("https://")):
                path, anchor = led_to(name, link)
                assert (site / path).is_file(), f"{name}: {link}"
                if anchor and "=" not in anchor:
                    assert {anchor, unquote(anchor)} & set(pages[path].ids), f"{name}: {link}"

    def test_every_file_is_linked(self, pages, site):
        used = {led_to(name, link)[0] for name, page in pages.items() for link in page.links + page.loaded}
        assert content(site).keys() <= used

    def test_nothing_is_fetched_from_elsewhere(self, pages, site):
        for name, page in pages.items():
            for address in page.loaded:
                assert address.startswith("data:") or (site / led_to(name, address)[0]).is_file(), f"{name}: {address}"
        style, script = ((site / name).read_text(encoding="utf-8") for name in build.ASSETS)
        assert not re.search(r"@import|url\(|https?:", style) and not re.search(r"https?:|fetch|import", script)

    def test_every_picture_has_a_description_and_a_size(self, pages):
        for name, page in pages.items():
            for about in (about for tag, about in page.tags if tag == "img"):
                assert len(about["alt"]) > 20 and int(about["width"]) > 0 < int(about["height"]), name
        assert sum(tag == "img" for tag, _ in pages["figures.html"].tags) == len(list((ROOT / "figures").glob("*.png")))

    def test_wide_tables_scroll_by_themselves_and_can_be_reached(self, pages):
        for page in pages.values():
            for about in (about for _, about in page.tags if about.get("class") == "scroll"):
                assert about["tabindex"] == "0" and about["role"] == "region" and about["aria-label"]

    def test_the_same_checkout_gives_the_same_bytes(self, source, site, tmp_path):
        build.build(source, tmp_path / "again")
        assert content(tmp_path / "again") == content(site)

    def test_style_and_script_are_small(self, site):
        assert sum((site / name).stat().st_size for name in build.ASSETS) < 20_000


class TestWhatIsPublished:
    def test_every_claim_figure_and_table_is_shown_and_every_link_leads_somewhere(self, published):
        pages = {path.name: Page(path) for path in published.glob("*.html")}
        assert {name: page.faults for name, page in pages.items() if page.faults} == {}
        for name, page in pages.items():
            assert len(set(page.ids)) == len(page.ids), name
            for link in (link for link in page.links if not link.startswith("https://")):
                path, _, anchor = link.partition("#")
                assert (published / (path or name)).is_file(), f"{name}: {link}"
                if anchor and "=" not in anchor:
                    assert {anchor, unquote(anchor)} & set(pages[path or name].ids), f"{name}: {link}"
        made = [path.name for path in (ROOT / "figures").iterdir() if path.stem != "leaderboard"]
        assert all(name in pages["provenance.html"].text for name in made)
        listed = json.loads((ROOT / "paper/claims.json").read_text(encoding="utf-8"))
        assert {claim["id"] for claim in listed} <= set(pages["claims.html"].ids)
        for kind, suffix in (("figures", "png"), ("tables", "csv")):
            files = {path.stem for path in (published / kind).glob(f"*.{suffix}")}
            assert files and files <= set(pages[f"{kind}.html"].ids)

    def test_a_browser_shows_all_of_it_without_a_complaint(self, published, tab):
        for path in sorted(published.glob("*.html")):
            tab.open(path.as_uri())
            assert tab.errors == [], path.name
            assert [a for a in tab.requests if not a.startswith((published.as_uri(), "data:"))] == [], path.name
            tab.show(width=390, height=800)
            assert tab.run(WIDE) == [390, 390], path.name


class TestContent:
    def test_claims_are_complete_without_a_script(self, pages):
        page = pages["claims.html"]
        assert next(about for tag, about in page.tags if tag == "form").keys() >= {"hidden"}
        for claim in CLAIMS:
            found = [check["found"] for check in claim["checks"].values()]
            for text in (claim["claim"], claim["section"], claim["printed"], claim["note"], claim["verdict"], *found):
                assert text in page.text
            assert claim["id"] in page.ids and f"#{claim['id']}" in page.links

    def test_the_overview_counts_verdicts(self, pages):
        text = " ".join(pages["index.html"].text.split())
        for verdict, (_, sign) in claims.VERDICTS.items():
            assert f"{sum(claim['verdict'] == verdict for claim in CLAIMS)} {sign} {verdict}" in text
        assert f"All {len(CLAIMS)} claims" in text

    def test_a_notebook_is_shown_with_code_and_outputs_and_without_progress(self, pages):
        page = pages["02_full_sweep.html"]
        for text in ("The full sweep", "run_experiment(", "a warning <1>", "said & done", "'plain'", "Across datasets"):
            assert text in page.text
        assert "%|" not in page.text and "color: red" not in page.text
        assert not any("border" in about or "style" in about for _, about in page.tags)

    def test_provenance_names_every_file_with_its_hashes(self, pages):
        text = pages["provenance.html"].text
        for path in (ROOT / "data/results").glob("*.parquet"):
            frame, about = build.provenance.results.read(path)
            assert f"{path.name}" in text and f"{len(frame):,}" in text
            for value in (*about["code"].values(), *about.get("data", {}).values(), about.get("lock", "")):
                assert value in text

    def test_a_how_to_is_shown_with_code_and_output_and_its_links_lead_to_pages(self, pages, site):
        page = pages["docs-ledger.html"]
        for text in ("The ledger", "from ocrrlib.ledger import Ledger", "entry 1: changed", "A cut tail."):
            assert text in page.text
        assert '<pre class="output">5 None' in (site / "docs-ledger.html").read_text(encoding="utf-8")
        assert {"docs-protocol.html", "docs-your-data.html"} <= set(pages["docs-getting-started.html"].links)
        assert "leaderboard.html" in pages["docs-results.html"].links

    def test_the_reference_has_every_public_module_and_its_docstrings_in_sections(self, pages, site):
        modules = {path.relative_to(ROOT).with_suffix("").as_posix() for path in (ROOT / "ocrrlib").rglob("*.py")}
        modules = {name.removesuffix("/__init__") for name in modules if not name.endswith("/__main__")}
        assert {name for name in pages if name.startswith(reference.FOLDER)} == {f"api/{name}.html" for name in modules}
        assert {"Evaluation", "Evaluation.compared"} <= set(pages["api/ocrrlib/evaluation/outcome.html"].ids)
        page = pages["api/ocrrlib/evaluation/evaluate.html"]
        assert "evaluate" in page.ids and "_about" not in page.ids
        package = pages["api/ocrrlib.html"]
        assert set(ocrrlib._HERE) <= set(package.ids)
        for name, module in ocrrlib._HERE.items():
            assert f"ocrrlib/{module.replace('.', '/')}.html#{name}" in package.links
        for text in (
            "Parameters",
            "Raises",
            "dataset='banking77', seeds=range(0, 10)",
            "worker processes".capitalize(),
        ):
            assert text in page.text
        for path in site.glob("api/**/*.html"):
            assert not re.search(rf"0x[0-9a-f]{{8}}|{ROOT}|PosixPath|\x08", path.read_text(encoding="utf-8")), path

    def test_the_leaderboard_ranks_every_card_and_links_to_it(self, pages, site):
        page, lines = pages["leaderboard.html"], (ROOT / "figures/leaderboard.csv").read_text().splitlines()[1:]
        cards = sorted((ROOT / "data/results/cards").glob("*.json"))
        assert {f"cards/{path.name}" for path in cards} <= set(page.links)
        assert sum(link.startswith("cards/") for link in page.links) == len(lines) >= len(cards)
        for path in cards:
            assert (site / "cards" / path.name).read_bytes() == path.read_bytes()

    def test_the_paper_keeps_its_bytes_around_the_navigation(self, site):
        page = (site / "paper.html").read_text(encoding="utf-8")
        head, tail = PAPER.split('<body class="paper">')
        assert page.startswith(head) and page.endswith(tail) and (site / "ocrr.pdf").exists()

    def test_where_nothing_is_there_each_page_says_what_makes_it(self, empty):
        target = empty / "build/site"
        names = build.build(empty, target)
        assert sorted(names) == sorted(build.NAVIGATION)
        for name in names:
            page = Page(target / f"{name}.html")
            assert page.faults == [] and "python -m pages.build" in page.text
            made_by = {
                "claims": "paper/claims.json",
                "leaderboard": "make leaderboard",
                "docs": "Markdown files in docs/",
            }
            assert made_by.get(name, "make paper") in page.text


def test_without_pdoc_the_page_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pdoc.doc", None)
    reference.modules.cache_clear()
    assert "pip install 'ocrrlib[docs]'" in reference.read(ROOT).why
    reference.modules.cache_clear()


def test_docstrings_are_shown_as_they_are_meant():
    assert reference.line("Holds ``x``: one <row>.\n\nMore.") == "Holds <code>x</code>: one &lt;row&gt;"
    abbreviated = "Replay, i.e. all of it (Lin et al. 2020)"
    assert reference.line(f"{abbreviated}. More.") == abbreviated
    assert reference.prose("Runs.\n\n\x08\nocrr run a\nocrr run b\n") == "Runs.\n\n\n    ocrr run a\n    ocrr run b\n"


@pytest.mark.parametrize(
    "text, key",
    [
        ("0.891 ± 0.030", 0.891),
        ("1,234", 1234),
        ("126 (2/3)", 126),
        ("never", float("inf")),
        ("12.3 µs (4.0 µs-99.1 µs)", 12.3e-6),
        ("~1.0 ms", 1e-3),
        ("+89.1", 89.1),
        ("−5.4", -5.4),
        ("-5.4", -5.4),
        ("10M", 1e7),
        ("8683 → 8987", 8683),
        ("12 %", 12),
        ("", ""),
        ("not reached", ""),
        ("100, 0.1", None),
        ("bounded_fifo_100", None),
        ("no, one entry per correction", None),
    ],
)
def test_cells_sort_by_their_first_number(text, key):
    assert tables.sort_key(text) == (pytest.approx(key) if isinstance(key, float) else key)


def test_a_column_with_any_text_is_sorted_as_text():
    table = tables.parse("| a | b | c |\n|--|--|--|\n| x | 1 | |\n| 2 | never | |\n\n: Caption")
    assert table.keys == {1: [1, float("inf")]} and table.caption == "Caption"


def holding(text):
    return lambda file: file.write_text(text if isinstance(text, str) else json.dumps(text))


NO_VERDICT = {key: value for key, value in CLAIMS[0].items() if key != "verdict"}


@pytest.mark.parametrize(
    "name, damage, said",
    [
        ("paper/claims.json", holding("[{"), "is damaged"),
        ("paper/claims.json", holding([NO_VERDICT]), "missing 1 required positional argument: 'verdict'"),
        ("paper/provenance.json", holding({"05_vote_ablation": {}}), "is damaged"),
        ("paper/tables/table1_headline.md", holding("| a | b |\n|--|--|\n| 1 |\n"), "not a Markdown table"),
        ("figures/new.png", lambda file: file.write_bytes(b""), r"add \[figures.new\] to pages/content.toml"),
        ("figures/six_cells.png", lambda file: file.write_bytes(b"\x89PNG"), "damaged"),
        ("data/results/full_sweep.parquet", lambda file: file.write_bytes(b"PAR1"), "damaged"),
        ("build/notebooks/01_embed.ipynb", holding("{}"), "cannot be shown"),
        ("paper/ocrr.html", holding("<p>"), "has no <body>"),
        ("data/results/cards/mine.json", holding("{}"), "mine.json: the whole"),
        ("docs/mine.md", holding("no title"), "does not begin with a title"),
        ("docs/mine.md", holding("# Mine\n\n[away](../setup.py)\n"), "leads to nothing that the site has"),
    ],
)
def test_what_is_damaged_is_named_and_the_old_site_stays(empty, name, damage, said):
    target = empty / "site"
    build.build(empty, target)
    before = content(target)
    (empty / name).parent.mkdir(parents=True, exist_ok=True)
    damage(empty / name)
    with pytest.raises(InputError, match=said) as error:
        build.build(empty, target)
    assert (empty / name).name in str(error.value) and "\n" not in str(error.value)
    assert content(target) == before
    assert not list(empty.glob(".site*"))


def test_a_failure_while_files_are_written_leaves_the_old_site_and_nothing_beside(empty, monkeypatch):
    def full(*_):
        raise OSError("no space left")

    build.build(empty, empty / "site")
    before = content(empty)
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(OSError):
        build.build(empty, empty / "site")
    assert content(empty) == before and not list(empty.glob(".site*"))


def test_a_rebuilt_site_keeps_nothing_of_the_old_one(empty):
    build.build(empty, empty / "site")
    (empty / "site/left_over.html").write_text("old")
    build.build(empty, empty / "site")
    assert not (empty / "site/left_over.html").exists()


def test_a_folder_that_is_no_site_is_never_replaced(empty, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("all of it")
    with pytest.raises(InputError, match="is not a site"):
        build.build(empty, tmp_path / "mine")
    assert (tmp_path / "mine/thesis.txt").exists()


def test_a_checkout_that_is_not_there_is_an_error_and_none_is_made(tmp_path):
    with pytest.raises(InputError, match="nowhere is no folder"):
        build.build(tmp_path / "nowhere", tmp_path / "nowhere/build/site")
    assert not list(tmp_path.iterdir())


def test_from_the_command_line_the_site_is_named_and_an_error_is_one_line(empty):
    command = [sys.executable, "-m", "pages.build", "--source", empty]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0 and run.stdout == f"9 pages: {empty / 'build/site/index.html'}\n", run.stderr
    (empty / "paper").mkdir()
    (empty / "paper/claims.json").write_text("{")
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 1 and run.stderr.startswith("error: ") and len(run.stderr.splitlines()) == 1


def need_a_browser():
    if not chromium.find():
        reason = f"no browser on PATH ({', '.join(chromium.NAMES)})"
        pytest.fail(reason) if os.environ.get("OCRR_BROWSER") == "required" else pytest.skip(reason)


@pytest.fixture(scope="module")
def tab():
    need_a_browser()
    with chromium.browser() as tab:
        yield tab


@pytest.fixture
def at(tab, site):
    """Open a page in a window of a desk's size; fail if it complains."""

    def visit(page, **settings):
        tab.show(**settings)
        tab.open(f"{site.as_uri()}/{page}")
        return tab

    yield visit
    assert tab.errors == []


# Every text that can be seen, whose contrast with what lies behind it is below 4.5.
FAINT = """(() => {
  const parse = (colour) => { const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number); return [r, g, b, a] };
  const over = ([r, g, b, a], under) => [r, g, b].map((v, i) => v * a + under[i] * (1 - a));
  const ground = (e) => {
    if (!e) return [255, 255, 255];
    const own = parse(getComputedStyle(e).backgroundColor);
    return own[3] === 1 ? own.slice(0, 3) : over(own, ground(e.parentElement));
  };
  const light = (c) => c.map((v) => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const faint = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement, seen = e.checkVisibility({ opacityProperty: true });
    if (!walker.currentNode.data.trim() || !seen || e.closest("script, style")) continue;
    const under = ground(e), [x, y] = [light(over(parse(getComputedStyle(e).color), under)), light(under)];
    const contrast = (Math.max(x, y) + .05) / (Math.min(x, y) + .05);
    if (contrast < 4.5) faint.push(`${walker.currentNode.data.trim().slice(0, 40)}: ${contrast.toFixed(2)}`);
  }
  return faint;
})()"""
WIDE = "[document.documentElement.scrollWidth, innerWidth]"
COLUMN = "[...document.querySelectorAll('#table1_headline tbody tr')].map(r => r.cells[{}].textContent)"
HEAD = "#table1_headline thead th:nth-child({}) button"
SHOWN = "[...document.querySelectorAll('.claims tbody tr')].filter(r => r.checkVisibility()).map(r => r.id)"
SHOWN_MODULES = [
    f"{reference.FOLDER}/ocrrlib/{name}.html"
    for name in ("evaluation/evaluate", "evaluation/outcome", "cli/commands", "systems/base")
]
ALL_SHOWN = f"{SHOWN}.length === {len(CLAIMS)}"
COUNT = "document.getElementById('count').textContent"


class TestInABrowser:
    def test_a_complaint_and_a_request_elsewhere_would_be_noticed(self, tab, tmp_path):
        (tmp_path / "bad.html").write_text('<!doctype html><img src="http://127.0.0.1:9/a.png"><script>no()</script>')
        tab.open((tmp_path / "bad.html").as_uri())
        assert "http://127.0.0.1:9/a.png" in tab.requests and "Uncaught" in tab.errors

    def test_pages_load_without_a_complaint_or_a_request_elsewhere_and_read_well(self, at, pages, site):
        for name in [*at_the_top(pages), *SHOWN_MODULES]:
            tab = at(name)
            assert tab.errors == [], name
            assert [a for a in tab.requests if not a.startswith((site.as_uri(), "data:"))] == [], name
            if name == "paper.html":
                continue
            assert tab.run(FAINT) == [], name
            tab.show(width=390, height=800, dark=True)
            assert tab.run(FAINT) == [], f"{name}, dark"
            assert tab.run(WIDE) == [390, 390], name

    def test_a_table_sorts_by_mouse_up_then_down_then_as_it_was(self, at):
        tab = at("tables.html")
        before = tab.run(COLUMN.format(4))
        sort = "document.querySelector('#table1_headline th:nth-child(5)').getAttribute('aria-sort')"
        tab.click(HEAD.format(5))
        up = tab.run(COLUMN.format(4))
        assert up == sorted(before, key=lambda text: float(text.split()[0])) != before
        assert tab.run(sort) == "ascending"
        tab.click(HEAD.format(5))
        assert [text[:5] for text in tab.run(COLUMN.format(4))] == [text[:5] for text in reversed(up)]
        assert tab.run(sort) == "descending"
        tab.click(HEAD.format(5))
        assert tab.run(COLUMN.format(4)) == before and tab.run(sort) is None

    def test_never_comes_after_all_numbers_and_words_sort_as_words(self, at):
        tab = at("tables.html")
        tab.click(HEAD.format(7))
        column = tab.run(COLUMN.format(6))
        numbers = [float(text.split()[0]) for text in column if text != "never"]
        assert column[: len(numbers)] == [text for text in column if text != "never"] and numbers == sorted(numbers)
        tab.click(HEAD.format(1))
        names = tab.run(COLUMN.format(0))
        assert names.index("bounded_fifo_500") < names.index("bounded_fifo_1000") < names.index("bounded_reservoir_100")

    def test_a_table_sorts_by_keyboard_and_keeps_the_focus(self, at):
        tab = at("tables.html")
        tab.run("document.querySelector('#table1_headline .scroll').focus()")
        tab.press("Tab", "Tab", "Tab", "Enter")
        assert tab.run("document.activeElement.textContent") == "Entries"
        assert tab.run("document.activeElement.parentElement.getAttribute('aria-sort')") == "ascending"
        assert tab.run(COLUMN.format(2)) == sorted(tab.run(COLUMN.format(2)), key=float)
        assert tab.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"

    def test_the_first_tab_stop_skips_to_the_content(self, at):
        tab = at("index.html")
        tab.press("Tab")
        assert tab.run("document.activeElement.className") == "skip"
        assert tab.run("document.activeElement.getBoundingClientRect().x") >= 0
        tab.press("Enter")
        assert tab.run("document.activeElement.id") == "main"

    def test_claims_filter_by_verdict_section_and_words_and_count_aloud(self, at):
        tab = at("claims.html")
        assert tab.run(COUNT) == f"{len(CLAIMS)} of {len(CLAIMS)} claims"
        tab.run("document.querySelector('[name=verdict]').focus()")
        tab.press("ArrowDown", "ArrowDown", "ArrowDown")
        fails = [claim["id"] for claim in CLAIMS if claim["verdict"] == "does not hold"]
        assert tab.run(SHOWN) == fails and tab.run(COUNT) == f"{len(fails)} of {len(CLAIMS)} claims"
        tab.click("[name=text]")
        tab.press("RANDOM-10 river")
        assert tab.run(SHOWN) == ["c05"]
        assert tab.run("location.hash") == "#verdict=does+not+hold&text=RANDOM-10+river"
        assert tab.run("document.getElementById('count').ariaLive") == "polite"
        tab.click("#filter button")
        tab.until(ALL_SHOWN)
        assert tab.run("location.hash") == ""

    def test_claims_filter_by_keyboard_alone(self, at):
        tab = at("claims.html")
        tab.run("document.querySelector('[name=verdict]').focus()")
        tab.press("Tab", "Tab", "forgets")
        assert tab.run(SHOWN) == ["c07"]
        tab.press("Tab", "Enter")
        tab.until(ALL_SHOWN)

    def test_a_filter_can_be_linked_and_so_can_a_claim(self, at):
        tab = at("claims.html#section=5.1&verdict=holds%20in%20direction&text=reservoir")
        assert tab.run(SHOWN) == ["c03", "c04"]
        tab.run("location.hash = '#c04'; new Promise(done => setTimeout(done, 100))")
        assert tab.run(SHOWN) == ["c03", "c04"], "it is there, so the filter stays"
        tab.run("location.hash = '#c08'")
        tab.until(ALL_SHOWN)  # it was hidden
        assert tab.run(FAINT) == []
        assert at("claims.html#c10").run("document.querySelector(':target').id") == "c10"

    def test_the_overview_leads_to_claims_by_verdict(self, at):
        tab = at("index.html")
        tab.follow(".tally .unknown a")
        assert tab.run(SHOWN) == ["c07", "c10"]

    def test_without_scripts_all_claims_are_there_and_no_form(self, at):
        tab = at("claims.html", script=False)
        assert tab.run("document.querySelector('#filter').checkVisibility()") is False
        assert len(tab.run(SHOWN)) == len(CLAIMS)

    def test_wide_tables_scroll_by_keyboard_on_a_phone(self, at):
        tab = at("tables.html", width=390, height=800)
        tab.run("document.querySelector('#table1_headline .scroll').focus()")
        tab.press("ArrowRight")
        tab.until("document.activeElement.scrollLeft > 10")

    def test_print_leaves_out_what_paper_cannot_do(self, at):
        tab = at("claims.html", media="print", dark=True)
        for selector in ("header nav", "#filter", ".skip"):
            assert not tab.run(f"document.querySelector('{selector}').checkVisibility()")
        assert len(tab.run(SHOWN)) == len(CLAIMS) and tab.run(FAINT) == []


@pytest.mark.parametrize("word, outcome", [("", pytest.skip.Exception), ("required", pytest.fail.Exception)])
def test_without_a_browser_the_reason_is_given_and_one_can_be_required(word, outcome, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("OCRR_BROWSER", word)
    with pytest.raises(outcome, match="no browser on PATH .chromium"):
        need_a_browser()
