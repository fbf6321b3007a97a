"""Files of one's own become datasets like the published ones; what is wrong with them is said by line or row."""

import json
import re
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from ocrrlib.cards import markdown
from ocrrlib.cards.check import check
from ocrrlib.embeddings import halve, widen
from ocrrlib.errors import InputError
from ocrrlib.evaluation.evaluate import evaluate
from ocrrlib.files import sha256
from ocrrlib.own_data import equal_rows, sources
from ocrrlib.own_data import rows as own_rows
from ocrrlib.own_data.reading import read_data
from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import make

WORDS = ["card", "cash", "loan", "pin"]
TEXTS = [f"my {WORDS[i % 4]} number {i}" for i in range(100)]
LABELS = [WORDS[i % 4] for i in range(100)]


def encode(texts):
    """Places of letters, added up: no two texts have equal vectors."""

    def places(text, letter):
        return 1 + sum(place for place, found in enumerate(text, 1) if found == letter)

    return np.array([[places(text, letter) for letter in "acdhiklmnoprs0123456789"] for text in texts])


def encode_apart(texts):
    """The same and the number in it, so that no two texts have equal vectors."""
    return np.column_stack([encode(texts), [1 + int(text.split()[-1]) for text in texts]])


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OCRR_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def table(text=TEXTS, label=LABELS, **more):
    return pd.DataFrame({"text": text, "label": label, **more})


@pytest.fixture
def write(tmp_path):
    """Write a table or arrays to a file, by its ending."""

    def write(content, name="tickets.csv", **how):
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif name.lower().endswith("sv"):
            content.to_csv(path, index=False, **how)
        elif name.endswith(".parquet"):
            content.to_parquet(path, index=False)
        elif name.endswith(".npz"):
            np.savez(path, **content)
        elif name.endswith(".jsonl"):
            content.to_json(path, orient="records", lines=True)
        else:
            save_file(content, path)
        return path

    return write


def read(path, **settings):
    return read_data(path, **{"encoder": encode, "progress": False} | settings)


def refused(path, *words, **settings):
    """Check that a file is refused in one line that has its name and these words, and return that."""
    with pytest.raises(InputError) as caught:
        read(path, **settings)
    message = str(caught.value)
    assert str(path) in message and "\n" not in message
    for word in words:
        assert word in message, message
    return message


def assert_same(a, b):
    assert a.classes == b.classes
    for name in ("X_train", "y_train", "X_test", "y_test"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), strict=True)


# --- what a file becomes


def test_a_table_becomes_a_dataset_like_the_published_ones(write):
    path = write(table())
    data = read(path)
    assert (data.dataset, data.classes) == ("tickets", ("card", "cash", "loan", "pin"))
    assert data.encoder.startswith("test_own_data.encode-")
    assert data.origin["sources"] == {"tickets.csv": sha256(path)} and data.origin["split"]["seed"] == 0
    assert data.origin["revision"].startswith("test_own_data.encode ")
    assert data.origin["columns"] == {"text": "text", "label": "label"}
    assert data.X_train.shape == (76, 23) and data.X_test.shape == (24, 23)  # 6 of 25 rows of each class
    np.testing.assert_array_equal(np.bincount(data.y_test), 6)
    assert data.X_train.dtype == np.float32 and data.y_train.dtype == data.y_test.dtype == np.int64
    found = np.concatenate([data.X_train, data.X_test]), np.concatenate([data.y_train, data.y_test])
    rows = {row.tobytes(): id for row, id in zip(*found)}
    whole = widen(halve(encode(TEXTS)))
    assert [rows[row.tobytes()] for row in whole] == [WORDS.index(label) for label in LABELS]


def test_the_same_file_gives_the_same_fingerprint_and_is_encoded_once(write, cache):
    path = write(table())
    first = read(path)
    assert read(path).fingerprint == first.fingerprint
    assert read(path, seed=1).fingerprint != first.fingerprint != read(path, test_share=0.5).fingerprint
    assert len(list((cache / "embeddings").iterdir())) == 1


def test_the_same_texts_in_another_order_are_split_in_the_same_way(write):
    one = read(write(table()))
    other = read(write(table(TEXTS[::-1], LABELS[::-1])))
    assert_same(one, type(other)("", "", other.classes, *(part[::-1] for part in list(vars(other).values())[3:7])))


