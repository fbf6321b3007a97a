"""Kills, power cuts and changed files of the correction memory; `make torture` publishes counts.

Trials of processes that meet are in ``trials.races``.
"""

import json
import os
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing, suppress
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from tqdm import tqdm

from corrigible import CorrectionMemory
from corrigible.proofs.rows import FIELDS
from ocrrlib.chain import commitment, entry_hash
from ocrrlib.files import InputError
from studies.results import Study
from trials import PATHS, ordeals, races
from trials.auditor import ALL, integrity, proofs, sql, tampering
from trials.servers import serving

MAYBE = "?"  # told of an entry before it is erased: afterwards it may be or not


def write(path, seed, told, steps=10**9, many=60, d=8, rest=0):
    """Correct, learn, rename, forget and open again; tell of each in ``told`` once it is done.

    A line there is JSON: places, their label (None once they were erased), the newest head.
    """
    rng = np.random.default_rng(seed)
    memory = None
    places = []
    label = ""
    with open(told, "w") as out:

        def tell(places, label):
            print(json.dumps([places, label, str(memory.head())]), file=out, flush=True)

        for step in range(steps):
            time.sleep(rng.uniform(0, rest))
            if step % 40 == 0:
                if memory:
                    memory.close()
                memory = CorrectionMemory.open(path)
            if step % 10 == 9 and not rest:
                tell(places[:1], MAYBE)
                memory.forget(places[0])
                tell(places[:1], None)
                continue
            if step % 10 == 6:
                tell([memory.rename(label, f"{label} anew")], "")
                continue
            n = many if step % 5 == 4 else 1
            X = rng.normal(size=(n, d))
            label = f"{seed} {step}"
            if n > 1:
                places = list(memory.learn(X, [label] * n))
            else:
                places = [memory.correct(X[0], label)]
            tell(places, label)
        memory.close()


def gathered(text):
    """What was told: labels by place, and the newest head as "head"; a torn last line is left."""
    told = {}
    whole = text[: text.rfind(b"\n") + 1]
    for line in whole.splitlines():
        places, label, head = json.loads(line)
        told |= dict.fromkeys(places, label)
        told["head"] = head
    return told


def check(path, told, found):
    """Count a damaged file, and entries that are not as was told."""
    heads = [told["head"]] if "head" in told else []
    try:
        with CorrectionMemory.open(path) as memory:
            fault = memory.verify(*heads)
        if fault:
            raise InputError(f"{path}: {fault}")
    except InputError as error:
        found["damaged"] += 1
        print(error)
        return
    labels = dict(sql(path, ["SELECT place, label FROM entries"]))
    for place, label in told.items():
        if place != "head" and label != MAYBE:
            found["lost"] += labels.get(place, "") != label


def started(path, seed, rest=0):
    """Start a process that writes for ever; return it, and the file in which it tells."""
    told = path.with_suffix(f".{seed}")
    context = get_context("forkserver")
    # Else importing takes longer than a writer lives.
    context.set_forkserver_preload(["trials.torture", "ocrrlib.systems.neighbours"])
    process = context.Process(
        target=write, args=(path, seed, told), kwargs={"rest": rest}, daemon=True
    )
    process.start()
    return process, told


def kills(count, seed=0, each=20):
    """Kill writers at random instants while another one writes; a new file for ``each`` of them."""
    rng = np.random.default_rng(seed)
    found = Counter(kills=count, acknowledged=0, lost=0, damaged=0)
    with TemporaryDirectory() as folder:
        for kill in range(count):
            if kill % each == 0:
                path = Path(folder, f"{kill}.sqlite")
                told = {}
                other = started(path, kill + count, rest=0.05)
            one = started(path, kill)
            last = kill % each == each - 1 or kill == count - 1
            time.sleep(rng.uniform(0, 0.1))
            for process, _ in [one, other] if last else [one]:
                process.kill()
                process.join()
            for _, file in (one, other):
                if file.exists():
                    told |= gathered(file.read_bytes())
            check(path, told, found)
            if last:
                found["acknowledged"] += len(told) - 1
    return dict(found)


def content(file, kept=lambda change: True):
    """Content as of the last flush, with those later changes for which ``kept(change)``."""
    data = file["flushed"][:]
    for change in file["later"]:
        if not kept(change):
            continue
        at, new = change
        data.extend(bytes(max(0, at - len(data))))
        if new:
            data[at : at + len(new)] = new
        else:  # cut there
            del data[at:]
    return data


