"""Evaluate a system: an object of yours, of scikit-learn or river, or a name in the registry."""

import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from pickle import PicklingError
from typing import Any

import numpy as np
import pandas as pd

from ocrr.adapters import as_system, prepared, settings_of, title_of, whole_number
from ocrr.data.read import read_data
from ocrr.data.splits import check_held_out
from ocrr.evaluation import HELD_OUT, Evaluation, check_folder, finals
from ocrr.transcript import Recorder
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
    seeds: int | str | Sequence[int] = range(10),
    policy: str | Policy = "oracle",
    encoder: str | Path | Callable | Any = DEFAULT_ENCODER,
    held_out: int | None = None,
    every: int = EVERY,
    name: str | None = None,
    jobs: int = 1,
    dask: str | None = None,
    progress: bool | None = None,
    out: str | Path | None = None,
    version: str = "",
) -> Evaluation:
    """Stream a dataset through a system once per seed, as in the published comparison.

    Parameters
    ----------
    system : str, callable, object, or a list or dict of these
        Name in the registry; an object with ``fit``, ``predict`` and ``correct``, of which each
        seed gets a deep copy; a scikit-learn or river classifier, of which each seed gets an
        unfitted copy with the same settings; or a class or function that makes one of these. The
        seed is passed on as ``seed`` or ``random_state`` where there is such a parameter, in parts
        of a classifier, too. With ``predict_proba(X)``, class probabilities (m, C), or those of the
        library, the result has curves, see ``ocrrlib.metrics``. A scikit-learn classifier without
        ``partial_fit`` is given as ``Refit`` of it. Several, in a list, or in a dict by their names
        in results, meet the same streams and draws, and are one result.
    dataset : str, path, DataFrame, dict of arrays or Embedded
        Name of a published dataset, or what ``read_data`` reads or returns.
    seeds : int, sequence of int or str
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
        Name of the system in results, by default that of its class or function.
    jobs, dask : int, str, optional
        Worker processes, or the address of a Dask scheduler; results are the same.
    progress : bool, optional
        Whether a bar for each system is shown on stderr; by default if that is a terminal or a
        notebook.
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
    >>> evaluate("ncm", seeds=[0], policy="random10")
    <ncm on banking77, random10, 1 seeds: novel 0.767, original 0.850, best hm 0.851, ...>
    """
    named = _by_name(system, name)
    seeds = parse_seeds(seeds)
    rule = _policy(policy)
    every = whole_number("every", every)
    jobs = whole_number("jobs", jobs)
    _check_encoder(encoder)
    if out is not None:
        check_folder(out)
    read_text = {title: isinstance(as_system(one), TextSystem) for title, one in named.items()}
    if held_out is not None:
        held_out = whole_number("held_out", held_out)
    loaded = {kind: _load(dataset, encoder, kind, held_out) for kind in {*read_text.values()}}
    if progress is None:
        progress = sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")
    encoder_name = encoder if isinstance(encoder, str) else None

    rows = []
    ends = []
    answers = {}
    for title, one in named.items():
        data = loaded[read_text[title]]
        held = held_out or min(HELD_OUT, max(1, len(data.classes) // 4))
        check_held_out(data.classes, held)
        options = (one, encoder_name, rule, held, every)
        tasks = [
            Task({"run": f"{title} on {data.dataset}, seed {seed}"}, (data, seed, options))
            for seed in seeds
        ]
        cell = (title, data.fingerprint, vars(rule), held, every)
        kept = _kept_in(one, cell, out, version)
        try:
            runs = run_tasks(_run, tasks, jobs, progress=progress, dask=dask, title=title, **kept)
        except PicklingError as error:
            said = str(error.__cause__ or error).strip('\n"')  # may be a traceback: its last line
            raise InputError(
                f"{title} cannot be sent to other processes ({said.splitlines()[-1]}): "
                "evaluate with jobs=1"
            ) from error
        of_all = {"dataset": data.dataset, "encoder": data.encoder, "policy": rule.name}
        setting = {"fingerprint": data.fingerprint, "held_out": held, "every": every}
        setting["classes"] = len(data.classes)
        for seed, finished in zip(seeds, runs):
            run = of_all | {"seed": seed, "system": title}
            rows += [run | checkpoint for checkpoint in finished["checkpoints"]]
            ends.append(setting | finished["end"])
            answers[title, seed] = finished["answers"]
    curve = pd.DataFrame(rows)
    reached = finals(curve).join(pd.DataFrame(ends).dropna(axis=1, how="all"))
    return Evaluation(", ".join(named), curve, reached, named, answers)


def _by_name(system, name):
    """The systems by their names in results; of equal names in a list, later ones get a number."""
    if not isinstance(system, (list, tuple, dict)):
        named = {name or title_of(system): system}
    elif name is not None:
        raise InputError(f"the name {name!r} is for one system: give several in a dict, by name")
    elif not system:
        raise InputError("there is no system in the list: give one or more")
    elif isinstance(system, dict):
        named = system
    else:
        named = {}
        for one in system:
            title = title_of(one)
            number = 1
            while title in named:
                number += 1
                title = f"{title_of(one)}_{number}"
            named[title] = one
    for title in named:
        check_name("name", title)
    return named


def _kept_in(system, cell, out, version):
    """Options of ``run_tasks``: where finished runs are kept, and what is said of those there."""
    if isinstance(system, str):
        return {"cache": cache_folder() / "own" / _digest([system, *cell])}
    if out is None:
        return {"cache": None}
    return {
        "cache": Path(out).absolute() / "runs" / _digest([settings_of(system), version, *cell]),
        "note": f"from {out}: a changed system wants another version or folder",
    }


def _digest(value):
    return hashlib.sha256(json.dumps(value, default=str).encode()).hexdigest()[:32]


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
    """Checkpoints of one seed, as dicts; numbers of test rows and refits; the transcript."""
    thing, encoder, policy, held_out, every = options
    scenario = make_scenario(data, seed, cap=None, held_out=held_out)
    system = prepared(thing, seed, encoder)
    recorder = Recorder(system)
    checkpoints = [one.scalars for one in run_stream(recorder, scenario, policy, every)]
    end = {"novel_rows": len(scenario.y_novel), "original_rows": len(scenario.y_original)}
    end["refits"] = getattr(system, "refits", None)
    return {
        "checkpoints": checkpoints,
        "end": end,
        "answers": recorder.packed(scenario.held_out),
    }
