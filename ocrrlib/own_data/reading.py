"""Data of one's own, texts or vectors with labels, in a file or in memory: checked, split, and embedded."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from ocrrlib.datasets import DATASETS
from ocrrlib.embeddings import Embedded
from ocrrlib.encoders import DEFAULT_ENCODER, as_encoder
from ocrrlib.errors import InputError
from ocrrlib.own_data.equal_rows import equal_rows, on_both_sides, under_two_labels
from ocrrlib.own_data.problems import listed
from ocrrlib.own_data.rows import TextRows, VectorRows, plain
from ocrrlib.own_data.sources import source
from ocrrlib.progress import Progress

MISSING = ("nan", "nat", "null", "n/a", "#n/a", "<na>")  # what programs write where there is nothing


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
    """A dataset from a file, or from what is in memory.

    Parameters
    ----------
    data : path, DataFrame or dict of arrays
        Texts in ``.csv``, ``.tsv``, ``.jsonl`` (UTF-8), ``.parquet`` or a DataFrame; or vectors in ``.npz``,
        ``.safetensors`` or a dict, as arrays X (n, d) and y (n,), or X_train, y_train, X_test and y_test, with labels
        that are whole numbers or text.
    text, label : str
        Columns of the texts and of their classes; not used for vectors. Space around a label does not count. Texts
        are the same if they differ in capitals, spaces or forms of Unicode (NFKC) only.
    split : str, optional
        Column, or array beside X and y, that says ``train`` or ``test`` of each row, or 0 or 1 for whether it is a
        test row.
        Without it, the share ``test_share`` of each class is drawn by ``seed`` (see ``ocrrlib.own_data.splits``).
    encoder : str, callable or object
        See ``ocrrlib.encoders.load_encoder``; an object with a method ``encode`` will do, too. Not used
        for vectors. What it gives is kept in the cache.
    name : str, optional
        What the dataset is called; without it, as the file without its ending, or ``frame`` or ``arrays``.
    progress : bool or str
        Whether a bar shows what is being done; ``"lines"`` for a line on stderr now and then.

    Returns
    -------
    Embedded
        Training and test rows in their order; classes sorted as text. The same rows, split and encoder give the same
        fingerprint.

    Raises
    ------
    InputError
        If the file or encoder cannot be used. It names lines (of a CSV file, whose header is line 1, and of JSON Lines)
        or rows (of others, from 0).

    Warns
    -----
    UserWarning
        If equal texts or vectors have different labels, a vector is both a training and a test row, or labels differ
        in capitals, spaces or forms of characters only, or look as if there was none.
    """
    given, encoder = source(data), as_encoder(encoder)
    if name in DATASETS:
        raise InputError(f"{name!r} is the name of a published dataset: give data of your own another one")
    if not (isinstance(test_share, float) and 0 < test_share < 1):
        raise InputError(f"test_share {test_share!r} is out of range: give a share between 0 and 1")
    if not (isinstance(seed, (int, np.integer)) and seed >= 0):
        raise InputError(f"seed {seed!r} is out of range: give an integer from 0 up")
    with Progress(Path(given.called).name, how=progress) as doing:
        doing.says("reading")
        rows = TextRows(given, text, label, split) if given.is_table else VectorRows(given, split)
        rows.problems.check()
        doing.says(f"splitting {len(rows.labels):,} rows")
        y, classes, test = _parts(rows, test_share, seed)
        doing.says(f"{'encoding' if given.is_table else 'normalising'} {len(y):,} rows")
        X_train, X_test = rows.unit_rows(test, encoder, progress is True)
    if given.is_table:
        _warn_of_vectors(rows.problems, X_train, X_test, test)
    called, revision = rows.encoder(encoder)
    drawn = {"test_share": test_share, "seed": int(seed)}
    split_by = drawn if rows.test is None else {"column": split}  # None where parts are apart
    about = {"sources": given.hashes(rows.content), "revision": revision, "split": split_by}
    if given.is_table:
        about["columns"] = {"text": text, "label": label}
    return Embedded(
        dataset=name or given.name,
        encoder=called,
        classes=classes,
        X_train=X_train,
        y_train=y[~test],
        X_test=X_test,
        y_test=y[test],
        origin=about,
    )


def _parts(rows, test_share, seed):
    """Class ids (n,), names of the classes, and which rows are test rows; checked."""
    y, classes = _class_ids(rows.labels)
    if len(classes) < 2:
        found = f"there is no class but {classes[0]!r}" if classes else "there are no rows"
        raise InputError(f"{rows.problems.path}: {found}: give rows of at least two classes")
    drawn = rows.test is None
    test = rows.drawn(y, test_share, seed) if drawn else rows.test
    _check_parts(rows, y, classes, test, drawn)
    _warn_of_names(rows.problems.path, classes)
    _warn_of_labels(rows, y, classes)
    return y, classes, test


def _class_ids(labels):
    """Class ids (n,) int64 of labels, and the classes' names, sorted as text."""
    codes, different = pd.factorize(labels)
    names = list(map(str, different))
    order = sorted(range(len(names)), key=names.__getitem__)
    ids = np.empty(len(names), np.int64)
    ids[order] = np.arange(len(names))
    return ids[codes], tuple(names[place] for place in order)


