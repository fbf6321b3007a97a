"""Two datasets from elsewhere: through the door for own data, streamed as all others."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open

from ocrrlib.embeddings import halve, path_of
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import make
from studies import elsewhere
from studies.elsewhere import ELSEWHERE_POLICIES, TEXT_AND_LABEL, load_elsewhere
from studies.target import target


@pytest.mark.parametrize("dataset", TEXT_AND_LABEL)
def test_every_class_has_rows_to_learn_and_to_test(dataset):
    data = load_elsewhere(dataset)
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
    again = elsewhere.embed_tables(Path(os.environ["OCRR_DATA_DIR"]) / "practice", tmp_path)
    for data in again:
        published = load_elsewhere(data.dataset)
        assert data.classes == published.classes
        np.testing.assert_array_equal(data.y_test, published.y_test)
        # Another processor may round a value of float16 otherwise.
        np.testing.assert_allclose(halve(data.X_test), halve(published.X_test), atol=2e-4)


def test_a_row_is_the_last_checkpoint_of_a_stream_and_the_target_takes_it():
    setting = {"dataset": "curekart", "seed": 0}
    rows = []
    for system in ("static_linear", "substrate", "ledger_lda"):
        found = elsewhere.run_system(setting | {"system": system})
        rows += [setting | {"system": system} | row for row in found]
    scenario = make_scenario(load_elsewhere("curekart"), 0, cap=None)
    *_, last = run_stream(make("substrate"), scenario, POLICIES[ELSEWHERE_POLICIES[1]])
    assert last.scalars.items() <= rows[3].items()
    measured = elsewhere.measured(pd.DataFrame(rows))
    assert target(measured, {"curekart": 1.0})["rival"].tolist() == ["substrate", "substrate"]
