"""Your system, data or encoder on the benchmark, beside all that is published."""

import platform
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import cloudpickle
import joblib
import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from ocrrlib import __version__
from ocrrlib.anytime import measure
from ocrrlib.candidates import Candidate
from ocrrlib.card_cells import HELD_OUT, METRICS, cell_of, place_of
from ocrrlib.card_check import VERSION
from ocrrlib.cards import published_cards
from ocrrlib.datasets import DATASETS
from ocrrlib.embeddings import Embedded, load
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.errors import InputError, pick
from ocrrlib.experiments import parse_seeds
from ocrrlib.policies import POLICIES
from ocrrlib.progress import Progress
from ocrrlib.scenario import make_scenario
from ocrrlib.sending import Packed, packed
from ocrrlib.standings import ranked, standings
from ocrrlib.stream import run_stream
from ocrrlib.student import interval

DRAW, CAP = "fresh", None  # as all published cells
FILES = (".csv", ".parquet", ".npz", ".safetensors")


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What an evaluation came to.

    Attributes
    ----------
    curve : DataFrame
        One row per checkpoint: ``dataset``, ``encoder``, ``policy``, ``seed``, ``system``, ``step``,
        ``corrections``, ``novel_acc``, ``original_acc``, ``stored_entries``, ``storage_bytes``.
    about : dict
        What repeats it: ``system`` and ``made_with``, as cards have them, and of the cell ``fingerprint``,
        ``revision``, ``held_out``, ``draw``, ``cap``, ``data``.
    """

    curve: pd.DataFrame
    about: dict

    @property
    def name(self):
        """The system's name."""
        return self.about["system"]["name"]

    @cached_property
    def runs(self):
        """One row per seed, as ``ocrrlib.anytime.measure`` makes them."""
        return measure(self.curve)

    @cached_property
    def summary(self):
        """One row per metric: ``mean``, ``sd``, ``low``, ``high`` (95 % t interval; NaN for one seed), ``n`` seeds."""
        rows = [{"metric": name} | interval(self.runs[column]) for name, column in METRICS.items()]
        return pd.DataFrame(rows)

    def compared(self):
        """This system's row among all published ones of its cell, best first by anytime novel accuracy.

        Systems that have collapsed come after all others, see ``ocrrlib.standings.ranked``.

        Returns
        -------
        DataFrame
            As ``standings``, over the seeds that both have; ``own`` marks this system's row.

        Raises
        ------
        InputError
            If nothing is published for this cell.
        """
        own, published = self.card(), published_cards()
        place = place_of(own["cells"][0])
        known = {place_of(cell): None for card in published for cell in card["cells"]}
        if place not in known:
            names = dict.fromkeys(f"{name}, {policy}, {encoder}" for name, _, encoder, policy, *_ in known)
            raise InputError(
                f"nothing is published to compare {self._cell} with; there are: {'; '.join(names) or 'no cards'}, "
                f"{HELD_OUT} classes held out"
            )
        rivals = standings(published, place, seeds=set(self.runs["seed"])).assign(own=False)
        mine = standings([own], place).assign(own=True)
        return ranked(pd.concat([mine, rivals], ignore_index=True))

    def plot(self):
        """The curve with its spread, and the plane of novel against original accuracy with all published systems.

        Returns
        -------
        matplotlib Figure

        Raises
        ------
        InputError
            If matplotlib or seaborn is not installed.
        """
        try:
            from ocrrlib.report.evaluation import draw  # slow to import, and optional
        except ImportError as error:
            raise InputError(f"a plot needs {error.name}, which is not installed: pip install {error.name}") from error
        return draw(self)

    def card(self, source="own run"):
        """A result card of it, as a dict; ``source`` says whose result it is."""
        cell = cell_of(self.runs, **{name: self.about[name] for name in _CELL})
        about = {name: self.about[name] for name in ("system", "made_with")}
        return {"version": VERSION, "source": source, "cells": [cell]} | about

    @property
    def _cell(self):
        first = self.curve.iloc[0]
        held_out = f"{self.about['held_out']} classes held out"
        return f"{first['dataset']}, {first['policy']}, {first['encoder']}, {held_out}"

    def __repr__(self):
        rows = self.summary.set_index("metric")
        parts = [f"{name} {rows.at[name, 'mean']:.3f}" for name in METRICS if name != "corrections"]
        parts.append(f"{rows.at['corrections', 'mean']:.0f} corrections")
        return f"<{self.name} on {self._cell}, {len(self.runs)} seeds: {', '.join(parts)}>"


