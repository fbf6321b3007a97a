"""Speed and memory as ratios in one run: `make bench` writes build/bench.json (8 minutes).

A ratio holds on any machine: against a plain loop, a bare commit, reading memory, hashing a file,
the encoder alone. Times of one machine are in no target.
"""

import gc
import json
import os
import platform
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, contextmanager
from hashlib import file_digest
from typing import NamedTuple

import numpy as np
import psutil
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from threadpoolctl import threadpool_limits

from corrigible import CorrectionMemory
from corrigible.ledger_encoder import PROBES
from corrigible.service.app import make_app
from corrigible.service.connection import TimedProtocol
from ocrrlib.datasets import load_texts
from ocrrlib.embeddings import encode, load
from ocrrlib.encoders import DEFAULT_ENCODER, load_encoder
from ocrrlib.experiments import OURS
from ocrrlib.files import ROOT, InputError, write_text
from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario
from ocrrlib.search import ALONE, CODED_AFTER, Entries, top_k
from ocrrlib.stream import run_stream
from ocrrlib.systems import make
from trials.load import CLIENTS, served
from trials.servers import serving
from trials.writers import THREADS, waits


class Ratio(NamedTuple):
    """A ratio that is to be at most the ``target``, its ``last`` value, and why it was missed."""

    target: float
    last: float | None = None
    cause: str = ""


RATIOS: dict[str, Ratio] = {
    # A run of the substrate over the plain formulas, row by row; one thread.
    "fast_over_plain_loop": Ratio(1 / 28, 0.032),
    # A correction and the next prediction.
    "ours_over_substrate": Ratio(
        2, 3.205, "3.2 to 4.2: the substrate's search has codes, and codes of classes gain nothing"
    ),
    # An entry's correction over appending its row to a list.
    "append_over_plain_append": Ratio(10, 30.041, "half of it checks the row"),
    # Processor time of a search with int8 codes over one in float32.
    "codes_over_float32_100k": Ratio(
        1 / 5, 0.569, "codes come from memory at 12 GB/s here; 0.13 on another processor"
    ),
    "codes_over_float32_256_of_10k": Ratio(
        1 / 4, 0.631, "maxima and cosines in NumPy; 0.37 on another processor"
    ),
    # A durable correction over a bare commit of as many bytes. Where a commit takes longer than
    # some tenths of a millisecond, as on most disks, Python's share is small.
    "correct_over_commit_10k": Ratio(
        1.4, 2.02, "0.3 ms of Python; 3.8 where a commit takes 0.15 ms"
    ),
    "correct_over_commit_1m": Ratio(
        1.4, 1.826, "0.3 ms of Python; 5.8 where a commit takes 0.15 ms"
    ),
    "server_correct_over_commit_10k": Ratio(
        2, 3.862, "1 ms of Python beside a commit of 0.2 to 0.7 ms"
    ),
    "server_correct_over_commit_1m": Ratio(
        2, 3.402, "1 ms of Python beside a commit of 0.2 to 0.4 ms"
    ),
    # Twelve writers of one file: seconds a correction over those of one writer; longest wait over
    # the time in which each has a turn.
    "many_writers_over_one": Ratio(1, 1.49, "five processes take turns at the lock"),
    "longest_wait_over_turn": Ratio(100, 22.791),
    # Of a million entries: SHA-256 of the file is what opening and verifying cannot do without.
    "open_over_hashing_1m": Ratio(
        5, 9.531, "each entry's row and hashes in Python; 5.7 on another processor"
    ),
    "learn_over_hashing_1m": Ratio(
        20, 49.152, "each entry's row and hashes in Python; 25 on another processor"
    ),
    "memory_over_vectors_1m": Ratio(1.4, 1.021),
    "first_answer_over_next_100k": Ratio(50, 44.676),
    "predict_100k_over_reading": Ratio(1.5, 0.82),
    # Of vectors: over predicting as many.
    "review_1k_over_predict": Ratio(2, 0.842),
    "suspects_10k_over_predict": Ratio(2, 0.472),
    # The service, 200 clients: the encoder alone over answers; longest wait over a fair turn.
    "encoder_over_served": Ratio(1 / 0.9, 0.783),
    "served_longest_over_turn": Ratio(3, 1.948),
    # The same without an encoder: answers a second of a bare FastAPI route, over the service's.
    "fastapi_over_served_alone": Ratio(
        3, 3.207, "2.8 to 3.2: checks of the request, and 0.15 ms of an answer"
    ),
    "alone_longest_over_turn": Ratio(3, 2.308),
    # Processor time of a fresh process.
    "ocrr_help_over_typer": Ratio(2, 1.551),
    "import_memory_over_numpy": Ratio(3, 1.73),
}