def test_all_formats_of_a_table_give_the_same_rows(write):
    data = read(write(table()))
    lines = "\n\n".join(json.dumps(row) for row in table().assign(more=1).to_dict("records"))
    assert_same(read(write(lines.encode(), "a.jsonl")), data)
    for name, how in {
        "a.parquet": {},
        "b.tsv": {"sep": "\t"},
        "c.csv": {"sep": ";"},
        "d.CSV": {"encoding": "utf-8-sig", "lineterminator": "\r\n"},
    }.items():
        if name.endswith("parquet"):
            pytest.importorskip("pyarrow")
        assert_same(read(write(table(), name, **how)), data)


def test_all_formats_of_vectors_give_the_rows_of_the_table(write):
    parts = np.where(np.arange(100) % 5, "train", "test")
    data = read(write(table(part=parts)), split="part", encoder=encode_apart)
    X, y, late = encode_apart(TEXTS).astype(float), np.array(LABELS), parts == "test"
    ids = np.array([WORDS.index(label) for label in LABELS])
    apart = {"X_train": X[~late], "y_train": y[~late], "X_test": X[late], "y_test": y[late]}
    for number, (content, settings) in enumerate(
        [
            ({"X": X, "y": y, "part": parts}, {"split": "part"}),
            ({"X": X, "y": y, "part": late}, {"split": "part"}),
            ({"X": X, "y": y, "part": late.astype(np.int8)}, {"split": "part"}),
            (apart, {}),
        ]
    ):
        assert_same(read(write(content, f"{number}.npz"), **settings), data)
    numbered = read(write({"X": X, "y": ids, "part": late.astype(np.uint8)}, "a.safetensors"), split="part")
    assert numbered.classes == ("0", "1", "2", "3") and (numbered.encoder, numbered.dataset) == ("vectors", "a")
    assert "columns" not in numbered.origin
    np.testing.assert_array_equal(numbered.X_test, data.X_test)
    np.testing.assert_array_equal(numbered.y_test, data.y_test)


def test_numbers_as_labels_are_the_same_classes_in_every_format(write):
    y = np.arange(36) % 12
    X = np.random.default_rng(0).normal(size=(36, 4))
    texts = [f"text {i}" for i in range(36)]
    names = read(write({"X": X, "y": y}, "a.npz")).classes
    assert names == tuple(sorted(map(str, range(12))))
    assert names == read(write(table(texts, y))).classes
    pytest.importorskip("pyarrow")
    assert names == read(write(table(texts, y), "a.parquet")).classes


def test_columns_can_have_any_names_and_others_are_not_read(write):
    frame = table(id=range(100), note="").rename(columns={"text": "Der Text", "label": "queue"})
    assert_same(read(write(frame), text="Der Text", label="queue"), read(write(table(), "b.csv")))


def test_what_looks_missing_to_pandas_is_a_label_like_any_other(write):
    labels = ["NA" if label == "pin" else label for label in LABELS]
    assert read(write(table(label=labels))).classes == ("NA", "card", "cash", "loan")


def test_space_around_labels_does_not_count(write):
    assert_same(read(write(table(label=[f" {label}\t" for label in LABELS]))), read(write(table(), "b.csv")))


