"""Your system, data or encoder on the benchmark, beside all that is published."""

import platform
import warnings

import joblib
import numpy as np
import pandas as pd

from ocrrlib import __version__
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.errors import InputError, pick
from ocrrlib.evaluation.candidates import Candidate
from ocrrlib.evaluation.data import as_data, n_held_out
from ocrrlib.evaluation.one_seed import ALONE, CAP, DRAW, run_far, run_seed, sendable
from ocrrlib.evaluation.outcome import Evaluation, Stopped
from ocrrlib.experiments import parse_seeds
from ocrrlib.function_encoder import as_encoder
from ocrrlib.policies import POLICIES, Policy
from ocrrlib.progress import Progress
from ocrrlib.stream import EVERY

TIES = 2  # rows so near a border that rounding decides, and rounding goes with the size of a batch
_DATA = ("sources", "split", "columns")  # of what a dataset's origin says


def evaluate(
    system,
    dataset="banking77",
    seeds=range(10),
    policy="oracle",
    encoder=DEFAULT_ENCODER,
    held_out=None,
    every=EVERY,
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
    dataset : str, path, DataFrame, dict of arrays or Embedded
        A registry name, what ``own_data.reading.read_data`` reads, or what that returned.
    seeds : sequence of int
        Seeds of held-out classes, stream order, coins and system.
    policy : str or Policy
        Which mistakes are corrected: a name in ``POLICIES``, or a policy of your own with another name.
    encoder : str, callable or object
        What embeds texts: a name, a function (see ``ocrrlib.encoders.load_encoder``), an object with ``encode``.
    held_out : int, optional
        Classes that are first met in the stream; by default 10, or a quarter where that is fewer.
    every : int
        Stream items between two tests; more make long streams with many test rows faster. Cells that differ in it are
        not compared.
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
    Stopped
        If stopped from the keyboard (Ctrl-C); ``finished`` has the seeds that were done.
    Exception
        Whatever a system raises; if seeds were done, it has these as ``finished``, an ``Evaluation``, and a note.
    """
    if isinstance(seeds, (int, np.integer)):
        raise InputError(f"seeds={seeds} could mean one seed or so many: give [{seeds}] or range({seeds})")
    seeds = parse_seeds(seeds)
    policy, encoder = _policy(policy), as_encoder(encoder)
    if not (isinstance(jobs, (int, np.integer)) and jobs >= 1):
        raise InputError(f"{jobs!r} jobs are out of range: give a number of processes from 1 up")
    if not (isinstance(every, (int, np.integer)) and every >= 1):
        raise InputError(f"every {every!r} is out of range: give a number of stream items from 1 up")
    candidate = Candidate(system, encoder)
    reads = candidate.reads  # made once now, so that what cannot be used is refused before any data is read
    title = candidate.title if name is None else name
    if not (isinstance(title, str) and title.strip()):
        raise InputError(f"{name!r} cannot be the system's name: give a word")
    data = as_data(dataset, encoder, reads, progress)
    held_out = n_held_out(held_out, data)
    sent = sendable(candidate, title, jobs)
    names = {"dataset": data.dataset, "encoder": data.encoder, "policy": policy.name, "system": title}
    about = _about(candidate, title, data, held_out, int(every))

    found, otherwise = {}, 0
    with Progress(title, len(seeds), progress) as bar:
        bar.says(f"{len(seeds)} seeds in {jobs} processes")
        # other processes are not heard before a seed is done
        one, says = (run_seed, bar.says) if jobs == 1 else (run_far, _silent)
        work = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(
            joblib.delayed(one)(sent, data, seed, policy, held_out, int(every), says) for seed in seeds
        )
        try:
            for seed, checkpoints, differ in work:
                found[seed], otherwise = checkpoints, max(otherwise, differ)
                bar.done()
                bar.says(f"{len(found)} of {len(seeds)} seeds done")
        except KeyboardInterrupt as stop:
            if not found:
                raise
            raise Stopped(Evaluation(_curve(found, names), about), seeds) from stop
        except Exception as error:
            if found:
                error.finished = Evaluation(_curve(found, names), about)
                error.add_note(f"seeds {', '.join(map(str, found))} were done: the error has them as `finished`")
            raise
    if otherwise > TIES:
        warnings.warn(
            f"{title} answers {otherwise} of {ALONE} test rows otherwise when it is asked about each alone: its "
            "accuracy hangs on which rows come together (is a network in training mode?), or on chance",
            stacklevel=2,
        )
    return Evaluation(_curve({seed: found[seed] for seed in seeds}, names), about)


def _curve(found, names):
    """Checkpoints of seeds as one frame; ``names`` are what all rows have in common."""
    order = ("dataset", "encoder", "policy", "seed", "system")
    rows = [names | {"seed": seed} | checkpoint for seed, checkpoints in found.items() for checkpoint in checkpoints]
    return pd.DataFrame(rows)[[*order, *(column for column in rows[0] if column not in order)]]


def _policy(given):
    """The policy of this name, or one of one's own, which cannot have the name of another."""
    if not isinstance(given, Policy):
        return pick("policy", given if isinstance(given, str) else repr(given), POLICIES)
    if POLICIES.get(given.name, given) != given:
        raise InputError(f"policy {given.name!r} is the benchmark's own, and another one: give yours another name")
    return given


def _silent(what):
    """Say nothing."""


def _about(candidate, title, data, held_out, every):
    """What repeats the evaluation, as ``Evaluation.about`` has it."""
    code, libraries = candidate.needs()
    return {
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
        "every": every,
        "data": {name: said for name in _DATA if (said := data.origin.get(name))},
    }
