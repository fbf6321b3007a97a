"""Votes of neighbours: margin-band majority and its ablations (paper, sections 4.3 and 5.6)."""

import numpy as np

RULES = ("full", "no_recency", "count_only", "sumsim")
TEMPERATURE = 0.1  # of a softmax over cosines and scores of their size, as in ``knn_lm``


def vote(
    sims: np.ndarray, labels: np.ndarray, margin: float = 0.05, rule: str = "full"
) -> np.ndarray:
    """Class ids (m,) elected by each query's neighbours; -1 where a query has none.

    Parameters
    ----------
    sims : (m, k) float64
        Cosines, best first; equal cosines newest first; -inf where there is no neighbour.
    labels : (m, k) int64
        Their class ids; -1 where there is no neighbour.
    margin : float
        Neighbours within this cosine distance of the best one have one vote each.
    rule : str
        ``full``: most votes, then highest cosine, then newest entry.
        ``no_recency``: most votes, then highest cosine, then smallest class id.
        ``count_only``: most votes, then the label met first, as a counting dictionary does. As
        neighbours come best first, that is the same as ``full``; the paper ablates it.
        ``sumsim``: no margin band; the largest sum of cosines over all k.
    """
    present = labels >= 0
    if rule == "sumsim":
        band = present
        weights = np.where(band, sims, 0.0)
    else:
        band = present & (sims >= sims[:, :1] - margin)
        weights = np.where(band, 1.0, 0.0)
    # votes_i = sum of the weights of the neighbours j that have the label of i
    same = labels[:, :, None] == labels[:, None, :]
    votes = np.where(band, (weights[:, :, None] * same).sum(axis=1), -np.inf)
    tied = votes == votes.max(axis=1, keepdims=True)
    chosen = tied.argmax(axis=1)  # the first one met has the highest cosine and is the newest
    if rule == "no_recency":
        near = np.where(tied, sims, -np.inf)
        nearest = near == near.max(axis=1, keepdims=True)
        chosen = np.where(nearest, labels, np.iinfo(np.int64).max).argmin(axis=1)
    return labels[np.arange(len(labels)), chosen]


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities along the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
