"""Streams in which rows of known classes come, too: answers met, corrections, and the prior.

The usual stream has rows of new classes only, so a system that answers new classes boldly loses
nothing there. Here a fifth of the rows of known classes is kept for the stream.
"""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import gcd

import numpy as np
import pandas as pd

from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.experiments import OURS, SUBSTRATE, THREE
from ocrrlib.metrics import Checkpoint, harmonic_mean
from ocrrlib.policies import POLICIES
from ocrrlib.runs import dataset_of, declared
from ocrrlib.scenario import Scenario, make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import SYSTEMS, make
from studies.prior import ESTIMATE_DECIMALS, PRIOR_RULES, Followed, estimate
from studies.results import Study
from studies.statistics import ALPHA, by_seed, differences, flip_p, holm, t_intervals

FOLD = 5  # one of so many rows of each known class is kept for the stream
SHARES = (0, 50, 90)  # rows of known classes in the stream, %
# Streams by ``share`` and ``few``. The last has as few new rows as the third, but no known ones:
# of two possible causes it has one.
MIXES = (*((share, False) for share in SHARES), (0, True))
MIXED_POLICIES = ("oracle", "random10")
EVEN = "_even"
_WANTED = ("static_linear", SUBSTRATE, "knn_lm", "ncm", "slda", "klda_held", OURS)
_WANTED += tuple(name + EVEN for name in ("slda", "klda_held"))
MIXED_SYSTEMS = tuple(name for name in _WANTED if name in SYSTEMS)
COUNTED = ("mistakes_new", "mistakes_known", "corrections_new", "corrections_known")
VERDICT_METRICS = ("met", "hm", "ausuc")  # that verdicts are given by
MIX_COLUMNS = ["share", "few"]  # columns that name a stream
MIX_CELL = [*MIX_COLUMNS, "dataset", "policy"]


