"""Text of a file in any encoding: by its byte-order mark, as it is told, or as UTF-8."""

import codecs
import re
import warnings
from pathlib import Path

from ocrrlib.files import InputError

MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def decoded(path: Path, encoding: str | None = None) -> str:
    """A file's text: by its byte-order mark, else in ``encoding``, else in UTF-8.

    Raises ``InputError`` if there is no such encoding, or that names the encoding to give, if the
    bytes are not in that one. Warns of UTF-8 that is read in another encoding.
    """
    if encoding:
        _check_known(encoding)
    content = path.read_bytes()
    marked = next((name for mark, name in MARKS.items() if content.startswith(mark)), None)
    codec = marked or encoding or "utf-8"
    try:
        if codec == "utf-8" and b"\0" in content:
            _refuse_unmarked(content)
        text = content.decode(codec)
        if codec == encoding:
            _warn_of_utf8(path, content, codec)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"line {line} is not {codec} (UnicodeDecodeError): {_other_encoding(content, error)}"
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"line {line} has a NUL character: remove it, or give --encoding")
    return text.removeprefix("\ufeff")


def _check_known(encoding):
    """Refuse what is no encoding of texts, also where a byte-order mark decides."""
    try:
        "".encode(encoding)
    except LookupError as error:
        raise InputError(
            f"unknown encoding {encoding!r}: give one such as utf-8, cp1252 or utf-16"
        ) from error


def _warn_of_utf8(path, content, codec):
    """Warn of a file whose bytes are UTF-8, and are read as another encoding."""
    if codec.lower().startswith(("utf", "u8")) or content.isascii():
        return
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return
    warnings.warn(f"{path}: it is valid UTF-8, and is read as {codec}: leave out --encoding")


def _refuse_unmarked(content):
    """Refuse UTF-16 without a byte-order mark, which is often valid UTF-8, too."""
    for codec in ("utf-16-le", "utf-16-be"):
        text = content.decode(codec, errors="replace")
        if re.search("[\r\n]", text) and not set("\0\ufffd") & set(text):
            raise InputError(f"it has no byte-order mark: give --encoding {codec}")


def _other_encoding(content, error):
    """The way out of bytes that are not of an encoding."""
    if error.encoding != "utf-8":
        return "give another --encoding"
    around = content[max(0, error.start - 12) : error.start + 12]
    try:
        content.decode("cp1252")
    except UnicodeDecodeError:
        return "give its --encoding, as cp1250, shift_jis or gb18030"
    line = " ".join(around.decode("cp1252").split())
    return f"give --encoding cp1252, by which it reads {line!r}, or the right one"
