"""The crossed study: every draw with every order and every seed of coins (see ``ocrrlib.statistics.variance``)."""

from dataclasses import asdict
from itertools import product

import pandas as pd

from ocrrlib.crossed import stream_coins
from ocrrlib.embeddings import load
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.errors import pick
from ocrrlib.files import cache_folder
from ocrrlib.policies import POLICIES
from ocrrlib.provenance import closure, digest
from ocrrlib.systems import SYSTEMS
from ocrrlib.tasks import Task, run_tasks

CACHE = cache_folder() / "crossed"


def cross(
    systems,
    dataset,
    encoder=DEFAULT_ENCODER,
    draws=6,
    orders=4,
    coins=4,
    policy="random50",
    seed=0,
    jobs=1,
    data=None,
    cache=CACHE,
    progress=True,
    dask=None,
):
    """Every system over every draw, order and seed of coins.

    Parameters
    ----------
    systems : sequence of str
        Names in the registry; each is made with the same ``seed`` throughout.
    dataset, encoder : str
        What to load, unless ``data`` (Embedded) is given.
    draws, orders, coins : int
        How many of each.
    policy : str
        Must leave something to chance, if coins are to matter.
    jobs : int
        Worker processes.
    cache : path or None
        Folder of finished streams.
    dask : str, optional
        Address of a Dask scheduler to use instead of processes.

    Returns
    -------
    DataFrame
        One row per system, draw, order, coins: final ``novel`` and ``original`` accuracy, ``corrections``.
    """
    data = data or load(dataset, encoder)
    entries, corrects = {name: pick("system", name, SYSTEMS) for name in systems}, pick("policy", policy, POLICIES)
    code = closure("ocrrlib.crossed", *(f"ocrrlib.systems.{entry.module}" for entry in entries.values()))
    made = [[name, entry.cls, entry.params] for name, entry in entries.items()]
    tasks = [
        Task(
            (entries, data),
            (draw, order, coins, corrects, seed),
            digest([made, data.fingerprint, draw, order, coins, asdict(corrects), seed, *code]),
            f"{data.dataset}, draw {draw}, order {order}",
            group=draw,  # orders of one draw begin with the same rows
        )
        for draw, order in product(range(draws), range(orders))
    ]
    return pd.DataFrame(sum(run_tasks(stream_coins, tasks, jobs, cache, progress, dask), []))
