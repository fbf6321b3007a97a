"""The file of a ledger: finished erasures, links, clocks, and verification that writes nothing."""

import os
import resource
import shutil
import sqlite3
import subprocess
import threading
import time
from contextlib import closing
from functools import partial
from itertools import count

import numpy as np
import pytest
from entries import being_read, legible, rows, script

from corrigible import CorrectionMemory, verify
from corrigible.proofs.rows import LATEST
from ocrrlib.files import InputError
from trials.auditor import letters

SECRET = "a secret of somebody "


@pytest.fixture
def secrets(tmp_path):
    """A file of entries with secrets of several lengths, some in the log only."""
    path = tmp_path / "m.sqlite"
    with CorrectionMemory.open(path, letters) as memory:
        memory.learn([f"{SECRET}{i}." * (1 + 40 * i) for i in range(20)], ["a"] * 20)
    return path


def forget_again(memory):
    with pytest.raises(InputError, match="was erased before"):
        memory.forget(7)


FINISH = {
    "it is forgotten again": forget_again,
    "opened": lambda memory: CorrectionMemory.open(memory.path).close(),
    "another is forgotten": lambda memory: memory.forget(3),
    "it is asked": lambda memory: memory.predict("a card"),
    "it is corrected": lambda memory: memory.correct("a card", "b"),
}


@pytest.mark.parametrize("finish", FINISH.values(), ids=FINISH)
def test_an_erasure_that_a_reader_delayed_is_finished_later(secrets, monkeypatch, finish):
    monkeypatch.setattr("corrigible.stores.waiting.LOCK_TIMEOUT", 0)
    with CorrectionMemory.open(secrets, letters) as memory:
        with being_read(secrets):
            for _ in range(2):
                with pytest.raises(InputError, match="others still read"):
                    memory.forget(7)
            CorrectionMemory.open(secrets).close()
        assert legible(secrets, f"{SECRET}7.")
        finish(memory)
        assert not legible(secrets, f"{SECRET}7.")
        assert memory.verify() is None


@pytest.mark.parametrize("use", ["predict", "correct"])
def test_an_erasure_is_finished_by_a_memory_that_was_opened_beside_a_reader(
    secrets, monkeypatch, use
):
    monkeypatch.setattr("corrigible.stores.waiting.LOCK_TIMEOUT", 0)
    with being_read(secrets):
        with CorrectionMemory.open(secrets) as memory, pytest.raises(InputError):
            memory.forget(7)
        memory = CorrectionMemory.open(secrets, letters)
        assert legible(secrets, f"{SECRET}7.")
    FINISH["it is asked" if use == "predict" else "it is corrected"](memory)
    assert not legible(secrets, f"{SECRET}7.")
    memory.close()


@pytest.mark.slow
def test_an_erasure_that_was_killed_after_its_commit_is_finished_by_opening(secrets):
    code = """import os, signal, sys
import corrigible.stores.sqlite
from corrigible import CorrectionMemory

memory = CorrectionMemory.open(sys.argv[1])
corrigible.stores.sqlite.SQLiteStore.cleaned = lambda store: os.kill(os.getpid(), signal.SIGKILL)
memory.forget(7)
"""
    assert script(code, secrets).wait() < 0
    assert legible(secrets, f"{SECRET}7.")
    with CorrectionMemory.open(secrets) as memory:
        assert not legible(secrets, f"{SECRET}7.")
        assert "label" not in memory.entry(7)
        assert memory.verify() is None


@pytest.mark.slow
def test_nothing_of_what_is_forgotten_is_left_whenever_the_process_was_killed(secrets):
    code = """import sys
from corrigible import CorrectionMemory

memory = CorrectionMemory.open(sys.argv[1])
print(flush=True)
for place in map(int, sys.argv[2:]):
    memory.forget(place)
    print(flush=True)
"""
    rng = np.random.default_rng(0)
    erased = []
    for trial in range(8):
        left = set(range(20)) - set(erased)
        process = script(code, secrets, *left, stdout=subprocess.PIPE)
        process.stdout.readline()
        if trial == 0:
            process.stdout.readline()  # at least one is killed after an erasure
        time.sleep(rng.uniform(0, 0.02))
        process.kill()
        process.communicate()
        with CorrectionMemory.open(secrets) as memory:
            erased = [place for place in range(20) if "label" not in memory.entry(place)]
            found = [place for place in range(20) if legible(secrets, f"{SECRET}{place}.")]
            assert not set(erased) & set(found)
            assert len(erased) + len(found) == 20
            assert memory.verify() is None
    assert erased


