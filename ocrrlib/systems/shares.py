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
        found, places = _places(slots, entries, n_classes)
        np.add.at(p.ravel(), places, softmax(sims / temperature)[found])
    return p


def nearest_shares(sims, slots, entries, n_classes, temperature):
    """The same, each class by the nearest of its neighbours alone: classes of few entries are not outvoted."""
    p = np.zeros((len(sims), n_classes))
    if entries.size:
        found, places = _places(slots, entries, n_classes)
        np.maximum.at(p.ravel(), places, np.exp((sims - sims[:, :1]) / temperature)[found])
        p /= p.sum(axis=1, keepdims=True)
    return p


def _places(slots, entries, n_classes):
    """Which slots hold a neighbour, (m, k) bool, and where in the raveled (m, n_classes) its row and class are."""
    found = slots >= 0
    rows = np.broadcast_to(np.arange(len(slots))[:, None], slots.shape)
    return found, rows[found] * n_classes + entries.y[slots[found]]
