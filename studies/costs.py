"""Time of single corrections and predictions, through the systems' public contract (paper, section 5.7)."""

import warnings
from itertools import zip_longest

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from ocrrlib.embeddings import load, load_sentences
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.experiments import COMPARED, FULL_SWEEP, PROFILES
from ocrrlib.files import InputError
from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import SYSTEMS, make
from studies.scale import Cell, check_memory, timed

BOUNDED = ("bounded_reservoir_1000", "bounded_fifo_1000")
OTHERS = tuple(name for name in COMPARED if name not in FULL_SWEEP)
MEASURED = (*FULL_SWEEP, *BOUNDED, "substrate_hnsw", *OTHERS, "lora")
LEDGERS = ("substrate", "substrate_hnsw")
REFERENCE = "substrate"
MEASURED_ON = (
    "banking77",
    "clinc150",
)  # systems that read sentences are measured on the first alone
ITEMS = {("paper", "embeddings"): 300, ("paper", "sentences"): 100, ("quick", "embeddings"): 5}
TURN = 25  # items that one system gets before it is the next one's turn
SIZES = {"paper": (1_000, 10_000, 100_000, 1_000_000), "quick": (100, 1_000)}
COPIED = 2**29  # bytes


def microseconds(predict, correct):
    """Median and 5-95 % of both lists of seconds, in microseconds."""
    levels, lists = (
        {"median": 0.5, "low": 0.05, "high": 0.95},
        {"predict": predict, "correct": correct},
    )
    return {
        f"{name}_{key}": 1e6 * float(np.quantile(s, q))
        for name, s in lists.items()
        for key, q in levels.items()
    }


def turns(system, scenario, items=300):
    """Predict, then correct the first items of a stream; yield the costs until now after every ``TURN`` items."""
    s, predict, correct = scenario, [], []
    for i in range(min(items, len(s.y_stream))):
        predict.append(timed(system.predict, s.X_stream[i : i + 1])[1])
        correct.append(timed(system.correct, s.X_stream[i], int(s.y_stream[i]))[1])
        if (i + 1) % TURN == 0 or i + 1 == min(items, len(s.y_stream)):
            yield microseconds(predict, correct) | {"bytes": system.storage().bytes}


def of_items(measured):
    """The last costs of each of these ``turns``, taken in rotation: a slow minute of the machine meets all systems."""
    last = [{}] * len(measured)
    with threadpool_limits(1):
        for costs in tqdm(zip_longest(*measured), "items", unit="round"):
            last = [new or old for new, old in zip(costs, last)]
    return last


def of_systems(profile="paper", systems=MEASURED):
    """Costs of systems on every dataset, as a table: of items at the start of a stream, and of one whole seed.

    Each row has the substrate's medians on the same data, by which rows of other runs can be
    compared. A system is left out, with a warning, where its texts or a library are missing, and in
    the quick profile if it reads sentences.
    """
    size, table = PROFILES[profile], []
    for dataset in MEASURED_ON:
        of, measured, rows = {}, [], []
        for name in dict.fromkeys([REFERENCE, *systems]):
            reads = SYSTEMS[name].reads
            if reads == "sentences" and (profile == "quick" or dataset != MEASURED_ON[0]):
                continue
            try:
                data = (load_sentences if reads == "sentences" else load)(dataset, DEFAULT_ENCODER)
                s = make_scenario(data, 0, **size)
                system = make(name, s.seed, s.encoder).fit(s.X_initial, s.y_initial, s.classes)
            except InputError as error:
                warnings.warn(f"{name} is left out: {error}", stacklevel=2)
                continue
            of[name] = data
            measured.append(turns(system, s, ITEMS[profile, reads]))
        for seed, (name, costs) in enumerate(zip(of, of_items(measured)), 1):
            s = make_scenario(of[name], seed, **size)  # so that none profits from another's fit
            with threadpool_limits(1):
                whole = timed(
                    list, run_stream(make(name, s.seed, s.encoder), s, POLICIES["oracle"])
                )[1]
            rows.append(costs | {"dataset": dataset, "system": name, "seed_s": whole})
        beside = {
            f"{REFERENCE}_{what}": rows[0][f"{what}_median"] for what in ("predict", "correct")
        }
        table += [row | beside for row in rows]
    return pd.DataFrame(table)


def of_ledgers(profile="paper"):
    """Costs of substrates whose ledgers hold ever more synthetic entries, as a table.

    ``bandwidth``: the median of the bytes a second that one thread reads or writes, as it copies
    between searches.
    """
    plan = [(name, n) for n in SIZES[profile] for name in LEDGERS]
    return pd.DataFrame([of_ledger(name, n) for name, n in tqdm(plan, "ledgers", unit="ledger")])


def of_ledger(name, n, items=200):
    """The same for one of them."""
    source, target = np.ones((2, COPIED), np.uint8)  # in use before what is free is asked for
    check_memory(n)
    cell, predict, copies = Cell(n, min(100, n), 0.12, queries=items), [], []
    (Q, labels), system = cell.query_rows(), make(name)
    with threadpool_limits(1):
        system.fit(cell.rows(0, n), cell.labels(0, n), range(cell.classes)).predict(Q[:1])
        for turn in np.split(Q, range(TURN, items, TURN)):
            predict += [timed(system.predict, q[None])[1] for q in turn]
            copies.append(timed(np.copyto, target, source)[1])
        correct = [timed(system.correct, *pair)[1] for pair in zip(Q, labels.tolist())]
    held = {"bytes": system.storage().bytes, "bandwidth": 2 * COPIED / float(np.median(copies))}
    return {"system": name, "entries": n} | microseconds(predict, correct) | held
