"""What a system reached, and where it stands among all published systems."""

import functools
import time
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ocrrlib import __version__
from ocrrlib.datasets import DATASETS
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.files import InputError, data_folder, write_text
from ocrrlib.metrics import RUN
from ocrrlib.own_data import check_name
from ocrrlib.stream import EVERY

HELD_OUT = 10  # classes, in all published cells
METRICS = ["novel", "original", "anytime novel", "anytime original", "corrections"]
CELL = ["dataset", "fingerprint", "encoder", "policy", "held_out", "every"]
PUBLISHED, OWN = "published here", "own run"
FLOOR, DROP = "static_linear", 0.05  # collapsed: original accuracy so far below that of a system that never learns


def finals(curve):
    """Final and anytime accuracies of runs; anytime is the mean over stream steps, by trapezoids.

    Parameters
    ----------
    curve : DataFrame
        One row per checkpoint, as in the published results.

    Returns
    -------
    DataFrame
        One row per run: ``metrics.RUN``, then ``METRICS``.
    """
    run = curve.groupby(RUN, sort=False, observed=True)
    last = run.tail(1).rename(columns={"novel_acc": "novel", "original_acc": "original"}).reset_index(drop=True)
    for axis in ("novel", "original"):
        area = run["step"].diff() * (curve[f"{axis}_acc"] + run[f"{axis}_acc"].shift()) / 2
        last[f"anytime {axis}"] = area.groupby(run.ngroup()).sum().to_numpy() / last["step"]
    return last[RUN + METRICS]


def interval(values):
    """Mean, standard deviation (n - 1) and 95 % t interval of values, one per seed; NaN for a single one."""
    from scipy.stats import t  # slow to import

    values = np.asarray(values, float)
    n, mean = len(values), float(values.mean())
    sd = float(values.std(ddof=1)) if n > 1 else np.nan
    if n > 1 and np.ptp(values) <= 1e-12 * np.abs(values).max():  # rounding
        sd = 0.0
    half = t.ppf(0.975, n - 1) * sd / np.sqrt(n) if n > 1 else np.nan
    return {"mean": mean, "sd": sd, "low": mean - half, "high": mean + half, "n": n}


def ranking(runs):
    """Systems of one cell, best first by anytime novel accuracy, collapsed ones after all others.

    Parameters
    ----------
    runs : DataFrame
        One row per run: ``system``, ``source`` and ``METRICS``.

    Returns
    -------
    DataFrame
        One row per system and source: ``seeds``, of each metric the mean and the bounds ``<metric> low`` and
        ``<metric> high``, and ``collapsed``: original accuracy more than ``DROP`` below the published ``FLOOR``.
    """
    rows = []
    for (system, source), own in runs.groupby(["system", "source"]):
        row = {"system": system, "source": source, "seeds": len(own)}
        for metric in METRICS:
            found = interval(own[metric])
            row |= {metric: found["mean"], f"{metric} low": found["low"], f"{metric} high": found["high"]}
        rows.append(row)
    table = pd.DataFrame(rows)
    floor = table.loc[(table["system"] == FLOOR) & (table["source"] == PUBLISHED), "original"].max()  # NaN of none
    table["collapsed"] = np.round(table["original"] - (floor - DROP), 12) < 0
    return table.sort_values(["collapsed", "anytime novel"], ascending=[True, False], kind="stable", ignore_index=True)


@functools.cache
def published_runs():
    """One row per run of the published comparison: ``finals``, ``held_out``, ``every``, ``source``."""
    curve = pd.read_parquet(data_folder() / "results/beyond.parquet")
    return finals(curve).assign(held_out=HELD_OUT, every=EVERY, source=PUBLISHED)