class PlainSubstrate:
    """The substrate as first written: one query at a time, all entries compared and sorted."""

    def fit(self, X, y, classes):
        self.X = X
        self.y = y.tolist()

    def predict_one(self, x):
        cosines = self.X @ x
        best = np.argsort(-cosines, kind="stable")[:5]
        band = [self.y[i] for i in best if cosines[i] >= cosines[best[0]] - 0.05]
        return Counter(band).most_common(1)[0][0]

    def correct(self, x, y):
        self.X = np.vstack([self.X, x])
        self.y.append(y)


def plain_loop(s):
    """The substrate's cell, row by row: stream, corrections, and both test sets every 50 items."""
    system = PlainSubstrate()
    system.fit(s.X_initial, s.y_initial, s.classes)
    for i in range(len(s.y_stream) + 1):
        if i % 50 == 0 or i == len(s.y_stream):
            tests = (s.X_novel, s.y_novel), (s.X_original, s.y_original)
            finals = [np.mean([system.predict_one(x) == y for x, y in zip(X, Y)]) for X, Y in tests]
        if i < len(s.y_stream) and system.predict_one(s.X_stream[i]) != s.y_stream[i]:
            system.correct(s.X_stream[i], int(s.y_stream[i]))
    return finals


def items(system, s):
    """Median seconds of a correction and the prediction after it."""
    system.fit(s.X_initial, s.y_initial, s.classes)
    pairs = zip(s.X_stream[:100], s.y_stream[:100].tolist(), s.X_novel[:100])
    return np.median(
        [timed(lambda: (system.correct(x, y), system.predict(q[None])))[0] for x, y, q in pairs]
    )


def bench_streams(scenarios):
    """Ratios: fast loop to plain one, ours to the substrate, an entry's append to a list's.

    The first is the median over scenarios: of each, the first run, which has no work in common with
    others. The last two are of the first scenario.
    """
    turns = []
    for s in scenarios:
        fast, checkpoints = timed(
            lambda s=s: list(run_stream(make("substrate"), s, POLICIES["oracle"]))
        )
        plain, finals = timed(plain_loop, s)
        turns.append(fast / plain)
        last = checkpoints[-1]
        assert np.allclose(finals, [last.novel_acc, last.original_acc]), "the loops disagree"
    s = scenarios[0]
    substrate = make("substrate").fit(s.X_initial, s.y_initial, s.classes)
    corrections = list(zip(s.X_stream, s.y_stream.tolist()))
    appends = []
    for _ in range(5):  # the first list gets new memory, which takes longer
        appended, _ = timed(lambda: [substrate.correct(x, y) for x, y in corrections])
        bare, _ = timed(lambda: [(x.copy(), y) for x, y in corrections])
        appends.append([appended, bare])
    appended, bare = np.median(appends, axis=0)
    return {
        "fast_over_plain_loop": np.median(turns),
        "ours_over_substrate": items(make(OURS), s) / items(make("substrate"), s),
        "append_over_plain_append": appended / bare,
    }


def commits(memory, X):
    """Median seconds of a durable correction over those of a bare commit of as many bytes.

    Both are taken in turns, with vectors X (n, d) that are not stored yet.
    """
    with closing(sqlite3.connect(memory.path.with_name("bare"), isolation_level=None)) as bare:
        for statement in (
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous = FULL",
            "CREATE TABLE IF NOT EXISTS t (x)",
        ):
            bare.execute(statement)
        pairs = []
        for x in X:
            content = x.tobytes() + bytes(200)
            plain, _ = timed(lambda: bare.execute("INSERT INTO t VALUES (?)", [content]))
            pairs.append((timed(memory.correct, x, "new")[0], plain))
    ours, plain = np.median(pairs, axis=0)
    return ours / plain