def test_the_lexical_encoder_is_fitted_on_the_training_texts(write, monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setattr("ocrrlib.lexical.DIMENSIONS", 8)
    seen = []
    monkeypatch.setattr("ocrrlib.lexical.Lexical.__init__", lambda self, sentences: seen.append(sentences))
    monkeypatch.setattr("ocrrlib.lexical.Lexical.encode", lambda self, sentences, **_: encode(sentences))
    data = read(write(table()), encoder="tfidf-svd")
    assert data.encoder == "tfidf-svd" and data.origin["revision"].startswith("scikit-learn ")
    np.testing.assert_array_equal(widen(halve(encode(seen[0]))), data.X_train)


@pytest.mark.parametrize(
    "texts",
    [
        [f"my {WORDS[i % 4]} number {i % 3}" for i in range(40)],  # too few in all
        [f"{a}{b} {b}{a}" for a in "abcd" for b in "efgh"],  # no pieces that two share
        [f"{a} {b}" for a in "abcd" for b in "efgh"],  # no words
    ],
)
def test_too_few_words_for_the_lexical_encoder_are_refused_with_the_way_out(write, texts):
    pytest.importorskip("sklearn")
    data = write(table(texts, [WORDS[i % 4] for i in range(len(texts))]))
    refused(data, "too few different words or pieces of words", "or another encoder", encoder="tfidf-svd")


def test_a_dataset_of_ones_own_streams_like_a_published_one(write):
    scenario = make_scenario(read(write(table())), 0, held_out=1, cap=None)
    *_, last = run_stream(make("substrate"), scenario, POLICIES["oracle"])
    assert last.corrections > 0 and last.novel_acc > 0


def test_a_published_datasets_name_stays_its_own(write):
    assert read(write(table(), "banking77.csv")).dataset == "banking77.csv"
    assert read(write(table(), "banking77.csv"), name="mine").dataset == "mine"
    with pytest.raises(InputError, match="'clinc150' is the name of a published dataset"):
        read(write(table()), name="clinc150")


def test_many_vectors_go_in_blocks_and_none_is_lost(write, monkeypatch):
    X = np.random.default_rng(0).normal(size=(1000, 8)).astype(np.float32)
    path = write({"X": X, "y": np.arange(1000) % 7}, "a.safetensors")
    whole = read(path)
    monkeypatch.setattr(own_rows, "BLOCK", 64)
    assert_same(read(path), whole)


def test_a_hundred_thousand_vectors_are_turned_without_a_loop_over_rows(write):
    X = np.random.default_rng(0).normal(size=(100_000, 16)).astype(np.float32)
    path = write({"X": X, "y": np.arange(100_000) % 50}, "a.safetensors")
    steps = 0

    def count(*_):
        nonlocal steps
        steps += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        data = read(path)
    finally:
        sys.setprofile(before)
    assert len(data.y_test) == 25_000 and steps < 20_000


@given(st.data())
def test_every_row_is_in_one_part_whatever_the_labels(tmp_path_factory, data):
    y = data.draw(st.lists(st.integers(-3, 3), min_size=2, max_size=40))
    X = np.arange(len(y), dtype=float)[:, None] * [1, 0] + [0, 1]  # a row's direction tells its number
    path = tmp_path_factory.mktemp("drawn") / "a.npz"
    np.savez(path, X=X, y=np.array(y))
    counts = np.unique(y, return_counts=True)[1]
    if len(counts) < 2 or counts.min() < 2:
        refused(path, "class")
        return
    found = read(path, seed=data.draw(st.integers(0, 9)), test_share=data.draw(st.floats(0.05, 0.95)))
    rows = np.concatenate([found.X_train, found.X_test]).astype(float)
    ids = np.concatenate([found.y_train, found.y_test])
    numbers = np.round(rows[:, 0] / rows[:, 1]).astype(int)
    assert sorted(numbers) == list(range(len(y)))
    assert [found.classes[id] for id in ids] == [str(y[number]) for number in numbers]
    assert set(found.y_train) == set(found.y_test) == set(range(len(counts)))


def test_equal_vectors_stay_on_one_side_and_others_are_split_as_they_were(write):
    X = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
    y = np.arange(200) % 4
    before = read(write({"X": X, "y": y}, "a.npz"))
    twice = np.concatenate([X, X[:80], -0.0 + X[:80]])
    data = read(write({"X": twice, "y": np.concatenate([y, y[:80], y[:80]])}, "b.npz"))
    sides = [{row.tobytes() for row in X} for X in (data.X_train, data.X_test)]
    assert not sides[0] & sides[1] and len(data.y_train) + len(data.y_test) == 360
    assert [len(side) for side in sides] == [148, 52]
    assert sides[1] == {row.tobytes() for row in before.X_test}
    many = np.repeat(X[:4], 3, axis=0)
    refused(
        write({"X": many, "y": np.repeat(y[:4], 3)}, "c.npz"), "too few rows for a split in class '0' (row 0, row 1"
    )


def test_equal_vectors_on_both_sides_or_under_two_labels_are_named(write):
    X, y = np.random.default_rng(0).normal(size=(40, 6)), np.arange(40) % 2
    X[[30, 31]] = X[[4, 9]]
    apart = {"X_train": X[:30], "y_train": y[:30], "X_test": X[30:], "y_test": y[30:]}
    both = "row 4 of X_train and row 0 of X_test, row 9 of X_train and row 1 of X_test"
    with pytest.warns(UserWarning, match=f"a.npz: the same vector in train and test: {both}: leave one of each out"):
        read(write(apart, "a.npz"))
    y[30] = 1
    with pytest.warns(
        UserWarning, match=r"b.npz: the same vector under two labels: row 4 \('0'\) and row 30 \('1'\): "
    ):
        read(write({"X": X, "y": y}, "b.npz"))


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16, np.int64, np.int32, np.uint8])
def test_equal_rows_are_those_that_are_equal_whatever_the_numbers(kind):
    X = np.random.default_rng(0).integers(0, 3, (500, 5)).astype(kind)
    wanted = pd.factorize(np.array([str(row) for row in X.tolist()]))[0]
    np.testing.assert_array_equal(equal_rows.equal_rows(X), wanted)


