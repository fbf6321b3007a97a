"""Threads and processes that correct one memory at once, and how long each correction took."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np

from corrigible import CorrectionMemory

THREADS = 8, 1, 1, 1, 1  # of each process
DIM = 384


def corrections(memory, seed, begin, seconds):
    """Correct random vectors for some seconds; return the seconds that each took."""
    X = np.random.default_rng(seed).standard_normal((1000, DIM), dtype=np.float32)
    waits = []
    begin.wait()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        started = time.perf_counter()
        memory.correct(X[len(waits) % len(X)], f"class {len(waits) % 150}", again=True)
        waits.append(time.perf_counter() - started)
    return waits


def process(path, seed, threads, seconds, begin, out):
    """Correct from threads that share a memory, and put the seconds that each correction took."""
    local = threading.Event()
    with CorrectionMemory.open(path) as memory, ThreadPoolExecutor(threads) as pool:
        jobs = [
            pool.submit(corrections, memory, [seed, thread], local, seconds)
            for thread in range(threads)
        ]
        begin.wait()
        local.set()
        out.put([wait for job in jobs for wait in job.result()])


def waits(path, seconds, threads=THREADS):
    """Let processes of so many threads correct one memory at once; the seconds of all."""
    context = get_context("spawn")
    begin = context.Barrier(len(threads))
    out = context.Queue()
    processes = [
        context.Process(target=process, args=(path, seed, each, seconds, begin, out))
        for seed, each in enumerate(threads)
    ]
    for one in processes:
        one.start()
    found = [wait for _ in processes for wait in out.get()]
    for one in processes:
        one.join()
    return found
