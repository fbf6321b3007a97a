"""Rooms are light and reach no other by a string; one statement does one thing."""

import ast
import subprocess
import sys

import pytest

from ocrrlib.files import ROOT
from tests.density import FOLDERS, density, files

MEMORY = "import sys, corrigible; print(*sys.modules)"
# The registry loads a system's libraries when the system is first made; the door, a user's module.
BY_NAME = {"ocrrlib/systems/registry.py", "ocrr/cli.py"}


def test_the_correction_memory_loads_no_table_library_and_no_system():
    command = [sys.executable, "-c", MEMORY]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    loaded = done.stdout.split()
    assert {"pandas", "pyarrow", "torch"}.isdisjoint(loaded)
    assert not [name for name in loaded if name.startswith(("ocrrlib.systems", "ocrrlib.rivals"))]


def imports_by_name(path):
    """Whether a module imports another one by a string, which the rules of rooms cannot see."""
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    names = {getattr(node, "id", getattr(node, "attr", "")) for node in nodes}
    return not names.isdisjoint({"import_module", "__import__"})


def test_no_room_reaches_another_by_a_string():
    code = [path for folder in ("ocrrlib", "ocrr", "memory", "studies") for path in files(folder)]
    assert {str(path.relative_to(ROOT)) for path in code if imports_by_name(path)} == BY_NAME


@pytest.mark.parametrize("folder", FOLDERS)
def test_one_statement_does_one_thing(folder):
    found = density(folder)
    assert found["tuples"] <= 0.7
    assert found["walrus"] <= 0.3
