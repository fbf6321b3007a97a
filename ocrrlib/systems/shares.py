"""What neighbours say of classes, as probabilities."""

import numpy as np

from ocrrlib.systems.linear import softmax


def shares(sims, slots, entries, n_classes, temperature):
    """Softmax over the neighbours' cosines, summed per class; all zero where nothing is stored.

    Parameters
    ----------
    sims, slots : (m, k)
        Cosines and slots of the neighbours, as from ``ocrrlib.search.top_k``.
    entries : Entries
        Where these slots are.
    temperature : float
        Of the softmax.

    Returns
    -------
    (m, n_classes) float64
    """
    p = np.zeros((len(sims), n_classes))
    if entries.size:
        weights = softmax(sims / temperature)
        rows = np.broadcast_to(np.arange(len(p))[:, None], slots.shape)
        found = slots >= 0
        np.add.at(p, (rows[found], entries.y[slots[found]]), weights[found])
    return p


def nearest_shares(sims, slots, entries, n_classes, temperature):
    """The same, each class by the nearest of its neighbours alone: classes of few entries are not outvoted."""
    p = np.zeros((len(sims), n_classes))
    if entries.size:
        weights = np.exp((sims - sims[:, :1]) / temperature)
        rows = np.broadcast_to(np.arange(len(p))[:, None], slots.shape)
        found = slots >= 0
        np.maximum.at(p, (rows[found], entries.y[slots[found]]), weights[found])
        p /= p.sum(axis=1, keepdims=True)
    return p
