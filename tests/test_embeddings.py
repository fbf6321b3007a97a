"""Embeddings survive their file bit for bit, a damaged file is never used, encoders are what is asked for."""

import hashlib
import os
from dataclasses import replace

import numpy as np
import pytest
from conftest import TEXTS
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ocrrlib import embeddings, files
from ocrrlib.datasets import DATASETS, load_texts
from ocrrlib.embeddings import (
    Sentences,
    encode,
    encode_once,
    halve,
    load,
    load_sentences,
    path_of,
    read,
    recheck,
    save,
    sentences_fingerprint,
    widen,
)  # fmt: skip
from ocrrlib.encoders import DEFAULT_ENCODER, LEXICAL_ENCODER, as_encoder, load_backbone, load_encoder, slug
from ocrrlib.files import InputError
from ocrrlib.scenario import make_scenario

# Rows, classes and fingerprint (its beginning) of the committed files.
COMMITTED = {
    ("banking77", DEFAULT_ENCODER): (10_003, 3_080, 77, "2efe552f2f9b127a725b9186"),
    ("clinc150", DEFAULT_ENCODER): (15_250, 5_500, 151, "a7ee4f02c2caa9a07b16ad65"),
    ("banking77", LEXICAL_ENCODER): (10_003, 3_080, 77, "f2e46132f66130f60fbec1dc"),
}


class ToyModel:
    """In the place of a sentence-transformers model; a sentence's vector depends on its words alone."""

    def __init__(self):
        self.calls = []

    def encode(self, sentences, batch_size, show_progress_bar):
        self.calls.append(len(sentences))
        seeds = [int.from_bytes(hashlib.sha256(s.encode()).digest()[:4], "big") for s in sentences]
        return np.array([np.random.default_rng(seed).normal(size=16) for seed in seeds], np.float32)


@pytest.fixture
def toy(monkeypatch, tmp_path):
    model = ToyModel()
    monkeypatch.setattr(embeddings, "load_encoder", lambda name, sentences=None: model)
    monkeypatch.setattr(embeddings, "load_texts", lambda name: TEXTS)
    monkeypatch.setenv("OCRR_CACHE_DIR", str(tmp_path / "cache"))
    return model


def lengths(texts):
    return np.array([[len(text), ord(text[0])] for text in texts])


@pytest.fixture
def file(tmp_path):
    X = halve(np.random.default_rng(0).normal(size=(8, 8)))
    tensors = {"X_train": X[:5], "y_train": np.array([0, 1, 2, 1, 0]), "X_test": X[5:], "y_test": np.arange(3)}
    origin = {"sources": {"train.csv": "00ff"}, "revision": "1.0"}
    about = {"dataset": "banking77", "encoder": "toy/model", "classes": ("a", "b", "ü"), "origin": origin}
    path = tmp_path / "toy.safetensors"
    save(tensors, about, path)
    return path, tensors, about


def assert_same(a, b):
    assert a.fingerprint == b.fingerprint and (a.classes, a.origin) == (b.classes, b.origin)
    for name in ("X_train", "y_train", "X_test", "y_test"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), strict=True)


def refused(path):
    with np.errstate(all="ignore"), pytest.raises(InputError) as caught:
        read(path)
    assert str(path) in str(caught.value) and "make embed" in str(caught.value) and "\n" not in str(caught.value)


# --- rows


finite_rows = arrays.arrays(
    np.float32,
    st.tuples(st.integers(1, 6), st.integers(1, 40)),
    elements=st.floats(-8, 8, width=32).filter(lambda v: v == 0 or abs(v) > 0.01),
).filter(lambda X: (np.abs(X).max(axis=1) > 0).all())


@given(finite_rows, st.randoms(use_true_random=False))
def test_rows_are_unit_multiples_of_two_to_the_minus_24_whatever_is_around_them(X, random):
    halves, order = halve(X), random.sample(range(len(X)), len(X))
    unit = widen(halves)
    steps = unit.astype(np.float64) * 2.0**24
    np.testing.assert_array_equal(steps, np.round(steps))
    np.testing.assert_array_equal(widen(np.asfortranarray(halves)[order]), unit[order], strict=True)
    assert np.abs(np.linalg.norm(unit.astype(np.float64), axis=1) - 1).max() < 1e-6
    assert np.abs(unit - X / np.linalg.norm(X.astype(np.float64), axis=1, keepdims=True)).max() < 1e-3


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf, 1e300])
def test_a_row_that_is_zero_or_not_finite_is_refused_by_its_text(value):
    with np.errstate(over="ignore"), pytest.raises(InputError, match="text 1 .'pin'. is zero, not finite or too long"):
        encode(["card", "pin"], lambda texts: [[1.0, 1], [value, value]])


# --- files


