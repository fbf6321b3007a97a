"""Settings of the proposed system: a search with a written objective, and each setting changed by itself.

All on training rows only, weighted by the class counts of the test sets, with seeds of their own. Settings are drawn
at random and rated on more and more seeds; single steps follow from the best of these and of what the search before
chose, until none is better. The best few and what the search before chose are rated on many more seeds, and the best
of these is taken. The objective (``behind``): the most that ours loses to any of the systems that have not collapsed,
on either axis of any cell.
"""

from dataclasses import replace
from functools import lru_cache
from itertools import product

import numpy as np
import pandas as pd
from scipy import stats

from ocrrlib.embeddings import load
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.experiments import EXPERIMENTS, OURS
from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import SYSTEMS
from ocrrlib.tasks import Task, run_tasks
from studies.statistics import AXES, CELL
from studies.target import means

DATASETS = ("banking77", "clinc150")
SEEDS = tuple(range(1000, 1024))  # none of them is reported on
FOLDS = 4
CATCH_ALL = "oos"  # a class of out-of-scope queries: later ones need not be like those that were collected
BOUNDED, LEVEL = 4, 0.95  # seeds that make a bound, and its confidence
ROUNDS = ((32, 1), (16, 4), (8, 8))  # the best so many settings go into a round, on the first so many seeds
CLIMBS, LAST = 6, (8, len(SEEDS))  # times that single steps are taken, at most; the last round
SEARCHED = ["system", "dataset", "policy", "seed"]
# All that are compared with ours later on, but for river's two: they had collapsed in all cells.
RIVALS = tuple(name for name in EXPERIMENTS["beyond"].systems if name != OURS and SYSTEMS[name].family != "river")
# What is searched, narrowed by first looks on these seeds; a dot leads into a setting that is a dict.
# Settings that take long to change come first: neighbours in this order share work.
SPACE = {
    "kernel.bandwidth": (0.6, 0.7, 0.85, 1.0),
    "kernel.shrinkage": (0.01, 0.02, 0.04),
    "kernel.prior_rows": (2.0, 2.5, 3.0),
    "model.shrinkage": (0.05, 0.1, 0.2),
    "model.floor": (0.1, 0.2, 0.4),
    "model.prior_rows": (30, 100, 300),
    "model.power": (0.5, 0.75, 1.0),
    "k": (20, 30, 45),
    "neighbour_temperature": (0.05, 0.06, 0.08),
    "neighbour_weight": (0.3, 0.35, 0.4),
    "kernel_weight": (0.35, 0.4, 0.45),
    "new_odds": (1.4, 1.5, 1.6, 1.75),
    "head_weight": (0.15, 0.2, 0.25),
    "model_temperature": (18.0, 25.0, 35.0),
    "kernel_temperature": (12.5, 18.0, 25.0),
}
# What the search before this one chose, at the edges of a smaller space.
BEFORE = dict(zip(SPACE, (0.85, 0.02, 2.5, 0.05, 0.2, 100, 0.75, 30, 0.06, 0.35, 0.4, 1.5, 0.2, 25.0, 18.0)))


def halves(X, places, times):
    """Rows cut in two along the direction in which they vary most, and so on: lists of places, 2**times of them."""
    if not times:
        return [places]
    centred = X[places] - X[places].mean(axis=0, dtype=np.float64)
    axis = np.linalg.svd(centred, full_matrices=False)[2][0]
    order = places[np.argsort(centred @ axis * np.sign(axis[np.abs(axis).argmax()]), kind="stable")]
    return [part for half in np.array_split(order, 2) for part in halves(X, half, times - 1)]


def from_training_rows(data, fold):
    """A dataset made of another one's training rows: of each class a fourth, drawn at random, is for testing.

    Of the class ``CATCH_ALL`` it is a fourth that lies apart from the others.
    The folds, 0 to 3, have all training rows between them as test rows.
    """
    rng, tested = np.random.default_rng(0), np.zeros(len(data.y_train), bool)
    for label, name in enumerate(data.classes):
        rows = rng.permutation(np.flatnonzero(data.y_train == label))
        parts = halves(data.X_train, rows, 2) if name == CATCH_ALL else np.array_split(rows, FOLDS)
        tested[parts[fold]] = True
    own = {"X_test": data.X_train[tested], "y_test": data.y_train[tested]}
    return replace(data, X_train=data.X_train[~tested], y_train=data.y_train[~tested], **own)