def test_zero_and_minus_zero_are_equal():
    assert equal_rows.equal_rows(np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0]])).tolist() == [0, 0, 1]


# --- what is wrong with a table


def test_a_missing_file_and_an_unknown_ending_say_what_there_may_be(tmp_path, write):
    refused(tmp_path / "none.csv", "there is no file", ".csv, .tsv, .jsonl, .parquet, .npz, .safetensors")
    refused(tmp_path, "there is no file")
    refused(write(b"", "a.xlsx"), "ends in .xlsx", ".csv, .tsv, .jsonl, .parquet, .npz, .safetensors")
    refused(write(b"", "noending"), "ends in nothing")


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_missing_column_lists_those_that_there_are(write, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    path = write(table(note="x"), name)
    refused(path, "unknown column 'Text'", "'text'", "there are: text, label, note", text="Text")
    refused(path, "unknown column 'queue'", label="queue")
    refused(path, "unknown column 'part'", split="part")


def test_empty_texts_and_missing_labels_are_all_named_by_line(write):
    frame = table()
    frame.loc[[0, 7], "text"] = ["", " \t"]
    frame.loc[range(10, 20), "label"] = ""
    refused(
        write(frame),
        "empty text in line 2, line 9: fill it in",
        "no label in line 12, line 13, line 14, line 15, line 16 and 5 more",
    )


def test_rows_of_parquet_count_from_zero_and_missing_values_are_missing(write):
    pytest.importorskip("pyarrow")
    frame = table(label=[i % 4 for i in range(100)])
    frame["label"] = frame["label"].astype("Int64")
    frame.loc[3, "label"] = pd.NA
    frame.loc[5, "text"] = None
    refused(write(frame, "a.parquet"), "empty text in row 5", "no label in row 3")


def test_lines_are_those_of_the_file_even_where_a_text_has_several(write):
    content = 'text,label\n"one\ntwo",a\n\nthree,\n'
    refused(write(content.encode()), "no label in line 5")


def test_a_row_with_too_many_fields_is_named(write):
    refused(write(b"text,label\nfine,a\nwell, not fine,a\n"), "line 3 has 3 fields, not 2", "double quotes")
    refused(write(b"text,label\nfine,a\nwell\n"), "line 3 has 1 fields, not 2")


def test_a_quote_that_never_ends_is_named(write):
    refused(
        write(b"text,label\nfine,a\n" + b'"' + b"x" * 200_000 + b",a\n"), "cannot read on from line 3", "double quote"
    )


@pytest.mark.parametrize("rows", ['"one,a\ntwo,b\n', '"one,a\n"two",b\n', '"one,a\ntwo,b\n"three, or four",c\n'])
def test_a_quote_that_is_not_closed_is_named_by_its_line(write, rows):
    refused(write(("text,label\nfine,a\n" + rows).encode()), "a double quote that is opened on line 3 is not closed")
    refused(write(b'label,text\na,fine\nb,"one\nc,two\n'), "a double quote that is opened on line 3 is not closed")


@pytest.mark.parametrize(
    "content, words",
    [
        (
            "text,label\ngut,a\nschön,a\n".encode("latin-1"),
            ["is not in UTF-8 (byte 0xf6 on line 3)", "iconv -f WINDOWS-1252"],
        ),
        (b"\xef\xbb\xbftext,label\ngut,a\nsch\xf6n,a\n", ["byte 0xf6 on line 3"]),
        ("text,label\n".encode("utf-16"), ["is in UTF-16", "iconv -f UTF-16"]),
        (b"", ["is empty"]),
        (b"text,label\n", ["there are no rows"]),
        (b"text,label,text\n", ["2 columns 'text'"]),
        (b"text,label\nx,a\ny,a\n", ["no class but 'a'"]),
    ],
)
def test_files_that_cannot_be_read_or_have_too_little_say_why(write, content, words):
    refused(write(content), *words)


def test_classes_with_too_few_different_texts_are_named_with_their_rows(write):
    frame = table()
    frame.loc[98, "label"] = "rare"
    frame.loc[[3, 7], ["text", "label"]] = ["twice", "same"]
    refused(
        write(frame), "too few rows for a split", "'rare' (line 100)", "'same' (line 5, line 9)", "two different rows"
    )


def test_many_such_classes_are_counted(write):
    refused(write(table(label=[f"c{i:03}" for i in range(100)])), "'c004' (line 6) and 95 more")


def parted(late):
    return ["test" if i in late else "train" for i in range(100)]


def test_the_same_text_on_both_sides_of_a_split_is_named_by_both_lines(write):
    frame = table(part=parted({1, 2, 3, 4, 50}))
    frame.loc[[4, 50, 60], "text"] = frame.loc[[0, 40, 40], "text"].to_numpy()
    message = refused(
        write(frame), "the same text in train and test: line 2 and line 6, line 42 and line 52", split="part"
    )
    assert "62" not in message


ALIKE = ["{} ", " {}", "{}\u00a0"]


def test_texts_that_differ_in_capitals_and_spaces_only_are_the_same(write):
    frame = table(part=parted({1, 2, 3, 4, 50}))
    frame.loc[50, "text"] = TEXTS[40].upper().replace(" ", "\u2003 ") + " "
    refused(write(frame), "the same text in train and test: line 42 and line 52", split="part")
    more = [how.format(text.title()) for how in ALIKE for text in TEXTS]
    data = read(write(table([*TEXTS, *more], LABELS * 4)), encoder=encode_apart)
    alone = read(write(table(), "b.csv"), encoder=encode_apart)
    assert (len(data.y_train), len(data.y_test)) == (4 * len(alone.y_train), 4 * len(alone.y_test))


def test_texts_of_equal_vectors_on_both_sides_are_named(write):
    frame = table(part=parted({0, 1, 2, 3}))
    frame.loc[44, "text"] = "my card number44"

    def blind(texts):
        return encode([text.replace("44", " 0") for text in texts])

    with pytest.warns(UserWarning, match="the same vector in train and test: line 46 and line 2: leave one of each"):
        read(write(frame), split="part", encoder=blind)


def test_equal_texts_are_no_mistake_where_the_split_is_drawn(write):
    frame = table()
    frame.loc[range(8, 40), "text"] = "the same"
    with pytest.warns(
        UserWarning, match=r"the same text under two labels: line 10 \('card'\) and line 11 \('cash'\): c"
    ):
        data = read(write(frame))
    rows = [{row.tobytes() for row in X} for X in (data.X_train, data.X_test)]
    assert not rows[0] & rows[1]


def test_classes_on_one_side_of_a_split_only_are_named(write):
    frame = table(part=parted({0, 1, 2, 3, 9}))
    frame.loc[[9, 20, 21], "label"] = ["late", "early", "early"]
    refused(
        write(frame),
        "only among the test rows is class 'late' (line 11)",
        "only among the training rows is class 'early' (line 22, line 23)",
        split="part",
    )


def test_other_words_than_train_and_test_are_named(write):
    frame = table(part=parted({0, 1, 2, 3}))
    frame.loc[[5, 8], "part"] = ["dev", ""]
    refused(write(frame), "neither train nor test as 'part' in line 7, line 10", split="part")
    frame = table(part=[f" {word.upper()} " for word in parted({0, 1, 2, 3})])
    assert len(read(write(frame), split="part").y_test) == 4


@pytest.mark.parametrize(
    "content, words",
    [
        (b'{"text": "a", "label": 1}\n\n{"text": \n', ["line 3 is no JSON"]),
        (b'{"text": "a", "label": 1}\n["a", 1]\n', ["line 2 is no JSON object"]),
        (b'{"text": null, "label": 1}\n\n{"text": "a"}\n', ["empty text in line 1", "no label in line 3"]),
        (b'{"text": "a", "queue": 1}\n', ["unknown column 'label'; there are: text, queue"]),
        (b'{"text": "a", "label": ["b"]}\n', ["column 'label' holds mixed"]),
        (b"", ["is empty"]),
    ],
)
def test_lines_of_json_that_do_not_fit_say_where(write, content, words):
    refused(write(content, "a.jsonl"), *words)


def test_parquet_without_pyarrow_says_what_to_install(write, monkeypatch):
    path = write(b"PAR1", "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    refused(path, "pip install 'ocrrlib[parquet]'")


def test_a_damaged_parquet_file_and_labels_that_are_no_names_are_refused(write):
    pytest.importorskip("pyarrow")
    refused(write(b"PAR1 and nothing else", "a.parquet"), "no parquet file, or damaged")
    refused(
        write(table(label=np.arange(100) / 4), "a.parquet"),
        "column 'label' holds floating-point numbers, as 0.25 in row 1",
        "whole",
    )


def test_numbers_too_large_to_be_told_apart_are_no_labels(write):
    pytest.importorskip("pyarrow")
    labels = [1e20, 2e20, *(float(i % 4) for i in range(98))]
    refused(write(table(label=labels), "a.parquet"), "floating-point numbers, as 1e+20 in row 0")


def test_json_lines_are_named_by_their_lines_and_half_a_character_is_no_text(write):
    lines = [json.dumps({"text": f"text {i}", "label": i % 4 + 0.5 * (i == 3)}) for i in range(8)]
    refused(write("\n\n".join(lines).encode(), "a.jsonl"), "floating-point numbers, as 3.5 in line 7")
    lines = [json.dumps({"text": f"text {i}" + "\ud83d" * (i == 2), "label": "ab"[i % 2]}) for i in range(8)]
    refused(write("\n".join(lines).encode(), "a.jsonl"), "'text' has half a character in line 3")
    refused(write(b"\n", "a.jsonl"), "is empty: give it rows")


@pytest.mark.parametrize("name", ["y_test_mask", "X_is_test"])
def test_an_array_that_splits_may_have_any_name(tmp_path, name):
    rng = np.random.default_rng(0)
    y = np.arange(200) % 4
    np.savez(tmp_path / "a.npz", X=rng.normal(size=(200, 8)), y=y, **{name: np.arange(200) % 5 == 0})
    data = read_data(tmp_path / "a.npz", split=name, progress=False)
    assert len(data.y_test) == 40


# --- what is in memory


def test_a_frame_and_its_file_are_the_same_rows(write):
    parts = np.where(np.arange(100) % 5, "train", "test")
    frame = table(part=parts, label=pd.Categorical(LABELS)).set_index(pd.Index(range(100, 200)))
    for settings in ({}, {"split": "part"}, {"test_share": 0.5, "seed": 3}):
        data = read(frame, **settings)
        assert_same(data, read(write(table(part=parts)), **settings))
        assert data.dataset == "frame" and set(data.origin["sources"]) == {"memory"}
    assert read(frame, name="desk").dataset == "desk"


def test_arrays_and_their_file_are_the_same_rows(write):
    X, y = encode_apart(TEXTS).astype(float), np.array(LABELS)
    late = np.arange(100) % 5 == 0
    apart = {"X_train": X[~late], "y_train": y[~late], "X_test": X[late], "y_test": y[late]}
    for arrays, settings in [({"X": X, "y": y, "late": late}, {"split": "late"}), ({"X": X, "y": y}, {}), (apart, {})]:
        assert_same(read(arrays, **settings), read(write(arrays, "a.npz"), **settings))
    as_given = read({"X": X.tolist(), "y": pd.Series(LABELS, dtype=object)})
    assert_same(as_given, read({"X": X, "y": y}))
    assert as_given.dataset == "arrays" and as_given.encoder == "vectors"


def test_what_is_in_memory_is_known_by_its_content():
    X, y = encode_apart(TEXTS).astype(float), np.arange(100) % 4
    changed = X.copy()
    changed[50, 3] += 1
    arrays = [{"X": X, "y": y}, {"X": changed, "y": y}, {"X": X, "y": y[::-1]}, {"X": X, "y": y.astype(str)}]
    frames = [table(), table(label=LABELS[::-1]), table([*TEXTS[:99], "another"]), table(more=1)]
    hashes = [read(data).origin["sources"]["memory"] for data in (*arrays, *frames)]
    assert len(set(hashes[:-1])) == 7 and hashes[-1] == hashes[4], "columns that are not read do not count"
    assert read(table()).origin["sources"] == read(table(), encoder=encode_apart).origin["sources"]


@pytest.mark.parametrize(
    "given, words, settings",
    [
        (table(), "the DataFrame: unknown column 'body'; there are: text, label", {"text": "body"}),
        (
            table(label=np.arange(100) / 3),
            "the DataFrame: column 'label' holds floating-point numbers",
            {},
        ),
        (table(label=[None] * 99 + ["a"]), "the DataFrame: no label in row 0, row 1", {}),
        (table(["", *TEXTS[1:]]), "the DataFrame: empty text in row 0", {}),
        (pd.concat([table(), table()], axis=1), "the DataFrame: there are 2 columns 'text'", {}),
        (table()[:0], "the DataFrame: there are no rows", {}),
        (pd.DataFrame(), "the DataFrame is empty", {}),
        ({"X": np.eye(4)}, "the dict of arrays has no y but X: give X, y", {}),
        ({"X": np.eye(4), "y": np.arange(3)}, "the dict of arrays: y has shape", {}),
        ({"X": np.zeros((4, 2)), "y": np.arange(4) % 2}, "a vector that is zero or not finite in row 0", {}),
        (np.eye(3), "a ndarray holds no rows and labels: give a file, a DataFrame, or a dict of arrays X and y", {}),
        (None, "a NoneType holds no rows and labels", {}),
    ],
)
def test_what_is_wrong_in_memory_is_said_in_one_line(given, words, settings):
    with pytest.raises(InputError, match=words) as caught:
        read(given, **settings)
    assert "\n" not in str(caught.value)


def test_an_evaluation_of_what_is_in_memory_has_a_card_that_names_no_command():
    X, y = encode_apart(TEXTS).astype(float), np.array(LABELS)
    found = evaluate("ncm", {"X": X, "y": y}, [0], progress=False)
    assert found.about["data"]["sources"] == {"memory": read({"X": X, "y": y}).origin["sources"]["memory"]}
    check(found.card())
    assert "Repeat" not in markdown(found.card())
    assert found.against(evaluate("slda", {"X": X, "y": y}, [0], progress=False)).notna().any(axis=None)


# --- more that is wrong with files


def test_whole_numbers_of_which_one_is_missing_are_refused_by_its_row(write):
    pytest.importorskip("pyarrow")
    numbers = [float(i % 4) for i in range(100)]
    assert read(write(table(label=numbers), "a.parquet")).classes == ("0", "1", "2", "3")
    assert_same(read(write(table().astype({"label": "category"}), "a.parquet")), read(write(table(), "a.parquet")))
    refused(write(table(label=[*numbers[:99], None]), "a.parquet"), "no label in row 99")


def test_an_encoders_bad_row_is_named_by_its_text(write):
    def zero(texts):
        return encode(texts) * np.array([[text != TEXTS[9]] for text in texts])

    with pytest.raises(InputError, match="text 9 .'my cash number 9'"):
        read(write(table()), encoder=zero)


# --- what is wrong with vectors


def arrays(n=20, **changed):
    return {"X": np.random.default_rng(0).normal(size=(n, 4)), "y": np.arange(n) % 2} | changed


@pytest.mark.parametrize("name", ["a.npz", "a.safetensors"])
def test_vectors_that_are_zero_or_not_finite_are_named(write, name, monkeypatch):
    monkeypatch.setattr(own_rows, "BLOCK", 8)
    X = arrays()["X"]
    X[2], X[9, 1], X[19, 0] = 0, np.nan, np.inf
    refused(write(arrays(X=X), name), "a vector that is zero or not finite in row 2, row 9, row 19")
    apart = {"X_train": X[:15], "y_train": np.arange(15) % 2, "X_test": X[15:], "y_test": np.arange(5) % 2}
    refused(write(apart, name), "in row 2 of X_train, row 9 of X_train, row 4 of X_test")


@pytest.mark.parametrize(
    "content, words",
    [
        (arrays(y=np.arange(19) % 2), "y has shape (19,), not (20,)"),
        (arrays(y=np.ones((20, 1), int)), "y has shape (20, 1)"),
        (arrays(y=np.ones(20)), "y holds float64: cast it to whole numbers, y.astype(int)"),
        (arrays(y=np.arange(20) / 4), "y holds float64: give whole numbers or text"),
        (arrays(X=np.ones(20)), "X is float64 of shape (20,)"),
        (arrays(X=np.ones((20, 0))), "shape (20, 0)"),
        (arrays(X=np.ones((20, 2), complex)), "X is complex128"),
        ({"X": np.ones((4, 2)), "labels": np.ones(4, int)}, "has no y but X, labels: give X, y, or X_train, y_train"),
        ({}, "has no X, y but nothing"),
        ({"X_train": np.ones((4, 2))}, "has no y_train, X_test, y_test"),
        (arrays(y=np.ones(20, int)), "no class but '1'"),
        (arrays(y=np.array(["a", " "] * 10)), "no label in row 1, row 3, row 5, row 7, row 9 and 5 more"),
        (arrays(y=np.array([0, 1] * 9 + [5, 0])), "too few rows for a split in class '5' (row 18)"),
        (arrays(0), "there are no rows"),
    ],
)
def test_arrays_that_do_not_fit_say_why(write, content, words):
    refused(write(content, "a.npz"), words)


def test_parts_that_do_not_fit_say_why(write):
    X, y = arrays()["X"], arrays()["y"]
    apart = {"X_train": X, "y_train": y, "X_test": X[:, :3], "y_test": y}
    refused(write(apart, "a.npz"), "X_train (20, 4) and X_test (20, 3)")
    refused(write(apart | {"X_test": X, "y_test": y.astype(str)}, "a.npz"), "y_train (int64) and y_test (<U")
    refused(
        write(apart | {"X_test": X, "y_test": y + 1}, "a.npz"), "only among the test rows is class '2' (row 1 of X_test"
    )
    refused(write(apart | {"X_test": X}, "a.npz"), "leave split='part' out", split="part")
    refused(write(arrays(), "a.npz"), "has no part but X, y", split="part")
    refused(write(arrays(part=y + 1), "a.npz"), "neither train nor test as 'part' in row 1", split="part")
    refused(write(arrays(part=y[:4]), "a.npz"), "part has shape (4,)", split="part")


def test_python_objects_and_damaged_files_are_refused(write):
    refused(write(arrays(y=np.array(["a", 1] * 10, object)), "a.npz"), "cannot read", "numpy.savez")
    refused(write(b"PK\x03\x04 and nothing else", "a.npz"), "cannot read")
    refused(write(b"", "a.npz"), "cannot read")
    refused(write(b"12345678{", "a.safetensors"), "cannot read", "safetensors.numpy.save_file")


@pytest.mark.parametrize(
    "setting, words",
    [
        ({"test_share": 0.0}, "test_share 0.0"),
        ({"test_share": 1}, "test_share 1 is out of range"),
        ({"test_share": float("nan")}, "test_share nan"),
        ({"seed": -1}, "seed -1"),
        ({"seed": 0.5}, "seed 0.5"),
    ],
)
def test_settings_out_of_range_are_refused(write, setting, words):
    with pytest.raises(InputError, match=words):
        read(write(table()), **setting)


def test_reading_a_table_does_not_need_the_encoder_until_the_table_is_right(write, monkeypatch):
    monkeypatch.setattr(sources, "sha256", None)  # nor is the file hashed
    refused(write(b"text,label\nx,a\ny,a\n"), "no class but 'a'", encoder="no-such/encoder")


def test_characters_in_two_forms_are_one_label(write):
    labels = ["Gebühr", "Gebu\u0308hr", "card", "loan"] * 25
    data = read(write(table(label=labels)))
    assert data.classes == ("Gebühr", "card", "loan")


@pytest.mark.parametrize(
    "labels, told",
    [
        (["Card", "card", "cash", "loan"], "'Card' and 'card' differ in capitals, spaces or forms"),
        (["my  card", "my card", "cash", "loan"], "'my  card' and 'my card' differ in capitals"),
        (["NaN", "card", "cash", "loan"], "'NaN' is a class: leave its rows out"),
        (["card", "cash", "loan", "n/a"], "'n/a' is a class: leave its rows out"),
    ],
)
def test_labels_that_may_be_one_or_none_are_warned_of_and_stay(write, labels, told):
    path = write(table(label=labels * 25))
    with pytest.warns(UserWarning, match=re.escape(f"{path}: {told}")) as caught:
        data = read(path)
    assert len(caught) == 1 and caught[0].filename == __file__ and set(data.classes) == set(labels)


@pytest.mark.parametrize("words", [("train", "test"), ("0", "1"), ("False", "True"), (False, True), (0, 1)])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_a_column_that_splits_says_it_in_words_or_whether_it_is_a_test_row(write, name, words):
    data = read(write(table(part=[words[i // 4 % 5 == 0] for i in range(100)]), name), split="part")
    assert (len(data.y_train), len(data.y_test)) == (80, 20)


def test_rows_of_a_third_part_are_named_with_two_ways_out(write):
    path = write(table(part=["validation", *["train", "train", "test"] * 33]))
    with pytest.raises(InputError, match="neither train nor test as 'part' in line 2: write one of .* leave the row"):
        read(path, split="part")


@pytest.mark.parametrize("columns", [[0, 1], pd.MultiIndex.from_tuples([("a", "text"), ("a", "label")])])
def test_columns_without_names_are_refused(columns):
    with pytest.raises(InputError, match="is no name of a column: rename the columns"):
        read(table().set_axis(columns, axis=1))


def test_an_unknown_column_comes_with_what_there_is_and_how_to_name_ones_own(write):
    with pytest.raises(InputError, match="unknown column 'text'; there are: body, label; name yours .*--text,"):
        read(write(table().rename(columns={"text": "body"})))


def test_objects_in_arrays_are_refused_with_what_makes_text_of_them(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(4), y=np.array(["a", "b", "a", "b"], object))
    with pytest.raises(InputError, match=r"y\.astype\(str\)"):
        read_data(tmp_path / "a.npz")
