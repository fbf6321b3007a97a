"""Evaluate your system: an object of your own, of scikit-learn or river, or a registry name."""

import inspect
import operator
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ocrrlib.datasets import DATASETS, load_texts
from ocrrlib.embeddings import Embedded, load, load_sentences, path_of
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.experiments import parse_seeds
from ocrrlib.files import InputError, cache_folder, check_name, pick
from ocrrlib.own.adapters import as_system, title_of
from ocrrlib.own.code import Sent, own_code_digest, own_code_hashes, unchanged
from ocrrlib.own.data import check_held_out, read_data
from ocrrlib.own.evaluation import HELD_OUT, Evaluation, finals
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
    resume: bool = True,
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
    dataset : str, Path, DataFrame, dict of arrays or Embedded
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
    resume : bool
        Whether to read seeds that an earlier, stopped call finished from the cache: those with the
        same data, options, installed packages, own modules, and attributes and globals that are set
        at the call. Not known are data files that a system reads.

    Raises
    ------
    InputError
        If a name is unknown, an option out of range, or the system or data cannot be used. Of an
        answer or score that cannot be used, seed and step are named.
    RuntimeError
        If the system raises an error; the seeds that were finished are kept.

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
    reads_text = isinstance(as_system(system), TextSystem)
    if held_out is not None:
        held_out = _count("held_out", held_out)
    data = _load(dataset, encoder, reads_text, held_out)
    if held_out is None:
        held_out = min(HELD_OUT, max(1, len(data.classes) // 4))
    check_held_out(data.classes, held_out)
    encoder_name = encoder if isinstance(encoder, str) else None
    options = (system, encoder_name, rule, held_out, every)
    sent = Sent(options)
    if jobs > 1 or dask:
        sent.check()
    tasks = [
        Task({"run": f"{title} on {data.dataset}, seed {seed}"}, (data, seed, sent))
        for seed in seeds
    ]
    digest = own_code_digest(data.fingerprint, options) if resume else None
    cache = cache_folder() / "own" / digest[:32] if digest else None
    runs = run_tasks(_run, tasks, jobs, cache, progress, dask, lambda run: unchanged(run["code"]))

    cell = {"dataset": data.dataset, "encoder": data.encoder, "policy": rule.name}
    rows = []
    sizes = []
    for seed, found in zip(seeds, runs):
        run = cell | {"seed": seed, "system": title}
        rows += [run | checkpoint for checkpoint in found["checkpoints"]]
        sizes.append(found["rows"])
    curve = pd.DataFrame(rows)
    reached = finals(curve).assign(fingerprint=data.fingerprint, held_out=held_out, every=every)
    tested = pd.DataFrame(sizes, columns=["novel_rows", "original_rows"])
    reached = reached.assign(classes=len(data.classes)).join(tested)
    return Evaluation(title, curve, reached)


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


def _run(data, seed, sent):
    """Checkpoints of one seed, as dicts, and the numbers of novel and original test rows.

    With the SHA-256 of your own modules that are loaded now: a system may import some as it runs.
    """
    system, encoder, policy, held_out, every = sent.value
    scenario = make_scenario(data, seed, cap=None, held_out=held_out)
    random.seed(seed)
    np.random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)
    checkpoints = run_stream(as_system(system, seed, encoder), scenario, policy, every)
    return {
        "checkpoints": [checkpoint.scalars for checkpoint in checkpoints],
        "rows": [len(scenario.y_novel), len(scenario.y_original)],
        "code": own_code_hashes(),
    }
