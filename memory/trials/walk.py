"""Count what a correction and two predictions walk through: functions, files, moves between them.

Run as ``python -m trials.walk``; a move back leads to a file that was left before. The first
prediction learns how sure answers are, the second one does not.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import corrigible
import ocrrlib
from corrigible import CorrectionMemory
from trials.auditor import letters

HOUSES = tuple(str(Path(house.__file__).parent) for house in (corrigible, ocrrlib))


def walk(do):
    """What a call of ``do`` walks through, told in a line."""
    calls = []
    sys.setprofile(lambda frame, event, _: event == "call" and calls.append(frame.f_code))
    do()
    sys.setprofile(None)
    calls = [code for code in calls if code.co_filename.startswith(HOUSES)]
    files = [code.co_filename for code in calls]
    moves = [n for n in range(1, len(files)) if files[n] != files[n - 1]]
    back = sum(files[n] in files[:n] for n in moves)
    return f"{len({*calls})} functions, {len({*files})} files, {len(moves)} moves, {back} back"


if __name__ == "__main__":
    for rows, encoder in ((np.eye(4), None), (["ac", "di", "np", "rt"], letters)):
        with tempfile.TemporaryDirectory() as folder:
            with CorrectionMemory.open(f"{folder}/m.sqlite", encoder) as memory:
                memory.learn(rows, [*"abcd"])
                what = "text" if encoder else "vector"
                print(f"correct, {what}:", walk(lambda: memory.correct(rows[1], "new")))
                print(f"predict, {what}:", walk(lambda: memory.predict(rows[0])))
                print(f"predict again, {what}:", walk(lambda: memory.predict(rows[0])))
