"""Results of a system, and its rank among all published systems."""

import functools
import time
from dataclasses import dataclass
from pathlib import Path

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
# Of the leaderboard's rows.
COLUMNS = ["system", "source", *CELL, "seed", *METRICS, "version", "date"]
PUBLISHED = "published here"
OWN = "own run"
# Collapsed: original accuracy more than DROP below that of FLOOR, a system that never learns.
FLOOR = "static_linear"
DROP = 0.05


def finals(curve: pd.DataFrame) -> pd.DataFrame:
    """One row per run of a curve: ``metrics.RUN`` and ``METRICS``.

    *anytime* is the mean over stream steps. ``ausuc``, see ``ocrrlib.metrics``, is NaN where the
    checkpoints have none.
    """
    last = final(curve).rename(columns={"novel_acc": "novel", "original_acc": "original"})
    for axis in ("novel", "original"):
        last[f"anytime {axis}"] = _areas(curve, f"{axis}_acc") / last["step"]
    return last.reindex(columns=RUN + METRICS)


def _areas(curve, column):
    """Area under a column over stream steps, of each run (n,), by the trapezoidal rule."""
    run = curve.groupby(RUN, sort=False, observed=True)
    # sum over i of (t_i - t_(i-1)) (a_i + a_(i-1)) / 2
    trapezoids = run["step"].diff() * (curve[column] + run[column].shift()) / 2
    return trapezoids.groupby(run.ngroup()).sum().to_numpy()


def intervals(runs: pd.DataFrame) -> pd.DataFrame:
    """Mean, standard deviation (n - 1) and 95 % t interval of each metric, a row each.

    Spread and interval of one run are NaN. A metric that no run has is left out.
    """
    runs = runs[METRICS].dropna(axis=1, how="all")
    n = len(runs)
    mean = runs.mean()
    sd = runs.std()
    # mean +- t_(0.975, n - 1) sd / sqrt(n)
    half = stdtrit(max(n - 1, 1), 0.975) * sd / np.sqrt(n)
    table = pd.DataFrame({"mean": mean, "sd": sd, "low": mean - half, "high": mean + half, "n": n})
    return table.rename_axis("metric").reset_index()


def ranking(runs: pd.DataFrame) -> pd.DataFrame:
    """Systems of one cell, best first by anytime novel accuracy, collapsed ones after all others.

    ``runs`` has one row per run: ``system``, ``source`` and ``METRICS``. The table has one per
    system and source: ``seeds``, the mean of each metric, its bounds ``<metric> low`` and
    ``<metric> high``, and ``collapsed``, whether original accuracy is more than ``DROP`` below that
    of the published ``FLOOR``.
    """
    rows = []
    for (system, source), own in runs.groupby(["system", "source"]):
        row = {"system": system, "source": source, "seeds": len(own)}
        for one in intervals(own).itertuples():
            row[one.metric] = one.mean
            row[f"{one.metric} low"] = one.low
            row[f"{one.metric} high"] = one.high
        rows.append(row)
    table = pd.DataFrame(rows)
    is_floor = (table["system"] == FLOOR) & (table["source"] == PUBLISHED)
    floor = table.loc[is_floor, "original"].max()  # NaN of none
    table["collapsed"] = np.round(table["original"] - (floor - DROP), 12) < 0
    return table.sort_values(
        ["collapsed", "anytime novel"], ascending=[True, False], kind="stable", ignore_index=True
    )


@functools.cache
def published_runs() -> pd.DataFrame:
    """One row per run of the published comparison.

    Columns are those of ``finals``, ``held_out``, ``every`` and ``source``.
    """
    curve = pd.read_parquet(data_folder() / "results/beyond.parquet")
    return finals(curve).assign(held_out=HELD_OUT, every=EVERY, source=PUBLISHED)


@dataclass(frozen=True, repr=False, eq=False)
class Evaluation:
    """Results of the system ``name``.

    ``curve`` has one row per checkpoint, with the columns of the published results; ``runs`` one
    row per seed, with ``CELL``, ``seed``, ``system`` and ``METRICS``.
    """

    name: str
    curve: pd.DataFrame
    runs: pd.DataFrame

    @property
    def summary(self) -> pd.DataFrame:
        """One row per metric: ``mean``, ``sd``, ``low`` and ``high`` (95 % t interval), ``n``.

        ``ausuc`` is missing for a system without probabilities, the interval NaN for one seed.
        """
        return intervals(self.runs)

    def compared(self) -> pd.DataFrame:
        """``ranking`` of this system among all published ones of its cell.

        Only seeds that both have count; ``own`` marks this system. Raises ``InputError`` if nothing
        is published for the cell or these seeds.
        """
        cell = self.runs[["dataset", "policy", "held_out", "every", "encoder"]].iloc[0]
        published = published_runs()
        published = published[(published[cell.index] == cell).all(axis=1)]
        both = pd.concat([self.runs.assign(source=OWN), published])
        both = both[both["seed"].isin(self.runs["seed"]) & both["seed"].isin(published["seed"])]
        if both.empty:
            raise InputError(
                f"nothing is published for {self!r} with {dict(cell)}: evaluate on a published "
                "dataset with the default encoder, held_out and every, and seeds 0 to 19"
            )
        table = ranking(both)
        return table.assign(own=table["source"] == OWN)

    def against(self, other: "Evaluation") -> pd.DataFrame:
        """``summary`` of the differences to another system on the same streams, seed by seed.

        ``higher`` and ``lower`` count the seeds in which this system's metric is that. Raises
        ``InputError`` if no stream (dataset, policy, held-out classes, checkpoints, seed) is in
        both.
        """
        mine = self.runs.set_index(STREAM)[METRICS]
        theirs = other.runs.set_index(STREAM)[METRICS]
        gaps = (mine - theirs).dropna(how="all")
        if gaps.empty:
            raise InputError(
                f"{self!r} and {other!r} have no stream in common: evaluate them on the same"
            )
        table = intervals(gaps)
        gaps = gaps[table["metric"]]
        return table.assign(higher=(gaps > 0).sum().to_numpy(), lower=(gaps < 0).sum().to_numpy())

    def to_csv(self, path: str | Path, source: str = OWN, date: str | None = None) -> None:
        """Write rows of the leaderboard, one per seed, whole or not at all.

        ``source`` names the author of the result, or links to it; ``date`` is YYYY-MM-DD, by
        default today. `make leaderboard` ranks the files in ``data/results/leaderboard/``.
        """
        check_name("source", source)
        date = date or time.strftime("%Y-%m-%d")
        rows = self.runs.assign(source=source, version=__version__, date=date)
        write_text(path, rows[COLUMNS].round(6).to_csv(index=False, lineterminator="\n"))

    @property
    def title(self) -> str:
        """System, dataset, policy and number of seeds."""
        first = self.runs.iloc[0]
        return f"{self.name} on {first['dataset']}, {first['policy']}, {len(self.runs)} seeds"

    def __repr__(self) -> str:
        means = self.runs[METRICS].mean().dropna()
        shown = ", ".join(f"{metric} {means[metric]:.3f}" for metric in means.index[:-1])
        return f"<{self.title}: {shown}, {means['corrections']:.0f} corrections>"
