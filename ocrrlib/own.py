"""Your system on the benchmark: an object of your own, of scikit-learn or of river, or a name in the registry."""

import copy
import functools
import hashlib
import inspect
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
from ocrrlib.evaluation import HELD_OUT, Evaluation, finals
from ocrrlib.experiments import parse_seeds
from ocrrlib.files import InputError, cache_folder, pick
from ocrrlib.own_data import read_data
from ocrrlib.policies import POLICIES, Policy
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import EVERY, run_stream
from ocrrlib.systems import make
from ocrrlib.systems.base import Storage, System, TextSystem
from ocrrlib.tasks import Task, run_tasks

# Passes of scikit-learn classifiers with max_iter over the initial rows. The step size of SGDClassifier and its kin
# shrinks with every row: after more passes they hardly learn new classes.
PASSES, LINEAR_PASSES = 30, 5
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
        Name in the registry; an object with ``fit``, ``predict`` and ``correct``, or a scikit-learn or river
        classifier, of which each seed gets a deep copy; or a class or function that makes one of these. The seed is
        passed on as ``seed`` or ``random_state`` where there is such a parameter. With ``probabilities(X)``, class
        probabilities (m, C), the result has curves, see ``ocrrlib.curves``.
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
    <ncm on banking77, random10, 1 seeds: novel 0.767, original 0.850, ausuc 0.792, ...>
    """
    seeds, title = parse_seeds(seeds), name or title_of(system)
    policy = policy if isinstance(policy, Policy) else pick("policy", policy, POLICIES)
    if POLICIES.get(policy.name, policy) != policy:
        raise InputError(f"policy {policy.name!r} is a published one with other settings: give yours another name")
    if isinstance(as_system(system), TextSystem):  # refuses what cannot be used before any data are read
        if not isinstance(dataset, str):
            raise InputError("a system that reads sentences runs on a published dataset only: give its name")
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
    tasks = [Task({"run": f"{title} on {data.dataset}, seed {seed}"}, (data, seed, *options)) for seed in seeds]
    runs = run_tasks(_run, tasks, jobs, key and cache_folder() / "own" / key[:32], progress, dask)
    cell = {"dataset": data.dataset, "encoder": data.encoder, "policy": policy.name}
    curve = [cell | {"seed": seed, "system": title} | row for seed, rows in zip(seeds, runs) for row in rows]
    curve, about = pd.DataFrame(curve), dict(fingerprint=data.fingerprint, held_out=held_out, every=every)
    return Evaluation(title, curve, finals(curve).assign(**about))


def _key(*parts):
    """SHA-256 of the pickle of ``parts`` and the text of all loaded modules of yours; None if that is not known."""
    installed = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    installed = (*installed, str(Path(__file__).parent))  # ``run_tasks`` covers this package and versions
    files = sorted({str(getattr(module, "__file__", None)) for module in list(sys.modules.values())})
    yours = [Path(name) for name in files if name.endswith(".py") and not name.startswith(installed)]
    try:
        yours = [path for path in yours if path.is_file()]  # some of torch's modules only name one
        if any(path.stat().st_mtime > STARTED for path in yours):
            return None  # what is loaded is perhaps not what stands there
        return hashlib.sha256(cloudpickle.dumps((parts, [path.read_bytes() for path in yours]))).hexdigest()
    except Exception:  # whatever cannot be pickled or read
        return None


def _run(data, seed, system, encoder, policy, held_out, every):
    """Checkpoints of one seed."""
    scenario = make_scenario(data, seed, cap=None, held_out=held_out)
    random.seed(seed)
    np.random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)
    return [one.scalars for one in run_stream(as_system(system, seed, encoder), scenario, policy, every)]


def title_of(thing):
    """A short name of a system: that of its class or function."""
    name = thing if isinstance(thing, str) else getattr(thing, "__name__", type(thing).__name__)
    return name if name.isidentifier() else "own_system"


def as_system(thing, seed=0, encoder=None):
    """A fresh system from what ``evaluate`` takes; ``InputError`` if it cannot be used as one.

    ``encoder`` is for names in the registry whose systems read sentences.
    """
    if isinstance(thing, str):
        return make(thing, seed, encoder)
    if inspect.isclass(thing) or inspect.isroutine(thing) or isinstance(thing, functools.partial):
        taken = inspect.signature(thing).parameters.values()
        named = [one.name for one in taken if one.name in ("seed", "random_state")]
        needed = [one for one in taken if one.default is one.empty and one.kind < one.VAR_POSITIONAL]
        takes_seed = needed and not inspect.isclass(thing)
        thing = thing(**{named[0]: seed}) if named else thing(seed) if takes_seed else thing()
    else:
        try:
            thing = copy.deepcopy(thing)
        except Exception as error:  # each kind of object has its own way to fail
            raise InputError(f"{title_of(thing)} cannot be copied ({error}): give a function that makes it") from error
    if isinstance(thing, System):
        thing.seed = seed
        return thing
    for adapter in (Own, River, Sklearn):
        if all(callable(getattr(thing, method, None)) for method in adapter.methods):
            return adapter(thing, seed)
    way_out = "give an object with fit(X, y, classes), predict(X) and correct(x, y), a scikit-learn classifier with "
    way_out += "partial_fit, a river classifier, or a class or a function of the seed that makes one"
    raise InputError(f"{title_of(thing)} cannot be used as a system: {way_out}")


class Own:
    """An object with the three methods; the other adapters replace what differs."""

    methods = ("fit", "predict", "correct")

    def __init__(self, model, seed):
        self.model, self.seed = model, seed
        if hasattr(model, "probabilities"):
            self.probabilities = self._checked_probabilities

    def fit(self, X, y, classes):
        self.n_classes = len(classes)
        self.model.fit(X, y, classes)
        return self

    def predict(self, X):
        given, last = np.asarray(self._answers(X)), self.n_classes - 1
        if given.shape != (len(X),) or given.dtype.kind not in "iu" or not ((given >= -1) & (given <= last)).all():
            raise InputError(
                f"{title_of(self.model)}.predict must give class ids ({len(X)},), integers from 0 to {last} or -1; "
                f"it gave {given.dtype} of shape {given.shape}, as {given.ravel()[:3]}"
            )
        return given.astype(np.int64)

    def _answers(self, X):
        return self.model.predict(X)

    def _checked_probabilities(self, X):
        p = np.array(self.model.probabilities(X), np.float64)
        if p.shape != (len(X), self.n_classes) or not (p >= 0).all():
            wanted = f"({len(X)}, {self.n_classes}), none negative"
            raise InputError(f"{title_of(self.model)}.probabilities must give numbers {wanted}; it gave {p.shape}")
        return p

    def correct(self, x, y):
        self.model.correct(x, y)

    def storage(self):
        """What the object's own ``storage`` reports; 0 bytes without one."""
        return self.model.storage() if hasattr(self.model, "storage") else Storage(bytes=0)


