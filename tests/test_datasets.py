"""Raw datasets: pinned, checked, parsed, and clear about what is missing."""

import hashlib
import json
import re

import pooch
import pytest

from ocrrlib.datasets import DATASETS, Dataset, Texts, load_texts
from ocrrlib.files import InputError

CONTENT = b"what is my balance?\n"
TINY = Dataset(
    title="Tiny",
    url="https://example.org/tiny",
    files={"a.txt": hashlib.sha256(CONTENT).hexdigest()},
    licence="none",
    citation="none",
    parse=lambda paths: Texts([paths["a.txt"].read_text()], ["balance"], [], []),
)


@pytest.fixture
def path(tmp_path, monkeypatch):
    """The file of the tiny dataset in an ``OCRR_DATA_DIR``."""
    monkeypatch.setitem(DATASETS, "tiny", TINY)
    monkeypatch.setenv("OCRR_DATA_DIR", str(tmp_path))
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny/a.txt").write_bytes(CONTENT)
    return tmp_path / "tiny/a.txt"


@pytest.mark.parametrize("content", [None, CONTENT.replace(b"balance", b"Balance")])
def test_a_missing_or_changed_file_in_the_data_dir_is_named_with_its_source(path, content):
    assert load_texts("tiny").train == [CONTENT.decode()]
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(
        InputError, match=f"{path}.*OCRR_DATA_DIR.*tiny/a.txt from {TINY.url}"
    ) as caught:
        load_texts("tiny")
    assert "\n" not in str(caught.value) and (content is None or path.read_bytes() == content)


def test_without_a_network_the_error_names_the_file_and_the_data_dir(
    tmp_path, monkeypatch, no_network
):
    monkeypatch.delenv("OCRR_DATA_DIR", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path)
    with pytest.raises(
        InputError, match=f"OCRR_DATA_DIR.*hwu64/.*{DATASETS['hwu64'].url}"
    ) as caught:
        load_texts("hwu64")
    assert (
        "\n" not in str(caught.value)
        and [path for path in tmp_path.rglob("*") if path.is_file()] == []
    )


def test_banking77_is_read_in_file_order_with_quotes_and_newlines(tmp_path):
    train = tmp_path / "train.csv"
    test = tmp_path / "test.csv"
    rows = "text,category\nIs it here?,card_arrival\n"
    rows += '"Well, ""where""\nis it?",card_arrival\ncafé,atm\n'
    train.write_text(rows, encoding="utf-8")
    test.write_text("text,category\nPIN?,change_pin\n")
    texts = DATASETS["banking77"].parse({"train.csv": train, "test.csv": test})
    assert texts.train == ["Is it here?", 'Well, "where"\nis it?', "café"] and texts.test == [
        "PIN?"
    ]
    classes, y_train, y_test = texts.labels  # sorted names of both parts
    assert classes == ("atm", "card_arrival", "change_pin")
    assert (y_train.tolist(), y_test.tolist()) == ([1, 1, 0], [2])


def test_clinc150_appends_out_of_scope_rows_as_a_class_of_their_own_and_skips_validation(tmp_path):
    path = tmp_path / "data_oos_plus.json"
    parts = {"oos_test": [["who won?", "oos"]], "oos_train": [["sing", "oos"], ["why", "oos"]]}
    parts |= {
        "oos_val": [["never", "oos"]],
        "val": [["nor this", "timer"]],
        "test": [["book it", "book_hotel"]],
    }
    parts["train"] = [["set a timer", "timer"], ["a room", "book_hotel"]]
    path.write_text(json.dumps(parts))
    texts = DATASETS["clinc150"].parse({"data_oos_plus.json": path})
    assert texts.train == ["set a timer", "a room", "sing", "why"]
    assert texts.train_labels == ["timer", "book_hotel", "oos", "oos"]
    assert (texts.test, texts.test_labels) == (["book it", "who won?"], ["book_hotel", "oos"])


def test_hwu64_appends_its_validation_rows_to_the_training_rows(tmp_path):
    content = {
        "train/seq.in": "wake me\nhush\n",
        "train/label": "alarm_set\nmute\n",
        "valid/seq.in": "café?\n",
    }
    content |= {
        "valid/label": "food\n",
        "test/seq.in": "alarm at six\n",
        "test/label": "alarm_set\n",
    }
    for file, text in content.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text, encoding="utf-8")
    texts = DATASETS["hwu64"].parse({file: tmp_path / file for file in content})
    assert (texts.train, texts.train_labels) == (
        ["wake me", "hush", "café?"],
        ["alarm_set", "mute", "food"],
    )
    assert (texts.test, texts.test_labels) == (["alarm at six"], ["alarm_set"])


@pytest.mark.parametrize("dataset", DATASETS.values(), ids=DATASETS)
def test_every_dataset_is_pinned_licensed_and_cited(dataset):
    assert dataset.licence.startswith("CC-BY-")
    assert re.search(r"^https://.*/[0-9a-f]{40}(/|$)", dataset.url)
    assert re.search(r"\(\d{4}\), .+, .+", dataset.citation)  # authors (year), title, venue
