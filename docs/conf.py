"""Configuration of the site: ``python -m sphinx -W --keep-going -b html docs build/site``."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pandas as pd

DOCS = Path(__file__).absolute().parent
ROOT = DOCS.parent
sys.path[:0] = [str(ROOT), str(ROOT / "memory")]

from ocrrlib.files import write_text  # noqa: E402  found through the path above
from ocrrlib.runs import published  # noqa: E402  found through the path above
from paper import assets, gallery, live, pages  # noqa: E402  found through the path above
from paper.quotes import Quotes  # noqa: E402  found through the path above

# Binder opens the repository at this address on GitHub: `repository-code` in CITATION.cff. Without
# one, pages have no button for Binder.
CITED = re.search(
    r"repository-code:.*github\.com/([\w-]+/[\w.-]+)", (ROOT / "CITATION.cff").read_text("utf-8")
)
JUPYTERLAB = "http://localhost:8888/lab/tree/notebooks/NAME.ipynb"  # the root is the checkout
BUTTONS = f"""<p class="open-in">
<a href="{JUPYTERLAB}" title="after `make lab`">Open in local JupyterLab</a>
<a href="../NAME.html">One HTML file</a></p>"""
if CITED:
    BINDER = f"https://mybinder.org/v2/gh/{CITED[1]}/HEAD?urlpath=lab/tree/notebooks/NAME.ipynb"
    BUTTONS = BUTTONS.replace("</p>", f'\n<a href="{BINDER}">Open in Binder</a></p>')
WIDGET = "application/vnd.jupyter.widget-view+json"  # needs a kernel: not on pages
NBCONVERT = (
    *("-m", "nbconvert", "--to", "html", "--log-level", "ERROR"),
    "--HTMLExporter.mathjax_url=",
    "--HTMLExporter.require_js_url=",
)

project = "OCRR compendium"
author = "The OCRR compendium's maintainers"
language = "en"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinxcontrib.bibtex"]
exclude_patterns = ["examples", "made", "memory/examples"]
bibtex_bibfiles = ["../paper/references.bib"]
html_theme = "sphinx_book_theme"
html_title = project
html_static_path = ["_static", "made/static"]
html_css_files = ["site.css"]
html_theme_options = {"home_page_in_toc": True, "show_toc_level": 2, "navbar_persistent": []}
html_search_scorer = str(DOCS / "scorer.js")
html_show_search_summary = False  # a page opened from a folder cannot fetch others
PAPERS = [f"../paper/{name}.{kind}" for name in ("ocrr", "supplement") for kind in ("html", "pdf")]
html_extra_path = [*PAPERS, "../build/html"]
myst_heading_anchors = 3
nb_execution_mode = "off"
nb_output_stderr = "remove"
nb_merge_streams = True
nb_render_markdown_format = "gfm"
autodoc_default_options = {
    "members": True,
    "member-order": "bysource",
    "ignore-module-all": True,  # each object once, where it is defined
}
autodoc_preserve_defaults = True
suppress_warnings = ["ref.python"]  # psycopg has a `Row`, too; which is meant does not matter


def copy_notebooks():
    """Copy executed notebooks into the source tree, without widgets; make an HTML file of each.

    What came out stands behind the question.
    Cells that make a figure or a table get an anchor of its name.
    """
    shutil.rmtree(DOCS / "notebooks", ignore_errors=True)
    (DOCS / "notebooks").mkdir()
    names = gallery.artefacts(ROOT)
    cards = []
    for path in sorted((ROOT / "build/notebooks").glob("[0-9]*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        notebook.metadata.pop("widgets", None)
        for outputs in (cell.outputs for cell in notebook.cells if cell.cell_type == "code"):
            outputs[:] = [output for output in outputs if WIDGET not in output.get("data", {})]
        cards.append(gallery.card(path.stem, notebook))
        gallery.answer_first(notebook)
        gallery.join_folded(notebook)
        gallery.add_places(notebook, names)
        nbformat.write(notebook, DOCS / "notebooks" / path.name)
    write_gallery(cards)
    copies = sorted((DOCS / "notebooks").glob("*.ipynb"))
    subprocess.run(
        [sys.executable, *NBCONVERT, "--output-dir", ROOT / "build/html", *copies],
        check=True,
    )


def copy_memory():
    """Copy the memory's pages beside those of the compendium, with links as they are here."""
    shutil.rmtree(DOCS / "memory", ignore_errors=True)
    shutil.copytree(ROOT / "memory/docs", DOCS / "memory")
    for page in (DOCS / "memory").glob("*.md"):
        text = page.read_text(encoding="utf-8").replace("](../../docs/", "](../")
        write_text(page, text.replace("](../../README.md)", "](../index.md)"))


