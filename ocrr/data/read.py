"""Read your data: texts or vectors with labels, from a file, a DataFrame or arrays."""

import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ocrr.data.arrays import ARRAYS, unit_rows, vectors
from ocrr.data.csv_files import Layout
from ocrr.data.findings import Findings, listed
from ocrr.data.paths import column_name, columns, wanted_values
from ocrr.data.splits import (
    Choice,
    Split,
    cells,
    check_cells,
    hash_rows,
    joined,
    label_cells,
    read_part,
    split_rows,
    text_of,
)
from ocrr.data.tables import TABLES, read_table
from ocrr.data.vector_cache import Encoded, encoded
from ocrrlib.datasets import DATASETS
from ocrrlib.embeddings import Embedded, widen
from ocrrlib.encoders import DEFAULT_ENCODER, name_of
from ocrrlib.files import InputError, pick
from ocrrlib.labels import label_of

WITH_HEADER = (".csv", ".tsv", ".xlsx")


def read_data(
    data: str | Path | pd.DataFrame | Mapping[str, np.ndarray],
    text: str = "text",
    label: str = "label",
    split: str | None = None,
    test_share: float = 0.25,
    seed: int = 0,
    encoder: str | Path | Callable | Any = DEFAULT_ENCODER,
    name: str | None = None,
    progress: bool = True,
    *,
    encoding: str | None = None,
    sep: str | None = None,
    no_header: bool = False,
    no_quotes: bool = False,
    where: str | Sequence[str] = (),
    drop_duplicates: bool = False,
    drop_empty: bool = False,
    min_rows: int | None = None,
    ignore_split: str | Sequence[str] = (),
    held_out: int | None = None,
) -> Embedded:
    """Read a dataset of your own, split it and embed its texts.

    Parameters
    ----------
    data : path, DataFrame or dict of arrays
        Texts in ``.csv``, ``.tsv``, ``.json``, ``.jsonl``, ``.xlsx`` (first sheet), ``.parquet`` or
        a DataFrame; or vectors in ``.npz``, ``.safetensors`` or a dict: X (n, d) and y (n,), or
        X_train, y_train, X_test and y_test.
    text, label : str
        Columns of texts and classes; none for vectors. A path leads into nested values, as
        ``annotations.0.result.value.choices``; a list of one is its value.
    split : str, optional
        Column, or array beside X and y, with ``train`` or ``test`` (or 0 or 1) for each row.
        Without it, the share ``test_share`` of each class is drawn by ``seed``; equal rows stay
        together.
    encoder : str, callable or object with ``encode``
        Embeds texts: a name (see ``ocrrlib.encoders.load_encoder``) or a function from a list of
        texts to (n, d). The vectors of a named encoder are kept in the cache.
    name : str, optional
        Name of the dataset; by default that of the file.
    encoding, sep : str, optional
        Encoding and separator of a file; by default its byte-order mark, else UTF-8, and what fits
        of ``,``, ``;``, tab and ``|``.
    no_header : bool
        Whether the first line is a row; columns are then ``0``, ``1``, and so on, by default ``0``
        for texts and ``1`` for classes.
    no_quotes : bool
        Whether quotes in a CSV file are part of the texts, of which each is then one line.
    where : str or sequence of str
        Take rows only that have a value in a column, as ``answer=accept``; of two conditions on one
        column, rows fulfil either, of others both.
    drop_duplicates, drop_empty : bool
        Whether to leave out equal rows but the first, and rows without text, label or split.
    min_rows : int, optional
        Leave out classes of fewer different rows, and those without a training or a test row.
    ignore_split : str or sequence of str
        Leave out rows of these splits, as ``validation``.
    held_out : int, optional
        Number of held-out classes that the data are for, checked before texts are encoded.

    Returns
    -------
    Embedded
        Unit rows; class names, by the rule of ``ocrrlib.labels.label_of``, sorted as text, or by
        value if all are whole numbers.

    Raises
    ------
    InputError
        If the file, rows, the split or the encoder cannot be used. It says all that was found;
        rows are named by their index.

    Warns
    -----
    UserWarning
        If one text has two labels, a model reads the beginning of a text only, or texts of two
        classes have the same vector.
    """
    if not (isinstance(test_share, Real) and 0 < test_share < 1):
        raise InputError(f"test_share {test_share!r} is out of range: give a share between 0 and 1")
    if min_rows is not None and not (isinstance(min_rows, (int, np.integer)) and min_rows > 0):
        raise InputError(f"min_rows {min_rows!r} is out of range: give a whole number from 1")
    ignored = (ignore_split,) if isinstance(ignore_split, str) else tuple(ignore_split)
    if ignored and not split:
        raise InputError("ignore_split needs a split: name its column by --split")
    path = Path(data) if isinstance(data, (str, Path)) else None
    name = name or (path.stem if path else "own_data")
    if name in DATASETS:
        raise InputError(
            f"{name!r} is the name of a published dataset: rename the file, or give a name"
        )
    layout = _layout(text, label, encoding, sep, no_header, no_quotes, where)
    choice = Choice(drop_duplicates, drop_empty, min_rows, ignored)
    split = None if split is None else column_name(split)
    with _named(path or name):
        content, rows = _divided(data, path, layout, split, choice, test_share, seed, held_out)
        content = content[rows.rows]
        for warning in rows.warnings:
            warnings.warn(f"{path or name}: {warning}", stacklevel=2)
        if content.ndim == 1:
            encoder_name = name_of(encoder)
            training = content[~rows.test].tolist()
            found = encoded(content.tolist(), rows.places, encoder, training, progress)
            X = widen(found.rows)
            for warning in _lost(rows, found):
                warnings.warn(f"{path or name}: {warning}", stacklevel=2)
        else:
            encoder_name = "vectors"
            X = widen(content)
    test = rows.test
    return Embedded(
        name, encoder_name, rows.classes, X[~test], rows.y[~test], X[test], rows.y[test]
    )


