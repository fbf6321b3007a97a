"""Your system, data or encoder on the benchmark, beside all published systems."""

import hashlib
import random
import sys
import sysconfig
import time
import traceback
from contextlib import contextmanager
from pathlib import Path

import cloudpickle
import numpy as np
import pandas as pd

from ocrrlib import __version__
from ocrrlib.datasets import DATASETS, load_texts
from ocrrlib.embeddings import Embedded, load
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.evaluation import HELD_OUT, Evaluation
from ocrrlib.experiments import parse_seeds
from ocrrlib.files import InputError, cache_folder, pick
from ocrrlib.own_data import READERS, check_name, encoded, encoder_name, read_data
from ocrrlib.own_system import as_system, title_of
from ocrrlib.policies import POLICIES, Policy
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import EVERY, run_stream
from ocrrlib.systems import SYSTEMS
from ocrrlib.systems.base import TextSystem
from ocrrlib.tasks import Task, run_tasks

_STARTED = time.time()


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
    dask=None,
    progress=True,
    resume=True,
):
    """Stream a dataset through a system once per seed, as in the published comparison.

    Parameters
    ----------
    system : str, callable or object
        Name in the registry; an object with ``fit``, ``predict`` and ``correct``, or a scikit-learn or river
        classifier, of which each seed gets a deep copy; or a class or function that makes one of these. The seed is
        passed on as ``seed`` or ``random_state`` where there is such a parameter.
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
    progress : bool
        Whether a bar counts the seeds.
    resume : bool
        Whether to read seeds that an earlier, stopped call finished from the cache: those with the same data,
        options, versions and text of your own loaded modules.

    Raises
    ------
    InputError
        If a name is unknown, an option out of range, or the system or data cannot be used.
    RuntimeError
        If the system raises an error; the seeds that were finished are kept.

    Examples
    --------
    >>> evaluate("ncm", seeds=[0], policy="random10", progress=False)
    <ncm on banking77, random10, 1 seeds: novel 0.767, original 0.850, anytime novel 0.642, ...>
    """
    seeds = parse_seeds(seeds)
    policy = policy if isinstance(policy, Policy) else pick("policy", policy, POLICIES)
    if POLICIES.get(policy.name, policy) != policy:
        raise InputError(f"policy {policy.name!r} is a published one with other settings: give yours another name")
    for what, number in (("every", every), ("jobs", jobs)):
        if not (isinstance(number, (int, np.integer)) and number >= 1):
            raise InputError(f"{what} {number!r} is out of range: give a number from 1 up")
    title = title_of(system) if name is None else name
    check_name("system", title)
    if isinstance(system, str):
        sentences = pick("system", system, SYSTEMS).reads == "sentences"
    else:
        with _placed():  # refuse what cannot be used before any data are read
            sentences = isinstance(as_system(system), TextSystem)
    data = _sentences(dataset, encoder) if sentences else _vectors(dataset, encoder)
    held_out = n_held_out(held_out, data)
    options = system, encoder if isinstance(encoder, str) else None, policy, held_out, int(every)
    key = _key(data.fingerprint, options) if resume else None
    if key is None and (jobs > 1 or dask):
        _check_sendable(title, options)
    where = f"{title} on {data.dataset}, seed"
    tasks = [Task({"run": f"{where} {seed}", "key": key}, (data, options, seed)) for seed in seeds]
    runs = run_tasks(_run, tasks, jobs, key and cache_folder() / "own", progress, dask)
    cell = {"dataset": data.dataset, "encoder": data.encoder, "policy": policy.name}
    checkpoints = [cell | {"seed": seed, "system": title} | one for seed, run in zip(seeds, runs) for one in run]
    cell |= {"fingerprint": data.fingerprint, "held_out": held_out, "every": int(every)}
    return Evaluation(title, pd.DataFrame(checkpoints), cell)


def n_held_out(given, data):
    """Number of held-out classes of a dataset: 10, at most a quarter, unless given."""
    n = len(data.classes)
    held_out = min(HELD_OUT, max(1, n // 4)) if given is None else given
    if not (isinstance(held_out, (int, np.integer)) and 0 < held_out < n):
        raise InputError(f"held_out {held_out!r} is out of range: hold out 1 to {n - 1} of {n} classes")
    return int(held_out)


def _check_sendable(title, options):
    try:
        cloudpickle.dumps(options)
    except Exception as error:  # each kind of object has its own way to fail
        raise InputError(f"{title} cannot be sent to other processes ({error}): give jobs=1") from error


def _vectors(data, encoder):
    """A dataset as vectors, by the encoder."""
    if isinstance(data, Embedded):
        if encoder not in (DEFAULT_ENCODER, data.encoder):
            raise InputError(f"{data.dataset} is embedded by {data.encoder!r} already: leave the encoder out")
        return data
    if isinstance(data, str) and data in DATASETS:
        if isinstance(encoder, str):
            return load(data, encoder)
        texts = load_texts(data)
        rows = np.split(encoded(texts.train + texts.test, encoder), [len(texts.train)])
        y = [np.searchsorted(texts.classes, labels) for labels in (texts.train_labels, texts.test_labels)]
        return Embedded(data, encoder_name(encoder), texts.classes, rows[0], y[0], rows[1], y[1])
    if isinstance(data, str) and Path(data).suffix.lower() not in READERS:
        pick("dataset", data, DATASETS | {f"a file in {', '.join(READERS)}": None})
    return read_data(data, encoder=encoder)


def _sentences(data, encoder):
    """A published dataset as sentences, for systems that read these."""
    from ocrrlib.embeddings import load_sentences

    if not (isinstance(data, str) and data in DATASETS):
        raise InputError(f"a system that reads sentences runs on {' or '.join(DATASETS)} only: give one of these")
    return load_sentences(data, encoder)


def _key(fingerprint, options):
    """Key of an evaluation's finished seeds in the cache; None where it cannot be known what makes them.

    It covers data, versions, the pickle of system and options, and the text of this package and of all loaded modules
    that are not installed. A module that was edited since this process started is perhaps not the one that runs.
    """
    libraries = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
    loaded = {str(getattr(module, "__file__", None)) for module in list(sys.modules.values())}
    files = {Path(name) for name in loaded if name.endswith(".py") and not name.startswith(libraries)}
    versions = [getattr(sys.modules.get(name), "__version__", "") for name in ("numpy", "sklearn", "river", "torch")]
    digest = hashlib.sha256(repr((fingerprint, __version__, sys.version, versions)).encode())
    try:
        digest.update(cloudpickle.dumps(options))
        for path in sorted(files.union(Path(__file__).parent.rglob("*.py"))):
            if path.stat().st_mtime > _STARTED:
                return None
            digest.update(path.read_bytes())
    except Exception:  # whatever cannot be pickled or read
        return None
    return digest.hexdigest()


def _run(data, options, seed):
    """Checkpoints of one seed."""
    system, encoder, policy, held_out, every = options
    scenario = make_scenario(data, seed, cap=None, held_out=held_out)
    random.seed(seed)
    np.random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)
    with _placed():
        return [one.scalars for one in run_stream(as_system(system, seed, encoder), scenario, policy, every)]


@contextmanager
def _placed():
    """Errors of a system as RuntimeError in one line, with the innermost line that is not a library's."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        yours = [one for one in frames if not {"site-packages", "ocrrlib"} & set(Path(one.filename).parts)] or frames
        place = f"{yours[-1].filename}, line {yours[-1].lineno}"
        raise RuntimeError(f"{type(error).__name__}: {error} ({place})") from error
