"""The prior of new classes against known ones, estimated while items stream by.

A prior of the proposed system is a rule: as soon as they are known, new classes together are as
likely as known ones. Here the share of new classes is estimated, and answers are given again by it.
"""

import numpy as np
from scipy.special import logit

from ocrrlib.metrics import best_known_and_new

# Where the share comes from: EM on probabilities, kinds of corrections, the number of classes, or
# the stream's own labels.
RULES = ("em", "told", "each", "true")
CLOSE = 1e-5  # an estimate stands when a step of EM moves it by less
SHOWN = 4  # decimals of an estimate that are kept: beyond, rounding of sums and of EM would show


def estimate(mass: np.ndarray, start: float = 0.5) -> float:
    """Share of new classes among items, by EM on the class prior (Saerens et al. 2002).

    ``mass`` (n,) is each item's probability of a new class under a prior of one half. One further
    item of either kind keeps the share off 0 and 1.
    """
    # pi = (1 + sum_i pi m_i / (pi m_i + (1 - pi) (1 - m_i))) / (n + 2)
    share = start
    moved = 1.0
    while moved >= CLOSE:
        new = share * mass
        total = new + (1 - share) * (1 - mass)
        before = share
        share = float((1 + (new / total).sum()) / (len(mass) + 2))
        moved = abs(share - before)
    return share


def estimates(mass: np.ndarray) -> np.ndarray:
    """``estimate`` from the items before each of n, and from all; (n + 1,)."""
    found = [0.5]
    for n in range(1, len(mass) + 1):
        found.append(estimate(mass[:n], found[-1]))
    return np.array(found)


def replayed(log_p: np.ndarray, new: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Answers (n,) if new classes had the prior ``share`` (n,) in all, in place of one half.

    ``log_p`` (n, C) are log-probabilities under one half, ``new`` (C,) bool the new classes.
    """
    # log p_new + log pi > log p_known + log(1 - pi)
    known, other, lead = best_known_and_new(log_p, new)
    return np.where(lead > -logit(share), other, known)


def shares(mass: np.ndarray, y: np.ndarray, new: np.ndarray, corrected: np.ndarray) -> dict:
    """The share of new classes that each of ``RULES`` goes by at each of n items.

    It knows the items before it only, but ``true`` is that of all. ``mass`` (n,) is as ``estimate``
    takes it, ``y`` (n,) are the items' classes, ``corrected`` (n,) those that were, ``new`` (C,)
    the new classes. ``told``: of corrections, one further of either kind added. ``each``: all
    classes met are equally likely.
    """
    is_new = new[y]
    told_new = corrected & is_new
    places = np.flatnonzero(told_new)
    first = np.zeros(len(y), bool)
    first[places[np.unique(y[places], return_index=True)[1]]] = True
    n_new = _before(first)
    return {
        "em": estimates(mass)[:-1],
        "told": (1 + _before(told_new)) / (2 + _before(corrected)),
        "each": n_new / (n_new + np.count_nonzero(~new)),
        "true": np.full(len(y), is_new.mean()),
    }


def _before(which):
    """How many of the items before each, (n,), are among ``which`` (n,) bool."""
    return np.cumsum(which) - which


def by_rules(p: np.ndarray, y: np.ndarray, new: np.ndarray, corrected: np.ndarray) -> dict:
    """Mistakes in new and in known items, counted, if answers went by each of ``RULES``.

    ``p`` (n, C) are class probabilities of items when they were met; the rest is as in ``shares``.
    Corrections stay those that were made. ``share_em`` is the estimate from all items.
    """
    mass = p[:, new].sum(axis=1)
    with np.errstate(divide="ignore"):
        log_p = np.log(p)
    found = {"share_em": round(estimates(mass)[-1], SHOWN)}
    for rule, share in shares(mass, y, new, corrected).items():
        wrong = replayed(log_p, new, share) != y
        found[f"mistakes_new_{rule}"] = int((wrong & new[y]).sum())
        found[f"mistakes_known_{rule}"] = int((wrong & ~new[y]).sum())
    return found
