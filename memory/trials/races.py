"""Processes that meet or are killed: witnesses, erasures, exports, two encoders of one name.

Each trial returns the number of its cases, and of those that came out as they should; `make
torture` publishes them.
"""

import secrets
import shutil
import time
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from corrigible import COSIGNATURE, CorrectionMemory, Head, Key, request, witness
from corrigible.proofs.tree import Tree
from ocrrlib.chain import Fault
from ocrrlib.embeddings import halve, widen
from ocrrlib.files import InputError, write_text

D = 8
LOG = Key.new("log", seed=bytes(32))
WITNESS = Key.new("witness", COSIGNATURE, seed=bytes(32))
EXPORTS = {
    "csv": pd.read_csv,
    "parquet": pd.read_parquet,
    "jsonl": partial(pd.read_json, lines=True),
}


def started(target, *arguments):
    """Start a process."""
    context = get_context("forkserver")
    # Else importing takes longer than a process lives.
    context.set_forkserver_preload(["trials.races", "ocrrlib.systems.neighbours"])
    process = context.Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


def killed(process, told, rng, longest):
    """Kill a process within so many seconds of its first line in ``told``; return the lines."""
    while process.is_alive() and not (told.exists() and told.read_bytes()):
        time.sleep(0.001)
    time.sleep(rng.uniform(0, longest))
    process.kill()
    process.join()
    text = told.read_text()
    return text[: text.rfind("\n") + 1].splitlines()  # without a torn last line


# Witnesses


def forked(seed):
    """A signed head, and two heads that extend it and contradict each other."""
    rng = np.random.default_rng(seed)
    base = [rng.bytes(32) for _ in range(3)]
    requests = []
    for _ in range(2):
        tree = Tree([*base, rng.bytes(32)])
        head = Head("log-0", 4, tree.root(4), "2026-11-25T10:00:00Z").signed(LOG)
        requests.append((head, request(3, tree.consistency_proof(3, 4), head)))
    first = Head("log-0", 3, tree.root(3), "2026-11-25T09:00:00Z").signed(LOG)
    return first, requests


def ask(text, state, told, at):
    """Ask a witness at a time, and tell the answer."""
    time.sleep(max(0, at - time.monotonic()))
    answer = witness(text, state, WITNESS, [LOG])
    with open(told, "w") as out:
        print("cosigned" if isinstance(answer, Head) else "reported", file=out, flush=True)


def forks(count, kill=False, seed=0):
    """Ask two witnesses with one state for two forks at once, and kill one of them.

    One fork is to be cosigned, the other reported; a killed witness is asked again.
    """
    rng = np.random.default_rng(seed)
    right = 0
    with TemporaryDirectory() as folder:
        for trial in range(count):
            state = Path(folder, f"{trial}")
            first, requests = forked(trial)
            if trial % 2:
                write_text(state, str(first))
            at = time.monotonic() + 0.02
            told = [state.with_suffix(f".{i}") for i in range(2)]
            processes = [
                started(ask, text, state, file, at) for (_, text), file in zip(requests, told)
            ]
            if kill:
                time.sleep(max(0, at - time.monotonic()) + rng.uniform(0, 0.03))
                processes[0].kill()
            for process in processes:
                process.join()
            answers = [file.read_text().split() if file.exists() else [] for file in told]
            if kill:
                for (head, _), answer in zip(requests, answers):
                    again = witness(request(4, [], head), state, WITNESS, [LOG])
                    answer.append("reported" if isinstance(again, Fault) else "cosigned")
            right += sorted({*answer} for answer in answers) in (
                [{"cosigned"}, {"reported"}],
                [{"reported"}, {"cosigned"}],
            )
    return count, right


# Erasures


def forget(path, told):
    """Forget one entry after the other, and tell of each."""
    with open(told, "w") as out, CorrectionMemory.open(path) as memory:
        for place in range(len(memory)):
            print(place, file=out, flush=True)
            memory.forget(place)


def confidential(path, n):
    """Make a memory; return what is to be erased of each entry, as bytes."""
    X = widen(halve(np.random.default_rng(0).normal(size=(n, D))))
    entries = []
    with CorrectionMemory.open(path) as memory:
        for place, x in enumerate(X):
            text, label, author = (secrets.token_hex(12) for _ in range(3))
            long = text * (300 if place % 3 == 0 else 1)  # more than a page
            memory.correct(long, label, author, vector=x)
            entries.append([x.tobytes(), text.encode(), label.encode(), author.encode()])
    return entries


