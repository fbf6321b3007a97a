"""Your data: every format gives the same rows; every mistake is one line.

The line has the file, the place and the way out.
"""

import json

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from ocrrlib.embeddings import halve, widen
from ocrrlib.files import InputError
from ocrrlib.memory import CorrectionMemory
from ocrrlib.own import encoding
from ocrrlib.own.data import read_data

WORDS = ("invoice paid twice", "router is off", "parcel never came", "password expired")
TABLE = pd.DataFrame(
    [
        (f"{words} {n}\n{'please' * (n % 2)}, help", words.split()[0])
        for words in WORDS
        for n in range(8)
    ],
    columns=["text", "label"],
)


def letters(texts):
    """An encoder: counts of letters and digits."""
    return np.array(
        [
            [text.count(letter) + 0.1 for letter in "abcdefghijklmnopqrstuvwxyz0123456789"]
            for text in texts
        ]
    )


def same(one, other):
    assert one.classes == other.classes
    for name in ("X_train", "y_train", "X_test", "y_test"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def read(data, **options):
    return read_data(data, **dict(encoder=letters) | options)


def written(folder, suffix, table=TABLE):
    path = folder / f"tickets.{suffix}"
    if suffix == "jsonl":
        path.write_text(
            "\n".join(json.dumps(row) for row in table.to_dict("records")), encoding="utf-8"
        )
    elif suffix == "parquet":
        table.to_parquet(path)
    else:
        separator = {"csv": ",", "tsv": "\t"}.get(suffix, ";")
        path.write_text(
            "\ufeff" * (suffix == "csv") + table.to_csv(index=False, sep=separator),
            encoding="utf-8",
        )
    return path


@pytest.mark.parametrize("suffix", ["csv", "tsv", "semicolons.csv", "jsonl", "parquet"])
def test_all_formats_of_a_table_give_the_rows_of_the_frame(suffix, tmp_path):
    frame = read(TABLE)
    same(read(written(tmp_path, suffix)), frame)
    assert (
        frame.classes == ("invoice", "parcel", "password", "router") and frame.encoder == "letters"
    )
    assert len(frame.y_test) == 8 and (np.bincount(frame.y_train) == 6).all()


def test_all_formats_of_vectors_give_the_rows_of_the_table(tmp_path):
    wanted = read(TABLE)
    X = letters(TABLE["text"])
    y = TABLE["label"].to_numpy(str)
    test = (
        pd.Series(list(map(bytes, widen(halve(X)))))
        .isin(list(map(bytes, wanted.X_test)))
        .to_numpy()
    )
    together = {"X": X, "y": y, "part": np.where(test, "test", "train")}
    apart = {"X_train": X[~test], "y_train": y[~test], "X_test": X[test], "y_test": y[test]}
    for name, arrays, split in (("together", together, "part"), ("apart", apart, None)):
        np.savez(tmp_path / f"{name}.npz", **arrays)
        same(read(arrays, split=split), wanted)
        same(read(tmp_path / f"{name}.npz", split=split), wanted)
    ids = pd.factorize(y, sort=True)[0]
    save_file({"X": X, "y": ids, "part": test.astype(int)}, tmp_path / "numbers.safetensors")
    numbers = read(str(tmp_path / "numbers.safetensors"), split="part")
    assert numbers.classes == ("0", "1", "2", "3") and numbers.encoder == "vectors"
    np.testing.assert_array_equal(numbers.X_train, wanted.X_train)


def test_a_memory_gives_its_vectors_without_erased_ones_and_labels_of_one(tmp_path):
    X = letters(TABLE["text"])
    y = TABLE["label"].to_numpy(str)
    with CorrectionMemory.open(tmp_path / "tickets.sqlite", letters) as memory:
        memory.learn(TABLE["text"].tolist(), y)
        memory.correct("router stolen", "theft")
        memory.forget(3)
    same(read(memory.path), read({"X": np.delete(X, 3, 0), "y": np.delete(y, 3)}))


def test_columns_have_any_names_and_labels_are_plain_text(tmp_path):
    table = pd.DataFrame({"body": TABLE["text"], "other": 1, "queue": TABLE["label"] + " "})
    same(
        read(written(tmp_path, "csv", table), text="body", label="queue", name="mine"), read(TABLE)
    )
    odd = TABLE.assign(label=["e\u0301", "é", "NA", "01"] * 8)
    for suffix in ("csv", "jsonl"):
        assert (
            read(written(tmp_path, suffix, odd)).classes == read(odd).classes == ("01", "NA", "é")
        )


@pytest.mark.parametrize("seed, share", [(0, 0.25), (1, 0.6), (2, 0.01)])
@pytest.mark.parametrize("kind", ["texts", "vectors"])
def test_the_drawn_split_is_stratified_and_keeps_equal_rows_together(kind, seed, share):
    many = pd.concat([TABLE, TABLE[:3], TABLE[:9]], ignore_index=True)
    data = (
        many if kind == "texts" else {"X": letters(many["text"]), "y": many["label"].to_numpy(str)}
    )
    found = read(data, seed=seed, test_share=share)
    train, test = (set(map(bytes, rows)) for rows in (found.X_train, found.X_test))
    assert not train & test and len(train) + len(test) == 32
    assert len(test) == 4 * max(1, round(share * 8)) and set(found.y_test) == {0, 1, 2, 3}
    assert set(map(bytes, read(data, seed=9, test_share=share).X_test)) != test


def test_a_given_split_names_rows_on_both_sides_and_unknown_words(tmp_path):
    table = TABLE.assign(part=["train", "TEST "] * 16)
    assert len(read(table, split="part").y_test) == 16
    same(read(table.assign(part=[0, 1] * 16), split="part"), read(table, split="part"))
    double = pd.concat(
        [table, table[:1].assign(text=table["text"][0].upper() + "  ", part="test")],
        ignore_index=True,
    )
    with pytest.raises(
        InputError, match="tickets.csv: the same row for training and test in row 0, 32: drop"
    ):
        read(written(tmp_path, "csv", double), split="part")
    with pytest.raises(InputError, match="neither train nor test in row 0, 2, 4 and 13 more"):
        read(table.replace({"part": {"train": "dev"}}), split="part")
    with pytest.raises(InputError, match="no training or no test row of class invoice"):
        read(table.assign(part=["train"] * 8 + ["train", "test"] * 12), split="part")


CSV = "text,label\n"


@pytest.mark.parametrize(
    "name, content, clue",
    [
        ("a.csv", CSV + "a,b,c\n", "more fields than the header"),
        ("a.csv", CSV + "a,b\nb,\nc,\n", "'label' is empty in row 1, 2"),
        ("a.csv", CSV.encode() + b"\xe9,b\n", "UnicodeDecodeError"),
        ("a.jsonl", "[1", "cannot be read"),
        ("a.parquet", b"PAR1 broken PAR1", "cannot be read"),
    ],
)
def test_files_that_cannot_be_used_are_named_in_one_line(name, content, clue, tmp_path):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=clue) as caught:
        read(tmp_path / name)
    message = str(caught.value)
    assert "\n" not in message and name in message and len(message) < 500


