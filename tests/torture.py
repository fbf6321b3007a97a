"""Kills, power cuts and changed files of the correction memory: `make torture` publishes how it stands them."""

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

from ocrrlib import CorrectionMemory
from ocrrlib.chain import commitment, entry_hash
from ocrrlib.files import ROOT, InputError
from ocrrlib.memory.file import FIELDS
from studies.results import Study
from tests.auditor import ALL, PUT, integrity, proofs, sql, tampering


def write(path, seed, told, steps=10**9, many=60, d=8, rest=0):
    """Correct, learn, forget and open again; tell of each in a file once it is done: places, their label, head."""
    rng, memory, places, told = np.random.default_rng(seed), None, [], open(told, "w")
    for step in range(steps):
        time.sleep(rng.uniform(0, rest))
        if step % 40 == 0:
            memory = memory and memory.close() or CorrectionMemory.open(path)
        if forgets := step % 10 == 9 and not rest:
            print(
                json.dumps([places[:1], "?", str(memory.head())]), file=told, flush=True
            )  # may be erased from now on
            memory.forget(places[0])
        else:
            X, label = rng.normal(size=(many if step % 5 == 4 else 1, d)), f"{seed} {step}"
            places = (
                [*memory.learn(X, [label] * len(X))]
                if len(X) > 1
                else [memory.correct(X[0], label)]
            )
        done = [places[:1], None] if forgets else [places, label]
        print(json.dumps([*done, str(memory.head())]), file=told, flush=True)
    memory.close()


def gathered(text):
    """What was told: labels by place, and the newest head as "head"."""
    told = {}
    for places, label, head in map(json.loads, text[: text.rfind(b"\n") + 1].splitlines()):
        told |= dict.fromkeys(places, label) | {"head": head}
    return told


def check(path, told, found):
    """Count a damaged file, and entries that are not as was told."""
    try:
        with CorrectionMemory.open(path) as memory:
            if fault := memory.verify(*filter(None, [told.get("head")])):
                raise InputError(f"{path}: {fault}")
        labels = dict(sql(path, ["SELECT place, label FROM entries"])) | {"head": told.get("head")}
        found["lost"] += sum(
            labels.get(place, "") != label for place, label in told.items() if label != "?"
        )
    except InputError as error:
        found["damaged"] += 1
        print(error)


def started(path, seed, rest=0):
    """A process that writes for ever, and the file in which it tells."""
    context, told = get_context("forkserver"), path.with_suffix(f".{seed}")
    context.set_forkserver_preload(["ocrrlib.memory.memory"])
    process = context.Process(
        target=write, args=(path, seed, told), kwargs={"rest": rest}, daemon=True
    )
    process.start()
    return process, told


def kills(count, seed=0, each=20):
    """Kill writers at random instants while another one writes, too; a new file for ``each`` of them."""
    rng, found = (
        np.random.default_rng(seed),
        Counter(kills=count, acknowledged=0, lost=0, damaged=0),
    )
    with TemporaryDirectory() as folder:
        for kill in range(count):
            if kill % each == 0:
                path, told = Path(folder, f"{kill}.sqlite"), {}
                other = started(path, kill + count, rest=0.05)
            one, last = started(path, kill), kill % each == each - 1 or kill == count - 1
            time.sleep(rng.uniform(0, 0.1))
            for process, _ in [one, other] if last else [one]:
                process.kill()
                process.join()
            for _, file in (one, other):
                told |= gathered(file.read_bytes() if file.exists() else b"")
            check(path, told, found)
            if last:
                found["acknowledged"] += len(told) - 1
    return dict(found)


def content(file, kept=lambda change: True):
    """Content as of the last flush, with those later changes for which ``kept(change)``."""
    data = file["flushed"][:]
    for at, new in filter(kept, file["later"]):
        data.extend(bytes(max(0, at - len(data))))
        data[at : at + len(new) if new else None] = new
    return data


def flushes(trace, folder):
    """Yield files now, those as of the last flush of the folder, and what was told, before each flush in a trace."""
    now, safe, told = {}, {}, b""
    for line in trace.read_bytes().replace(b"\\x", b"").splitlines():
        name, _, rest = line.partition(b"(")
        path, *data = [
            bytes.fromhex(hex.decode()) for hex in re.findall(rb'[<"]([0-9a-f]+)[>"]', rest)
        ] or [b""]
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


