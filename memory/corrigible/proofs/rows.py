"""Entries of a ledger as rows: make new ones, and check stored ones.

An entry commits to its content under a salt, so that nothing can be told from the commitment once
salt and content are erased. Numbers are little-endian, words UTF-8, hashes SHA-256::

    commitment = SHA-256(
        salt                  16 bytes
        length of x           uint32, in bytes
        x                     the vector, float32 a value
        label  0x00  author
        0x00  text            only if the entry has a text
    )

An act is hashed before the words; the highest bit of the length of x tells that there is one::

    commitment = SHA-256(salt, length of x + 2**31, x, length of act as uint32, act, words as above)

The entry is hashed as in ``ocrrlib.chain``, so that entry hashes are also the leaves of a Merkle
tree (``corrigible.proofs.tree``)::

    entry hash = SHA-256(0x00 "OCRR2 ", place, time, commitment, hash of the entry before)
    genesis    = SHA-256("OCRR2 " about), of what the ledger says ``about`` itself

The field ``act`` says what an entry does to others, and about itself: a JSON object. An entry with
a vector may have ``about`` and ``replaces``; one without does one of the other four::

    about      {...}                    whatever the application notes: a ticket's number, a channel
    replaces   place                    of the entry in whose stead this one counts
    undo       place                    of the entry that counts no more, or of the act that is off
    rename     [label, new label]
    merge      [[label, ...], into]     ``into`` may be one of them
    retire     label

An entry that tells of an erasure repeats what the one that it erased did to others: what was put
right does not come back, and a label keeps its name. It may have ``about``, too: the reason. The
text is canonical: keys sorted, no blanks, ASCII. Another program may append what is no act:
``corrigible.ledger.meaning`` says what acts mean, and which count for nothing.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from secrets import token_bytes
from typing import Any, NamedTuple

from corrigible.proofs.tree import HASH
from ocrrlib.chain import commitment, entry_hash
from ocrrlib.files import InputError

# Bytes
SALT = 16
VALUE = 4  # of a vector
MAX_VALUE = 2**20  # of a value, and of all content of an entry with its hashes
HASHES = 2**8  # of a row beside its content, at most: hashes, salt, place, time, sizes
LATEST = 2**53  # microseconds since 1970: in 2255; pandas has no dates after 2262
# Acts
ALONE = ("undo", "rename", "merge", "retire")
LONGEST_ABOUT = 4096  # bytes of JSON
DEEPEST_ABOUT = 8  # objects and lists in one another: any reader can parse it, however it is called


class Content(NamedTuple):
    """What is told of a new entry; ``x`` are the bytes of its vector, float32 little-endian."""

    label: str
    author: str
    text: str | None
    x: bytes | memoryview
    act: str | None = None


class Row(NamedTuple):
    """An entry as it is stored.

    Salt and content are None once they are erased. A tombstone, which is appended when an entry is
    erased, has the place of that entry as text, an empty label and an empty ``x``. An entry without
    vector and text is an act alone.
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
    act: str | None = None

    def fields(self) -> dict:
        """Return the values by name, bytes as hexadecimal digits, without those erased."""
        fields = {}
        for name, value in self._asdict().items():
            if value is not None:
                fields[name] = value.hex() if isinstance(value, bytes) else value
        return fields


FIELDS = ", ".join(Row._fields)


def new_rows(contents: Iterable[Content], place: int, previous: bytes, time: int) -> Iterator[Row]:
    """Yield the rows of new entries from ``place`` on; ``previous`` is the hash before them.

    Raises ``InputError``, which names the first such row, if it is longer than a store may hold, a
    label or an author has a zero byte, or a word is no Unicode text; and if ``time`` is later than
    an entry's may be.
    """
    if time >= LATEST:
        raise InputError("an entry would be written later than 2255: set the clock")
    for n, (label, author, text, vector, act) in enumerate(contents):
        x = bytes(vector)
        _check_size(n, x, [label, author, text or "", act or ""])
        if "\0" in label + author:
            raise InputError(f"{label!r} by {author!r} has a zero byte: give words")
        salt = token_bytes(SALT)
        try:
            committed = commitment(salt, x, label, author, text, act)
        except UnicodeEncodeError as error:
            raise InputError(f"{error.object!r} is no Unicode text: mend or drop it") from error
        hash = entry_hash(place, time, committed, previous)
        yield Row(place, time, committed, previous, hash, salt, label, author, text, x, act)
        place += 1
        previous = hash


