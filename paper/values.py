"""Numbers that prose quotes: notebooks write files of them, paper and README show them by key.

    python -m paper.values README.md

brings a Markdown file up to date.
"""

import json
import math
import re
import sys
from difflib import get_close_matches
from numbers import Integral
from pathlib import Path

from ocrrlib.files import ROOT, InputError, write_text
from ocrrlib.runs import published
from paper.style import Value, held  # noqa: F401
from studies.statistics import measure, t_intervals

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


def show(key: str, entries: dict[str, dict]) -> str:
    """A value's text by its key; InputError if there is none."""
    if key not in entries:
        close = get_close_matches(key, entries, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise InputError(f"unknown value {key!r}{hint}")
    return entries[key]["text"]


def refresh(text: str) -> str:
    """Markdown with its numbers brought up to date.

    They are values between ``<!--{key}-->`` and ``<!---->``, and those of each system's row. These
    are means over seeds on Banking77, every mistake corrected: novel and original accuracy, their
    harmonic mean and area, each with half of its 95 % t-interval; share of corrections that hold at
    the end, milliseconds of a correction and the prediction after it, MB.
    """
    entries = read()
    cell = published("beyond").query("dataset == 'banking77' and policy == 'oracle'")
    systems = measure(cell).groupby("system")
    costs = published("costs").query("dataset == 'banking77'").set_index("system")
    microseconds = costs["correct_median"] + costs["predict_median"]

    def row(match):
        own = systems.get_group(match[2])
        bounds = t_intervals(own[["novel", "original", "hm", "ausuc"]].T)
        numbers = [
            f"{Value(mean).text} ± {Value(high - mean).text}"
            for mean, high in zip(bounds["mean"], bounds["high"])
        ]
        numbers.append(Value(own["holds"].mean()).text)
        numbers.append(Value(microseconds[match[2]] / 1e3, 2).text)
        numbers.append(Value(own["storage_bytes"].mean() / 1e6, 1).text)
        return "|".join([match[1], *numbers, ""])

    text = re.sub(
        r"(<!--{(.+?)}-->).*?(<!---->)", lambda m: m[1] + show(m[2], entries) + m[3], text
    )
    return re.sub(r"(?m)^(\|`(\w+)`\|[^|]*)(\|[^|]*){7}\|$", row, text)


if __name__ == "__main__":
    document = Path(sys.argv[1])
    write_text(document, refresh(document.read_text(encoding="utf-8")))
