"""Your data: every format gives the same rows; every mistake is one line with the file, the place and the way out."""

import json
import zipfile
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from ocrrlib import own
from ocrrlib.datasets import Texts
from ocrrlib.embeddings import halve, widen
from ocrrlib.files import InputError
from ocrrlib.own import evaluate
from ocrrlib.own_data import _drawn, read_data

WORDS = ("invoice paid twice", "router is off", "parcel never came", "password expired")
TABLE = pd.DataFrame(
    [(f"{words} {n}\n{'please' * (n % 2)}, help", words.split()[0]) for words in WORDS for n in range(8)],
    columns=["text", "label"],
)
ARRAYS = ("X_train", "y_train", "X_test", "y_test")


def letters(texts):
    """An encoder: counts of letters and digits."""
    return np.array([[text.count(letter) + 0.1 for letter in "abcdefghijklmnopqrstuvwxyz0123456789"] for text in texts])


def same(one, other):
    assert one.classes == other.classes
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def read(data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return read_data(data, **dict(encoder=letters) | options)


def written(folder, suffix, table=TABLE):
    path = folder / f"tickets.{suffix}"
    if suffix in ("csv", "tsv", "semicolons.csv"):
        separator = {"csv": ",", "tsv": "\t"}.get(suffix, ";")
        path.write_text("\ufeff" * (suffix == "csv") + table.to_csv(index=False, sep=separator), encoding="utf-8")
    elif suffix == "jsonl":
        path.write_text("\n\n".join(json.dumps(row) for row in table.to_dict("records")), encoding="utf-8")
    else:
        table.to_parquet(path)
    return path


@pytest.mark.parametrize("suffix", ["csv", "tsv", "semicolons.csv", "jsonl", "parquet"])
def test_all_formats_of_a_table_give_the_rows_of_the_frame(suffix, tmp_path):
    frame = read(TABLE)
    same(read(written(tmp_path, suffix)), frame)
    assert frame.classes == ("invoice", "parcel", "password", "router") and frame.encoder == "letters"
    assert len(frame.y_test) == 8 and (np.bincount(frame.y_train) == 6).all()
    np.testing.assert_allclose(np.linalg.norm(frame.X_train, axis=1), 1, atol=1e-6)


def test_all_formats_of_vectors_give_the_rows_of_the_table(tmp_path):
    wanted = read(TABLE)
    X, ids = letters(TABLE["text"]), pd.factorize(TABLE["label"], sort=True)[0]
    tested = set(map(bytes, wanted.X_test))
    test = np.array([bytes(row) in tested for row in widen(halve(X))])
    y, part = TABLE["label"].to_numpy(str), np.where(test, "test", "train")
    apart = {"X_train": X[~test], "y_train": y[~test], "X_test": X[test], "y_test": y[test]}
    np.savez(tmp_path / "together.npz", X=X, y=y, part=part)
    np.savez(tmp_path / "apart.npz", **apart)
    save_file({"X": X, "y": ids, "part": test.astype(int)}, tmp_path / "numbers.safetensors")
    for data, options in (
        (tmp_path / "together.npz", {"split": "part"}),
        (tmp_path / "apart.npz", {}),
        (apart, {}),
        ({"X": X, "y": y, "part": part}, {"split": "part"}),
    ):
        same(read(data, **options), wanted)
    numbers = read(str(tmp_path / "numbers.safetensors"), split="part")
    assert numbers.classes == ("0", "1", "2", "3") and numbers.encoder == "vectors"
    np.testing.assert_array_equal(numbers.X_train, wanted.X_train)


def test_columns_have_any_names_and_labels_are_stripped(tmp_path):
    table = pd.DataFrame({"body": TABLE["text"], "other": 1, "queue": TABLE["label"] + " "})
    same(read(written(tmp_path, "csv", table), text="body", label="queue", name="mine"), read(TABLE))
    assert read(table, text="body", label="queue").classes == read(TABLE).classes
    odd = TABLE.assign(label=["e\u0301", "é", "NA", "null"] * 8)
    assert read(odd).classes == read(written(tmp_path, "csv", odd)).classes == ("NA", "null", "é")


def test_the_order_of_rows_does_not_change_the_split():
    one, other = read(TABLE), read(TABLE.sample(frac=1, random_state=1))
    assert set(map(bytes, one.X_test)) == set(map(bytes, other.X_test))
    assert set(map(bytes, read(TABLE, seed=1).X_test)) != set(map(bytes, one.X_test))


@given(st.lists(st.integers(0, 3), min_size=2, max_size=60), st.floats(0.05, 0.95), st.integers(0, 5))
def test_the_drawn_split_is_stratified_and_keeps_equal_rows_together(labels, share, seed):
    y = np.array([0, 1, 2, 3] * 2 + labels)
    which = pd.factorize(np.array([f"{label} {place % 7}" for place, label in enumerate(y)]))[0]
    test = _drawn(y, which, np.random.default_rng(seed).random(len(y)), share)
    assert (pd.Series(test).groupby(which).nunique() == 1).all()
    for label in np.unique(y):
        rows = len(np.unique(which[y == label]))
        in_test = len(np.unique(which[(y == label) & test]))
        assert in_test == (rows > 1) * np.clip(np.floor(share * rows + 0.5), 1, max(rows - 1, 1))


def test_a_given_split_names_rows_on_both_sides_and_unknown_words(tmp_path):
    table = TABLE.assign(part=["train", "TEST "] * 16)
    assert len(read(table, split="part").y_test) == 16
    same(read(table.assign(part=[0, 1] * 16), split="part"), read(table, split="part"))
    double = pd.concat([table, table[:1].assign(text=table["text"][0].upper() + "  ", part="test")], ignore_index=True)
    with pytest.raises(InputError, match="tickets.csv: the same row for training and test in line 3, line 67: drop"):
        read(written(tmp_path, "csv", double), split="part")
    with pytest.raises(InputError, match="neither train nor test in row 0, row 2, row 4 and 13 more"):
        read(table.replace({"part": {"train": "dev"}}), split="part")
    with pytest.raises(InputError, match="no training or no test row of class 'invoice'"):
        read(table.assign(part=["train"] * 8 + ["train", "test"] * 12), split="part")


def test_equal_rows_with_different_labels_are_warned_of():
    torn = pd.concat([TABLE, TABLE[:1].assign(label="router")])
    with pytest.warns(UserWarning, match="different labels, as row 0"):
        read_data(torn, encoder=letters)


CSV = "text,label\n"
REFUSED = [
    ("a.csv", "", "column"),
    ("a.csv", CSV + "a,b,c\n", "line 2 has 3 fields"),
    ("a.csv", CSV + 'x,y\n"a\n,b\n', "unexpected end"),
    ("a.csv", CSV + "a,b\n ,b\nc,d\n", "'text' is empty in line 3"),
    ("a.csv", CSV + "a,b\nb,\nc,\n", "'label' is empty in line 3, line 4"),
    ("a.csv", CSV + "a,b\nb,b\n", "2 rows of 1 classes"),
    ("a.csv", CSV + "a,b\nb,b\nc,c\n", "class 'c'"),
    ("a.csv", CSV.encode() + b"\xe9,b\n", "UnicodeDecodeError"),
    ("a.csv", CSV + "a\0,b\n" + "x" * 200_000 + ",b", "field larger than"),
    ("a.csv", "x" * 200_000 + ",label\n", "cannot be read"),
    ("a.csv", "text,label,text\na,b,c\n", "two columns 'text'"),
    ("a.csv", "body,label\na,b\n", "unknown column 'text'.*body"),
    ("a.jsonl", '{"text": "a", "label": "b"}\n[1]\n', "line 2"),
    ("a.jsonl", '{"text": "a"\n', "line 1 is not a JSON object"),
    ("a.jsonl", "[" * 100_000, "line 1 is not a JSON object"),
    ("a.jsonl", '{"text": "a", "label": "b"}\n{"text": "c"}\n', "'label' is empty in line 2"),
    ("a.parquet", b"PAR1 broken PAR1", "a.parquet: it cannot be read"),
    ("a.npz", b"PK\x03\x04 broken", "a.npz: it cannot be read"),
    ("a.npz", b"", "a.npz: it cannot be read"),
    ("a.safetensors", b"\xff" * 64, "a.safetensors: it cannot be read"),
    ("a.txt", "", "a.txt: not a file in .csv"),
]


@pytest.mark.parametrize("name, content, clue", REFUSED)
def test_files_that_cannot_be_used_are_named_in_one_line(name, content, clue, tmp_path):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=clue) as caught:
        read(tmp_path / name)
    message = str(caught.value)
    assert "\n" not in message and str(tmp_path / name) in message and len(message) < 500


