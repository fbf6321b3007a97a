"""Streams whose held-out classes, order and coins have seeds of their own."""

from dataclasses import replace

import numpy as np

from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream


def compose(data, draw, order, coins):
    """A scenario with a seed for each of its parts; all test rows.

    Parameters
    ----------
    data : Embedded
        The dataset.
    draw, order, coins : int
        Seeds of the held-out classes, of the stream's order and of the policy's coins.

    Returns
    -------
    Scenario
        Its ``seed`` is that of the coins.
    """
    drawn = make_scenario(data, draw, cap=None)
    stream = np.flatnonzero(np.isin(data.y_train, drawn.held_out))  # in file order, whatever the draw's own shuffling
    stream = stream[np.random.default_rng([order, 2]).permutation(len(stream))]
    return replace(drawn, seed=coins, X_stream=data.X_train[stream], y_stream=data.y_train[stream])


def stream_coins(entries, data, draw, order, coins, policy, seed=0):
    """Stream systems over one order of one draw, once for every seed of coins: a list of dicts.

    Parameters
    ----------
    entries : dict
        From names to what makes a system (``Entry``); each is made with the same ``seed`` throughout.
    data : Embedded
        The dataset.
    draw, order : int
        Their seeds.
    coins : int
        How many seeds of coins.
    policy : Policy
        Which mistakes are corrected.
    """
    rows = []
    for scenario in (compose(data, draw, order, coin) for coin in range(coins)):
        for system, entry in entries.items():
            *_, last = run_stream(entry.make(seed), scenario, policy, every=len(scenario.y_stream))
            row = {"dataset": data.dataset, "system": system, "draw": draw, "order": order, "coins": scenario.seed}
            rows.append(row | {"novel": last.novel_acc, "original": last.original_acc, "corrections": last.corrections})
    return rows
