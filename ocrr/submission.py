"""A contribution to the leaderboard: a folder with rows, answers and, if it can be, the system.

==================  ========================================================================
file                content
==================  ========================================================================
rows.csv            rows of the leaderboard, one per seed
answers.parquet     transcripts, ``ocrr.transcript``, with the ``seed`` of each answer
system.py           the file with the class
requirements.txt    what it imports, lines ``name==version`` alone
submission.json     ``name`` of the class or function there, ``parameters`` of an object
report.json         what ``ocrr verify`` found
==================  ========================================================================
"""

import ast
import importlib.metadata
import inspect
import json
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
from packaging.requirements import Requirement

from ocrr.adapters import title_of
from ocrr.transcript import write
from ocrrlib.files import InputError, atomic, sha256, write_text
from ocrrlib.systems.base import TextSystem

ROWS = "rows.csv"
ANSWERS = "answers.parquet"
SYSTEM = "system.py"
PINS = "requirements.txt"
RECIPE = "submission.json"
REPORT = "report.json"
BOUND = (ROWS, ANSWERS, SYSTEM, PINS, RECIPE)  # files that a report is about
LARGEST = {SYSTEM: 50_000, PINS: 50_000, RECIPE: 50_000}  # bytes
LARGEST_RUN = 1_000_000  # bytes of a transcript
PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]*")
OURS = {"ocrr", "ocrrlib"}  # which the checker brings
OWN_FILE = "give a class or function of a module of your own, as evaluate(mine.Model)"


def write_submission(folder: Path, transcript: pd.DataFrame | None, thing: Any) -> str:
    """Write what a folder with rows lacks; the result says what others can do with it.

    A report that is there is removed, as it is about other files.
    """
    for name in (*BOUND[1:], REPORT):
        (folder / name).unlink(missing_ok=True)
    if transcript is None:
        return f"{folder}: reported, as there is no transcript"
    with atomic(folder / ANSWERS) as temporary:
        write(transcript, temporary)
    try:
        path, recipe = recipe_of(thing)
        lines = pins(path)
    except InputError as error:
        return f"{folder}: can be replayed, and not run again: {error}"
    shutil.copyfile(path, folder / SYSTEM)
    write_text(folder / PINS, "".join(f"{line}\n" for line in lines))
    write_text(folder / RECIPE, json.dumps(recipe, indent=1) + "\n")
    return f"{folder}: can be run again"


def recipe_of(thing: Any) -> tuple[Path, dict]:
    """The file of a system, and how it is made from what is there.

    Raises ``InputError`` if it is in no file of its own, or an object that cannot be made again.
    """
    if isinstance(thing, str):
        raise InputError(f"{thing} is in the registry, and ranks as published")
    maker = thing if inspect.isclass(thing) or inspect.isfunction(thing) else type(thing)
    title = title_of(maker)
    if inspect.isclass(maker) and issubclass(maker, TextSystem):
        raise InputError(f"{title} reads sentences")
    module = maker.__module__.partition(".")[0]
    try:
        path = Path(inspect.getsourcefile(maker) or "")
    except (TypeError, OSError):  # of a notebook, a prompt or C
        path = Path()
    packaged = module in OURS or module in importlib.metadata.packages_distributions()
    if module == "__main__" or packaged or not path.is_file() or maker.__name__ != title:
        raise InputError(f"{title} is in no file of its own: {OWN_FILE}")
    if maker.__qualname__ != maker.__name__:
        raise InputError(f"{title} is made inside of {maker.__qualname__}: {OWN_FILE}")
    parameters = None if maker is thing else _parameters(thing)
    return path, {"name": maker.__name__, "parameters": parameters}


def _parameters(thing):
    """Arguments that made an object, by the attributes of their names, as JSON can hold them."""
    name = title_of(thing)
    found = {}
    for one in inspect.signature(type(thing)).parameters.values():
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        try:
            found[one.name] = getattr(thing, one.name)
            same = json.loads(json.dumps(found)) == found
        except (AttributeError, TypeError, ValueError):
            same = False
        if not same:
            raise InputError(
                f"{name} cannot be made again, as its {one.name} is not kept as a plain attribute: "
                "keep it as one, or give a function that makes it"
            )
    return found


def pins(path: Path) -> list[str]:
    """Lines ``name==version`` of all packages that a file imports, and that these need.

    Raises ``InputError`` if it imports what is not installed as a package.
    """
    providers = importlib.metadata.packages_distributions()
    wanted = []
    for module in sorted(_imported(path) - OURS - sys.stdlib_module_names):
        if module not in providers:
            raise InputError(
                f"{module}, which {path.name} imports, is no installed package: put what you need "
                "of it into the same file"
            )
        wanted.append(providers[module][0])
    found: dict[str, str] = {}
    while wanted:
        name = re.sub(r"[-_.]+", "-", wanted.pop()).lower()
        if name in found:
            continue
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:  # an optional one
            continue
        found[name] = f"{name}=={distribution.version}"
        for line in distribution.requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                wanted.append(needed.name)
    return sorted(found.values())


def _imported(path):
    """Names of the packages and modules that a file imports anywhere."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add((node.module or "").partition(".")[0])
    return names


def hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of each file of a contribution that a report is about."""
    return {name: sha256(folder / name) for name in BOUND if (folder / name).exists()}


def read_recipe(folder: Path) -> dict:
    """How the system in a folder is made; ``InputError`` if what is there cannot be used."""
    for name, most in LARGEST.items():
        path = folder / name
        if not path.is_file():
            raise InputError(f"{path} is not there: write the folder with Evaluation.submit")
        if path.stat().st_size > most:
            raise InputError(f"{path} is larger than {most:,} bytes: a reader must be able to read")
    check_pins(folder / PINS)
    try:
        recipe = json.loads((folder / RECIPE).read_text(encoding="utf-8"))
        whole = recipe["name"].isidentifier() and isinstance(
            recipe["parameters"], (dict, type(None))
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        whole = False
    if not whole:
        raise InputError(f"{folder / RECIPE} names no class: write it with Evaluation.submit")
    return recipe


def check_pins(path: Path) -> None:
    """Raise ``InputError`` unless each line pins one package of the index to one version."""
    lines: Iterable[str] = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        if not PIN.fullmatch(line):
            raise InputError(
                f"{path}, line {number}: {line[:60]!r} is not name==version: pin each package to "
                "one version of the index, without options or addresses"
            )
