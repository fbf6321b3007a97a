"""Speed and memory of the whole, measured in one go: `make bench` writes build/bench.json.

The last two figures come from a fresh clone of what is committed, with this
environment.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter

import numpy as np
import psutil
import torch
from river import linear_model, multiclass, optim
from threadpoolctl import threadpool_limits

from ocrrlib.embeddings import load
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.errors import InputError
from ocrrlib.experiments import EXPERIMENTS, OURS, grid
from ocrrlib.files import ROOT, write_text
from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario
from ocrrlib.sentences import load_sentences
from ocrrlib.stream import run_stream
from ocrrlib.sweep import sweep
from ocrrlib.systems import SYSTEMS, lora, make
from ocrrlib.systems.river_logreg import StackedLogistic
from studies.costs import of_items, turns

JOBS = 2
TARGETS = {
    "full_sweep_s": ("<=", 100),
    "full_sweep_without_river_s": ("<=", 25),
    "beyond_minutes": ("<=", 10),
    "ours_correction_ratio": ("<=", 5),
    "ours_correction_and_prediction_ratio": ("<=", 5),
    "ours_memory_ratio": ("<=", 2),
    "naive_ratio": (">=", 30),
    "river_ratio": (">=", 10),
    "peak_rss_mb": ("<=", 2000),
    "append_us": ("<=", 10),
    "lora_ratio": (">=", 4),
    "lora_ratio_unpadded": (">=", 1),
    "lora_correction_ms": ("<=", 50),
    "make_paper_s": ("<=", 300),
    "make_test_s": ("<=", 480),
}


class PlainSubstrate:
    """The substrate as one would first write it: one query at a time, all entries compared and sorted."""

    def fit(self, X, y, classes):
        self.X, self.y = list(X), y.tolist()

    def predict_one(self, x):
        cosines = self.matrix() @ x
        best = np.argsort(-cosines, kind="stable")[:5]
        band = [self.y[i] for i in best if cosines[i] >= cosines[best[0]] - 0.05]
        return Counter(band).most_common(1)[0][0]

    def matrix(self):
        if not hasattr(self, "stacked") or len(self.stacked) < len(self.X):
            self.stacked = np.stack(self.X)
        return self.stacked

    def correct(self, x, y):
        self.X.append(x)
        self.y.append(y)


def plain_loop(scenario):
    """The substrate's cell, row by row: stream, corrections, and both test sets every 50 items."""
    s, system, finals = scenario, PlainSubstrate(), None
    system.fit(s.X_initial, s.y_initial, s.classes)
    for i in range(len(s.y_stream) + 1):
        if i % 50 == 0 or i == len(s.y_stream):
            finals = [
                np.mean([system.predict_one(x) == y for x, y in zip(X, Y)])
                for X, Y in ((s.X_novel, s.y_novel), (s.X_original, s.y_original))
            ]
        if i < len(s.y_stream) and system.predict_one(s.X_stream[i]) != s.y_stream[i]:
            system.correct(s.X_stream[i], int(s.y_stream[i]))
    return finals


def plain_lora(system, scenario, padded):
    """LoRA's stream as one would first write it: texts tokenised when needed and read one at a time."""
    s, length = scenario, system.max_length if padded else None

    def answer(text):
        tokens, lengths = lora.tokenise(np.array([text]), system.backbone, system.max_length)
        mask = torch.arange(length or int(lengths[0])) < lengths[0]
        with torch.inference_mode():
            return int(system.model(torch.tensor(tokens[:, : len(mask)]), mask[None]).argmax())

    with lora.one_thread():
        for i in range(len(s.y_stream) + 1):
            if i % 50 == 0 or i == len(s.y_stream):
                system.model.eval()
                finals = [
                    np.mean([answer(x) == y for x, y in zip(X, Y)])
                    for X, Y in ((s.X_novel, s.y_novel), (s.X_original, s.y_original))
                ]
            if i < len(s.y_stream):
                system.model.eval()
                if answer(s.X_stream[i]) != s.y_stream[i]:
                    system.correct(s.X_stream[i], int(s.y_stream[i]))
    return finals


def bench_beyond(datasets):
    """The wider comparison without river, from two of its seeds; and what ours costs beside the substrate."""
    runs = [run for run in grid("beyond", seeds="0,1") if SYSTEMS[run.system].family != "river"]
    seconds, _ = timed(sweep, runs, datasets, jobs=JOBS, cache=None)
    s = make_scenario(datasets["banking77"], 0)
    systems = [make(name).fit(s.X_initial, s.y_initial, s.classes) for name in (OURS, "substrate")]
    ours, substrate = of_items([turns(system, s) for system in systems], progress=False)
    both = [row["correct_median"] + row["predict_median"] for row in (ours, substrate)]
    return {
        "beyond_minutes": len(EXPERIMENTS["beyond"].seeds) / 2 * seconds / 60,
        "ours_correction_ratio": ours["correct_median"] / substrate["correct_median"],
        "ours_correction_and_prediction_ratio": both[0] / both[1],
        "ours_memory_ratio": ours["bytes"] / substrate["bytes"],
    }


