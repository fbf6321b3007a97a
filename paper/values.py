"""Numbers that notebooks still write for the paper."""

import json
import math
from numbers import Integral
from pathlib import Path

from ocrrlib.files import ROOT, InputError, write_text
from paper.style import Value, held  # noqa: F401

FOLDER = ROOT / "paper/values"


def write(values: dict[str, Value | float], path: Path) -> None:
    """Write numbers by key.

    A plain integer is shown as it is, any other plain number with three decimals. InputError if a
    number is not finite.
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


def read(folder: Path = FOLDER) -> dict[str, dict]:
    """Entries of all files in a folder by key.

    Each has ``value``, ``text``, ``unit``, ``digits`` and ``notebook``.
    """
    found = {}
    for path in sorted(folder.glob("[!.]*.json")):
        for key, entry in json.loads(path.read_text(encoding="utf-8")).items():
            found[key] = entry | {"notebook": path.stem}
    return found
