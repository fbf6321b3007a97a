"""Writers of a memory on PostgreSQL, each a process that tells what it was acknowledged."""

import json
import os
import re
import time
from collections import Counter
from contextlib import contextmanager, suppress
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import psycopg
from psycopg.sql import SQL, Identifier

from corrigible import CorrectionMemory, verify
from corrigible.stores.store import Undone
from ocrrlib.files import InputError

D = 8
WRITERS = 4
NAMES = count()
PATIENCE = 60  # seconds that a writer may need to start, or to find its server again


def write(address, seed, told, ahead=0):
    """Correct for ever, with a clock so many seconds ahead; tell outcome and label of each."""
    clock = time.time_ns
    time.time_ns = lambda: clock() + ahead * 10**9
    rng = np.random.default_rng([seed, os.getpid()])
    memory = None
    with open(told, "w") as out:
        for step in count():
            label = f"{seed} {os.getpid()} {step}"
            try:
                if memory is None:
                    memory = CorrectionMemory.open(address)
                outcome = memory.correct(rng.normal(size=D), label)
            except Undone:
                outcome = "undone"
            except InputError:  # no server, or it is not known
                outcome = "unknown"
                memory = closed(memory)
            print(json.dumps([outcome, label]), file=out, flush=True)


def closed(memory):
    """Close a memory, if there is one; None."""
    if memory is not None:
        with suppress(InputError):
            memory.close()
    time.sleep(0.05)


def wait_for(told):
    """Wait until a writer tells of an entry that it was acknowledged."""
    end = time.monotonic() + PATIENCE
    while not re.search(r"^\[\d+,", told.read_text(), re.MULTILINE):
        assert time.monotonic() < end, "a writer writes nothing"
        time.sleep(0.005)


class Crew:
    """Processes that write one memory, each at an address of its own, and what they told."""

    def __init__(self, folder, addresses, ahead=(0,)):
        self.folder = Path(folder)
        self._addresses = addresses
        self._ahead = ahead
        self._files = [self.folder] * len(addresses)
        self._processes = [self._started(n) for n in range(len(addresses))]

    def _started(self, n):
        context = get_context("forkserver")
        # Else importing takes longer than a writer lives.
        context.set_forkserver_preload(["trials.crew", "ocrrlib.systems.neighbours"])
        told = self.folder / f"{len([*self.folder.iterdir()])}.{n}"
        told.touch()
        self._files[n] = told
        ahead = self._ahead[n % len(self._ahead)]
        arguments = self._addresses[n], n, told, ahead
        process = context.Process(target=write, args=arguments, daemon=True)
        process.start()
        return process

    def wait(self, n):
        """Wait until one of them was acknowledged an entry: else its death would show nothing."""
        wait_for(self._files[n])

    def wait_for_more(self):
        """Wait until some were acknowledged more entries than by now."""
        end = time.monotonic() + PATIENCE
        before = self._acknowledged()
        while self._acknowledged() == before:
            assert time.monotonic() < end, "nobody writes any more"
            time.sleep(0.01)

    def _acknowledged(self):
        return sum(isinstance(outcome, int) for outcome, _ in self.told())

    def kill(self, n):
        """Kill one of them."""
        self._processes[n].kill()
        self._processes[n].join()

    def replace(self, n):
        """Kill one of them and start another."""
        self.kill(n)
        self._processes[n] = self._started(n)

    def end(self):
        """Kill all."""
        for n in range(len(self._processes)):
            self.kill(n)

    def told(self):
        """What all told: pairs of outcome and label, without torn last lines."""
        for file in self.folder.iterdir():
            text = file.read_text()
            for line in text[: text.rfind("\n") + 1].splitlines():
                yield json.loads(line)


@contextmanager
def crew(server, base, addresses=None, **how):
    """Let writers write a new memory; yields them, and an address that is not theirs."""
    name = f"m{next(NAMES)}"
    own = f"{server.address(base)}#{name}"
    CorrectionMemory.open(own).close()
    with TemporaryDirectory() as folder:
        theirs = addresses or [server.address(base)] * WRITERS
        writers = Crew(folder, [f"{one}#{name}" for one in theirs], **how)
        try:
            yield writers, own
        finally:
            writers.end()


def stored(address):
    """Place, time and label of all entries."""
    base, _, name = address.partition("#")
    select = SQL("SELECT place, time, label FROM {}.entries ORDER BY place")
    with psycopg.connect(base) as connection:
        return connection.execute(select.format(Identifier(name))).fetchall()


def is_whole(address):
    """Whether a memory is as it was written."""
    fault = verify(address)
    if fault:
        print(address, fault)
    return fault is None


def judged(writers, address):
    """End writers; count what they told, what was lost, and labels that are there wrongly."""
    writers.end()
    rows = stored(address)
    labels = {place: label for place, _, label in rows}
    times = Counter(labels.values())
    found = Counter(damaged=not is_whole(address))
    for outcome, label in writers.told():
        if isinstance(outcome, int):
            found["acknowledged"] += 1
            found["lost"] += labels.get(outcome) != label
        else:
            found[outcome] += 1
        found["wrong"] += times[label] > (outcome != "undone")
    found["late"] = sum(before[1] >= after[1] for before, after in zip(rows, rows[1:]))
    return found
