"""Your system, data or encoder on the benchmark, beside all that is published."""

import platform
import warnings

import joblib
import numpy as np
import pandas as pd

from ocrrlib import __version__
from ocrrlib.encoders import DEFAULT_ENCODER, as_encoder
from ocrrlib.errors import InputError, pick
from ocrrlib.evaluation.candidates import Candidate
from ocrrlib.evaluation.data import as_data, n_held_out
from ocrrlib.evaluation.kept import checkpoints_kept, write_kept
from ocrrlib.evaluation.one_seed import ALONE, CAP, DRAW, run_far, run_seed, sendable
from ocrrlib.evaluation.outcome import Evaluation, Stopped
from ocrrlib.experiments import parse_seeds
from ocrrlib.policies import POLICIES, Policy
from ocrrlib.progress import Progress
from ocrrlib.stream import EVERY

TIES = 2  # rows so near a border that rounding decides, and rounding goes with the size of a batch
FEW = 5  # tests of a stream, of which an average says little
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
    keep=None,
    resume=True,
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
    keep : path, optional
        Where seeds are kept as soon as they are done, in ``<keep>.csv`` and ``<keep>.json``, its curve and its card.
    resume : bool
        Whether seeds that are kept there are not run again, but taken from there. What made them must be the same:
        data, options, libraries, the library's code, a system's own source; what that imports is not looked at.

    Returns
    -------
    Evaluation
        Of ``seeds``, and of those that were kept, in their order.

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
    if keep is not None and policy.name not in POLICIES:
        raise InputError(f"policy {policy.name!r} is known to this run only: nothing can be kept of it, leave keep out")
    data = as_data(dataset, encoder, reads, progress)
    held_out = n_held_out(held_out, data)
    sent = sendable(candidate, title, jobs)
    names = {"dataset": data.dataset, "encoder": data.encoder, "policy": policy.name, "system": title}
    about = _about(candidate, title, data, held_out, int(every))

    found, otherwise = checkpoints_kept(keep, names, about) if keep is not None and resume else {}, 0
    left = [seed for seed in seeds if seed not in found]
    seeds = (*seeds, *(seed for seed in found if seed not in seeds))

    def outcome(order):
        return Evaluation(_curve({seed: found[seed] for seed in order}, names), about)

    with Progress(title, len(left), progress) as bar:
        bar.says(f"{len(left)} seeds in {jobs} processes")
        # other processes are not heard before a seed is done
        one, says = (run_seed, bar.says) if jobs == 1 else (run_far, _silent)
        work = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(
            joblib.delayed(one)(sent, data, seed, policy, held_out, int(every), says) for seed in left
        )
        try:
            for seed, checkpoints, differ in work:
                found[seed], otherwise = checkpoints, max(otherwise, differ)
                if keep is not None:
                    write_kept(outcome([one for one in seeds if one in found]), keep)
                bar.done()
                bar.says(f"{len(found)} of {len(seeds)} seeds done")
        except KeyboardInterrupt as stop:
            if not found:
                raise
            raise Stopped(outcome(found), seeds) from stop
        except Exception as error:
            if found:
                error.finished = outcome(found)
                error.add_note(f"seeds {', '.join(map(str, found))} were done: the error has them as `finished`")
            raise
    _warn(title, data.dataset, otherwise, min(len(found[seed]) - 1 for seed in seeds), every)
    return outcome(seeds)


def _warn(title, dataset, otherwise, tests, every):
    """Warn of answers that hang on other rows, and of streams that were tested seldom."""
    if otherwise > TIES:
        warnings.warn(
            f"{title} answers {otherwise} of {ALONE} test rows otherwise when it is asked about each alone: its "
            "accuracy hangs on which rows come together (is a network in training mode?), or on chance",
            stacklevel=3,
        )
    if tests < FEW:
        warnings.warn(
            f"the shortest stream of {dataset} was tested {tests} times, so anytime accuracy says hardly more than "
            f"the end does: give a smaller `every` than {every}",
            stacklevel=3,
        )


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
