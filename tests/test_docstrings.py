"""What docstrings name exists: no reference outlives what it refers to."""

import ast
import importlib
import re
from dataclasses import fields, is_dataclass

import pytest

from ocrrlib.files import ROOT

NAMED = re.compile(r"``([A-Za-z_]\w*(?:\.\w+)+)``")
MODULES = sorted(
    path.relative_to(ROOT).with_suffix("").as_posix().removesuffix("/__init__").replace("/", ".")
    for path in (ROOT / "ocrrlib").rglob("*.py")
)
SHORT = {"plt": "matplotlib.pyplot", "nn": "torch.nn"}
SHOWN = {"leaderboard.csv", "leaderboard.md", "dataset.policy.system"}  # files and patterns


def has(thing, name):
    return hasattr(thing, name) or is_dataclass(thing) and name in {field.name for field in fields(thing)}


def found(module, rest):
    """Whether a module, and what is in it by these names, is there."""
    try:
        thing = importlib.import_module(module)
    except ImportError:
        return False
    for name in rest:
        if not has(thing, name):
            return False
        thing = getattr(thing, name, None)
    return True


def exists(reference, module, arguments):
    """Whether a dotted name means something: ours by any end of a module's name, or a library's."""
    first, *rest = reference.split(".")
    if first in arguments or has(importlib.import_module(module), first) and found(module, [first, *rest]):
        return True
    parts = [*SHORT.get(first, first).split("."), *rest]
    for n in range(len(parts), 0, -1):
        head = ".".join(parts[:n])
        if any(found(name, parts[n:]) for name in MODULES if name == head or name.endswith(f".{head}")):
            return True
        if not head.startswith("ocrrlib") and found(head, parts[n:]):
            return True
    return False


@pytest.mark.parametrize("module", MODULES)
def test_dotted_names_in_docstrings_exist(module):
    tree = ast.parse((importlib.import_module(module).__loader__).get_source(module))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            arguments = {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}
            for reference in NAMED.findall(ast.get_docstring(node) or ""):
                assert reference in SHOWN or exists(reference, module, arguments), f"{module}: {reference} is gone"