def _check_size(n, x, words):
    """Raise ``InputError`` if the content of row ``n`` is longer than a store may hold."""
    size = len(x) + len("".join(words).encode(errors="replace"))
    if size > MAX_VALUE - HASHES:
        raise InputError(
            f"row {n} has {size} bytes of text, label, author and vector, more than "
            f"{MAX_VALUE - HASHES}: shorten it"
        )


def is_whole(row: Any) -> bool:
    """Whether an entry has the content that it commits to, or none, and all values their type.

    ``row`` is a ``Row``, but a file or a proof may hold values of any type. Types and sizes are
    exact, so that no other content has the same commitment.
    """
    place, time, committed, previous, _, salt, label, author, text, x, act = row
    # Types as they are: True is no number here.
    if not (type(place) is type(time) is int and type(committed) is type(previous) is bytes):
        return False
    if not 0 <= time < LATEST or not len(committed) == len(previous) == HASH:
        return False
    if salt is None:
        return label is author is text is x is act is None
    if not (type(salt) is type(x) is bytes and type(label) is type(author) is str):
        return False
    if len(salt) != SALT or len(x) % VALUE:
        return False
    if "\0" in label or "\0" in author:  # this would blur where they end
        return False
    if text is not None and type(text) is not str:
        return False
    if act is not None and type(act) is not str:
        return False
    try:
        return commitment(salt, x, label, author, text, act) == committed
    except ValueError:  # half a character
        return False


def is_tombstone(row: Content | Row) -> bool:
    """Whether an entry has the form of one that tells of an erasure: a text, and no vector."""
    return row.text is not None and not row.x


def told_place(row: Content | Row) -> int | None:
    """The place of which an entry tells that it was erased; None if it names none."""
    if row.text is None or not is_tombstone(row):
        return None
    try:
        place = int(row.text)
    except ValueError:
        return None
    return place if row.text == str(place) else None


# Acts


def act_text(act: Mapping) -> str | None:
    """Canonical JSON of an act; None if it is empty.

    Raises ``TypeError`` or ``ValueError`` if it is no JSON, or a word in it no Unicode text.
    """
    if not act:
        return None
    json.dumps(act, ensure_ascii=False).encode()  # refuses half a character
    return json.dumps(act, sort_keys=True, separators=(",", ":"), allow_nan=False)


def read_act(row: Content | Row) -> dict:
    """The act of an entry; empty if there is none, or what stands there is none."""
    if row.act is None:
        return {}
    try:
        act = json.loads(row.act)
        # Another form of the same JSON is none, so that no two texts mean one thing.
        canonical = act_text(act) == row.act
    except (TypeError, ValueError, RecursionError, AttributeError):
        return {}
    if not canonical or not isinstance(act, dict):
        return {}
    if row.x:
        known = {"about", "replaces"}
    elif is_tombstone(row):
        known = {"about", "replaces", *ALONE}
    else:
        known = {*ALONE}
    if not act.keys() <= known or len(done_to_others(act)) > 1:
        return {}
    return act if all(_is_right(name, value) for name, value in act.items()) else {}


def done_to_others(act: Mapping) -> dict:
    """What an act does to other entries, without what its own says about itself."""
    return {name: value for name, value in act.items() if name != "about"}


def checked_about(about: Any) -> dict:
    """An application's note as it is kept; empty if there is none.

    Raises ``InputError`` if it is no small JSON object.
    """
    if about is None:
        return {}
    way_out = f"give a JSON object of at most {LONGEST_ABOUT} bytes, {DEEPEST_ABOUT} levels deep"
    try:
        text = act_text({"about": about}) or ""
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"about cannot be kept ({error}): {way_out}") from error
    kept = json.loads(text)["about"]
    if not _is_right("about", kept) or len(text) > LONGEST_ABOUT:
        raise InputError(f"about {text:.60} cannot be kept: {way_out}")
    return {"about": kept} if kept else {}


def _is_right(name, value):
    """Whether a value is one of its kind."""
    if name == "about":
        return isinstance(value, dict) and _is_shallow(value, DEEPEST_ABOUT)
    if name in ("replaces", "undo"):
        return type(value) is int and value >= 0
    if name == "retire":
        return isinstance(value, str)
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[1], str):
        return False
    labels = value[0] if name == "merge" else [value[0]]
    return isinstance(labels, list) and bool(labels) and all(isinstance(one, str) for one in labels)


def _is_shallow(value, levels):
    """Whether objects and lists in a value stand in one another no deeper than some levels."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return True
    return levels > 0 and all(_is_shallow(one, levels - 1) for one in value)
