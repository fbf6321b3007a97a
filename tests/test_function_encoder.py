"""Any function from texts to rows is an encoder; what it may not give is refused by its row."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from ocrrlib import function_encoder
from ocrrlib.embeddings import encode
from ocrrlib.encoders import load_encoder, name_of, revision, slug
from ocrrlib.errors import InputError
from ocrrlib.function_encoder import as_encoder
from ocrrlib.identity import identity

TEXTS = [f"text {i}" for i in range(10)]


def lengths(texts):
    """A row of a text's length and number."""
    return np.array([[len(text), int(text.split()[1]) + 1] for text in texts])


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch):
    monkeypatch.setattr(function_encoder, "AT_ONCE", 4)


def test_rows_come_in_order_and_the_function_is_given_a_part_of_them_at_a_time():
    seen = []

    def encoder(texts):
        seen.append(texts)
        return lengths(texts)

    encoder.revision = "keeps what it saw"
    rows = load_encoder(encoder).encode(TEXTS, batch_size=64, show_progress_bar=False)
    np.testing.assert_array_equal(rows, lengths(TEXTS))
    assert seen == [TEXTS[:4], TEXTS[4:8], TEXTS[8:]] and all(type(part) is list for part in seen)


def test_lists_and_what_turns_into_arrays_will_do():
    np.testing.assert_array_equal(encode(TEXTS, lambda texts: lengths(texts).tolist()), encode(TEXTS, lengths))


def test_names_files_and_revisions_of_functions():
    assert revision(lengths) == identity(lengths)
    digest = identity(lengths).split()[1]
    assert slug(lengths) == name_of(lengths) == f"{__name__}.lengths-{digest[:8]}"
    inner = slug(lambda texts: texts)
    assert not set(inner) & set("<>/ ") and inner.startswith(f"{__name__}.test_names_files")
    assert name_of("some/model") == "some/model"


def changed(row, value):
    def encoder(texts):
        rows = lengths(texts).astype(float)
        rows[[text == f"text {row}" for text in texts]] = value
        return rows

    return encoder


@pytest.mark.parametrize("value", [0, np.nan, np.inf])
def test_a_row_that_is_zero_or_not_finite_is_refused_by_its_text(value):
    with pytest.raises(InputError, match=r"the embedding of text 6 \('text 6'\) is zero or not finite"):
        encode(TEXTS, changed(6, value))


@pytest.mark.parametrize(
    "encoder, words",
    [
        (lambda texts: lengths(texts)[:-1], "gave 3 rows for 4 texts \\(texts 0 to 3\\)"),
        (lambda texts: lengths(texts)[:, 0], "gave int64 of shape \\(4,\\) for texts 0 to 3"),
        (lambda texts: lengths(texts)[None], "of shape \\(1, 4, 2\\)"),
        (lambda texts: lengths(texts)[:, :0], "rows of length 0"),
        (lambda texts: lengths(texts).astype(str), "gave <U.* of shape"),
        (lambda texts: [[1.0], [1.0, 2.0], [1.0], [1.0]], "is no array"),
        (lambda texts: None, "gave object of shape \\(\\)"),
        (lambda texts: lengths(texts) * 1j, "gave complex128"),
        (lambda texts: np.ones((len(texts), len(texts))), "rows of length 1 for texts 0 to 0, 4 before that"),
    ],
)
def test_what_is_not_one_row_for_each_text_is_refused(encoder, words):
    with pytest.raises(InputError, match=f"lambda.*{words}") as caught:
        encode(TEXTS, encoder)
    assert "\n" not in str(caught.value)


def test_rows_of_another_length_than_in_a_call_before_are_refused():
    width = iter([2, 3])

    def encoder(texts):
        return np.ones((len(texts), next(width)))

    encoder.revision = "draws from an iterator"
    model = load_encoder(encoder)
    model.encode(TEXTS[:3])
    with pytest.raises(InputError, match="rows of length 3 for texts 0 to 2, 2 before that"):
        model.encode(TEXTS[:3])


def test_a_function_that_counts_its_calls_encodes_all_the_same():
    seen = []

    def encoder(texts):
        seen.append(len(texts))
        return lengths(texts)

    np.testing.assert_array_equal(load_encoder(encoder).encode(TEXTS), lengths(TEXTS))
    assert seen == [4, 4, 4, 1, 1, 1, 4, 2, 1, 1], "the first texts are asked for twice before, and some alone"


def test_a_function_that_gives_other_vectors_when_asked_again_is_refused():
    with pytest.raises(InputError, match="gives other vectors for the same texts when it is asked again"):
        encode(TEXTS, lambda texts: np.random.default_rng().normal(size=(len(texts), 3)))


def centred(texts):
    return lengths(texts) - lengths(texts).mean(axis=0) + 0.01


def centred_late(texts):
    return centred(texts) if "text 9" in texts and len(texts) > 1 else lengths(texts)


def fitted_anew(texts):
    return TfidfVectorizer(min_df=2).fit_transform(texts).toarray()


@pytest.mark.parametrize(
    "encoder, clue",
    [
        (centred, "gives another vector for text . alone than among others"),
        (centred_late, "gives another vector for text 8 alone than among others"),
        (fitted_anew, r"fails for text . alone \(ValueError\)"),
        (lambda texts: TfidfVectorizer(analyzer="char").fit_transform(texts).toarray(), "rows of length"),
    ],
)
def test_a_function_whose_rows_depend_on_other_texts_is_refused(encoder, clue):
    with pytest.raises(InputError, match=f"{clue}.*: .*a row must depend on its own text alone"):
        encode(TEXTS, encoder)


def test_rounding_that_differs_with_the_number_of_texts_is_let_through():
    rows = load_encoder(lambda texts: lengths(texts) * (1 + 1e-3 * (len(texts) > 1))).encode(TEXTS)
    assert rows.shape == (10, 2)


def test_an_object_with_encode_is_an_encoder_and_what_is_none_is_refused(tmp_path):
    class Model:
        def encode(self, texts):
            return lengths(texts)

    np.testing.assert_array_equal(encode(TEXTS, as_encoder(Model())), encode(TEXTS, lengths))
    assert as_encoder(lengths) is lengths and as_encoder("a/b") == "a/b" and as_encoder(tmp_path) == str(tmp_path)
    for wrong in (None, 3, np.zeros(3)):
        with pytest.raises(InputError, match="is no encoder: give a name, a folder, a function"):
            as_encoder(wrong)


def test_a_function_that_holds_a_vectoriser_encodes_and_keeps_its_identity():
    vectoriser = TfidfVectorizer().fit(["text lost", *TEXTS])

    def encoder(texts):
        return vectoriser.transform(texts).toarray()

    before = identity(encoder)
    assert encode(TEXTS, encoder).shape == (10, 2) and hasattr(vectoriser, "_stop_words_id")
    assert identity(encoder) == before


def test_a_functions_own_error_is_not_hidden():
    def encoder(texts):
        raise KeyError("its own")

    with pytest.raises(KeyError, match="its own"):
        encode(TEXTS, encoder)


def test_no_texts_give_no_rows():
    assert load_encoder(lengths).encode([]).shape == (0, 0)


def test_a_sparse_matrix_is_refused_with_what_makes_rows_of_it():
    vectoriser = TfidfVectorizer().fit(["text lost", *TEXTS])
    with pytest.raises(InputError, match="gave a sparse matrix for texts 0 to .*TruncatedSVD.*toarray"):
        encode(TEXTS, vectoriser.transform)