def used(n, folder, dim=384):
    """Ratios of a correction memory of ``n`` random vectors."""
    rng = np.random.default_rng(0)
    here = psutil.Process()
    path = f"{folder}/{n}.sqlite"
    with CorrectionMemory.open(path) as memory:
        X = rng.standard_normal((n, dim), dtype=np.float32)
        labels = rng.integers(0, 150, n).astype(str)
        learnt, _ = timed(memory.learn, X, labels)
    del X, memory
    gc.collect()
    with open(path, "rb") as file:
        hashed, _ = timed(file_digest, file, "sha256")
    before = here.memory_info().rss
    opened, memory = timed(CorrectionMemory.open, path)
    with memory:
        held = here.memory_info().rss - before
        X = memory.counted.X
        first, _ = timed(memory.predict, X[0].copy())
        for x in X[: CODED_AFTER // ALONE].copy():  # after which entries have codes
            memory.predict(x)
        asked = np.median([timed(memory.predict, x)[0] for x in X[:20].copy()])
        read = np.median([timed(X.view(np.int32).max)[0] for _ in range(20)])
        new = rng.standard_normal((300, dim), dtype=np.float32)
        return {
            "correct_over_commit": commits(memory, new),
            "open_over_hashing": opened / hashed,
            "learn_over_hashing": learnt / hashed,
            "memory_over_vectors": held / X.nbytes,
            "first_answer_over_next": first / asked,
            "predict_over_reading": asked / read,
        }


def bench_memory(n=1_000_000):
    with tempfile.TemporaryDirectory() as folder:
        small, some, large = (used(size, folder) for size in (10_000, 100_000, n))
    return {
        "correct_over_commit_10k": small["correct_over_commit"],
        "correct_over_commit_1m": large["correct_over_commit"],
        "open_over_hashing_1m": large["open_over_hashing"],
        "learn_over_hashing_1m": large["learn_over_hashing"],
        "memory_over_vectors_1m": large["memory_over_vectors"],
        "first_answer_over_next_100k": some["first_answer_over_next"],
        "predict_100k_over_reading": some["predict_over_reading"],
    }


def codes_over_float32(X, batches, k=5):
    """Processor time of searches with int8 codes of X (n, d) over that of float32, one thread.

    Both are taken nine times, in turns. It is 1 where the processor does not multiply int8.
    """
    entries = Entries(X, np.zeros(len(X)))

    def spent(nearest):
        started = time.process_time()
        for Q in batches:
            nearest(Q, k)
        return time.process_time() - started

    def plain(Q, k):
        return top_k(Q, entries.X, entries.born, k)

    for _ in range(CODED_AFTER // ALONE):  # after which they have codes
        entries.nearest(batches[0], k)
    with threadpool_limits(1):
        turns = [(spent(entries.nearest), spent(plain)) for _ in range(9)]
    codes, float32 = np.median(turns, axis=0)
    return codes / float32


def bench_search():
    """Ratios: of single queries of random entries, and of batches of banking77's test rows."""
    X = np.random.default_rng(0).standard_normal((100_020, 384), dtype=np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    data = load("banking77")
    batches = [data.X_test[start : start + 256] for start in range(0, 3072, 256)]
    return {
        "codes_over_float32_100k": codes_over_float32(X[20:], [x[None] for x in X[:20]]),
        "codes_over_float32_256_of_10k": codes_over_float32(data.X_train, batches),
    }


def server_commits(address, n, dim=384):
    """Median seconds of a durable correction on a server over those of a bare INSERT and commit.

    Both go over the memory's own connection, in turns; the memory has ``n`` random vectors.
    """
    rng = np.random.default_rng(0)
    with CorrectionMemory.open(f"{address}#m{n}", search="database") as memory:
        for start in range(0, n, 50_000):
            X = rng.standard_normal((min(50_000, n - start), dim), dtype=np.float32)
            memory.learn(X, rng.integers(0, 150, len(X)).astype(str))
        bare = memory._ledger.store._session.connection
        bare.execute("CREATE TABLE IF NOT EXISTS public.bare (x bytea)")
        pairs = []
        for x in rng.standard_normal((300, dim), dtype=np.float32):
            content = x.tobytes() + bytes(200)
            plain, _ = timed(bare.execute, "INSERT INTO public.bare VALUES (%b)", [content])
            pairs.append((timed(memory.correct, x, "new")[0], plain))
    ours, plain = np.median(pairs, axis=0)
    print(f"{n} entries: a correction {1e3 * ours:.2f} ms, an INSERT {1e3 * plain:.2f} ms")
    return ours / plain


def bench_server(n=1_000_000):
    with serving() as server:
        address = server.address(server.new_base())
        return {
            "server_correct_over_commit_10k": server_commits(address, 10_000),
            "server_correct_over_commit_1m": server_commits(address, n),
        }


def bench_writers(seconds=10):
    """Corrections of one file at once, by eight threads of a process and by four processes more.

    Each corrects random vectors of 384 values, one a call, without a pause. A wait is the time of
    one call, which returns once its entry is on disk.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/shared.sqlite"
        CorrectionMemory.open(path).close()
        alone = waits(path, seconds, threads=(1,))
        found = waits(path, seconds)
        with CorrectionMemory.open(path) as memory:
            assert len(memory) == len(alone) + len(found), "corrections were lost"
    each = seconds / len(found)
    return {
        "many_writers_over_one": each / (seconds / len(alone)),
        "longest_wait_over_turn": max(found) / (sum(THREADS) * each),
    }


def bench_review():
    """A review of 1,000 texts, and suspects of 10,000 entries, over predicting as many vectors."""
    data = load("banking77")
    X = np.concatenate([data.X_train, data.X_test])
    labels = np.array(data.classes)[np.concatenate([data.y_train, data.y_test])]
    with tempfile.TemporaryDirectory() as folder:
        with CorrectionMemory.open(f"{folder}/reviewed.sqlite") as memory:
            memory.learn(X[:10_000], labels[:10_000])
            memory.predict(X[0])  # confidence is learnt now
            predict_1k, _ = timed(memory.predict, X[-1000:])
            review, _ = timed(memory.review, X[-1000:])
            predict_10k, _ = timed(memory.predict, X[:10_000])
            suspects, _ = timed(memory.suspects)
    return {
        "review_1k_over_predict": review / predict_1k,
        "suspects_10k_over_predict": suspects / predict_10k,
    }


def bench_service(sentences, n=2000, entries=10_000):
    """Texts a second of the encoder alone, 32 at once, over those answered to 200 clients.

    Also the longest wait of a client over the time in which each has a turn. Both are taken three
    times, in turns.
    """
    data = load("banking77")
    texts = np.random.default_rng(0).permutation(sentences.test)[:n].tolist()
    encoder = load_encoder(DEFAULT_ENCODER)
    encode(texts[:32], encoder)
    batches = [texts[start : start + 32] for start in range(0, len(texts), 32)]
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/served.sqlite"
        with CorrectionMemory.open(path, DEFAULT_ENCODER) as memory:
            labels = sentences.train_labels[:entries]
            memory.learn(sentences.train[:entries], labels, vectors=data.X_train[:entries])
        with served(path) as (_, port):
            for _ in range(3):
                alone, _ = timed(lambda: [encode(batch, encoder) for batch in batches])
                answers, longest = answered(port, texts)
                a_turn = CLIENTS / answers
                runs.append([n / alone / answers, longest / a_turn])
    ratio, longest = np.median(runs, axis=0)
    return {"encoder_over_served": ratio, "served_longest_over_turn": longest}


def answered(port, texts):
    """Answers a second that a service gives to many clients, and the longest wait in seconds."""
    command = [sys.executable, "-m", "trials.load", str(port)]
    lines = "\n".join(text.replace("\n", " ") for text in texts)
    how = dict(input=lines, text=True, check=True, capture_output=True)
    figures = json.loads(subprocess.run(command, **how).stdout)
    assert not figures["failed"]
    answers = figures["answers_per_s"]
    print(f"{answers:.0f} answers/s, the longest wait {figures['longest_s']:.2f} s")
    return answers, figures["longest_s"]


class Known:
    """An encoder that takes no time: the vectors (n, d) of its texts are known."""

    def __init__(self, texts, X):
        self._rows = dict.fromkeys(PROBES, X[0]) | dict(zip(texts, X))

    def encode(self, texts):
        return np.stack([self._rows[text] for text in texts])


@contextmanager
def running(app):
    """The port of an application that uvicorn runs in a thread."""
    quiet = dict(access_log=False, log_level="warning")
    server = uvicorn.Server(uvicorn.Config(app, http=TimedProtocol, lifespan="off", **quiet))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def bench_service_alone(sentences):
    """Answers a second of a bare FastAPI route over those of the service, and its longest wait.

    The service knows the vectors of all texts, so that no encoder is timed; the route gives each
    client the same answer. Both are taken three times, in turns.
    """
    data = load("banking77")
    texts = [text.replace("\n", " ") for text in sentences.test]
    bare = FastAPI()

    @bare.post("/predict")
    async def predict(request: Request):
        await request.json()
        return JSONResponse({"label": "card_arrival", "confidence": 0.9, "neighbours": []})

    encoder = Known(texts, data.X_test)
    with (
        tempfile.TemporaryDirectory() as folder,
        CorrectionMemory.open(f"{folder}/known.sqlite", encoder) as memory,
    ):
        memory.learn(sentences.train, sentences.train_labels, vectors=data.X_train)
        memory.predict(data.X_test[0])  # confidence is learnt now
        runs = []
        with running(make_app(memory)) as ours, running(bare) as plain:
            for _ in range(3):
                answers, longest = answered(ours, texts)
                bare_answers, _ = answered(plain, texts)
                a_turn = CLIENTS / answers
                runs.append([bare_answers / answers, longest / a_turn])
    ratio, longest = np.median(runs, axis=0)
    return {"fastapi_over_served_alone": ratio, "alone_longest_over_turn": longest}


def timed(function, *args, **kwargs):
    started = time.perf_counter()
    value = function(*args, **kwargs)
    return time.perf_counter() - started, value


def cpu(code):
    """Median processor seconds of five fresh processes that run a line of Python."""
    command = [sys.executable, "-c", f"import time\n{code}\nprint(time.process_time())"]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(5)]
    return float(np.median([float(run.stdout.split()[-1]) for run in runs]))


def bench_start():
    """Processor time until a command tells its help, and until the memory is imported."""
    shown = "from ocrr.cli import app\ntry: app(['--help'])\nexcept SystemExit: pass"
    return {
        "ocrr_help_over_typer": cpu(shown) / cpu("import typer, rich"),
        "import_memory_over_numpy": cpu("from corrigible import CorrectionMemory")
        / cpu("import numpy"),
    }


def main():
    sentences = load_texts("banking77")  # missing ones are told of at once
    parts: list[Callable[[], dict]] = [
        lambda: bench_streams([make_scenario(load("banking77"), seed) for seed in range(3)]),
        bench_search,
        bench_memory,
        bench_server,
        bench_writers,
        bench_review,
        lambda: bench_service(sentences),
        lambda: bench_service_alone(sentences),
        bench_start,
    ]
    found: dict[str, float] = {}
    for part in parts:
        for name, value in part().items():
            found[name] = round(float(value), 3)
            target, last, cause = RATIOS[name]
            missed = "" if value <= target else f"   MISSED: {cause or 'new'}"
            was = "" if last is None else f"   last {last:g}"
            print(f"{name:30} {value:9.3f}   target {target:.3g}{was}{missed}", flush=True)
    machine = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
    write_text(ROOT / "build/bench.json", json.dumps({"ratios": found} | machine, indent=1))


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"error: {error}")
