"""Numbers that prose quotes: each notebook writes a file of them, the paper and the README show them by key.

    python -m paper.values README.md

brings a Markdown file up to date.
"""

import json
import math
import re
import sys
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Integral
from pathlib import Path

from ocrrlib.files import ROOT, InputError, write_text
from ocrrlib.metrics import AXES, summarise
from ocrrlib.runs import published

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

    InputError if a number is not finite.
    """
    entries = {}
    for key, value in values.items():
        if not isinstance(value, Value):
            value = Value(value, digits=0 if isinstance(value, Integral) else 3)
        if not math.isfinite(value.value):
            raise InputError(f"{path.name}: {key} is {value.value}; quote a finite number")
        number = int(value.value) if isinstance(value.value, Integral) else float(value.value)
        entries[key] = {
            "value": number,
            "text": value.text,
            "unit": value.unit,
            "digits": value.digits,
        }
    write_text(path, json.dumps(entries, ensure_ascii=False, indent=1, sort_keys=True) + "\n")


def read(folder=FOLDER):
    """Entries of all files in a folder by key: ``{"value", "text", "unit", "digits", "notebook"}``."""
    found = {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("[!.]*.json"))
    }
    return {
        key: entry | {"notebook": stem} for stem, own in found.items() for key, entry in own.items()
    }


def show(key, entries):
    """A value's text by its key; InputError if there is none."""
    if key not in entries:
        close = get_close_matches(key, entries, n=1)
        raise InputError(
            f"unknown value {key!r}{f' (did you mean {close[0]!r}?)' if close else ''}"
        )
    return entries[key]["text"]


def refresh(text):
    """Markdown as of today: values between ``<!--{key}-->`` and ``<!---->``, and the numbers of each system's row.

    These are means over seeds on Banking77, every mistake corrected: accuracies, AUSUC, entries
    stored, MB.
    """
    entries, cell = (
        read(),
        published("beyond").query("dataset == 'banking77' and policy == 'oracle'"),
    )
    means = summarise(cell).set_index("system")[[*AXES, "stored_entries", "storage_bytes"]]

    def row(match):
        *axes, stored, held = means.loc[match[2]]
        numbers = *map(Value, axes), Value(stored, 0), Value(held / 1e6, 1)
        return "|".join([match[1], *(number.text for number in numbers), ""])

    text = re.sub(
        r"(<!--{(.+?)}-->).*?(<!---->)", lambda m: m[1] + show(m[2], entries) + m[3], text
    )
    return re.sub(r"(?m)^(\|`(\w+)`\|[^|]*)(\|[^|]*){5}\|$", row, text)


if __name__ == "__main__":
    document = Path(sys.argv[1])
    write_text(document, refresh(document.read_text(encoding="utf-8")))
