"""Your data: texts or vectors with labels, from a file or from memory."""

import csv
import hashlib
import json
import re
import unicodedata
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors.numpy import load_file

from ocrrlib.datasets import DATASETS
from ocrrlib.embeddings import BLOCK, Embedded, halve, widen
from ocrrlib.encoders import DEFAULT_ENCODER, load_encoder
from ocrrlib.files import InputError, pick

PARTS = {"train": False, "0": False, "false": False, "test": True, "1": True, "true": True}
HEADER = 100_000  # characters in which the header of a CSV file must end
NAMED = 3  # rows that an error names; the others are counted


def _read_csv(path):
    with open(path, encoding="utf-8-sig", newline="") as file:
        header = file.readline(HEADER)
        file.seek(0)
        reader = csv.reader(file, delimiter=max(",;\t", key=header.count), strict=True)
        names, rows = next(reader, []), []
        for row in reader:
            if row and len(row) != len(names):
                raise InputError(f"line {reader.line_num} has {len(row)} fields, not {len(names)}: quote its texts")
            rows += [(reader.line_num, *row)] if row else []
    return pd.DataFrame(rows, columns=["line", *names]).set_index("line")


def _read_json_lines(path):
    rows = {}
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            try:
                rows |= {number: dict(json.loads(line))} if line.strip() else {}
            except (ValueError, TypeError, RecursionError) as error:
                raise InputError(f"line {number} is not a JSON object ({error}): write one on each line") from error
    return pd.DataFrame(list(rows.values()), pd.Index(rows, name="line"), dtype=object)


def _read_npz(path):
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


READERS = {".csv": _read_csv, ".tsv": _read_csv, ".jsonl": _read_json_lines, ".parquet": pd.read_parquet}
READERS |= {".npz": _read_npz, ".safetensors": load_file}


def _read(path):
    if not path.is_file() or path.suffix.lower() not in READERS:
        raise InputError(f"not a file in {', '.join(READERS)}: give one of these")
    try:
        return READERS[path.suffix.lower()](path)
    except InputError:
        raise
    except Exception as error:  # damaged files raise whatever their readers meet
        why = " ".join(str(error).split())[:200]
        raise InputError(f"it cannot be read ({type(error).__name__}: {why}): restore it or save it anew") from error


def check_name(what, name):
    """Refuse a name that is empty, or has control characters or HTML in it: it goes into tables and pages."""
    if not (isinstance(name, str) and name.strip() and name.isprintable() and not set(name) & set("<>&|`")):
        raise InputError(f"{what} {name!r} is not a plain name: use printable characters other than < > & | `")


def unit_rows(X, called="row {}".format):
    """Unit rows (n, d) float32 of rows of any length; ``called`` names a row, from its number, in an error."""
    blocks = [np.empty((0, X.shape[1]), np.float32)]
    for start in range(0, len(X), BLOCK):
        rows = X[start : start + BLOCK].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = np.linalg.norm(rows, axis=1)
        if len(bad := np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))):
            finite, zero = np.isfinite(rows[bad[0]]).all(), not rows[bad[0]].any()
            why = "has a NaN or infinity" if not finite else "is zero" if zero else "is out of range when normalised"
            raise InputError(f"{called(start + bad[0])} {why}: fix or drop it")
        blocks.append(widen(halve(rows)))
    return np.concatenate(blocks)


def encoded(texts, encoder, fitted_on=(), called="text {}".format, progress=False):
    """Unit rows (n, d) float32 of texts, by an encoder's name, a function, or an object with ``encode``."""
    function = encoder if isinstance(encoder, str) else getattr(encoder, "encode", encoder)
    if callable(function):
        X = np.asarray(function(list(texts)))
        if X.ndim != 2 or len(X) != len(texts) or X.dtype.kind not in "fiu":
            raise InputError(f"the encoder gives {X.dtype} of shape {X.shape}: make it give ({len(texts)}, d) numbers")
    elif isinstance(encoder, str):
        try:
            X = load_encoder(encoder, list(fitted_on)).encode(list(texts), batch_size=64, show_progress_bar=progress)
        except ValueError as error:  # unknown, or too few words for the lexical encoder
            raise InputError(f"{encoder} cannot embed the texts ({error}): give another encoder") from error
    else:
        raise InputError(f"encoder {encoder!r} is not usable: give a name, or a function from texts to an array (n, d)")
    return unit_rows(X, lambda row: f"the embedding of {called(row)}")


def encoder_name(encoder):
    """What an encoder is called in results: its name, or that of its function or class."""
    return encoder if isinstance(encoder, str) else getattr(encoder, "__name__", type(encoder).__name__)


