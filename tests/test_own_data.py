"""Your data: every format gives the same rows; every mistake is one line.

The line has the file, the place and the way out.
"""

import io
import json
import pickle
import re
import shutil
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from ocrr.cli import main
from ocrr.data import vector_cache
from ocrr.data.read import read_data
from ocrrlib.embeddings import halve, widen
from ocrrlib.encoders import load_encoder
from ocrrlib.files import InputError

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


def saved(**arrays):
    """Bytes of an .npz file."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


@pytest.mark.parametrize(
    "name, content, clue",
    [
        ("a.csv", CSV + "a,b,c\n", "more fields than the header"),
        ("a.csv", CSV + "a,b\nb,\nc,\n", "'label' is empty in row 1, 2"),
        ("a.csv", CSV.encode() + b"\xe9,b\n", "UnicodeDecodeError"),
        ("a.jsonl", "[1", "cannot be read"),
        ("a.parquet", b"PAR1 broken PAR1", "cannot be read"),
        ("a.npz", CSV + "a,b\n", "no .npz file of arrays: save these by np.savez"),
        ("a.npz", saved(y=np.array(["a", None])), "Python objects.*astype"),
        *((name, " \n", "it is empty") for name in ("a.csv", "a.jsonl")),
        ("a.csv", "", "it is empty"),
        ("a.json", "[]", "it is empty"),
        ("a.csv", None, "no such file"),
        ("a.txt", CSV, "not a file in"),
        ("a.sqlite", b"", "export its texts by `corrigible export .*a.sqlite a.jsonl`"),
    ],
)
def test_files_that_cannot_be_used_are_named_in_one_line(name, content, clue, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=clue) as caught:
        read(tmp_path / name)
    message = str(caught.value)
    assert "\n" not in message and name in message and len(message) < 500


X = np.random.default_rng(0).normal(size=(8, 3))
Y = np.array(list("abababab"))
PARTED = TABLE.assign(part=["train", "test", "validation", "train"] * 8)


@pytest.mark.parametrize(
    "data, options, clue",
    [
        ({"X": X * (np.arange(8) != 5)[:, None], "y": Y}, {}, "row 5 is zero"),
        ({"X": X, "y": Y[:7]}, {}, "do not fit"),
        ({"X": X.astype(str), "y": Y}, {}, "do not fit"),
        ({"X": X}, {}, "array 'y'"),
        ({"X_train": X, "y_train": Y, "X_test": X[:, :2], "y_test": Y}, {}, "dimension"),
        ({"X": X, "y": Y}, dict(label="z"), "no label 'z'"),
        ({"X": X, "y": Y}, dict(sep=";"), "no sep"),
        (
            {"X_train": X, "y_train": Y, "X_test": -X, "y_test": Y},
            dict(split="part"),
            "leave out --split",
        ),
        (TABLE, dict(test_share=1.0), "test_share"),
        (TABLE, dict(test_share=None), "test_share"),
        (TABLE.assign(part="train"), dict(split="part"), "one kind only: give both"),
        (TABLE, dict(name="banking77"), "published dataset"),
        (TABLE[["text", "text", "label"]], {}, "2 columns have the name 'text'"),
        (TABLE.set_axis([0, 1], axis=1), {}, "unknown column 'text', 'label'; there are: 0, 1"),
        (TABLE[:0], {}, "no rows"),
        (TABLE.assign(label="x"), {}, "one class"),
        (TABLE.assign(label=TABLE["text"]), {}, "is 'label' the column of classes"),
        (TABLE.assign(text=TABLE["text"].str.encode("utf-8")), {}, "'text' cannot be used"),
        (TABLE.assign(label=[b"a", b"b"] * 16), {}, "'label' cannot be used.*b'a'"),
        (PARTED, dict(ignore_split="valid"), "ignore_split needs a split"),
        (PARTED, dict(split="part", ignore_split=["valid"]), "did you mean 'validation'"),
        (PARTED, dict(min_rows=0), "min_rows"),
        (PARTED, dict(min_rows=100), "no class is left"),
        *(
            (TABLE, dict(held_out=held_out), "out of 4: give a number from 1 to 3")
            for held_out in (0, 4, 1.0, True, "2")
        ),
    ],
)
def test_what_is_wrong_in_memory_is_named_before_texts_are_encoded(data, options, clue):
    with pytest.raises(InputError, match=clue):
        read_data(data, **dict(encoder=None) | options)


RANDOM = np.random.default_rng(1)
POINTS = RANDOM.normal(size=(60, 32)).astype(np.float32)
NAMES = RANDOM.integers(0, 3, 60)


@pytest.mark.parametrize(
    "copies",
    [POINTS, POINTS * 2, POINTS * np.float32(3e4), POINTS.astype(np.float64) * (1 + 1e-9)],
    ids=["equal", "doubled", "scaled", "rounded"],
)
def test_vectors_that_are_equal_once_normalised_stay_on_one_side(copies):
    data = {"X": np.vstack([POINTS, copies]), "y": np.r_[NAMES, NAMES]}
    for options in ({}, dict(seed=3), dict(drop_duplicates=True)):
        found = read_data(data, **options)
        nearest = (found.X_test @ found.X_train.T).max(axis=1)
        assert (nearest < 0.99).all()
        n = 60 if "drop_duplicates" in options else 120
        assert len(found.X_train) + len(found.X_test) == n
    parted = {"X_train": POINTS, "y_train": NAMES, "X_test": copies[:10], "y_test": NAMES[:10]}
    with pytest.raises(InputError, match="the same row for training and test in row 0, 1, 2"):
        read_data(parted)
    with pytest.warns(UserWarning, match="the same vector has two labels"):
        read_data(data | {"y": np.r_[NAMES, (NAMES + 1) % 3]})


def test_vectors_with_noise_of_computation_rarely_differ():
    noisy = POINTS + 1e-6 * RANDOM.normal(size=POINTS.shape)
    found = read_data(
        {"X": np.vstack([POINTS, noisy]), "y": np.r_[NAMES, NAMES]}, drop_duplicates=True
    )
    assert len(found.X_train) + len(found.X_test) < 66


def test_vectors_of_one_direction_are_one_row():
    lengths = np.arange(1, 41)[:, None]
    with pytest.raises(InputError, match="two different rows of each class"):
        read_data({"X": lengths * POINTS[:1], "y": np.arange(40) % 2})


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
    without_words = TABLE.assign(text=[f"{n // 8} {n % 8}" for n in range(32)])
    for few in (TABLE, without_words):
        with pytest.raises(InputError, match="own_data: .* too few .* in 24 training texts: give"):
            read(few, encoder="tfidf-svd")
    monkeypatch.setattr(vector_cache, "load_encoder", None)
    same(read(table, encoder="tfidf-svd"), data)
    with pytest.raises(TypeError):
        read(table, encoder="tfidf-svd", seed=1)


FAULTY = pd.concat(
    [
        PARTED,
        PARTED[:2].assign(part="test"),
        pd.DataFrame(
            [
                ("", "invoice", "train"),
                ("hello there", None, "train"),
                (None, "router", "test"),
                ("a unique case", "rare", "train"),
            ],
            columns=["text", "label", "part"],
        ),
    ],
    ignore_index=True,
)


def test_all_findings_are_said_at_once_with_count_rows_and_option(tmp_path):
    FAULTY.to_csv(tmp_path / "a.csv", index=False)
    with open(tmp_path / "a.csv", "a") as file:
        file.write("one field more,than,the,header\n")
    for data in (FAULTY, tmp_path / "a.csv"):
        with pytest.raises(InputError) as caught:
            read(data, split="part")
        for clue in (
            "'text' is empty in row 34, 36: fill it in, or --drop-empty",
            "'label' is empty in row 35: fill it in, or --drop-empty",
            "'part' is neither train nor test in row 2, 6, 10 and 5 more, 8 in all",
            "--ignore-split validation",
            "the same row for training and test in row 0, 32: drop one of each",
            "--drop-duplicates",
            "no training or no test row of class rare",
            "--min-rows 2",
        ):
            assert clue in str(caught.value)
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 1500
    assert "more fields than the header in row 38" in str(caught.value)


def test_one_error_says_all_that_stands_in_the_way(tmp_path):
    def command(message):
        """Options that the message names."""
        options = dict(drop_empty="--drop-empty", drop_duplicates="--drop-duplicates")
        found = {name: option in message for name, option in options.items()}
        return found | dict(min_rows=2 if "--min-rows 2" in message else None)

    others = [("one word", "twice", "train"), ("one word", "twice", "test")]  # alone once dropped
    others += [(f"other {n}", "router", part) for n, part in enumerate(("dev", "unused set", ""))]
    table = pd.concat([FAULTY, pd.DataFrame(others, columns=FAULTY.columns)], ignore_index=True)
    path = written(tmp_path, "csv", table)
    with pytest.raises(InputError) as caught:
        read(path, split="part", ignore_split="none", held_out=4)
    message = str(caught.value)
    for clue in ("unknown split 'none'", "class rare, twice", "4 classes cannot be held out of 4"):
        assert clue in message
    ignored = re.findall(r"--ignore-split ('.+?'|\w+)", message)
    ignored = [word.strip("'") for word in ignored]
    assert ignored == ["validation", "dev", "unused set"]
    data = read(path, split="part", ignore_split=ignored, held_out=3, **command(message))
    assert data.classes == ("invoice", "parcel", "password", "router")


def test_options_leave_out_what_was_found():
    clean = PARTED[PARTED["part"] != "validation"]
    options = dict(drop_empty=True, drop_duplicates=True, min_rows=2, ignore_split="validation")
    same(read(FAULTY, split="part", **options), read(clean, split="part"))
    rare = pd.concat([TABLE, pd.DataFrame([("a unique case", "rare")], columns=["text", "label"])])
    same(read(rare, min_rows=2), read(TABLE))


def test_a_split_of_numbers_with_decimals_is_one_of_0_and_1(tmp_path):
    wanted = read(TABLE.assign(part=[0, 1] * 16), split="part")
    decimal = TABLE.assign(part=[0.0, 1.0] * 16)
    same(read(decimal, split="part"), wanted)
    same(read(written(tmp_path, "csv", decimal), split="part"), wanted)


def test_one_text_with_two_labels_is_said_with_its_rows():
    doubtful = pd.DataFrame({"text": ["same", "Same "] * 100, "label": ["invoice", "router"] * 100})
    table = pd.concat([TABLE, doubtful], ignore_index=True)
    for options in ({}, dict(drop_duplicates=True)):
        with pytest.warns(UserWarning, match="two labels.* row 32, 33, 34 and 197 more, 200 in"):
            read(table, **options)


def test_texts_of_two_classes_that_an_encoder_does_not_tell_apart_are_said():
    pairs = pd.DataFrame({"text": ["abc", "cab"], "label": ["invoice", "router"]})
    with pytest.warns(UserWarning, match="same vector in row 32, 33"):
        read(pd.concat([TABLE, pairs], ignore_index=True))


@pytest.mark.parametrize("named", [True, False])
def test_texts_without_a_vector_are_named_together_by_their_rows(named, tmp_path, monkeypatch):
    monkeypatch.setenv("OCRR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(vector_cache, "load_encoder", lambda *_: lambda texts: letters(texts) - 0.1)
    empty = pd.DataFrame({"text": ["", "?", "!"], "label": ["invoice", "invoice", "router"]})
    table = pd.concat([empty, TABLE], ignore_index=True)
    with pytest.raises(InputError, match=r"row 1 \('\?'\), 2 \('!'\) is zero"):
        read(table, drop_empty=True, encoder="hashed" if named else letters)


@pytest.mark.parametrize("kind", ["bfloat16", "requires_grad"])
def test_tensors_that_numpy_cannot_take_are_refused_in_one_line(kind, tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file as save_tensors

    tensor = torch.tensor(X)
    tensor = tensor.bfloat16() if kind == "bfloat16" else tensor.requires_grad_()
    with pytest.raises(InputError, match="X cannot be made a NumPy array.*numpy()"):
        read_data({"X": tensor, "y": Y})
    if kind == "bfloat16":
        save_tensors({"X": tensor, "y": torch.arange(8)}, tmp_path / "a.safetensors")
        with pytest.raises(InputError, match="'X' is BF16: save it as float16 or float32"):
            read(tmp_path / "a.safetensors")


class Planted:
    """Something whose pickle writes a file when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.fixture
