"""Your data: texts or vectors with labels, from a file or from memory."""

import hashlib
import re
import textwrap
import unicodedata
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors.numpy import load_file

from ocrrlib.datasets import DATASETS
from ocrrlib.embeddings import BLOCK, Embedded, encode_once, halve, load, load_sentences, widen
from ocrrlib.encoders import DEFAULT_ENCODER, as_encoder, name_of
from ocrrlib.files import InputError, pick

PARTS = {"train": False, "0": False, "false": False, "test": True, "1": True, "true": True}


def _read_csv(path):
    with open(path, encoding="utf-8-sig") as file:
        separator = max(",;\t", key=file.readline(100_000).count)
    frame = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    if not isinstance(frame.index, pd.RangeIndex):
        raise pd.errors.ParserError("rows have more fields than the header: quote texts with separators")
    return frame


def _read_npz(path):
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


_read_json_lines = partial(pd.read_json, lines=True, dtype=False, encoding="utf-8-sig")
READERS = {".csv": _read_csv, ".tsv": _read_csv, ".jsonl": _read_json_lines, ".parquet": pd.read_parquet}
READERS |= {".npz": _read_npz, ".safetensors": load_file}


def _read(path):
    if not path.is_file() or path.suffix.lower() not in READERS:
        raise InputError(f"not a file in {', '.join(READERS)}: give one of these")
    try:
        return READERS[path.suffix.lower()](path)
    except Exception as error:  # damaged files raise whatever their readers meet
        raise InputError(f"it cannot be read ({type(error).__name__}: {error}): restore it or save it anew") from error


def check_name(what, name):
    """Refuse a name that is empty, or has control characters or HTML in it: it goes into tables and pages."""
    if not (isinstance(name, str) and name.strip() and name.isprintable() and not set(name) & set("<>&|`")):
        raise InputError(f"{what} {name!r} is not a plain name: use printable characters other than < > & | `")


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
        Texts in ``.csv``, ``.tsv`` or ``.jsonl`` (UTF-8), ``.parquet`` or a DataFrame; or vectors in ``.npz``,
        ``.safetensors`` or a dict: X (n, d) and y (n,), or X_train, y_train, X_test and y_test.
    text, label : str
        Columns of texts and classes; not used for vectors.
    split : str, optional
        Column, or array beside X and y, with ``train`` or ``test`` (or 0 or 1) for each row. Without it, the share
        ``test_share`` of each class is drawn by ``seed``; equal rows stay together.
    encoder : str, callable or object with ``encode``
        Embeds texts: a name (see ``ocrrlib.encoders.load_encoder``) or a function from a list of texts to (n, d).
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
    if name is None:
        name = re.sub(r"[^\w .-]", "-", path.stem) if path else "own_data"
    check_name("dataset", name)
    if name in DATASETS:
        raise InputError(f"{name!r} is the name of a published dataset: rename the file, or give a name")
    encoder = as_encoder(encoder)
    try:
        data, X = _read(path) if path else data, None
        if not isinstance(data, pd.DataFrame):
            data, X = _table(data, split)
            text, label, split = None, "label", "split" if "split" in data else None
        texts = None if text is None else _strings(data, text)
        classes, y, test = _labels_and_split(data, texts if X is None else X, label, split, test_share, seed)
        if X is None:
            rows, by = widen(encode_once(texts, encoder, texts[~test], progress)), name_of(encoder)
        else:
            starts = range(0, len(X), BLOCK)
            parts = [widen(halve(X[start : start + BLOCK], lambda i: f"row {start + i}")) for start in starts]
            rows, by = np.concatenate(parts), "vectors"
    except ValueError as error:
        raise InputError(textwrap.shorten(f"{path or name}: {error}", 400)) from error
    return Embedded(name, by, classes, rows[~test], y[~test], rows[test], y[test])


def load_any(data, encoder, sentences):
    """What ``evaluate`` takes as dataset: as vectors, or as sentences for systems that read these."""
    if sentences:
        if not (isinstance(data, str) and data in DATASETS):
            raise InputError(f"a system that reads sentences runs on {' or '.join(DATASETS)} only: give one of these")
        return load_sentences(data, encoder)
    if isinstance(data, Embedded):
        if encoder not in (DEFAULT_ENCODER, data.encoder):
            raise InputError(f"{data.dataset} is embedded by {data.encoder!r} already: leave the encoder out")
        return data
    if isinstance(data, str) and not Path(data).suffix:
        return load(data, as_encoder(encoder))
    return read_data(data, encoder=encoder)


