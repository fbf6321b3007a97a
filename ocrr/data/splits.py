"""Check texts and labels, leave rows out, and split the rest into training and test rows."""

import hashlib
import re
import shlex
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, time
from numbers import Number
from typing import Any

import numpy as np
import pandas as pd

from ocrr.data.findings import SHOWN, Findings, listed
from ocrr.data.limits import check_characters
from ocrr.data.paths import check_single, unlisted
from ocrrlib.files import InputError, pick
from ocrrlib.labels import EXACT, label_of

WHOLE = re.compile("0|-?[1-9][0-9]{0,17}")
# As JSON, Python and NumPy write: with quotes, commas or colons, or of numbers.
LISTED = re.compile(r"""[\[{](.*["',:].*|[\d\s.]*)[\]}]""", re.DOTALL)
JOINTS = r"\s*[#,;|]\s*"
PARTS = {"train": False, "0": False, "0.0": False, "false": False}
PARTS |= {"test": True, "1": True, "1.0": True, "true": True}


def check_held_out(classes: Sequence[str], held_out: int | None) -> None:
    """Raise ``InputError`` unless so many classes can be held out, and others are left."""
    whole = isinstance(held_out, (int, np.integer)) and not isinstance(held_out, bool)
    if held_out is not None and not (whole and 0 < held_out < len(classes)):
        raise InputError(
            f"{held_out!r} classes cannot be held out of {len(classes)}: "
            f"give a number from 1 to {len(classes) - 1}"
        )


@dataclass(frozen=True)
class Choice:
    """Rows to leave out.

    With ``drop_duplicates`` all equal rows but the first; with ``drop_empty`` rows whose text,
    label or split is empty; with ``min_rows`` classes of fewer different rows, and those without a
    training or a test row; with ``ignore_split`` rows of these splits.
    """

    drop_duplicates: bool = False
    drop_empty: bool = False
    min_rows: int | None = None
    ignore_split: tuple[str, ...] = ()


@dataclass
class Cells:
    """Values of a column in one form (n,), which of them are empty, and which have no such form.

    ``fault`` and ``way_out`` are about the latter.
    """

    name: str
    values: np.ndarray
    empty: np.ndarray
    bad: np.ndarray
    fault: str = "cannot be used"
    way_out: str = ""


@dataclass
class Split:
    """Positions of the rows that stay (m,), their class ids (m,) and which are test rows (m,).

    ``places`` (m,) are the names of these rows; equal rows have the same number in ``same`` (m,).
    """

    rows: np.ndarray
    places: pd.Index
    classes: tuple[str, ...]
    y: np.ndarray
    test: np.ndarray
    same: np.ndarray
    warnings: list[str] = field(default_factory=list)


def text_of(value: Any) -> str:
    """A text as it is, or a number or date as text; ``InputError`` for anything else."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (float, np.floating)) and EXACT < abs(float(value)) < np.inf:
        raise InputError("give strings: a float stands for several whole numbers")
    if isinstance(value, (Number, np.generic, date, time)) and not isinstance(value, np.bytes_):
        return str(value)
    raise InputError("give strings")


def cells(name: str, column: pd.Series, convert: Callable[[Any], str]) -> Cells:
    """A column's values, each converted, as by ``text_of`` or ``label_of``."""
    values = np.full(len(column), "", object)
    empty = column.isna().to_numpy(bool, copy=True)
    bad = np.zeros(len(column), bool)
    why = ""
    for place, value in enumerate(column):
        value = unlisted(value)
        if value is None or empty[place] or isinstance(value, str) and not value.strip():
            empty[place] = True
            continue
        try:
            check_single(value, name)
            values[place] = convert(value)
            values[place].encode()
        except InputError as error:
            bad[place] = True
            why = why or str(error)
        except UnicodeEncodeError:
            bad[place] = True
            why = why or "mend the half of a character pair (a lone surrogate)"
    check_characters(sum(map(len, values)))
    return Cells(name, values, empty, bad, way_out=why)