def numbers(n_known: int, n_new: int, share: int) -> tuple[int, int]:
    """Most known and new rows that can be taken if exactly ``share`` % are to be known."""
    parts = np.array([share, 100 - share]) // gcd(share, 100)
    wanted = parts > 0
    times = (np.array([n_known, n_new])[wanted] // parts[wanted]).min()
    known, new = (times * parts).tolist()
    return known, new


def mixed(scenario: Scenario, share: int, few: bool = False) -> Scenario:
    """The same scenario with rows of known classes in its stream, ``share`` % of it.

    They are kept from the initial rows: a fifth of each class, rounded down, whatever the share.
    The stream is as long as there are rows. New rows come in the same order as without known ones,
    which have random places between them. ``few``: only as many new rows as at the highest of
    ``SHARES``.
    """
    rng = np.random.default_rng([scenario.seed, 10])
    kept = _a_fifth(scenario.y_initial, rng)
    n_known, n_new = numbers(len(kept), len(scenario.y_stream), share)
    if few:
        _, n_new = numbers(len(kept), len(scenario.y_stream), SHARES[-1])
    known = np.zeros(n_known + n_new, bool)
    known[rng.choice(len(known), n_known, replace=False)] = True
    parts = {}
    for name in "Xy":
        initial = getattr(scenario, f"{name}_initial")
        stream = getattr(scenario, f"{name}_stream")
        rows = np.empty((len(known), *stream.shape[1:]), stream.dtype)
        rows[known] = initial[kept[:n_known]]
        rows[~known] = stream[:n_new]
        parts |= {f"{name}_initial": np.delete(initial, kept, axis=0), f"{name}_stream": rows}
    return replace(scenario, **parts)


def _a_fifth(y, rng):
    """Places of a fifth of the rows of each class, at random and in random order."""
    order = rng.permutation(len(y))
    taken = np.zeros(len(y), bool)
    for label in np.unique(y):
        own = np.flatnonzero(y[order] == label)
        taken[own[: len(own) // FOLD]] = True
    return order[taken]


# Runs


@lru_cache(maxsize=1)
def _scenarios(dataset, seed):
    scenario = make_scenario(_data(dataset), seed, cap=None)
    return {mix: mixed(scenario, *mix) for mix in MIXES}


def _data(dataset):
    return dataset_of(dataset, DEFAULT_ENCODER, "embeddings")


def run_system(setting: dict) -> list[dict]:
    """Outcomes of one system and seed in every stream, under every policy; fitted once."""
    scenarios = _scenarios(setting["dataset"], setting["seed"])
    fitted = make(setting["system"], setting["seed"])
    any_one = scenarios[MIXES[0]]
    fitted.fit(any_one.X_initial, any_one.y_initial, any_one.classes)
    rows = []
    for (mix, scenario), policy in product(scenarios.items(), MIXED_POLICIES):
        names = dict(zip(MIX_COLUMNS, mix)) | {"policy": policy}
        ours = setting["system"] == OURS
        rows.append(names | outcomes(deepcopy(fitted), scenario, policy, estimated=ours))
    return rows


def outcomes(system, scenario: Scenario, policy: str, estimated: bool = False) -> dict:
    """The last checkpoint of a run of a fitted system, and counts by kind of item.

    With ``estimated``, also estimates of the share of new items, and counts of runs under them.
    """
    new = np.isin(np.arange(len(scenario.classes)), scenario.held_out)
    copies = {rule: deepcopy(system) for rule in PRIOR_RULES if estimated}
    followed = Followed(system, new) if estimated else system
    start, last = _run(followed, scenario, policy)
    found = last.scalars | {"start": start.original_acc} | counts(last, scenario, policy, new)
    if estimated:
        mass = system.predict_proba(scenario.X_stream)[:, new].sum(axis=1)
        found["share_em"] = round(estimate(np.array(followed.mass)), ESTIMATE_DECIMALS)
        found["share_end"] = round(estimate(mass), ESTIMATE_DECIMALS)
    stream = untested(scenario)
    for rule, own in copies.items():
        _, last = _run(Followed(own, new, rule), stream, policy)
        counted = counts(last, scenario, policy, new)
        found |= {f"{name}_{rule}": counted[name] for name in COUNTED}
    return found


def untested(scenario: Scenario) -> Scenario:
    """The same stream with one test row of either kind, as the others take most of the time."""
    parts = [f"{name}_{axis}" for name, axis in product("Xy", ("novel", "original"))]
    return replace(scenario, **{part: getattr(scenario, part)[:1] for part in parts})


def _run(system, scenario, policy):
    """The first and the last checkpoint of a fitted system."""
    n = len(scenario.y_stream)
    return run_stream(system, scenario, POLICIES[policy], every=n, fitted=True)


def counts(last: Checkpoint, scenario: Scenario, policy: str, new: np.ndarray) -> dict:
    """Numbers of items, mistakes and corrections of new and of known classes.

    ``new`` (C,) bool are the new classes, ``last`` is the checkpoint after the stream.
    """
    y = scenario.y_stream
    wrong = last.given != y
    corrected = wrong & POLICIES[policy].draws(scenario.seed, len(y))
    answered_new = new[last.given]
    found = {
        "new_as_known": int((new[y] & ~answered_new).sum()),
        "known_as_new": int((~new[y] & answered_new).sum()),
    }
    every = np.ones(len(y), bool)
    for name, which in {"items": every, "mistakes": wrong, "corrections": corrected}.items():
        found[f"{name}_new"] = int((which & new[y]).sum())
        found[f"{name}_known"] = int((which & ~new[y]).sum())
    return found


def _about(setting):
    return declared(setting["system"]) | {"data": _data(setting["dataset"]).fingerprint}


MIXED = Study(
    "mixed",
    ("dataset", "seed", "system", *MIX_COLUMNS, "policy"),
    run_one=run_system,
    settings=("dataset", "seed", "system"),
    about=_about,
    together=("dataset", "seed"),
)


def run_mixed(seeds: Iterable[int] = range(20), **how) -> pd.DataFrame:
    """All runs, a row each; ``how``: options of ``run_tasks``."""
    settings = [dict(zip(MIXED.settings, run)) for run in product(THREE, seeds, MIXED_SYSTEMS)]
    return MIXED.run(settings, **how)


def measured(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with shares of the stream's items.

    ``met``, ``met_known`` and ``met_new`` are those that were answered right, ``met_<rule>`` under
    a rule; ``known_wrong`` and ``new_wrong`` those that were answered as the other kind.
    ``share_new`` is the share of new ones, ``share_called`` that of items answered as new,
    ``share_told`` that of new ones among corrections. NaN where there is no such item.
    """
    found = rows.rename(columns={"novel_acc": "novel", "original_acc": "original"})
    n = {kind: rows[f"items_{kind}"] for kind in ("new", "known")}
    items = n["new"] + n["known"]
    found["hm"] = harmonic_mean(found["novel"], found["original"])
    for rule in ("", *(f"_{rule}" for rule in PRIOR_RULES)):
        wrong = {kind: rows[f"mistakes_{kind}{rule}"] for kind in n}
        found[f"met{rule}"] = 1 - (wrong["new"] + wrong["known"]) / items
        for kind in n:
            found[f"met_{kind}{rule}"] = 1 - wrong[kind] / n[kind]
    found["new_wrong"] = rows["new_as_known"] / n["new"]
    found["known_wrong"] = rows["known_as_new"] / n["known"]
    found["share_new"] = n["new"] / items
    found["share_called"] = (n["new"] - rows["new_as_known"] + rows["known_as_new"]) / items
    found["share_told"] = rows["corrections_new"] / (
        rows["corrections_new"] + rows["corrections_known"]
    )
    return found


def compared(runs: pd.DataFrame, other_of: Mapping[str, str]) -> pd.DataFrame:
    """Paired differences of systems to others, by stream, cell and metric, with t-intervals.

    ``runs`` are from ``measured``; ``other_of`` maps a system to the one that it is compared with.
    ``p_holm`` is the p of flipped signs, corrected over the systems of a stream, cell and metric;
    ``verdict`` is 1 or -1 if it is below ``ALPHA``, else 0.
    """
    found = {}
    for stream, own in runs.groupby(MIX_COLUMNS, sort=False):
        for cell, *tables in by_seed(own, *VERDICT_METRICS):
            for metric, table in zip(VERDICT_METRICS, tables):
                pairs = [name for name in table if other_of.get(name) in table]
                d = [differences(table[name], table[other_of[name]]) for name in pairs]
                one = t_intervals(d).set_index(pd.Index(pairs, name="system"))
                one["p_holm"] = holm([flip_p(row) for row in d])
                found[*stream, *cell, metric] = one.rename(columns={"mean": "difference"})
    table = pd.concat(found, names=[*MIX_CELL, "metric"]).reset_index()
    sure = table["p_holm"] < ALPHA
    return table.assign(verdict=np.sign(table["difference"]).where(sure, 0).astype(int))


def turned(table: pd.DataFrame) -> pd.DataFrame:
    """Verdicts in streams with known rows beside those in the usual stream, a row each.

    ``verdict_usual`` is the latter; ``moved`` if they differ, ``reversed`` if both are sure.
    """
    usual = table["share"].eq(0) & ~table["few"]
    key = ["dataset", "policy", "metric", "system"]
    there = table[usual].set_index(key)["verdict"].rename("verdict_usual")
    others = table[~usual].join(there, on=key)
    both = others["verdict"] * others["verdict_usual"]
    return others.assign(moved=others["verdict"] != others["verdict_usual"], reversed=both < 0)
