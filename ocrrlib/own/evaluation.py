"""What a system reached, and where it stands among all published systems."""

import functools
import time
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from ocrrlib import __version__
from ocrrlib.files import InputError, check_name, data_folder, write_text
from ocrrlib.metrics import RUN, final
from ocrrlib.stream import EVERY

HELD_OUT = 10  # classes, in all published cells
METRICS = ["novel", "original", "ausuc", "anytime novel", "anytime original", "corrections"]
CELL = ["dataset", "fingerprint", "encoder", "policy", "held_out", "every"]
STREAM = ["dataset", "policy", "held_out", "every", "seed"]
COLUMNS = [
    "system",
    "source",
    *CELL,
    "seed",
    *METRICS,
    "version",
    "date",
]  # of the leaderboard's rows
PUBLISHED, OWN = "published here", "own run"
FLOOR, DROP = (
    "static_linear",
    0.05,
)  # collapsed: original accuracy so far below that of a system that never learns


def finals(curve):
    """One row per run of a curve: ``metrics.RUN`` and ``METRICS``; *anytime* is the mean over stream steps.

    ``ausuc``, see ``ocrrlib.metrics``, is NaN where the checkpoints have none.
    """
    run = curve.groupby(RUN, sort=False, observed=True)
    last = final(curve).rename(columns={"novel_acc": "novel", "original_acc": "original"})
    for axis in ("novel", "original"):
        area = (
            run["step"].diff() * (curve[f"{axis}_acc"] + run[f"{axis}_acc"].shift()) / 2
        )  # trapezoids
        last[f"anytime {axis}"] = area.groupby(run.ngroup()).sum().to_numpy() / last["step"]
    return last.reindex(columns=RUN + METRICS)


def intervals(runs):
    """Mean, standard deviation (n - 1) and 95 % t interval of each metric, a row each; NaN where there is one run.

    A metric that no run has is left out.
    """
    runs = runs[METRICS].dropna(axis=1, how="all")
    n, mean, sd = len(runs), runs.mean(), runs.std()
    half = stdtrit(max(n - 1, 1), 0.975) * sd / np.sqrt(n)
    table = pd.DataFrame({"mean": mean, "sd": sd, "low": mean - half, "high": mean + half, "n": n})
    return table.rename_axis("metric").reset_index()


def ranking(runs):
    """Systems of one cell, best first by anytime novel accuracy, collapsed ones after all others.

    ``runs`` has one row per run: ``system``, ``source`` and ``METRICS``. The table has one per
    system and source: ``seeds``, the mean of each metric, its bounds ``<metric> low`` and
    ``<metric> high``, and ``collapsed``, whether original accuracy is more than ``DROP`` below that
    of the published ``FLOOR``.
    """
    rows = []
    for (system, source), own in runs.groupby(["system", "source"]):
        rows.append({"system": system, "source": source, "seeds": len(own)})
        for one in intervals(own).itertuples():
            rows[-1] |= {
                one.metric: one.mean,
                f"{one.metric} low": one.low,
                f"{one.metric} high": one.high,
            }
    table = pd.DataFrame(rows)
    floor = table.loc[
        (table["system"] == FLOOR) & (table["source"] == PUBLISHED), "original"
    ].max()  # NaN of none
    table["collapsed"] = np.round(table["original"] - (floor - DROP), 12) < 0
    return table.sort_values(
        ["collapsed", "anytime novel"], ascending=[True, False], kind="stable", ignore_index=True
    )


@functools.cache
def published_runs():
    """One row per run of the published comparison: ``finals``, ``held_out``, ``every``, ``source``."""
    curve = pd.read_parquet(data_folder() / "results/beyond.parquet")
    return finals(curve).assign(held_out=HELD_OUT, every=EVERY, source=PUBLISHED)


@dataclass(frozen=True, repr=False, eq=False)
class Evaluation:
    """What the system ``name`` reached.

    ``curve`` has one row per checkpoint, with the columns of the published results; ``runs`` one
    row per seed, with ``CELL``, ``seed``, ``system`` and ``METRICS``.
    """

    name: str
    curve: pd.DataFrame
    runs: pd.DataFrame

    @property
    def summary(self):
        """One row per metric: ``mean``, ``sd``, ``low`` and ``high`` (95 % t interval; NaN for one seed), ``n``.

        ``ausuc`` is missing for a system without probabilities.
        """
        return intervals(self.runs)

    def compared(self):
        """``ranking`` of this system, marked ``own``, among all published ones of its cell, over the seeds of both.

        Raises ``InputError`` if nothing is published for the cell or these seeds.
        """
        published, cell = published_runs(), self.runs[[*STREAM[:4], "encoder"]].iloc[0]
        published = published[(published[cell.index] == cell).all(axis=1)]
        both = pd.concat([self.runs.assign(source=OWN), published])
        both = both[both["seed"].isin(self.runs["seed"]) & both["seed"].isin(published["seed"])]
        if both.empty:
            known = "a published dataset with the default encoder, held_out and every, and seeds 0 to 19"
            raise InputError(
                f"nothing is published for {self!r} with {dict(cell)}: evaluate on {known}"
            )
        return ranking(both).assign(own=lambda table: table["source"] == OWN)

    def against(self, other):
        """``summary`` of the differences to another system on the same streams, seed by seed.

        ``higher`` and ``lower`` count the seeds in which this system is that. Raises ``InputError``
        if no stream (dataset, policy, held-out classes, checkpoints, seed) is in both.
        """
        mine, theirs = (one.runs.set_index(STREAM)[METRICS] for one in (self, other))
        gaps = (mine - theirs).dropna(how="all")
        if gaps.empty:
            raise InputError(
                f"{self!r} and {other!r} have no stream in common: evaluate them on the same"
            )
        table = intervals(gaps)
        gaps = gaps[table["metric"]]
        return table.assign(higher=(gaps > 0).sum().to_numpy(), lower=(gaps < 0).sum().to_numpy())

    def to_csv(self, path, source=OWN, date=None):
        """Write rows of the leaderboard, one per seed, whole or not at all.

        ``source`` says whose result it is, by name or link; ``date`` is YYYY-MM-DD, by default
        today. `make leaderboard` ranks the files in ``data/results/leaderboard/``.
        """
        check_name("source", source)
        rows = self.runs.assign(
            source=source, version=__version__, date=date or time.strftime("%Y-%m-%d")
        )
        write_text(path, rows[COLUMNS].round(6).to_csv(index=False, lineterminator="\n"))

    @property
    def title(self):
        """System, dataset, policy and number of seeds."""
        first = self.runs.iloc[0]
        return f"{self.name} on {first['dataset']}, {first['policy']}, {len(self.runs)} seeds"

    def __repr__(self):
        means = self.runs[METRICS].mean().dropna()
        shown = ", ".join(f"{metric} {means[metric]:.3f}" for metric in means.index[:-1])
        return f"<{self.title}: {shown}, {means['corrections']:.0f} corrections>"
