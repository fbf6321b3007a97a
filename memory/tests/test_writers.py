"""Threads and processes that write one memory at once."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import numpy as np
import psycopg
import pytest
from entries import rows

from corrigible import CorrectionMemory
from corrigible.ledger.ledger import PendingWrite
from corrigible.proofs.rows import Content
from corrigible.stores import sqlite
from corrigible.stores.location import is_address
from corrigible.stores.postgres_connection import ServerTransaction
from corrigible.stores.postgres_tables import LOCK
from corrigible.stores.store import ROWS_AT_ONCE
from ocrrlib.files import InputError
from trials import PATHS
from trials.servers import connection

THREADS = 24
X = rows(THREADS, 8, 0)


@pytest.fixture
def desk(place):
    """The place of a memory with a class "old" that is retired, and one "kept"."""
    with CorrectionMemory.open(place) as memory:
        memory.learn(X[:2], ["old", "kept"])
        memory.retire("old")
    return place


def content(label):
    return Content(label, "", None, X[0].tobytes())


def fails_half_way():
    yield from [content("half")] * ROWS_AT_ONCE
    raise InputError("a later row is too long")


@pytest.mark.parametrize("ahead", [["bad"], ["bo", "bad"], ["bo", "bad", "cy"], ["bad", "cy"]])
def test_a_write_that_fails_half_way_is_told_to_its_own_writer_alone(memory, ahead):
    ledger = memory._ledger
    for name in ahead:
        one = fails_half_way if name == "bad" else lambda name=name: [content(name)]
        ledger._waiting.append(PendingWrite(one))
    before = len(memory)
    assert ledger.write(lambda: [content("ana")]) == range(before, before + 1)
    ledger.write(lambda: [content("later")])
    labels = [entry.label for entry in memory.entries()]
    assert labels.count("ana") == labels.count("later") == 1 and "half" not in labels
    with pytest.raises(InputError, match="too long"):
        ledger.write(fails_half_way)


@contextmanager
def being_written(path):
    """Let another program write a memory meanwhile."""
    if is_address(path):
        with connection(path) as other, other.transaction():
            other.execute("SELECT pg_advisory_xact_lock(%s, 'about'::regclass::int)", [LOCK])
            yield
        return
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def test_others_write_while_a_writer_reads_all_entries_again(memory, place, monkeypatch):
    monkeypatch.setattr("corrigible.stores.waiting.LOCK_TIMEOUT", 0)
    X = rows(300, 8, seed=1)
    texts = ["short"] * 299 + ["long" * 2**20]
    with pytest.raises(InputError, match="shorten it"):  # after 256 rows: all are read again
        memory.learn(texts, ["a"] * 300, vectors=X)
    with CorrectionMemory.open(place) as other:
        store = memory._ledger.store
        blocks = store.blocks

        def read(first=None):
            store.blocks = blocks
            other.correct(X[0], "meanwhile")
            return blocks(first)

        store.blocks = read
        before = len(other)
        assert memory.correct(X[1], "after") == before + 1


def correct(memory, i):
    """Correct an entry; every third one is wrong, each for another reason than the next."""
    kind = i % 9
    if kind == 0:
        return memory.correct(X[i], "old", by=f"{i}")
    if kind == 3:
        return memory.correct(X[i, :-1], "new", by=f"{i}")
    if kind == 6:
        return memory.correct(X[i], "new", by=f"\0 {i}")
    return memory.correct(X[i], f"class {i}", by=f"{i}")


REASONS = {0: "retired", 3: "7 values", 6: "zero byte"}


def corrected_at_once(memory, desk, commits):
    """Correct from many threads while another program writes; the place or the error of each."""
    with ThreadPoolExecutor(THREADS) as pool:
        with being_written(desk):
            jobs = [pool.submit(correct, memory, i) for i in range(THREADS)]
            time.sleep(0.2)
            commits.clear()
    return [job.exception() or job.result() for job in jobs]


def watched(monkeypatch, failing):
    """Commits from now on; if ``failing``, whatever has a label "class 1" finds the disk full."""
    commits = []

    def note(statement):
        if statement == "COMMIT":
            commits.append(statement)

    def connect(*arguments):
        base = connected(*arguments)
        base.set_trace_callback(note)
        return base

    def insert(store, new):
        inserted(store, new)
        if failing and any(row.label == "class 1" for row in new):
            raise sqlite3.OperationalError("the disk is full")

    def commit(self):
        committed(self)
        note("COMMIT")

    def send(self):
        if failing and any(row.label == "class 1" for row in self._pending):
            raise psycopg.errors.DiskFull("the disk is full")
        sent(self)

    connected, inserted = sqlite.connected, sqlite.SQLiteStore.insert
    committed, sent = (
        ServerTransaction.commit,
        ServerTransaction._send,
    )
    monkeypatch.setattr(sqlite, "connected", connect)
    monkeypatch.setattr(sqlite.SQLiteStore, "insert", insert)
    monkeypatch.setattr(ServerTransaction, "commit", commit)
    monkeypatch.setattr(ServerTransaction, "_send", send)
    return commits


@pytest.mark.parametrize("failing", [False, True])
def test_right_corrections_are_stored_once_and_wrong_ones_are_refused(desk, monkeypatch, failing):
    commits = watched(monkeypatch, failing)
    with CorrectionMemory.open(desk) as memory:
        outcomes = corrected_at_once(memory, desk, commits)
        n_commits = len(commits)
        stored = {entry.author: entry for entry in memory.entries() if entry.author}
        places = {}
        for i, outcome in enumerate(outcomes):
            reason = "disk is full" if failing and i == 1 else REASONS.get(i % 9)
            if reason:
                assert isinstance(outcome, InputError)
                assert reason in str(outcome)
            else:
                places[f"{i}"] = outcome
        assert places == {author: entry.place for author, entry in stored.items()}
        assert {entry.label for entry in stored.values()} == {f"class {i}" for i in places}
        assert len(memory) == 3 + len(places)
        assert memory.verify() is None
        assert memory.predict(X[2]).label == "class 2"
        assert failing or 0 < n_commits < len(places)


def test_other_threads_are_answered_while_a_correction_waits_for_another_program(desk):
    with CorrectionMemory.open(desk) as memory:
        with being_written(desk):
            thread = threading.Thread(target=memory.correct, args=[X[2], "new"])
            thread.start()
            assert memory.predict(X[1]).label == "kept"
            assert thread.is_alive()
        thread.join()
        assert memory.predict(X[2]).label == "new"


def test_a_correction_that_gave_up_is_not_stored_later(desk, monkeypatch):
    monkeypatch.setattr("corrigible.stores.waiting.LOCK_TIMEOUT", 0)
    with CorrectionMemory.open(desk) as memory:
        with being_written(desk), pytest.raises(InputError, match="locked"):
            memory.correct(X[2], "given up")
        memory.correct(X[3], "new")
        assert memory.labels == ["kept", "new"]


WRITE = """import os, sys, threading
import numpy as np
from corrigible import CorrectionMemory

memory = CorrectionMemory.open(sys.argv[1])

def write(thread):
    for i in range(10**9):
        place = memory.correct(np.eye(8)[thread], f"{thread} {i}")
        os.write(1, f"{place} {thread} {i}\\n".encode())

for thread in range(8):
    threading.Thread(target=write, args=[thread]).start()
"""


@pytest.mark.slow
def test_no_correction_that_a_thread_was_told_of_is_lost_by_a_kill(desk):
    rng = np.random.default_rng(0)
    told = {}
    for _ in range(5):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITE, desk],
            env=os.environ | {"PYTHONPATH": PATHS},
            stdout=subprocess.PIPE,
            text=True,
        )
        first = 1 if told else 11  # some of them were told more than one correction
        lines = "".join(process.stdout.readline() for _ in range(first))
        time.sleep(rng.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        lines += process.communicate()[0]
        for line in lines.splitlines():
            place, label = line.split(" ", 1)
            told[int(place)] = label
    with CorrectionMemory.open(desk) as memory:
        labels = dict(memory.table()[["place", "label"]].itertuples(index=False))
        assert {place: labels[place] for place in told} == told
        assert len(told) > 10
        assert memory.verify() is None
