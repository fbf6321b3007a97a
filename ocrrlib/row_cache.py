"""Rows that took long to make, kept in a file until something that they depend on changes."""

import hashlib
import json
import warnings

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ocrrlib.files import atomic


def kept_rows(path, make):
    """The rows in a file, or, where there is none, those that ``make`` gives, written to it.

    A damaged file is named in a warning, and made anew.

    Parameters
    ----------
    path : Path
        Its name must have in it all that the rows depend on.
    make : callable
        Gives an array (n, d) and takes no arguments.

    Raises
    ------
    InputError
        If the file cannot be written, or as ``make`` does.
    """
    if path.exists():
        try:
            return _read(path)
        except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
            warnings.warn(f"{path} is damaged ({type(error).__name__}): its rows are made anew", stacklevel=2)
    rows = np.ascontiguousarray(make())
    with atomic(path) as temporary:
        save_file({"rows": rows}, temporary, metadata={"about": json.dumps({"sha256": _digest(rows)})})
    return rows


def _read(path):
    with safe_open(path, "numpy") as handle:
        about, rows = json.loads((handle.metadata() or {})["about"]), handle.get_tensor("rows")
    if about["sha256"] != _digest(rows):
        raise ValueError("the content is not what was written")
    return rows


def _digest(rows):
    about = hashlib.sha256(f"{rows.dtype} {rows.shape}".encode())
    about.update(rows.view(np.uint8))
    return about.hexdigest()
