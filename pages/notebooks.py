"""Executed notebooks as pages."""

import base64
import re
from pathlib import Path
from types import SimpleNamespace

import nbformat
from nbconvert import HTMLExporter

from ocrrlib.errors import InputError
from pages.figures import CONTENT, size
from pages.tables import parse

PROGRESS = re.compile(r"\d+%\|")
WIDGET = "application/vnd.jupyter.widget-view+json"


def said(outputs):
    """Outputs with streams joined as a terminal shows them, without progress bars: they tell of a moment only."""
    joined = []
    for output in outputs:
        if output.output_type == "stream" and joined and joined[-1].get("name") == output.name:
            joined[-1].text += output.text
        elif WIDGET not in output.get("data", {}):
            joined.append(output)
    for output in (output for output in joined if output.output_type == "stream"):
        lines = [line.rstrip("\r").rpartition("\r")[2].rstrip() for line in output.text.split("\n")]
        output.text = "\n".join(line for line in lines if not PROGRESS.search(line)).strip()
    return [output for output in joined if output.get("text") != ""]


def picture(data, cell):
    """A picture's data, size and description; the description is that of the figure that the cell saves."""
    name = next((name for name in CONTENT["figures"] if f'"{name}"' in cell.source), "")
    alt = CONTENT["figures"][name]["alt"] if name else f"Picture drawn by code cell {cell.execution_count}."
    return {"name": name, "alt": alt, "data": "".join(data.split()), "size": size(base64.b64decode(data))}


def frame(html):
    """A data frame without styles of its own."""
    return re.sub(r' border="1"| style="[^"]*"|<style.*?</style>', "", html, flags=re.DOTALL)


def _exporter(env, drawn):
    """nbconvert with this site's template, which shows tables as the site's other pages do, and links to figures."""
    folder = str(Path(__file__).parent / "templates")
    exporter = HTMLExporter(template_name="notebook", extra_template_basedirs=[folder])
    draw = env.get_template("macros.html.j2").module.table

    def table(text, cell):
        return draw(parse(text, "output"), f"Table of code cell {cell.execution_count}")

    exporter.environment.globals["drawn"] = drawn
    for function in (picture, table, frame):
        exporter.register_filter(function.__name__, function)
    return exporter


def read(folder, env, drawn=()):
    """All executed notebooks of a folder, in order: titles, questions, and cells as HTML; ``drawn`` figures are linked.

    Raises
    ------
    InputError
        If one cannot be read or shown.
    """
    exporter, shown = _exporter(env, drawn), []
    for path in sorted(folder.glob("[0-9][0-9]_*.ipynb")):
        try:
            notebook = nbformat.read(path, as_version=4)
            prose = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
            title = re.search(r"^# (.*)", prose, re.MULTILINE)[1]
            question = re.search(r"\*\*Question\.\*\* (.*)|$", prose)[1] or ""
            for cell in notebook.cells:
                cell.outputs = said(cell.get("outputs", []))
            html, _ = exporter.from_notebook_node(notebook)
        except Exception as error:  # nbformat and nbconvert raise what they like
            what = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise InputError(f"{path} cannot be shown ({what}): run `make paper`") from error
        shown.append(SimpleNamespace(name=path.stem, title=title, question=question, html=html))
    return shown


def not_executed(source):
    """Names of the checkout's notebooks that have not been executed."""
    names = {path.stem for path in (source / "notebooks").glob("[0-9][0-9]_*.ipynb")}
    return sorted(names - {path.stem for path in (source / "build/notebooks").glob("*.ipynb")})
