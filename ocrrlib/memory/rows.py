"""The entries of a ledger's file as rows: how they are made, and whether they are whole."""

import struct
from collections.abc import Iterable, Iterator
from secrets import token_bytes
from typing import Any, NamedTuple

from ocrrlib.chain import Link, commitment, entry_hash
from ocrrlib.files import InputError

SALT = 16  # bytes
LATEST = 2**53  # microseconds since 1970: in 2255; pandas has no dates after 2262

Content = tuple[str, str, str | None, bytes]  # label, author, text, bytes of the vector


class Row(NamedTuple):
    """An entry as it is stored; see ``ocrrlib.chain`` for what is hashed.

    Salt and content are None once they are erased. A tombstone, which is appended when an entry is
    erased, has the place of that entry as text, an empty label and an empty ``x``.
    """

    place: int
    time: int  # microseconds since 1970, UTC
    commitment: bytes
    previous: bytes
    hash: bytes
    salt: bytes | None
    label: str | None
    author: str | None
    text: str | None
    x: bytes | None  # float32 each, little-endian

    @property
    def link(self) -> Link:
        return Link(self.place, self.time, self.commitment, self.previous, self.hash)


FIELDS = ", ".join(Row._fields)


def new_rows(contents: Iterable[Content], place: int, previous: bytes, time: int) -> Iterator[Row]:
    """Yield the rows of new entries from ``place`` on; ``previous`` is the hash before them.

    Raises ``InputError`` if a label or an author has a zero byte, a word is no Unicode text, or
    ``time`` is later than an entry's may be.
    """
    if time >= LATEST:
        raise InputError(
            "an entry would be written later than 2255: set the clock, or, if it is right and the "
            "newest entry is as late, choose a new file"
        )
    for label, author, text, x in contents:
        if "\0" in label + author:
            raise InputError(f"{label!r} by {author!r} has a zero byte: give words")
        salt = token_bytes(SALT)
        try:
            committed = commitment(salt, x, label, author, text)
        except UnicodeEncodeError as error:
            raise InputError(f"{error.object!r} is no Unicode text: mend or drop it") from error
        hash = entry_hash(place, time, committed, previous)
        yield Row(place, time, committed, previous, hash, salt, label, author, text, x)
        place += 1
        previous = hash


def is_whole(row: Any) -> bool:
    """Whether an entry has the content that it commits to, or none, and all values their type.

    ``row`` is a ``Row``, but a file may hold values of any type.
    """
    if not isinstance(row.commitment, bytes) or not isinstance(row.previous, bytes):
        return False
    if not isinstance(row.time, int) or not 0 <= row.time < LATEST:
        return False
    if row.salt is None:
        return row.label is None and row.author is None and row.text is None and row.x is None
    try:
        if "\0" in row.label or "\0" in row.author:  # this would blur where they end
            return False
        if not row.x:
            int(row.text)  # a tombstone names a place
        committed = commitment(row.salt, row.x, row.label, row.author, row.text)
    except (TypeError, ValueError, AttributeError, struct.error):  # values of other types
        return False
    return len(row.salt) == SALT and committed == row.commitment
