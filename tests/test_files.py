"""Files are written whole or not at all."""

import os

import pytest

from ocrrlib.errors import InputError
from ocrrlib.files import atomic, sha256, write_text


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "figure.txt"
    path.write_text("old")
    return path


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_failure_inside_leaves_the_old_file_whole_and_nothing_beside_it(file, failure):
    with pytest.raises(failure), atomic(file) as temporary:
        temporary.write_text("half of the n")
        raise failure
    assert file.read_text() == "old"
    assert list(file.parent.iterdir()) == [file]


def test_a_failed_first_write_leaves_no_file_at_all(tmp_path):
    with pytest.raises(RuntimeError), atomic(tmp_path / "new.txt") as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_the_old_file_stays_in_place_until_the_new_one_is_finished(file):
    with atomic(file) as temporary:
        temporary.write_text("new")
        assert file.read_text() == "old"
    assert file.read_text() == "new"
    assert list(file.parent.iterdir()) == [file]


def test_the_temporary_file_lies_beside_its_target_with_the_same_suffix(file):
    with atomic(file) as temporary:  # a rename is atomic within one folder only; writers go by suffix
        assert temporary.parent == file.parent
        assert temporary.suffix == ".txt"
        assert temporary.name.startswith(".")


def test_two_writers_of_one_file_leave_one_of_the_two_versions(file):
    with atomic(file) as first, atomic(file) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert file.read_text() == "first"  # the last to finish
    assert list(file.parent.iterdir()) == [file]


def test_missing_folders_are_made(tmp_path):
    write_text(tmp_path / "a" / "b" / "c.txt", "text")
    assert (tmp_path / "a" / "b" / "c.txt").read_text() == "text"


def test_others_may_read_what_the_umask_lets_them(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "shared.txt", "text")
        assert os.umask(0o027) == 0o027  # and the umask is as it was
    finally:
        os.umask(before)
    assert (tmp_path / "shared.txt").stat().st_mode & 0o777 == 0o640


def test_a_folder_that_cannot_be_made_is_an_input_error_naming_the_path(file):
    for path in (file / "below.txt", file / "deeper" / "below.txt"):
        with pytest.raises(InputError) as caught:
            write_text(path, "text")
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
    assert file.read_text() == "old"


def test_a_folder_without_write_permission_is_an_input_error_naming_the_path(file, monkeypatch):
    def refuse(**settings):
        raise PermissionError(13, "Permission denied")  # root would be let in, so the system's answer is given here

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(InputError, match="figure.txt: Permission denied"):
        write_text(file, "new")
    assert file.read_text() == "old"


def test_text_is_kept_byte_for_byte_as_utf8(tmp_path):
    write_text(tmp_path / "t", "größer → 1\n2\r\n")
    assert (tmp_path / "t").read_bytes() == "größer → 1\n2\r\n".encode("utf-8")


def test_sha256_is_the_standard_one(tmp_path):
    (tmp_path / "abc").write_bytes(b"abc")
    assert sha256(tmp_path / "abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
