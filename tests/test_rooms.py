"""Rooms import only from rooms above them; code is plain, and typed where it is public."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ocrrlib.files import ROOT
from tests.density import COLUMNS, FOLDERS, density, files

SCRIPTS = Path(sys.executable).parent
MEMORY = "import sys, corrigible; print(*sys.modules)"


def run(*command, **options):
    """Exit status of a command at the root of the checkout, and what it prints."""
    options = {"cwd": ROOT, "capture_output": True, "text": True} | options
    done = subprocess.run([str(part) for part in command], **options)
    return done.returncode, done.stdout + done.stderr


def test_a_room_imports_only_what_its_contract_allows():
    status, said = run(SCRIPTS / "lint-imports", "pyproject.toml", "--no-cache", "--no-logo")
    assert status == 0, said


def test_the_correction_memory_loads_no_table_library_and_no_system():
    status, said = run(sys.executable, "-c", MEMORY)
    loaded = said.split()
    assert status == 0, said
    assert {"pandas", "pyarrow", "torch"}.isdisjoint(loaded)
    assert not [name for name in loaded if name.startswith(("ocrrlib.systems", "ocrrlib.rivals"))]


@pytest.mark.parametrize("folder", FOLDERS)
def test_one_statement_does_one_thing(folder):
    found = density(folder)
    assert found["tuples"] <= 0.7
    assert found["walrus"] <= 0.3


@pytest.mark.parametrize("folder", FOLDERS)
def test_lines_fit_their_width(folder):
    wide = []
    for path in files(folder):
        lines = path.read_text(encoding="utf-8").splitlines()
        wide += [f"{path}:{i}" for i, line in enumerate(lines, 1) if len(line) > COLUMNS]
    assert wide == []


def test_ruff_finds_nothing():
    status, said = run(SCRIPTS / "ruff", "check", "--no-cache", *FOLDERS)
    assert status == 0, said


def test_public_annotations_are_right(tmp_path):
    status, said = run(
        sys.executable, "-m", "mypy", env=os.environ | {"MYPY_CACHE_DIR": str(tmp_path)}
    )
    assert status == 0, said