def model(backbones, tmp_path, monkeypatch):
    """A model's folder, 400 texts for it, of which two differ beyond its 64 tokens, and a cache."""
    monkeypatch.setenv("OCRR_CACHE_DIR", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice([f"word{i}" for i in range(44)], 8)) for _ in range(400)]
    texts[7] = "word1 " * 70 + "word2"
    texts[9] = "word1 " * 70 + "word3"
    labels = ["a", "b"] * 200
    labels[9] = "a"
    labels[7] = "b"
    return backbones["still"], pd.DataFrame({"text": texts, "label": labels}), tmp_path / "cache"


@pytest.mark.filterwarnings("ignore:.*same vector:UserWarning")
@pytest.mark.filterwarnings("ignore:.*are cut:UserWarning")
def test_kept_vectors_run_no_code_and_are_made_again_when_damaged(model, monkeypatch):
    folder, table, cache = model
    wanted = read(table, encoder=folder, progress=False)
    (path,) = (path for path in cache.rglob("*") if path.is_file())
    whole = path.read_bytes()
    edited = bytearray(whole)
    edited[-500] ^= 1
    planted = cache / "planted"
    for content in (bytes(edited), whole[:-1], b"", pickle.dumps(Planted(planted))):
        path.write_bytes(content)
        same(read(table, encoder=folder, progress=False), wanted)
        assert path.read_bytes() == whole and not planted.exists()
    monkeypatch.setattr(vector_cache, "load_encoder", None)
    same(read(table, encoder=folder, progress=False), wanted)
    path.rename(path.with_name("0" * 64 + path.suffix))
    with pytest.raises(TypeError):
        read(table, encoder=folder, progress=False)


