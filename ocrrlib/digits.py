"""Handwritten digits as another modality: nothing to download, scikit-learn brings them along."""

import importlib.metadata

import numpy as np

from ocrrlib.embeddings import Embedded, halve, widen

EACH = 4  # every so-many-th image is a test row


def load_pixels():
    """1,797 images of 8 × 8 grey values as unit rows of length 64, ten classes (Alpaydin and Kaynak 1998)."""
    from sklearn.datasets import load_digits  # slow to import, seldom needed

    X, y = load_digits(return_X_y=True)
    rows, test = widen(halve(X)), np.arange(len(y)) % EACH == EACH - 1
    origin = {"sources": {}, "revision": f"scikit-learn {importlib.metadata.version('scikit-learn')}"}
    parts = rows[~test], y[~test].astype(np.int64), rows[test], y[test].astype(np.int64)
    return Embedded("digits", "pixels", tuple("0123456789"), *parts, origin)
