"""Configuration of the site: ``python -m sphinx -W --keep-going -b html docs build/site``.

``make paper`` writes everything that the site shows: executed notebooks, tables, figures and the paper.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pandas as pd
from itables import to_html_datatable
from itables.javascript import generate_init_offline_itables_html
from itables.utils import find_package_file

DOCS = Path(__file__).absolute().parent
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT))

# Binder opens the repository at this address on GitHub: that of CITATION.cff, else of the environment.
CITED = re.search(r"repository-code:.*github\.com/([\w-]+/[\w.-]+)", (ROOT / "CITATION.cff").read_text("utf-8"))
REPOSITORY = CITED[1] if CITED else os.environ.get("OCRR_REPOSITORY", "OWNER/REPOSITORY")
BUTTONS = f"""<p class="open-in">
<a href="https://mybinder.org/v2/gh/{REPOSITORY}/HEAD?urlpath=lab/tree/notebooks/NAME.ipynb">Open in Binder</a>
<a href="http://localhost:8888/lab/tree/notebooks/NAME.ipynb" title="after `make lab`">Open in local JupyterLab</a>
<a href="../NAME.html">One HTML file</a></p>"""
WIDGET = "application/vnd.jupyter.widget-view+json"  # needs a kernel: shown in Binder and JupyterLab only
NBCONVERT = "-m nbconvert --to html --log-level ERROR --HTMLExporter.mathjax_url= --HTMLExporter.require_js_url="

project, author, language = "OCRR compendium", "The OCRR compendium's maintainers", "en"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinxcontrib.bibtex"]
exclude_patterns = ["examples", "made"]
html_theme, html_title, html_static_path, html_css_files = "sphinx_book_theme", project, ["_static"], ["site.css"]
html_theme_options = {"home_page_in_toc": True, "show_toc_level": 2}
html_show_search_summary = False  # a page opened from a folder cannot fetch others
html_extra_path = ["../paper/ocrr.html", "../paper/ocrr.pdf", "../build/html"]
myst_heading_anchors = 3
nb_execution_mode, nb_output_stderr, nb_merge_streams, nb_render_markdown_format = "off", "remove", True, "gfm"
autodoc_default_options = {"members": True, "member-order": "bysource"}
bibtex_bibfiles = ["../paper/references.bib"]


def copy_notebooks():
    """Copy executed notebooks into the source tree, without widgets, and convert each to one HTML file."""
    shutil.rmtree(DOCS / "notebooks", ignore_errors=True)
    (DOCS / "notebooks").mkdir()
    for path in (ROOT / "build/notebooks").glob("[0-9]*.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = [output for output in cell.outputs if WIDGET not in output.get("data", {})]
        nbformat.write(notebook, DOCS / "notebooks" / path.name)
    copies = sorted((DOCS / "notebooks").glob("*.ipynb"))
    subprocess.run([sys.executable, *NBCONVERT.split(), "--output-dir", ROOT / "build/html", *copies], check=True)


def write_tables():
    """Write claims and leaderboard as tables that filter and sort offline, for pages to include."""
    (DOCS / "made").mkdir(exist_ok=True)
    library = generate_init_offline_itables_html(find_package_file("html", "dt_bundle.js"))
    for name, path in {"claims": "paper/tables/table_claims.csv", "leaderboard": "figures/leaderboard.csv"}.items():
        frame = pd.read_csv(ROOT / path, keep_default_na=False).drop(columns=["fingerprint", "id"], errors="ignore")
        html = to_html_datatable(frame.round(3), connected=False, paging=False, columnControl=["order", "searchList"])
        (DOCS / "made" / f"{name}.html").write_text(library + html, encoding="utf-8")


def add_buttons(app, page, template, context, doctree):
    """Put the buttons of a notebook below its title."""
    if page.startswith("notebooks/"):
        buttons = BUTTONS.replace("NAME", page.removeprefix("notebooks/"))
        context["body"] = context["body"].replace("</h1>", f"</h1>{buttons}", 1)


def setup(app):
    copy_notebooks()
    write_tables()
    app.connect("html-page-context", add_buttons)
    app.connect("include-read", lambda app, path, page, text: text.__setitem__(0, text[0].replace("\n: ", "\n")))
