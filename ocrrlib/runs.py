"""The experiments, run as grids and published as files.

Published results stand while runs that are repeated come out the same (see ``ocrrlib.check``), whatever the text of
the code.
"""

import json
import platform
from dataclasses import asdict
from datetime import date
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ocrrlib.embeddings import load, load_sentences
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.experiments import EXPERIMENTS, check_runs, grid
from ocrrlib.files import ROOT, InputError, atomic, pick
from ocrrlib.metrics import RUN
from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import PROTOCOL, run_stream
from ocrrlib.systems import SYSTEMS, make
from ocrrlib.tasks import CACHE, Task, libraries, run_tasks

# Results that are not streams of a grid: what names a row.
STUDIES = {
    "parameters": ["backbone"],
    "scale": ["classes", "noise", "n", "seed"],
    "scale_costs": ["classes", "noise", "n", "seed"],
    "race": ["n", "index", "effort"],
    "ledger_search": ["dataset", "encoder", "seed", "ef"],
    "costs": ["dataset", "system"],
    "growth": ["system", "entries"],
    "search": ["system", "dataset", "policy", "seed"],
    "tuning": ["parameter", "value", "chosen", "dataset", "policy", "seed"],
    "variance": ["dataset", "system", "draw", "order", "coins"],
    "streams": "study dataset encoder system seed asking p wrong confusion delay drift order new known step".split(),
}
TIMED = ("scale_costs", "race", "costs", "growth")  # their files say on what machine, with what libraries and when

_scenario = lru_cache(maxsize=1)(make_scenario)  # runs of one scenario come in a row


def scenario_of(data, run):
    """The scenario of a run on its dataset; the last one is remembered."""
    return _scenario(data, run.seed, draw=run.draw, cap=run.cap, thin=run.thin)


def run_one(data, run):
    """One run of a grid.

    Parameters
    ----------
    data : Embedded or Sentences
        The dataset that the run names.
    run : Run

    Returns
    -------
    dict
        Checkpoints; which test rows were right in the end, novel ones first, one bit each in hex; their numbers.
    """
    scenario = scenario_of(data, run)
    checkpoints = list(run_stream(make(run.system, run.seed, run.encoder), scenario, POLICIES[run.policy]))
    truth = np.concatenate([scenario.y_novel, scenario.y_original])
    return {
        "checkpoints": [checkpoint.scalars for checkpoint in checkpoints],
        "right": np.packbits(checkpoints[-1].answers == truth).tobytes().hex(),
        "n_novel": len(scenario.y_novel),
        "n_original": len(scenario.y_original),
    }


def declared(system):
    """What the registry declares of a system, as results carry it."""
    entry = SYSTEMS[system]
    return {"version": entry.version, "params": entry.params}


def run_grid(runs, datasets, jobs=1, dask=None, cache=CACHE, progress=True):
    """Run a grid and return what ``run_one`` gives for each run, in their order; the same whatever the workers.

    Parameters
    ----------
    runs : list of Run
        What to run; finished runs found in the cache are not repeated.
    datasets : dict of str to Embedded
        The datasets that the runs name.
    jobs, dask, cache, progress
        See ``run_tasks``.

    Raises
    ------
    InputError
        If a run names what does not exist, or as ``run_tasks`` does.
    """
    check_runs(runs)
    for run in runs:
        given = pick("dataset", run.dataset, datasets).encoder
        if given != run.encoder:
            raise InputError(f"{run.dataset} was embedded by {given!r}, not by {run.encoder!r} as the runs say")
    prints = {name: data.fingerprint for name, data in datasets.items()}
    return run_tasks(run_one, [_task(run, datasets[run.dataset], prints) for run in runs], jobs, cache, progress, dask)


def _task(run, data, prints):
    entry = SYSTEMS[run.system]
    key = {"protocol": PROTOCOL, "data": prints[run.dataset], "run": asdict(run), "system": declared(run.system)}
    shares = run.system if entry.reads == "sentences" else entry.family
    return Task(key, (data, run), (shares, run.dataset, run.seed, run.draw, run.cap, run.thin), len(data.y_train))


def _names(run):
    return {name: getattr(run, name) for name in RUN}


def checkpoints(runs, finished):
    """What ``run_grid`` returned for a grid as a tidy frame: one row per checkpoint, in the order of the runs."""
    return pd.DataFrame([_names(run) | row for run, one in zip(runs, finished) for row in one["checkpoints"]])


