"""Your data: texts or vectors with labels, from a file or from memory."""

import hashlib
import textwrap
import unicodedata
from functools import partial
from pathlib import Path

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
        X, y = memory.entries.X, np.array(memory.labels, str)[memory.entries.y]
    # Nobody can take out or add rows for the sake of a split.
    several = pd.Series(list(map(bytes, X))).groupby(y).transform("nunique") > 1
    return {"X": X[several], "y": y[several]}


READERS = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".jsonl": partial(pd.read_json, lines=True, dtype=False, encoding="utf-8-sig"),
    ".parquet": pd.read_parquet,
    ".npz": lambda path: dict(np.load(path)),
    ".safetensors": load_file,
    ".sqlite": _read_memory,
}


def read_data(
    data,
    text="text",
    label="label",
    split=None,
    test_share=0.25,
    seed=0,
    encoder=DEFAULT_ENCODER,
    name=None,
    progress=True,
):
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
            label, split = "y", "part" if "part" in table else split
        classes, y, test = _labels_and_split(content, table, label, split, test_share, seed)
        if content.ndim == 1:
            named, by = isinstance(encoder, (str, Path)), name_of(encoder)
            kept = Memory(cache_folder() if named else None, verbose=0).cache(
                _encoded, ignore=["progress"]
            )
            version = revision(encoder) if named else None
            rows = widen(
                kept(content.tolist(), encoder, version, content[~test].tolist(), progress)
            )
        else:
            by, rows = "vectors", widen(halve(content))
    except ValueError as error:
        raise InputError(textwrap.shorten(f"{path or name}: {error}", 400)) from error
    return Embedded(name, by, classes, rows[~test], y[~test], rows[test], y[test])


def read_rows(path, text="text", label="label"):
    """Texts (n,), or vectors (n, d), and labels (n,) in a file, as ``read_data`` takes it."""
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
        parts = [
            {name: pick("array", f"{name}_{part}", arrays) for name in "Xy"}
            for part in ("train", "test")
        ]
        (X, train), (X_test, test) = (_vectors(part, None) for part in parts)
        table = pd.concat([train.assign(part="train"), test.assign(part="test")], ignore_index=True)
        return np.concatenate([X, X_test]), table
    X, *columns = (
        np.asarray(pick("array", name, arrays)) for name in ("X", "y", *([split] if split else []))
    )
    if (
        X.ndim != 2
        or X.dtype.kind not in "fiu"
        or any(column.shape != (len(X),) for column in columns)
    ):
        raise InputError(
            f"X {X.shape} {X.dtype} and y {columns[0].shape} do not fit: give numbers (n, d), labels (n,)"
        )
    return X, pd.DataFrame(dict(zip(("y", split), columns)))


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
    """Class names, class ids (n,) and test rows (n,) bool; ``content`` are texts (n,) or vectors (n, d)."""
    labels = [unicodedata.normalize("NFC", one.strip()) for one in _strings(table, label)]
    classes, y = np.unique(np.array(labels, str), return_inverse=True)
    if (
        content.ndim == 1
    ):  # case, spacing and compatibility forms of characters do not tell two texts apart
        plain = [
            " ".join(unicodedata.normalize("NFKC", text).casefold().split()) for text in content
        ]
        hash_key = hashlib.sha256(str(seed).encode()).hexdigest()[:16]
        draws = same = pd.util.hash_array(np.array(plain, object), hash_key=hash_key)
    else:
        same = pd.util.hash_pandas_object(
            pd.DataFrame(content + 0), index=False
        ).to_numpy()  # + 0: -0.0 is 0.0
        draws = np.random.default_rng(seed).random(len(y))
    if split:
        words = pd.Series(_strings(table, split)).str.strip().str.lower()
        _refuse(
            table.index[~words.isin(list(PARTS))],
            f"{split!r} is neither train nor test in row",
            "write either",
        )
        test = words.map(PARTS).to_numpy(bool)
        double = pd.Series(test).groupby(same).transform("nunique") > 1
        _refuse(
            table.index[double], "the same row for training and test in row", "drop one of each"
        )
    else:  # of each class the share of its different rows with the lowest draws
        different = pd.DataFrame({"y": y, "draw": draws, "same": same}).drop_duplicates("same")
        draws = different.groupby("y")["draw"]
        size = draws.transform("size")
        wanted = np.minimum(np.maximum(np.floor(share * size + 0.5), 1), size - 1)
        test = np.isin(same, different["same"][draws.rank(method="first") <= wanted])
    sides = pd.Series(test).groupby(y).nunique()
    lacking = classes[sides.index[sides < 2]]
    _refuse(
        lacking,
        "no training or no test row of class",
        "give at least two different rows of each class",
    )
    return tuple(classes.tolist()), y, test
