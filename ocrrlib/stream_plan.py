"""Harder streams: which cells make a study, and the studies as one tidy frame.

What corrections are like in life: wrong, late, or asked for.  What queries are like: they drift from
the centre of their class, belong to few new classes or to many, or to none at all.  And what the first
rows, the encoder and the modality have to do with it.
"""

import hashlib
from dataclasses import asdict, replace
from functools import lru_cache
from itertools import product

import pandas as pd

from ocrrlib.blind import BLIND
from ocrrlib.digits import load_pixels
from ocrrlib.embeddings import load
from ocrrlib.encoders import DEFAULT_ENCODER, LEXICAL_ENCODER
from ocrrlib.errors import pick
from ocrrlib.experiments import OURS, PROFILES, parse_seeds
from ocrrlib.files import cache_folder
from ocrrlib.policies import CONFUSIONS, UNCERTAINTIES, Policy
from ocrrlib.provenance import closure, digest
from ocrrlib.scope import split_off
from ocrrlib.shifts import DRIFTS
from ocrrlib.streams import ORACLE, Cell, run_cell, scenario_of
from ocrrlib.systems import SYSTEMS
from ocrrlib.tasks import IN_A_ROW, Task, run_tasks

CACHE = cache_folder() / "streams"
SEEDS = {"paper": (0, 1, 2, 3, 4), "quick": (0,)}
COMPARED = ("substrate", "bounded_reservoir_1000", "knn_lm", "online_linear", "slda", OURS)
QUEUES = ("bounded_fifo_1000", "bounded_reservoir_1000")  # what a memory with a budget keeps depends on the order
TUNED = ("online_linear_tuned",)  # takes part where the question is whether a linear head's step carries over
SETTING = "asking p wrong confusion delay drift order new known".split()
KEY = ["study", "dataset", "encoder", "system", "seed", *SETTING, "step"]


def _product(**options):
    """All combinations, as dicts."""
    return [dict(zip(options, values)) for values in product(*options.values())]


def _policies(**changes):
    return [dict(policy=replace(ORACLE, **change)) for change in _product(**changes)]


# What asks: at random, or by what it is unsure of; all spend the same number of questions.
WAYS = (Policy("blind", 1.0, exact=True), *(replace(ORACLE, ask=way) for way in UNCERTAINTIES))
# Each as what its cells change of the usual one; an empty encoder is the one that is set.
STUDIES = {
    "wrong": _policies() + _policies(wrong=(0.1, 0.2, 0.4), confusion=CONFUSIONS),
    "late": _policies(delay=(0, 10, 50, 200)),
    "asked": [dict(policy=replace(way, p=p)) for p in (0.05, 0.1, 0.2, 0.4) for way in WAYS],
    "drift": _product(drift=("none", *DRIFTS)),
    "new": _product(new=(1, 5, 10, 20, 40), known=(37,)),  # 40 of 77 leave 37
    "known": _product(known=(5, 10, 20, 37, 0)),
    "scope": [dict(dataset="clinc150", out_of_scope=True)],
    "order": _product(order=("file", "shuffled")),
    "encoder": _product(encoder=("", LEXICAL_ENCODER)),
    "digits": [dict(dataset="digits", encoder="pixels", new=5)],
}


def plan(study, encoder=DEFAULT_ENCODER, seeds=None, profile="paper", systems=COMPARED):
    """The cells of a study; without ``seeds``, for those of the profile.

    Raises
    ------
    InputError
        If a name is unknown or a seed out of range.
    """
    size = dict(pick("profile", profile, PROFILES)) | ({"cap": None} if profile == "paper" else {})
    settings = pick("study", study, STUDIES)
    systems = QUEUES if study == "order" else dict.fromkeys((*systems, *(TUNED if study == "digits" else ())))
    for system in systems:
        pick("system", system, SYSTEMS)
    return [
        Cell(system, seed, **size | change)
        for setting in settings
        for change in [setting | {"encoder": setting.get("encoder") or encoder}]
        for seed in parse_seeds(SEEDS[profile] if seeds is None else seeds)
        for system in systems
    ]


@lru_cache(maxsize=4)
def rows_of(dataset, encoder, out_of_scope=False):
    """The embedded dataset, and rows out of its scope where these are set apart, else None."""
    data = load_pixels() if dataset == "digits" else load(dataset, encoder or DEFAULT_ENCODER)
    return split_off(data) if out_of_scope else (data, None)


@lru_cache(maxsize=1)
def _scenario(start):
    return scenario_of(start, rows_of(*start.source)[0])


def _run(cell):
    system = SYSTEMS[cell.system].make(cell.seed)
    return run_cell(cell, system, _scenario(cell.start), rows_of(*cell.source)[1])


def _key(cell):
    entry, (data, outside) = SYSTEMS[cell.system], rows_of(*cell.source)
    around = "ocrrlib.streams", type(cell.policy).__module__
    code, libraries = closure(*around, f"ocrrlib.systems.{entry.module}")
    rows = None if outside is None else hashlib.sha256(outside).hexdigest()
    return digest([asdict(cell), entry.cls, entry.params, code, libraries, data.fingerprint, rows])


def run_cells(cells, jobs=1, cache=CACHE, progress=True, dask=None):
    """What ``run_cell`` gives for each of these cells; finished ones are found in the cache."""
    tasks = [Task((), (cell,), _key(cell), str(cell), group=cell.start) for cell in cells]
    return run_tasks(_run, tasks, jobs, cache, progress, dask, in_a_row=IN_A_ROW)


def _rows(study, cell, checkpoints):
    policy = cell.policy
    setting = {
        "asking": policy.ask or "random",
        "p": policy.p,
        "wrong": policy.wrong,
        "confusion": policy.confusion if policy.wrong else "none",
        "delay": policy.delay,
        "drift": cell.drift,
        "order": cell.order,
        "new": cell.new,
    }
    names = {"study": study, "dataset": cell.dataset, "encoder": cell.encoder, "system": cell.system}
    return [names | {"seed": cell.seed} | setting | checkpoint for checkpoint in checkpoints]


def run_studies(
    names=tuple(STUDIES),
    encoder=DEFAULT_ENCODER,
    seeds=None,
    profile="paper",
    jobs=1,
    cache=CACHE,
    progress=True,
    dask=None,
):
    """Run studies and return their checkpoints, one row each; the same whatever the workers.

    Returns
    -------
    DataFrame
        What names a row (``KEY``), the metrics of a ``Checkpoint``, ``wrong_entries`` (share of what is stored),
        and for ``scope`` before and after the stream AUROC and FPR at 95 % recall, by score and by rows.
    """
    cells = [(name, cell) for name in names for cell in plan(name, encoder, seeds, profile)]
    found = run_cells([cell for _, cell in cells], jobs, cache, progress, dask)
    frame = pd.DataFrame([row for (name, cell), rows in zip(cells, found) for row in _rows(name, cell, rows)])
    metrics = [name for name in frame if name not in KEY]
    return frame[KEY + metrics].astype({name: float for name in metrics if frame[name].dtype == object})
