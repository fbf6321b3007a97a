"""Read vectors with labels from NumPy and safetensors files, as arrays by name."""

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors import safe_open

from ocrr.data.limits import check_zip
from ocrrlib.embeddings import halve
from ocrrlib.files import InputError, pick

# Types of safetensors that NumPy has, too.
READABLE = {f"{kind}{bits}" for kind in "UI" for bits in (8, 16, 32, 64)}
READABLE |= {"F16", "F32", "F64", "BOOL"}


def _read_npz(path):
    if not zipfile.is_zipfile(path):  # of which NumPy says that it can be loaded unsafely
        raise InputError(
            "it is damaged or no .npz file of arrays: save these by np.savez, or rename the file "
            "by what it is, as .csv"
        )
    check_zip(path)
    with np.load(path, allow_pickle=False) as arrays:
        try:
            return dict(arrays)
        except ValueError as error:  # pickles can run code
            raise InputError(
                "an array has Python objects in it: save labels as text, y.astype(str)"
            ) from error


def _read_safetensors(path):
    with safe_open(path, "numpy") as tensors:
        for name in tensors.keys():
            kind = tensors.get_slice(name).get_dtype()
            if kind not in READABLE:
                raise InputError(f"tensor {name!r} is {kind}: save it as float16 or float32")
        return {name: tensors.get_tensor(name) for name in tensors.keys()}


ARRAYS: dict[str, Callable[[Path], dict]] = {
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
}


def vectors(arrays: Mapping, split: str | None) -> tuple[np.ndarray, pd.DataFrame, str | None]:
    """X (n, d); a table with labels ``y`` and, if there is one, the split; the name of the split.

    Raises ``InputError`` if an array is missing, shapes do not fit, or there are two splits.
    """
    if "X_train" in arrays:
        if split:
            raise InputError("X_train and X_test are a split already: leave out --split")
        X_train, train = _labelled(arrays, "X_train", "y_train")
        X_test, test = _labelled(arrays, "X_test", "y_test")
        table = pd.concat([train.assign(part="train"), test.assign(part="test")], ignore_index=True)
        return np.concatenate([X_train, X_test]), table, "part"
    X, table = _labelled(arrays, "X", "y")
    if split:
        column = _array(split, arrays)
        _check_shapes(X, split, column)
        table[split] = _values(column)
    return X, table, split


def _labelled(arrays, X_name, y_name):
    """Vectors (n, d), and a table with their labels ``y``."""
    X = _array(X_name, arrays)
    y = _array(y_name, arrays)
    _check_shapes(X, y_name, y)
    return X, pd.DataFrame({"y": _values(y)})


def _array(name, arrays):
    """The NumPy array of this name."""
    given = pick("array", name, arrays)
    try:
        return np.asarray(given)
    except (RuntimeError, TypeError) as error:  # tensors with gradients, or bfloat16
        raise InputError(
            f"{name} cannot be made a NumPy array ({error}): give {name}.detach().float().numpy()"
        ) from error


def _values(column):
    """An array's values as they are: pandas would make text of bytes."""
    return pd.Series(list(column), dtype=object)


def _check_shapes(X, name, column):
    if X.ndim != 2 or X.dtype.kind not in "fiu" or column.shape != (len(X),):
        raise InputError(
            f"X {X.shape} {X.dtype} and {name} {column.shape} do not fit: "
            "give numbers (n, d), labels (n,)"
        )


def unit_rows(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows (n, d) float16, and which of them (n,) bool there cannot be.

    These are zero, not finite or too long to be normalised, and have ones in their place.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64, casting="unsafe"))
    bad = ~(np.isfinite(lengths) & (lengths > 0))
    if bad.any():
        X = np.where(bad[:, None], 1, X)
    return halve(X), bad