_CELL = ("fingerprint", "revision", "held_out", "draw", "cap", "data")
_DATA = ("sources", "split", "columns")  # of what a dataset's origin says


def evaluate(
    system,
    dataset="banking77",
    seeds=range(10),
    policy="oracle",
    encoder=DEFAULT_ENCODER,
    held_out=None,
    name=None,
    jobs=1,
    progress=True,
):
    """Stream a dataset through a system, once for each seed, as the published comparison does.

    Parameters
    ----------
    system : str, callable or object
        A registry name; a class, or a function of the seed, that makes a system; an object with the three methods, or
        an estimator of scikit-learn or river, of which each seed gets a fresh copy (see ``adapters.as_system``). A
        class gets the seed if it has a parameter ``seed`` or ``random_state``.
    dataset : str, path or Embedded
        A registry name, a file (see ``own_data.read_data``), or what that returned.
    seeds : sequence of int
        Seeds of held-out classes, stream order, coins and system.
    policy : str
        Which mistakes are corrected, a name in ``POLICIES``.
    encoder : str or callable
        What embeds texts.
    held_out : int, optional
        Classes that are first met in the stream; by default 10, or a quarter where that is fewer.
    name : str, optional
        What the system is called.
    jobs : int
        Worker processes; the results are the same whatever their number.
    progress : bool or str
        Whether a bar shows the seeds done and what is being done; ``"lines"`` for a line on stderr now and then.

    Returns
    -------
    Evaluation

    Raises
    ------
    InputError
        If a name is unknown, something is out of range, or the system or data cannot be used.
    """
    seeds = parse_seeds([seeds] if isinstance(seeds, int) else seeds)
    pick("policy", policy, POLICIES)
    if not (isinstance(jobs, (int, np.integer)) and jobs >= 1):
        raise InputError(f"{jobs!r} jobs are out of range: give a number of processes from 1 up")
    candidate = Candidate(system, encoder)
    reads = candidate.reads  # made once now, so that what cannot be used is refused before any data is read
    title = candidate.title if name is None else name
    if not (isinstance(title, str) and title.strip()):
        raise InputError(f"{name!r} cannot be the system's name: give a word")
    data = _data(dataset, encoder, reads, progress)
    held_out = _held_out(held_out, data)
    made_by = _sendable(candidate, title, jobs)

    found = {}
    with Progress(title, len(seeds), progress) as bar:
        bar.says(f"{len(seeds)} seeds in {jobs} processes")
        says = bar.says if jobs == 1 else _silent  # other processes are not heard before a seed is done
        work = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(
            joblib.delayed(_run)(made_by, data, seed, policy, held_out, says) for seed in seeds
        )
        for seed, checkpoints in work:
            found[seed] = checkpoints
            bar.done()
            bar.says(f"{len(found)} of {len(seeds)} seeds done")
    names = {"dataset": data.dataset, "encoder": data.encoder, "policy": policy}
    rows = [names | {"seed": seed, "system": title} | checkpoint for seed in seeds for checkpoint in found[seed]]
    code, libraries = candidate.needs()
    about = {
        "system": {"name": title} | candidate.description(),
        "made_with": {
            "ocrrlib": __version__,
            "python": platform.python_version(),
            "libraries": libraries,
            "code": code,
        },
        "fingerprint": data.fingerprint,
        "revision": data.origin.get("revision"),
        "held_out": held_out,
        "draw": DRAW,
        "cap": CAP,
        "data": {name: said for name in _DATA if (said := data.origin.get(name))},
    }
    return Evaluation(pd.DataFrame(rows), about)


