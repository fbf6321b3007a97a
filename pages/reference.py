"""The API reference: one page for each module, made by pdoc from the docstrings, in the site's look."""

import inspect
import pkgutil
import re
from functools import cache
from html import escape
from pathlib import Path
from textwrap import indent
from types import SimpleNamespace

from markupsafe import Markup

import ocrrlib
from ocrrlib.errors import InputError
from ocrrlib.files import ROOT
from pages.figures import CONTENT

FOLDER = "api"
TEMPLATES = Path(__file__).resolve().parent / "templates"
NO_END = r"(?<!\bet al\.)(?<!\bi\.e\.)(?<!\be\.g\.)"  # of a sentence, though a full stop
WAY_OUT = "pip install 'ocrrlib[docs]'"


class Shown:
    """Shown as this text where a value stands in a signature."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


@cache
def modules():
    """Public modules of the package by name, as pdoc knows them, and why others cannot be shown.

    Returns
    -------
    shown : dict of str to pdoc.doc.Module
    missing : dict of str to str
        What could not be imported, for modules whose extra is not installed.
    """
    from pdoc.doc import Module

    names = [ocrrlib.__name__]
    names += [found.name for found in pkgutil.walk_packages(ocrrlib.__path__, f"{ocrrlib.__name__}.")]
    shown, missing = {}, {}
    for name in names:
        if any(part.startswith("_") for part in name.split(".")):
            continue
        try:
            shown[name] = Module.from_name(name)
        except RuntimeError as error:  # pdoc's, about whatever the module raised
            missing[name] = str(error.__cause__ or error).partition("\n")[0]
    return shown, missing


def address(name):
    """Where a module's page is in the site."""
    return f"{FOLDER}/{name.replace('.', '/')}.html"


def line(docstring):
    """First sentence of a docstring as HTML."""
    first = re.split(rf"(?<=\.){NO_END}\s|\n\n", docstring.strip())[0].rstrip(".:")
    return Markup(re.sub("``(.+?)``", r"<code>\1</code>", escape(" ".join(first.split()), quote=False)))


def reached(module):
    """What a package hands on when it is first asked for, as pdoc knows it where it is defined; by name."""
    shown, _ = modules()
    places = getattr(module.obj, "_HERE", {})
    found = {name: shown.get(f"{module.fullname}.{place}") for name, place in places.items()}
    return {name: found[name].members[name] for name in sorted(found, key=str.lower) if found[name]}


def prose(docstring):
    """A docstring without signs for other readers: what typer is told to leave as it is becomes code."""
    return re.sub(r"^\x08\n((?:.+\n?)*)", lambda match: "\n" + indent(match[1], "    "), docstring, flags=re.MULTILINE)


def plain(html):
    """Docstring as HTML whose headings are no headings of the page."""
    html = re.sub(r"<h6[^>]*>(.*?)</h6>", r'<p class="part">\1</p>', str(html))
    return Markup(html.replace('<div class="pdoc-code codehilite">', '<div class="highlight">'))


def signature(function):
    """Parameters and defaults: types are in the docstring, and paths begin at the checkout."""
    given = function.signature_without_self if function.name == "__init__" else function.signature
    parameters = list(given.parameters.values())
    if parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    return "(" + ", ".join(_parameter(one) for one in parameters) + ")"


def _parameter(parameter):
    default = parameter.default
    if isinstance(default, Path) and default.is_relative_to(ROOT):
        default = Shown(f"ROOT / {default.relative_to(ROOT).as_posix()!r}")
    elif re.search(r"^<| at 0x", repr(default)) and default is not inspect.Parameter.empty:
        default = Shown(getattr(default, "__qualname__", None) or "...")
    return str(parameter.replace(annotation=inspect.Parameter.empty, default=default))


def read(source):
    """What the reference of a checkout shows; ``why`` says what is missing if there is none.

    Returns
    -------
    SimpleNamespace
        ``parts``: modules by package, each with ``name``, ``page`` and ``line``; ``start``: those that most readers
        want; ``missing``; ``why``.
    """
    own = Path(ocrrlib.__file__).resolve().parent
    if (source / "ocrrlib").resolve() != own:
        why = "The package that builds these pages is not the checkout’s: build them with its own."
        return SimpleNamespace(parts={}, start=[], missing={}, why=why)
    try:
        shown, missing = modules()
    except ImportError as error:
        why = f"There is no {error.name or error}: {WAY_OUT} installs what makes the reference from the docstrings."
        return SimpleNamespace(parts={}, start=[], missing={}, why=why)
    parts = {}
    for name, module in shown.items():
        part = name if module.is_package else name.rpartition(".")[0]
        about = SimpleNamespace(name=name, page=address(name), line=line(module.docstring))
        parts.setdefault(part, []).append(about)
    wanted = [f"{ocrrlib.__name__}.{name}" for name in CONTENT["docs"]["start"]]
    start = [SimpleNamespace(name=name, page=address(name)) for name in wanted if name in shown]
    return SimpleNamespace(parts=parts, start=start, missing=missing, why="")


def render(shared):
    """Pages of all modules by their place in the site, as text; ``shared`` is what all the site's templates see.

    Raises
    ------
    InputError
        If a docstring cannot be shown.
    """
    import pdoc.render

    shown, _ = modules()
    pdoc.render.configure(docformat="numpy", show_source=False, search=False, template_directory=TEMPLATES)
    filters = {"line": line, "plain": plain, "prose": prose, "parameters": signature, "reached": reached}
    pdoc.render.env.filters |= filters
    texts = {}
    for name, module in shown.items():
        pdoc.render.env.globals |= shared | {"root": "../" * address(name).count("/"), "page": "docs"}
        try:
            texts[address(name)] = pdoc.render.html_module(module, shown)
        except Exception as error:  # pdoc and its Markdown raise what they like
            raise InputError(f"the docstrings of {name} cannot be shown ({error}): correct them there") from error
    return texts
