"""Group commit: threads that write one ledger at once share a transaction and its flush."""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from typing import Protocol

from corrigible.proofs.rows import Content
from corrigible.stores.store import Undone, Unknown
from corrigible.stores.waiting import deadline, retry_undone
from ocrrlib.files import InputError


class Writable(Protocol):
    """The part of a ``StoredLedger`` that writes; ``size`` counts known entries.

    ``has_failed`` tells, within a ``transaction``, that it can only be undone.
    """

    @property
    def size(self) -> int: ...

    @property
    def has_failed(self) -> bool: ...

    def transaction(self, until: float | None = None) -> AbstractContextManager[None]: ...

    def append(self, contents: Iterable[Content]) -> range: ...


class PendingWrite:
    """Entries that a thread asks to write, and the outcome: their places, or an error."""

    def __init__(self, contents: Callable[[], Iterable[Content]]):
        self.contents = contents
        self.until = deadline()
        self.outcome: range | BaseException | None = None  # None as long as it waits

    def result(self) -> range:
        """Return the places, or raise the error."""
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        assert self.outcome is not None
        return self.outcome


class Writers:
    """Threads that write a ledger.

    One of them writes what all wait for, in one transaction: each as if it came alone, after those
    before it. If all is undone for one of them, each writes its own.
    """

    def __init__(self, ledger: Writable):
        self._ledger = ledger
        self._waiting: deque[PendingWrite] = deque()
        self._is_busy = False  # whether one of them writes
        self._changed = threading.Condition()

    def write(self, contents: Callable[[], Iterable[Content]]) -> range:
        """Append entries; return their places once they are on disk.

        ``contents`` is called within the transaction, by any of the threads, and again if that was
        undone. Raises what it raises, and as ``StoredLedger.transaction`` and ``append`` do.
        """
        own = PendingWrite(contents)
        self._waiting.append(own)
        try:
            with self._changed:
                while self._is_busy and own.outcome is None:
                    self._changed.wait()
                if own.outcome is not None:
                    return own.result()
                self._is_busy = True
            try:
                if own in self._waiting:
                    self._write_all(own)
                if own.outcome is not None:
                    return own.result()
                with suppress(ValueError):  # it was taken, and undone
                    self._waiting.remove(own)
                return retry_undone(lambda: self._write_alone(contents, own.until), own.until)
            finally:
                with self._changed:
                    self._is_busy = False
                    self._changed.notify_all()
        except BaseException:
            with suppress(ValueError):  # it was taken, and undone
                self._waiting.remove(own)
            raise

    def _write_alone(self, contents, until):
        with self._ledger.transaction(until):
            return self._ledger.append(contents())

    def _write_all(self, own):
        """Write all that waits and tell each; nobody if all was undone for one of the others."""
        batch: list[PendingWrite] = []
        outcomes: list[range | BaseException] = []
        is_whole = False
        try:
            with self._ledger.transaction(own.until):
                for _ in range(len(self._waiting)):
                    batch.append(self._waiting.popleft())
                    outcomes.append(self._outcome(batch[-1]))
                is_whole = True
        except Undone:
            return
        except Unknown as error:
            outcomes = [_part(error, outcome) for outcome in outcomes]
        except BaseException as error:
            if not is_whole:
                if batch != [own] and isinstance(error, Exception):
                    return
                raise
            outcomes = [error] * len(batch)  # they may be on disk: not to be written again
        for write, outcome in zip(batch, outcomes, strict=True):
            write.outcome = outcome

    def _outcome(self, write):
        """Places of what one of them writes, or why nothing of it was; other errors are raised."""
        size = self._ledger.size
        try:
            return self._ledger.append(write.contents())
        except InputError as error:
            is_undone = isinstance(error, Undone) or self._ledger.has_failed
            if is_undone or self._ledger.size != size:
                raise
            return error


def _part(unknown, outcome):
    """What one writer is told if it is not known whether all is on disk."""
    return unknown.only(outcome) if isinstance(outcome, range) else outcome
