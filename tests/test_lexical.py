"""The lexical encoder and the digits: the same rows every time, good enough to compare with, no network."""

import numpy as np
import pytest

from ocrrlib.datasets import load_texts
from ocrrlib.embeddings import encode, halve, path_of, read, recheck, widen
from ocrrlib.encoders import LEXICAL_ENCODER, load_encoder, revision
from ocrrlib.errors import InputError
from ocrrlib.lexical import DIMENSIONS, Lexical
from ocrrlib.systems import make
from studies.streams import load_pixels

SENTENCES = [f"{verb} my {noun} {when}" for verb in ("lost", "block", "top up") for noun in ("card", "pin", "account")
             for when in ("now", "today", "at once")]  # fmt: skip


def test_same_sentences_give_the_same_rows_and_new_words_a_row_too():
    one, two = (Lexical(SENTENCES, 8).encode(["lost card", "lose cards"]) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert one.shape == (2, 8) and np.isfinite(halve(one)).all()


def test_sentences_with_common_words_are_close():
    a, b, c = widen(halve(Lexical(SENTENCES, 8).encode(["lost card", "lost my card", "top up account"])))
    assert a @ b > a @ c


@pytest.mark.parametrize("dataset", ["banking77"])
def test_committed_rows_are_short_and_say_what_they_came_from(dataset):
    data = read(path_of(dataset, LEXICAL_ENCODER))
    assert data.X_train.shape[1] == DIMENSIONS <= 256
    assert data.origin["revision"].split()[0] == "scikit-learn" == revision(LEXICAL_ENCODER).split()[0]
    other = read(path_of(dataset, "all-MiniLM-L6-v2"))
    assert np.array_equal(data.y_train, other.y_train) and data.origin["sources"] == other.origin["sources"]


def test_committed_rows_come_out_again():
    try:
        texts = load_texts("banking77")
    except InputError:
        pytest.skip("no texts here")
    assert recheck(read(path_of("banking77", LEXICAL_ENCODER)), texts) > 0.999


def test_the_registry_knows_the_lexical_encoder():
    with pytest.raises(InputError, match="'tfidf-svd' is fitted on a dataset's training sentences: give these"):
        encode(["lost card"], LEXICAL_ENCODER)
    with pytest.raises(InputError, match="tfidf-svd"):
        load_encoder("/no/such/folder")


def test_digits_are_unit_rows_of_ten_classes_and_can_be_learnt():
    data = load_pixels()
    assert data.X_train.shape == (1348, 64) and data.X_test.shape == (449, 64) and len(data.classes) == 10
    assert set(data.y_train.tolist()) == set(data.y_test.tolist()) == set(range(10))
    np.testing.assert_array_equal(data.X_train * 2.0**24, np.round(data.X_train * 2.0**24))
    system = make("substrate").fit(data.X_train, data.y_train, data.classes)
    assert np.mean(system.predict(data.X_test) == data.y_test) > 0.95
    assert data.fingerprint == load_pixels().fingerprint
