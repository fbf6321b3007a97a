"""The experiments, run as grids and published as files.

Published results stand while runs that are repeated come out the same (see ``studies.check``),
whatever the text of the code.
"""

import json
import platform
from dataclasses import asdict
from datetime import date
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ocrrlib.embeddings import load, load_sentences
from ocrrlib.experiments import EXPERIMENTS, grid
from ocrrlib.files import ROOT, InputError, atomic, pick
from ocrrlib.policies import JOINT, POLICIES
from ocrrlib.scenario import joint, make_scenario
from ocrrlib.stream import PROTOCOL, run_stream
from ocrrlib.systems import SYSTEMS, make
from ocrrlib.tasks import CACHE, Task, libraries, run_tasks

WAYS = POLICIES | {JOINT.name: JOINT}


@lru_cache(maxsize=1)  # runs of one scenario come in a row
def _scenario(data, all_at_once, *args, **options):
    scenario = make_scenario(data, *args, **options)
    return joint(scenario) if all_at_once else scenario


def declared(system):
    """What the registry declares of a system, as results carry it."""
    entry = SYSTEMS[system]
    return {"version": entry.version, "params": entry.params}


def run_one(data, run, first=None):
    """One run of a grid on its dataset, as JSON can hold it; ``first``: stop after so many checkpoints.

    Returns ``checkpoints``, and of the last one ``rows``: which test rows were ``right``, novel
    ones first, one bit each in hex, and their numbers; and the ``heights`` of its curve, int32 in
    hex.
    """
    joined = run.policy == JOINT.name
    scenario = _scenario(data, joined, run.seed, draw=run.draw, cap=run.cap, thin=run.thin)
    stream = run_stream(make(run.system, run.seed, run.encoder), scenario, WAYS[run.policy])
    checkpoints = list(islice(stream, first))
    right = checkpoints[-1].answers == np.concatenate([scenario.y_novel, scenario.y_original])
    numbers = {"n_novel": len(scenario.y_novel), "n_original": len(scenario.y_original)}
    rows = {"right": np.packbits(right).tobytes().hex()} | numbers
    rows["heights"] = checkpoints[-1].heights.astype("<i4").tobytes().hex()
    return {"checkpoints": [checkpoint.scalars for checkpoint in checkpoints], "rows": rows}


def task_of(run, data, first=None):
    """``run_one`` as a task; ``InputError`` if the run names what does not exist or what ``data`` are not."""
    pick("policy", run.policy, WAYS)
    entry = pick("system", run.system, SYSTEMS)
    if data.encoder != run.encoder:
        raise InputError(
            f"{run.dataset} was embedded by {data.encoder!r}, not by {run.encoder!r} as the runs say"
        )
    key = {
        "data": data.fingerprint,
        "run": asdict(run),
        "first": first,
        "system": declared(run.system),
    }
    shares = run.system if entry.reads == "sentences" else entry.family
    group = shares, run.dataset, run.seed, run.draw, run.cap, run.thin
    return Task(key, (data, run, first), group, len(data.y_train))


def run_grid(runs, datasets, **how):
    """Run a grid, a list of ``Run``, on its ``datasets`` by name; ``how``: the options of ``run_tasks``.

    Returns
    -------
    checkpoints, rows : DataFrame
        One row per checkpoint, in the order of the runs; and one row per run, to compare systems
        test row by test row: ``right``, bytes with one bit per row, novel ones first
        (``numpy.unpackbits`` with ``count=n_novel + n_original``), the numbers of these rows, and
        ``heights``, bytes with one little-endian int32 per novel row (``numpy.frombuffer``), from
        which ``ocrrlib.metrics.curve`` draws the curve.

    Raises ``InputError`` if a run names what does not exist, before anything runs, or as
    ``run_tasks`` does.
    """
    tasks = [task_of(run, pick("dataset", run.dataset, datasets)) for run in runs]
    finished = run_tasks(run_one, tasks, **how)
    checkpoints = [
        run.names | row for run, one in zip(runs, finished) for row in one["checkpoints"]
    ]
    rows = pd.DataFrame([run.names | one["rows"] for run, one in zip(runs, finished)])
    packed = {name: rows[name].map(bytes.fromhex) for name in ("right", "heights")}
    return pd.DataFrame(checkpoints), rows.assign(**packed)


def sweep(runs, datasets, **how):
    """Run a grid, as ``run_grid`` does, and return its checkpoints."""
    return run_grid(runs, datasets, **how)[0]


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
        way_out = "restore it with git, or make it again"
        raise InputError(f"{path} is damaged ({type(error).__name__}): {way_out}") from error


def read_results(path):
    """The frame in a results file.

    Raises ``InputError`` if the file is missing or damaged.
    """
    return _table(path).to_pandas()


def read_about(path):
    """What the rows of a results file are known by, a dict; raises as ``read_results``."""
    return json.loads(_table(path).schema.metadata[b"ocrr"])


def path_of(name, out=ROOT):
    return Path(out) / f"data/results/{name}.parquet"


@lru_cache(maxsize=3)
def dataset_of(dataset, encoder, reads):
    """A dataset as embeddings or, for systems that read these, as sentences; the last ones are remembered."""
    return (load_sentences if reads == "sentences" else load)(dataset, encoder)


def run_experiment(
    name, encoder=None, seeds=None, profile="paper", jobs=1, dask=None, out=ROOT, cache=CACHE
):
    """Run an experiment, write its results below the folder ``out``, and return its checkpoints, a row each.

    Writes ``data/results/<name>.parquet`` and, for some, ``<name>_rows.parquet``. For the other
    parameters see ``ocrrlib.experiments.grid`` and ``run_tasks``.
    """
    runs = grid(name, encoder, seeds, profile)
    (reads,) = {SYSTEMS[run.system].reads for run in runs}
    datasets = {run.dataset: dataset_of(run.dataset, run.encoder, reads) for run in runs}
    frame, rows = run_grid(runs, datasets, jobs=jobs, dask=dask, cache=cache)
    about = {
        "data": {dataset: data.fingerprint for dataset, data in datasets.items()},
        "systems": {system: declared(system) for system in EXPERIMENTS[name].systems},
    }
    if reads == "sentences":  # float32 of another machine may round otherwise
        about |= made_where()
    write_results(frame, path_of(name, out), about)
    if EXPERIMENTS[name].rows:
        write_results(rows, path_of(f"{name}_rows", out), about)
    return frame


def published(name, out=ROOT):
    """Results as published; copied to ``out``, so that all of them stand together."""
    frame = read_results(path_of(name))
    if Path(out) != ROOT:
        with atomic(path_of(name, out)) as temporary:
            temporary.write_bytes(path_of(name).read_bytes())
    return frame


def made_where():
    """Machine, libraries and date, for results that hang on them."""
    return {
        "machine": platform.machine(),
        "libraries": libraries(),
        "date": date.today().isoformat(),
    }