def test_an_array_header_that_promises_too_much_and_objects_are_refused(tmp_path):
    np.savez(tmp_path / "objects.npz", X=np.eye(4), y=np.array([{}, 1, 2, 3]))
    about = b"{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000, 8), }"
    header = (b"\x93NUMPY\x01\x00v\x00" + about).ljust(127) + b"\n"
    with zipfile.ZipFile(tmp_path / "absurd.npz", "w") as file:
        file.writestr("X.npy", header)
        file.writestr("y.npy", header)
    for name in ("objects", "absurd"):
        with pytest.raises(InputError, match=f"{name}.npz: it cannot be read"):
            read(tmp_path / f"{name}.npz")


X = np.random.default_rng(0).normal(size=(8, 3))
Y = np.array(list("abababab"))


def with_row(row):
    bad = X.copy()
    bad[5] = row
    return bad


@pytest.mark.parametrize(
    "data, clue",
    [
        ({"X": with_row([0, 0, 0]), "y": Y}, "row 5 is zero"),
        ({"X": with_row([1, np.nan, 0]), "y": Y}, "row 5 has a NaN or infinity"),
        ({"X": with_row([1e300, 1e300, 0]), "y": Y}, "row 5 is out of range when normalised"),
        ({"X": X, "y": Y[:7]}, "do not fit"),
        ({"X": X[0], "y": Y[:3]}, "do not fit"),
        ({"X": X.astype(str), "y": Y}, "do not fit"),
        ({"X": X}, "array 'y'"),
        ({"X_train": X, "y_train": Y, "X_test": X[:, :2], "y_test": Y}, "rows of one length"),
        ({"X_train": X, "y_train": Y, "X_test": X}, "array 'y_test'"),
        ({"X_train": X, "y_train": Y, "X_test": X, "y_test": Y}, "the same row for training and test"),
        (7, "a int holds no data"),
        (pd.DataFrame({0: ["a"]}), "column 'text'"),
    ],
)
def test_what_is_wrong_in_memory_is_named(data, clue):
    with pytest.raises(InputError, match=clue):
        read(data)


