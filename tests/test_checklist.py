"""The checklists name commands that exist."""

import re

import pytest
from typer.main import get_command

from ocrr.cli import app
from ocrrlib.files import ROOT
from paper.makefile import Makefile

PAGE = (ROOT / "docs/checklist.md").read_text(encoding="utf-8")
LINES = [line for line in PAGE.splitlines() if line.startswith("|")]
ROWS = [line for line in LINES if not line.startswith(("|---", "| question", "| badge"))]


def test_the_checklists_are_complete():
    numbers = re.findall(r"(?m)^\| (\d+)\. ", PAGE)
    assert numbers == [str(number) for number in range(1, 17)]
    badges = ("Available", "Functional", "Reusable", "Reproduced", "Replicated")
    assert all(any(badge in row for row in ROWS) for badge in badges)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_a_row_names_a_command_that_exists(row):
    shown = re.findall(r"`((?:make|ocrr) [\w/. -]+)`", row.split("|")[4])
    assert shown
    targets = Makefile().database
    commands = get_command(app).commands
    for command in shown:
        program, name = command.split()[:2]
        if program == "make":
            assert re.search(rf"(?m)^{re.escape(name)}:", targets), command
        else:
            assert name in commands, command
