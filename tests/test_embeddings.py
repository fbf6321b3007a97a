"""Embeddings survive their file bit for bit, and a damaged file is never used."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.numpy import save

from ocrrlib import embeddings
from ocrrlib.datasets import DATASETS, load_texts
from ocrrlib.embeddings import (
    Sentences,
    embed,
    encode,
    halve,
    load,
    load_sentences,
    path_of,
    quantise,
    read,
    widen,
)
from ocrrlib.encoders import (
    DEFAULT_ENCODER,
    LEXICAL_ENCODER,
    SECOND_ENCODER,
    load_backbone,
    load_encoder,
    name_of,
    revision,
    slug,
)
from ocrrlib.experiments import THREE
from ocrrlib.files import InputError
from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import make
from tests.samples import TEXTS

# The committed files, and the beginning of their fingerprints.
COMMITTED = {
    ("banking77", DEFAULT_ENCODER): "2efe552f2f9b127a725b9186",
    ("clinc150", DEFAULT_ENCODER): "a7ee4f02c2caa9a07b16ad65",
    ("hwu64", DEFAULT_ENCODER): "11d7872cbab4353964de165e",
    ("banking77", LEXICAL_ENCODER): "f2e46132f66130f60fbec1dc",
    ("clinc150", LEXICAL_ENCODER): "d01cd14fd5efcb0f7152dbb2",
    ("hwu64", LEXICAL_ENCODER): "a9c3537f7d411486742e2c66",
    ("banking77", SECOND_ENCODER): "0b3a0e88a1e3555ea75e8aff",
    ("clinc150", SECOND_ENCODER): "575896ec47a174b4de31518c",
    ("hwu64", SECOND_ENCODER): "da8eaf4ed43972710adab9ed",
}
needs_texts = pytest.mark.skipif(
    "OCRR_DATA_DIR" not in os.environ, reason="no raw texts: set OCRR_DATA_DIR"
)


def hashed(texts):
    """Vectors that depend on the sentence alone."""
    seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") for text in texts]
    return np.array([np.random.default_rng(seed).normal(size=8) for seed in seeds])


@pytest.fixture
def toy(monkeypatch):
    """Replace texts and model; returns the number of sentences of each call of the model."""
    calls = []
    monkeypatch.setattr(
        embeddings,
        "load_encoder",
        lambda *_, **__: lambda said: calls.append(len(said)) or hashed(said),
    )
    monkeypatch.setattr(embeddings, "load_texts", lambda name: TEXTS)
    return calls


@pytest.fixture(params=[halve, lambda X: quantise(halve(X))], ids=["float16", "int8"])
def kept(request, monkeypatch):
    """The form in which files keep rows of the toy model."""
    monkeypatch.setattr(embeddings, "LONG", 384 if request.param is halve else 4)
    return request.param


@pytest.fixture
def file(tmp_path, toy, kept):
    embed("banking77", "toy/model", tmp_path)
    return path_of("banking77", "toy/model", tmp_path)


def assert_same(a, b):
    assert a.fingerprint == b.fingerprint and (a.classes, a.origin) == (b.classes, b.origin)
    np.testing.assert_array_equal(a.X_train, b.X_train, strict=True)


def refused(path):
    with np.errstate(all="ignore"), pytest.raises(InputError) as caught:
        read(path)
    assert (
        str(path) in str(caught.value)
        and "make embed" in str(caught.value)
        and "\n" not in str(caught.value)
    )


finite_rows = arrays.arrays(
    np.float32,
    st.tuples(st.integers(1, 6), st.integers(1, 40)),
    elements=st.floats(-8, 8, width=32).filter(lambda v: v == 0 or abs(v) > 0.01),
).filter(lambda X: (np.abs(X).max(axis=1) > 0).all())


@pytest.mark.parametrize("quantised, error", [(False, 1e-3), (True, 0.05)])
@given(finite_rows, st.randoms(use_true_random=False))
def test_rows_are_unit_multiples_of_two_to_the_minus_24_whatever_is_around_them(
    quantised, error, X, random
):
    order = random.sample(range(len(X)), len(X))
    halves = quantise(halve(X)) if quantised else halve(X)
    unit = widen(halves)
    steps = unit.astype(np.float64) * 2.0**24
    np.testing.assert_array_equal(steps, np.round(steps))
    np.testing.assert_array_equal(widen(np.asfortranarray(halves)[order]), unit[order], strict=True)
    assert np.abs(np.linalg.norm(unit.astype(np.float64), axis=1) - 1).max() < 1e-6
    assert (
        np.abs(unit - X / np.linalg.norm(X.astype(np.float64), axis=1, keepdims=True)).max() < error
    )


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf, 1e300])
def test_a_row_that_is_zero_or_not_finite_is_refused_by_its_text(value):
    with pytest.raises(InputError, match="text 1 .'pin'. is zero, not finite or too long"):
        encode(["card", "pin"], lambda texts: [[1.0, 1], [value, value]])


def test_the_same_embeddings_give_the_same_bytes_and_each_part_decides_the_fingerprint(
    file, tmp_path
):
    data = read(file)
    embed("banking77", "toy/model", tmp_path / "again")
    assert path_of("banking77", "toy/model", tmp_path / "again").read_bytes() == file.read_bytes()
    changes = dict(
        dataset="x", encoder="x", classes="abu", X_test=data.X_train[:3], y_train=data.y_train + 1
    )
    changed = {replace(data, **{name: value}).fingerprint for name, value in changes.items()}
    assert len(changed - {data.fingerprint}) == 5


def test_a_flipped_bit_in_any_byte_is_refused_unless_it_decides_no_result(file):
    whole = file.read_bytes()
    reference = read(file)
    start = whole.index(rb"\"origin\"")
    idle = {*range(start, whole.index(b"}}", start))}  # the origin
    if b'"U8"' in whole:  # bits that fill up the last byte of what is compressed
        idle |= {*range(int.from_bytes(whole[:8], "little") + 8, len(whole))}
    for place in range(len(whole)):
        file.write_bytes(
            whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :]
        )
        if place in idle:
            try:
                assert read(file).fingerprint == reference.fingerprint
                continue
            except InputError:
                pass
        refused(file)
    file.write_bytes(whole[:100])
    refused(file)


NOT_OURS = save({"X_train": np.eye(2)}, {"about": '{"fingerprint": "0"}'})


@pytest.mark.parametrize("content", [b"", b"PAR1 something else altogether PAR1", NOT_OURS])
def test_what_is_no_such_file_is_refused_by_its_name(file, content):
    file.write_bytes(content)
    refused(file)


def test_a_fresh_run_a_cached_one_and_a_wheel_see_the_same_bits(tmp_path, toy, kept, monkeypatch):
    fresh = load("banking77", "toy/model", tmp_path)
    assert fresh.classes == ("arrival", "lost", "pin") and fresh.y_train.tolist() == [1, 2, 1, 0]
    np.testing.assert_array_equal(fresh.X_test, widen(kept(hashed(TEXTS.test))), strict=True)
    assert_same(load("banking77", "toy/model", tmp_path), fresh)
    assert toy == [4, 2]
    monkeypatch.setattr(embeddings, "installed", lambda: True)
    monkeypatch.setenv("OCRR_CACHE_DIR", str(tmp_path / "cache"))
    for _ in range(2):
        assert_same(load("banking77", "toy/model", tmp_path / "packaged"), fresh)
    assert toy == [4, 2, 4, 2] and not (tmp_path / "packaged").exists()


def test_embeddings_of_other_texts_or_another_dataset_are_refused(tmp_path, file, monkeypatch):
    path_of("clinc150", "toy/model", tmp_path).write_bytes(file.read_bytes())
    monkeypatch.setitem(DATASETS["banking77"].files, "train.csv", "0" * 64)
    for name in ("banking77", "clinc150"):
        with pytest.raises(InputError, match=f"{name}.toy--model.safetensors.*make embed"):
            load(name, "toy/model", tmp_path)
    with pytest.raises(InputError, match="unknown dataset 'banking'.*banking77, clinc150"):
        load("banking", folder=tmp_path)


def test_a_function_is_called_each_time_and_nothing_of_it_is_kept(toy, tmp_path):
    for _ in range(2):
        data = load("banking77", hashed, tmp_path)
    assert toy == [4, 2] * 2 and not list(tmp_path.iterdir()) and data.encoder == "hashed"


@pytest.mark.parametrize(
    "rows",
    [np.ones((1, 3)), [["a"], ["b"]], None, np.ones((2, 0))],
    ids=["one row", "words", "no array", "no values"],
)
def test_a_function_that_does_not_give_one_row_a_text_is_refused(rows):
    with pytest.raises(InputError, match="of shape .* for 2 texts"):
        encode(["a", "b"], lambda texts: rows)


def test_an_encoder_may_change_the_list_that_it_is_given():
    def clearing(texts):
        texts.sort()
        return [[len(texts.pop())] for _ in range(2)]

    texts = ["b", "a"]
    encode(texts, clearing)
    assert texts == ["b", "a"]


def test_an_encoder_is_named_by_a_path_as_by_text_and_else_by_words():
    assert revision(Path(DEFAULT_ENCODER)) == revision(DEFAULT_ENCODER)
    with pytest.raises(InputError, match="fitted on a dataset's training sentences"):
        load_encoder(Path(LEXICAL_ENCODER))
    assert name_of(SimpleNamespace(__qualname__=b"bytes")) == "SimpleNamespace"


def test_an_encoder_is_a_function_an_object_or_a_name(no_network, tmp_path):
    assert load_encoder(hashed) is hashed and name_of(hashed) == "hashed"
    model = SimpleNamespace(encode=hashed)
    assert load_encoder(model) is hashed and name_of(model) == "SimpleNamespace"
    with pytest.raises(InputError, match="fitted on a dataset's training sentences"):
        load_encoder(LEXICAL_ENCODER)
    for library, get in (("sentence_transformers", load_encoder), ("transformers", load_backbone)):
        pytest.importorskip(library)
        for name in ("no-such/model", tmp_path):
            with pytest.raises(InputError, match=f"'{name}'.*{DEFAULT_ENCODER}") as caught:
                get(name)
            assert "\n" not in str(caught.value)
            assert LEXICAL_ENCODER not in str(caught.value)
    with pytest.raises(InputError, match=f"without a model: '{LEXICAL_ENCODER}'"):
        load_encoder("no-such/model", ["a training sentence"])


def test_a_local_encoders_file_name_depends_on_the_folders_content(tmp_path):
    model = tmp_path / "my-model"
    names = set()
    (model / "pooling").mkdir(parents=True)
    for change in (
        lambda: (model / "weights.bin").write_bytes(b"0"),
        lambda: (model / "weights.bin").write_bytes(b"1"),
        lambda: (model / "weights.bin").rename(model / "pooling" / "weights.bin"),
    ):
        change()
        names.add(slug(str(model)))
        assert slug(f"{model}/") in names
    assert len(names) == 3 and all(
        name.startswith("my-model-") and "/" not in name for name in names
    )


@pytest.mark.parametrize("dataset, encoder", COMMITTED)
def test_committed_embeddings_are_the_published_ones(dataset, encoder):
    assert load(dataset, encoder).fingerprint.startswith(COMMITTED[dataset, encoder])


@needs_texts
@pytest.mark.parametrize(
    "dataset, encoder",
    [
        pytest.param(*key, marks=pytest.mark.slow if key[1] == LEXICAL_ENCODER else ())
        for key in COMMITTED
        if key[1] != SECOND_ENCODER  # its model may be far away
    ],
)
def test_committed_embeddings_are_what_the_sentences_encode_to(dataset, encoder):
    pytest.importorskip("sentence_transformers")
    data = load(dataset, encoder)
    texts = load_texts(dataset)
    every = 700
    fresh = widen(
        encode(texts.train[::every] + texts.test[::every], load_encoder(encoder, texts.train))
    )
    kept = np.concatenate([data.X_train[::every], data.X_test[::every]])
    assert (fresh * kept).sum(axis=1).min() > 0.999


@needs_texts
def test_sentences_stream_as_their_embeddings_do():
    data = load("banking77")
    texts = load_sentences("banking77", DEFAULT_ENCODER)
    assert (
        isinstance(texts, Sentences)
        and texts.classes == data.classes
        and texts.fingerprint != data.fingerprint
    )
    one, other = (
        make_scenario(given, 7, draw="continued", cap=50, thin=3) for given in (texts, data)
    )
    for part in ("initial", "stream", "novel", "original"):
        np.testing.assert_array_equal(getattr(one, f"y_{part}"), getattr(other, f"y_{part}"))
    rows = [texts.X_train.tolist().index(sentence) for sentence in one.X_stream[:20]]
    np.testing.assert_array_equal(data.X_train[rows], other.X_stream[:20])


@pytest.mark.slow
@pytest.mark.parametrize("dataset", THREE)
def test_a_byte_for_each_number_changes_final_accuracies_by_less_than_a_point(dataset):
    data = load(dataset)
    train, test = (widen(quantise(X)) for X in (data.X_train, data.X_test))
    for seed in range(3):
        ends = []
        for rows in (data, replace(data, X_train=train, X_test=test)):
            s = make_scenario(rows, seed, cap=None)
            *_, end = run_stream(make("substrate"), s, POLICIES["oracle"], len(s.y_stream))
            ends.append([end.novel_acc, end.original_acc])
        assert np.abs(np.subtract(*ends)).max() < 0.01
