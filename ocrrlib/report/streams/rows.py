"""Rows of the studies as reports read them: where runs end, and what confidence was worth."""

import pandas as pd

from ocrrlib.statistics.anytime import anytime
from studies.streams import ORACLE, SETTING

RUN = ["study", "dataset", "encoder", "system", "seed", *SETTING]


def last(rows):
    """The last checkpoint of every run, with ``mean_novel``, novel accuracy over stream steps as in ``anytime``."""
    runs = rows.groupby(RUN, sort=False)
    named = rows.assign(system=runs.ngroup(), policy=ORACLE.name)  # no run has more corrections than that allows
    final = rows.loc[runs["step"].idxmax()].reset_index(drop=True)
    return final.assign(mean_novel=anytime(named)["novel_over_steps"].to_numpy())


def of_study(rows, name):
    return rows[rows["study"] == name]


def detection(rows):
    """Out-of-scope detection before and after the stream: one row per system, score, rows in scope, metric and seed."""
    rows = of_study(rows, "scope")
    runs, found = rows.groupby(RUN, sort=False)["step"], []
    for when, places in {"before": runs.idxmin(), "after": runs.idxmax()}.items():
        part = rows.loc[places].melt(RUN, [c for c in rows if c.startswith(("auroc_", "fpr95_"))]).dropna()
        names = part["variable"].str.split("_", expand=True).set_axis(["metric", "score", "within"], axis=1)
        found.append(part.join(names).assign(when=when))
    return pd.concat(found, ignore_index=True)