def read_rows(
    path: str | Path,
    text: str = "text",
    label: str = "label",
    *,
    encoding: str | None = None,
    sep: str | None = None,
    no_header: bool = False,
    no_quotes: bool = False,
    where: str | Sequence[str] = (),
    drop_empty: bool = False,
    also: Sequence[str] = (),
) -> tuple[np.ndarray, ...]:
    """Texts (n,), or vectors (n, d), and labels (n,) of a file, all options as of ``read_data``.

    Then each column that is asked for ``also`` (n,), as text, "" where it is empty.
    """
    layout = _layout(text, label, encoding, sep, no_header, no_quotes, where)
    with _named(path):
        findings = Findings()
        names = [layout.text, layout.label, *also]
        table = _read(Path(path), names, layout, findings)
        if isinstance(table, pd.DataFrame):
            way_out = _way_out(Path(path), "--text and --label")
            table = columns(table, names, layout.where, findings, way_out)
            checked = [cells(layout.text, table[0], text_of), label_cells(layout.label, table[1])]
            content = checked[0].values
            more = [cells(name, table[n], _noted) for n, name in enumerate(also, 2)]
        elif also:
            raise InputError(f"vectors have no column {also[0]!r}: give texts, or leave it out")
        else:
            _check_vector_layout(layout)
            arrays = {name: pick("array", name, table) for name in ("X", "y")}
            content, table, _ = vectors(arrays, split=None)
            checked = [label_cells("y", table["y"])]
            more = []
        rows = np.ones(len(table), bool)
        usable = check_cells(table.index, checked, rows, findings, drop_empty)
        for one in more:
            findings.add(
                table.index[usable & one.bad], f"{one.name!r} is no text in row", "mend it"
            )
        findings.refuse()
    labels = checked[-1].values[usable]
    several = joined(labels)
    if several:
        warnings.warn(f"{path}: a class looks like several labels: {listed(several)}", stacklevel=2)
    return content[usable], labels, *(one.values[usable] for one in more)


def _noted(value):
    """A number or date as text, a whole number without a point; words as they are."""
    try:
        return label_of(value)
    except InputError:
        return text_of(value)


@contextmanager
def _named(source: str | Path) -> Iterator[None]:
    """Name file or dataset in what is raised, in one line."""
    try:
        yield
    except ValueError as error:
        raise InputError(textwrap.shorten(f"{source}: {error}", 1500)) from error


def _layout(text, label, encoding, sep, no_header, no_quotes, where):
    """How to read a file, with names of columns as text."""
    text = column_name(text)
    label = column_name(label)
    if no_header:
        text = "0" if text == "text" else text
        label = "1" if label == "label" else label
    where = (where,) if isinstance(where, str) else tuple(where)
    return Layout(text, label, encoding, sep, no_header, no_quotes, where)


