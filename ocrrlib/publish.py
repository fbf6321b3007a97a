"""An experiment, from its name to its published result file."""

import importlib.metadata
import json
import os
import platform
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from ocrrlib import results
from ocrrlib.cost_plan import MEASURED
from ocrrlib.embeddings import load, load_sentences, sentences_fingerprint
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.experiments import CROSSED, EXPERIMENTS, OURS, grid
from ocrrlib.files import ROOT, sha256, write_text
from ocrrlib.provenance import closure, digest
from ocrrlib.stream_plan import COMPARED, KEY, QUEUES, TUNED
from ocrrlib.sweep import CACHE, checkpoints, depends_on, finish, right_answers
from ocrrlib.systems import SYSTEMS
from ocrrlib.tuning.one_at_a_time import SETTING
from ocrrlib.tuning.search import RIVALS, SEARCHED

LOCK = ROOT / "requirements.lock"


def _pairs(runs):
    return dict.fromkeys((run.dataset, run.encoder) for run in runs)


def _fingerprints(runs):
    if reads(runs) == "sentences":
        return {dataset: sentences_fingerprint(dataset, encoder) for dataset, encoder in _pairs(runs)}
    return {dataset: load(dataset, encoder).fingerprint for dataset, encoder in _pairs(runs)}


def reads(runs):
    """What the systems of these runs read: embeddings or sentences."""
    (what,) = {SYSTEMS[run.system].reads for run in runs}
    return what


def about(runs, fingerprints=None):
    """What the results of these runs depend on: hashes of code, parameters, data and lock; seeds; versions."""
    fingerprints = fingerprints or _fingerprints(runs)
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
    name, encoder=DEFAULT_ENCODER, seeds=None, profile="paper", jobs=1, dask=None, out=ROOT, cache=CACHE
):
    """Run an experiment, write ``<out>/data/results/<name>.parquet`` and return its checkpoints.

    Which test rows were right goes to ``<name>_rows.parquet``, for an experiment that keeps it.
    Times and the machine go to ``<out>/build/runs/<name>.json``, never into the results.
    """
    runs = grid(name, encoder, seeds, profile)
    get = load_sentences if reads(runs) == "sentences" else load
    datasets = {dataset: get(dataset, encoder) for dataset, encoder in _pairs(runs)}
    finished = finish(runs, datasets, jobs=jobs, dask=dask, cache=cache)
    frame, seconds = checkpoints(runs, finished)
    fingerprints = {dataset: data.fingerprint for dataset, data in datasets.items()}
    made_from = about(runs, fingerprints)
    results.write(frame, made_from, Path(out) / f"data/results/{name}.parquet")
    if EXPERIMENTS[name].rows:
        results.write(right_answers(runs, finished), made_from, Path(out) / f"data/results/{name}_rows.parquet")
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


def published(name, out=ROOT):
    """Results as published; copied to ``out``, so that all of them stand together."""
    frame, provenance = results.read(ROOT / f"data/results/{name}.parquet")
    if Path(out) != ROOT:
        results.write(frame, provenance, Path(out) / f"data/results/{name}.parquet")
    return frame


def _modules(*systems):
    return tuple(dict.fromkeys(f"ocrrlib.systems.{SYSTEMS[name].module}" for name in systems))


_MEASURED = ("ocrrlib.costs", *_modules(*MEASURED))
# Measurements that are not streams: where their code is, and what names a row.
STUDIES = {
    "parameters": (["ocrrlib.parameters"], ["backbone"]),
    "scale": (["ocrrlib.scale"], ["classes", "noise", "n", "seed"]),
    "scale_costs": (["ocrrlib.scale"], ["classes", "noise", "n", "seed"]),
    "race": (["ocrrlib.race"], ["n", "index", "effort"]),
    "costs": (_MEASURED, ["dataset", "system"]),
    "growth": (_MEASURED, ["system", "entries"]),
    "search": (("ocrrlib.tuning.held_out", *_modules(*RIVALS, OURS)), SEARCHED),
    "tuning": (("ocrrlib.tuning.held_out", *_modules(OURS)), SETTING),
    "variance": (("ocrrlib.crossed", *_modules(*CROSSED)), ["dataset", "system", "draw", "order", "coins"]),
    "streams": (("ocrrlib.streams", "ocrrlib.policies", *_modules(*COMPARED, *QUEUES, *TUNED)), KEY),
}


def made_by(name):
    """Hashes of the code and the versions of the libraries that a study's rows come from."""
    code, libraries = closure(*STUDIES[name][0])
    return {"code": code, "libraries": libraries}


def publish_study(name, fresh, out=ROOT, keep=True):
    """Write a study's rows and return them: the fresh ones and, with ``keep``, the published ones beside them.

    Each row says by which code it was made.
    """
    names, path = STUDIES[name][1], ROOT / f"data/results/{name}.parquet"
    about = made_by(name)
    rows = [fresh.assign(made_by=digest(about)[:12])]
    if keep and path.exists():
        rows.append(results.read(path)[0])
    joined = pd.concat([part for part in rows if len(part)], ignore_index=True)
    joined = joined.drop_duplicates(names).sort_values(names, kind="stable", ignore_index=True)
    results.write(joined, about, Path(out) / f"data/results/{name}.parquet")
    return joined