def erasures(count, seed=0, n=40):
    """Kill processes that forget, open the file again, and look for what was erased."""
    rng = np.random.default_rng(seed)
    erased = 0
    gone = 0
    with TemporaryDirectory() as folder:
        whole = Path(folder, "whole.sqlite")
        entries = confidential(whole, n)
        for kill in range(count):
            path = Path(folder, f"{kill}", "m.sqlite")
            path.parent.mkdir()
            shutil.copy(whole, path)
            told = Path(folder, f"{kill}.told")
            done = len(killed(started(forget, path, told), told, rng, 0.2)) - 1
            with CorrectionMemory.open(path) as memory:
                content = b"".join(file.read_bytes() for file in path.parent.iterdir())
                left = [any(word in content for word in entry) for entry in entries]
                for place in range(n):
                    if place < done or "x" not in memory.entry(place):
                        erased += 1
                        gone += not left[place]
            shutil.rmtree(path.parent)
    return erased, gone


# Exports


def export(path, out, told):
    """Learn an entry and export all, again and again, and tell how many there are."""
    with open(told, "w") as done, CorrectionMemory.open(path) as memory:
        while True:
            memory.export(out)
            print(len(memory), file=done, flush=True)
            memory.correct(np.ones(D), f"class {len(memory)}")


def exports(count, seed=0, n=2000):
    """Kill processes that export over an export; it is to be whole, the old one or the new one."""
    rng = np.random.default_rng(seed)
    right = 0
    with TemporaryDirectory() as folder:
        path = Path(folder, "m.sqlite")
        with CorrectionMemory.open(path) as memory:
            memory.learn(rng.normal(size=(n, D)), [f"class {i}" for i in range(n)])
        for kill in range(count):
            suffix = list(EXPORTS)[kill % len(EXPORTS)]
            out = Path(folder, f"out.{suffix}")
            told = Path(folder, f"{kill}.told")
            sizes = killed(started(export, path, out, told), told, rng, 0.3)
            try:
                found = EXPORTS[suffix](out)
            except ValueError:  # not to be read
                continue
            size = len(found)
            whole = found["label"].tolist() == [f"class {i}" for i in range(size)]
            right += whole and int(sizes[-1]) <= size <= int(sizes[-1]) + 1
    return count, right


# Encoders


class Projection:
    """An encoder whose name says nothing of its seed."""

    def __init__(self, seed):
        self.seed = seed

    def encode(self, texts):
        counts = np.array([[text.count(letter) for letter in "0123456789abcdef"] for text in texts])
        return (1 + counts) @ np.random.default_rng(self.seed).normal(size=(16, D))


def learn(path, seed, told, at):
    """Open a file with an encoder at a time, write texts, and tell how that went."""
    time.sleep(max(0, at - time.monotonic()))
    try:
        with CorrectionMemory.open(path, Projection(seed)) as memory:
            for _ in range(3):
                memory.correct(secrets.token_hex(20), "label")
        verdict = "written"
    except InputError:
        verdict = "refused"
    write_text(told, verdict)


def encoders(count):
    """Write to new files with two encoders of one name at once; one of them is to be refused."""
    right = 0
    with TemporaryDirectory() as folder:
        for trial in range(count):
            path = Path(folder, f"{trial}.sqlite")
            told = [path.with_suffix(f".{seed}") for seed in range(2)]
            at = time.monotonic() + 0.02
            processes = [started(learn, path, seed, told[seed], at) for seed in range(2)]
            for process in processes:
                process.join()
            verdicts = [file.read_text() for file in told]
            if sorted(verdicts) != ["refused", "written"]:
                continue
            with CorrectionMemory.open(path, Projection(verdicts.index("written"))) as memory:
                entries = memory.table()
            rows = Projection(verdicts.index("written")).encode(entries["text"])
            x = np.array([np.frombuffer(x, np.float32) for x in entries["x"]])
            right += len(entries) == 3 and np.allclose(x, widen(halve(rows)))
    return count, right
