"""The paper's numbers by name: notebooks write them, the paper shows them, nobody types them."""

import json
import math
import re
from dataclasses import dataclass
from numbers import Integral, Real

from ocrrlib.errors import InputError
from ocrrlib.files import ROOT, write_text
from ocrrlib.metrics import by_cell

WHOLE = ("corrections", "entries")  # means that are shown without decimals
PATH = ROOT / "paper/values.json"
KEY = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")
MARKUP = set("*_[]<>{}@#$^~|\\`\"'")  # would mean something to Markdown, YAML or LaTeX
FIELDS = {"value", "text", "unit", "digits", "notebook"}


@dataclass(frozen=True)
class Value:
    """A number as the paper shows it: ``digits`` decimals, then ``unit`` if there is one (``MB``, ``%``, ``µs``)."""

    value: float
    digits: int = 3
    unit: str = ""

    @property
    def text(self):
        """The number for readers, all in one line: thousands set apart from 10,000 on, a real minus sign."""
        shown = f"{abs(self.value):,.{self.digits}f}"
        if len(shown.partition(".")[0]) <= len("9,999"):
            shown = shown.replace(",", "")
        sign = "−" if self.value < 0 and shown.strip("0.") else ""
        return f"{sign}{shown}" + (f"\N{NO-BREAK SPACE}{self.unit}" if self.unit else "")


def read(path=PATH):
    """The entries of a values file by key: ``{"value", "text", "unit", "digits", "notebook"}``; none if it is missing.

    Raises
    ------
    InputError
        If the file is not what ``write`` writes.
    """
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}: {error.msg}; delete it and run the notebooks again") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8; delete it and run the notebooks again") from error
    if not isinstance(entries, dict) or not all(isinstance(e, dict) and FIELDS == set(e) for e in entries.values()):
        raise InputError(f"{path}: not a file of values; delete it and run the notebooks again")
    return entries


def write(values, notebook, path=PATH):
    """Make ``values`` all that ``notebook`` has in the file at ``path``; other notebooks' entries stay as they are.

    Parameters
    ----------
    values : dict from key (lower-case letters, digits, underscores, dots) to ``Value`` or plain number; a plain
        integer is shown as it is, any other number with three decimals.
    notebook : the notebook's name without its suffix, such as ``02_full_sweep``.

    Raises
    ------
    InputError
        If a key is malformed or another notebook's, a value is no finite number, or its digits or unit cannot be shown;
        the file is then as it was.
    """
    entries = read(path)
    kept = {key: entry for key, entry in entries.items() if entry["notebook"] != notebook}
    for key, value in values.items():
        if not KEY.fullmatch(key):
            raise InputError(f"{notebook}: malformed key {key!r}; use lower-case letters, digits, underscores and dots")
        if key in kept:
            raise InputError(f"{notebook}: {key!r} belongs to {kept[key]['notebook']} in {path}; choose another key")
        kept[key] = _entry(key, value, notebook)
    write_text(path, json.dumps(kept, ensure_ascii=False, indent=1, sort_keys=True) + "\n")


def of_cells(results, quoted, prefix):
    """Means over seeds, by key.

    Parameters
    ----------
    results : DataFrame of checkpoints.
    quoted : dict from ``dataset.policy.system`` to names of ``metrics.by_cell``, set apart by spaces.
    prefix : first part of every key.

    Returns
    -------
    dict from ``<prefix>.<dataset>.<policy>.<system>.<name>`` to ``Value``
    """
    cells, values = by_cell(results), {}
    for place, names in quoted.items():
        dataset, policy, system = place.split(".")
        for name in names.split():
            digits = 0 if name in WHOLE else 3
            values[f"{prefix}.{place}.{name}"] = Value(cells[dataset][policy][system][name], digits)
    return values


def _entry(key, value, notebook):
    if not isinstance(value, Value):
        value = Value(value, digits=0 if isinstance(value, Integral) else 3)
    if isinstance(value.value, bool) or not isinstance(value.value, Real) or not math.isfinite(value.value):
        raise InputError(f"{notebook}: {key!r} is {value.value!r}; give a finite number")
    if MARKUP & set(value.unit) or not value.unit.isprintable():
        raise InputError(f"{notebook}: {key!r} has the unit {value.unit!r}; give it without markup, in one line")
    if not isinstance(value.digits, Integral) or not 0 <= value.digits <= 12:
        raise InputError(f"{notebook}: {key!r} has {value.digits!r} digits; give a whole number from 0 to 12")
    number = int(value.value) if isinstance(value.value, Integral) else float(value.value)
    shown = {"text": value.text, "unit": value.unit, "digits": int(value.digits)}
    return {"value": number, **shown, "notebook": notebook}