def write_gallery(cards):
    """Write the gallery of notebooks, for their page to include, and its thumbnails."""
    for card in cards:
        if card.figure:
            gallery.write_thumbnail(card.figure, DOCS / f"made/static/thumbnails/{card.name}.png")
    page = gallery.page(cards, "_static/thumbnails")
    write_text(DOCS / "made/gallery.html", page)


def write_tables():
    """Write the tables that pages include."""
    made = DOCS / "made"
    made.mkdir(exist_ok=True)
    ranked = pd.read_csv(ROOT / "figures/leaderboard.csv")
    systems = pages.systems(ranked, "banking77", "oracle")
    (made / "systems.html").write_text(systems, encoding="utf-8")
    cell = published("beyond").query("dataset == 'banking77' and policy == 'oracle'")
    (made / "slider.html").write_text(pages.slider(cell), encoding="utf-8")
    (made / "leaderboard.html").write_text(pages.leaderboard(ranked), encoding="utf-8")
    rows = json.loads((ROOT / "paper/claims.json").read_text(encoding="utf-8"))
    (made / "claims.html").write_text(pages.claims(rows), encoding="utf-8")
    (made / "central.html").write_text(pages.central(rows), encoding="utf-8")


def fill(app, page, text):
    """Lead links to the memory's pages, and put quotes in place of their keys."""
    text[0] = (
        text[0].replace("](../memory/docs/", "](memory/").replace("](../notebooks/", "](notebooks/")
    )
    text[0] = list_modules(text[0])
    if page in ("index", "products"):
        quotes = Quotes()
        quotes.check_headlines(text[0])
        text[0] = re.sub(r"{{([\w.]+)}}", lambda key: quotes.text(key[1]), text[0])


def list_modules(text):
    """Replace each block ``{modules} package`` by a section for each of its modules.

    What the page shows by itself is left out there.
    """
    shown = re.findall(r"auto(?:class|function):: (\S+)", text)

    def sections(block):
        package, names = block.groups()
        for name in names.split():
            module = f"{package}.{name}"
            apart = [one.rpartition(".")[2] for one in shown if one.rpartition(".")[0] == module]
            left_out = f"   :exclude-members: {', '.join(apart)}\n" if apart else ""
            yield f"### {name}\n\n```{{eval-rst}}\n.. automodule:: {module}\n{left_out}```\n"

    pattern = r"^```{modules} (\S+)\n(.*?)^```$"
    expand = re.compile(pattern, re.MULTILINE | re.DOTALL)
    return expand.sub(lambda block: "\n".join(sections(block)), text)


def add_buttons(app, page, template, context, doctree):
    """Put the buttons of a notebook below its title."""
    if page.startswith("notebooks/"):
        buttons = BUTTONS.replace("NAME", page.removeprefix("notebooks/"))
        context["body"] = context["body"].replace("</h1>", f"</h1>{buttons}", 1)


def setup(app):
    copy_notebooks()
    copy_memory()
    write_tables()
    static = DOCS / "made/static"
    live.write(static, assets.write(static))
    app.connect("source-read", fill)
    app.connect("html-page-context", add_buttons)
    app.connect(
        "include-read",
        lambda app, path, page, text: text.__setitem__(0, text[0].replace("\n: ", "\n")),
    )