def _read(path, names, layout, findings):
    """A table, in which the paths ``names`` can be followed, or arrays by name."""
    suffix = path.suffix.lower()
    known = suffix in TABLES | ARRAYS
    if suffix == ".sqlite":
        raise InputError(
            "a correction memory is no dataset: export its texts by `corrigible export "
            f"{path} {path.stem}.jsonl`, and give that file"
        )
    if known and not path.exists():
        raise InputError("there is no such file: give the path of one")
    if not known or not path.is_file():
        raise InputError(f"not a file in {', '.join(TABLES | ARRAYS)}: give one of these")
    if layout.no_header and suffix not in WITH_HEADER:
        raise InputError(f"a {suffix} file has names of its own: leave out --no-header")
    try:
        if suffix in ARRAYS:
            return ARRAYS[suffix](path)
        return read_table(path, [*names, *wanted_values(layout.where)], layout, findings)
    except InputError:
        raise
    except Exception as error:  # damaged files raise whatever their readers meet
        raise InputError(
            f"it cannot be read ({type(error).__name__}: {error}): restore it or save it again"
        ) from error


def _check_vector_layout(layout):
    """Refuse options that are about texts."""
    for option, value in vars(layout).items():
        if value != getattr(Layout(), option):
            shown = option.replace("_", "-")
            raise InputError(f"vectors have no {option} {value!r}: leave out --{shown}")


def _way_out(path, options):
    """The way out of a column that is missing: ``options`` choose another."""
    suffix = path.suffix.lower() if path else None
    if suffix not in WITH_HEADER:
        return f"choose by {options}"
    if suffix == ".xlsx":
        return f"choose by {options}, or give --no-header"
    return f"choose by {options}, or give --sep or --no-header"


def _choosing(path, split):
    """How to choose columns: on the command line, and in Python."""
    options = "--text, --label and --split" if split else "--text and --label"
    arguments = f"{options.replace('--', '')} of read_data"
    return f"{options} ({arguments})" if path else arguments


def _divided(data, path, layout, split, choice, share, seed, held_out):
    """Texts (n,) or unit vectors (n, d) float16, and the rows that stay, divided for the test."""
    findings = Findings()
    names = [layout.text, layout.label] + ([split] if split else [])
    table = _read(path, names, layout, findings) if path else data
    if isinstance(table, pd.DataFrame):
        way_out = _way_out(path, _choosing(path, split))
        table = columns(table, names, layout.where, findings, way_out)
        text = cells(layout.text, table[0], text_of)
        content = text.values
        labels = table[1]
        parts = [table[2]] if split else []
        checked = [text]
    elif isinstance(table, Mapping):
        _check_vector_layout(layout)
        content, table, split = vectors(table, split)
        labels = table["y"]
        parts = [table[split]] if split else []
        checked = []
    else:
        raise InputError(f"{type(data).__name__} is no dataset: give a file, a DataFrame or a dict")
    label = label_cells(layout.label if checked else "y", labels)
    checked.append(label)
    rows = np.ones(len(table), bool)
    part = None
    if parts:
        part, rows = read_part(split, parts[0], choice.ignore_split, findings)
        checked.append(part)
    usable = check_cells(table.index, checked, rows, findings, choice.drop_empty)
    if content.ndim == 2:
        content, bad = unit_rows(content)
        if (usable & bad).any():
            shown = listed(table.index[usable & bad])
            findings.say(
                f"row {shown} is zero, not finite or too long to be normalised: fix or drop it"
            )
        usable &= ~bad
    return content, split_rows(
        content, usable, table.index, label, part, choice, share, seed, held_out, findings
    )


def _lost(rows: Split, found: Encoded) -> Iterator[str]:
    """What an encoder does not tell apart: ends of long texts, and texts of two classes."""
    if found.cut.any():
        yield (
            f"{found.cut.sum()} of {len(rows.y)} texts are longer than the {found.limit} tokens "
            f"that the encoder reads, and are cut, in row {listed(rows.places[found.cut])}"
        )
    table = pd.DataFrame({"vector": hash_rows(found.rows), "y": rows.y, "same": rows.same})
    several = table.groupby("vector")[["y", "same"]].transform("nunique") > 1
    equal = several.all(axis=1).to_numpy()
    if equal.any():
        yield (
            "different texts of different classes have the same vector in row "
            f"{listed(rows.places[equal])}: no system can tell them apart"
        )
