"""``online_linear_tuned`` answers only classes of which it met a row; its rate is in ``test_rehearsal.py``."""

import numpy as np
from conftest import clusters, rows
from hypothesis import given
from hypothesis import strategies as st

from ocrrlib.systems.online_linear_tuned import OnlineLinearTuned

CLASSES, D = 12, 16
TRAINING = dict(epochs=6, fit_lr=1e-2, weight_decay=1e-4, batch=32)
X0, Y0 = clusters(4, 3, D, seed=3)
Q = rows(300, D, 9)


@given(st.integers(0, len(Y0)), st.lists(st.integers(0, CLASSES - 1), max_size=8))
def test_answers_agree_with_probabilities_and_name_only_classes_met(n, labels):
    system = OnlineLinearTuned(1, **TRAINING).fit(X0[:n], Y0[:n], range(CLASSES))
    watched = system.watch(Q)
    for x, label in zip(rows(8, D, 5), labels):
        system.correct(x, label)
    met, answers, p = set(Y0[:n].tolist()) | set(labels), system.predict(Q), system.probabilities(Q)
    np.testing.assert_array_equal(watched(np.arange(len(Q))), answers)
    if met:
        assert set(answers.tolist()) <= met
        np.testing.assert_allclose(p[np.arange(len(Q)), answers], p.max(axis=1), rtol=1e-9)
    else:
        assert (answers == -1).all() and not p.any()