def test_other_threads_are_answered_while_an_erasure_waits_for_a_reader(secrets):
    with CorrectionMemory.open(secrets, letters) as memory:
        with being_read(secrets) as reader:
            thread = threading.Thread(target=memory.forget, args=[7])
            thread.start()
            while "label" in memory.entry(7):
                time.sleep(0.001)
            assert memory.predict("a card").label == "a"
            assert memory.correct("a card", "b") == 21
            CorrectionMemory.open(secrets).close()
            assert thread.is_alive()
            assert legible(secrets, f"{SECRET}7.")
            reader.rollback()
        thread.join()
        assert not legible(secrets, f"{SECRET}7.")


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("link", ["m.link", "folder/m.sqlite", "inner/../m.sqlite"])
def test_a_file_opened_through_a_link_is_the_same_file(tmp_path, monkeypatch, link, relative):
    folder = tmp_path / "a"
    path = folder / "m.sqlite"
    (folder / "b").mkdir(parents=True)
    (tmp_path / "m.link").symlink_to("a/m.sqlite")
    (tmp_path / "folder").symlink_to(folder)
    (tmp_path / "inner").symlink_to(folder / "b")
    monkeypatch.chdir(tmp_path)
    X = rows(300, 64, 0)
    with CorrectionMemory.open(path) as one:
        one.learn(X, ["a"] * 300)
        with CorrectionMemory.open(link if relative else tmp_path / link) as other:
            monkeypatch.chdir("/")
            assert other.correct(X[0], "b") == 300
            assert one.predict(X[0]) == other.predict(X[0])
            assert other.verify(one.head()) is None
            assert other.path == path
    assert sorted(os.listdir(folder)) == ["b", "m.sqlite"]


def test_a_file_with_two_names_that_have_logs_of_their_own_is_refused(secrets):
    other = secrets.with_name("other")
    os.link(secrets, other)
    for path in (secrets, other):
        for use in (CorrectionMemory.open, verify):
            with pytest.raises(InputError, match="second name"):
                use(path)


@pytest.mark.parametrize("content", [b"", b"text,label\n" * 500, bytes(9999)])
def test_verification_refuses_what_is_no_memory_and_leaves_it_as_it_is(tmp_path, content):
    path = tmp_path / "m.sqlite"
    path.write_bytes(content)
    with pytest.raises(InputError, match="m.sqlite"):
        verify(path)
    assert os.listdir(tmp_path) == ["m.sqlite"]
    assert path.read_bytes() == content


def test_a_file_cut_to_nothing_is_refused_and_its_log_is_kept(secrets, tmp_path):
    with CorrectionMemory.open(secrets, letters) as memory:
        memory.correct("a card", "b")
        cut = tmp_path / "cut"
        log = tmp_path / "cut-wal"
        cut.touch()
        shutil.copy(f"{secrets}-wal", log)
    before = log.read_bytes()
    for use in (CorrectionMemory.open, verify):
        with pytest.raises(InputError, match="empty"):
            use(cut)
    assert log.read_bytes() == before
    assert cut.read_bytes() == b""


ASK = """import sys
from corrigible import verify

print(verify(*sys.argv[1:]))
"""


@pytest.mark.parametrize("state", ["closed", "in use", "log empty", "killed", "copied"])
def test_verification_sees_all_entries_and_writes_nothing(secrets, tmp_path, state):
    path = tmp_path / "folder" / "a memory?#%.sqlite"
    path.parent.mkdir()
    with CorrectionMemory.open(secrets, letters) as memory:
        memory.correct("a card", "b")  # in the log
        if state == "log empty":
            memory.forget(0)
        head = str(memory.head())
        if state == "closed":
            memory.close()
        parts = {"closed": [""], "copied": ["", "-wal"]}.get(state, ["", "-wal", "-shm"])
        for part in parts:
            shutil.copy(f"{secrets}{part}", f"{path}{part}")
        if state in ("in use", "log empty"):
            path = secrets
        modes = [(path.parent, 0o555), *((file, 0o444) for file in path.parent.glob("*sqlite*"))]
        if state != "in use":
            for file, mode in modes:
                file.chmod(mode)
        before = contents(path)
        process = script(ASK, path, head, stdout=subprocess.PIPE)
        assert process.communicate() == ("None\n", None)
        assert contents(path) == before
        path.parent.chmod(0o755)


