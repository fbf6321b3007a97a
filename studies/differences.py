"""Paired differences between the settings of harder streams, and between their systems, seed by seed."""

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests

from studies.statistics import differences, over_steps, t_intervals
from studies.streams import SETTING

RUN = ["study", "dataset", "encoder", "system", "seed", *SETTING]
PAIR = ["study", "system", "setting", "metric", "seed"]
METRICS = (
    "novel_acc",
    "original_acc",
    "mean_novel",
    "corrections",
    "auroc",
    "fpr95",
)  # the last two out of scope
# The system that the others of a study are compared with in the same setting.
RIVALS = {"new": "substrate", "known": "substrate", "scope": "substrate, cosine"}
RIVALS |= {"order": "bounded_fifo_1000", "digits": "online_linear"}
# What a run's setting is called, by study; shares in percent.
SETTINGS = {
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


def last(rows):
    """The last checkpoint of every run, with ``mean_novel``: novel accuracy over stream steps."""
    runs = rows.groupby(RUN, sort=False)
    return runs.tail(1).reset_index(drop=True).assign(mean_novel=over_steps(runs, "novel_acc"))


def detection(rows):
    """Out-of-scope detection before and after the stream: a row per system, score, rows in scope, metric and seed."""
    rows = rows[rows["study"] == "scope"]
    runs, found = rows.groupby(RUN, sort=False)["step"], []
    for when, places in {"before": runs.idxmin(), "after": runs.idxmax()}.items():
        part = (
            rows.loc[places]
            .melt(RUN, [c for c in rows if c.startswith(("auroc_", "fpr95_"))])
            .dropna()
        )
        names = (
            part["variable"]
            .str.split("_", expand=True)
            .set_axis(["metric", "score", "within"], axis=1)
        )
        found.append(part.join(names).assign(when=when))
    return pd.concat(found, ignore_index=True)


def measured(rows):
    """One row per run and metric: ``PAIR``, ``usual`` (the setting that it is compared with) and ``value``."""
    final = last(rows[rows["study"] != "scope"])
    runs = final.assign(p=100 * final["p"], wrong=100 * final["wrong"])
    studies = runs.groupby("study")
    usual = {"new": studies["new"].transform("min"), "known": studies["known"].transform("max")}
    usual = runs.assign(**USUAL, **usual, encoder=studies["encoder"].transform("first"))
    for name, settings in {"setting": runs, "usual": usual}.items():
        final[name] = [
            SETTINGS.get(run["study"], "usual").format(**run) for run in settings.to_dict("records")
        ]
    final = final.melt([*PAIR[:3], "usual", "seed"], METRICS[:4], var_name="metric")
    found = detection(rows).query("within == 'all'")
    found = found.assign(
        system=found["system"] + ", " + found["score"], setting=found["when"], usual="before"
    )
    return pd.concat([final, found[list(final)]], ignore_index=True)


def compared(rows):
    """Paired differences: every setting less the usual one of its study, systems less the rival in the same setting.

    Returns
    -------
    DataFrame
        One row per study, system, setting, ``than`` and metric: the mean ``difference`` over seeds,
        its ``sd``, its 95 % t-interval ``low`` to ``high``, ``seeds``, the ``p`` of a paired t-test
        and ``p_holm``, corrected over the differences of its study (NaN for one seed). Accuracies
        are fractions.
    """
    runs = measured(rows)
    usual = runs[[*PAIR, "value"]].rename(columns={"setting": "than"})
    settings = runs[runs["setting"] != runs["usual"]].assign(than=lambda run: run["usual"])
    rival = usual.rename(columns={"than": "setting", "system": "than"})
    systems = runs.assign(than=runs["study"].map(RIVALS)).query("system != than")
    settings = settings.merge(usual, on=[*PAIR[:2], "than", *PAIR[3:]], suffixes=("", "_than"))
    systems = systems.merge(rival, on=["study", "than", *PAIR[2:]], suffixes=("", "_than"))
    pairs = pd.concat([settings, systems], ignore_index=True)
    pairs["d"] = differences(pairs["value"], pairs["value_than"])
    names = [*PAIR[:3], "than", "metric"]
    wide = pairs.pivot(index=names, columns="seed", values="d").loc[
        pd.MultiIndex.from_frame(pairs[names]).unique()
    ]
    found = (
        t_intervals(wide).set_index(wide.index).rename(columns={"mean": "difference"}).reset_index()
    )
    n = wide.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = found["difference"].abs() / (found["sd"] / np.sqrt(n))
    never = (found["sd"] == 0) & (found["difference"] == 0)
    found = found.assign(
        seeds=n, p=np.where(never, 1.0, 2 * stats.t.sf(t, n - 1))
    )  # 0 where all seeds differ alike
    holm = found.groupby("study")["p"].transform(
        lambda p: p if n == 1 else multipletests(p, method="holm")[1]
    )
    return found.assign(p_holm=holm)
