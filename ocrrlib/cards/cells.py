"""The cells of a result card: one system on one dataset under one policy, its numbers seed by seed."""

import math

from ocrrlib.statistics.student import interval
from ocrrlib.stream import EVERY

HELD_OUT = 10  # classes, in all published cells
DIGITS = 6
# What a run comes to: names in cards, columns of ``measure``.
METRICS = {
    "novel": "novel",
    "original": "original",
    "anytime novel": "novel_over_steps",
    "anytime original": "original_over_steps",
    "corrections": "corrections",
}
SPREAD = ("mean", "sd", "low", "high")
PLACE = ("dataset", "fingerprint", "encoder", "policy", "held_out", "draw", "cap", "every")


def spread(values):
    """Mean, standard deviation and 95 % t interval as cards have them: rounded, None where one seed gives none."""
    found = interval(values)
    return {name: None if math.isnan(found[name]) else round(found[name], DIGITS) for name in SPREAD}


def cell_of(runs, fingerprint, revision, held_out, draw, cap, every=EVERY, data=None):
    """A cell of a card from the runs of one system on it.

    Parameters
    ----------
    runs : DataFrame
        One row per seed, as ``measure`` makes them.
    fingerprint, revision : str
        Of the dataset and of the encoder.
    held_out, draw, cap
        How the scenarios were drawn, see ``make_scenario``.
    every : int
        Stream items between two tests; said in the card where it is not the benchmark's own number.
    data : dict, optional
        What else is known of the dataset: ``sources``, ``split``, ``columns``.
    """
    first = runs.iloc[0]
    finals = {name: [round(value, DIGITS) for value in runs[column].tolist()] for name, column in METRICS.items()}
    tests = {} if every == EVERY else {"every": every}
    return tests | {
        "dataset": {"name": first["dataset"], "fingerprint": fingerprint} | (data or {}),
        "encoder": {"name": first["encoder"], "revision": revision},
        "policy": first["policy"],
        "held_out": held_out,
        "draw": draw,
        "cap": cap,
        "seeds": runs["seed"].tolist(),
        "finals": finals,
        "summary": {name: spread(values) for name, values in finals.items()},
    }


def place_of(cell):
    """What makes two cells the same: dataset, encoder, policy, how scenarios were drawn and how often tested."""
    data = cell["dataset"]
    names = data["name"], data["fingerprint"], cell["encoder"]["name"], cell["policy"]
    return *names, cell["held_out"], cell["draw"], cell["cap"], cell.get("every", EVERY)


def tested(cap, every):
    """In words, on what and how often a cell's systems were tested."""
    rows = "all test rows" if cap is None else f"at most {cap} test rows per axis"
    return rows if every == EVERY else f"{rows} every {every} stream items"
