"""The rows of one's own data, texts or vectors with labels, and their way to unit rows."""

import unicodedata
from functools import cached_property

import numpy as np
import pandas as pd

from ocrrlib.embeddings import BLOCK, encode_once, halve, widen
from ocrrlib.encoders import DEFAULT_ENCODER, LEXICAL_ENCODER, name_of, revision
from ocrrlib.errors import InputError
from ocrrlib.own_data.equal_rows import equal_rows
from ocrrlib.own_data.problems import Problems
from ocrrlib.own_data.splits import split_rows, split_texts

TOGETHER, APART = ("X", "y"), ("X_train", "y_train", "X_test", "y_test")
PARTS = {"train": "train", "0": "train", "false": "train", "test": "test", "1": "test", "true": "test"}
MEND = "fill it in, or leave the row out"


class TextRows:
    """Texts from a table, a ``File`` or in ``Memory``.

    Attributes
    ----------
    labels : (n,) object
        Names of the rows' classes.
    test : (n,) bool or None
        Which rows are test rows, where the file says so.
    problems : Problems
        What is wrong so far.
    content : list of (n,) or (n, d) arrays
        All of this.
    """

    thing = "text"

    def __init__(self, source, text, label, split):
        found, lines = source.columns(list(dict.fromkeys(name for name in (text, label, split) if name is not None)))
        self.problems = Problems(
            source.called, "row {}".format if lines is None else lambda place: f"line {lines[place]}"
        )
        self.texts, self.labels = found[text], _stripped(found[label])
        empty = np.array([not text.strip() for text in self.texts], bool)
        self.problems.note("empty text in", np.flatnonzero(empty), MEND)
        self.problems.note("no label in", np.flatnonzero(self.labels == ""), MEND)
        self.test = None if split is None else _is_test(_stripped(found[split]), split, self.problems)
        self.content = [self.texts, self.labels, *([] if self.test is None else [self.test])]

    def drawn(self, y, share, seed):
        """Test rows, where the file does not say."""
        return split_texts(self.plain, y, share, seed)

    @cached_property
    def plain(self):
        """The texts (n,), each ``plain``."""
        return np.array([plain(text) for text in self.texts], object)

    @cached_property
    def which(self):
        """A number for each row, the same for texts that are equal but for that."""
        return pd.factorize(self.plain)[0]

    def unit_rows(self, test, encoder, progress):
        """Training and test rows, (n, d) float32 each."""
        fitted_on = self.texts[~test].tolist() if encoder == LEXICAL_ENCODER else []
        try:
            halves = encode_once(self.texts.tolist(), encoder, fitted_on, progress)
        except InputError:
            raise
        except ValueError as error:
            if encoder != LEXICAL_ENCODER:
                raise
            raise InputError(
                f"{self.problems.path}: the training texts have too few different words or pieces of words for the "
                f"encoder {LEXICAL_ENCODER!r} ({error}): give more texts, or another encoder, as {DEFAULT_ENCODER!r}"
            ) from error
        return [_in_blocks(halves, part, widen) for part in (~test, test)]

    def encoder(self, encoder):
        """What the encoder is called in results, and what pins it."""
        return name_of(encoder), revision(encoder)


