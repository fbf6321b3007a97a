"""Section 6.5 as a plan: which comparisons and races are made, part by part, so that a part can be run alone."""

import warnings
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from tqdm import tqdm

from ocrrlib.cache import RunCache
from ocrrlib.embeddings import load
from ocrrlib.errors import InputError, pick
from ocrrlib.experiments import PROFILES, SEEDS, parse_seeds
from ocrrlib.indexes import INDEXES
from ocrrlib.policies import POLICIES
from ocrrlib.provenance import closure, digest
from ocrrlib.race import race
from ocrrlib.scale import CACHE, Cell, on_ledger
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import make

SETTINGS = ((100, 0.1), (10, 0.15), (2, 0.125))  # classes and noise
CLASSES, PER_CLASS, NOISE = (2, 10, 100, 1000), (10, 100, 1000, 10_000), (0.05, 0.1, 0.125, 0.15, 0.2, 0.3)


def _scale(n, seeds, settings=SETTINGS, threads=1):
    return tuple(Cell(n, classes, noise, seed, threads=threads) for classes, noise in settings for seed in seeds)


COMPARISONS = {
    "10k": _scale(10_000, range(5)),
    "100k": _scale(100_000, range(1)),
    "seeds": _scale(100_000, range(1, 5)),
    "1M": _scale(1_000_000, range(1)),
    "10M": _scale(10_000_000, range(1), SETTINGS[:1], threads=2),
    "map": tuple(
        Cell(classes * each, classes, noise)
        for classes in CLASSES
        for each in PER_CLASS
        for noise in NOISE
        if 1000 <= classes * each <= 100_000
    ),
}
RACES = {"race_100k": COMPARISONS["100k"][0], "race_1M": COMPARISONS["1M"][0]}
PARTS = dict.fromkeys([*COMPARISONS, *RACES])
LIVE = "10k,100k"  # what `make paper` repeats


def parse_parts(parts):
    """Parts as a tuple, from ``"10k,1M"``.

    Raises
    ------
    InputError
        If one does not exist; the message lists those that do.
    """
    names = tuple(dict.fromkeys(parts.split(",")))
    for name in names:
        pick("part of the scale experiment", name, PARTS)
    return names


def _quick(cell):
    return replace(cell, n=max(cell.n // 500, 2 * cell.classes), queries=100, threads=1)


def cells(parts, profile="paper"):
    """The comparisons of these parts; in the quick profile a small one for each scale below a million."""
    plan = dict.fromkeys(cell for part in parse_parts(parts) for cell in COMPARISONS.get(part, ()))
    if pick("profile", profile, PROFILES) is PROFILES["quick"]:
        plan = dict.fromkeys(_quick(cell) for cell in plan if cell.n <= 100_000 and cell.seed == 0)
    return list(plan)


def races(parts, profile="paper", cache=CACHE, progress=True):
    """All indexes on the data of these parts: one row per index and effort.

    An index whose library is not installed is left out, with a warning.
    """
    rows, kept = [], RunCache(cache)
    plan = [RACES[part] for part in parse_parts(parts) if part in RACES]
    if pick("profile", profile, PROFILES) is PROFILES["quick"]:
        plan = [_quick(cell) for cell in plan[:1]]
    pairs = [(cell, name) for cell in plan for name in INDEXES]
    for cell, name in tqdm(pairs, unit="index", disable=not progress):
        key = digest([name, asdict(cell), *closure("ocrrlib.race")])
        result = kept.load(key)
        if result is None:
            try:
                result = race(name, cell)
            except InputError as error:
                warnings.warn(f"{name} is left out at {cell.n:,} entries: {error}", stacklevel=2)
                continue
            kept.save(key, result)
        rows += result
    return pd.DataFrame(rows)


def after_stream(dataset, encoder, seed, profile="paper"):
    """Approximate search on the substrate's ledger after a whole stream, at every effort: a list of dict.

    Queries are all test rows, without the cap of the stream's own evaluations.
    """
    size = pick("profile", profile, PROFILES) | ({"cap": None} if profile == "paper" else {})
    scenario, system = make_scenario(load(dataset, encoder), seed, **size), make("substrate")
    for _ in run_stream(system, scenario, POLICIES["oracle"]):
        pass
    Q = np.concatenate([scenario.X_novel, scenario.X_original])
    y = np.concatenate([scenario.y_novel, scenario.y_original])
    rows = on_ledger(system.entries.X, system.entries.y, Q, y)
    return [{"dataset": dataset, "seed": seed, "entries": system.entries.size} | row for row in rows]


def after_streams(datasets, encoder, seeds=SEEDS, profile="paper", jobs=1):
    """The same for several datasets and seeds, as a table."""
    work = [delayed(after_stream)(name, encoder, seed, profile) for name in datasets for seed in parse_seeds(seeds)]
    return pd.DataFrame(sum(Parallel(n_jobs=jobs)(work), []))
