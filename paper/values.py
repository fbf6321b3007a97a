"""Numbers that the paper's prose quotes: each notebook writes a file of them, the paper shows them by key."""

import json
import math
from dataclasses import dataclass
from numbers import Integral

from ocrrlib.files import ROOT, InputError, write_text

FOLDER = ROOT / "paper/values"


@dataclass(frozen=True)
class Value:
    """A number and its display: ``digits`` decimals, then ``unit`` if there is one (``MB``, ``%``, ``µs``)."""

    value: float
    digits: int = 3
    unit: str = ""

    @property
    def text(self):
        """The number for readers: thousands separated from 10,000 on, a real minus sign, the unit on the same line."""
        shown = f"{abs(self.value):,.{self.digits}f}"
        if len(shown.partition(".")[0]) <= len("9,999"):
            shown = shown.replace(",", "")
        sign = "−" if self.value < 0 and shown.strip("0.") else ""
        return f"{sign}{shown}" + (f"\N{NO-BREAK SPACE}{self.unit}" if self.unit else "")


def write(values, path):
    """Write numbers by key; a plain integer is shown as it is, any other plain number with three decimals.

    Raises
    ------
    InputError
        If a number is not finite.
    """
    entries = {}
    for key, value in values.items():
        if not isinstance(value, Value):
            value = Value(value, digits=0 if isinstance(value, Integral) else 3)
        if not math.isfinite(value.value):
            raise InputError(f"{path.name}: {key} is {value.value}; quote a finite number")
        number = int(value.value) if isinstance(value.value, Integral) else float(value.value)
        entries[key] = {"value": number, "text": value.text, "unit": value.unit, "digits": value.digits}
    write_text(path, json.dumps(entries, ensure_ascii=False, indent=1, sort_keys=True) + "\n")


def read(folder=FOLDER):
    """Entries of all files in a folder by key: ``{"value", "text", "unit", "digits", "notebook"}``.

    Raises
    ------
    InputError
        If two notebooks write the same key.
    """
    entries = {}
    for path in sorted(folder.glob("[!.]*.json")):
        for key, entry in json.loads(path.read_text(encoding="utf-8")).items():
            if key in entries:
                raise InputError(f"{path}: {key} is a value of {entries[key]['notebook']} already; choose another key")
            entries[key] = entry | {"notebook": path.stem}
    return entries
