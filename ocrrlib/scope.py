"""Queries that belong to no class at all: how well a system's confidence tells them from the others."""

from dataclasses import replace

import numpy as np

from ocrrlib.errors import pick
from ocrrlib.search import top_k

RECALL = 0.95  # share of the queries in scope that must be let through


def split_off(data, name="oos"):
    """A dataset without one of its classes, and the test rows (m, d) of that class.

    Raises
    ------
    InputError
        If there is no such class.
    """
    out = pick("class", name, {label: id for id, label in enumerate(data.classes)})
    train, test = data.y_train != out, data.y_test != out
    smaller = replace(
        data,
        classes=data.classes[:out] + data.classes[out + 1 :],
        X_train=data.X_train[train],
        y_train=data.y_train[train] - (data.y_train[train] > out),
        X_test=data.X_test[test],
        y_test=data.y_test[test] - (data.y_test[test] > out),
    )
    return smaller, data.X_test[~test]


def confidences(system, X):
    """Scores (m,) by name: the highest class probability; where entries are stored, the best cosine, too."""
    scores = {"probability": system.probabilities(X).max(axis=1)}
    if hasattr(system, "entries"):
        sims, _ = top_k(X, system.entries.X, system.entries.born, 1)
        scores["cosine"] = sims[:, 0]
    return scores


def detection(inside, outside):
    """How well scores tell queries in scope (m,) from others (n,): a dict.

    ``auroc`` is the chance that a query in scope has the higher score; ``fpr95`` is the share of the
    others that is let through where 95 % of those in scope are.
    """
    from sklearn.metrics import roc_auc_score, roc_curve  # slow to import, seldom needed

    # Rounded, since BLAS does not round alike in batches of different size.
    scores = np.round(np.concatenate([inside, outside]), 9)
    truth = np.repeat([1, 0], [len(inside), len(outside)])
    false, true, _ = roc_curve(truth, scores, drop_intermediate=False)
    return {"auroc": float(roc_auc_score(truth, scores)), "fpr95": float(false[true >= RECALL].min())}