def flushes(trace, folder):
    """Replay a trace, and yield before each flush and at the end.

    Yields the files as they are, those whose names were there at the last flush of the folder, and
    what was told.
    """
    now = {}
    safe = {}
    told = b""
    for line in trace.read_bytes().replace(b"\\x", b"").splitlines():
        name, _, rest = line.partition(b"(")
        strings = re.findall(rb'[<"]([0-9a-f]+)[>"]', rest) or [b""]
        path, *data = [bytes.fromhex(string.decode()) for string in strings]
        numbers = [int(number) for number in re.findall(rb"(?<=, )\d+", rest)]
        if name == b"write" and path.endswith(b"/told"):
            told += data[0]
        elif name == b"openat" and b"O_CREAT" in rest and data[0].startswith(folder):
            now.setdefault(data[0], {"flushed": bytearray(), "later": []})
        elif name in (b"fsync", b"fdatasync") and path.startswith(folder):
            yield now, safe, told
            if path == folder:
                safe = dict(now)
            else:
                now[path].update(flushed=content(now[path]), later=[])
        elif name == b"unlink":
            now.pop(path, None)
        elif name in (b"pwrite64", b"ftruncate") and path in now:
            now[path]["later"].append((numbers[-1], b"".join(data)))
    yield now, safe, told


def traced(folder, disk, count):
    """Write under strace; return the trace."""
    trace = folder / "trace"
    write = f"write('{disk}/m.sqlite', 0, '{folder}/told', {count}, 200, 256)"
    calls = "openat,pwrite64,write,ftruncate,fsync,fdatasync,unlink"
    strace = ["strace", "-qq", "-y", "-xx", "-s", "9999999", "-e", f"trace={calls}", "-o", trace]
    python = [sys.executable, "-c", f"from trials.torture import write; {write}"]
    subprocess.run([*strace, *python], check=True, env=os.environ | {"PYTHONPATH": PATHS})
    return trace


def cuts(count, seed=0):
    """Cut the power before each flush that strace saw: later changes are lost, all or some."""
    rng = np.random.default_rng(seed)
    found = Counter(cuts=0, acknowledged=0, lost=0, damaged=0)
    with TemporaryDirectory() as folder:
        disk = Path(folder, "disk")
        left = Path(folder, "left")
        disk.mkdir()
        trace = traced(Path(folder), disk, count)
        for now, safe, text in flushes(trace, bytes(disk)):
            told = gathered(text)
            for kept in (lambda change: False, lambda change: rng.random() < 0.5):
                left.mkdir()
                for path in sorted(now | safe):
                    file = (now if kept(path) else safe).get(path)
                    if file and not path.endswith(b"-shm"):
                        name = Path(os.fsdecode(path)).name
                        (left / name).write_bytes(content(file, kept))
                found["cuts"] += 1
                check(left / "m.sqlite", told, found)
                shutil.rmtree(left)
        found["acknowledged"] = len(told) - 1
    return dict(found)


VALUES = (
    "NULL|''|0|-1|1.5|9e99|x'00'|zeroblob(32)|zeroblob(9999)|CAST(x'ff' AS TEXT)"
    "|9223372036854775807|'9'|'[1,2,3]'"
).split("|")
SQL = """UPDATE entries SET {column} = {value} WHERE place = {i}
UPDATE entries SET {column} = (SELECT {column} FROM entries WHERE place = {j}) WHERE place = {i}
DELETE FROM entries WHERE place = {i}
DELETE FROM entries WHERE place >= {i}
UPDATE entries SET place = {j} + 20 WHERE place = {i}
REPLACE INTO entries SELECT {j}, {others} FROM entries LIMIT 1
UPDATE about SET about = replace(about, 'e', {value})
INSERT INTO about VALUES ({value})
CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE place = {i}; END
CREATE INDEX i ON entries ({column})
DROP TABLE entries; CREATE VIEW entries AS SELECT {value} AS place
PRAGMA writable_schema = ON; UPDATE sqlite_master SET {part} = {value} WHERE name = 'entries'
PRAGMA user_version = 7; VACUUM""".splitlines()
ODD = {  # values by column
    1: [-1, 2**53, 2**62],
    6: ["", "a\0b"],
    7: ["", "a\0b"],
    8: ["", "9"],
    9: [b"", bytes(5), b"\xff" * 32, b"\x7f" * 32, bytes(32), b"\0\0\x80\x3f"],
    10: ["", "{}", "[]", '{"undo":0}', '{"undo":10000000000}', '{"about": {}}', '{"retire":"a"}'],
}


