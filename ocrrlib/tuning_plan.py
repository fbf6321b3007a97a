"""How our own system was set: a search with a written objective.

Settings are drawn at random and rated on more and more seeds; single steps from the best follow.
The objective is what the bar asks (see ``ocrrlib.bar``): on held-out classes of the training rows, the most that ours
loses to any of the systems that have not collapsed, on either axis of any cell.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import stats

from ocrrlib.bar import AXES, CELL, means
from ocrrlib.embeddings import load
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.errors import pick
from ocrrlib.experiments import EXPERIMENTS, OURS
from ocrrlib.home import cache_folder
from ocrrlib.policies import POLICIES
from ocrrlib.provenance import closure, digest
from ocrrlib.studies import each
from ocrrlib.systems import SYSTEMS
from ocrrlib.tuning import FOLDS, accuracy, from_training_rows, row_weights

CACHE = cache_folder() / "tuning"
DATASETS = ("banking77", "clinc150")
SEEDS = tuple(range(1000, 1008))  # none of them is reported on
SETTING = ["parameter", "value", "chosen", "dataset", "policy", "seed"]
# What is searched, narrowed by first looks on these seeds; a dot leads into a setting that is a dict.
# Settings that take long to change come first: neighbours in this order share work.
SPACE = {
    "kernel.bandwidth": (0.85, 1.0),
    "kernel.shrinkage": (0.005, 0.01, 0.02),
    "kernel.prior_rows": (1.5, 2.0, 2.5),
    "model.shrinkage": (0.05, 0.1),
    "model.floor": (0.1, 0.2),
    "model.prior_rows": (100, 300),
    "model.power": (0.5, 0.75),
    "k": (20, 30),
    "neighbour_temperature": (0.04, 0.05, 0.06),
    "neighbour_weight": (0.3, 0.35, 0.4),
    "kernel_weight": (0.35, 0.4, 0.45),
    "new_odds": (1.4, 1.5, 1.6, 1.75),
    "head_weight": (0.2, 0.25),
    "model_temperature": (25.0, 35.0),
    "kernel_temperature": (12.5, 18.0),
}
# The best so many settings go into a round, on the first so many seeds: first of those drawn, then of single steps.
ROUNDS = ((32, 1), (16, 4), (8, 8))
CLIMB = ((np.inf, 2), (6, 8))
CLIMBS = 1
BOUNDED, LEVEL = 4, 0.95  # seeds that make a bound, and how sure it is
SEARCHED = ["system", "dataset", "policy", "seed"]
# All that are compared with ours later on, but for river's two: they had collapsed in all cells.
LATER = ("er_tuned", "er_ace_tuned")  # came after the search, which did not meet them
RIVALS = tuple(
    name
    for name in EXPERIMENTS["beyond"].systems
    if name not in (OURS, *LATER) and SYSTEMS[name].family != "river"
)


def value_of(params, name):
    """A setting by its name."""
    group, _, key = name.rpartition(".")
    return pick("setting", key, params[group] if group else params)


def with_value(params, name, value):
    """The same settings but for one."""
    group, _, key = name.rpartition(".")
    value_of(params, name)
    return params | {group: params[group] | {key: value}} if group else params | {key: value}


def _accuracies(plan, encoder, jobs, cache, progress):
    """``accuracy`` for each (entry, dataset, policy, seed); those of one dataset and seed share work."""
    whole = {name: load(name, encoder) for name in dict.fromkeys(dataset for _, dataset, _, _ in plan)}
    # The fold goes with the seed: a few rows of a class that weighs much must not decide alone.
    data = {(name, fold): from_training_rows(one, fold) for name, one in whole.items() for fold in range(FOLDS)}
    weights = {(name, fold): row_weights(whole[name], one) for (name, fold), one in data.items()}
    fingerprints = {part: [data[part].fingerprint, weights[part].tolist()] for part in data}
    parts = [(d, s % FOLDS) for _, d, _, s in plan]
    keys = [
        digest([e.cls, e.params, p, s, fingerprints[part], *closure("ocrrlib.tuning", f"ocrrlib.systems.{e.module}")])
        for (e, _, p, s), part in zip(plan, parts)
    ]
    tasks = [(data[part], weights[part], p, s, e) for (e, _, p, s), part in zip(plan, parts)]
    together = [(e.family, d, s) for e, d, _, s in plan]
    return each(accuracy, tasks, keys, jobs, cache, progress, together)


def settings():
    """All settings that are compared one at a time: (name of the one that differs, its value, all of them)."""
    chosen = SYSTEMS[OURS].params
    found = [("", np.nan, chosen)]
    for name, values in SPACE.items():
        other = [value for value in values if value != value_of(chosen, name)]
        found += [(name, float(value), with_value(chosen, name, value)) for value in other]
    return found


def tune(
    datasets=DATASETS,
    policies=("oracle", "random10"),
    seeds=SEEDS[:4],
    encoder=DEFAULT_ENCODER,
    jobs=1,
    cache=CACHE,
    progress=True,
):
    """Our system as it is set and with one setting changed at a time, on held-out classes of the training rows.

    Returns
    -------
    DataFrame
        One row per setting, dataset, policy and seed; ``parameter`` is empty for the system as it is set.
    """
    plan = [
        ((name, value, not name, dataset, policy, seed), replace(SYSTEMS[OURS], params=params))
        for dataset in datasets
        for policy in policies
        for seed in seeds
        for name, value, params in settings()
    ]
    rows = _accuracies([(entry, *one[3:]) for one, entry in plan], encoder, jobs, cache, progress)
    return pd.DataFrame([dict(zip(SETTING, one)) | row for (one, _), row in zip(plan, rows)])


def drawn(n, seed=0):
    """``n`` different settings at random: dicts by the names in ``SPACE``."""
    rng, found = np.random.default_rng(seed), {}
    while len(found) < n:
        one = {name: values[int(rng.integers(len(values)))] for name, values in SPACE.items()}
        found.setdefault(digest(one), one)
    return list(found.values())


def one_step(setting):
    """All settings that differ from this one in one place."""
    return [setting | {name: value} for name, values in SPACE.items() for value in values if value != setting[name]]


def entry_of(setting):
    """Our system with a setting of ``drawn``."""
    params = SYSTEMS[OURS].params
    for name, value in setting.items():
        params = with_value(params, name, value)
    return replace(SYSTEMS[OURS], params=params)


def behind(rows, candidates):
    """How far each candidate is behind, as the objective has it; lower is better.

    Parameters
    ----------
    rows : DataFrame
        system, dataset, policy, seed, ``novel``, ``original``; all of the same seeds.
    candidates : list of str
        Systems that are rated; the others are rivals.

    Returns
    -------
    Series
        By candidate: the most that is lost to any rival that has not collapsed, on either axis of any cell, at
        its one-sided 95 % bound; below 0 where ahead of all. Fewer than ``BOUNDED`` seeds say little of their
        spread: then the mean difference is taken.
    """
    rivals = means(rows[~rows["system"].isin(candidates)])
    left = rivals[~rivals["collapsed"]].groupby(CELL)["system"].agg(list)
    worst = []
    for axis in AXES:
        for cell, table in rows.pivot(index=[*CELL, "seed"], columns="system", values=axis).groupby(CELL):
            own, others = table[list(candidates)].to_numpy(), table[left[cell]].to_numpy()
            differences = own[:, :, None] - others[:, None]
            low, n = differences.mean(axis=0), len(table)
            if n >= BOUNDED:
                low = low - stats.t.ppf(LEVEL, n - 1) * differences.std(axis=0, ddof=1) / np.sqrt(n)
            worst.append(-low.min(axis=1))
    return pd.Series(np.max(worst, axis=0), pd.Index(candidates, name="system")).sort_values(kind="stable")


class Search:
    """Settings that were tried, by name, and what came out.

    Parameters
    ----------
    rate : callable
        From entries by name and seeds to rows.
    """

    def __init__(self, rate):
        self.rate, self.tried, self.found = rate, {}, []

    @property
    def rows(self):
        """One row per system, dataset, policy and seed; settings are systems named by number, with values."""
        values = pd.DataFrame.from_dict(self.tried, orient="index", columns=list(SPACE))
        return pd.concat(self.found).drop_duplicates(SEARCHED, ignore_index=True).join(values, on="system")

    def add_rivals(self, seeds):
        """Rate the systems that settings are compared with."""
        self.found.append(self.rate({name: SYSTEMS[name] for name in RIVALS}, seeds))

    def contest(self, settings, rounds, seeds):
        """Rate settings on more and more seeds, fewer and fewer of them."""
        left = [f"{OURS} {len(self.tried) + number}" for number in range(len(settings))]
        self.tried |= dict(zip(left, settings))
        for n, some in rounds:
            # Neighbours in this order share work.
            left = sorted(left[: min(n, len(left))], key=lambda name: list(self.tried[name].values()))
            self.found.append(self.rate({name: entry_of(self.tried[name]) for name in left}, seeds[:some]))
            rows = self.rows
            compared = rows[rows["seed"].isin(seeds[:some]) & rows["system"].isin([*RIVALS, *left])]
            left = list(behind(compared, left).index)


def search(
    datasets=DATASETS,
    seeds=SEEDS,
    encoder=DEFAULT_ENCODER,
    jobs=1,
    cache=CACHE,
    progress=True,
    rounds=ROUNDS,
    climb=CLIMB,
    climbs=CLIMBS,
):
    """Rate settings against all rivals: at random first, then in single steps from the best one.

    Returns
    -------
    DataFrame
        As ``Search.rows``.
    """

    def rate(entries, own):
        plan = [(name, d, policy, s) for d in datasets for s in own for name in entries for policy in POLICIES]
        done = _accuracies([(entries[name], *rest) for name, *rest in plan], encoder, jobs, cache, progress)
        return pd.DataFrame([dict(zip(SEARCHED, one)) | row for one, row in zip(plan, done)])

    found = Search(rate)
    found.add_rivals(seeds[: rounds[-1][1]])
    found.contest(drawn(rounds[0][0]), rounds, seeds)
    for _ in range(climbs):
        new = [setting for setting in one_step(winner(found.rows)) if setting not in found.tried.values()]
        if new:
            found.contest(new, climb, seeds)
    return found.rows


def winner(rows):
    """The setting that is best of those that all seeds have been spent on, by the names in ``SPACE``."""
    last = rows[rows["seed"] == rows["seed"].max()]
    candidates = sorted(name for name in last["system"].unique() if name.startswith(f"{OURS} "))
    both = rows[rows["system"].isin([*candidates, *rows.loc[rows["k"].isna(), "system"].unique()])]
    best = behind(both, candidates).index[0]
    one = rows[rows["system"] == best].iloc[0]
    return {name: type(values[0])(one[name]) for name, values in SPACE.items()}
