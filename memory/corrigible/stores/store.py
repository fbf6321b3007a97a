"""The interface ``Store``, which each database implements for the ledger."""

import json
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from corrigible.proofs.pasted_text import one_line
from corrigible.proofs.rows import Row
from corrigible.stores.database_search import Source
from ocrrlib.files import InputError

FORMAT = 1
ROWS_AT_ONCE = 256  # rows read or written at once


class About(NamedTuple):
    """What a ledger says about itself: as text, which is hashed, and in parts."""

    text: str
    origin: str
    encoder: str | None
    probe: str  # empty without encoder


def new_about(name: str, encoder: Callable[[], tuple[str, str]] | None) -> str:
    """Return what a new ledger of a name says about itself.

    ``encoder`` gives name and probe of that of its texts, see ``corrigible.ledger_encoder``.
    """
    described = [None] if encoder is None else encoder()
    origin = f"{one_line(name)}-{secrets.token_hex(8)}"
    return json.dumps([FORMAT, origin, *described])


def read_about(rows: list[tuple]) -> About | None:
    """Read what a ledger says about itself from its rows; None if it is of another version."""
    try:
        ((about,),) = rows
        version, origin, *described = json.loads(about)
        encoder, probe = (None, "") if described == [None] else described
        is_known = version == FORMAT and isinstance(about, str) and origin == one_line(origin)
    except (ValueError, TypeError, RecursionError):
        return None
    return About(about, origin, encoder, probe) if is_known else None


class Store(Protocol):
    """The database of one ledger, open; only ``StoredLedger`` calls it, a thread at a time.

    All methods may raise ``errors``, whose ``remedy`` is told, or ``InputError``.
    """

    @property
    def where(self) -> Path | str:
        """Its path or address, as messages name it."""
        ...

    @property
    def about(self) -> About: ...

    @property
    def errors(self) -> tuple[type[Exception], ...]: ...

    @property
    def residue(self) -> str:
        """How a message tells where erased content may still be."""
        ...

    @property
    def cleans_itself(self) -> bool:
        """Whether it removes in time, by itself, what is left of erased content."""
        ...

    @property
    def beyond_erasure(self) -> str:
        """Where erased content may be for longer, beside copies of a file; empty if nowhere."""
        ...

    @property
    def fitted(self) -> Path | None:
        """A file beside it for what is fitted on its entries; None if there can be none."""
        ...

    def remedy(self, error: Exception) -> str:
        """Return what to do about one of ``errors``."""
        ...

    def way_out(self) -> str:
        """Return what to do if entries are not as they were written."""
        ...

    def room(self) -> int:
        """Return its size in bytes: more content cannot be in it."""
        ...

    def prepare_writes(self) -> None:
        """Prepare to write, once all entries are verified."""
        ...

    def close_untouched(self) -> None:
        """Close it as it is."""
        ...

    def close(self) -> None: ...

    def reading(self) -> AbstractContextManager[object]:
        """Show one state of it until the end."""
        ...

    def writing(self) -> AbstractContextManager[object]:
        """Write all or nothing by the end, once ``try_begin`` was true.

        Raises ``Undone`` or ``Unknown`` if the connection was lost.
        """
        ...

    @property
    def has_failed(self) -> bool:
        """Whether nothing more can be written, nor what was, while ``writing``."""
        ...

    def try_begin(self) -> bool:
        """Exclude other writers; False, soon, if there is one."""
        ...

    def has_changed(self, size: int, newest: bytes) -> bool:
        """Whether others may have written since ``size`` entries up to a hash were read."""
        ...

    def check_tables(self) -> None:
        """Raise an error unless its tables are as they were made; called if it has changed."""
        ...

    def mark_read(self) -> None:
        """Note that all entries that made it change were read."""
        ...

    def hash_at(self, place: int) -> bytes | None:
        """Return the hash of an entry, or None if there is none."""
        ...

    def row(self, place: int) -> Row | None:
        """Return an entry, or None if there is none."""
        ...

    def blocks(self, first: int | None = None) -> Iterator[list[Row]]:
        """Read entries in their order, from a place on or all there are, of one state of it."""
        ...

    def insert(self, rows: list[Row]) -> None:
        """Write new entries, while ``writing``."""
        ...

    def erase(self, places: Iterable[int]) -> None:
        """Erase salt and content of entries, while ``writing``."""
        ...

    def source(self, ef_search: int | None) -> Source:
        """Return its vectors, to be searched there; ``InputError`` if they cannot be."""
        ...

    def make_index(self, dim: int) -> None:
        """Index its vectors (d,); any thread may call it."""
        ...

    def cleaned(self) -> bool:
        """Remove what is left of erased content; False, soon, if others still read it."""
        ...


class Location(Protocol):
    """The place of a ledger's store, whether there is one or not; ``str`` shows no secrets."""

    @property
    def name(self) -> str:
        """Of which the origin of a new ledger is made."""
        ...

    def is_there(self) -> bool:
        """Whether there may be a store."""
        ...

    def holds_memory(self) -> bool:
        """Whether there is a store, and not only an empty file."""
        ...

    def check_search(self, ef_search: int | None) -> None:
        """Raise ``InputError`` if a memory that would be made now could not be searched here."""
        ...

    def open(self, about: Callable[[], str]) -> Store:
        """Open a store; make it, with what a new one says about itself, if there is none."""
        ...

    def open_to_read(self) -> Store:
        """Open a store so that nothing is written; ``InputError`` if there is none."""
        ...

    def verifying(self) -> AbstractContextManager[object]:
        """Keep from other threads what is verified meanwhile, where that is needed."""
        ...

    def last_change(self) -> object:
        """Return a value that changes if others write; None where they do no harm to readers."""
        ...


class Undone(InputError):
    """The connection to a server was lost, and nothing of what was to be written is there."""


class Unknown(InputError):
    """The connection to a server was lost, and it is not known whether entries are there.

    ``commitments`` are those of the entries that would be there, by their place.
    """

    def __init__(self, where: object, commitments: dict[int, bytes]):
        places = ", ".join(map(str, list(commitments)[:9])) + ", ..." * (len(commitments) > 9)
        super().__init__(
            f"{where} cannot be reached, and it is not known whether entry {places} was written: "
            "look for it by its commitment before you write it again"
        )
        self.where = where
        self.commitments = commitments

    def only(self, places: range) -> "Unknown":
        """Return the same of some of the entries."""
        return Unknown(self.where, {place: self.commitments[place] for place in places})
