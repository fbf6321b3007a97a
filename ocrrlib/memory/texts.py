"""Texts that go by files, editors and mail: keys, heads, proofs, requests, a witness's state."""

import unicodedata
from pathlib import Path

from ocrrlib.files import InputError


def read_file(path: Path) -> str:
    """Return the text of a file as it is; ``InputError`` if there is none in UTF-8."""
    try:
        return path.read_bytes().decode()
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror}): give a text file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not in UTF-8: save it so, or get it anew") from error


def plain(text: str) -> str:
    """Return a text without what editors and mail programs add to it.

    That is a byte-order mark, ends of lines of other systems, blanks at the end of a line, and
    empty lines before and after the text.
    """
    lines = text.removeprefix("\ufeff").split("\n")
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def one_line(words: str) -> str:
    """Return words in a form that editors and mail programs leave alone.

    They are printable, in Unicode's NFC, with single blanks between them.
    """
    printable = "".join(letter if letter.isprintable() else " " for letter in words)
    return unicodedata.normalize("NFC", " ".join(printable.split()))
