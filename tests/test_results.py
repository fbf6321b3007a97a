"""Results files: the same content gives the same bytes, and a damaged file is never used."""

import pandas as pd
import pytest

from ocrrlib.errors import InputError
from ocrrlib.results import read, write

PROVENANCE = {"code": {"ocrrlib.stream": "00ff"}, "seeds": [0, 1], "lock": "ab"}


def frame():
    return pd.DataFrame(
        {
            "system": ["substrate", "substrate", "ewc"],
            "step": [0, 50, 0],
            "novel_acc": [0.1, 1 / 3, 0.30000000000000004],
            "to_90": [12, None, None],
        }
    )


@pytest.fixture
def file(tmp_path):
    write(frame(), PROVENANCE, tmp_path / "toy.parquet")
    return tmp_path / "toy.parquet"


def refused(path):
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(path) in str(caught.value) and "make paper" in str(caught.value)
    return str(caught.value)


def test_what_is_written_is_read_back(file):
    found, provenance = read(file)
    pd.testing.assert_frame_equal(found, frame(), check_exact=True)
    assert provenance == PROVENANCE


def test_the_same_content_gives_the_same_bytes(file, tmp_path):
    shuffled = frame().iloc[[2, 0, 1]].sort_index()  # another history, another memory layout
    write(shuffled, dict(reversed(PROVENANCE.items())), tmp_path / "again.parquet")
    assert (tmp_path / "again.parquet").read_bytes() == file.read_bytes()


@pytest.mark.parametrize("column, value", [("novel_acc", 0.30000000000000005), ("step", 51), ("system", "lwf")])
def test_another_content_gives_other_bytes(file, tmp_path, column, value):
    changed = frame()
    changed.loc[1, column] = value
    write(changed, PROVENANCE, tmp_path / "other.parquet")
    assert (tmp_path / "other.parquet").read_bytes() != file.read_bytes()


def test_a_missing_file_is_an_input_error_that_says_so(tmp_path):
    assert "missing" in refused(tmp_path / "none.parquet")


def test_a_flipped_bit_is_refused_or_changes_nothing(file):
    whole = file.read_bytes()
    for place in range(0, len(whole), 3):  # a third of them, for speed
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        file.write_bytes(flipped)
        try:
            found, provenance = read(file)
        except InputError as error:
            assert str(file) in str(error)
            continue
        pd.testing.assert_frame_equal(found, frame(), check_exact=True)
        assert provenance == PROVENANCE


@pytest.mark.parametrize("length", [0, 1, 4, 100, -100, -8, -1])
def test_a_truncated_file_is_refused(file, length):
    file.write_bytes(file.read_bytes()[:length])
    assert "damaged" in refused(file)


def test_a_parquet_file_that_is_not_ours_is_refused(tmp_path):
    frame().to_parquet(tmp_path / "other.parquet")
    assert "damaged" in refused(tmp_path / "other.parquet")