def label_cells(name: str, column: pd.Series) -> Cells:
    """Labels of a column; a text that is a list or an object of a program cannot be one."""
    return cells(name, column, _label)


def _label(value):
    if isinstance(value, str) and LISTED.fullmatch(value.strip()):
        raise InputError(f"{value:.80} is a list, or an object: give one label")
    return label_of(value)


def joined(labels: Iterable[str]) -> list[str]:
    """Those labels that are others, joined by one of ``JOINTS``."""
    there = set(labels)
    parts = {name: re.split(JOINTS, name) for name in there}
    return sorted(name for name in there if len(parts[name]) > 1 and there.issuperset(parts[name]))


def check_cells(
    places: pd.Index, columns: list[Cells], rows: np.ndarray, findings: Findings, drop: bool
) -> np.ndarray:
    """Which of ``rows`` (n,) bool can be used; all others are findings, or dropped if empty."""
    if drop:
        rows = rows & ~np.any([one.empty for one in columns], axis=0)
    usable = rows.copy()
    for one in columns:
        findings.add(
            places[rows & one.empty],
            f"{one.name!r} is empty in row",
            "fill it in, or --drop-empty",
        )
        findings.add(places[rows & one.bad], f"{one.name!r} {one.fault} in row", one.way_out)
        usable &= ~(one.empty | one.bad)
    return usable


def split_rows(
    content: np.ndarray,
    usable: np.ndarray,
    places: pd.Index,
    label: Cells,
    part: Cells | None,
    choice: Choice,
    share: float,
    seed: int,
    held_out: int | None,
    findings: Findings,
) -> Split:
    """Leave out rows by ``choice``, and divide the others.

    ``content`` has texts (n,) or vectors (n, d), of which ``usable`` (n,) bool are taken; ``part``
    is the given split. Raises ``InputError`` with all ``findings``, if there are any: each is about
    the rows that are left when those before are mended.
    """
    what = "text" if content.ndim == 1 else "vector"
    rows = np.flatnonzero(usable)
    same, draws = _hashes(content[rows], seed)
    table = pd.DataFrame({"row": rows, "label": label.values[rows], "same": same, "draw": draws})
    warnings = []
    two_labels = table.groupby("same")["label"].transform("nunique") > 1
    if two_labels.any():
        rows_of_two = listed(places[table["row"][two_labels]])
        warnings.append(f"the same {what} has two labels or more in row {rows_of_two}")
    several = joined(table["label"])
    if several:
        warnings.append(f"a class looks like several labels: {listed(several)}")
    if choice.drop_duplicates:
        table = table.drop_duplicates("same")
    if choice.min_rows:
        n_different = table.groupby("label")["same"].transform("nunique")
        table = table[n_different >= choice.min_rows]
    if part is None:
        table = table.assign(test=_drawn(table, share))
    else:
        table = table.assign(test=[PARTS[part.values[row]] for row in table["row"]])
        double = table.groupby("same")["test"].transform("nunique") > 1
        findings.add(
            places[table["row"][double]],
            "the same row for training and test in row",
            "drop one of each, or --drop-duplicates",
        )
        if double.any():  # what is found next is what that leaves
            table = table.drop_duplicates("same")
    table = _with_both_sides(table, choice, label.name, part is not None, findings)
    classes = in_order(table["label"])
    ids = {name: place for place, name in enumerate(classes)}
    y = np.array([ids[name] for name in table["label"]], np.int64)
    if len(places) == 0:
        findings.say("there are no rows: give texts and labels")
    elif len(classes) == 0 and choice.min_rows:
        findings.say(f"no class is left by --min-rows {choice.min_rows}: give a lower number")
    elif len(classes) == 0 and not findings.said:
        findings.say("no rows are left: leave out fewer")
    elif len(classes) == 1:
        findings.say(f"one class only, {classes[0]}, has rows to use: give two or more")
    elif len(classes) > 1:
        findings.take(check_held_out, classes, held_out)
    findings.refuse()
    return Split(
        table["row"].to_numpy(),
        places[table["row"]],
        classes,
        y,
        table["test"].to_numpy(bool),
        table["same"].to_numpy(),
        warnings,
    )