@lru_cache(maxsize=2 * FOLDS)
def fold_of(dataset, encoder, fold):
    """``from_training_rows``, its fingerprint, and the weight of a test row of each class, (C,).

    All classes weigh as in the real test rows: how many each has is all that is read of these, and is published.
    """
    data = load(dataset, encoder)
    own = from_training_rows(data, fold)
    wanted, there = (np.bincount(one.y_test, minlength=len(data.classes)) for one in (data, own))
    return own, own.fingerprint, wanted / np.maximum(there, 1)


def accuracy(entry, dataset, policy, seed, encoder=DEFAULT_ENCODER):
    """Final novel and original accuracy of a registry entry on held-out classes of the training rows."""
    # The fold goes with the seed: a few rows of a class that weighs much must not decide alone.
    data, _, weights = fold_of(dataset, encoder, seed % FOLDS)
    s = make_scenario(data, seed, cap=None)
    *_, last = run_stream(entry.make(seed), s, POLICIES[policy], every=len(s.y_stream))
    answers = dict(zip(AXES, np.split(last.answers, [len(s.y_novel)])))
    truth = dict(zip(AXES, (s.y_novel, s.y_original)))
    return {axis: float(np.average(answers[axis] == y, weights=weights[y])) for axis, y in truth.items()}


def rate(entries, datasets, policies, seeds, encoder=DEFAULT_ENCODER, **how):
    """``accuracy`` of registry entries by name: a frame with one row per dataset, seed, name (``system``) and policy.

    ``how``: ``jobs``, ``cache``, ``progress`` and ``dask`` of ``run_tasks``.
    """
    tasks, names = [], []
    for dataset, seed, (name, entry), policy in product(datasets, seeds, entries.items(), policies):
        names.append(dict(zip(SEARCHED, (name, dataset, policy, seed))))
        key = {"made": [entry.cls, entry.params], "data": fold_of(dataset, encoder, seed % FOLDS)[1], "policy": policy}
        tasks.append(Task(key | {"seed": seed}, (entry, dataset, policy, seed, encoder)))
    return pd.DataFrame([name | row for name, row in zip(names, run_tasks(accuracy, tasks, **how))])


def with_values(params, setting):
    """The same settings but for those in ``setting``, by the names in ``SPACE``."""
    for name, value in setting.items():
        group, _, key = name.rpartition(".")
        params = params | ({group: params[group] | {key: value}} if group else {key: value})
    return params


def drawn(n, seed=0):
    """``n`` different settings at random: dicts by the names in ``SPACE``."""
    rng, found = np.random.default_rng(seed), {}
    while len(found) < n:
        one = {name: values[int(rng.integers(len(values)))] for name, values in SPACE.items()}
        found.setdefault(tuple(one.values()), one)
    return list(found.values())


def one_step(setting):
    """All settings that differ from this one in one place."""
    return [setting | {name: value} for name, values in SPACE.items() for value in values if value != setting[name]]


def behind(rows, candidates):
    """How far each candidate is behind, as a Series: the objective, lower is better.

    That is the most that it loses to any rival that has not collapsed, on either axis of any cell, at its one-sided
    95 % bound; below 0 where ahead of all. Fewer than ``BOUNDED`` seeds say little of their spread: then it is the
    mean difference. ``rows`` have system, dataset, policy, seed, ``novel`` and ``original``, all of the same seeds;
    systems that are no candidates are rivals.
    """
    rivals = means(rows[~rows["system"].isin(candidates)])
    left, worst = rivals[~rivals["collapsed"]].groupby(CELL)["system"].agg(list), []
    for axis in AXES:
        for cell, table in rows.pivot(index=[*CELL, "seed"], columns="system", values=axis).groupby(CELL):
            own, others, n = table[list(candidates)].to_numpy(), table[left[cell]].to_numpy(), len(table)
            differences = own[:, :, None] - others[:, None]
            low = differences.mean(axis=0)
            if n >= BOUNDED:
                low = low - stats.t.ppf(LEVEL, n - 1) * differences.std(axis=0, ddof=1) / np.sqrt(n)
            worst.append(-low.min(axis=1))
    return pd.Series(np.max(worst, axis=0), pd.Index(candidates, name="system")).sort_values(kind="stable")


