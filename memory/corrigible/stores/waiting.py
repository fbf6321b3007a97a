"""Wait for other programs and servers, and turn database errors into ``InputError``."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from corrigible.stores.store import Undone
from ocrrlib.files import InputError

LOCK_TIMEOUT = 60  # seconds to wait for other programs

# Of the disk, and of what a file may hold
ERRORS: tuple[type[Exception], ...] = OSError, OverflowError, UnicodeDecodeError, MemoryError

_T = TypeVar("_T")


def retry_undone(write: Callable[[], _T], until: float) -> _T:
    """Return what a write returns; it is done again, until a time, as long as it is undone."""
    while True:
        try:
            return write()
        except Undone:
            if time.monotonic() > until:
                raise


@contextmanager
def as_input_error(
    where: object, errors: tuple[type[Exception], ...], remedy: Callable
) -> Iterator[None]:
    """Turn errors of a database and the disk into ``InputError``."""
    try:
        yield
    except errors + ERRORS as error:
        why = " ".join(str(error).split()) or "no memory is left"  # it may quote the file
        raise InputError(
            f"cannot use {where} as a correction memory ({why}): {remedy(error)}"
        ) from error


def polling(seconds: float | None = None) -> Iterator[None]:
    """Yield at once, and every hundredth of a second for so long, by default ``LOCK_TIMEOUT``."""
    end = time.monotonic() + (LOCK_TIMEOUT if seconds is None else seconds)
    yield
    while time.monotonic() < end:
        time.sleep(0.01)
        yield


def deadline() -> float:
    """Return the time of ``time.monotonic`` until which to wait for other programs."""
    return time.monotonic() + LOCK_TIMEOUT