def in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """The different labels: whole numbers by their value, as all are, else sorted as text."""
    classes = sorted(set(labels))
    if all(WHOLE.fullmatch(name) for name in classes):
        classes.sort(key=int)
    return tuple(classes)


def read_part(
    name: str, column: pd.Series, ignored: tuple[str, ...], findings: Findings
) -> tuple[Cells, np.ndarray]:
    """The given split, and which rows (n,) bool are not of ignored ones.

    An ignored split that is not there is a finding.
    """
    part = cells(name, column, label_of)
    part.values = np.array([word.lower() for word in part.values], object)
    ignored = tuple(label_of(word).lower() for word in ignored)
    there = dict.fromkeys(part.values[~(part.empty | part.bad)])
    for word in ignored:
        findings.take(pick, "split", word, there)
    others = [word for word in there if word not in PARTS and word not in ignored]
    part.fault = "is neither train nor test"
    part.way_out = "write either"
    if others:
        options = " ".join(f"--ignore-split {shlex.quote(word)}" for word in others[:SHOWN])
        part.way_out += f", or leave rows out by {options}"
    part.bad |= pd.Series(part.values).isin(others).to_numpy()
    return part, ~pd.Series(part.values).isin(ignored).to_numpy()


def _hashes(content, seed):
    """A number that equal rows have in common (n,), and random draws (n,) by ``seed``.

    Texts that differ only in case, spacing or compatibility forms of characters are equal; their
    draw is a hash keyed by ``seed``, so that it does not depend on other rows. Vectors are equal by
    ``hash_alike``.
    """
    if content.ndim == 1:
        plain = [
            " ".join(unicodedata.normalize("NFKC", text).casefold().split()) for text in content
        ]
        hash_key = hashlib.sha256(str(seed).encode()).hexdigest()[:16]
        same = pd.util.hash_array(np.array(plain, object), hash_key=hash_key)
        return same, same
    return hash_alike(content), np.random.default_rng(seed).random(len(content))


def hash_rows(X: np.ndarray) -> np.ndarray:
    """A number (n,) that equal rows of vectors have in common."""
    positive_zeros = pd.DataFrame(X + 0)  # -0.0 equals 0.0, but has another hash
    return pd.util.hash_pandas_object(positive_zeros, index=False).to_numpy()


def hash_alike(halves: np.ndarray) -> np.ndarray:
    """A number (n,) that unit rows (n, d) float16 have in common if equal but for rounding.

    They are compared in multiples of 2**-11, the spacing of float16 below 1.
    """
    return hash_rows(np.round(halves * 2.0**11))


def _drawn(table, share):
    """Test rows (n,) bool: of each class the share of its different rows with the lowest draws.

    At least one row of a class, and not all of them.
    """
    different = table.drop_duplicates("same")
    by_class = different.groupby("label")["draw"]
    size = by_class.transform("size")
    wanted = np.minimum(np.maximum(np.floor(share * size + 0.5), 1), size - 1)
    return table["same"].isin(different["same"][by_class.rank(method="first") <= wanted])


def _with_both_sides(table, choice, label, has_split, findings):
    """Rows of classes that have training and test rows; others are findings if not chosen."""
    lonely = table.groupby("label")["test"].transform("nunique") < 2
    if choice.min_rows:
        return table[~lonely]
    names = sorted(set(table["label"][lonely]))
    way_out = "give at least two different rows of each class, or --min-rows 2"
    if has_split and table["test"].nunique() < 2:
        way_out = "the split has rows of one kind only: give both, train and test"
    elif has_split:
        way_out = "give a training and a test row of each class, or --min-rows 2"
    elif lonely.all():
        way_out = f"give two different rows of each class; is {label!r} the column of classes?"
    findings.add(names, "no training or no test row of class", way_out)
    return table[~lonely]
