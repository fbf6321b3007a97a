"""Two practice sets: through the door for own data."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from ocrrlib.embeddings import halve, path_of
from ocrrlib.encoders import DEFAULT_ENCODER
from studies import practice
from studies.practice import TEXT_AND_LABEL, load_practice


@pytest.mark.parametrize("dataset", TEXT_AND_LABEL)
def test_every_class_has_rows_to_learn_and_to_test(dataset):
    data = load_practice(dataset)
    assert (np.bincount(data.y_train) > 0).all() and (np.bincount(data.y_test) > 0).all()
    assert len(data.classes) == data.y_train.max() + 1
    np.testing.assert_allclose(np.linalg.norm(data.X_train, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("dataset", TEXT_AND_LABEL)
def test_a_published_file_has_rows_and_labels_but_no_text(dataset):
    with safe_open(path_of(dataset, DEFAULT_ENCODER), "numpy") as file:
        about = json.loads(file.metadata()["about"])
        assert set(file.keys()) == {"X_train", "y_train", "X_test", "y_test"}
        assert file.get_tensor("X_train").dtype == np.float16
    assert set(about) == {"dataset", "encoder", "classes", "origin", "fingerprint"}
    assert set(about["origin"]) == {"sources", "revision"}


@pytest.mark.slow
@pytest.mark.skipif("OCRR_DATA_DIR" not in os.environ, reason="no raw texts: set OCRR_DATA_DIR")
def test_the_published_embeddings_are_those_of_the_tables(tmp_path):
    again = practice.embed_tables(Path(os.environ["OCRR_DATA_DIR"]) / "practice", tmp_path)
    for data in again:
        published = load_practice(data.dataset)
        assert data.classes == published.classes
        np.testing.assert_array_equal(data.y_test, published.y_test)
        # Another processor may round a value of float16 otherwise.
        np.testing.assert_allclose(halve(data.X_test), halve(published.X_test), atol=2e-4)