@pytest.mark.parametrize(
    "options, clue",
    [
        (dict(test_share=1.0), "test_share"),
        (dict(name="banking77"), "published dataset"),
        (dict(name="<script>"), "name"),
        (dict(label="queue"), "queue"),
        (dict(split="part"), "part"),
        (dict(encoder=7), "encoder"),
        (dict(encoder=lambda texts: np.ones(3)), "the encoder gives"),
        (dict(encoder=lambda texts: np.full((len(texts), 2), np.nan)), "embedding of row 0 has a NaN"),
    ],
)
def test_options_out_of_range_are_refused(options, clue):
    with pytest.raises(InputError, match=clue):
        read(TABLE, **options)


def test_an_object_with_encode_is_called_on_the_texts_once():
    class Encoder:
        calls = 0

        def encode(self, texts):
            self.calls += 1
            return letters(texts)

    encoder = Encoder()
    same(read(TABLE, encoder=encoder), read(TABLE))
    assert encoder.calls == 1 and read(TABLE, encoder=encoder).encoder == "Encoder"


def test_the_lexical_encoder_is_fitted_on_training_texts():
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list("abcdefghij"), 4)) + f" word{n} other{n % 50}" for n in range(300)]
    data = read(pd.DataFrame({"text": texts, "label": list("xyz") * 100}), encoder="tfidf-svd")
    assert data.encoder == "tfidf-svd" and data.X_test.shape == (75, 225)
    with pytest.raises(InputError, match="tfidf-svd cannot embed"):
        read(TABLE, encoder="tfidf-svd")


def test_a_dataset_of_yours_streams_and_a_path_is_enough(tmp_path, vectors):
    result = evaluate("ncm", read(TABLE), [0], every=2, progress=False, resume=False)
    assert result.cell["dataset"] == "own_data" and result.summary["mean"][0] > 0
    assert evaluate("ncm", vectors, [0], progress=False, resume=False).cell["dataset"] == "vectors"
    for given, name in (("banking77.csv", "banking77.csv"), ("<a> & b.csv", "-a- - b")):
        assert read(written(tmp_path, "csv").rename(tmp_path / given)).dataset == name


def test_an_encoder_of_yours_reads_the_published_texts(monkeypatch):
    train, labels = TABLE["text"].tolist(), TABLE["label"].tolist()
    texts = Texts(train, labels, train[::2], labels[::2])
    monkeypatch.setattr(own, "load_texts", lambda name: texts)
    result = evaluate("ncm", "banking77", [0], encoder=letters, every=2, progress=False, resume=False)
    assert result.cell["encoder"] == "letters" and result.cell["dataset"] == "banking77"
