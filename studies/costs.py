"""Time of single corrections and predictions, by the systems' contract (paper, section 5.7)."""

import warnings
from collections.abc import Iterable, Iterator
from itertools import zip_longest

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from ocrrlib.embeddings import load, load_sentences
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.experiments import COMPARED, PROFILES, SUBSTRATE
from ocrrlib.files import InputError
from ocrrlib.policies import POLICIES
from ocrrlib.scenario import Scenario, make_scenario
from ocrrlib.search import ALONE, CODED_AFTER
from ocrrlib.stream import run_stream
from ocrrlib.systems import SYSTEMS, make
from ocrrlib.systems.registry import PAPER
from studies.results import Study
from studies.scale import Cell, check_memory, timed

# In the order of the table: the paper's, variants of the ledger, all others that are compared.
MEASURED_SYSTEMS = tuple(
    dict.fromkeys(
        (
            *(name for name in COMPARED if name in PAPER),
            "bounded_reservoir_1000",
            "bounded_fifo_1000",
            "substrate_hnsw",
            *COMPARED,
            "lora",
        )
    )
)
LEDGERS = ("substrate", "substrate_hnsw")
# Systems that read sentences are measured on the first alone.
MEASURED_ON = ("banking77", "clinc150")
ITEMS = {("paper", "embeddings"): 300, ("paper", "sentences"): 100, ("quick", "embeddings"): 5}
TURN = 25  # items that one system gets before it is the next one's turn
SIZES = {"paper": (1_000, 10_000, 100_000, 1_000_000), "quick": (100, 1_000)}
COPIED = 2**29  # bytes


COSTS = Study("costs", ("dataset", "system"), timed=True)
GROWTH = Study("growth", ("system", "entries"), timed=True)


def microseconds(predict: list[float], correct: list[float]) -> dict[str, float]:
    """Median and 5-95 % of both lists of seconds, in microseconds."""
    levels = {"median": 0.5, "low": 0.05, "high": 0.95}
    found = {}
    for name, seconds in {"predict": predict, "correct": correct}.items():
        for key, level in levels.items():
            found[f"{name}_{key}"] = 1e6 * float(np.quantile(seconds, level))
    return found


def turns(system, scenario: Scenario, items: int = 300) -> Iterator[dict[str, float]]:
    """Predict, then correct the first items of a stream.

    Yields the costs until now after every ``TURN`` items and after the last one.
    """
    s = scenario
    items = min(items, len(s.y_stream))
    predict = []
    correct = []
    for i in range(items):
        predict.append(timed(system.predict, s.X_stream[i : i + 1])[1])
        correct.append(timed(system.correct, s.X_stream[i], int(s.y_stream[i]))[1])
        if (i + 1) % TURN == 0 or i + 1 == items:
            yield microseconds(predict, correct) | {"bytes": system.storage().bytes}


def of_items(measured: list[Iterator[dict]]) -> list[dict]:
    """The last costs of each of these ``turns``, taken in rotation.

    So a slow minute of the machine meets all systems.
    """
    last = [{}] * len(measured)
    with threadpool_limits(1):
        for costs in tqdm(zip_longest(*measured), "items", unit="round"):
            last = [new or old for new, old in zip(costs, last)]
    return last


def of_systems(profile: str = "paper", systems: Iterable[str] = MEASURED_SYSTEMS) -> pd.DataFrame:
    """Costs of systems on every dataset, as a table.

    They are those of items at the start of a stream, and of one whole seed. Each row has the
    substrate's medians on the same data, by which rows of other runs can be compared. A system is
    left out, with a warning, where its texts or a library are missing, and in the quick profile if
    it reads sentences.
    """
    size = PROFILES[profile]
    table = []
    for dataset in MEASURED_ON:
        fitted = _fitted(dataset, dict.fromkeys([SUBSTRATE, *systems]), profile)
        measured = [
            turns(system, scenario, ITEMS[profile, SYSTEMS[name].reads])
            for name, (_, scenario, system) in fitted.items()
        ]
        rows = []
        for seed, (name, costs) in enumerate(zip(fitted, of_items(measured)), 1):
            # Each has a seed of its own, so that none profits from another's fit.
            scenario = make_scenario(fitted[name][0], seed, **size)
            rows.append(
                costs
                | {"dataset": dataset, "system": name, "seed_s": _seconds_of_seed(name, scenario)}
            )
        for row in rows:
            for what in ("predict", "correct"):
                row[f"{SUBSTRATE}_{what}"] = rows[0][f"{what}_median"]
        table += rows
    return pd.DataFrame(table)


def _fitted(dataset, systems, profile):
    """Data, scenario and fitted system by name, of those that can be measured."""
    found = {}
    for name in systems:
        of_sentences = SYSTEMS[name].reads == "sentences"
        if of_sentences and (profile == "quick" or dataset != MEASURED_ON[0]):
            continue
        try:
            data = (load_sentences if of_sentences else load)(dataset, DEFAULT_ENCODER)
            s = make_scenario(data, 0, **PROFILES[profile])
            system = make(name, s.seed, s.encoder).fit(s.X_initial, s.y_initial, s.classes)
        except InputError as error:
            warnings.warn(f"{name} is left out: {error}", stacklevel=3)
            continue
        found[name] = data, s, system
    return found


def _seconds_of_seed(name, scenario):
    """Seconds of a whole stream on one thread, the fit included."""
    with threadpool_limits(1):
        system = make(name, scenario.seed, scenario.encoder)
        return timed(list, run_stream(system, scenario, POLICIES["oracle"]))[1]


def of_ledgers(profile: str = "paper") -> pd.DataFrame:
    """Costs of substrates whose ledgers hold ever more synthetic entries, as a table.

    ``bandwidth``: the median of the bytes a second that one thread reads or writes, as it copies
    between searches.
    """
    plan = [(name, n) for n in SIZES[profile] for name in LEDGERS]
    return pd.DataFrame([of_ledger(name, n) for name, n in tqdm(plan, "ledgers", unit="ledger")])


def of_ledger(name: str, n: int, items: int = 200) -> dict:
    """Costs of one substrate whose ledger holds ``n`` synthetic entries."""
    source, target = np.ones((2, COPIED), np.uint8)  # in use before what is free is asked for
    check_memory(n)
    cell = Cell(n, min(100, n), 0.12, queries=items)
    Q, labels = cell.query_rows()
    system = make(name)
    predict = []
    copies = []
    with threadpool_limits(1):
        system.fit(cell.rows(0, n), cell.labels(0, n), range(cell.classes))
        for q in Q[: CODED_AFTER // ALONE]:  # after which entries have codes
            system.predict(q[None])
        for turn in np.split(Q, range(TURN, items, TURN)):
            predict += [timed(system.predict, q[None])[1] for q in turn]
            copies.append(timed(np.copyto, target, source)[1])
        correct = [timed(system.correct, q, label)[1] for q, label in zip(Q, labels.tolist())]
    held = {"bytes": system.storage().bytes, "bandwidth": 2 * COPIED / float(np.median(copies))}
    return {"system": name, "entries": n} | microseconds(predict, correct) | held
