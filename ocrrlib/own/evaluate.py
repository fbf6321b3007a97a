"""Your system on the benchmark: an object of your own, of scikit-learn or of river, or a name in the registry."""

import hashlib
import random
import sys
import sysconfig
import time
from pathlib import Path

import cloudpickle
import numpy as np
import pandas as pd

from ocrrlib.embeddings import Embedded, load, load_sentences
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.experiments import parse_seeds
from ocrrlib.files import InputError, cache_folder, pick
from ocrrlib.own.adapters import as_system, title_of
from ocrrlib.own.data import read_data
from ocrrlib.own.evaluation import HELD_OUT, Evaluation, finals
from ocrrlib.policies import POLICIES, Policy
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import EVERY, run_stream
from ocrrlib.systems.base import TextSystem
from ocrrlib.tasks import Task, run_tasks

STARTED = time.time()


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
        Name in the registry; an object with ``fit``, ``predict`` and ``correct``, or a scikit-learn
        or river classifier, of which each seed gets a deep copy; or a class or function that makes
        one of these. The seed is passed on as ``seed`` or ``random_state`` where there is such a
        parameter. With ``predict_proba(X)``, class probabilities (m, C), the result has curves, see
        ``ocrrlib.metrics``.
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
    resume : bool
        Whether to read seeds that an earlier, stopped call finished from the cache: those with the
        same data, options, versions and text of your own loaded modules.

    Raises
    ------
    InputError
        If a name is unknown, an option out of range, or the system or data cannot be used.
    RuntimeError
        If the system raises an error; the seeds that were finished are kept.

    Examples
    --------
    >>> evaluate("ncm", seeds=[0], policy="random10", progress=False)
    <ncm on banking77, random10, 1 seeds: novel 0.767, original 0.850, ausuc 0.792, ...>
    """
    seeds, title = parse_seeds(seeds), name or title_of(system)
    policy = policy if isinstance(policy, Policy) else pick("policy", policy, POLICIES)
    if POLICIES.get(policy.name, policy) != policy:
        raise InputError(
            f"policy {policy.name!r} is a published one with other settings: give yours another name"
        )
    if isinstance(
        as_system(system), TextSystem
    ):  # refuses what cannot be used before any data are read
        if not isinstance(dataset, str):
            raise InputError(
                "a system that reads sentences runs on a published dataset only: give its name"
            )
        data = load_sentences(dataset, encoder)
    elif isinstance(dataset, Embedded):
        data = dataset
    elif isinstance(dataset, str) and not Path(dataset).suffix:
        data = load(dataset, encoder)
    else:
        data = read_data(dataset, encoder=encoder)
    held_out = min(HELD_OUT, max(1, len(data.classes) // 4)) if held_out is None else held_out
    options = system, encoder if isinstance(encoder, str) else None, policy, held_out, every
    key = _key(data.fingerprint, options) if resume else None
    tasks = [
        Task({"run": f"{title} on {data.dataset}, seed {seed}"}, (data, seed, *options))
        for seed in seeds
    ]
    runs = run_tasks(_run, tasks, jobs, key and cache_folder() / "own" / key[:32], progress, dask)
    cell = {"dataset": data.dataset, "encoder": data.encoder, "policy": policy.name}
    curve = [
        cell | {"seed": seed, "system": title} | row
        for seed, rows in zip(seeds, runs)
        for row in rows
    ]
    curve, about = (
        pd.DataFrame(curve),
        dict(fingerprint=data.fingerprint, held_out=held_out, every=every),
    )
    return Evaluation(title, curve, finals(curve).assign(**about))


def _key(*parts):
    """SHA-256 of the pickle of ``parts`` and the text of all loaded modules of yours; None if that is not known."""
    installed = [
        sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
    ]
    installed = (
        *installed,
        str(Path(__file__).parent.parent),
    )  # ``run_tasks`` covers this package and versions
    files = sorted(
        {str(getattr(module, "__file__", None)) for module in list(sys.modules.values())}
    )
    yours = [
        Path(name) for name in files if name.endswith(".py") and not name.startswith(installed)
    ]
    try:
        yours = [path for path in yours if path.is_file()]  # some of torch's modules only name one
        if any(path.stat().st_mtime > STARTED for path in yours):
            return None  # what is loaded is perhaps not what stands there
        return hashlib.sha256(
            cloudpickle.dumps((parts, [path.read_bytes() for path in yours]))
        ).hexdigest()
    except Exception:  # whatever cannot be pickled or read
        return None


def _run(data, seed, system, encoder, policy, held_out, every):
    """Checkpoints of one seed."""
    scenario = make_scenario(data, seed, cap=None, held_out=held_out)
    random.seed(seed)
    np.random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)
    return [
        one.scalars for one in run_stream(as_system(system, seed, encoder), scenario, policy, every)
    ]
