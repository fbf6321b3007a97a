"""The README's Python examples run as they stand there."""

import re

from ocrrlib.files import ROOT


def test_the_examples_run_one_after_the_other_and_learn_the_new_classes(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    names = {}
    for block in blocks:
        exec(block, names)
    corrections, novel, original = capsys.readouterr().out.splitlines()[-1].split()
    assert int(corrections) > 0 and float(novel) > 0.5 and float(original) > 0.5