@dataclass(frozen=True, repr=False, eq=False)
class Evaluation:
    """What a system reached.

    Attributes
    ----------
    name : str
        Name of the system.
    curve : DataFrame
        One row per checkpoint, with the columns of the published results.
    cell : dict
        Where it was evaluated: ``CELL``.
    """

    name: str
    curve: pd.DataFrame
    cell: dict

    @functools.cached_property
    def runs(self):
        """One row per seed, see ``finals``."""
        return finals(self.curve)

    @functools.cached_property
    def summary(self):
        """One row per metric: ``mean``, ``sd``, ``low`` and ``high`` (95 % t interval; NaN for one seed), ``n``."""
        return pd.DataFrame([{"metric": metric} | interval(self.runs[metric]) for metric in METRICS])

    def compared(self):
        """This system among all published ones of its cell, over the seeds that both have.

        Returns
        -------
        DataFrame
            As ``ranking``; ``own`` marks this system.

        Raises
        ------
        InputError
            If nothing is published for the cell or these seeds.
        """
        cell, published = {name: self.cell[name] for name in CELL if name != "fingerprint"}, published_runs()
        published = published[(published[list(cell)] == pd.Series(cell)).all(axis=1)]
        shared = set(published["seed"]) & set(self.runs["seed"])
        if not shared:
            known = f"seeds {published['seed'].min()} to {published['seed'].max()}" if len(published) else "nothing"
            raise InputError(
                f"{known} published for {', '.join(map(str, cell.values()))}: compare on {' or '.join(DATASETS)} by "
                f"{DEFAULT_ENCODER}, {HELD_OUT} classes held out, a checkpoint every {EVERY} items, a published policy"
            )
        both = pd.concat([self.runs.assign(source=OWN), published])
        table = ranking(both[both["seed"].isin(shared)])
        return table.assign(own=table["source"] == OWN)

    def against(self, other):
        """Differences to another system on the same streams, paired by seed.

        Returns
        -------
        DataFrame
            One row per metric: ``summary`` of the differences, and in how many seeds this system is ``higher`` or
            ``lower``.

        Raises
        ------
        InputError
            If dataset, policy, held-out classes or checkpoints differ, or no seed is in both.
        """
        where = [[one.cell[name] for name in ("dataset", "policy", "held_out", "every")] for one in (self, other)]
        pairs = self.runs.merge(other.runs, on="seed", suffixes=("", " other"))
        if where[0] != where[1] or pairs.empty:
            raise InputError(
                f"{self.name} on {where[0]} and {other.name} on {where[1]} have no stream in common: evaluate both on "
                "the same data, policy and seeds"
            )
        gaps = {metric: pairs[metric] - pairs[f"{metric} other"] for metric in METRICS}
        return pd.DataFrame(
            {"metric": metric} | interval(gap) | {"higher": (gap > 0).sum(), "lower": (gap < 0).sum()}
            for metric, gap in gaps.items()
        )

    def plot(self):
        """Accuracies over the stream (mean and SD over seeds), and the final ones among all published systems."""
        import matplotlib.pyplot as plt  # slow to import
        import seaborn as sns

        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
        plt.close(figure)
        shortest = self.curve.groupby("seed")["step"].max().min()  # streams differ in length
        curve = self.curve.rename(columns={"novel_acc": "novel", "original_acc": "original"})
        curve = curve[curve["step"] <= shortest].melt(["step", "seed"], ["novel", "original"], "axis", "accuracy")
        sns.lineplot(curve, x="step", y="accuracy", hue="axis", style="axis", errorbar="sd", ax=left)
        try:
            table = self.compared()
        except InputError:  # nothing is published for this cell
            table = self.runs.assign(own=True, collapsed=False)
        looks = dict(x="original", y="novel", style="collapsed", style_order=[False, True], ax=right)
        sns.scatterplot(table[~table["own"]], color="grey", **looks)
        sns.scatterplot(table[table["own"]], color="red", s=80, legend=False, **looks)
        left.set(xlabel="stream items", ylim=(-0.02, 1.02), title=self.name)
        right.set(xlabel="final original accuracy", ylabel="final novel accuracy", title="among published systems")
        return figure

    def rows(self, source=OWN, date=None):
        """Rows of the leaderboard, one per seed.

        Parameters
        ----------
        source : str
            Whose result it is: a name or a link.
        date : str, optional
            Date of the result as YYYY-MM-DD; by default today.

        Raises
        ------
        InputError
            If the source is not plain text.
        """
        check_name("source", source)
        rows = self.runs.assign(**self.cell, source=source, version=__version__, date=date or time.strftime("%Y-%m-%d"))
        return rows[["system", "source", *CELL, "seed", *METRICS, "version", "date"]].round(6)

    def to_csv(self, path, source=OWN, date=None):
        """Write ``rows``, whole or not at all; `make leaderboard` ranks those in ``data/results/leaderboard/``."""
        write_text(path, self.rows(source, date).to_csv(index=False, lineterminator="\n"))

    def __repr__(self):
        means = self.runs[METRICS].mean()
        shown = ", ".join(f"{metric} {means[metric]:.3f}" for metric in METRICS[:-1])
        where = f"{self.cell['dataset']}, {self.cell['policy']}"
        return f"<{self.name} on {where}, {len(self.runs)} seeds: {shown}, {means['corrections']:.0f} corrections>"
