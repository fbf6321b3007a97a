"""Harder streams: what a setting or a system adds, seed by seed on the same streams, with intervals."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests

from ocrrlib.report.streams.rows import detection, last
from paper.tables import Table
from paper.values import Value
from ocrrlib.statistics.pairs import differences
from ocrrlib.statistics.student import interval

# Metrics: what each is called, how many of its units make one, digits, unit.
METRICS = {
    "novel_acc": ("final novel", 100, 1, "pp"),
    "original_acc": ("final original", 100, 1, "pp"),
    "mean_novel": ("novel over the stream", 100, 1, "pp"),
    "corrections": ("corrections", 1, 0, ""),
    "auroc": ("AUROC", 1, 3, ""),
    "fpr95": ("let through", 100, 1, "pp"),
}
# The system that the others of a study are compared with in the same setting.
RIVALS = {
    "new": "substrate",
    "known": "substrate",
    "scope": "substrate, cosine",
    "order": "bounded_fifo_1000",
    "digits": "online_linear",
}
PAIR = ["study", "system", "setting", "metric", "seed"]
ALPHA = 0.05  # of Holm's correction over all differences of a study
MARK = "†"


@dataclass(frozen=True)
class Difference(Value):
    """A mean difference with the bounds of its interval; NaN where one seed gives none.

    ``stands`` says whether it is told from 0 even when corrected for all differences of its study.
    """

    low: float = np.nan
    high: float = np.nan
    stands: bool = False

    @classmethod
    def of(cls, metric, row):
        """A row of ``compared``, in the units of its metric."""
        _, size, digits, unit = METRICS[metric]
        mean, low, high = (size * row[name] for name in ("difference", "low", "high"))
        return cls(mean, digits, unit, low, high, bool(row["p_holm"] < ALPHA))

    @property
    def text(self):
        """The mean, its unit, the interval in brackets, and a mark if it stands."""
        if not np.isfinite(self.low):
            return super().text
        low, high = (Value(bound, self.digits).text for bound in (self.low, self.high))
        return f"{super().text} [{low}, {high}]" + MARK * self.stands

    def __neg__(self):
        """The same the other way round: what was added, as what is lost."""
        return Difference(-self.value, self.digits, self.unit, -self.high, -self.low, self.stands)

    @property
    def sure(self):
        """Whether the interval leaves out 0."""
        return bool(self.low > 0 or self.high < 0)


def _called(final):
    """What a run's setting is called, and the one of its study that it is compared with."""
    most, first = final.groupby("study")["known"].max(), final.groupby("study")["encoder"].first()
    fewest = final.groupby("study")["new"].min()

    def names(run):
        name = run["study"]
        return {
            "wrong": (f"{100 * run['wrong']:g} % wrong, {run['confusion']}", "0 % wrong, none"),
            "late": (f"{run['delay']} late", "0 late"),
            "asked": (f"{100 * run['p']:g} % asked, {run['asking']}", f"{100 * run['p']:g} % asked, random"),
            "drift": (f"{run['drift']} drift", "none drift"),
            "new": (f"{run['new']} new", f"{fewest[name]} new"),
            "known": (f"{run['known']} known", f"{most[name]} known"),
            "order": (run["order"], "file"),
            "encoder": (run["encoder"], first[name]),
        }.get(name, ("usual", "usual"))

    return pd.DataFrame([names(run) for run in final.to_dict("records")], final.index, ["setting", "usual"])


def measured(rows):
    """One row per run and metric: ``PAIR``, ``usual``, the setting it is compared with, and ``value``."""
    final = last(rows)
    final = final[final["study"] != "scope"]
    runs = final.join(_called(final)).melt([*PAIR[:3], "usual", "seed"], list(METRICS)[:4], var_name="metric")
    found = detection(rows)
    found = found[found["within"] == "all"]
    found = found.assign(system=found["system"] + ", " + found["score"], setting=found["when"], usual="before")
    return pd.concat([runs, found[list(runs)]], ignore_index=True)


def compared(rows):
    """Paired differences: every setting less the usual one of its study, systems less the rival in the same setting.

    Returns
    -------
    DataFrame
        One row per study, system, setting, ``than`` and metric: the mean ``difference`` over seeds, its ``sd``, its
        95 % t-interval ``low`` to ``high``, the ``p`` of a t-test and ``p_holm``, corrected over the differences of
        its study (all NaN for one seed), and how many ``seeds``. Accuracies are fractions.
    """
    runs = measured(rows)
    usual = runs[PAIR + ["value"]].rename(columns={"setting": "than"})
    settings = runs[runs["setting"] != runs["usual"]].assign(than=lambda run: run["usual"])
    rival = usual.rename(columns={"than": "setting", "system": "than"})
    systems = runs.assign(than=runs["study"].map(RIVALS)).query("system != than")
    pairs = pd.concat(
        [
            settings.merge(usual, on=[*PAIR[:2], "than", *PAIR[3:]], suffixes=("", "_than")),
            systems.merge(rival, on=["study", "than", *PAIR[2:]], suffixes=("", "_than")),
        ],
        ignore_index=True,
    )
    pairs["d"] = differences(pairs["value"], pairs["value_than"])
    groups = pairs.groupby([*PAIR[:3], "than", "metric"], sort=False)["d"]
    found = pd.DataFrame([interval(d) for _, d in groups], pd.MultiIndex.from_tuples(groups.groups, names=groups.keys))
    found = found.rename(columns={"mean": "difference", "n": "seeds"}).reset_index()
    found["p"] = _p(found)
    return found.assign(p_holm=found.groupby("study")["p"].transform(_holm))


def _p(found):
    """Two-sided p of each mean difference by Student's t; where all seeds differ alike, 0, or 1 if not at all."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = found["difference"].abs() / (found["sd"] / np.sqrt(found["seeds"]))
    p = 2 * stats.t.sf(t, found["seeds"] - 1)
    return np.where((found["sd"] == 0) & (found["difference"] == 0), 1.0, p)


def _holm(p):
    return p if p.isna().any() else multipletests(p, method="holm")[1]


def differences_table(table):
    """All differences, from the rows of ``compared``."""
    text = {
        "Study": table["study"],
        "System": table["system"],
        "Setting": table["setting"],
        "Less": table["than"],
        "Metric": [METRICS[name][0] for name in table["metric"]],
        "Difference": [Difference.of(row["metric"], row).text for row in table.to_dict("records")],
        "p (Holm)": ["" if np.isnan(p) else f"{p:.4f}" for p in table["p_holm"]],
        "Seeds": table["seeds"],
    }
    caption = (
        "Harder streams: every setting less the usual one of its study, system by system, and systems less another one "
        "in the same setting: mean differences over the same seeds, in brackets 95 % t-intervals. "
        f"{MARK}: told from 0 also when corrected by Holm for all differences of its study, at p < {ALPHA}."
    )
    return Table("table_stream_differences", caption, table, pd.DataFrame(text))
