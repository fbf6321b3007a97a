"""Paired differences between settings of harder streams and between their systems, by seed."""

import numpy as np
import pandas as pd
from scipy import stats

from ocrrlib.metrics import over_steps
from studies.statistics import differences, holm, t_intervals
from studies.streams import VARIED

RUN_KEY = ["study", "dataset", "encoder", "system", "seed", *VARIED]
PAIR = ["study", "system", "setting", "metric", "seed"]
ENDS = ("novel_acc", "original_acc", "mean_novel", "corrections")  # of a run
# The system that the others of a study are compared with in the same setting.
RIVAL_OF = {
    "new": "substrate",
    "known": "substrate",
    "scope": "substrate, cosine",
    "order": "bounded_fifo_1000",
    "digits": "online_linear",
}
# What a run's setting is called, by study; shares in percent.
SETTING_TITLES = {
    "wrong": "{wrong:g} % wrong, {confusion}",
    "late": "{delay} late",
    "asked": "{p:g} % asked, {asking}",
    "drift": "{drift} drift",
    "new": "{new} new",
    "known": "{known} known",
    "order": "{order}",
    "encoder": "{encoder}",
}
USUAL = {
    "wrong": 0,
    "confusion": "none",
    "delay": 0,
    "asking": "random",
    "drift": "none",
    "order": "file",
}


def last(rows: pd.DataFrame) -> pd.DataFrame:
    """The last checkpoint of every run, with ``mean_novel``: novel accuracy over stream steps."""
    runs = rows.groupby(RUN_KEY, sort=False)
    return runs.tail(1).reset_index(drop=True).assign(mean_novel=over_steps(runs, "novel_acc"))


def detection_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Out-of-scope detection before and after the stream.

    A row per system, score, rows in scope (``within``), metric and seed.
    """
    rows = rows[rows["study"] == "scope"]
    step = rows.groupby(RUN_KEY, sort=False)["step"]
    columns = [name for name in rows if name.startswith(("auroc_", "fpr95_"))]
    found = []
    for when, places in {"before": step.idxmin(), "after": step.idxmax()}.items():
        part = rows.loc[places].melt(RUN_KEY, columns).dropna()
        names = part["variable"].str.split("_", expand=True)
        names = names.set_axis(["metric", "score", "within"], axis=1)
        found.append(part.join(names).assign(when=when))
    return pd.concat(found, ignore_index=True)


def measured(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per run and metric: ``PAIR``, ``value``, and ``usual``.

    ``usual`` is the setting that it is compared with.
    """
    final = last(rows[rows["study"] != "scope"])
    runs = final.assign(p=100 * final["p"], wrong=100 * final["wrong"])
    studies = runs.groupby("study")
    usual = runs.assign(
        **USUAL,
        new=studies["new"].transform("min"),
        known=studies["known"].transform("max"),
        encoder=studies["encoder"].transform("first"),
    )
    final["setting"] = _titles(runs)
    final["usual"] = _titles(usual)
    names = ["study", "system", "setting", "usual", "seed"]
    final = final.melt(names, ENDS, var_name="metric")
    found = detection_rows(rows).query("within == 'all'")
    found = found.assign(
        system=found["system"] + ", " + found["score"], setting=found["when"], usual="before"
    )
    return pd.concat([final, found[list(final)]], ignore_index=True)


def _titles(runs):
    """Titles of the settings of runs."""
    return [
        SETTING_TITLES.get(run["study"], "usual").format(**run) for run in runs.to_dict("records")
    ]


def compared(rows: pd.DataFrame) -> pd.DataFrame:
    """Paired differences of settings and of systems.

    Every setting less the usual one of its study, and systems less their rival in the same setting.

    Returns
    -------
    DataFrame
        One row per study, system, setting, ``than`` and metric: the mean ``difference`` over seeds,
        its ``sd``, its 95 % t-interval ``low`` to ``high``, ``seeds``, the ``p`` of a paired t-test
        and ``p_holm``, corrected over the differences of its study (NaN for one seed). Accuracies
        are fractions.
    """
    pairs = _pairs(measured(rows))
    pairs["d"] = differences(pairs["value"], pairs["value_than"])
    names = ["study", "system", "setting", "than", "metric"]
    order = pd.MultiIndex.from_frame(pairs[names]).unique()
    wide = pairs.pivot(index=names, columns="seed", values="d").loc[order]
    found = t_intervals(wide).set_index(wide.index)
    found = found.rename(columns={"mean": "difference"}).reset_index()
    n = wide.shape[1]
    found["seeds"] = n
    found["p"] = _paired_t_p(found["difference"], found["sd"], n)
    found["p_holm"] = found["p"]
    if n > 1:
        found["p_holm"] = found.groupby("study")["p"].transform(holm)
    return found


def _pairs(runs):
    """Runs beside the runs that they are compared with: ``value`` beside ``value_than``."""
    usual = runs[[*PAIR, "value"]].rename(columns={"setting": "than"})
    settings = runs[runs["setting"] != runs["usual"]]
    settings = settings.assign(than=settings["usual"])
    settings = settings.merge(
        usual, on=["study", "system", "than", "metric", "seed"], suffixes=("", "_than")
    )
    rival = runs[[*PAIR, "value"]].rename(columns={"system": "than"})
    systems = runs.assign(than=runs["study"].map(RIVAL_OF)).query("system != than")
    systems = systems.merge(
        rival, on=["study", "than", "setting", "metric", "seed"], suffixes=("", "_than")
    )
    return pd.concat([settings, systems], ignore_index=True)


def _paired_t_p(mean, sd, n):
    """Two-sided p of paired t-tests: t = |mean| / (sd / √n), n - 1 degrees of freedom."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = mean.abs() / (sd / np.sqrt(n))
    p = 2 * stats.t.sf(t, n - 1)  # 0 where all seeds differ alike
    return np.where((sd == 0) & (mean == 0), 1.0, p)
