"""Escape untrusted text for terminals and spreadsheets."""

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# What moves a terminal's cursor or turns writing round, and half characters.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# An equals sign, plus, minus or at, also in full width, after what programs may skip.
_FORMULA = re.compile(r"['\s\u200b-\u200f\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20]|'*[\t\r\n]")
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4}))")


def visible(text: str, keep: str = "") -> str:
    r"""Write control characters as ``\x1b`` or ``\u202e``, except those in ``keep``."""

    def escape(found):
        code = ord(found[0])
        if found[0] in keep:
            return found[0]
        return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"

    return _CONTROL.sub(escape, text)


def to_cell(text: str) -> str:
    r"""Escape a text for a cell of a spreadsheet.

    Programs run cells that start with ``=``, ``+``, ``-`` or ``@``, also after spaces, as formulas:
    an apostrophe comes before these (OWASP, CSV Injection). Control characters become visible, but
    for tabs and line ends; a text ``\x1b`` becomes ``\x5cx1b``.
    """
    text = _ESCAPE.sub(lambda found: rf"\x5c{found[0][1:]}", text)
    text = visible(text, keep="\t\n\r")
    return f"'{text}" if _FORMULA.match(text) else text


def from_cell(cell: str) -> str:
    """Undo ``to_cell``."""
    if cell.startswith("'") and _FORMULA.match(cell[1:]):
        cell = cell[1:]
    return _ESCAPE.sub(lambda found: chr(int(found[1] or found[2], 16)), cell)


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Show each warning as one line on stderr."""
    with warnings.catch_warnings():
        warnings.showwarning = _say
        yield


def _say(message, category, filename, lineno, file=None, line=None):
    print("warning: " + visible(" ".join(str(message).split())), file=sys.stderr)
