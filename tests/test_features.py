"""Random features approximate the kernel that they stand for."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from ocrrlib.rivals.features import draw_features, lift, median_distance
from tests.samples import rows

D = 12
BANDWIDTH = 0.8
Q = rows(60, D, 6)
KERNEL = np.exp(-cdist(Q, Q, "sqeuclidean") / (2 * BANDWIDTH**2))


def test_products_of_features_approximate_the_rbf_kernel():
    F = lift(Q, *draw_features(40_000, D, BANDWIDTH, seed=1))
    np.testing.assert_allclose(F @ F.T, KERNEL, atol=0.04)


def test_the_median_distance_is_that_of_a_pair_of_rows_and_one_where_it_would_be_zero():
    distances = cdist(Q, Q)[np.triu_indices(len(Q), 1)]
    median = np.quantile(distances, 0.5, method="higher")  # that of the lower cosine
    assert median_distance(Q, 0) == pytest.approx(median, rel=1e-6)
    assert median_distance(Q[:1], 0) == 1
    assert median_distance(np.eye(D, dtype=np.float32)[[0, 0]], 0) == 1
