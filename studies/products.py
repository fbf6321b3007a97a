"""Products on the bench: packages that learn from corrections, as shipped, on our streams.

    python -m studies.products

runs in the environment of ``studies/products.lock``; ``make products`` makes it and calls this.
Every run is kept as soon as it is finished, so that a stopped call goes on.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

from ocrrlib.embeddings import Sentences, load_sentences
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.experiments import SEEDS
from ocrrlib.files import InputError, cache_folder, write_text
from ocrrlib.policies import POLICIES
from ocrrlib.runs import made_where, path_of, write_results
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import PROTOCOL, run_stream
from studies import product_claims
from studies.product_adapters import SHIPPED, VERSIONS, Product, check_versions, make_product

PRODUCT_RUN = ("dataset", "policy", "seed", "product")
RARE = (("banking77", "random10"), ("clinc150", "random10"), ("hwu64", "random10"))
CELLS = (*RARE, ("banking77", "random50"), ("banking77", "oracle"))
# Those that encode each text take minutes a run, and run where a tenth is corrected.
QUICK = ("microresolve", "semantic-router")
# A correction trains its head on all examples again, eight to nine seconds of a core: hours for a
# stream in which half of the mistakes are corrected, and over three for all that is left.
SLOW = "adaptive-classifier"
SLOW_SEEDS = {"banking77": (0, 1), "clinc150": (0,), "hwu64": (0,)}


class Timed:
    """A system whose corrections are timed, and the answer to the same sentence after each.

    Times are milliseconds of processor time of the whole process, so that other work on the machine
    does not count.
    """

    def __init__(self, system):
        self.system = system
        self.times: dict[str, list[float]] = {"correct_ms": [], "answer_ms": []}
        self.corrected = False  # whether the last call was a correction

    def correct(self, x: str, y: int) -> None:
        self._timed("correct_ms", self.system.correct, x, y)
        self.corrected = True

    def predict(self, X: np.ndarray) -> np.ndarray:
        if not self.corrected:
            return self.system.predict(X)
        self.corrected = False  # `run_stream` asks for the corrected sentence first
        return self._timed("answer_ms", self.system.predict, X)

    def _timed(self, what, function, *given):
        begin = time.process_time()
        result = function(*given)
        self.times[what].append(1e3 * (time.process_time() - begin))
        return result

    def medians(self) -> dict[str, float]:
        """Median times, NaN without corrections."""
        return {
            what: float(np.median(times)) if times else np.nan for what, times in self.times.items()
        }

    def __getattr__(self, name):
        return getattr(self.system, name)


def run_one(product: Product, data: Sentences, policy: str, seed: int) -> dict:
    """Stream one scenario through a product: what it knows at the start and at the end."""
    scenario = make_scenario(data, seed, cap=None)
    system = Timed(product)
    ends = run_stream(system, scenario, POLICIES[policy], every=len(scenario.y_stream))
    start, end = list(ends)
    return {
        "novel": end.novel_acc,
        "original": end.original_acc,
        "original_start": start.original_acc,
        "corrections": end.corrections,
        "mistakes": end.mistakes,
        "entries": end.stored_entries,
        "bytes": end.storage_bytes,
        "holds_at_once": end.holds_at_once,
        "holds": end.holds,
        **system.medians(),
    }


# Runs, kept one by one


def kept(name: str, known_by: dict, make: Callable[[], dict], folder: Path) -> dict:
    """Result of ``make``, read from the file ``name`` if it has one of the same ``known_by``."""
    path = folder / f"{name}.json"
    if path.exists():
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["known_by"] == known_by:
            return found["outcome"]
    outcome = make()
    write_text(path, json.dumps({"known_by": known_by, "outcome": outcome}))
    return outcome


def plan() -> list[dict]:
    """All runs, cheapest product first; seeds of a cell in a row."""
    settings = []
    for product in SHIPPED:
        for dataset, policy in CELLS if product in QUICK else RARE:
            for seed in SLOW_SEEDS[dataset] if product == SLOW else SEEDS:
                settings.append(dict(zip(PRODUCT_RUN, (dataset, policy, seed, product))))
    return settings


def runs(settings: list[dict], folder: Path) -> Iterator[dict]:
    """One row for each run: its setting, the product's version, and outcomes."""
    for setting in tqdm(settings, "products", unit="run"):
        name = setting["product"]
        data = load_sentences(setting["dataset"], DEFAULT_ENCODER)
        known_by = setting | {
            "version": SHIPPED[name],
            "data": data.fingerprint,
            "protocol": PROTOCOL,
        }
        outcome = kept(
            ".".join(map(str, setting.values())),
            known_by,
            lambda: run_one(
                make_product(name, data.dataset), data, setting["policy"], setting["seed"]
            ),
            folder,
        )
        yield setting | {"version": SHIPPED[name]} | outcome


def publish(rows: pd.DataFrame, folder: Path) -> None:
    """Write the rows of all runs, and the vendors' figures with their verdicts."""
    about = made_where() | {"products": SHIPPED}
    found = {"router_ms": rows.query("product == 'semantic-router'")["answer_ms"].median()}
    for name, measure in product_claims.MEASUREMENTS.items():
        found |= kept(f"claims.{name}", {"versions": VERSIONS}, measure, folder)
    write_results(rows, path_of("products"), about)
    write_results(product_claims.table(found), path_of("product_claims"), about)


def quiet() -> None:
    """Stay offline, on one core, and without the packages' messages."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    logging.disable(logging.WARNING)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def main() -> None:
    try:
        check_versions()
        quiet()
        folder = cache_folder() / "products"
        rows = pd.DataFrame(list(runs(plan(), folder)))
        publish(rows, folder)
    except InputError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped: call it again to go on")


if __name__ == "__main__":
    main()