@pytest.mark.filterwarnings("ignore:.*same vector:UserWarning")
@pytest.mark.filterwarnings("ignore:.*are cut:UserWarning")
def test_what_was_encoded_before_a_stop_is_not_encoded_again(model, monkeypatch):
    folder, table, cache = model
    wanted = read(table, encoder=folder, progress=False)
    shutil.rmtree(cache)
    sizes = []

    def stopping(*arguments):
        function = load_encoder(*arguments)

        def encode(texts):
            sizes.append(len(texts))
            if len(sizes) == 2:
                raise KeyboardInterrupt
            return function(texts)

        return encode

    monkeypatch.setattr(vector_cache, "load_encoder", stopping)
    with pytest.raises(KeyboardInterrupt):
        read(table, encoder=folder, progress=False)
    same(read(table, encoder=folder, progress=False), wanted)
    assert sizes == [256, 144, 144]
    (kept,) = (path for path in cache.rglob("*") if path.is_file())
    assert kept.suffix == ".safetensors"


def test_texts_that_a_model_cuts_are_counted_also_when_kept(model):
    folder, table, _ = model
    for _ in range(2):
        with pytest.warns(UserWarning) as said:
            read(table, encoder=folder, progress=False)
        one, two = sorted(str(warning.message) for warning in said)
        assert "2 of 400 texts are longer than the 64 tokens" in one and "row 7, 9" in one
        assert "same vector in row 7, 9" in two