def _check_parts(rows, y, classes, test, drawn):
    """Refuse a split in which a class is missing on one side, or a text or vector is on both."""
    problems = rows.problems
    in_train, in_test = (np.bincount(y[part], minlength=len(classes)) > 0 for part in (~test, test))

    def named(id):
        return f"{classes[id]!r} ({listed(np.flatnonzero(y == id), problems.row)})"

    lacking = np.flatnonzero(~(in_train & in_test))
    if drawn:
        way_out = "give at least two different rows of each class, or leave the class out"
        problems.note("too few rows for a split in class", lacking, way_out, named)
    else:
        way_out = "give rows of each class to both, or leave the class out"
        problems.note("only among the test rows is class", np.flatnonzero(~in_train), way_out, named)
        problems.note("only among the training rows is class", np.flatnonzero(~in_test), way_out, named)
        if rows.thing == "text":
            doubles = on_both_sides(rows.which, test)
            problems.note("the same text in train and test:", doubles, "leave one of each out", _pair(problems))
    problems.check()
    if not drawn and rows.thing != "text":
        _warn_of_doubles(problems, rows.which, test, stacklevel=5)


def _warn_of_vectors(problems, X_train, X_test, test):
    """The same of what texts were encoded to."""
    which = np.empty(len(test), np.int64)
    which[np.argsort(test, kind="stable")] = equal_rows(np.concatenate([X_train, X_test]))
    _warn_of_doubles(problems, which, test, stacklevel=4)


def _warn_of_doubles(problems, which, test, stacklevel):
    """Warn of vectors on both sides: no mistake for certain, an encoder may give two texts one vector."""
    if doubles := on_both_sides(which, test):
        found = listed(doubles, _pair(problems))
        told = f"the same vector in train and test: {found}: leave one of each out, if they are one row"
        warnings.warn(f"{problems.path}: {told}", stacklevel=stacklevel)


def _pair(problems):
    """Names both rows of a pair."""
    return lambda pair: " and ".join(map(problems.row, pair))


def _warn_of_names(path, classes):
    """Warn of classes that may be one, or none."""
    names = pd.Series(classes, dtype=object)
    for alike in (group.tolist() for _, group in names.groupby(names.map(plain)) if len(group) > 1):
        warnings.warn(
            f"{path}: {' and '.join(map(repr, alike))} differ in capitals, spaces or forms of characters only, and are "
            "different classes: write them in one way, if they are one",
            stacklevel=4,
        )
    for name in (name for name in classes if plain(name) in MISSING):
        warnings.warn(f"{path}: {name!r} is a class: leave its rows out, if it says that there is none", stacklevel=4)


def _warn_of_labels(rows, y, classes):
    """Warn of what is equal and has two labels: no system can tell it apart, but data may well be like this."""

    def named(pair):
        return " and ".join(f"{rows.problems.row(row)} ({classes[y[row]]!r})" for row in pair)

    pairs = under_two_labels(rows.which, y)
    if pairs:
        warnings.warn(
            f"{rows.problems.path}: the same {rows.thing} under two labels: {listed(pairs, named)}: correct one of "
            "each, unless both are right; no system can get both right",
            stacklevel=4,
        )
