"""Training and test rows of data that come without a split: of each class the same share, drawn by a seed."""

import hashlib

import numpy as np
import pandas as pd


def split_texts(texts, y, share, seed):
    """Which rows are test rows, (n,) bool, of texts and their class ids.

    Equal texts stay together, so counts are of different texts.  A text's part follows from the seed and the texts
    of its class alone: neither the order of rows nor other classes matter.

    Parameters
    ----------
    texts, y : (n,) str, (n,) int
        A text that has several class ids goes where it is first; the others follow.
    share : float
        Share of each class's texts that are test texts: rounded, at least one, at most all but one.
    seed : int
        Seed of the draw.
    """
    which, different = pd.factorize(np.asarray(texts, object))
    first = np.unique(which, return_index=True)[1]
    draws = pd.util.hash_array(different, hash_key=hashlib.sha256(str(seed).encode()).hexdigest()[:16])
    return _lowest(y[first], draws, share)[which]


def split_rows(y, share, seed, which):
    """The same for rows that are no texts: a row's part follows from the seed and its place.

    ``which`` (n,) has the same number for equal rows, counted from 0 in order of appearance; they stay together.
    """
    first = np.unique(which, return_index=True)[1]
    return _lowest(y[first], np.random.default_rng(seed).random(len(y))[first], share)[which]


def _lowest(y, draws, share):
    """The share of each class that has the lowest draws, (n,) bool."""
    order = np.lexsort((draws, y))
    counts = np.bincount(y)
    place = np.empty(len(y), np.int64)
    place[order] = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    wanted = np.minimum(np.maximum(np.floor(share * counts + 0.5), 1), counts - 1)
    return place < wanted[y]