def forge(path, rng):
    """Change a value, and rewrite the chain so that all hashes fit."""
    rows = [list(row) for row in sql(path, [ALL])]
    column = rng.choice([column for column in ODD if column < len(rows[0])])
    place = rng.choice([row[0] for row in rows if row[5]])
    previous = rows[0][3]
    rows[place][column] = ODD[column][rng.integers(len(ODD[column]))]
    for row in rows:
        if row[5]:
            row[2] = commitment(row[5], row[9], *row[6:9], *row[10:])
        row[3] = previous
        row[4] = entry_hash(*row[:4])
        previous = row[4]
    put = f"REPLACE INTO entries VALUES ({', '.join('?' * len(rows[0]))})"
    sql(path, *([put, row] for row in rows))


def edit_rows(path, rng):
    """Change rows or tables by a random statement, which may fail."""
    names = {
        "part": rng.choice(["type", "name", "tbl_name", "rootpage", "sql"]),
        "column": rng.choice(FIELDS.split(", ")),
        "others": FIELDS.removeprefix("place, "),
        "i": rng.integers(20),
        "j": rng.integers(20),
    }
    statement = rng.choice(SQL).format(value=rng.choice(VALUES), **names)
    with closing(sqlite3.connect(path, isolation_level=None)) as base, suppress(sqlite3.Error):
        base.execute("PRAGMA synchronous = OFF")
        base.executescript(statement)


def edit_bytes(path, kind, rng):
    """Change bytes of the file or its log, their number, or a block of them."""
    file = rng.choice(sorted(path.parent.iterdir()))
    raw = bytearray(file.read_bytes())
    at = rng.integers(len(raw))
    other = rng.integers(len(raw))
    n = rng.choice([1, 8, 512, 4096])
    if kind == "bytes":
        for at in rng.integers(rng.choice([600, len(raw)]), size=rng.integers(1, 5)):
            raw[at] ^= rng.integers(1, 256)
    elif kind == "block":
        raw[at : at + n] = raw[other : other + n]
    elif other % 2:
        del raw[at : at + n]
    else:
        raw[at : at + n] = raw[at:] + raw[:n]
    file.write_bytes(raw)


def mutate(path, rng):
    """Change rows, or bytes of the file or its log."""
    kind = rng.choice(["rows", "chain", "bytes", "length", "block"])
    if kind == "chain":
        forge(path, rng)
    elif kind == "rows":
        edit_rows(path, rng)
    else:
        edit_bytes(path, kind, rng)


def noticed(path, head, original):
    """Whether a changed file is refused or reported; it need not be if its content is the same."""
    try:
        with CorrectionMemory.open(path) as memory:
            if memory.verify(head):
                return "reported"
            same = memory.encoder is None and memory.table().equals(original)
            memory.predict(np.ones((1, 8)))
            memory.prove_entry(0)
            memory.correct(np.ones(8), "new")
            return "same content" if same and memory.verify(head) is None else "unnoticed"
    except InputError as error:
        return "not one line" if len(str(error).splitlines()) > 1 else "refused"


def files_to_change(path, rng, acts):
    """Make a memory; return its head, its table, and its files as left open and as closed.

    If ``acts``, some of its entries change what others mean.
    """
    memory = CorrectionMemory.open(path)
    author = "ana " * 3000  # more than a page
    memory.learn(rng.normal(size=(15, 8)), list("abc") * 5, by=author)
    memory.forget(3)
    memory.correct(np.ones(8), "d")
    if acts:
        memory.correct(np.ones(8), "e", replaces=16, about={"ticket": 7})
        memory.undo(memory.rename("a", "f"))
        memory.merge(["b", "c"], "g")
    head = str(memory.head())
    original = memory.table()
    states = [content_of(path.parent)]  # with a log
    memory.close()
    states.append(content_of(path.parent))  # without
    return head, original, states


def content_of(folder):
    files = [file for file in folder.iterdir() if file.suffix != ".sqlite-shm"]
    return {file: file.read_bytes() for file in files}


