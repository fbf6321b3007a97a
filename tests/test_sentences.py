"""Sentences stand in the same places as their embeddings, and are known by what pins them."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import TEXTS

from ocrrlib import embeddings, publish, sentences
from ocrrlib.backbones import DEFAULT_ENCODER, load_backbone, load_tokeniser
from ocrrlib.datasets import DATASETS
from ocrrlib.embeddings import embed, load
from ocrrlib.errors import InputError
from ocrrlib.experiments import grid
from ocrrlib.scenario import make_scenario
from ocrrlib.sentences import fingerprint, load_sentences
from ocrrlib.systems import make


class ToyModel:
    """In the place of a sentence-transformers model."""

    def encode(self, sentences, batch_size, show_progress_bar):
        return np.ones((len(sentences), 4))


@pytest.fixture
def no_texts(monkeypatch, tmp_path):
    monkeypatch.setenv("OCRR_DATA_DIR", str(tmp_path / "none"))


@pytest.fixture
def backbone(tmp_path):
    """A folder in the place of a backbone's."""
    (tmp_path / "backbone").mkdir()
    (tmp_path / "backbone" / "weights").write_bytes(b"0")
    return tmp_path / "backbone"


def pair(name):
    """The sentences of a dataset and its committed embeddings."""
    folder = os.environ.get("OCRR_DATA_DIR")
    if not folder or not all((Path(folder) / name / file).is_file() for file in DATASETS[name].files):
        pytest.skip(f"OCRR_DATA_DIR holds no {name}: no sentences here")
    return load_sentences(name, DEFAULT_ENCODER), load(name)


def assert_same_labels(texts, vectors):
    assert texts.classes == vectors.classes and texts.dataset == vectors.dataset
    for part in ("train", "test"):
        ours, theirs = getattr(texts, f"y_{part}"), getattr(vectors, f"y_{part}")
        np.testing.assert_array_equal(ours, theirs, strict=True)
        assert getattr(texts, f"X_{part}").shape == ours.shape


# --- rows


@pytest.mark.parametrize("name", DATASETS)
def test_labels_and_classes_are_those_of_the_committed_embeddings(name):
    assert_same_labels(*pair(name))


def test_rows_are_the_sentences_in_the_order_of_the_files_as_embeddings_are(tmp_path, monkeypatch):
    monkeypatch.setattr(sentences, "load_texts", lambda name: TEXTS)
    monkeypatch.setattr(embeddings, "load_encoder", lambda name, sentences=None: ToyModel())
    data = load_sentences("banking77", "some/backbone")
    assert (data.dataset, data.encoder) == ("banking77", "some/backbone")
    assert data.X_train.tolist() == TEXTS.train and data.X_test.tolist() == TEXTS.test
    assert_same_labels(data, embed("banking77", "toy/model", tmp_path, texts=TEXTS, progress=False))


@pytest.mark.parametrize(
    "settings", [dict(draw="fresh"), dict(draw="continued", cap=50, thin=3)], ids=["whole", "thin"]
)
def test_a_scenario_of_sentences_has_the_rows_of_one_of_embeddings(settings):
    texts, vectors = pair("banking77")
    for seed in (0, 7):
        ours, theirs = (make_scenario(data, seed, **settings) for data in (texts, vectors))
        numbers = {f"X_{part}": np.arange(len(getattr(vectors, f"y_{part}"))) for part in ("train", "test")}
        places = make_scenario(replace(vectors, **numbers), seed, **settings)
        np.testing.assert_array_equal(ours.held_out, theirs.held_out)
        for part, source in dict(initial="train", stream="train", novel="test", original="test").items():
            np.testing.assert_array_equal(getattr(ours, f"y_{part}"), getattr(theirs, f"y_{part}"))
            rows = getattr(places, f"X_{part}")
            for scenario, data in ((ours, texts), (theirs, vectors)):
                np.testing.assert_array_equal(getattr(scenario, f"X_{part}"), getattr(data, f"X_{source}")[rows])


# --- fingerprints


def test_the_fingerprint_needs_no_texts_and_is_that_of_the_data(backbone, no_texts, monkeypatch):
    alone = fingerprint("banking77", str(backbone))
    monkeypatch.setattr(sentences, "load_texts", lambda name: TEXTS)
    assert load_sentences("banking77", str(backbone)).fingerprint == alone == fingerprint("banking77", str(backbone))


def test_the_fingerprint_covers_dataset_its_files_and_the_backbones_content(backbone, monkeypatch):
    seen = [fingerprint(name, encoder) for name in DATASETS for encoder in (DEFAULT_ENCODER, str(backbone))]
    for change in (
        lambda: (backbone / "weights").write_bytes(b"1"),
        lambda: (backbone / "config.json").write_text("{}"),
        lambda: (backbone / "config.json").rename(backbone / "other.json"),
        lambda: monkeypatch.setitem(DATASETS["banking77"].files, "train.csv", "0" * 64),
    ):
        change()
        seen.append(fingerprint("banking77", str(backbone)))
    assert len(set(seen)) == len(seen) == 8


# --- what is not there


@pytest.mark.parametrize("ask", [load_sentences, fingerprint])
def test_an_unknown_dataset_lists_those_that_exist(ask):
    with pytest.raises(InputError, match="unknown dataset 'banking'.*banking77, clinc150"):
        ask("banking", DEFAULT_ENCODER)


@pytest.mark.parametrize("name", DATASETS)
def test_missing_texts_are_one_clear_error(name, no_texts):
    with pytest.raises(InputError, match=f"{name}/.* is missing: OCRR_DATA_DIR must hold {name}/") as caught:
        load_sentences(name, DEFAULT_ENCODER)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("get", [load_backbone, load_tokeniser])
def test_an_unknown_backbone_without_a_network_is_one_clear_error(get, no_network, backbone):
    pytest.importorskip("transformers")
    for name in ("no-such/backbone", str(backbone)):  # not on this machine, and a folder without a model
        with pytest.raises(InputError) as caught:
            get(name)
        message = str(caught.value)
        assert repr(name) in message and DEFAULT_ENCODER in message and "\n" not in message


def test_a_system_says_which_backbone_cannot_be_loaded(no_network):
    pytest.importorskip("peft")
    system = make("lora", encoder="no-such/backbone")
    with pytest.raises(InputError, match="cannot load backbone 'no-such/backbone'"):
        system.fit(np.array(TEXTS.train), np.array([1, 2, 1, 0]), TEXTS.classes)


def test_what_results_depend_on_is_known_without_texts(no_texts):
    runs = grid("lora", seeds="0")
    assert publish.reads(runs) == "sentences"
    assert publish.about(runs)["data"] == {"banking77": fingerprint("banking77", DEFAULT_ENCODER)}