LOGS = {
    "empty": lambda log: b"",
    "with a broken header": lambda log: log[:20] + bytes([log[20] ^ 1]) + log[21:],
    "with a broken page": lambda log: log[:40] + bytes([log[40] ^ 1]) + log[41:],
    "cut": lambda log: log[:-10],
    "strange": lambda log: b"junk" * 2000,
}


@pytest.mark.parametrize("damage", LOGS.values(), ids=LOGS)
def test_verification_leaves_a_log_without_an_index_as_it_is(secrets, tmp_path, damage):
    path = tmp_path / "folder" / "copy.sqlite"
    path.parent.mkdir()
    with CorrectionMemory.open(secrets, letters) as memory:
        memory.correct("a card", "b")  # in the log
        head = memory.head()
        shutil.copy(secrets, path)
        log = path.with_name("copy.sqlite-wal")
        log.write_bytes(damage(secrets.with_name("m.sqlite-wal").read_bytes()))
    before = contents(path)
    assert verify(path, head) == (20, "truncated")
    assert verify(path) is None
    assert contents(path) == before


def test_verification_undoes_an_unfinished_change_in_a_copy(secrets, tmp_path):
    copy = tmp_path / "copy.sqlite"
    path = tmp_path / "folder" / "m.sqlite"
    path.parent.mkdir()
    with CorrectionMemory.open(secrets) as memory:
        head = memory.head()
    with closing(sqlite3.connect(secrets)) as base:
        base.execute("VACUUM INTO ?", [str(copy)])
    with closing(sqlite3.connect(copy, isolation_level=None)) as base:
        base.execute("PRAGMA cache_size = 1")
        base.execute("BEGIN")
        base.execute("UPDATE entries SET text = text || 'more'")
        for part in ("", "-journal"):  # as the process would leave them if it were killed
            shutil.copy(f"{copy}{part}", f"{path}{part}")
    before = contents(path)
    assert before[path][0] != secrets.read_bytes()
    assert verify(path, head) is None
    assert contents(path) == before


def test_a_copy_made_by_sqlite_is_written_through_a_log(secrets, tmp_path):
    copy = tmp_path / "copy.sqlite"
    with closing(sqlite3.connect(secrets)) as base:
        base.execute("VACUUM INTO ?", [str(copy)])
    with CorrectionMemory.open(copy, letters) as memory, being_read(copy):
        assert memory.correct("a card", "b") == 20  # it waits for no reader
        assert copy.with_name("copy.sqlite-wal").stat().st_size > 0


def test_a_broken_file_that_is_touched_all_the_time_is_reported(tmp_path):
    path = tmp_path / "m.sqlite"
    with CorrectionMemory.open(path) as memory:
        memory.learn(rows(9000, 8, 0), ["a"] * 9000)
    with closing(sqlite3.connect(path, isolation_level=None)) as base:
        base.execute("UPDATE entries SET label = 'forged' WHERE place = 8999")
    done = threading.Event()

    def touch():
        for now in count(1):
            os.utime(path, (now, now))
            if done.wait(0.0005):
                break

    thread = threading.Thread(target=touch)
    thread.start()
    try:
        assert verify(path) == (8999, "changed")
    finally:
        done.set()
        thread.join()


HOLD = """import sys
from corrigible import CorrectionMemory

with CorrectionMemory.open(sys.argv[1]):
    print(flush=True)
    sys.stdin.read()
"""


