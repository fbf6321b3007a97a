"""Systems with a result card of the same cell, ranked."""

import pandas as pd

from ocrrlib.card_cells import METRICS, place_of
from ocrrlib.cards import PUBLISHED_HERE
from ocrrlib.student import interval


def standings(cards, place, seeds=None):
    """All systems with a card of a cell, best first by anytime novel accuracy.

    Parameters
    ----------
    cards : sequence of dict
        Cards, checked.
    place : tuple
        A cell's ``place_of``.
    seeds : sequence of int, optional
        Compare over those of these seeds that a card has, where it has any; by default over all it has.

    Returns
    -------
    DataFrame
        One row per card: ``system``, ``source``, ``seeds`` (how many), then for each metric its mean under its
        name, and ``<metric> low`` and ``<metric> high``, NaN where one seed gives no interval.
    """
    rows = []
    for card in cards:
        for cell in (cell for cell in card["cells"] if place_of(cell) == place):
            shared = [at for at, seed in enumerate(cell["seeds"]) if seeds is None or seed in seeds]
            chosen = shared or range(len(cell["seeds"]))
            row = {"system": card["system"]["name"], "source": card.get("source", PUBLISHED_HERE)}
            row["seeds"] = len(chosen)
            for name in METRICS:
                found = interval([cell["finals"][name][at] for at in chosen])
                row |= {name: found["mean"], f"{name} low": found["low"], f"{name} high": found["high"]}
            rows.append(row)
    columns = ["system", "source", "seeds", *(f"{name}{end}" for name in METRICS for end in ("", " low", " high"))]
    table = pd.DataFrame(rows, columns=columns)
    return table.sort_values(["anytime novel", "system"], ascending=[False, True], kind="stable", ignore_index=True)
