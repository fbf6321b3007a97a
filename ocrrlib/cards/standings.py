"""Systems with a result card of the same cell, ranked."""

import pandas as pd

from ocrrlib.cards import PUBLISHED_HERE
from ocrrlib.cards.cells import METRICS, place_of
from ocrrlib.statistics.collapse import FLOOR, collapsed
from ocrrlib.statistics.student import interval


def standings(cards, place, seeds=None):
    """All systems with a card of a cell, in the order of ``ranked``.

    Parameters
    ----------
    cards : sequence of dict
        Cards, checked.
    place : tuple
        A cell's ``place_of``.
    seeds : sequence of int, optional
        Compare over those of these seeds that a card has; one that has none is left out. By default over all it has.

    Returns
    -------
    DataFrame
        One row per card: ``system``, ``source``, ``seeds`` (how many), then for each metric its mean under its
        name, and ``<metric> low`` and ``<metric> high``, NaN where one seed gives no interval;
        last, ``collapsed``.
    """
    rows = []
    for card in cards:
        for cell in (cell for cell in card["cells"] if place_of(cell) == place):
            chosen = [at for at, seed in enumerate(cell["seeds"]) if seeds is None or seed in seeds]
            if not chosen:
                continue
            row = {"system": card["system"]["name"], "source": card.get("source", PUBLISHED_HERE)}
            row["seeds"] = len(chosen)
            for name in METRICS:
                found = interval([cell["finals"][name][at] for at in chosen])
                row |= {name: found["mean"], f"{name} low": found["low"], f"{name} high": found["high"]}
            rows.append(row)
    columns = ["system", "source", "seeds", *(f"{name}{end}" for name in METRICS for end in ("", " low", " high"))]
    return ranked(pd.DataFrame(rows, columns=columns).sort_values("system", kind="stable"))


def ranked(table):
    """Systems of one cell, best first by anytime novel accuracy; those that have collapsed after all others.

    Parameters
    ----------
    table : DataFrame
        As ``standings`` has it; ``collapsed`` is found anew.

    Returns
    -------
    DataFrame
        The same rows with ``collapsed``: original accuracy too far below that of ``FLOOR``, see
        ``ocrrlib.statistics.collapse``; False for all where the cell has no card of it. Equals stay in their order.
    """
    floors = table[table["system"] == FLOOR]
    ours = floors[floors["source"] == PUBLISHED_HERE]
    floor = (ours if len(ours) else floors)["original"].max()  # NaN of none
    marked = table.assign(collapsed=collapsed(table["original"].astype(float), floor))
    order = ["collapsed", "anytime novel"]
    return marked.sort_values(order, ascending=[True, False], kind="stable", ignore_index=True)
