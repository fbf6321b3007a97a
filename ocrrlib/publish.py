"""An experiment, from its name to its published result file."""

import importlib.metadata
import json
import os
import platform
from dataclasses import asdict
from pathlib import Path

from ocrrlib import results
from ocrrlib.embeddings import load
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.experiments import SEEDS, grid
from ocrrlib.files import ROOT, sha256, write_text
from ocrrlib.provenance import digest
from ocrrlib.sweep import CACHE, depends_on, sweep

LOCK = ROOT / "requirements.lock"


def _embedded(runs):
    return {name: load(name, encoder) for name, encoder in dict.fromkeys((r.dataset, r.encoder) for r in runs)}


def about(runs, datasets=None):
    """What the results of these runs depend on: hashes of code, parameters, data and lock; seeds; versions."""
    datasets = datasets or _embedded(runs)
    fingerprints = {name: data.fingerprint for name, data in datasets.items()}
    each = [depends_on(run, fingerprints[run.dataset]) for run in runs]
    return {
        "runs": len(runs),
        "seeds": sorted({run.seed for run in runs}),
        "parameters": digest([[e["run"], e["system"]] for e in each]),
        "code": {module: value for e in each for module, value in e["code"].items()},
        "libraries": {name: value for e in each for name, value in e["libraries"].items()},
        "data": fingerprints,
        "lock": sha256(LOCK),
    }


def run_experiment(
    name, encoder=DEFAULT_ENCODER, seeds=SEEDS, profile="paper", jobs=1, dask=None, out=ROOT, cache=CACHE
):
    """Run an experiment, write ``<out>/data/results/<name>.parquet`` and return its checkpoints.

    Times and the machine go to ``<out>/build/runs/<name>.json``, never into the results.
    """
    runs = grid(name, encoder, seeds, profile)
    datasets = _embedded(runs)
    frame, seconds = sweep(runs, datasets, jobs=jobs, dask=dask, cache=cache)
    results.write(frame, about(runs, datasets), Path(out) / f"data/results/{name}.parquet")
    times = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "jobs": jobs,
        "numpy": importlib.metadata.version("numpy"),
        "runs": [asdict(run) | {"seconds": round(s, 3)} for run, s in zip(runs, seconds)],
    }
    write_text(Path(out) / f"build/runs/{name}.json", json.dumps(times, indent=1))
    return frame