def _table(arrays, split):
    """Arrays as a table with ``label`` and, if there is one, ``split``; and the vectors."""
    if not hasattr(arrays, "items"):
        raise InputError(f"a {type(arrays).__name__} holds no data: give a file, a DataFrame or a dict of arrays")
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    if "X_train" in arrays:
        X, y = ([pick("array", f"{name}_{part}", arrays) for part in ("train", "test")] for name in "Xy")
        if list(map(len, X)) != list(map(len, y)):
            raise InputError("X_train and y_train, or X_test and y_test, are not of one length: give a label per row")
        parts = np.repeat(["train", "test"], list(map(len, y)))
        arrays, split = {"X": np.concatenate(X), "y": np.concatenate(y), "split": parts}, "split"
    X, *columns = (pick("array", name, arrays) for name in ("X", "y", *([split] if split else [])))
    if X.ndim != 2 or X.dtype.kind not in "fiu" or any(column.shape != (len(X),) for column in columns):
        raise InputError(f"X {X.shape} {X.dtype} and y {columns[0].shape} do not fit: give numbers (n, d), labels (n,)")
    return pd.DataFrame(dict(zip(("label", "split"), columns))), X


def _refuse(rows, what, way_out):
    if len(rows):
        named = ", ".join(f"row {row}" for row in rows[:3]) + f" and {len(rows) - 3} more" * (len(rows) > 3)
        raise InputError(f"{what} in {named}: {way_out}")


def _strings(table, column):
    """A column as an object array of strings, none of them empty."""
    values = table[pick("column", column, {str(name): name for name in table.columns})]
    found = values.astype(object).where(values.notna(), "").map(str)
    _refuse(table.index[found.str.strip() == ""], f"{column!r} is empty", "fill it in or drop these rows")
    return found.to_numpy(object)


def _labels_and_split(table, content, label, split, share, seed):
    """Class names, class ids (n,) and test rows (n,) bool; ``content`` are texts (n,) or vectors (n, d)."""
    labels = [unicodedata.normalize("NFC", one.strip()) for one in _strings(table, label)]
    classes, y = np.unique(np.array(labels, str), return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"there are {len(labels)} rows of {len(classes)} classes: give rows of at least two classes")
    if content.ndim == 1:  # case, spacing and compatibility forms of characters do not tell two texts apart
        plain = [" ".join(unicodedata.normalize("NFKC", text).casefold().split()) for text in content]
        which, different = pd.factorize(np.array(plain, object))
        draws = pd.util.hash_array(different, hash_key=hashlib.sha256(str(seed).encode()).hexdigest()[:16])[which]
    else:
        which = pd.factorize(np.array([hash(one.tobytes()) for one in np.ascontiguousarray(content + 0)]))[0]
        draws = np.random.default_rng(seed).random(len(y))
    if split:
        words = pd.Series(_strings(table, split)).str.strip().str.lower()
        _refuse(table.index[~words.isin(list(PARTS))], f"{split!r} is neither train nor test", "write one of the two")
        test = words.map(PARTS).to_numpy(bool)
        double = pd.Series(test).groupby(which).transform("nunique") > 1
        _refuse(table.index[double], "the same row for training and test", "drop one of each")
    else:
        test = _draw(y, which, draws, share)
    sides = pd.Series(test).groupby(y).nunique()
    if lacking := [repr(str(classes[id])) for id in sides.index[sides < 2]]:
        few = ", ".join(lacking[:3]) + f" and {len(lacking) - 3} more" * (len(lacking) > 3)
        raise InputError(f"no training or no test row of class {few}: give at least two different rows of each class")
    return tuple(map(str, classes)), y, test


def _draw(y, which, draws, share):
    """Test rows (n,) bool: of each class, the share of its different rows with the lowest draws."""
    rows = pd.DataFrame({"y": y, "draw": draws}).groupby(which).first()  # equal rows stay together
    groups = rows.groupby("y")["draw"]
    size = groups.transform("size")
    wanted = np.minimum(np.maximum(np.floor(share * size + 0.5), 1), size - 1)
    return (groups.rank(method="first") <= wanted).to_numpy()[which]
