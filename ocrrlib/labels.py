"""One rule for labels, in datasets and in the correction memory."""

import unicodedata
from numbers import Integral
from typing import Any

import numpy as np

from ocrrlib.files import InputError

EXACT = 2**53  # beyond, a float64 stands for several whole numbers


def label_of(value: Any) -> str:
    """A label as text: words without spaces around them in NFC, whole numbers as digits.

    Floats are whole numbers if nothing follows the point, as in a column of integers with gaps;
    booleans are ``True`` and ``False``. Raises ``InputError`` for anything else: empty text, None,
    NaN, other floats, bytes, text with a NUL character.
    """
    label = ""
    if isinstance(value, str):
        label = unicodedata.normalize("NFC", value.strip())
    elif isinstance(value, (bool, np.bool_)):
        label = str(bool(value))
    elif isinstance(value, Integral):
        label = str(int(value))
    elif isinstance(value, (float, np.floating)):
        number = float(value)
        if abs(number) <= EXACT and number.is_integer():
            label = str(int(number))
    if not label:
        shown = " ".join(repr(value).split())[:80]  # an array's has several lines
        raise InputError(f"{shown} is no label: give words or whole numbers")
    if "\0" in label:  # NumPy leaves out those at the end
        raise InputError(f"{label!r:.80} is no label: leave out the zero byte")
    return label