def bench_river(scenario, rows=200):
    """How much faster all classes learn in one array than as river's own models, one for each."""
    learnt = [(scenario.X_initial[i], int(scenario.y_initial[i])) for i in range(0, len(scenario.y_initial), 40)][:rows]
    own = multiclass.OneVsRestClassifier(linear_model.LogisticRegression(optim.SGD(0.01)))
    array = StackedLogistic(0.01, scenario.X_initial.shape[1])
    plain, _ = timed(lambda: [own.learn_one(dict(enumerate(x.tolist())), y) for x, y in learnt])
    fast, _ = timed(lambda: [array.learn_one(x.astype(np.float64), y) for x, y in learnt])
    assert list(own.classifiers) == array.labels, "they learnt other classes"
    return {"river_ratio": plain / fast}


def float64_gflops(side=1500):
    """What one core reaches in products of float64 matrices: minutes mean little without."""
    A = np.random.default_rng(0).normal(size=(side, side))
    with threadpool_limits(1):
        return 2e-9 * side**3 / min(timed(np.matmul, A, A)[0] for _ in range(5))


def bench_lora():
    """How much faster batches are than one text at a time, on a stream cut short; training left out of both."""
    scenario = make_scenario(load_sentences("banking77", DEFAULT_ENCODER), 0, "continued", thin=24)
    fit = (scenario.X_initial, scenario.y_initial, scenario.classes)
    system = make("lora").fit(*fit)  # the training is shared from here on
    fast, checkpoints = timed(lambda: list(run_stream(system, scenario, POLICIES["oracle"])))
    figures = {}
    for name, padded in (("lora_ratio", True), ("lora_ratio_unpadded", False)):
        plain, finals = timed(plain_lora, make("lora").fit(*fit), scenario, padded)
        assert np.allclose(finals, [checkpoints[-1].novel_acc, checkpoints[-1].original_acc], atol=0.01)
        figures[name] = plain / fast
    seconds = [timed(system.correct, x, int(y))[0] for x, y in zip(scenario.X_stream, scenario.y_stream)]
    return figures | {"lora_correction_ms": 1e3 * float(np.median(seconds))}


class PeakMemory:
    """Highest resident memory of this process and its children together, in MB, while in the block."""

    def __enter__(self):
        self.peak, self.running = 0.0, True
        self.thread = threading.Thread(target=self._sample)
        self.thread.start()
        return self

    def _sample(self):
        here = psutil.Process()
        while self.running:
            total = 0
            for process in [here, *here.children(recursive=True)]:
                try:
                    total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue  # it ended meanwhile
            self.peak = max(self.peak, total / 1e6)
            time.sleep(0.1)

    def __exit__(self, *exception):
        self.running = False
        self.thread.join()


def timed(function, *args, **kwargs):
    started = time.perf_counter()
    value = function(*args, **kwargs)
    return time.perf_counter() - started, value


def from_a_clone(*targets):
    """Seconds of each make target in a fresh clone that uses this environment."""
    with tempfile.TemporaryDirectory() as folder:
        clone = f"{folder}/clone"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), clone], check=True)
        os.symlink(ROOT / ".venv", f"{clone}/.venv")
        environment = os.environ | {"PYTHONPATH": clone}
        run = dict(cwd=clone, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return [timed(subprocess.run, ["make", target], **run)[0] for target in targets]


def main():
    datasets = {name: load(name) for name in ("banking77", "clinc150")}
    figures = {}
    runs = grid("full_sweep")
    with PeakMemory() as memory:
        figures["full_sweep_s"], _ = timed(sweep, runs, datasets, jobs=JOBS, cache=None)
    figures["peak_rss_mb"] = memory.peak
    rest = [run for run in runs if run.system != "river_logreg"]
    figures["full_sweep_without_river_s"], _ = timed(sweep, rest, datasets, jobs=JOBS, cache=None)

    figures |= bench_beyond(datasets)
    scenario = make_scenario(datasets["banking77"], 0)
    fast, checkpoints = timed(lambda: list(run_stream(make("substrate"), scenario, POLICIES["oracle"])))
    plain, finals = timed(plain_loop, scenario)
    assert np.allclose(finals, [checkpoints[-1].novel_acc, checkpoints[-1].original_acc]), "the loops disagree"
    figures["naive_ratio"] = plain / fast
    figures |= bench_river(scenario)

    substrate = make("substrate").fit(scenario.X_initial, scenario.y_initial, scenario.classes)
    corrections = list(zip(scenario.X_stream, scenario.y_stream.tolist()))
    seconds, _ = timed(lambda: [substrate.correct(x, y) for x, y in corrections])
    figures["append_us"] = 1e6 * seconds / len(corrections)
    try:
        figures |= bench_lora()
    except InputError as error:  # it is the only one that needs texts
        print(f"lora is left out: {error}", file=sys.stderr)
    figures["make_paper_s"], figures["make_test_s"] = from_a_clone("paper", "test")

    figures = {name: round(figures[name], 2) for name in TARGETS if name in figures}
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    machine["float64_gflops"] = round(float64_gflops(), 1)
    write_text(ROOT / "build/bench.json", json.dumps({"figures": figures, "jobs": JOBS} | machine, indent=1))
    for name, value in figures.items():
        sign, target = TARGETS[name]
        met = value <= target if sign == "<=" else value >= target
        print(f"{name:28} {value:10.2f}   target {sign} {target}{'' if met else '   MISSED'}")
    print(f"one core reaches {machine['float64_gflops']} GFLOP/s in products of float64 matrices")


if __name__ == "__main__":
    main()
