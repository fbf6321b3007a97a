"""Harder streams: the table of all settings."""

import pandas as pd

from ocrrlib.report.streams.rows import RUN, last
from paper.tables import Table, spread

CELL = [name for name in RUN if name != "seed"]


def settings(rows):
    """All settings of all studies: final accuracies of every system, mean ± SD over seeds."""
    metrics = ["novel_acc", "original_acc", "mean_novel", "corrections", "wrong_entries", "stored_entries"]
    groups = last(rows).groupby(CELL, sort=False)[metrics]
    numbers = groups.mean().join(groups.std().add_suffix("_std")).reset_index()
    usual = {"asking": "random", "p": 1.0, "wrong": 0.0, "confusion": "none", "delay": 0, "drift": "none"}
    usual |= {"order": "file", "new": 10}
    said = [
        ", ".join(f"{name} {row[name]:g}" if name in ("p", "wrong", "delay", "new") else f"{name} {row[name]}"
                  for name in usual if row[name] != usual[name])
        for row in numbers.to_dict("records")
    ]  # fmt: skip
    text = {
        "Study": numbers["study"],
        "Setting": [f"{said or 'usual'}, {known} known" for said, known in zip(said, numbers["known"])],
        "Rows": numbers["dataset"] + ", " + numbers["encoder"],
        "System": numbers["system"],
        "Final novel": spread(numbers["novel_acc"], numbers["novel_acc_std"]),
        "Final original": spread(numbers["original_acc"], numbers["original_acc_std"]),
        "Corrections": [f"{n:.0f}" for n in numbers["corrections"]],
        "Wrong in memory": ["" if pd.isna(w) or not w else f"{100 * w:.1f} %" for w in numbers["wrong_entries"]],
    }
    caption = (
        f"Harder streams: every setting and system, whole test sets, mean ± SD over {rows['seed'].nunique()} seeds. "
        "The usual setting corrects every mistake at once with the true label; ten classes are new."
    )
    return Table("table_streams", caption, numbers, pd.DataFrame(text))
