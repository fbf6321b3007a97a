"""Build the site: overview, paper, claims, figures, tables, leaderboard, notebooks, how-tos and reference, provenance.

    python -m pages.build [--source FOLDER] [--out FOLDER]

What is there is shown; what is not is named with the command that makes it. All
links are relative and nothing is fetched, so the pages work from a folder, offline.
"""

import argparse
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import jinja2

import ocrrlib
from ocrrlib.errors import InputError
from ocrrlib.files import ROOT
from pages import claims, figures, howtos, leaderboard, notebooks, paper, provenance, reference, tables

HERE = Path(__file__).resolve().parent
ASSETS = ("assets/site.css", "assets/site.js")
NAVIGATION = ("index", "paper", "claims", "figures", "tables", "leaderboard", "notebooks", "docs", "provenance")


@contextmanager
def replaced(target):
    """Yield an empty folder beside ``target``; put it in its place only on success.

    Raises
    ------
    InputError
        If ``target`` is something else than a site, or cannot be written.
    """
    if target.exists() and not (target / ASSETS[0]).exists():
        raise InputError(f"{target} is not a site, so it is left as it is: choose another folder with --out")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}; choose a folder that can be written") from error
    with beside as folder:
        new, old = Path(folder) / "new", Path(folder) / "old"
        new.mkdir()
        yield new
        if target.exists():
            os.replace(target, old)
        try:
            os.replace(new, target)
        except OSError:
            os.replace(old, target)
            raise


def environment():
    """Templates that escape by default and complain about unknown names."""
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    own = {"navigation": NAVIGATION, "verdicts": claims.VERDICTS, "checks": claims.CHECKS}
    env.globals |= own | {"version": ocrrlib.__version__, "root": ""}
    return env


def everything(source, env):
    """All that the pages show, read from a checkout."""
    drawn = figures.read(source / "figures")
    return {
        "claims": claims.read(source / "paper/claims.json"),
        "figures": drawn,
        "tables": tables.read(source / "paper/tables"),
        "notebooks": notebooks.read(source / "build/notebooks", env, [figure.name for figure in drawn]),
        "not_executed": notebooks.not_executed(source),
        "results": provenance.read(source),
        "artefacts": provenance.artefacts(source),
        "paper": paper.read(source / "paper"),
        "leaderboard": leaderboard.read(source),
        "howtos": howtos.read(source / "docs"),
        "reference": reference.read(source),
    }


def copies(shown):
    """Files that pages link to, by their place in the site."""
    files = {name: HERE / name for name in ASSETS}
    files |= {f"{kind}/{path.name}": path for kind in ("figures", "tables") for x in shown[kind] for path in x.files}
    ranked = shown["leaderboard"]
    files |= {f"{leaderboard.FOLDER}/{path.name}": path for path in ranked.cards}
    files |= {f"figures/{path.name}": path for path in ranked.files}
    return files | {path.name: path for path in [shown["paper"].pdf] if path}


def build(source, target):
    """Build the site of a checkout into ``target``, whole or not at all; return the names of its pages.

    Raises
    ------
    InputError
        If something that is there cannot be shown; the old site is left as it is.
    """
    if not source.is_dir():
        raise InputError(f"{source} is no folder: give the folder of a checkout")
    env = environment()
    shown = everything(source, env)
    env.globals |= shown
    texts = {name: env.get_template(f"{name}.html.j2").render(page=name) for name in NAVIGATION}
    texts["paper"] = paper.framed(shown["paper"], env) or texts["paper"]
    for book in shown["notebooks"]:
        texts[book.name] = env.get_template("notebook.html.j2").render(page="notebooks", book=book)
    for howto in shown["howtos"]:
        texts[howto.page] = env.get_template("howto.html.j2").render(page="docs", howto=howto)
    if shown["reference"].parts:
        shared = {name: env.globals[name] for name in ("navigation", "version")}
        texts |= {page.removesuffix(".html"): text for page, text in reference.render(shared).items()}
    with replaced(target) as folder:
        for name, path in copies(shown).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / name)
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.html").write_bytes(text.encode("utf-8"))
    return list(texts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=ROOT, help="the checkout to show (this one)")
    parser.add_argument("--out", type=Path, help="where the site goes (build/site in the checkout)")
    arguments = parser.parse_args()
    target = arguments.out or arguments.source / "build/site"
    try:
        names = build(arguments.source, target)
    except InputError as error:
        sys.exit(f"error: {error}")
    print(f"{len(names)} pages: {target / 'index.html'}")


if __name__ == "__main__":
    main()
