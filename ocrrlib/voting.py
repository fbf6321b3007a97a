"""How neighbours vote: margin-band majority and its ablations (paper, sections 4.3 and 5.6)."""

import numpy as np

from ocrrlib.errors import pick


def _first_met(votes, labels, sims):
    """Ties go to the label met first; neighbours stand best first, newest first among equals."""
    return np.argmax(votes, axis=1)


def _smallest_id(votes, labels, sims):
    tied = votes == votes.max(axis=1, keepdims=True)
    return np.argmin(np.where(tied, labels, np.iinfo(np.int64).max), axis=1)


def _most_similar(votes, labels, sims):
    tied = votes == votes.max(axis=1, keepdims=True)
    return _smallest_id(np.where(tied, sims, -np.inf), labels, sims)


# What decides between labels with equally many votes.
RULES = {
    "full": _first_met,
    "no_recency": _most_similar,
    "count_only": _first_met,
    "count_by_id": _smallest_id,
    "sumsim": _first_met,
}


def vote(sims, labels, margin=0.05, rule="full"):
    """Class ids elected by each query's neighbours.

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
        ``count_only``: most votes, then the label met first, as a counting dictionary does.
        ``count_by_id``: most votes, then the smallest class id.
        ``sumsim``: no margin band; the largest sum of cosines over all k.

    Returns
    -------
    (m,) int64, -1 where a query has no neighbour at all.

    Raises
    ------
    InputError
        If the rule is unknown.
    """
    decide = pick("vote rule", rule, RULES)
    if not sims.shape[1]:
        return np.full(len(sims), -1, np.int64)
    present = labels >= 0
    band = present if rule == "sumsim" else present & (sims >= sims[:, :1] - margin)
    weights = np.where(band, sims if rule == "sumsim" else 1.0, 0.0)
    same = labels[:, :, None] == labels[:, None, :]
    votes = np.where(band, (weights[:, :, None] * same).sum(axis=1), -np.inf)
    return labels[np.arange(len(labels)), decide(votes, labels, sims)]
