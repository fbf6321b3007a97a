"""Killed clients, stopped servers and bad networks around a memory on PostgreSQL.

Each trial returns what it counted; `make torture` publishes that.
"""

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager

import numpy as np
import psycopg

from corrigible import CorrectionMemory
from corrigible.proofs.rows import Content
from corrigible.stores import postgres_connection
from ocrrlib.files import InputError
from trials import PATHS
from trials.crew import WRITERS, D, crew, is_whole, judged, stored, wait_for
from trials.proxy import Proxy
from trials.writers import waits

MARGIN = 5  # seconds that a limit may be exceeded by, on a busy machine


def kills(server, number, seed=0, each=20):
    """Kill one of four clients at random instants; a new memory for ``each`` of them."""
    rng = np.random.default_rng(seed)
    base = server.new_base(vector=False)
    found = Counter(trials=number)
    for start in range(0, number, each):
        with crew(server, base) as (writers, address):
            for _ in range(start, min(start + each, number)):
                victim = int(rng.integers(WRITERS))
                writers.wait(victim)
                time.sleep(rng.uniform(0, 0.2))
                writers.replace(victim)
                found["whole"] += is_whole(address)
            found += judged(writers, address)
    return found


def stops(server, number, seed=0):
    """Stop the server at once, and start it again, while four clients write."""
    rng = np.random.default_rng(seed)
    found = Counter(trials=number)
    with crew(server, server.new_base(vector=False)) as (writers, address):
        for _ in range(number):
            time.sleep(rng.uniform(0, 1))
            server.stop("immediate")
            server.start()
            found["whole"] += is_whole(address)
            writers.wait_for_more()
        return found + judged(writers, address)


def network(server, seconds, seed=0, **trouble):
    """Let four clients write for some seconds over a network in ``trouble``, see ``Proxy``."""
    base = server.new_base(vector=False)
    proxy = Proxy(server.socket, seed=seed, **trouble)
    with proxy.running() as port:
        address = f"postgresql://postgres@127.0.0.1:{port}/{base}"
        with crew(server, base, [address] * WRITERS) as (writers, own):
            time.sleep(seconds)
            while proxy.cut and not proxy.cuts:  # it is drawn
                time.sleep(0.01)
            found = judged(writers, own)
    return found + Counter(cuts=proxy.cuts, drops=proxy.drops)


def clocks(server, seconds):
    """Let three clients write whose clocks are an hour ahead, right, and an hour behind."""
    base = server.new_base(vector=False)
    addresses = [server.address(base)] * 3
    with crew(server, base, addresses, ahead=(3600, 0, -3600)) as (writers, address):
        for number in range(len(addresses)):
            writers.wait(number)
        time.sleep(seconds)
        return judged(writers, address)


@contextmanager
def machine(number):
    """A network namespace of its own, or none without the right to make one.

    Yields the command that runs others there, and the address of this machine as seen from there.
    """
    if os.geteuid():
        yield [], "127.0.0.1"
        return
    name = f"ocrr{os.getpid()}n{number}"
    ours = f"oc{os.getpid()}a{number}"
    theirs = f"oc{os.getpid()}b{number}"
    net = f"10.{200 + number}.{os.getpid() % 250}"
    setup = (
        f"netns add {name}",
        f"link add {ours} type veth peer name {theirs} netns {name}",
        f"addr add {net}.1/24 dev {ours}",
        f"link set {ours} up",
        f"-n {name} addr add {net}.2/24 dev {theirs}",
        f"-n {name} link set {theirs} up",
    )
    try:
        for command in setup:
            subprocess.run(["ip", *command.split()], check=True)
        yield ["ip", "netns", "exec", name], f"{net}.1"
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def machines(server, seconds):
    """Let two machines write, the network of each of which is down for a second in turn."""
    base = server.new_base(vector=False)
    with ExitStack() as stack:
        writers, own = stack.enter_context(crew(server, base))
        writers.end()
        name = own.partition("#")[2]
        proxies = []
        processes = []
        files = []
        for number in range(2):
            prefix, host = stack.enter_context(machine(number))
            proxies.append(Proxy(server.socket))
            port = stack.enter_context(proxies[number].running(host))
            address = f"postgresql://postgres@{host}:{port}/{base}#{name}"
            told = writers.folder / f"machine{number}"
            told.touch()
            files.append(told)
            code = f"from trials.crew import write; write({address!r}, {number}, {str(told)!r})"
            command = [*prefix, sys.executable, "-c", code]
            env = os.environ | {"PYTHONPATH": PATHS}
            processes.append(subprocess.Popen(command, env=env))
        for told in files:
            wait_for(told)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for proxy in proxies:
                time.sleep(1)
                proxy.cut = 1.0
                time.sleep(1)
                proxy.cut = 0.0
        for process in processes:
            process.kill()
            process.wait()
        found = judged(writers, own)
    return found + Counter(cuts=sum(proxy.cuts for proxy in proxies))


def stuck(server, number):
    """Let a client fall silent within a write: others go on, and its entry is written after theirs.

    Returns the trials, and those that came out so.
    """
    address = f"{server.address(server.new_base(vector=False))}#m"
    right = 0
    for _ in range(number):
        with CorrectionMemory.open(address) as silent, CorrectionMemory.open(address) as other:
            size = len(other)
            inside = threading.Event()

            def contents():
                if not inside.is_set():
                    inside.set()
                    time.sleep(postgres_connection.IDLE + MARGIN / 2)
                return [Content("late", "", None, np.eye(D, dtype=np.float32)[0].tobytes())]

            thread = threading.Thread(target=silent._ledger.write, args=[contents])
            thread.start()
            inside.wait()
            started = time.monotonic()
            other.correct(np.ones(D), "other", again=True)
            waited = time.monotonic() - started
            thread.join()
            is_in_time = waited < postgres_connection.IDLE + MARGIN
            labels = [label for _, _, label in stored(address)[size:]]
            right += is_in_time and labels == ["other", "late"]
    return number, right


def blocked(server, number):
    """Lock the table against a client: it is told in one line, and writes once that is over.

    Returns the trials, and those that came out so.
    """
    base = server.address(server.new_base(vector=False))
    right = 0
    with CorrectionMemory.open(f"{base}#m") as memory, psycopg.connect(base) as connection:
        for _ in range(number):
            size = len(memory)
            connection.execute("LOCK TABLE m.entries IN ACCESS EXCLUSIVE MODE")
            started = time.monotonic()
            try:
                memory.correct(np.ones(D), "blocked")
                said = ""
            except InputError as error:
                said = str(error)
            limit = 2 * postgres_connection.REPLY + MARGIN  # it tries twice: the promised minute
            is_in_time = time.monotonic() - started < limit
            connection.rollback()
            memory.correct(np.ones(D), "free", again=True)
            right += len(said.splitlines()) == 1 and is_in_time and len(memory) == size + 1
    return number, right


def rush(server, seconds, processes=8, threads=4):
    """Let writers of some processes and threads correct for some seconds: what each took."""
    address = f"{server.address(server.new_base(vector=False))}#m"
    CorrectionMemory.open(address).close()
    found = waits(address, seconds, (threads,) * processes)
    with CorrectionMemory.open(address) as memory:
        assert len(memory) == len(found), "corrections were lost"
    return found
