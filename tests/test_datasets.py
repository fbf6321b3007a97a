"""Raw datasets: pinned, checked, parsed, and clear about what is missing."""

import hashlib
import json
import re
from pathlib import Path

import pooch
import pytest

from ocrrlib.datasets import DATASETS, Dataset, Texts, fetch, load_texts
from ocrrlib.files import InputError

CONTENT = b"what is my balance?\n"
TINY = Dataset(
    name="tiny",
    title="Tiny",
    url="https://example.org/tiny",
    files={"a.txt": hashlib.sha256(CONTENT).hexdigest(), "b.txt": hashlib.sha256(b"").hexdigest()},
    licence="none",
    citation="none",
    parse=lambda paths: Texts([paths["a.txt"].read_text()], ["balance"], [], []),
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An ``OCRR_DATA_DIR`` that holds the tiny dataset."""
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "a.txt").write_bytes(CONTENT)
    (tmp_path / "tiny" / "b.txt").write_bytes(b"")
    monkeypatch.setitem(DATASETS, "tiny", TINY)
    monkeypatch.setenv("OCRR_DATA_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def downloads(tmp_path, monkeypatch):
    """Where downloads would go; no ``OCRR_DATA_DIR`` here."""
    monkeypatch.delenv("OCRR_DATA_DIR", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / name)
    return tmp_path


def files_below(folder):
    return [path for path in folder.rglob("*") if not path.is_dir()]


def test_files_come_from_the_data_dir_where_one_is_set(folder):
    assert fetch(TINY, "a.txt") == folder / "tiny" / "a.txt"
    assert load_texts("tiny").train == [CONTENT.decode()]


@pytest.mark.parametrize("content", [None, CONTENT.replace(b"balance", b"Balance")])
def test_a_missing_or_changed_file_in_the_data_dir_is_named_with_its_source(folder, content):
    path = folder / "tiny" / "a.txt"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(InputError, match=f"{path}.*OCRR_DATA_DIR.*tiny/a.txt from {TINY.url}") as caught:
        load_texts("tiny")
    assert "\n" not in str(caught.value) and (content is None or path.read_bytes() == content)


def test_an_unknown_dataset_lists_those_that_exist():
    with pytest.raises(InputError, match="did you mean 'banking77'.*banking77, clinc150"):
        load_texts("banking")


@pytest.mark.parametrize("name", DATASETS)
def test_without_a_network_the_error_names_the_file_and_the_data_dir(downloads, no_network, name):
    with pytest.raises(InputError, match=f"OCRR_DATA_DIR.*{name}/.*{DATASETS[name].url}") as caught:
        load_texts(name)
    assert "\n" not in str(caught.value) and files_below(downloads) == []


def downloader(content, failure=None):
    """In the place of pooch's: writes ``content``, then fails if told to."""

    def make(**settings):
        def download(url, output_file, pooch, **rest):
            Path(output_file).write_bytes(content) if isinstance(output_file, str) else output_file.write(content)
            if failure:
                raise failure

        return download

    return make


@pytest.mark.parametrize("content, failure", [(CONTENT[:5], ConnectionResetError("gone")), (b"<html>", None)])
def test_a_download_that_breaks_off_or_differs_leaves_nothing_behind(downloads, monkeypatch, content, failure):
    monkeypatch.setattr(pooch, "HTTPDownloader", downloader(content, failure))
    with pytest.raises(InputError, match="tiny/a.txt.*OCRR_DATA_DIR"):
        fetch(TINY, "a.txt")
    assert files_below(downloads) == []


def test_a_file_is_downloaded_once(downloads, monkeypatch):
    monkeypatch.setattr(pooch, "HTTPDownloader", downloader(CONTENT))
    path = fetch(TINY, "a.txt")
    assert path.read_bytes() == CONTENT
    monkeypatch.setattr(pooch, "HTTPDownloader", downloader(b"", AssertionError("downloaded again")))
    assert fetch(TINY, "a.txt") == path


def test_banking77_is_read_in_file_order_with_quotes_and_newlines(tmp_path):
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    train.write_text(
        'text,category\nIs it here?,card_arrival\n"Well, ""where""\nis it?",card_arrival\ncafé,atm\n', encoding="utf-8"
    )
    test.write_text("text,category\nPIN?,change_pin\n")
    texts = DATASETS["banking77"].parse({"train.csv": train, "test.csv": test})
    assert texts.train == ["Is it here?", 'Well, "where"\nis it?', "café"]
    assert texts.train_labels == ["card_arrival", "card_arrival", "atm"]
    assert (texts.test, texts.test_labels) == (["PIN?"], ["change_pin"])
    assert texts.classes == ("atm", "card_arrival", "change_pin")  # those of both parts, sorted


def test_clinc150_appends_out_of_scope_rows_as_a_class_of_their_own_and_skips_validation(tmp_path):
    path = tmp_path / "data_oos_plus.json"
    parts = {"oos_test": [["who won?", "oos"]], "oos_train": [["sing", "oos"], ["why", "oos"]]}
    parts |= {"oos_val": [["never", "oos"]], "val": [["nor this", "timer"]], "test": [["book it", "book_hotel"]]}
    parts["train"] = [["set a timer", "timer"], ["a room", "book_hotel"]]
    path.write_text(json.dumps(parts))
    texts = DATASETS["clinc150"].parse({"data_oos_plus.json": path})
    assert texts.train == ["set a timer", "a room", "sing", "why"]
    assert texts.train_labels == ["timer", "book_hotel", "oos", "oos"]
    assert (texts.test, texts.test_labels) == (["book it", "who won?"], ["book_hotel", "oos"])
    assert texts.classes == ("book_hotel", "oos", "timer")


@pytest.mark.parametrize("name, dataset", DATASETS.items())
def test_every_dataset_is_pinned_licensed_and_cited(name, dataset):
    assert dataset.name == name and dataset.title and dataset.licence.startswith("CC-BY-")
    assert re.search(r"^https://.*/[0-9a-f]{40}(/|$)", dataset.url)
    assert dataset.files and all(re.fullmatch("[0-9a-f]{64}", digest) for digest in dataset.files.values())
    assert re.search(r"\(\d{4}\), .+, .+", dataset.citation)  # authors (year), title, venue
