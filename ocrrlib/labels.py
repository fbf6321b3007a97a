"""One rule for labels, in datasets and in the correction memory."""

import re
import unicodedata
from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np

from ocrrlib.files import InputError

EXACT = 2**53  # beyond, a float64 stands for several whole numbers
# Characters that show nothing: Default_Ignorable_Code_Point of Unicode 16
INVISIBLE = re.compile(
    r"[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
BETWEEN_WORDS = re.compile(r"[\W_]+")
BESIDE_LETTERS = re.compile(r"(?<!\d) | (?!\d)")
LETTER = re.compile(r"[^\W\d_]")
WORD = re.compile(r"[^\W\d_]{4,}")  # letters, so many that one more or less is a slip


def label_of(value: Any) -> str:
    """A label as text: words in NFC with a blank between them, whole numbers as digits.

    Floats are whole numbers if nothing follows the point, as in a column of integers with gaps;
    booleans are ``True`` and ``False``. Characters that show nothing are left out. Raises
    ``InputError`` for anything else: empty text, None, NaN, other floats, bytes, text with a NUL
    character.
    """
    label = ""
    if isinstance(value, str):
        label = " ".join(unicodedata.normalize("NFC", INVISIBLE.sub("", value)).split())
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


def look_alikes(labels: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of labels that differ by case, by what stands between words, or by a letter of a word.

    In the order of ``labels``. Numbers and words of three letters differ by more than a slip.
    """
    pairs: dict[tuple[str, str], None] = {}
    known: dict[str, list[str]] = {}  # labels by their forms
    for label in labels:
        for form in _forms(label):
            others = known.setdefault(form, [])
            pairs.update(dict.fromkeys((other, label) for other in others if other != label))
            others.append(label)
    return [*pairs]


def _forms(label):
    """A label in one case, and what is left of it without one of its letters.

    Labels that share a form differ by a letter, or by two that changed places.
    """
    folded = BETWEEN_WORDS.sub(" ", unicodedata.normalize("NFKC", label).casefold())
    if not LETTER.search(folded):  # numbers: a sign or a point parts them
        return {label}
    forms = {folded, BESIDE_LETTERS.sub("", folded)}
    for word in WORD.finditer(folded):
        for at in range(*word.span()):
            forms.add(folded[:at] + folded[at + 1 :])
    return forms
