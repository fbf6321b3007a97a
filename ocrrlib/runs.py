"""Grids of runs, and their results as files.

Published results stand while runs that are repeated come out the same (see ``studies.check``),
whatever the text of the code.
"""

from __future__ import annotations

import copy
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from datetime import date
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ocrrlib.embeddings import Embedded, load, load_sentences
from ocrrlib.experiments import Run
from ocrrlib.files import ROOT, InputError, atomic, pick
from ocrrlib.metrics import Checkpoint
from ocrrlib.policies import JOINT, POLICIES
from ocrrlib.scenario import Scenario, joint, make_scenario
from ocrrlib.stream import PROTOCOL, run_stream
from ocrrlib.systems import SYSTEMS, make
from ocrrlib.tasks import Task, libraries, run_tasks

KNOWN_POLICIES = POLICIES | {JOINT.name: JOINT}


@lru_cache(maxsize=1)  # runs of one scenario come in a row
def _scenario(data: Embedded, run: Run) -> Scenario:
    """What a run of any system streams."""
    scenario = make_scenario(data, run.seed, run.draw, run.cap, run.held_out, run.thin)
    return joint(scenario) if run.policy == JOINT.name else scenario


def declared(system: str) -> dict:
    """Version and parameters of a system in the registry, as results record them."""
    row = SYSTEMS[system]
    return {"version": row.version, "params": row.params}


def same_fit(run: Run) -> Run:
    """The run without its policy, on which the fitted system does not depend.

    Only the joint policy stays, as it fits other rows.
    """
    return run if run.policy == JOINT.name else replace(run, policy="any")


def run_policies(data: Embedded, runs: list[Run], first: int | None = None) -> list[dict]:
    """Run one system on one scenario under several policies, as JSON can hold it.

    The system is fitted once and copied for each policy. ``runs`` are of one ``same_fit``;
    ``first`` stops each after so many checkpoints. A result has ``checkpoints`` and, of the last
    one, ``rows``: which test rows were ``right``, novel ones first, one bit each in hex, and their
    numbers; and ``heights`` and ``depths`` of its curve, int32 in hex.
    """
    scenario = _scenario(data, replace(same_fit(runs[0]), system="any"))
    system = make(runs[0].system, runs[0].seed, runs[0].encoder)
    system.fit(scenario.X_initial, scenario.y_initial, scenario.classes)
    results = []
    for place, run in enumerate(runs, 1):
        own = system if place == len(runs) else copy.deepcopy(system)
        stream = run_stream(own, scenario, KNOWN_POLICIES[run.policy], fitted=True)
        results.append(_result(list(islice(stream, first)), scenario))
    return results


def _result(checkpoints: list[Checkpoint], scenario: Scenario) -> dict:
    last = checkpoints[-1]
    right = last.answers == np.concatenate([scenario.y_novel, scenario.y_original])
    rows = {
        "right": np.packbits(right).tobytes().hex(),
        "n_novel": len(scenario.y_novel),
        "n_original": len(scenario.y_original),
        "heights": np.asarray(last.heights, "<i4").tobytes().hex(),
        "depths": np.asarray(last.depths, "<i4").tobytes().hex(),
    }
    return {"checkpoints": [checkpoint.scalars for checkpoint in checkpoints], "rows": rows}


def task_of(runs: list[Run], data: Embedded, first: int | None = None) -> Task:
    """Make a task of ``run_policies``.

    Raises ``InputError`` if a run names what does not exist or what ``data`` are not.
    """
    for run in runs:
        pick("policy", run.policy, KNOWN_POLICIES)
    run = runs[0]
    row = pick("system", run.system, SYSTEMS)
    if data.encoder != run.encoder:
        embedded = f"{run.dataset} was embedded by {data.encoder!r}"
        raise InputError(f"{embedded}, not by {run.encoder!r} as the runs say")
    key = {
        "data": data.fingerprint,
        "run": asdict(run) | {"policy": [run.policy for run in runs]},
        "first": first,
        "system": declared(run.system),
    }
    # Runs on sentences take long: no two systems wait for one another.
    shares = run.system if row.reads == "sentences" else row.shares
    group = shares, run.dataset, run.seed, run.draw, run.cap, run.thin, run.held_out
    return Task(key, (data, runs, first), group, cost=len(data.y_train) * len(runs))


