"""Which costs are measured: of every system at the start of a stream, and of ledgers of growing size."""

import warnings

import numpy as np
import pandas as pd
from tqdm import tqdm

from ocrrlib.costs import fitted, of_items, of_ledger, of_seed, turns
from ocrrlib.embeddings import load, load_sentences
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.errors import InputError, pick
from ocrrlib.experiments import FULL_SWEEP, ONLINE, OURS, PROFILES, REPLAYS
from ocrrlib.scenario import make_scenario
from ocrrlib.systems import SYSTEMS, make

MEASURED = (
    *FULL_SWEEP,
    "bounded_reservoir_1000",
    "bounded_fifo_1000",
    "substrate_hnsw",
    *ONLINE,
    *REPLAYS,
    OURS,
    "lora",
)
LEDGERS = ("substrate", "substrate_hnsw")
REFERENCE = "substrate"
MEASURED_ON = ("banking77", "clinc150")  # systems that read sentences are measured on the first alone
ITEMS = {("paper", "embeddings"): 300, ("paper", "sentences"): 100, ("quick", "embeddings"): 5}
SIZES = (1_000, 10_000, 100_000, 1_000_000)


def of_systems(profile="paper", progress=True, systems=MEASURED, datasets=MEASURED_ON):
    """Costs of systems on every dataset, as a table: of items at the start of a stream, and of one whole seed.

    The substrate is among them, and every row has its medians on the same data, ``substrate_predict`` and
    ``substrate_correct``: rows that were not measured together can be compared by them. A system is left out, with a
    warning, where the texts that it reads or a library that it needs are missing; the quick profile does without
    those that read sentences.
    """
    quick = pick("profile", profile, PROFILES) is PROFILES["quick"]
    rows = []
    for dataset in datasets:
        without = quick or dataset != MEASURED_ON[0]
        names = [name for name in systems if not without or SYSTEMS[name].reads == "embeddings"]
        rows += _on(dataset, dict.fromkeys([REFERENCE, *names]), profile, progress)
    return pd.DataFrame(rows)


def _on(dataset, systems, profile, progress):
    """Rows of systems that are measured by turns on one dataset; the first of them is the reference."""
    names, measured, data, size = [], [], {}, PROFILES[profile]
    for name in tqdm(systems, desc=f"{dataset}, first rows", unit="system", disable=not progress):
        reads = SYSTEMS[name].reads
        try:
            if reads not in data:
                data[reads] = (load_sentences if reads == "sentences" else load)(dataset, DEFAULT_ENCODER)
            scenario = make_scenario(data[reads], 0, **size)
            system = fitted(name, scenario)
        except InputError as error:
            warnings.warn(f"{name} is left out: {error}", stacklevel=3)
            continue
        names.append(name)
        measured.append(turns(system, scenario, ITEMS[profile, reads]))
    rows = of_items(measured, progress)
    whole = tqdm(zip(names, rows), f"{dataset}, whole seeds", len(rows), unit="system", disable=not progress)
    for place, (name, row) in enumerate(whole, 1):
        own = make_scenario(data[SYSTEMS[name].reads], place, **size)  # so that none profits from another's fit
        row |= {"dataset": dataset, "system": name, "seed_s": of_seed(name, own)}
        row |= {f"{REFERENCE}_{what}": rows[0][f"{what}_median"] for what in ("predict", "correct")}
    return rows


def of_ledgers(profile="paper", progress=True):
    """Costs of substrates with ledgers of growing size, and what one core copies meanwhile, as a table.

    A substrate is left out, with a warning, where a library that it needs is missing.
    """
    sizes = (100, 1000) if pick("profile", profile, PROFILES) is PROFILES["quick"] else SIZES
    names = [name for name in LEDGERS if _can_be_made(name)]
    pairs = tqdm([(name, n) for n in sizes for name in names], desc="ledgers", unit="ledger", disable=not progress)
    return pd.DataFrame([of_ledger(name, n) for name, n in pairs])


def _can_be_made(name):
    try:
        make(name).fit(np.eye(2, dtype=np.float32), np.arange(2), range(2))
    except InputError as error:
        warnings.warn(f"{name} is left out: {error}", stacklevel=3)
        return False
    return True
