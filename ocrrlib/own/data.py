"""Your data: texts or vectors with labels, from a file or from memory."""

import hashlib
import textwrap
import unicodedata
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Memory
from safetensors.numpy import load_file

from ocrrlib.datasets import DATASETS
from ocrrlib.embeddings import Embedded, encode, halve, widen
from ocrrlib.encoders import DEFAULT_ENCODER, load_encoder, name_of, revision
from ocrrlib.files import InputError, cache_folder, pick
from ocrrlib.memory import CorrectionMemory

PARTS = {"train": False, "0": False, "false": False, "test": True, "1": True, "true": True}


def _read_csv(path):
    with open(path, encoding="utf-8-sig") as file:
        separator = max(",;\t", key=file.readline(100_000).count)
    frame = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    if not isinstance(frame.index, pd.RangeIndex):
        raise pd.errors.ParserError(
            "rows have more fields than the header: quote texts with separators"
        )
    return frame


def _read_memory(path):
    with CorrectionMemory.open(path) as memory:
        X = memory.entries.X
        y = np.array(memory.labels, str)[memory.entries.y]
    # A split would have to add or take out rows, but a memory's entries are as they are.
    several = pd.Series(list(map(bytes, X))).groupby(y).transform("nunique") > 1
    return {"X": X[several], "y": y[several]}


def _read_arrays(path):
    return dict(np.load(path))


READERS: dict[str, Callable] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".jsonl": partial(pd.read_json, lines=True, dtype=False, encoding="utf-8-sig"),
    ".parquet": pd.read_parquet,
    ".npz": _read_arrays,
    ".safetensors": load_file,
    ".sqlite": _read_memory,
}


def read_data(
    data: str | Path | pd.DataFrame | dict[str, np.ndarray],
    text: str = "text",
    label: str = "label",
    split: str | None = None,
    test_share: float = 0.25,
    seed: int = 0,
    encoder: str | Path | Callable | Any = DEFAULT_ENCODER,
    name: str | None = None,
    progress: bool = True,
) -> Embedded:
    """Read a dataset of your own, split it and embed its texts.

    Parameters
    ----------
    data : path, DataFrame or dict of arrays
        Texts in ``.csv``, ``.tsv`` or ``.jsonl`` (UTF-8), ``.parquet`` or a DataFrame; or vectors
        in ``.npz``, ``.safetensors`` or a dict: X (n, d) and y (n,), or X_train, y_train, X_test
        and y_test; or the ``.sqlite`` file of a ``CorrectionMemory``: vectors of those labels that
        have two different ones at least.
    text, label : str
        Columns of texts and classes; not used for vectors.
    split : str, optional
        Column, or array beside X and y, with ``train`` or ``test`` (or 0 or 1) for each row.
        Without it, the share ``test_share`` of each class is drawn by ``seed``; equal rows stay
        together.
    encoder : str, callable or object with ``encode``
        Embeds texts: a name (see ``ocrrlib.encoders.load_encoder``) or a function from a list of
        texts to (n, d). The vectors of a named encoder are kept in the cache.
    name : str, optional
        Name of the dataset; by default that of the file.

    Returns
    -------
    Embedded
        Unit rows; class names sorted as text.

    Raises
    ------
    InputError
        If the file, a row, the split or the encoder cannot be used; rows are named by their index.
    """
    if not 0 < test_share < 1:
        raise InputError(f"test_share {test_share!r} is out of range: give a share between 0 and 1")
    path = Path(data) if isinstance(data, (str, Path)) else None
    name = name or (path.stem if path else "own_data")
    if name in DATASETS:
        raise InputError(
            f"{name!r} is the name of a published dataset: rename the file, or give a name"
        )
    try:
        table = _read(path) if path else data
        if isinstance(table, pd.DataFrame):
            content = _strings(table, text)
        else:
            content, table = _vectors(table, split)
            label = "y"
            split = "part" if "part" in table else split
        classes, y, test = _labels_and_split(content, table, label, split, test_share, seed)
        if content.ndim == 1:
            encoder_name = name_of(encoder)
            rows = _embedded(content, encoder, content[~test].tolist(), progress)
        else:
            encoder_name = "vectors"
            rows = widen(halve(content))
    except ValueError as error:
        raise InputError(textwrap.shorten(f"{path or name}: {error}", 400)) from error
    return Embedded(name, encoder_name, classes, rows[~test], y[~test], rows[test], y[test])


def _embedded(texts, encoder, training, progress):
    """Unit rows (n, d) of texts; the vectors of a named encoder are kept in the cache."""
    if isinstance(encoder, (str, Path)):
        encode_once = Memory(cache_folder(), verbose=0).cache(_encoded, ignore=["progress"])
        version = revision(encoder)
    else:
        encode_once = _encoded
        version = None
    return widen(encode_once(texts.tolist(), encoder, version, training, progress))


def read_rows(
    path: str | Path, text: str = "text", label: str = "label"
) -> tuple[np.ndarray, np.ndarray]:
    """Texts (n,), or vectors (n, d), and labels (n,) of a file that ``read_data`` can read."""
    table = _read(Path(path))
    if not isinstance(table, pd.DataFrame):
        return pick("array", "X", table), pick("array", "y", table)
    return _strings(table, text), _strings(table, label)