def _plain(text):
    """A text without what does not tell two apart: case, spacing, compatibility forms of characters."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _drawn(y, which, draws, share):
    """Test rows (n,) bool: of each class the share of its different rows with the lowest draws."""
    first = np.unique(which, return_index=True)[1]  # equal rows stay together
    order = first[np.lexsort((draws[first], y[first]))]
    groups = pd.Series(y[order]).groupby(y[order])
    size = groups.transform("size")
    wanted = np.minimum(np.maximum(np.floor(share * size + 0.5), 1), size - 1)
    test = np.zeros(len(y), bool)
    test[order] = groups.cumcount() < wanted
    return test[first][which]


def _table(arrays, split):
    """Arrays as a table with ``label`` and, if there is one, ``split``; and the vectors."""
    if not hasattr(arrays, "items"):
        raise InputError(f"a {type(arrays).__name__} holds no data: give a file, a DataFrame or a dict of arrays")
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    if "X_train" in arrays:
        rows = [pick("array", name, arrays) for name in ("X_train", "X_test", "y_train", "y_test")]
        if rows[0].shape[1:] != rows[1].shape[1:]:
            raise InputError(f"X_train {rows[0].shape} and X_test {rows[1].shape} must have rows of one length")
        part = np.repeat(["train", "test"], [len(rows[2]), len(rows[3])])
        arrays, split = {"X": np.concatenate(rows[:2]), "y": np.concatenate(rows[2:]), "split": part}, "split"
    X, *columns = (pick("array", name, arrays) for name in ("X", "y", *([split] if split else [])))
    if X.ndim != 2 or X.dtype.kind not in "fiu" or any(column.shape != (len(X),) for column in columns):
        raise InputError(f"X {X.shape} {X.dtype} and y {columns[0].shape} do not fit: give numbers (n, d), labels (n,)")
    return pd.DataFrame(dict(zip(("label", "split"), columns))), X


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
        If the file, a row, the split or the encoder cannot be used; rows are named by line or index.

    Warns
    -----
    UserWarning
        If equal rows have different labels.
    """
    if not (isinstance(test_share, float) and 0 < test_share < 1):
        raise InputError(f"test_share {test_share!r} is out of range: give a share between 0 and 1")
    path = Path(data) if isinstance(data, (str, Path)) else None
    stem = re.sub(r"[^\w .-]", "-", path.stem if path.stem not in DATASETS else path.name) if path else "own_data"
    name = stem if name is None else name
    check_name("dataset", name)
    if name in DATASETS:
        raise InputError(f"{name!r} is the name of a published dataset: give yours another one (name=)")
    try:
        data, X = _read(path) if path else data, None
        if not isinstance(data, pd.DataFrame):
            data, X = _table(data, split)
            text, label, split = None, "label", "split" if "split" in data else None
        for column in filter(None, (text, label, split)):
            pick("column", column, dict.fromkeys(map(str, data.columns)))
            if isinstance(data[column], pd.DataFrame):
                raise InputError(f"there are two columns {column!r}: rename one")
        return _embedded(name, data, X, text, label, split, test_share, seed, encoder, progress)
    except InputError as error:
        raise InputError(f"{path or name}: {error}") from error


def _embedded(name, table, X, text, label, split, test_share, seed, encoder, progress):
    def row(place):
        return f"{table.index.name or 'row'} {table.index[place]}"

    def refuse(wrong, what, way_out):
        if len(places := np.flatnonzero(wrong)):
            more = f" and {len(places) - NAMED} more" if len(places) > NAMED else ""
            raise InputError(f"{what} in {', '.join(map(row, places[:NAMED]))}{more}: {way_out}")

    def strings(column):
        values = table[column]
        found = values.astype(object).where(values.notna(), "").map(str)
        refuse(found.str.strip() == "", f"{column!r} is empty", "fill it in or drop these rows")
        return found.to_numpy(object)

    labels = [unicodedata.normalize("NFC", one.strip()) for one in strings(label)]
    classes, y = np.unique(np.array(labels, str), return_inverse=True)
    classes = tuple(map(str, classes))
    if len(classes) < 2:
        raise InputError(f"there are {len(labels)} rows of {len(classes)} classes: give rows of at least two classes")
    if X is None:
        texts = strings(text)
        which, different = pd.factorize(np.array([_plain(one) for one in texts], object))
        draws = pd.util.hash_array(different, hash_key=hashlib.sha256(str(seed).encode()).hexdigest()[:16])[which]
    else:
        which = pd.factorize(np.array([hash(one.tobytes()) for one in np.ascontiguousarray(X + 0)]))[0]
        draws = np.random.default_rng(seed).random(len(y))
    if split:
        words = pd.Series(strings(split)).str.strip().str.lower()
        refuse(~words.isin(list(PARTS)), f"{split!r} is neither train nor test", "write one of the two")
        test = words.map(PARTS).to_numpy(bool)
        double = pd.Series(test).groupby(which).transform("nunique") > 1
        refuse(double, "the same row for training and test", "drop one of each")
    else:
        test = _drawn(y, which, draws, test_share)
    sides = pd.Series(test).groupby(y).nunique()
    if lacking := [repr(classes[id]) for id in sides.index[sides < 2]]:
        few = ", ".join(lacking[:NAMED]) + f" and {len(lacking) - NAMED} more" * (len(lacking) > NAMED)
        raise InputError(f"no training or no test row of class {few}: give at least two different rows of each class")
    if len(torn := np.flatnonzero(pd.Series(y).groupby(which).transform("nunique") > 1)):
        warnings.warn(f"{name}: equal rows have different labels, as {row(torn[0])}: no system gets both", stacklevel=3)
    rows = encoded(texts, encoder, texts[~test], row, progress) if X is None else unit_rows(X, row)
    by = encoder_name(encoder) if X is None else "vectors"
    return Embedded(name, by, classes, rows[~test], y[~test], rows[test], y[test])