def cuts(count, seed=0):
    """Cut the power before each flush that strace saw: all later changes are lost, or some of them."""
    rng, found = np.random.default_rng(seed), Counter(cuts=0, acknowledged=0, lost=0, damaged=0)
    with TemporaryDirectory() as folder:
        disk, left, trace = (Path(folder, name) for name in ("disk", "left", "trace"))
        disk.mkdir()
        code = f"from tests.torture import write; write('{disk}/m.sqlite', 0, '{folder}/told', {count}, 200, 256)"
        strace = "strace -qq -y -xx -s 9999999 -e trace=openat,pwrite64,write,ftruncate,fsync,fdatasync,unlink -o"
        command = [*strace.split(), trace, sys.executable, "-c", code]
        subprocess.run(command, check=True, cwd=ROOT)
        for now, safe, text in flushes(trace, bytes(disk)):
            told = gathered(text)
            for kept in (lambda change: False, lambda change: rng.random() < 0.5):
                left.mkdir()
                for path in sorted(now | safe):
                    if (file := (now if kept(path) else safe).get(path)) and not path.endswith(
                        b"-shm"
                    ):
                        (left / Path(os.fsdecode(path)).name).write_bytes(content(file, kept))
                found["cuts"] += 1
                check(left / "m.sqlite", told, found)
                shutil.rmtree(left)
        found["acknowledged"] = len(told) - 1
    return dict(found)


VALUES = "NULL|''|0|-1|1.5|9e99|x'00'|zeroblob(32)|zeroblob(9999)|CAST(x'ff' AS TEXT)|9223372036854775807|'9'|'[1,2,3]'"
SQL = """UPDATE entries SET {column} = {value} WHERE place = {i}
UPDATE entries SET {column} = (SELECT {column} FROM entries WHERE place = {j}) WHERE place = {i}
DELETE FROM entries WHERE place = {i}
DELETE FROM entries WHERE place >= {i}
UPDATE entries SET place = {j} + 20 WHERE place = {i}
REPLACE INTO entries SELECT {j}, time, commitment, previous, hash, salt, label, author, text, x FROM entries LIMIT 1
UPDATE about SET about = replace(about, 'e', {value})
INSERT INTO about VALUES ({value})
CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE place = {i}; END
CREATE INDEX i ON entries ({column})
DROP TABLE entries; CREATE VIEW entries AS SELECT {value} AS place
PRAGMA writable_schema = ON; UPDATE sqlite_master SET {part} = {value} WHERE name = 'entries'
PRAGMA user_version = 7; VACUUM""".splitlines()
ODD = {  # by column
    **{1: [-1, 2**53, 2**62], 6: ["", "a\0b"], 7: ["", "a\0b"], 8: ["", "9"]},
    9: [b"", bytes(5), b"\xff" * 32, b"\x7f" * 32, bytes(32), b"\0\0\x80\x3f"],
}


def forge(path, rng):
    """Change a value, and rewrite the chain so that all hashes fit."""
    rows = [*map(list, sql(path, [ALL]))]
    column, changed, previous = (
        rng.choice(list(ODD)),
        rng.choice([row[0] for row in rows if row[5]]),
        rows[0][3],
    )
    rows[changed][column] = ODD[column][rng.integers(len(ODD[column]))]
    for row in rows:
        row[2] = commitment(row[5], row[9], *row[6:9]) if row[5] else row[2]
        row[3], row[4] = previous, (previous := entry_hash(*row[:3], previous))
    sql(path, *([PUT, row] for row in rows))