def test_a_memory_that_was_opened_during_a_verification_can_be_written(secrets, monkeypatch):
    from corrigible.stores.sqlite import check_schema

    begun, go_on = threading.Event(), threading.Event()

    def wait_once(base):
        if not begun.is_set():
            begun.set()
            go_on.wait()
        check_schema(base)

    monkeypatch.setattr("corrigible.stores.sqlite.check_schema", wait_once)
    opened = []
    other = script(HOLD, secrets, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    other.stdout.readline()
    verifying = threading.Thread(target=verify, args=[secrets])
    verifying.start()
    begun.wait()
    opening = threading.Thread(
        target=lambda: opened.append(CorrectionMemory.open(secrets, letters))
    )
    opening.start()
    opening.join(0.5)  # it may wait for the verification
    go_on.set()
    opening.join()
    verifying.join()
    with opened[0] as memory:
        assert memory.correct("a card", "b") == 20
    other.communicate()


def test_an_export_onto_the_own_file_loses_no_later_entry(secrets):
    link = secrets.with_name("m.csv")
    link.symlink_to(secrets)
    with CorrectionMemory.open(secrets, letters) as memory:
        memory.labels  # noqa: B018  (it reads the file, and so locks it)
        with pytest.raises(InputError, match="database"):
            memory.export(link)
        script(HOLD, secrets, stdin=subprocess.PIPE, stdout=subprocess.PIPE).communicate()
        memory.correct("a card", "b")
        process = script(ASK, secrets, memory.head(), stdout=subprocess.PIPE)
        assert process.communicate() == ("None\n", None)


RESTORED = {
    "whole": lambda copy: copy,
    "broken": lambda copy: b"x" + copy[1:],
    "with a broken page": lambda copy: copy[:-4096] + bytes(4096),
}


@pytest.mark.parametrize("damage", RESTORED.values(), ids=RESTORED)
def test_a_copy_restored_beside_an_old_log_is_refused_and_stays_as_it_is(tmp_path, damage):
    path = tmp_path / "folder" / "m.sqlite"
    path.parent.mkdir()
    old = tmp_path / "old.sqlite"
    copy = tmp_path / "copy.sqlite"
    X = rows(200, 64, 0)
    with CorrectionMemory.open(old) as memory:
        memory.learn(X, ["a"] * 200)
        with closing(sqlite3.connect(old)) as base:
            base.execute("VACUUM INTO ?", [str(copy)])
        memory.learn(X, ["b"] * 200)
        memory.forget(5)
        memory.learn(X, ["c"] * 200)
        log = path.with_name("m.sqlite-wal")
        shutil.copy(f"{old}-wal", log)
    path.write_bytes(damage(copy.read_bytes()))
    before = path.read_bytes(), log.read_bytes()
    for use in (CorrectionMemory.open, verify, CorrectionMemory.open):
        with pytest.raises(InputError, match="without m.sqlite-wal"):
            use(path)
        assert (path.read_bytes(), log.read_bytes()) == before
    log.unlink()
    path.write_bytes(copy.read_bytes())
    with CorrectionMemory.open(path) as memory:
        assert len(memory) == 200


@pytest.mark.parametrize("change", ["removed", "replaced"])
def test_a_file_removed_or_replaced_while_it_is_open_is_not_written(secrets, change):
    with CorrectionMemory.open(secrets, letters) as memory:
        if change == "replaced":
            shutil.copy(secrets, secrets.with_name("other"))
            os.replace(secrets.with_name("other"), secrets)
        else:
            secrets.unlink()
        for use in (partial(memory.correct, "a card", "b"), partial(memory.forget, 0)):
            with pytest.raises(InputError, match="replaced or removed"):
                use()


READS = {
    "entry": lambda memory: memory.entry(20)["label"],
    "table": lambda memory: memory.table()["label"][20],
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_entries_and_tables_are_verified_with_what_others_wrote(secrets, read):
    with CorrectionMemory.open(secrets, letters) as memory:
        with CorrectionMemory.open(secrets, letters) as other:
            other.correct("a card", "b")
        assert read(memory) == "b"
        with closing(sqlite3.connect(secrets, isolation_level=None)) as base:
            base.execute(
                "INSERT INTO entries SELECT place + 1, time + 1, commitment, previous, hash, salt, "
                "label, author, text, x, act FROM entries WHERE place = 20"
            )
        with pytest.raises(InputError, match="not as it was written"):
            read(memory)


def contents(path):
    """Content and time of change of all files in the folder of a file."""
    files = [file for file in path.parent.iterdir() if file.is_file()]
    return {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


@pytest.mark.parametrize("late", [LATEST, 2**63 // 1000])
def test_a_clock_later_than_an_entry_may_be_is_refused_when_it_is_written(
    secrets, monkeypatch, late
):
    with CorrectionMemory.open(secrets, letters) as memory:
        head = memory.head()
        uses = [partial(memory.correct, "a card", "b"), partial(memory.forget, 0)]
        with monkeypatch.context() as patch:
            patch.setattr("time.time_ns", lambda: 1000 * late)
            for use in uses:
                with pytest.raises(InputError, match="2255"):
                    use()
        assert memory.head().root == head.root
        for use in uses:
            use()
        assert memory.verify(head) is None


def test_a_huge_sparse_file_is_refused_in_one_line_where_it_needs_too_much_memory(secrets):
    os.truncate(secrets, 2**40)
    code = """import sys
from corrigible.cli import main

main(["forget", sys.argv[1], "0"])
"""

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (2**35, 2**35))

    process = script(code, secrets, stderr=subprocess.PIPE, preexec_fn=limit)
    _, error = process.communicate()
    assert process.returncode == 2
    assert error.startswith(f"error: cannot use {secrets}")
    assert error.count("\n") == 1