X = np.random.default_rng(0).normal(size=(8, 3))
Y = np.array(list("abababab"))


@pytest.mark.parametrize(
    "data, options, clue",
    [
        ({"X": X * (np.arange(8) != 5)[:, None], "y": Y}, {}, "row 5 is zero"),
        ({"X": X, "y": Y[:7]}, {}, "do not fit"),
        ({"X": X.astype(str), "y": Y}, {}, "do not fit"),
        ({"X": X}, {}, "array 'y'"),
        ({"X_train": X, "y_train": Y, "X_test": X[:, :2], "y_test": Y}, {}, "dimension"),
        (TABLE, dict(test_share=1.0), "test_share"),
        (TABLE, dict(name="banking77"), "published dataset"),
    ],
)
def test_what_is_wrong_in_memory_is_named(data, options, clue):
    with pytest.raises(InputError, match=clue):
        read(data, **options)


def test_the_lexical_encoder_is_fitted_on_training_texts_and_its_vectors_are_kept(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("OCRR_CACHE_DIR", str(tmp_path))
    rng = np.random.default_rng(0)
    texts = [
        " ".join(rng.choice(list("abcdefghij"), 4)) + f" word{n} other{n % 50}" for n in range(300)
    ]
    table = pd.DataFrame({"text": texts, "label": list("xyz") * 100})
    data = read(table, encoder="tfidf-svd")
    assert data.encoder == "tfidf-svd" and data.X_test.shape == (75, 225)
    with pytest.raises(InputError, match="own_data: n_components"):
        read(TABLE, encoder="tfidf-svd")
    monkeypatch.setattr(encoding, "load_encoder", None)
    same(read(table, encoder="tfidf-svd"), data)
    with pytest.raises(TypeError):
        read(table, encoder="tfidf-svd", seed=1)
