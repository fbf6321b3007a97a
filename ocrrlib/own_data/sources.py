"""Where rows of one's own come from: a file, or what is in memory already."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from ocrrlib.datasets import DATASETS
from ocrrlib.errors import InputError
from ocrrlib.files import sha256
from ocrrlib.own_data.columns import as_text, check_columns
from ocrrlib.own_data.files import TABLES, ending, read_arrays

IN_MEMORY = "memory"  # in the place of a file's name


class File:
    """A file with a table or with arrays.

    Attributes
    ----------
    called : path
        What errors call it.
    name : str
        What the dataset is called unless it is given a name.
    is_table : bool
        Whether it holds texts in columns, not arrays.
    """

    def __init__(self, path):
        self.called, self.ending = Path(path), ending(path)
        self.is_table = self.ending in TABLES
        self.name = self.called.name if self.called.stem in DATASETS else self.called.stem

    def columns(self, names):
        """Columns as arrays of text by name, and each row's line where rows have lines."""
        return TABLES[self.ending](self.called, names)

    def arrays(self):
        """All arrays by name."""
        return read_arrays(self.called)

    def hashes(self, parts):
        """What pins the content: SHA-256 of the file, by its name."""
        return {self.called.name: sha256(self.called)}


class Memory:
    """A DataFrame, or a dict of arrays; attributes and methods as of ``File``."""

    def __init__(self, data):
        self.data, self.is_table = data, isinstance(data, pd.DataFrame)
        self.called, self.name = ("the DataFrame", "frame") if self.is_table else ("the dict of arrays", "arrays")

    def columns(self, names):
        """Columns as arrays of text by name; rows have no lines."""
        columns = list(self.data.columns)
        if other := [name for name in columns if not isinstance(name, str)]:
            raise InputError(f"{self.called}: {other[0]!r} is no name of a column: rename the columns, to text each")
        check_columns(self.called, names, columns)
        return {name: as_text(self.called, name, self.data[name]) for name in names}, None

    def arrays(self):
        """All arrays by name."""
        return {name: _text_as_text(np.asarray(array)) for name, array in self.data.items()}

    def hashes(self, parts):
        """What pins the content: SHA-256 over these arrays, of numbers or of texts."""
        content = hashlib.sha256()
        for part in parts:
            content.update(json.dumps([part.dtype.str, part.shape]).encode())
            numbers = part.dtype.kind in "biuf"
            content.update(np.ascontiguousarray(part).tobytes() if numbers else json.dumps(part.tolist()).encode())
        return {IN_MEMORY: content.hexdigest()}


def _text_as_text(array):
    """An array of Python's texts, as pandas gives it, as one of NumPy's."""
    texts = array.dtype == object and all(isinstance(item, str) for item in array.flat)
    return array.astype(str) if texts else array


def source(data):
    """A path as a ``File``, a DataFrame or a dict of arrays as ``Memory``.

    Raises
    ------
    InputError
        If it is none of these, or there is no such file, or none of a kind that is known.
    """
    if isinstance(data, (str, Path)):
        return File(data)
    if isinstance(data, (pd.DataFrame, Mapping)):
        return Memory(data)
    kind = type(data).__name__
    raise InputError(f"a {kind} holds no rows and labels: give a file, a DataFrame, or a dict of arrays X and y")
