"""Columns of tables of one's own: whether they are there, and what is in them as text."""

import numpy as np
import pandas as pd

from ocrrlib.errors import InputError, pick

WHOLE = 2.0**53  # from here on floating-point numbers skip whole ones


def check_columns(path, columns, header):
    """Refuse a header in which one of these columns is missing or there twice.

    Raises
    ------
    InputError
        If it is so, or the header is empty.
    """
    if not header:
        raise InputError(f"{path} is empty: give it rows, and names of its columns")
    for column in columns:
        try:
            pick("column", column, dict.fromkeys(header))
        except InputError as error:
            raise InputError(f"{path}: {error}; name yours (text, label, split; --text, --label, --split)") from error
        if header.count(column) > 1:
            raise InputError(f"{path}: there are {header.count(column)} columns {column!r}: give each its own name")


def as_text(path, column, values, lines=None):
    """A column's values as text, ``""`` where there is none.

    Parameters
    ----------
    path : path or str
        What errors call it that the column is of.
    column : str
        Its name.
    values : Series
        Texts, whole numbers or categories of these.
    lines : list of int, optional
        Of each row, by which errors name it.

    Returns
    -------
    (n,) object

    Raises
    ------
    InputError
        If it holds something else, or half a character.
    """
    kind = pd.api.types.infer_dtype(values, skipna=True)
    if kind == "categorical":
        values = values.astype(object)
        kind = pd.api.types.infer_dtype(values, skipna=True)
    missing = values.isna().to_numpy()
    if kind == "floating":  # as pandas writes whole numbers of which one is missing
        numbers = values.to_numpy(np.float64, na_value=0)
        broken = np.flatnonzero(~missing & ~((np.abs(numbers) < WHOLE) & (numbers == np.floor(numbers))))
        if len(broken):
            raise InputError(
                f"{path}: column {column!r} holds floating-point numbers, as {numbers[broken[0]]} in "
                f"{_place(broken[0], lines)}: turn it into text or whole numbers"
            )
        values = pd.Series(numbers.astype(np.int64))
    elif kind not in ("string", "integer", "boolean", "empty"):
        raise InputError(f"{path}: column {column!r} holds {kind}: turn it into text or whole numbers")
    texts = values.astype(object).where(~missing, "")
    for row, text in enumerate(texts):
        if isinstance(text, str) and not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise InputError(
                    f"{path}: column {column!r} has half a character in {_place(row, lines)} ({text[:40]!a}): mend it"
                ) from error
    return texts.astype(str).to_numpy(object)


def _place(row, lines):
    return f"row {row}" if lines is None else f"line {lines[row]}"
