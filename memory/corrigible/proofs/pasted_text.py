"""Read texts that passed through editors and mail: keys, heads, proofs, requests."""

import unicodedata
from pathlib import Path

from ocrrlib.files import InputError

MAX_FILE = 2**24  # bytes of a file; a proof of the largest entry has less


def read_file(path: Path) -> str:
    """Return the text of a file as it is; ``InputError`` if there is none in UTF-8."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE + 1)
        if len(content) > MAX_FILE:
            raise InputError(f"{path} is too large for a head, proof, request or key: give another")
        return content.decode()
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror}): give a text file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not in UTF-8: save it so, or get it anew") from error


def plain(text: str) -> str:
    """Return a text without what editors and mail programs add to it.

    That is a byte-order mark, ends of lines of other systems, blanks at the end of a line, and
    empty lines before and after the text. Raises ``InputError`` if it is no text.
    """
    if not isinstance(text, str):
        raise InputError(f"{type(text).__name__} is no text: give that of a head, proof or key")
    lines = text.removeprefix("\ufeff").split("\n")
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def one_line(words: str) -> str:
    """Return words in a form that editors and mail programs leave alone.

    They are printable, in Unicode's NFC, with single blanks between them.
    """
    printable = "".join(letter if letter.isprintable() else " " for letter in words)
    return unicodedata.normalize("NFC", " ".join(printable.split()))