def right_answers(runs, finished):
    """Which test rows each run got right in the end, to compare systems row by row.

    Returns
    -------
    DataFrame
        One row per run: ``right``, bytes with one bit per test row, novel ones first (``numpy.unpackbits``
        with ``count=n_novel + n_original``), and the numbers of these rows.
    """
    rows = [
        _names(run) | {"right": bytes.fromhex(one["right"]), "n_novel": one["n_novel"], "n_original": one["n_original"]}
        for run, one in zip(runs, finished)
    ]
    return pd.DataFrame(rows)


def sweep(runs, datasets, jobs=1, dask=None, cache=CACHE, progress=True):
    """Run a grid, as ``run_grid`` does, and return its ``checkpoints``."""
    return checkpoints(runs, run_grid(runs, datasets, jobs, dask, cache, progress))


# --- published results


def write_results(frame, path, about=None):
    """Write a frame as parquet, with what its rows are known by; the same content gives the same bytes."""
    metadata = {"ocrr": json.dumps({"protocol": PROTOCOL} | (about or {}), sort_keys=True)}
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(metadata)
    with atomic(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def _table(path):
    try:
        return pq.read_table(path, page_checksum_verification=True)
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing: make it with `make paper`") from error
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path} is damaged ({type(error).__name__}): restore it with git, or make it anew") from error


def read_results(path):
    """The frame in a results file.

    Raises
    ------
    InputError
        If the file is missing or damaged.
    """
    return _table(path).to_pandas()


def read_about(path):
    """What the rows of a results file are known by, a dict; raises as ``read_results``."""
    return json.loads(_table(path).schema.metadata[b"ocrr"])


def _path(name, out=ROOT):
    return Path(out) / f"data/results/{name}.parquet"


def datasets_of(runs):
    """The datasets that runs name, as embeddings or, for systems that read these, as sentences."""
    (reads,) = {SYSTEMS[run.system].reads for run in runs}
    get = load_sentences if reads == "sentences" else load
    return {dataset: get(dataset, encoder) for dataset, encoder in dict.fromkeys((r.dataset, r.encoder) for r in runs)}


def run_experiment(
    name, encoder=DEFAULT_ENCODER, seeds=None, profile="paper", jobs=1, dask=None, out=ROOT, cache=CACHE
):
    """Run an experiment and write its results to ``out``.

    Parameters
    ----------
    name, encoder, seeds, profile
        See ``ocrrlib.experiments.grid``.
    jobs, dask, cache
        See ``run_tasks``.
    out : path
        Folder to write to: ``data/results/<name>.parquet`` and, for some, ``<name>_rows.parquet``.

    Returns
    -------
    DataFrame
        One row per checkpoint.
    """
    runs = grid(name, encoder, seeds, profile)
    datasets = datasets_of(runs)
    finished = run_grid(runs, datasets, jobs, dask or None, cache)
    about = {
        "data": {dataset: data.fingerprint for dataset, data in datasets.items()},
        "systems": {system: declared(system) for system in dict.fromkeys(run.system for run in runs)},
    }
    if SYSTEMS[runs[0].system].reads == "sentences":  # float32 of another machine may round otherwise
        about |= made_where()
    frame = checkpoints(runs, finished)
    write_results(frame, _path(name, out), about)
    if EXPERIMENTS[name].rows:
        write_results(right_answers(runs, finished), _path(f"{name}_rows", out), about)
    return frame


def published(name, out=ROOT):
    """Results as published; copied to ``out``, so that all of them stand together."""
    frame = read_results(_path(name))
    if Path(out) != ROOT:
        with atomic(_path(name, out)) as temporary:
            temporary.write_bytes(_path(name).read_bytes())
    return frame


def publish_study(name, fresh, out=ROOT, keep=True):
    """Write a study's rows and return them: the fresh ones and, with ``keep``, the published ones beside them.

    A fresh row takes the place of a published one of the same name, see ``STUDIES``.
    """
    keys, timed = STUDIES[name], name in TIMED
    parts = [fresh, read_results(_path(name))] if keep and _path(name).exists() else [fresh]
    joined = pd.concat([part for part in parts if len(part)], ignore_index=True)
    joined = joined.drop_duplicates(keys).sort_values(keys, kind="stable", ignore_index=True)
    write_results(joined, _path(name, out), made_where() if timed else None)
    return joined


def made_where():
    """Machine, libraries and date, for results that hang on them."""
    return {"machine": platform.machine(), "libraries": libraries(), "date": date.today().isoformat()}
