"""The process of a submitted system: ``python -m ocrr.board.guest``, beside its ``system.py``.

It gets rows, and labels of known rows and corrections, by its standard input, and gives answers.
Labels of stream and test rows, and what is counted, stay in the process that asks
(``ocrr.board.rerun``). That one reads numbers and text alone: what is pickled goes one way only.
"""

import io
import os
import pickle
import sys
import traceback
from typing import Any, BinaryIO

import numpy as np
from threadpoolctl import threadpool_limits

from ocrr.adapters import prepared
from ocrrlib.stream import Unwatched

# First byte of a reply, before its length, 8 bytes, and its content
VALUE = b"v"
NOTHING = b"n"
ERROR = b"e"


class Guest:
    """The submitted system, and the rows that it was asked last."""

    def make(self, seed: int, name: str, parameters: dict | None) -> None:
        """Import the system, and prepare it for a run."""
        import system  # its file in this folder

        thing = getattr(system, name)
        if parameters is not None:
            thing = thing(**parameters)
        self.system = prepared(thing, seed)

    def fit(self, X, y, classes) -> None:
        self.system.fit(X, y, classes)

    def correct(self, x, y) -> None:
        self.system.correct(x, y)

    def answers(self, X) -> np.ndarray:
        watch = getattr(self.system, "watch", lambda X: Unwatched(self.system, X))
        self.queries = watch(X)
        self.rows = np.arange(len(X))
        return self.queries.answers(self.rows)

    def log_probabilities(self) -> Any:
        return self.queries.whole_log_probabilities(self.rows)


def reply(out: BinaryIO, value: Any) -> None:
    """Write an array, a text about an error, or nothing."""
    content = b""
    kind = VALUE
    if value is None:
        kind = NOTHING
    elif isinstance(value, str):
        kind = ERROR
        content = value.encode()
    else:
        buffer = io.BytesIO()
        np.save(buffer, np.asarray(value), allow_pickle=False)
        content = buffer.getvalue()
    out.write(kind + len(content).to_bytes(8) + content)
    out.flush()


def main() -> None:
    """Answer until nothing more is asked."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the system prints is no answer
    guest = Guest()
    while True:
        try:
            method, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            with threadpool_limits(1):  # as in ``ocrrlib.tasks``
                value = getattr(guest, method)(*arguments)
        except (Exception, SystemExit):
            value = traceback.format_exc(limit=-3)
        reply(out, value)


if __name__ == "__main__":
    main()
