"""A Python function in the place of a pretrained encoder."""

from pathlib import Path

import numpy as np
from tqdm import tqdm

from ocrrlib.errors import InputError
from ocrrlib.identity import full_name, same

AT_ONCE = 1024  # texts that a function is given in one call
TWICE = 8  # texts for which it is asked twice
CLOSE = 0.01  # of a row's largest number: models round differently in batches of different size
_WHY = "a row must depend on its own text alone"


def as_encoder(given):
    """What is given as an encoder as ``load_encoder`` takes it: a name, or a function; of an object its ``encode``.

    Raises
    ------
    InputError
        If it is none of these.
    """
    if isinstance(given, (str, Path)):
        return str(given)
    found = getattr(given, "encode", given)
    if not callable(found):
        raise InputError(
            f"{given!r} is no encoder: give a name, a folder, a function from a list of texts to an array (n, d), or "
            "an object with such a method `encode`"
        )
    return found


def is_unpinned(encoder):
    """Whether an encoder is a function that does not say itself by a text ``revision`` what it is known by."""
    return callable(encoder) and not isinstance(getattr(encoder, "revision", None), str)


def alike(rows, others):
    """Whether rows are the same but for what models round differently in batches of different size."""
    size = np.abs(others[np.isfinite(others)]).max(initial=0)
    return rows.shape == others.shape and np.allclose(rows, others, rtol=CLOSE, atol=CLOSE * size, equal_nan=True)


class FunctionEncoder:
    """Encodes by a function from a list of texts to an array (n, d), and checks what it gives.

    Parameters
    ----------
    function : callable
        Each text's row must depend on that text alone: the function is given ``AT_ONCE`` texts at a time.
    """

    def __init__(self, function):
        self.function, self.dim = function, None

    def encode(self, sentences, show_progress_bar=False, **_):
        """Rows (n, d); further arguments are those of other encoders.

        Raises
        ------
        InputError
            If the function does not give one row of numbers for each text, or rows of another length than before, or
            other ones for the same texts when it is asked again, or for one text alone, unless it has a ``revision``.
        """
        unpinned, last = is_unpinned(self.function), (len(sentences) - 1) // AT_ONCE
        starts = tqdm(range(0, len(sentences), AT_ONCE), unit_scale=AT_ONCE, unit="text", disable=not show_progress_bar)
        if len(sentences) and unpinned:
            first, again = (self._checked(sentences[: min(TWICE, AT_ONCE)], 0) for _ in range(2))
            if not same(first, again):
                raise InputError(
                    f"{full_name(self.function)} gives other vectors for the same texts when it is asked again, and so "
                    "what is kept would not be its own: make it repeatable, or set its attribute `revision` to a text"
                )
        blocks = []
        for start in starts:
            texts = sentences[start : start + AT_ONCE]
            blocks.append(self._checked(texts, start))
            if unpinned and start in (0, last * AT_ONCE):
                for place in {0, len(texts) // 2, len(texts) - 1}:
                    self._check_alone(texts[place], blocks[-1][place], start + place)
        return np.concatenate(blocks) if blocks else np.empty((0, self.dim or 0))

    def _check_alone(self, text, row, place):
        """Refuse a function that gives a text another row when it is given that text alone."""
        name = full_name(self.function)
        try:
            (alone,) = self._checked([text], place)
        except InputError:
            raise
        except Exception as error:  # a function's own, where it needs more than one text
            raise InputError(f"{name} fails for text {place} alone ({type(error).__name__}): {_WHY}") from error
        if not alike(alone, row):
            raise InputError(f"{name} gives another vector for text {place} alone than among others: {_WHY}")

    def _checked(self, texts, start):
        name, which = full_name(self.function), f"texts {start} to {start + len(texts) - 1}"
        given = self.function(list(texts))
        if hasattr(given, "toarray"):
            raise InputError(
                f"{name} gave a sparse matrix for {which}: reduce it, as scikit-learn's TruncatedSVD does, or give its "
                "toarray()"
            )
        try:
            X = np.asarray(given)
        except (TypeError, ValueError, RuntimeError) as error:  # rows of unequal length; tensors on a GPU
            raise InputError(f"what {name} gave for {which} is no array ({error}): give numbers (n, d)") from error
        if X.ndim != 2 or X.dtype.kind not in "fiu":
            raise InputError(f"{name} gave {X.dtype} of shape {X.shape} for {which}: give numbers (n, d)")
        if len(X) != len(texts):
            raise InputError(
                f"{name} gave {len(X)} rows for {len(texts)} texts ({which}): give one row for each, in order"
            )
        if not X.shape[1] or self.dim not in (None, X.shape[1]):
            before = "" if self.dim is None else f", {self.dim} before that"
            raise InputError(
                f"{name} gave rows of length {X.shape[1]} for {which}{before}: all must have one length; {_WHY}"
            )
        self.dim = X.shape[1]
        return X