def run_grid(
    runs: list[Run], datasets: Mapping[str, Embedded], **how
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run a grid on its ``datasets`` by name; ``how``: the options of ``run_tasks``.

    Returns
    -------
    checkpoints, rows : DataFrame
        One row per checkpoint, in the order of the runs; and one row per run, to compare systems
        test row by test row: ``right``, bytes with one bit per row, novel ones first
        (``numpy.unpackbits`` with ``count=n_novel + n_original``), the numbers of these rows, and
        ``heights``, bytes with one little-endian int32 per novel row (``numpy.frombuffer``), from
        which ``ocrrlib.metrics.curve`` draws the curve, and ``depths``, one per original row.

    Raises ``InputError`` if a run names what does not exist, before anything runs, or as
    ``run_tasks`` does.
    """
    fits: dict[Run, list[Run]] = {}
    for run in dict.fromkeys(runs):
        fits.setdefault(same_fit(run), []).append(run)
    tasks = [task_of(own, pick("dataset", own[0].dataset, datasets)) for own in fits.values()]
    results: dict[Run, dict] = {}
    for own, finished in zip(fits.values(), run_tasks(run_policies, tasks, **how)):
        results |= dict(zip(own, finished))
    checkpoints = []
    rows = []
    for run in runs:
        checkpoints += [run.names | checkpoint for checkpoint in results[run]["checkpoints"]]
        rows.append(run.names | results[run]["rows"])
    table = pd.DataFrame(rows)
    for name in ("right", "heights", "depths"):
        table[name] = table[name].map(bytes.fromhex)
    return pd.DataFrame(checkpoints), table


def sweep(runs: list[Run], datasets: Mapping[str, Embedded], **how) -> pd.DataFrame:
    """Run a grid, as ``run_grid`` does, and return its checkpoints."""
    return run_grid(runs, datasets, **how)[0]


# Published results


def path_of(name: str, out: Path | str = ROOT) -> Path:
    """Path of a results file below the folder ``out``."""
    return Path(out) / f"data/results/{name}.parquet"


def write_results(frame: pd.DataFrame, path: Path, about: dict | None = None) -> None:
    """Write a frame as parquet, with the protocol and ``about`` in the file's metadata.

    The same content gives the same bytes.
    """
    metadata = {"ocrr": json.dumps({"protocol": PROTOCOL} | (about or {}), sort_keys=True)}
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(metadata)
    with atomic(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def read_results(path: Path) -> pd.DataFrame:
    """Read the frame in a results file.

    Raises ``InputError`` if the file is missing or damaged.
    """
    return _table(path).to_pandas()


def read_about(path: Path) -> dict:
    """Read the metadata that ``write_results`` wrote; raises as ``read_results``."""
    return json.loads(_table(path).schema.metadata[b"ocrr"])


def _table(path):
    try:
        return pq.read_table(path, page_checksum_verification=True)
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing: make it with `make paper`") from error
    except (OSError, pa.ArrowException) as error:
        way_out = "restore it with git, or make it again"
        raise InputError(f"{path} is damaged ({type(error).__name__}): {way_out}") from error


def published(name: str) -> pd.DataFrame:
    """Read results as published."""
    return read_results(path_of(name))


@lru_cache(maxsize=3)
def dataset_of(dataset: str, encoder: str, reads: str) -> Embedded:
    """A dataset as embeddings, or as sentences for systems that read sentences.

    The last three are remembered.
    """
    if reads == "sentences":
        return load_sentences(dataset, encoder)
    return load(dataset, encoder)


def datasets_of(runs: Iterable[Run]) -> dict[str, Embedded]:
    """The datasets of a grid, by name.

    Raises ``InputError`` if a system is unknown, or if some read embeddings and others sentences.
    """
    reads = {pick("system", run.system, SYSTEMS).reads for run in runs}
    if len(reads) > 1:
        raise InputError("systems that read sentences need a grid of their own")
    return {run.dataset: dataset_of(run.dataset, run.encoder, *reads) for run in runs}


def about(runs: Iterable[Run], datasets: Mapping[str, Embedded]) -> dict:
    """Metadata of a grid's results: fingerprints of its data, and its systems as declared."""
    return {
        "data": {name: data.fingerprint for name, data in datasets.items()},
        "systems": {run.system: declared(run.system) for run in runs},
    }


def made_where() -> dict:
    """Machine, libraries and date, for results that depend on them."""
    return {
        "machine": platform.machine(),
        "libraries": libraries(),
        "date": date.today().isoformat(),
    }