def mutations(count, seed=0):
    """Change files at random, while a head is kept elsewhere."""
    rng = np.random.default_rng(seed)
    found = Counter(files=count, unnoticed=0)
    times = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with TemporaryDirectory() as folder:
        path = Path(folder, "m.sqlite")
        made = []
        for acts in (False, True):
            made.append(files_to_change(path, rng, acts))
            path.unlink()
        for trial in range(count):
            for file in path.parent.iterdir():
                file.unlink()
            head, original, states = made[trial % 2]
            for file, raw in rng.choice(states).items():
                file.write_bytes(raw)
            mutate(path, rng)
            started = time.perf_counter()
            found[noticed(path, head, original)] += 1
            times.append(time.perf_counter() - started)
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return dict(found) | {"slowest_s": round(max(times), 2), "memory_mb": round(more / 1024)}


def rows():
    """Yield test, case, number of trials, and how many came out as they should."""
    for head, anchored in (("with a head", True), ("without a head", False)):
        reported = [verdict.startswith("reported") for verdict in integrity(anchored).values()]
        yield "Agent Memory Integrity", f"edits reported, {head}", 9, sum(reported)
        for kind, right in tampering(anchored=anchored).items():
            yield "AMTB, 10,000 entries", f"{kind}, {head}", 10 if kind == "intact" else 250, right
    for case, right in proofs().items():
        yield "Proofs", case, 10_000, right
    for test, ordeal, count in (("SIGKILL", kills, 1000), ("Power cut", cuts, 300)):
        found = ordeal(count)
        trials = found.get("cuts", count)
        entries = found["acknowledged"]
        yield test, "files that open whole", trials, trials - found["damaged"]
        yield test, "acknowledged entries kept", entries, entries - found["lost"]
    yield "SIGKILL", "erased entries gone once opened again", *races.erasures(300)
    yield "SIGKILL", "exports whole, the old or the new one", *races.exports(150)
    yield "Witness", "one fork cosigned, the other reported", *races.forks(300)
    yield "Witness", "the same, one of two witnesses killed", *races.forks(300, kill=True)
    yield "Encoders of one name", "one writes, the other is refused", *races.encoders(150)
    found = mutations(10_000)
    print(found)
    yield "Changed files", "refused, reported or the same", 10_000, 10_000 - found["unnoticed"]
    yield from server_rows()


def server_rows():
    """Yield the same of trials on a PostgreSQL server."""
    with serving() as server:
        for test, ordeal, count in (
            ("PostgreSQL, clients killed", ordeals.kills, 200),
            ("PostgreSQL, server stopped at once", ordeals.stops, 20),
        ):
            found = ordeal(server, count)
            yield test, "memories that open whole", count, found["whole"]
            yield from kept(test, found)
        for trouble in ({"delay": 0.05}, {"cut": 0.002}, {"drop": 0.001}):
            (kind,) = trouble
            found = ordeals.network(server, 60, **trouble)
            yield from kept(f"PostgreSQL, a network that {kind}s", found)
        found = ordeals.machines(server, 60)
        yield from kept("PostgreSQL, two machines cut off in turn", found)
        found = ordeals.clocks(server, 30)
        yield from kept("PostgreSQL, clocks an hour off", found)
        entries = found["acknowledged"]
        yield "PostgreSQL, clocks an hour off", "in order of time", entries, entries - found["late"]
        yield "PostgreSQL, a silent client", "others write within 15 s", *ordeals.stuck(server, 5)
        yield "PostgreSQL, a locked table", "refused within 65 s", *ordeals.blocked(server, 3)
        found = ordeals.rush(server, 60)
        print(f"32 writers, 60 s: {len(found)} corrections, the longest took {max(found):.2f} s")
        prompt = sum(wait < 5 for wait in found)
        yield "PostgreSQL, 32 writers for 60 s", "corrections within 5 s", len(found), prompt


def kept(test, found):
    """Rows of what writers told: acknowledged entries, and others that are there once at most."""
    print(test, dict(found))
    entries = found["acknowledged"]
    wrong = found["lost"] + entries * found["damaged"]
    yield test, "acknowledged entries kept", entries, entries - wrong
    told = entries + found["undone"] + found["unknown"]
    yield test, "corrections written once, or not if told so", told, told - found["wrong"]


def main():
    """Try everything, or with the argument ``postgres`` what needs a server; publish counts."""
    only_server = sys.argv[1:] == ["postgres"]
    if only_server:
        trials = tqdm(server_rows(), "trials", total=20)
    else:
        trials = tqdm(rows(), "trials", total=52)
    found = pd.DataFrame(trials, columns=["test", "case", "trials", "right"])
    print(found.to_string())
    Study("memory", ("test", "case"), timed=True).publish(found, keep=only_server)


if __name__ == "__main__":
    main()
