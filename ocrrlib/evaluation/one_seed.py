"""One seed of an evaluation, in whatever process, and what is told where it fails."""

import sys
import zlib
from contextlib import contextmanager, redirect_stdout

import cloudpickle
import numpy as np
from threadpoolctl import threadpool_limits

from ocrrlib.errors import InputError
from ocrrlib.evaluation.candidates import Candidate
from ocrrlib.evaluation.global_draws import seeded
from ocrrlib.evaluation.own_code import line_of, noting
from ocrrlib.evaluation.sending import Packed, packed
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream

DRAW, CAP = "fresh", None  # as all published cells
ALONE = 32  # test rows about which a system is asked once more in the end, one by one


def sendable(candidate, title, jobs):
    """A candidate ``Packed``, so that every seed starts from the same copy, in whatever process.

    What cannot be packed is given back as it is where there is one process only.

    Raises
    ------
    InputError
        If it cannot be sent to several processes.
    """
    fresh = Candidate(candidate.given, candidate.encoder)
    try:
        return Packed(cloudpickle.dumps(fresh)) if jobs == 1 else packed(fresh)
    except Exception as error:  # each kind of object has its own way to fail
        if jobs == 1:
            return candidate
        raise InputError(f"{title} cannot be sent to other processes ({error}): give jobs=1") from error


def run_seed(sent, data, seed, policy, held_out, every, says):
    """Stream a dataset through a fresh system.

    Parameters
    ----------
    sent : Packed or Candidate
        What ``sendable`` gave.
    data : Embedded
        The dataset.
    seed, held_out, every
        As ``evaluate`` takes them.
    policy : Policy
        Which mistakes are corrected.
    says : callable
        Told in words what is being done.

    Returns
    -------
    seed : int
    checkpoints : list of dict
        Scalars of each ``Checkpoint``.
    otherwise : int
        Of ``ALONE`` test rows, how many got another answer when they were asked about alone, after the last test.

    Raises
    ------
    InputError
        If the system cannot be read here, or a part of the scenario has no rows.
    Exception
        Whatever the system raises, with a note that says which one it was.
    """
    says(f"seed {seed}: drawing the stream")
    try:
        candidate = sent.unpacked() if isinstance(sent, Packed) else sent
    except Exception as error:  # as above
        raise InputError(f"the system cannot be read in another process ({error}): give jobs=1") from error
    s, torch_was_there = _scenario(data, seed, held_out), "torch" in sys.modules
    with threadpool_limits(1), seeded(seed), _explained(candidate, data, seed), _unchanged(candidate, s):
        says(f"seed {seed}: learning {len(s.y_initial):,} rows")
        checkpoints, items, system = [], len(s.y_stream), candidate.make(seed)
        for one in run_stream(system, s, policy, every):
            checkpoints.append(one.scalars)
            says(f"seed {seed}: {one.step:,} of {items:,} items streamed")
        otherwise = _otherwise(system, s.queries[items:], one.answers)
    if candidate.entry is None and "torch" in sys.modules and not torch_was_there:
        return run_seed(sent, data, seed, policy, held_out, every, says)  # only now can its generator be seeded
    return seed, checkpoints, otherwise


def _otherwise(system, rows, answers):
    """How many of some of these rows a system answers otherwise when it is asked about each alone."""
    places = np.unique(np.linspace(0, len(rows) - 1, ALONE).astype(int))
    return sum(int(system.predict(rows[place : place + 1])[0]) != answers[place] for place in places)


def run_far(*given):
    """``run_seed`` in another process: what is printed there goes to stderr, and an error's place with it as a note."""
    try:
        with redirect_stdout(sys.stderr):
            return run_seed(*given)
    except InputError:
        raise
    except Exception as error:
        if place := line_of(error):  # tracebacks do not leave a process
            error.add_note(f"in {place}")
        raise


def _scenario(data, seed, held_out):
    """A seed's scenario, if there are rows of each kind."""
    s = make_scenario(data, seed, draw=DRAW, cap=CAP, held_out=held_out)
    for rows, what in ((s.y_stream, "training rows"), (s.y_novel, "test rows"), (s.y_original, "test rows of others")):
        if not len(rows):
            names = ", ".join(str(data.classes[label]) for label in sorted(s.held_out))
            raise InputError(f"seed {seed} holds out {names}, and {data.dataset} has no {what} of them: give more rows")
    return s


@contextmanager
def _unchanged(candidate, s):
    """Refuse a system that changed rows: read-only or not, to torch's tensors of the same memory that is no matter."""
    before = _content(s)
    try:
        yield
    finally:
        if _content(s) != before:
            raise InputError(
                f"{candidate.title} changed the rows that it was given, which all share: copy them first, as "
                "torch.tensor(X) does and torch.from_numpy(X) does not"
            )


def _content(s):
    """Checksums of the numbers that systems are given of a scenario; texts cannot be changed."""
    given = s.X_initial, s.y_initial, s.X_stream, s.queries
    return [zlib.crc32(np.ascontiguousarray(part).data) for part in given if part.dtype.kind in "fi"]


@contextmanager
def _explained(candidate, data, seed):
    """Say of what is raised here in which run it was, and the way out where that is known."""
    try:
        with noting(f"{candidate.title} was evaluated on {data.dataset}, seed {seed}"):
            yield
    except InputError as error:
        raise InputError(f"{candidate.title}, seed {seed}: {error}") from error
    except ValueError as error:
        if "read-only" in str(error):  # NumPy has no kind of its own for it
            error.add_note("rows and labels are shared and read-only: copy what is to be changed first, X = X.copy()")
        raise
