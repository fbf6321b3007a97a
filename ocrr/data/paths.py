"""Take columns of a table by their paths, from the rows that fulfil conditions."""

import reprlib
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd

from ocrr.data.findings import Findings, listed
from ocrrlib.files import InputError, pick
from ocrrlib.labels import label_of

# Beside a label, Prodigy, Argilla and Label Studio say whether it counts: if so, if not, or later.
VERDICTS = {
    "answer": ("accept", ["reject", "ignore"], []),
    "status": ("submitted", ["discarded"], ["draft", "pending"]),
    "was_cancelled": ("false", ["true"], []),
}
DEEPEST = 10  # levels of a path that is told


def columns(
    table: pd.DataFrame,
    names: Sequence[str],
    where: Sequence[str],
    findings: Findings,
    way_out: str,
) -> pd.DataFrame:
    """Columns 0, 1, ..., one for each path in ``names``, of the rows that fulfil conditions.

    The second path is that of the labels: those that do not count, by ``VERDICTS``, are findings.
    A condition in ``where`` is a path and a value, as ``answer=accept``. Rows fulfil one of those
    with the same path, and so for each path. Raises ``InputError`` if paths lead nowhere or to two
    columns, which is told together, or if no row has a value.
    """
    table = named(table)
    wanted = wanted_values(where)
    found = {name: _column(table, name) for name in [*names, *wanted]}
    missing = [name for name, column in found.items() if column is None]
    if missing:
        there = list(dict.fromkeys(_paths(table)))
        close = get_close_matches(missing[0], there, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        shown = listed([name[:80] for name in there], 8)
        unknown = f"unknown column {listed(map(repr, missing))}{hint}; there are: {shown}"
        findings.say(f"{unknown}: {way_out}")
    double = [name for name in found if (table.columns == name).sum() > 1]
    for name in double:
        n = (table.columns == name).sum()
        findings.say(f"{n} columns have the name {name!r}: rename all but one")
    if missing or double:
        findings.refuse()
    rows = np.ones(len(table), bool)
    for name, values in wanted.items():
        rows &= _has(name, found[name], values)
    _check_verdicts(table, names[1], found, findings)
    return pd.DataFrame({place: found[name][rows] for place, name in enumerate(names)})


def wanted_values(where: Sequence[str]) -> dict[str, list[str]]:
    """Values of conditions by their paths; ``InputError`` for what is no condition."""
    wanted: dict[str, list[str]] = {}
    for condition in where:
        name, equals, value = condition.partition("=")
        if not (name and equals and value.strip()):
            raise InputError(f"where {condition!r} is no condition: give one as answer=accept")
        wanted.setdefault(name, []).append(label_of(value))
    return wanted


def _has(name, column, values):
    """Which values (n,) bool of a column are among some, in any case."""
    words = [_word(value) for value in column]
    there = dict.fromkeys(word for word in words if word)
    wanted = [value.lower() for value in values]
    for value in wanted:
        pick(f"value of {name!r}", value, there)
    return np.array([word in wanted for word in words])


def _word(value):
    """A value in lower case, by the rule of labels; empty if it is none."""
    value = unlisted(value)
    try:
        check_single(value, "")
        return label_of(value).lower()
    except InputError:
        return ""


def beside(label: str, verdict: str) -> list[str]:
    """Paths to a verdict on a label: beside each name that leads to it, the nearest first."""
    names = label.split(".")
    return [".".join([*names[:n], verdict]) for n in range(len(names), -1, -1)]


def _check_verdicts(table, label, used, findings):
    """Find rows whose label does not count, unless rows are chosen by what says so."""
    for name, (counts, rejected, later) in VERDICTS.items():
        paths = beside(label, name)
        there = {path: _column(table, path) for path in paths}
        path = next((path for path in paths if there[path] is not None), None)
        if path is None or not used.keys().isdisjoint(paths):
            continue
        words = pd.Series([_word(value) for value in there[path]], table.index)
        if set(words) <= {"", counts, *rejected, *later}:
            way_out = f"leave these out by --where {path}={counts}"
            findings.add(
                table.index[words.isin(rejected)], "the label does not count in row", way_out
            )


def named(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose columns have names of text; the parts of a tuple are joined by dots."""
    return table.set_axis([column_name(name) for name in table.columns], axis=1)


def column_name(name: object) -> str:
    """A column's name as text; parts of a tuple are joined by dots."""
    return ".".join(map(str, name)) if isinstance(name, tuple) else str(name)


def begins(path: str, name: str) -> bool:
    """Whether a path begins with a name, or is it."""
    return f"{path}.".startswith(f"{name}.")


def at(value: Any, path: str) -> Any:
    """The value at a path, of names and numbers with dots between; None where there is none.

    A name leads into each object of a list, a number into one of its values, from 0.
    """
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not path or value is None:
        return value
    if isinstance(value, dict):
        names = [name for name in value if begins(path, name)]
        if not names:
            return None
        name = max(names, key=len)  # names may have dots
        return at(value[name], path[len(name) + 1 :])
    if isinstance(value, list):
        number, _, rest = path.partition(".")
        if number.isdecimal():
            return at(value[int(number)], rest) if int(number) < len(value) else None
        found = [at(inner, path) for inner in value if isinstance(inner, dict)]
        return [inner for inner in found if inner is not None]
    return None


def unlisted(value: Any) -> Any:
    """The value in a list of one; None of an empty list; any other value as it is."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    while isinstance(value, list) and len(value) < 2:
        value = value[0] if value else None
    return value


def check_single(value: Any, name: str) -> None:
    """Raise ``InputError`` for a list or an object, with the way to one value of it."""
    if isinstance(value, (list, dict)):
        path = next(_leaves(value, name))
        raise InputError(
            f"{reprlib.repr(value)} is not one value: choose by a path, as {path!r}, "
            "with a number behind the name of a list, as .0"
        )


def _column(table, name):
    """The values of a path, a Series; None if it leads nowhere."""
    if name in table:
        found = table[name]
        return found if isinstance(found, pd.Series) else found.iloc[:, 0]
    heads = [head for head in table if begins(name, head)]
    if not heads:
        return None
    head = max(heads, key=len)
    values = [at(value, name[len(head) + 1 :]) for value in table[head]]
    if all(unlisted(value) is None for value in values):
        return None
    return pd.Series(values, table.index, dtype=object)


def _paths(table):
    """Paths to what stands in the first row that has a value in a column."""
    for name in table:
        filled = table[name].dropna()
        yield from _leaves(filled.iloc[0] if len(filled) else None, name)


def _leaves(value, path, left=DEEPEST) -> Iterator[str]:
    """Paths to the values within a value, ``left`` levels deep at most."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, dict) and value and left:
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}", left - 1)
    elif isinstance(value, list) and value and left:
        yield from _leaves(value[0], path, left - 1)
    else:
        yield path
