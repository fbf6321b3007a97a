"""The README's example runs as it stands there, and is short; its table names modules that exist."""

import re

from ocrrlib.files import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_example_ranks_its_system_among_the_published_ones(capsys):
    for block in BLOCKS:
        exec(block, {})
    printed = capsys.readouterr().out
    assert "NearestMean" in printed and "ledger_plda" in printed


def test_the_example_has_ten_lines_at_most():
    assert all(sum(map(bool, block.splitlines())) <= 10 for block in BLOCKS) and len(BLOCKS) == 1


def test_every_module_in_the_table_exists_and_so_does_every_linked_file():
    for row in re.findall(r"^\| (`ocrrlib/[^|]*) \|", README, re.MULTILINE):
        for name in re.findall(r"`([^`]+)`", row):
            assert (ROOT / name).exists() or (ROOT / "ocrrlib" / name).exists(), name
