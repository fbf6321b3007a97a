"""What is published, to be looked at from all sides; the inside of a run is streamed again when it is asked for."""

import numpy as np
import pandas as pd

from ocrrlib import embeddings
from ocrrlib import results as files
from ocrrlib.evaluation import HELD_OUT
from ocrrlib.errors import InputError, pick
from ocrrlib.experiments import EXPERIMENTS
from ocrrlib.explore.replay import replay
from ocrrlib.files import data_folder
from ocrrlib.metrics import final
from ocrrlib.report.curves import over_steps
from ocrrlib.statistics.collapse import FLOOR, collapsed
from ocrrlib.statistics.pareto import on_front

PLAN = EXPERIMENTS["beyond"]  # the widest comparison: all systems, all test rows


class Results:
    """Published runs: all systems of the wider comparison on two datasets under three policies, twenty seeds each.

    Parameters
    ----------
    frame : DataFrame, optional
        Other results of the same form, one row per checkpoint.
    load : callable
        From a dataset's name and an encoder's to an ``Embedded``.
    held_out, draw, cap
        How the scenarios of these results were drawn, see ``make_scenario``.

    Raises
    ------
    InputError
        If the published file is missing or damaged.
    """

    def __init__(self, frame=None, load=embeddings.load, held_out=HELD_OUT, draw=PLAN.draw, cap=PLAN.cap):
        self.frame = files.read(data_folder() / "results/beyond.parquet")[0] if frame is None else frame
        self.datasets, self.policies, self.systems, self.seeds = (
            tuple(self.frame[name].unique().tolist()) for name in ("dataset", "policy", "system", "seed")
        )
        self._load, self._drawn = load, dict(held_out=held_out, draw=draw, cap=cap)
        self._data, self._inside = {}, {}

    def cell(self, dataset, policy, seed=None):
        """The checkpoints of a cell, of one seed or of all.

        Raises
        ------
        InputError
            If there is none of this name.
        """
        wanted = {"dataset": (dataset, self.datasets), "policy": (policy, self.policies)}
        if seed is not None:
            wanted["seed"] = seed, self.seeds
        chosen = np.ones(len(self.frame), bool)
        for kind, (value, known) in wanted.items():
            chosen &= self.frame[kind] == pick(kind, str(value), {str(name): name for name in known})
        return self.frame[chosen]

    def curves(self, dataset, policy, systems, seed=None):
        """Accuracies as the stream goes by.

        Returns
        -------
        DataFrame
            One row per system and step: ``system``, ``step``, and for ``novel`` and ``original`` the mean over
            seeds under its name, with ``<axis> low`` and ``<axis> high``, its 95 % t interval.
        """
        cell, found = self.cell(dataset, policy, seed), []
        for system in systems:
            pick("system", system, dict.fromkeys(self.systems))
            own = {"system": system}
            for axis in ("novel", "original"):
                own["step"], *spread = over_steps(cell[cell["system"] == system], axis)
                own |= dict(zip((axis, f"{axis} low", f"{axis} high"), spread))
            found.append(pd.DataFrame(own))
        return pd.concat(found, ignore_index=True)

    def finals(self, dataset, policy, seed=None):
        """Where all systems of a cell end, means over seeds.

        Returns
        -------
        DataFrame
            One row per system: ``novel``, ``original``, ``corrections``, ``collapsed`` (see ``statistics.collapse``),
            ``front`` (none that has not collapsed is better). Best ``novel`` first, collapsed ones after all others.
        """
        last = final(self.cell(dataset, policy, seed)).rename(
            columns={"novel_acc": "novel", "original_acc": "original"}
        )
        found = last.groupby("system", sort=False)[["novel", "original", "corrections"]].mean()
        found["collapsed"] = collapsed(found["original"], found["original"].get(FLOOR, np.nan))
        able = found[~found["collapsed"]]
        front = able.index[on_front(able["novel"].to_numpy(), able["original"].to_numpy())]
        found["front"] = found.index.isin(front)
        return found.sort_values(["collapsed", "novel", "original"], ascending=[True, False, False], kind="stable")

    def data(self, dataset):
        """The dataset that the results are of."""
        if dataset not in self._data:
            encoder = self.cell(dataset, self.policies[0])["encoder"].iloc[0]
            self._data[dataset] = self._load(dataset, encoder)
        return self._data[dataset]

    def is_ready(self, *run):
        """Whether ``inside`` has this run already."""
        return run in self._inside

    def inside(self, dataset, policy, system, seed):
        """The inside of one run, a ``Replay``: streamed when first asked for, kept in memory.

        Raises
        ------
        InputError
            If there is no such run, or streaming it again ends elsewhere than published.
        """
        run = dataset, policy, system, seed
        if run not in self._inside:
            cell = self.cell(dataset, policy, seed)
            pick("system", system, dict.fromkeys(self.systems))
            found = replay(self.data(dataset), system, policy, seed, **self._drawn)
            published = cell[cell["system"] == system].iloc[-1]
            for name in ("step", "corrections", "novel_acc", "original_acc"):
                if not np.isclose(found.end[name], published[name], rtol=0, atol=1e-9):
                    raise InputError(
                        f"{system}, seed {seed} ends with {name} {found.end[name]:.4g} here, {published[name]:.4g} is "
                        "published: the code, data or libraries are others; `make status` says which"
                    )
            self._inside[run] = found
        return self._inside[run]