def search(datasets=DATASETS, seeds=SEEDS, encoder=DEFAULT_ENCODER, rounds=ROUNDS, climbs=CLIMBS, last=LAST, **how):
    """Rate settings against all rivals, in the order that the module tells; ``how`` as for ``rate``.

    Returns
    -------
    DataFrame
        One row per system, dataset, policy and seed; settings are systems named by number, with values.
    """
    tried, parts, (best, most) = {}, [], last
    rivals, some, ours = {name: SYSTEMS[name] for name in RIVALS}, rounds[-1][1], SYSTEMS[OURS]

    def spend(entries, n):
        parts.append(rate(entries, datasets, POLICIES, seeds[:n], encoder, **how))

    def rows():
        values = pd.DataFrame.from_dict(tried, orient="index", columns=list(SPACE))
        return pd.concat(parts).drop_duplicates(SEARCHED, ignore_index=True).join(values, on="system")

    def contest(left, rounds):
        """Rate settings on more and more seeds, fewer and fewer of them."""
        for n, some in rounds:
            left = sorted(left[:n], key=lambda name: list(tried[name].values()))  # neighbours share work
            spend({name: replace(ours, params=with_values(ours.params, tried[name])) for name in left}, some)
            found = rows()
            found = found[found["seed"].isin(seeds[:some]) & found["system"].isin([*RIVALS, *left])]
            left = list(behind(found, left).index)

    def named(settings):
        names = [f"{OURS} {len(tried) + number}" for number in range(len(settings))]
        tried.update(zip(names, settings))
        return names

    spend(rivals, some)
    before = named([BEFORE])
    contest(before, ((1, some),))
    contest(named([setting for setting in drawn(rounds[0][0]) if setting != BEFORE]), rounds)
    for _ in range(climbs):
        new = [setting for setting in one_step(winner(rows())) if setting not in tried.values()]
        if new:
            contest(named(new), ((len(new), some),))
    spend(rivals, most)
    contest(list(dict.fromkeys([*ranked(rows())[:best], *before])), ((best + 1, most),))
    return rows()


def ranked(rows):
    """Settings that most seeds have been spent on, by name, the best first."""
    ours = rows["system"].str.startswith(f"{OURS} ")
    spent = rows[ours].groupby("system")["seed"].nunique()
    candidates = sorted(spent.index[spent == spent.max()])
    is_candidate = rows["system"].isin(candidates)
    of_all = rows["seed"].isin(rows.loc[is_candidate, "seed"])
    return list(behind(rows[of_all & (is_candidate | ~ours)], candidates).index)


def winner(rows):
    """The best of the settings that most seeds have been spent on, by the names in ``SPACE``."""
    one = rows[rows["system"] == ranked(rows)[0]].iloc[0]
    return {name: type(values[0])(one[name]) for name, values in SPACE.items()}


def left_out(params):
    """The same settings without one of the four readers, by what is missing; the others share its weight."""
    near, kernel = params["neighbour_weight"], params["kernel_weight"]
    return {
        "no PLDA": params | {"neighbour_weight": near / (near + kernel), "kernel_weight": kernel / (near + kernel)},
        "no kernel": params | {"neighbour_weight": near / (1 - kernel), "kernel_weight": 0.0},
        "no neighbours": params | {"neighbour_weight": 0.0, "kernel_weight": kernel / (1 - near)},
        "no head": params | {"head_weight": 0.0},
    }


def settings():
    """All settings that are compared: (what differs, its value, all of them); a reader left out has no value."""
    chosen = SYSTEMS[OURS].params
    (flat,) = pd.json_normalize(chosen).to_dict("records")  # by the names in ``SPACE``
    found = [("", np.nan, chosen), *((name, np.nan, params) for name, params in left_out(chosen).items())]
    for name, values in SPACE.items():
        other = [value for value in values if value != flat[name]]
        found += [(name, float(value), with_values(chosen, {name: value})) for value in other]
    return found


def tune(datasets=DATASETS, policies=("oracle", "random10"), seeds=SEEDS[:4], encoder=DEFAULT_ENCODER, **how):
    """Our system as it is set and with one setting changed at a time; ``how`` as for ``rate``.

    Returns
    -------
    DataFrame
        One row per setting, dataset, policy and seed; ``parameter`` is empty for the system as it is set.
    """
    changes = pd.DataFrame(settings(), columns=["parameter", "value", "params"])
    entries = {number: replace(SYSTEMS[OURS], params=params) for number, params in changes.pop("params").items()}
    rows = rate(entries, datasets, policies, seeds, encoder, **how)
    rows = changes.assign(chosen=changes["parameter"] == "").loc[rows["system"]].reset_index(drop=True).join(rows)
    rows = rows.sort_values(["dataset", "policy", "seed"], kind="stable", ignore_index=True)
    return rows.drop(columns="system")
