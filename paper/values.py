"""Numbers that prose quotes: each notebook writes a file of them, the paper and the README show them by key.

    python -m paper.values README.md

brings a Markdown file up to date: its ``<!--{key}-->`` values, and its table of systems.
"""

import json
import math
import re
import sys
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Integral
from pathlib import Path

import pandas as pd

from ocrrlib.files import ROOT, InputError, write_text
from ocrrlib.metrics import summarise

FOLDER = ROOT / "paper/values"
INTRODUCED = {
    "static_linear": "a linear head that never learns",
    "online_linear": "a linear head, one gradient step per correction",
    "knn_lm": "a frozen head mixed with five neighbours",
    "substrate": "the paper's ledger: five nearest entries vote",
    "slda": "class means and one shared covariance",
    "ledger_plda": "ours: the ledger, read by Gaussian models",
}


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


def show(key, entries):
    """A value's text by its key; InputError if there is none."""
    if key not in entries:
        close = get_close_matches(key, entries, n=1)
        raise InputError(f"unknown value {key!r}{f' (did you mean {close[0]!r}?)' if close else ''}")
    return entries[key]["text"]


def systems():
    """Markdown table of six systems on Banking77, every mistake corrected: means over seeds of the published runs."""
    results = pd.read_parquet(ROOT / "data/results/beyond.parquet")
    rows = summarise(results[(results["dataset"] == "banking77") & (results["policy"] == "oracle")]).set_index("system")
    lines = ["|system|what it is|novel|original|entries stored|MB|", "|---|---|--:|--:|--:|--:|"]
    for name, about in INTRODUCED.items():
        row = rows.loc[name]
        numbers = Value(row["novel"]), Value(row["original"]), Value(row["stored_entries"], 0)
        shown = [number.text for number in (*numbers, Value(row["storage_bytes"] / 1e6, 1))]
        lines.append(f"|{'|'.join([f'`{name}`', about, *shown])}|")
    return "\n".join(lines)


def refresh(text):
    """Markdown with its values between ``<!--{key}-->`` and ``<!---->``, and its table of systems, as they are now.

    Raises
    ------
    InputError
        If a key is unknown.
    """
    entries = read()
    value = r"(<!--{(.+?)}-->).*?(<!---->)"
    text = re.sub(value, lambda m: m[1] + show(m[2], entries) + m[3], text)
    return re.sub(r"(?s)(<!-- systems -->\n).*?(<!-- /systems -->)", lambda m: f"{m[1]}{systems()}\n{m[2]}", text)


if __name__ == "__main__":
    document = Path(sys.argv[1])
    write_text(document, refresh(document.read_text(encoding="utf-8")))
