"""Rows are made once; a damaged file is never used."""

import numpy as np
import pytest

from ocrrlib.errors import InputError
from ocrrlib.row_cache import kept_rows

ROWS = np.arange(12, dtype=np.float16).reshape(4, 3)


@pytest.fixture
def file(tmp_path):
    kept_rows(tmp_path / "new folder" / "rows.safetensors", lambda: ROWS)
    return tmp_path / "new folder" / "rows.safetensors"


def refuse():
    raise AssertionError("made again")


def test_rows_are_made_once_and_read_back_after_that(file):
    np.testing.assert_array_equal(kept_rows(file, refuse), ROWS, strict=True)


def test_the_same_rows_give_the_same_bytes(file, tmp_path):
    again = tmp_path / "again.safetensors"
    kept_rows(again, lambda: np.asfortranarray(ROWS))
    assert again.read_bytes() == file.read_bytes()


def test_a_flipped_bit_in_any_byte_is_noticed_named_and_mended(file):
    whole = file.read_bytes()
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        file.write_bytes(flipped)
        with pytest.warns(UserWarning, match="rows.safetensors is damaged .*made anew"):
            np.testing.assert_array_equal(kept_rows(file, lambda: ROWS), ROWS, strict=True)
        assert file.read_bytes() == whole


@pytest.mark.parametrize("content", [b"", b"<html>", b"\x08\0\0\0\0\0\0\0{}      "])
def test_a_file_of_another_kind_is_made_anew(file, content):
    file.write_bytes(content)
    with pytest.warns(UserWarning, match="rows.safetensors is damaged"):
        kept_rows(file, lambda: ROWS)
    np.testing.assert_array_equal(kept_rows(file, refuse), ROWS)


def test_what_stops_on_the_way_leaves_nothing(tmp_path):
    with pytest.raises(AssertionError):
        kept_rows(tmp_path / "rows.safetensors", refuse)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        kept_rows(tmp_path / "file" / "rows.safetensors", lambda: ROWS)