def _read(path):
    if not path.is_file() or path.suffix.lower() not in READERS:
        raise InputError(f"not a file in {', '.join(READERS)}: give one of these")
    try:
        return READERS[path.suffix.lower()](path)
    except Exception as error:  # damaged files raise whatever their readers meet
        raise InputError(
            f"it cannot be read ({type(error).__name__}: {error}): restore it or save it again"
        ) from error


def _encoded(texts, encoder, revision, training, progress):
    return encode(texts, load_encoder(encoder, training, progress))


def _vectors(arrays, split):
    """X (n, d) of arrays by name; a table of labels ``y`` and, if there is one, of the split."""
    if "X_train" in arrays:
        X_train, train = _labelled(arrays, "X_train", "y_train")
        X_test, test = _labelled(arrays, "X_test", "y_test")
        table = pd.concat([train.assign(part="train"), test.assign(part="test")], ignore_index=True)
        return np.concatenate([X_train, X_test]), table
    X, table = _labelled(arrays, "X", "y")
    if split:
        column = np.asarray(pick("array", split, arrays))
        _check_shapes(X, split, column)
        table[split] = column
    return X, table


def _labelled(arrays, X_name, y_name):
    """Vectors (n, d), and a table with their labels ``y``."""
    X = np.asarray(pick("array", X_name, arrays))
    y = np.asarray(pick("array", y_name, arrays))
    _check_shapes(X, y_name, y)
    return X, pd.DataFrame({"y": y})


def _check_shapes(X, name, column):
    if X.ndim != 2 or X.dtype.kind not in "fiu" or column.shape != (len(X),):
        raise InputError(
            f"X {X.shape} {X.dtype} and {name} {column.shape} do not fit: "
            "give numbers (n, d), labels (n,)"
        )


def _refuse(places, what, way_out):
    """Refuse the data for these rows or classes, of which three are named."""
    if len(places):
        more = f" and {len(places) - 3} more" * (len(places) > 3)
        raise InputError(f"{what} {', '.join(map(str, places[:3]))}{more}: {way_out}")


def _strings(table, column):
    """A column as an object array of strings, none of them empty."""
    values = table[pick("column", column, {str(name): name for name in table.columns})]
    found = values.astype(object).where(values.notna(), "").map(str)
    _refuse(
        table.index[found.str.strip() == ""],
        f"{column!r} is empty in row",
        "fill it in or drop these rows",
    )
    return found.to_numpy(object)


def _labels_and_split(content, table, label, split, share, seed):
    """Class names, class ids (n,) and test rows (n,) bool; ``content`` has texts or vectors."""
    labels = [unicodedata.normalize("NFC", one.strip()) for one in _strings(table, label)]
    classes, y = np.unique(np.array(labels, str), return_inverse=True)
    same, draws = _hashes(content, seed)
    if split:
        test = _given_split(table, split, same)
    else:
        test = _drawn_split(y, same, draws, share)
    sides = pd.Series(test).groupby(y).nunique()
    _refuse(
        classes[sides.index[sides < 2]],
        "no training or no test row of class",
        "give at least two different rows of each class",
    )
    return tuple(classes.tolist()), y, test


def _hashes(content, seed):
    """A number that equal rows have in common (n,), and random draws (n,) by ``seed``.

    Texts that differ only in case, spacing or compatibility forms of characters are equal; their
    draw is a hash keyed by ``seed``, so that it does not depend on other rows.
    """
    if content.ndim == 1:
        plain = [
            " ".join(unicodedata.normalize("NFKC", text).casefold().split()) for text in content
        ]
        hash_key = hashlib.sha256(str(seed).encode()).hexdigest()[:16]
        same = pd.util.hash_array(np.array(plain, object), hash_key=hash_key)
        return same, same
    positive_zeros = pd.DataFrame(content + 0)  # -0.0 equals 0.0, but has another hash
    same = pd.util.hash_pandas_object(positive_zeros, index=False).to_numpy()
    return same, np.random.default_rng(seed).random(len(content))


def _given_split(table, split, same):
    """Test rows (n,) bool by a column; equal rows may not be on both sides."""
    words = pd.Series(_strings(table, split)).str.strip().str.lower()
    _refuse(
        table.index[~words.isin(list(PARTS))],
        f"{split!r} is neither train nor test in row",
        "write either",
    )
    test = words.map(PARTS).to_numpy(bool)
    double = pd.Series(test).groupby(same).transform("nunique") > 1
    _refuse(table.index[double], "the same row for training and test in row", "drop one of each")
    return test


def _drawn_split(y, same, draws, share):
    """Test rows (n,) bool: of each class the share of its different rows with the lowest draws.

    At least one row of a class, and not all of them.
    """
    different = pd.DataFrame({"y": y, "draw": draws, "same": same}).drop_duplicates("same")
    by_class = different.groupby("y")["draw"]
    size = by_class.transform("size")
    wanted = np.minimum(np.maximum(np.floor(share * size + 0.5), 1), size - 1)
    return np.isin(same, different["same"][by_class.rank(method="first") <= wanted])
