"""The best class by float32 and float64 together is the best class by float64 alone."""

import numpy as np
import pytest
from conftest import rows
from hypothesis import given, settings
from hypothesis import strategies as st

from ocrrlib.systems import certain
from ocrrlib.systems.certain import FEW, best_class
from ocrrlib.systems.linear import best_seen


def expected(X, W, b, seen):
    logits = X.astype(np.float64) @ W.T + b
    return logits.argmax(axis=1) if seen is None else best_seen(logits, seen)


def near_ties(n_classes, d, seed, apart):
    """Weights of which some differ by less than float32 can tell, by less than counts, or not at all."""
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(n_classes, d))
    W[1::3] = W[: len(W[1::3])] * (1 + apart)
    return W, rng.normal(size=n_classes) * rng.integers(0, 2)


@given(
    n=st.sampled_from([0, 1, FEW - 1, FEW, 200]),
    n_classes=st.integers(1, 12),
    d=st.sampled_from([1, 5, 384]),
    apart=st.sampled_from([0, 1e-15, 1e-10, 1e-7, 1e-4, 1]),
    scale=st.sampled_from([0, 1e-12, 1, 1e6, 1e20, 1e60]),
    some=st.sampled_from(["all", "some", "none", None]),
    seed=st.integers(0, 99),
)
@settings(max_examples=300)
def test_best_class_is_that_of_float64(n, n_classes, d, apart, scale, some, seed):
    W, b = near_ties(n_classes, d, seed, apart)
    W, b, X = W * scale, b * scale, rows(n, d, seed)
    draw = np.random.default_rng(seed).random(n_classes) < {"all": 1, "some": 0.5, "none": 0, None: 0}[some]
    seen = None if some is None else draw
    np.testing.assert_array_equal(best_class(X, W, b, seen), expected(X, W, b, seen))


@pytest.mark.parametrize("seen", [None, np.ones(40, bool)])
def test_few_rows_are_looked_at_twice(monkeypatch, seen):
    counted, decide = [], certain._decide
    monkeypatch.setattr(certain, "_decide", lambda X, *rest: counted.append(len(X)) or decide(X, *rest))
    X, W = rows(3000, 384, 0), np.random.default_rng(1).normal(size=(40, 384))
    best_class(X, W, np.zeros(40), seen)
    assert len(counted) == 1 and counted[0] < 30
