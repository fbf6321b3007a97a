"""Class means and discriminants: running sums equal the formulas over all rows."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal

from ocrrlib.rivals.discriminants import KLDA, MOST_TERMS, NCM, REINVERT_AT, SLDA
from ocrrlib.rivals.features import lift
from ocrrlib.rivals.ridge import RLS
from ocrrlib.voting import softmax
from tests.samples import clusters, rows, scatter

KNOWN = 5
CLASSES = 8
D = 12
X0, Y0 = clusters(KNOWN, 20, D, seed=3)
GROWN = int((REINVERT_AT - 1) * len(Y0))  # corrections after which a covariance is inverted anew
NEW_X = rows(GROWN, D, 4)
NEW_Y = np.random.default_rng(5).integers(0, CLASSES, GROWN)  # known and new classes
Q = rows(60, D, 6)


def taught(system, n=GROWN):
    system.fit(X0, Y0, range(CLASSES))
    for row, label in zip(NEW_X[:n], NEW_Y[:n].tolist()):
        system.correct(row, label)
    return system


def everything(n=GROWN):
    return np.vstack([X0, NEW_X[:n]]).astype(np.float64), np.append(Y0, NEW_Y[:n])


def test_ncm_answers_the_nearest_of_the_plain_means():
    X, y = everything()
    met = np.unique(y)
    means = [X[y == c].mean(axis=0) for c in met]
    for unit, metric in ((False, "euclidean"), (True, "cosine")):
        np.testing.assert_array_equal(
            taught(NCM(unit=unit)).predict(Q), met[cdist(Q, means, metric).argmin(axis=1)]
        )


@pytest.mark.parametrize(
    "system",
    [
        SLDA(shrinkage=1e-4),
        SLDA(shrinkage=0.1, target="variance"),
        SLDA(shrinkage=0.1, updated=False),
        SLDA(shrinkage=0.1, updated=False, target="variance"),
        KLDA(seed=2, features=30),
        KLDA(seed=2, features=30, prior_rows=2.5),
    ],
    ids=["identity", "variance", "identity, frozen", "variance, frozen", "KLDA", "means held"],
)
@pytest.mark.parametrize("n", [0, 1, MOST_TERMS - 1, MOST_TERMS, GROWN - 1, GROWN])
def test_slda_and_klda_probabilities_are_those_of_gaussians_with_their_covariance(n, system):
    taught(system, n)
    X, y = everything(n)
    Z = lift(X.astype(np.float32), *system.drawn)
    initial = Z[: len(Y0)]
    S0 = scatter(initial, Y0)
    s = system.shrinkage
    S = S0
    rows_in = len(Y0)
    if system.updated:
        S = scatter(Z, y)
        rows_in = len(y)
    D = Z.shape[1]
    inverted_anew = system.updated and n == GROWN
    if system.target == "identity":
        ridge = s * (rows_in if inverted_anew else len(Y0))
    else:
        ridge = s * np.trace(S if inverted_anew else S0) / D
    covariance = ((1 - s) * S + ridge * np.eye(D)) / rows_in
    held = system.prior_rows * initial.mean(axis=0)
    means = [
        (Z[y == c].sum(axis=0) + held) / (np.sum(y == c) + system.prior_rows) for c in np.unique(y)
    ]
    asked = lift(Q, *system.drawn)
    logs = [multivariate_normal(mean, covariance).logpdf(asked) for mean in means]
    expected = np.zeros((len(Q), CLASSES))
    expected[:, np.unique(y)] = softmax(np.column_stack(logs))
    np.testing.assert_allclose(system.predict_proba(Q), expected, atol=1e-9)


@pytest.mark.parametrize(
    "make", [lambda: KLDA(features=60), lambda: SLDA(shrinkage=0.2, target="variance")]
)
def test_equal_rows_say_nothing_of_how_rows_vary(make):
    """Neither at first nor later: their scatter is rounding, not a variance to shrink towards."""
    X = np.repeat(X0[:6], 3, axis=0)
    y = np.repeat(np.arange(6), 3)
    at_once = make().fit(X, y, range(CLASSES))
    later = make().fit(X[::3], y[::3], range(CLASSES))
    for x, label in zip(np.repeat(X[::3], 2, axis=0), np.repeat(np.arange(6), 2).tolist()):
        later.correct(x, label)
    for system in (at_once, later):
        assert system.ridge == 0.2
        assert system.predict(X).tolist() == y.tolist()
        np.testing.assert_allclose(system.inverse, np.eye(len(system.inverse)) / 0.2, atol=1e-9)


def test_classes_with_the_same_rows_tie_and_the_lower_id_wins_in_any_batch():
    X = np.repeat(rows(8, D, 11), 2, axis=0)
    for system in (NCM(), SLDA(shrinkage=0.1), RLS(), KLDA(features=50)):
        system.fit(X, np.arange(16), range(16))
        whole = system.predict(X)
        np.testing.assert_array_equal(whole, np.arange(16) // 2 * 2)
        assert [system.predict(x[None])[0] for x in X] == whole.tolist()