class River(Own):
    """A river classifier; it learns the initial rows one by one, in random order."""

    methods = ("learn_one", "predict_one")

    def __init__(self, model, seed):
        if not getattr(model, "_multiclass", True):
            raise InputError(f"{title_of(model)} is for two classes: give river.multiclass.OneVsRestClassifier of it")
        seeded = hasattr(model, "_get_params") and "seed" in model._get_params()
        super().__init__(model.clone({"seed": seed}) if seeded else model, seed)

    def fit(self, X, y, classes):
        self.n_classes = len(classes)
        for row in np.random.default_rng(self.seed).permutation(len(y)):
            self.correct(X[row], int(y[row]))
        return self

    def _answers(self, X):
        answers = [self.model.predict_one(dict(enumerate(x))) for x in X.tolist()]
        return np.array([-1 if answer is None else answer for answer in answers], int)

    def correct(self, x, y):
        self.model.learn_one(dict(enumerate(x.tolist())), y)


class Sklearn(Own):
    """A scikit-learn classifier with ``partial_fit``; a class without a row yet is never the answer."""

    methods = ("partial_fit", "predict")

    def __init__(self, model, seed):
        super().__init__(model, seed)
        params = model.get_params() if hasattr(model, "get_params") else {}
        if seeded := [name for name in params if name.split("__")[-1] == "random_state"]:
            model.set_params(**dict.fromkeys(seeded, seed))
        linear = any(cls.__name__ == "BaseSGDClassifier" for cls in type(model).__mro__)
        self.passes = min(params.get("max_iter") or 1, LINEAR_PASSES if linear else PASSES)

    def fit(self, X, y, classes):
        self.n_classes, self.met, rng = len(classes), np.unique(y), np.random.default_rng(self.seed)
        for _ in range(self.passes):
            order = rng.permutation(len(y))
            self._learn(X[order], y[order])
        return self

    @np.errstate(all="ignore")  # variance and prior of classes without a row are zero
    def _learn(self, X, y):
        self.model.partial_fit(X, y, classes=np.arange(self.n_classes))

    @np.errstate(all="ignore")
    def _answers(self, X):
        names = ("predict_joint_log_proba", "decision_function", "predict_proba")
        score = next((getattr(self.model, name) for name in names if hasattr(self.model, name)), None)
        if score is None or self.n_classes < 3:  # of two classes there may be one score
            return self.model.predict(X)
        scores = np.asarray(score(X))[:, self.met]
        return self.met[np.where(np.isnan(scores), -np.inf, scores).argmax(axis=1)]

    def correct(self, x, y):
        self.met = np.union1d(self.met, y)
        self._learn(x[None], np.array([y]))
