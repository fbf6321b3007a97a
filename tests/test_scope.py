"""Out of scope: the class is set apart whole, and detection is measured as its names say."""

import numpy as np
import pytest

from ocrrlib.embeddings import path_of, read
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.errors import InputError
from ocrrlib.scope import confidences, detection, split_off
from ocrrlib.systems import make


def test_a_class_is_split_off_whole_and_the_others_keep_their_rows(tiny):
    smaller, rows = split_off(tiny, "class 03")
    np.testing.assert_array_equal(rows, tiny.X_test[tiny.y_test == 3])
    assert smaller.classes == tiny.classes[:3] + tiny.classes[4:]
    for split in ("train", "test"):
        kept = getattr(tiny, f"y_{split}") != 3
        np.testing.assert_array_equal(getattr(smaller, f"X_{split}"), getattr(tiny, f"X_{split}")[kept])
        names = [tiny.classes[label] for label in getattr(tiny, f"y_{split}")[kept]]
        assert [smaller.classes[label] for label in getattr(smaller, f"y_{split}")] == names
    assert smaller.fingerprint != tiny.fingerprint


def test_clinc_has_a_thousand_queries_out_of_scope():
    data, rows = split_off(read(path_of("clinc150", DEFAULT_ENCODER)))
    assert len(data.classes) == 150 and len(rows) == 1000 and set(data.y_test.tolist()) == set(range(150))


def test_a_class_that_is_not_there_is_refused(tiny):
    with pytest.raises(InputError, match="unknown class 'oos'"):
        split_off(tiny)


def test_detection_by_hand():
    assert detection([3, 4], [1, 2]) == {"auroc": 1.0, "fpr95": 0.0}
    assert detection([1, 2], [3, 4]) == {"auroc": 0.0, "fpr95": 1.0}
    assert detection([1, 1], [1, 1]) == {"auroc": 0.5, "fpr95": 1.0}
    # Letting 19 of 20 through means a threshold of 2; half of the others are at 2 or above.
    inside, outside = np.arange(1, 21), np.array([1, 1.5, 2, 30])
    found = detection(inside, outside)
    assert found["fpr95"] == 0.5
    assert found["auroc"] == np.mean([[(a > b) + (a == b) / 2 for b in outside] for a in inside])


def test_confidence_is_the_highest_probability_and_where_entries_are_stored_the_best_cosine(tiny):
    Q = tiny.X_test
    for name in ("substrate", "bounded_reservoir_100", "knn_lm", "slda", "online_linear"):
        system = make(name).fit(tiny.X_train, tiny.y_train, tiny.classes)
        scores = confidences(system, Q)
        np.testing.assert_array_equal(scores["probability"], system.probabilities(Q).max(axis=1))
        assert ("cosine" in scores) == hasattr(system, "entries")
    X, Q = tiny.X_train.astype(np.float64), Q.astype(np.float64)
    best = confidences(make("substrate").fit(tiny.X_train, tiny.y_train, tiny.classes), tiny.X_test)["cosine"]
    np.testing.assert_allclose(best, (Q @ X.T).max(axis=1), rtol=1e-12)