def test_what_is_saved_is_read_back_and_gives_the_same_bytes(file, tmp_path):
    path, tensors, about = file
    data = read(path)
    assert {name: getattr(data, name) for name in about} == about
    for name, tensor in tensors.items():
        expected = widen(tensor) if name[0] == "X" else tensor.astype(np.int64)
        np.testing.assert_array_equal(getattr(data, name), expected, strict=True)
    save(dict(reversed(tensors.items())), dict(reversed(about.items())), tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()
    changes = dict(dataset="x", encoder="x", classes="abu", X_test=data.X_train[:3], y_train=data.y_train + 1)
    changed = {replace(data, **{name: value}).fingerprint for name, value in changes.items()}
    assert len(changed - {data.fingerprint}) == 5


def test_a_flipped_bit_in_any_byte_is_refused_unless_it_decides_no_result(file):
    path, whole, reference = file[0], file[0].read_bytes(), read(file[0])
    start = whole.index(rb"\"origin\"")
    origin = range(start, whole.index(b"}}", start))
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        if place in origin:
            try:
                assert read(path).fingerprint == reference.fingerprint
                continue
            except InputError:
                pass
        refused(path)


HEADER = b'{"__metadata__":{"about":"' + b"[" * 100_000 + b'"}}'
OTHERS = {
    "missing": None,
    "another kind": b"PAR1 something else altogether PAR1",
    "absurd header": (2**62).to_bytes(8, "little") + b"{}",
    "deep JSON": len(HEADER).to_bytes(8, "little") + HEADER,
    **{f"truncated to {length}": length for length in (0, 7, 8, 100, -100, -1)},
}


@pytest.mark.parametrize("content", OTHERS.values(), ids=OTHERS)
def test_what_is_no_whole_file_is_refused_by_its_name(file, content):
    path = file[0]
    path.unlink() if content is None else path.write_bytes(
        path.read_bytes()[:content] if isinstance(content, int) else content
    )
    refused(path)


@pytest.mark.parametrize("about", [None, {}, {"about": "1"}, {"about": "{}"}, {"about": '{"fingerprint": "0"}'}])
def test_a_safetensors_file_that_is_not_ours_is_refused(file, about):
    embeddings.save_file(file[1], file[0], metadata=about)
    refused(file[0])


# --- encoding and loading


def test_a_fresh_run_a_cached_one_and_a_wheel_see_the_same_bits(tmp_path, toy, monkeypatch):
    fresh = load("banking77", "toy/model", tmp_path)
    assert fresh.classes == ("arrival", "lost", "pin") and fresh.y_train.tolist() == [1, 2, 1, 0]
    calls = list(toy.calls)
    assert_same(load("banking77", "toy/model", tmp_path), fresh)
    assert toy.calls == calls and path_of("banking77", "toy/model", tmp_path).name == "banking77.toy--model.safetensors"
    monkeypatch.setattr(embeddings, "installed", lambda: True)
    assert_same(load("banking77", "toy/model", tmp_path / "packaged"), fresh)
    assert not (tmp_path / "packaged").exists()


def test_embeddings_of_other_texts_or_another_dataset_are_refused(tmp_path, toy, monkeypatch):
    load("banking77", "toy/model", tmp_path)
    path_of("clinc150", "toy/model", tmp_path).write_bytes(path_of("banking77", "toy/model", tmp_path).read_bytes())
    monkeypatch.setitem(DATASETS["banking77"].files, "train.csv", "0" * 64)
    for name in DATASETS:
        with pytest.raises(InputError, match=f"{name}.toy--model.safetensors.*make embed"):
            load(name, "toy/model", tmp_path)
    with pytest.raises(InputError, match="unknown dataset 'banking'.*banking77, clinc150"):
        load("banking", folder=tmp_path)


def test_a_named_encoders_rows_are_kept_under_revision_and_texts(toy, tmp_path, monkeypatch):
    first = encode_once(["a", "bc"], "toy/model")
    np.testing.assert_array_equal(encode_once(["a", "bc"], "toy/model"), first, strict=True)
    encode_once(["ab", "c"], "toy/model")
    assert toy.calls == [2, 2]
    monkeypatch.setattr(embeddings, "revision", lambda name: "another")
    encode_once(["a", "bc"], "toy/model")
    assert toy.calls == [2, 2, 2]
    for kept in (tmp_path / "cache/embeddings").iterdir():
        kept.write_bytes(kept.read_bytes()[:-1])
    np.testing.assert_array_equal(encode_once(["a", "bc"], "toy/model"), first, strict=True)
    assert toy.calls == [2, 2, 2, 2]
    for fitted_on in ("ab", "cd"):
        encode_once(["a", "bc"], LEXICAL_ENCODER, list(fitted_on))
    assert len(toy.calls) == 6


def test_a_function_is_called_each_time_and_nothing_of_it_is_kept(toy, tmp_path):
    calls = []
    encoder = as_encoder(lambda texts: calls.append(len(texts)) or lengths(texts))
    for _ in range(2):
        data = load("banking77", encoder, tmp_path)
    assert calls == [6, 6] and not list(tmp_path.iterdir()) and "lambda" in data.encoder
    np.testing.assert_array_equal(data.X_test, widen(halve([[7, ord("n")], [12, ord("c")]])))


BAD = {
    "one row": (lambda texts: np.ones((1, 3)), "shape .1, 3. for 2 texts"),
    "flat": (lambda texts: np.ones(2), "shape .2,. for 2 texts"),
    "words": (lambda texts: [["a"], ["b"]], "<U1 of shape"),
    "no array": (lambda texts: None, "object of shape"),
}


@pytest.mark.parametrize("encoder, clue", BAD.values(), ids=BAD)
def test_a_function_that_does_not_give_one_row_a_text_is_refused(encoder, clue):
    with pytest.raises(InputError, match=clue):
        encode(["a", "b"], encoder)


def test_what_is_no_encoder_is_refused(no_network, tmp_path):
    assert as_encoder(tmp_path) == str(tmp_path) and as_encoder(toy := ToyModel()) == toy.encode
    with pytest.raises(InputError, match="5 is no encoder"):
        as_encoder(5)
    with pytest.raises(InputError, match="fitted on a dataset's training sentences"):
        encode(["lost card"], LEXICAL_ENCODER)
    for library, get in (("sentence_transformers", load_encoder), ("transformers", load_backbone)):
        pytest.importorskip(library)
        for name in ("no-such/model", str(tmp_path)):
            with pytest.raises(InputError, match=f"'{name}'.*{DEFAULT_ENCODER}") as caught:
                get(name)
            assert "\n" not in str(caught.value)


def test_a_local_encoders_file_name_depends_on_the_folders_content(tmp_path):
    model = tmp_path / "my-model"
    (model / "pooling").mkdir(parents=True)
    names = set()
    for change in (
        lambda: (model / "weights.bin").write_bytes(b"0"),
        lambda: (model / "weights.bin").write_bytes(b"1"),
        lambda: (model / "weights.bin").rename(model / "pooling" / "weights.bin"),
    ):
        change()
        names.add(slug(str(model)))
        assert slug(f"{model}/") in names
    assert len(names) == 3 and all(name.startswith("my-model-") and "/" not in name for name in names)


def test_folders_are_those_of_the_checkout_or_the_wheel(tmp_path, monkeypatch):
    monkeypatch.delenv("OCRR_CACHE_DIR", raising=False)
    assert (files.data_folder(), files.cache_folder()) == (files.ROOT / "data", files.ROOT / "build/cache")
    monkeypatch.setattr(files, "PACKAGED", tmp_path)
    assert files.data_folder() == tmp_path and not files.cache_folder().is_relative_to(files.ROOT)
    monkeypatch.setenv("OCRR_CACHE_DIR", str(tmp_path / "elsewhere"))
    assert files.cache_folder() == tmp_path / "elsewhere"


# --- the committed files, and their texts


@pytest.mark.parametrize("dataset, encoder", COMMITTED)
def test_committed_embeddings_are_the_published_ones(dataset, encoder):
    data = load(dataset, encoder)
    n_train, n_test, n_classes, fingerprint = COMMITTED[dataset, encoder]
    assert data.fingerprint.startswith(fingerprint) and data.encoder == encoder
    assert (len(data.X_train), len(data.X_test), len(data.classes)) == (n_train, n_test, n_classes)
    assert list(data.classes) == sorted(set(data.classes)) and data.origin["sources"] == DATASETS[dataset].files
    for X in (data.X_train, data.X_test):
        assert np.abs(np.linalg.norm(X.astype(np.float64), axis=1) - 1).max() < 1e-6
        np.testing.assert_array_equal(X * np.float32(2**24) % 1, 0)


@pytest.mark.skipif(not os.environ.get("OCRR_DATA_DIR"), reason="OCRR_DATA_DIR is not set: no raw texts here")
@pytest.mark.parametrize(
    "dataset, encoder",
    [pytest.param(*key, marks=pytest.mark.slow if key[1] == LEXICAL_ENCODER else ()) for key in COMMITTED],
)
def test_committed_embeddings_are_what_the_sentences_encode_to(dataset, encoder):
    pytest.importorskip("sentence_transformers")
    data, texts = load(dataset, encoder), load_sentences(dataset, DEFAULT_ENCODER)
    assert recheck(data, load_texts(dataset), rows=16) > 0.999
    assert isinstance(texts, Sentences) and texts.classes == data.classes
    assert texts.fingerprint == sentences_fingerprint(dataset, DEFAULT_ENCODER)
    one, other = (make_scenario(given, 7, draw="continued", cap=50, thin=3) for given in (texts, data))
    for part in ("initial", "stream", "novel", "original"):
        np.testing.assert_array_equal(getattr(one, f"y_{part}"), getattr(other, f"y_{part}"))
        assert getattr(one, f"X_{part}").shape == getattr(one, f"y_{part}").shape
    place = {sentence: row for row, sentence in enumerate(texts.X_train.tolist())}
    for sentence, row in zip(one.X_stream[:20].tolist(), other.X_stream):
        np.testing.assert_array_equal(data.X_train[place[sentence]], row)
