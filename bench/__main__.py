"""Speed and memory: `make bench` writes build/bench.json (8 minutes on two idle cores)."""

import gc
import json
import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing, contextmanager

import numpy as np
import psutil
from threadpoolctl import threadpool_limits

from corrigible import CorrectionMemory
from ocrrlib.datasets import load_texts
from ocrrlib.embeddings import encode, load
from ocrrlib.encoders import DEFAULT_ENCODER, load_encoder
from ocrrlib.experiments import OURS
from ocrrlib.files import ROOT, InputError, write_text
from ocrrlib.policies import POLICIES
from ocrrlib.runs import datasets_of, sweep
from ocrrlib.scenario import make_scenario
from ocrrlib.search import ALONE, CODED_AFTER, Entries, top_k
from ocrrlib.stream import run_stream
from ocrrlib.systems import make
from studies.grids import published_runs
from trials.load import served
from trials.servers import serving
from trials.writers import waits

JOBS = 2
TARGETS = {
    "full_sweep_s": 15,
    "full_sweep_without_river_s": 13,
    "peak_rss_mb": 1500,
    "fast_over_plain_loop": 1 / 30,
    "ours_over_substrate": 5,
    "append_over_plain_append": 10,
    "correct_over_commit_10k": 1.4,
    "correct_over_commit_1m": 1.4,
    "server_correct_over_commit_10k": 2,
    "server_correct_over_commit_1m": 2,
    "correct_at_once_us": 1e6 / 1000,
    "correct_at_once_longest_s": 1,
    "learn_us": 1e6 / 30_000,
    "open_and_verify_us": 1e6 / 200_000,
    "predict_100k_over_reading": 1.5,
    "codes_over_float32_100k": 1 / 5,
    "codes_over_float32_256_of_10k": 1 / 4,
    "review_1k_s": 2,
    "suspects_10k_s": 2,
    "memory_over_vectors": 1.4,
    "encoder_over_served": 1 / 0.9,
    "make_paper_s": 120,
    "ocrr_help_s": 0.5,
    "import_memory_cpu_s": 0.4,
    "served_longest_s": 2,
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


def bench_streams(s):
    """Ratios: fast loop to plain one, ours to the substrate, an entry's append to a list's."""
    fast, checkpoints = timed(lambda: list(run_stream(make("substrate"), s, POLICIES["oracle"])))
    plain, finals = timed(plain_loop, s)
    assert np.allclose(finals, [checkpoints[-1].novel_acc, checkpoints[-1].original_acc]), (
        "the loops disagree"
    )
    substrate = make("substrate").fit(s.X_initial, s.y_initial, s.classes)
    corrections = list(zip(s.X_stream, s.y_stream.tolist()))
    kept = []
    appended, _ = timed(lambda: [substrate.correct(x, y) for x, y in corrections])
    bare, _ = timed(lambda: [kept.append((x.copy(), y)) for x, y in corrections])
    return {
        "fast_over_plain_loop": fast / plain,
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
    """Figures of a correction memory of ``n`` random vectors; seconds to learn and open it."""
    rng = np.random.default_rng(0)
    here = psutil.Process()
    path = f"{folder}/{n}.sqlite"
    with CorrectionMemory.open(path) as memory:
        X = rng.standard_normal((n, dim), dtype=np.float32)
        labels = rng.integers(0, 150, n).astype(str)
        learnt, _ = timed(memory.learn, X, labels)
    del X, memory
    gc.collect()
    before = here.memory_info().rss
    opened, memory = timed(CorrectionMemory.open, path)
    with memory:
        held = here.memory_info().rss - before
        X = memory.counted.X
        asked = np.median([timed(memory.predict, x)[0] for x in X[:20].copy()])
        read = np.median([timed(X.view(np.int32).max)[0] for _ in range(20)])
        new = rng.standard_normal((300, dim), dtype=np.float32)
        return commits(memory, new), asked / read, held / X.nbytes, learnt, opened


def bench_memory(n=1_000_000):
    with tempfile.TemporaryDirectory() as folder:
        (small, *_), (_, asked, *_), large = (used(size, folder) for size in (10_000, 100_000, n))
    return {
        "correct_over_commit_10k": small,
        "correct_over_commit_1m": large[0],
        "learn_us": 1e6 * large[3] / n,
        "open_and_verify_us": 1e6 * large[4] / n,
        "predict_100k_over_reading": asked,
        "memory_over_vectors": large[2],
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


def bench_writers(seconds=30):
    """Corrections of one file at once: their mean seconds, all together, and the longest wait.

    Eight threads of one process and four processes of one thread, each of these with the memory
    open, correct random vectors of 384 values, one a call, without a pause. The file is new. A wait
    is the time of one call, which returns once its entry is on disk.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/shared.sqlite"
        CorrectionMemory.open(path).close()
        found = waits(path, seconds)
        with CorrectionMemory.open(path) as memory:
            assert len(memory) == len(found), "corrections were lost"
    return {
        "correct_at_once_us": 1e6 * seconds / len(found),
        "correct_at_once_longest_s": max(found),
    }


def bench_review():
    """Seconds that a review of 1,000 texts takes, and suspects of 10,000 entries, as vectors."""
    data = load("banking77")
    X = np.concatenate([data.X_train, data.X_test])
    labels = np.array(data.classes)[np.concatenate([data.y_train, data.y_test])]
    with tempfile.TemporaryDirectory() as folder:
        with CorrectionMemory.open(f"{folder}/reviewed.sqlite") as memory:
            memory.learn(X[:10_000], labels[:10_000])
            memory.predict(X[0])  # confidence is learnt now
            review, _ = timed(memory.review, X[-1000:])
            suspects, _ = timed(memory.suspects)
    return {"review_1k_s": review, "suspects_10k_s": suspects}


def bench_service(sentences, n=2000, entries=10_000):
    """Texts a second of the encoder alone, 32 at once, over those answered to 200 clients.

    Also how long the clients wait. Both are taken three times, in turns.
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
                command = [sys.executable, "-m", "trials.load", str(port)]
                lines = "\n".join(text.replace("\n", " ") for text in texts)
                how = dict(input=lines, text=True, check=True, capture_output=True)
                figures = json.loads(subprocess.run(command, **how).stdout)
                assert not figures["failed"]
                runs.append([n / alone / figures["answers_per_s"], figures["longest_s"]])
    ratio, longest = np.median(runs, axis=0)
    return {"encoder_over_served": ratio, "served_longest_s": longest}


@contextmanager
def peak_memory(figures):
    """Note the highest resident memory, in MB, of this process and its children in the block."""
    here = psutil.Process()
    over = threading.Event()
    peaks = [0.0]

    def sample():
        while not over.wait(0.1):
            found = [here, *here.children(recursive=True)]
            peaks.append(sum(one.memory_info().rss for one in found if one.is_running()) / 1e6)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join()
    figures["peak_rss_mb"] = max(peaks)


def timed(function, *args, **kwargs):
    started = time.perf_counter()
    value = function(*args, **kwargs)
    return time.perf_counter() - started, value


def make_paper():
    """Seconds of `make paper` in a fresh clone that uses this environment."""
    with tempfile.TemporaryDirectory() as clone:
        subprocess.run(["git", "clone", "--quiet", str(ROOT), clone], check=True)
        os.symlink(ROOT / ".venv", f"{clone}/.venv")
        how = dict(
            cwd=clone, env=os.environ | {"PYTHONPATH": clone}, check=True, capture_output=True
        )
        return timed(subprocess.run, ["make", "paper"], **how)[0]


def import_cpu(module):
    """Median CPU seconds of a fresh process that imports a module, Python's own start included."""
    code = f"import time, {module}; print(time.process_time())"
    command = [sys.executable, "-c", code]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(5)]
    return float(np.median([float(run.stdout) for run in runs]))


def main():
    sentences = load_texts("banking77")  # missing ones are told of at once
    runs = published_runs("full_sweep")
    datasets = datasets_of(runs)
    figures = {}
    with peak_memory(figures):
        figures["full_sweep_s"], _ = timed(sweep, runs, datasets, jobs=JOBS, cache=None)
    rest = [run for run in runs if run.system != "river_logreg"]
    figures["full_sweep_without_river_s"], _ = timed(sweep, rest, datasets, jobs=JOBS, cache=None)
    figures |= bench_streams(make_scenario(datasets["banking77"], 0))
    figures |= bench_search()
    figures |= bench_memory()
    figures |= bench_server()
    figures |= bench_writers()
    figures |= bench_review()
    figures |= bench_service(sentences)
    figures["make_paper_s"] = make_paper()
    help = [sys.executable, "-m", "ocrr", "--help"]
    figures["ocrr_help_s"], _ = timed(subprocess.run, help, check=True, stdout=subprocess.DEVNULL)
    figures["import_memory_cpu_s"] = import_cpu("corrigible")

    machine = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
    figures = {name: round(float(value), 3) for name, value in figures.items()}
    write_text(
        ROOT / "build/bench.json",
        json.dumps({"figures": figures, "jobs": JOBS} | machine, indent=1),
    )
    for name, value in figures.items():
        print(
            f"{name:28} {value:10.3f}   target <= {TARGETS[name]:.3g}"
            + ("" if value <= TARGETS[name] else "   MISSED")
        )


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"error: {error}")