def _data(dataset, encoder, reads, progress):
    """The dataset, as vectors or sentences."""
    if isinstance(dataset, Embedded):
        if encoder not in (DEFAULT_ENCODER, dataset.encoder):
            raise InputError(f"{dataset.dataset} was embedded by {dataset.encoder!r}, not by {encoder!r}: leave it out")
        return dataset
    if reads == "sentences":
        from ocrrlib.sentences import load_sentences

        return load_sentences(pick("dataset of sentences", dataset, DATASETS), encoder)
    if isinstance(dataset, str) and dataset in DATASETS:
        return load(dataset, encoder)
    if not isinstance(dataset, (str, Path)):
        raise InputError(f"a {type(dataset).__name__} is no dataset: give a name, a file, or what read_data returned")
    if Path(dataset).suffix.lower() not in FILES and not Path(dataset).exists():
        known = ", ".join(DATASETS)
        raise InputError(f"unknown dataset {str(dataset)!r}; there are: {known}; or give a file ({', '.join(FILES)})")
    from ocrrlib.own_data import read_data

    return read_data(dataset, encoder=encoder, progress=progress)


def _held_out(held_out, data):
    """How many classes are held out."""
    n_classes = len(data.classes)
    if n_classes < 2:
        raise InputError(f"{data.dataset} has {n_classes} class: one to know and one to learn are needed")
    if held_out is None:
        return min(HELD_OUT, max(1, n_classes // 4))
    if not (isinstance(held_out, (int, np.integer)) and 0 < held_out < n_classes):
        raise InputError(f"cannot hold out {held_out!r} of {n_classes} classes: give 1 to {n_classes - 1}")
    return int(held_out)


def _sendable(candidate, title, jobs):
    """A candidate ``Packed``, so that every seed starts from the same copy, in whatever process."""
    fresh = Candidate(candidate.given, candidate.encoder)
    try:
        return Packed(cloudpickle.dumps(fresh)) if jobs == 1 else packed(fresh)
    except Exception as error:  # each kind of object has its own way to fail
        if jobs == 1:
            return candidate
        raise InputError(f"{title} cannot be sent to other processes ({error}): give jobs=1") from error


def _silent(what):
    """Say nothing."""


def _run(made_by, data, seed, policy, held_out, says):
    """One seed: its checkpoints as dicts."""
    says(f"seed {seed}: drawing the stream")
    try:
        candidate = made_by.unpacked() if isinstance(made_by, Packed) else made_by
    except Exception as error:  # as above
        raise InputError(f"the system cannot be read in another process ({error}): give jobs=1") from error
    s = make_scenario(data, seed, draw=DRAW, cap=CAP, held_out=held_out)
    for rows, what in ((s.y_stream, "training rows"), (s.y_novel, "test rows"), (s.y_original, "test rows of others")):
        if not len(rows):
            names = ", ".join(str(data.classes[label]) for label in sorted(s.held_out))
            raise InputError(f"seed {seed} holds out {names}, and {data.dataset} has no {what} of them: give more rows")
    with threadpool_limits(1):
        try:
            says(f"seed {seed}: learning {len(s.y_initial):,} rows")
            checkpoints, items = [], len(s.y_stream)
            for one in run_stream(candidate.make(seed), s, POLICIES[policy]):
                checkpoints.append(one.scalars)
                says(f"seed {seed}: {one.step:,} of {items:,} items streamed")
            return seed, checkpoints
        except InputError as error:
            raise InputError(f"{candidate.title}, seed {seed}: {error}") from error
        except Exception as error:
            error.add_note(f"while {candidate.title} was evaluated on {data.dataset}, seed {seed}")
            if "read-only" in str(error):  # as NumPy has it
                error.add_note(
                    "rows and labels are shared and read-only: copy what is to be changed first, X = X.copy()"
                )
            raise