def mutate(path, rng):
    """Change rows, or bytes of the file or its log."""
    if (kind := rng.choice(["rows", "chain", "bytes", "length", "block"])) == "chain":
        return forge(path, rng)
    if kind == "rows":
        part, column = (
            rng.choice(["type", "name", "tbl_name", "rootpage", "sql"]),
            rng.choice(FIELDS.split(", ")),
        )
        names = {"part": part, "column": column, "i": rng.integers(20), "j": rng.integers(20)}
        with closing(sqlite3.connect(path, isolation_level=None)) as base, suppress(sqlite3.Error):
            base.execute("PRAGMA synchronous = OFF")
            base.executescript(rng.choice(SQL).format(value=rng.choice(VALUES.split("|")), **names))
        return
    file = rng.choice(sorted(path.parent.iterdir()))
    raw = bytearray(file.read_bytes())
    at, other, n = rng.integers(len(raw)), rng.integers(len(raw)), rng.choice([1, 8, 512, 4096])
    if kind == "bytes":
        for at in rng.integers(rng.choice([600, len(raw)]), size=rng.integers(1, 5)):
            raw[at] ^= rng.integers(1, 256)
    else:
        raw[at : at + n] = (
            raw[other : other + n] if kind == "block" else b"" if other % 2 else raw[at:] + raw[:n]
        )
    file.write_bytes(raw)


def noticed(path, head, original):
    """How a changed file is noticed: refused or reported; it need not be if its content is the same."""
    try:
        with CorrectionMemory.open(path) as memory:
            if memory.verify(head):
                return "reported"
            same = memory.encoder is None and memory.table().equals(original)
            memory.predict(np.ones((1, 8))), memory.prove(0), memory.correct(np.ones(8), "new")
            return "same content" if same and memory.verify(head) is None else "unnoticed"
    except InputError as error:
        return "not one line" if len(str(error).splitlines()) > 1 else "refused"


def mutations(count, seed=0):
    """Change files at random, while a head is kept elsewhere."""
    rng, found, times, states = (
        np.random.default_rng(seed),
        Counter(files=count, unnoticed=0),
        [],
        [],
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with TemporaryDirectory() as folder:
        memory = CorrectionMemory.open(path := Path(folder, "m.sqlite"))
        memory.learn(
            rng.normal(size=(15, 8)), list("abc") * 5, by="ana " * 3000
        )  # more than a page
        memory.forget(3)
        memory.correct(np.ones(8), "d")
        head, original = str(memory.head()), memory.table()
        for leave in (lambda: None, memory.close):  # with a log, without
            leave()
            states.append(
                {
                    file: file.read_bytes()
                    for file in path.parent.iterdir()
                    if file.suffix != ".sqlite-shm"
                }
            )
        for _ in range(count):
            for file in path.parent.iterdir():
                file.unlink()
            for file, raw in rng.choice(states).items():
                file.write_bytes(raw)
            mutate(path, rng)
            started = time.perf_counter()
            found[noticed(path, head, original)] += 1
            times.append(time.perf_counter() - started)
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return dict(found) | {"slowest_s": round(max(times), 2), "memory_mb": round(more / 1024)}


def rows():
    """How many of each trial came out as they should: test, case, trials, right."""
    for head, anchored in (("with a head", True), ("without a head", False)):
        reported = [verdict.startswith("reported") for verdict in integrity(anchored).values()]
        yield "Agent Memory Integrity", f"edits reported, {head}", 9, sum(reported)
        for kind, right in tampering(anchored=anchored).items():
            yield "AMTB, 10,000 entries", f"{kind}, {head}", 10 if kind == "intact" else 250, right
    for case, right in proofs().items():
        yield "Proofs", case, 10_000, right
    for test, ordeal, count in (("SIGKILL", kills, 1000), ("Power cut", cuts, 300)):
        found = ordeal(count)
        yield (
            test,
            "files that open whole",
            found.get("cuts", count),
            found.get("cuts", count) - found["damaged"],
        )
        yield (
            test,
            "acknowledged entries kept",
            found["acknowledged"],
            found["acknowledged"] - found["lost"],
        )
    found = mutations(10_000)
    print(found)
    yield "Changed files", "refused, reported or the same", 10_000, 10_000 - found["unnoticed"]


def main():
    found = pd.DataFrame(
        tqdm(rows(), "trials", total=27), columns=["test", "case", "trials", "right"]
    )
    print(found.to_string())
    Study("memory", ("test", "case"), timed=True).publish(found, keep=False)


if __name__ == "__main__":
    main()
