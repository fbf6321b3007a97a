"""How our own system was set: a search with a written objective.

Settings are drawn at random and rated on more and more seeds; single steps follow from the best of these and of
what the search before chose, until none is better. The best few and what the search before chose are rated on many
more seeds, and the best of these is taken.
The objective (``ocrrlib.tuning.objective``): on held-out classes of the training rows, the most that ours loses to
any of the systems that have not collapsed, on either axis of any cell.
"""

import numpy as np
import pandas as pd

from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.experiments import EXPERIMENTS, OURS
from ocrrlib.policies import POLICIES
from ocrrlib.systems import SYSTEMS
from ocrrlib.tuning.objective import behind
from ocrrlib.tuning.rated import CACHE, DATASETS, SEEDS, accuracies
from ocrrlib.tuning.space import BEFORE, SPACE, drawn, entry_of, one_step

# The best so many settings go into a round, on the first so many seeds: of those drawn, then of single steps.
ROUNDS = ((32, 1), (16, 4), (8, 8))
CLIMB = ((np.inf, 8),)
CLIMBS = 6  # at most
LAST = (8, len(SEEDS))
SEARCHED = ["system", "dataset", "policy", "seed"]
# All that are compared with ours later on, but for river's two: they had collapsed in all cells.
RIVALS = tuple(name for name in EXPERIMENTS["beyond"].systems if name != OURS and SYSTEMS[name].family != "river")


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
        names = [f"{OURS} {len(self.tried) + number}" for number in range(len(settings))]
        self.tried |= dict(zip(names, settings))
        self._narrow(names, rounds, seeds)

    def decide(self, n, some, seeds):
        """Rate the best ``n`` settings and what was chosen before on ``some`` seeds."""
        before = [name for name, setting in self.tried.items() if setting == BEFORE]
        self.add_rivals(seeds[:some])
        left = list(dict.fromkeys([*ranked(self.rows)[:n], *before]))
        self._narrow(left, ((len(left), some),), seeds)

    def _narrow(self, left, rounds, seeds):
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
    last=LAST,
    dask=None,
):
    """Rate settings against all rivals, in the order that the module tells.

    Returns
    -------
    DataFrame
        As ``Search.rows``.
    """

    def rate(entries, own):
        plan = [(name, d, policy, s) for d in datasets for s in own for name in entries for policy in POLICIES]
        done = accuracies([(entries[name], *rest) for name, *rest in plan], encoder, jobs, cache, progress, dask)
        return pd.DataFrame([dict(zip(SEARCHED, one)) | row for one, row in zip(plan, done)])

    found = Search(rate)
    found.add_rivals(seeds[: rounds[-1][1]])
    found.contest([BEFORE], ((1, rounds[-1][1]),), seeds)
    found.contest([setting for setting in drawn(rounds[0][0]) if setting != BEFORE], rounds, seeds)
    for _ in range(climbs):
        new = [setting for setting in one_step(winner(found.rows)) if setting not in found.tried.values()]
        if new:
            found.contest(new, climb, seeds)
    found.decide(*last, seeds)
    return found.rows


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
