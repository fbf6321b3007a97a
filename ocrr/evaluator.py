"""Evaluate a system: an object of yours, of scikit-learn or river, or a name in the registry."""

import hashlib
import inspect
import json
import operator
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from pickle import PicklingError
from typing import Any

import numpy as np
import pandas as pd

from ocrr.adapters import as_system, settings_of, title_of
from ocrr.data.read import read_data
from ocrr.data.splits import check_held_out
from ocrr.evaluation import HELD_OUT, Evaluation, check_folder, finals
from ocrrlib.datasets import DATASETS, load_texts
from ocrrlib.embeddings import Embedded, load, load_sentences, path_of
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.experiments import parse_seeds
from ocrrlib.files import InputError, cache_folder, check_name, pick
from ocrrlib.policies import POLICIES, Policy
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import EVERY, run_stream
from ocrrlib.systems.base import TextSystem
from ocrrlib.tasks import Task, run_tasks


def evaluate(
    system: Any,
    dataset: str | Path | pd.DataFrame | dict[str, np.ndarray] | Embedded = "banking77",
    seeds: str | Sequence[int] = range(10),
    policy: str | Policy = "oracle",
    encoder: str | Path | Callable | Any = DEFAULT_ENCODER,
    held_out: int | None = None,
    every: int = EVERY,
    name: str | None = None,
    jobs: int = 1,
    dask: str | None = None,
    progress: bool = True,
    out: str | Path | None = None,
    version: str = "",
) -> Evaluation:
    """Stream a dataset through a system once per seed, as in the published comparison.

    Parameters
    ----------
    system : str, callable or object
        Name in the registry; an object with ``fit``, ``predict`` and ``correct``, of which each
        seed gets a deep copy; a scikit-learn or river classifier, of which each seed gets an
        unfitted copy with the same settings; or a class or function that makes one of these. The
        seed is passed on as ``seed`` or ``random_state`` where there is such a parameter, in parts
        of a classifier, too. With ``predict_proba(X)``, class probabilities (m, C), or those of the
        library, the result has curves, see ``ocrrlib.metrics``.
    dataset : str, path, DataFrame, dict of arrays or Embedded
        Name of a published dataset, or what ``read_data`` reads or returns.
    seeds : sequence of int or str
        Seeds of held-out classes, stream order, Bernoulli draws and system; also as ``"0-4"``.
    policy : str or Policy
        Name in ``POLICIES``, or a policy of your own.
    encoder : str, callable or object with ``encode``
        Embeds texts, see ``read_data``.
    held_out : int, optional
        Number of held-out classes; by default 10, at most a quarter.
    every : int
        Stream items between two checkpoints.
    name : str, optional
        Name of the system in results.
    jobs, dask : int, str, optional
        Worker processes, or the address of a Dask scheduler; results are the same.
    out : str or path, optional
        Folder in which finished runs of a system of your own are kept, in its folder ``runs``, and
        from which a later call takes them. A run is known there by the name and the settings of the
        system, ``version``, data, encoder, policy, ``held_out``, ``every`` and seed, and by this
        package and the libraries. Runs of names in the registry are kept in the cache.
    version : str
        Version of a system of your own: give another one when its code has changed.

    Raises
    ------
    InputError
        If a name is unknown, an option out of range, the system or data cannot be used, or ``out``
        cannot be written. Of an answer or score that cannot be used, seed and step are named.
    RuntimeError
        If the system raises an error.

    Examples
    --------
    >>> evaluate("ncm", seeds=[0], policy="random10", progress=False)
    <ncm on banking77, random10, 1 seeds: novel 0.767, original 0.850, best hm 0.851, ...>
    """
    title = name or title_of(system)
    check_name("name", title)
    seeds = parse_seeds(seeds)
    rule = _policy(policy)
    every = _count("every", every)
    jobs = _count("jobs", jobs)
    _check_encoder(encoder)
    if out is not None:
        check_folder(out)
    reads_text = isinstance(as_system(system), TextSystem)
    if held_out is not None:
        held_out = _count("held_out", held_out)
    data = _load(dataset, encoder, reads_text, held_out)
    if held_out is None:
        held_out = min(HELD_OUT, max(1, len(data.classes) // 4))
    check_held_out(data.classes, held_out)
    encoder_name = encoder if isinstance(encoder, str) else None
    options = (system, encoder_name, rule, held_out, every)
    tasks = [
        Task({"run": f"{title} on {data.dataset}, seed {seed}"}, (data, seed, options))
        for seed in seeds
    ]
    cell = (title, data.fingerprint, vars(rule), held_out, every)
    cache = None
    note = ""
    if isinstance(system, str):
        cache = cache_folder() / "own" / _digest([system, *cell])
    elif out is not None:
        cache = Path(out).absolute() / "runs" / _digest([settings_of(system), version, *cell])
        note = f"from {out}: a changed system wants another version or folder"
    try:
        runs = run_tasks(_run, tasks, jobs, cache, progress, dask, note)
    except PicklingError as error:
        said = str(error.__cause__ or error).strip('\n"')  # may be a traceback: its last line
        raise InputError(
            f"{title} cannot be sent to other processes ({said.splitlines()[-1]}): "
            "evaluate with jobs=1"
        ) from error

    named = {"dataset": data.dataset, "encoder": data.encoder, "policy": rule.name}
    rows = []
    sizes = []
    for seed, finished in zip(seeds, runs):
        run = named | {"seed": seed, "system": title}
        rows += [run | checkpoint for checkpoint in finished["checkpoints"]]
        sizes.append(finished["rows"])
    curve = pd.DataFrame(rows)
    reached = finals(curve).assign(fingerprint=data.fingerprint, held_out=held_out, every=every)
    tested = pd.DataFrame(sizes, columns=["novel_rows", "original_rows"])
    reached = reached.assign(classes=len(data.classes)).join(tested)
    return Evaluation(title, curve, reached)


def _digest(value):
    return hashlib.sha256(json.dumps(value, default=str).encode()).hexdigest()[:32]


def _count(name, value):
    """A whole number from 1 of any type; ``InputError`` for others, ``True`` among them."""
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} {value!r} cannot be used: give a whole number from 1")
    return number


def _check_encoder(encoder):
    function = getattr(encoder, "encode", encoder)
    if inspect.isclass(encoder) or not (isinstance(encoder, (str, Path)) or callable(function)):
        raise InputError(
            f"encoder {encoder!r} cannot be used: give a name, a function from texts to vectors, "
            "or an object with such a method encode"
        )


def _policy(policy):
    """A policy by name or as given; no other one may have the name of a published one."""
    if not isinstance(policy, Policy):
        return pick("policy", policy, POLICIES)
    if POLICIES.get(policy.name, policy) != policy:
        raise InputError(
            f"policy {policy.name!r} is a published one with other settings: "
            "give yours another name"
        )
    return policy


def _load(dataset, encoder, reads_text, held_out):
    """The vectors, or the sentences, of any dataset that ``evaluate`` takes.

    Texts are encoded only if there are more classes than are to be held out.
    """
    if reads_text:
        if not isinstance(dataset, str):
            raise InputError(
                "a system that reads sentences runs on a published dataset only: give its name"
            )
        return load_sentences(dataset, encoder)
    if isinstance(dataset, Embedded):
        return dataset
    if isinstance(dataset, str) and not Path(dataset).suffix:
        pick("dataset", dataset, DATASETS)
        named = isinstance(encoder, (str, Path))
        if not (named and path_of(dataset, encoder).exists()):
            check_held_out(load_texts(dataset).labels[0], held_out)
        return load(dataset, encoder)
    return read_data(dataset, encoder=encoder, held_out=held_out)


def _run(data, seed, options):
    """Checkpoints of one seed, as dicts, and the numbers of novel and original test rows."""
    system, encoder, policy, held_out, every = options
    scenario = make_scenario(data, seed, cap=None, held_out=held_out)
    random.seed(seed)
    np.random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)
    checkpoints = run_stream(as_system(system, seed, encoder), scenario, policy, every)
    return {
        "checkpoints": [checkpoint.scalars for checkpoint in checkpoints],
        "rows": [len(scenario.y_novel), len(scenario.y_original)],
    }