@pytest.mark.filterwarnings("ignore:.*same vector:UserWarning")
@pytest.mark.filterwarnings("ignore:.*are cut:UserWarning")
def test_a_log_has_lines_of_how_far_encoding_is(model, monkeypatch):
    folder, table, _ = model
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setattr(vector_cache, "PAUSE", 0)
    read(table, encoder=folder)
    assert [line.split(",")[0] for line in log.getvalue().splitlines() if "texts" in line] == [
        "encoding: 256 of 400 texts"
    ]


def test_a_log_has_few_lines():
    seconds = iter(range(0, 1000, 3))
    log = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", log)
        assert len(list(vector_cache.starts(25_600, True, lambda: next(seconds)))) == 100
    assert len(log.getvalue().splitlines()) == 25 and " min left" in log.getvalue()


MODULE = """
import numpy as np

def letters(texts):
    return np.array([[text.count(one) + 0.1 for one in "abcdefghijklmnop0123"] for text in texts])
"""


def test_the_command_line_has_the_options_and_says_warnings_in_a_line(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("OCRR_CACHE_DIR", "cache")
    (tmp_path / "own_letters.py").write_text(MODULE)
    doubtful = pd.DataFrame(
        {"text": ["same", "same"], "label": ["invoice", "router"], "part": ["train", "train"]}
    )
    table = pd.concat([FAULTY, doubtful], ignore_index=True)
    table["text"] = table["text"].str.replace("help", "hélp").str.replace("\n", " ")
    table.to_csv("a.csv", index=False, header=False, sep="~", encoding="cp1252")

    def ocrr(*options):
        command = ["run", "ncm", "--data", "a.csv", "--encoder", "own_letters:letters"]
        with pytest.raises(SystemExit) as ended, warnings.catch_warnings():
            warnings.simplefilter("always")
            main([*command, "--seeds", "0", "--held-out", "1", *options])
        return ended.value.code, *capsys.readouterr()

    reading = ["--encoding", "cp1252", "--sep", "~", "--no-header", "--split", "2"]
    status, out, err = ocrr(*reading)
    assert (status, out) == (2, "") and err.count("\n") == 1 and "--drop-empty" in err
    leaving = ["--drop-empty", "--drop-duplicates", "--min-rows", "2"]
    leaving += ["--ignore-split", "validation"]
    status, out, err = ocrr(*reading, *leaving)
    assert status == 0 and "ncm on a" in out
    assert err == "warning: a.csv: the same text has two labels or more in row 38, 39\n"
    status, out, err = ocrr(*reading, *leaving, "--held-out", "40")
    assert (status, out) == (2, "") and "40 classes cannot be held out of 4" in err