class VectorRows:
    """Vectors from arrays; attributes as of ``TextRows``."""

    thing = "vector"

    def __init__(self, source, split):
        path, arrays, self.test = source.called, source.arrays(), None
        if "X_train" in arrays:
            if split is not None:
                raise InputError(f"{path} has training and test rows apart: leave split={split!r} out")
            X, y, X_test, y_test = _arrays(path, arrays, APART)
            n = len(X)
            if X.shape[1] != X_test.shape[1] or y.dtype.kind != y_test.dtype.kind:
                raise InputError(
                    f"{path}: X_train {X.shape} and X_test {X_test.shape} must have rows of one length, y_train "
                    f"({y.dtype}) and y_test ({y_test.dtype}) labels of one kind"
                )
            self.X, y = np.concatenate([X, X_test]), np.concatenate([y, y_test])
            self.test = np.arange(len(y)) >= n

            def row(place):
                return f"row {place} of X_train" if place < n else f"row {place - n} of X_test"

        else:
            self.X, y, *given = _arrays(path, arrays, TOGETHER if split is None else (*TOGETHER, split))
            row = "row {}".format
        self.problems = Problems(path, row)
        if split is not None:
            self.test = _is_test(given[0], split, self.problems)
        self.labels = _stripped(y) if y.dtype.kind == "U" else y
        self.problems.note("no label in", np.flatnonzero(self.labels == ""), MEND)
        starts = range(0, len(y), BLOCK)
        bad = [start + np.flatnonzero(_unusable(self.X[start : start + BLOCK])) for start in starts]
        self.problems.note("a vector that is zero or not finite in", np.concatenate([*bad, []]).astype(int), MEND)
        self.content = [self.X, self.labels, *([] if self.test is None else [self.test])]

    def drawn(self, y, share, seed):
        """Test rows, where the file does not say."""
        return split_rows(y, share, seed, self.which)

    @cached_property
    def which(self):
        """A number for each row, the same for equal vectors."""
        return equal_rows(self.X)

    def unit_rows(self, test, encoder, progress):
        """Training and test rows, (n, d) float32 each."""
        return [_in_blocks(self.X, part, lambda rows: widen(halve(rows))) for part in (~test, test)]

    def encoder(self, encoder):
        """The name of what has no encoder, and that it has none."""
        return "vectors", "as given"


def plain(text):
    """A text without what tells no two apart: capitals, spaces, other forms of the same characters."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _stripped(names):
    """Names without space around them, each character in one form: an é may be one character or two."""
    return np.array([unicodedata.normalize("NFC", name.strip()) for name in names.tolist()], object)


def _is_test(values, split, problems):
    """Which rows are test rows, from a column or array that says ``train`` or ``test``, 0 or 1, false or true."""
    if values.dtype.kind in "biu":
        unknown, test = ~np.isin(values, (0, 1)), values == 1
    else:
        words = pd.Series([str(value).strip().lower() for value in values.tolist()]).map(PARTS).to_numpy(object)
        unknown, test = pd.isna(words), words == "test"
    way_out = "write one of the two, or leave the row out"
    problems.note(f"neither train nor test as {split!r} in", np.flatnonzero(unknown), way_out)
    return test


def _arrays(path, arrays, names):
    """The arrays of these names, if they are vectors X (n, d) and (n,) of what goes with each."""
    missing = [name for name in names if name not in arrays]
    if missing:
        raise InputError(
            f"{path} has no {', '.join(missing)} but {', '.join(arrays) or 'nothing'}: give {', '.join(TOGETHER)}, or "
            f"{', '.join(APART)}"
        )
    found, rows = [arrays[name] for name in names], None
    for name, array in zip(names, found):
        if name in ("X", "X_train", "X_test"):
            if array.ndim != 2 or array.dtype.kind not in "fiu" or not array.shape[1]:
                raise InputError(f"{path}: {name} is {array.dtype} of shape {array.shape}: give numbers (n, d)")
            rows = len(array)
        elif array.shape != (rows,):
            raise InputError(f"{path}: {name} has shape {array.shape}, not ({rows},): give one for each row of vectors")
        elif array.dtype.kind == "f" and (array == np.floor(array)).all():
            raise InputError(f"{path}: {name} holds {array.dtype}: cast it to whole numbers, {name}.astype(int)")
        elif array.dtype.kind not in "iuUb" or (array.dtype.kind == "b" and name in ("y", "y_train", "y_test")):
            raise InputError(f"{path}: {name} holds {array.dtype}: give whole numbers or text")
    return found


def _unusable(X):
    """Rows that cannot be made unit rows, (n,) bool."""
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(X.astype(np.float64), axis=1)
    return ~(np.isfinite(lengths) & (lengths > 0))


def _in_blocks(X, part, turn):
    """What ``turn`` makes of the rows of a part; by blocks, since it needs several times their memory."""
    places = np.flatnonzero(part)
    rows = np.empty((len(places), X.shape[1]), np.float32)
    for start in range(0, len(places), BLOCK):
        rows[start : start + BLOCK] = turn(X[places[start : start + BLOCK]])
    return rows
