"""Check the arguments of a correction memory: texts, vectors, labels, places, times."""

from collections.abc import Callable, Container, Iterable, Mapping, Set
from datetime import UTC, datetime
from numbers import Real
from operator import index
from typing import Any

import numpy as np

from corrigible.proofs.rows import checked_about
from ocrrlib.files import InputError
from ocrrlib.labels import label_of

WANTED = "give texts, none of them empty, or vectors, numbers (n, d)"


def is_single(query: Any) -> bool:
    """Whether a query is one text or one vector (d,), not a list of them."""
    if isinstance(query, str):
        return True
    return getattr(query, "ndim", None) == 1 and _is_numeric(_array(query))


def texts_and_vectors(items: Any, vectors: Any = None) -> tuple[list, np.ndarray | None]:
    """Texts (n,), or None for each vector, and vectors (n, d), or None if texts came alone.

    ``items`` are texts or vectors in a list or any other ordered form, ``vectors`` those of texts.
    Raises ``InputError``, which names the first row that is neither.
    """
    if vectors is None and getattr(items, "ndim", 1) == 2:
        X = _table(items)
        return [None] * len(X), X
    rows = _listed("texts or vectors", items)
    are_vectors = (hasattr(row, "__len__") and not isinstance(row, (str, bytes)) for row in rows)
    if vectors is None and all(are_vectors):
        X = _table(rows)
        return [None] * len(X), X
    texts = []
    for place, row in enumerate(rows):
        if not isinstance(row, str) or not row.strip():
            raise InputError(f"row {place} is {_shown(row)}: {WANTED}")
        try:
            texts.append(row.encode().decode())  # a plain str, whatever its class was
        except UnicodeEncodeError as error:
            wrong = f"row {place}, {row!r}, is no Unicode text"
            raise InputError(f"{wrong}: mend or drop it") from error
    return texts, None if vectors is None else _table(vectors)


def rows_to_learn(
    texts: Any, labels: Any, vectors: Any, about: Any
) -> tuple[list, list[str], np.ndarray | None, list[dict]]:
    """Texts and vectors as from ``texts_and_vectors``, labels (n,), and notes (n,) about them.

    Notes are kept as by ``corrigible.proofs.rows.checked_about``. Raises ``InputError`` unless
    there is one of each.
    """
    texts, X = texts_and_vectors(texts, vectors)
    labels = labels_of(labels)
    notes: list[dict] = [{}] * len(texts)
    if about is not None:
        notes = [checked_about(note) for note in _listed("notes", about)]
    n_vectors = len(texts) if X is None else len(X)
    if not len(labels) == len(texts) == n_vectors == len(notes):
        raise InputError(
            f"there are {len(texts)} rows, {len(labels)} labels, {n_vectors} vectors and "
            f"{len(notes)} notes: give one of each"
        )
    return texts, labels, X, notes


def labels_of(values: Any) -> list[str]:
    """Labels (n,) as text, see ``ocrrlib.labels``; ``InputError`` names the first row without."""
    labels = []
    for place, value in enumerate(_listed("labels", values)):
        try:
            label = label_of(value)
            label.encode()
        except InputError as error:
            raise InputError(f"row {place}: {error}") from error
        except UnicodeEncodeError as error:
            raise InputError(f"row {place}, {label!r}, is no Unicode text: mend it") from error
        labels.append(label)
    return labels


def stored_labels(values: Any) -> Callable[[Container[str]], list[str]]:
    """A function of the labels known, which gives labels (n,) as ``labels_of``, or as known.

    Some were written before blanks and invisible characters were made one.
    """
    given = _listed("labels", values)
    labels = labels_of(given)
    return lambda known: [old if old in known else new for old, new in zip(given, labels)]


def entry_number(value: Any) -> int:
    """The place of an entry as an integer; raises ``InputError`` if it is none."""
    try:
        if not isinstance(value, bool):  # True is no entry 1
            return index(value)
    except TypeError:
        pass
    raise InputError(f"{_shown(value)} is no place of an entry: give an integer")


def entry_numbers(values: Any) -> list[int]:
    """Places of entries, each once, from one or a list.

    Raises ``InputError`` if one is none, or there are none.
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        return [entry_number(values)]
    places = [*dict.fromkeys(entry_number(value) for value in _listed("places", values))]
    if not places:
        raise InputError("there are no places of entries: give one or more")
    return places


def word_of(value: Any) -> str | None:
    """A word as text; None stays."""
    return None if value is None else str(value)


def selection_of(
    label: Any, by: Any, since: Any, like: Any
) -> tuple[str | None, str | None, datetime | None, str | None]:
    """What ``ledger.history.listed`` selects by; raises ``InputError`` for none of them."""
    wanted = None if label is None else labels_of([label])[0]
    return wanted, word_of(by), time_of(since), word_of(like)


def number_of(value: Any) -> int:
    """How many, from 0; raises ``InputError`` if it is no such number."""
    try:
        number = index(value)
    except TypeError:
        number = -1
    if number < 0:
        raise InputError(f"{_shown(value)} is no number of results: give 0 or more")
    return number


def some_texts_and_vectors(items: Any) -> tuple[list, np.ndarray | None]:
    """As ``texts_and_vectors``, but there may be none."""
    if getattr(items, "ndim", 1) == 2:
        return texts_and_vectors(items)
    rows = _listed("texts or vectors", items)
    return texts_and_vectors(rows) if rows else ([], None)


def share_of(value: Any) -> float | None:
    """A share between 0 and 1, or None from None; raises ``InputError`` if it is none."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if value is not None and not (is_number and 0 < value < 1):
        raise InputError(f"{_shown(value)} is no share: give a number between 0 and 1, as 0.95")
    return value


def time_of(value: Any) -> datetime | None:
    """A time, from one or from text in ISO 8601, UTC unless it says otherwise; None from None.

    Raises ``InputError`` if it is none.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError as error:
            raise InputError(f"{_shown(value)} is no time: give one as 2026-01-31T08:00") from error
    if value is not None and not isinstance(value, datetime):
        raise InputError(f"{_shown(value)} is no time: give a datetime, or text")
    if value is not None and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value


def _listed(what, values):
    """A list of what comes in any ordered form, as a tuple, an array, a column or a generator."""
    unordered = isinstance(values, (str, bytes, Mapping, Set)) or not isinstance(values, Iterable)
    if unordered or getattr(values, "ndim", 1) != 1:
        raise InputError(f"{_shown(values)} is no list of {what}: give one")
    return list(values)


def _table(vectors):
    X = _array(vectors)
    if not _is_numeric(X) or X.ndim != 2:
        raise InputError(f"{_shown(vectors)} has other than equally long rows of numbers: {WANTED}")
    return X


def _array(values):
    """An array of values, or None if they do not make one: rows of several lengths, bfloat16."""
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError):
        return None


def _is_numeric(array):
    return array is not None and array.dtype.kind in "fiu"


def _shown(value):
    """A value in one line, shortened."""
    shown = " ".join(repr(value).split())
    return shown if len(shown) <= 80 else shown[:77] + "..."
