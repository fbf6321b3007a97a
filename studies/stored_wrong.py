"""Whether a correction holds for a text that is stored already, under a wrong label.

    python -m studies.stored_wrong

runs the products, in the environment of ``studies/products.lock``; ``make products`` calls this.

Queues that are imported hold equal texts, some with wrong labels. The streams of the benchmark
cannot show what becomes of their corrections, as no text of a stream is among the first rows. Here,
some texts of Banking77 are learnt under a wrong label, one to six copies of each among rows with
their right one. Then each is corrected once, and asked at once and when all are corrected.
"""

import sys
import tempfile
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from ocrrlib.embeddings import Sentences, load, load_sentences
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.experiments import OURS
from ocrrlib.files import InputError
from ocrrlib.runs import declared, made_where, path_of, write_results
from ocrrlib.systems import make
from studies.results import Study

DATASET = "banking77"
CLASSES = 20
ROWS = 40  # of each class
COPIES = (1, 2, 3, 4, 5, 6)
TEXTS = 10  # stored wrong, for each number of copies
SEEDS = (0, 1, 2)
PRODUCTS = "product_stored_wrong"  # the file of products' rows
MEMORY = "memory of "  # and its reader


class Memory:
    """A correction memory behind the contract of a system; copies are stored as they come."""

    def __init__(self, reader: str):
        self._reader = reader

    def fit(self, X: np.ndarray, y: np.ndarray, classes: Iterable) -> "Memory":
        """Make a memory of rows X (n, d) with class ids y (n,), in a file that ends with it."""
        from corrigible import CorrectionMemory

        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name, "stored.sqlite")
        self._memory = CorrectionMemory.open(path, reader=self._reader)
        self._memory.learn(X, y, again=True)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Class ids (m,) of rows X (m, d)."""
        return np.array([int(answer.label or -1) for answer in self._memory.predict(X)])

    def correct(self, x: np.ndarray, y: int) -> None:
        """Learn one corrected row and its class id."""
        self._memory.correct(x, y)

    def close(self) -> None:
        """Close the memory, and remove its file."""
        self._memory.close()
        self._folder.cleanup()


SYSTEMS = ("substrate", OURS, MEMORY + "substrate", MEMORY + OURS)


def made(system: str) -> object:
    """A system of ours, or a memory that it reads, by its name here."""
    return Memory(system.removeprefix(MEMORY)) if system.startswith(MEMORY) else make(system)


def holds(system, rows: np.ndarray, labels: np.ndarray, classes: list, seed: int) -> list[dict]:
    """What became of the corrections, by the number of copies that had been stored.

    ``rows`` (n, ...) are rows or sentences with class ids ``labels`` (n,), of which some are drawn
    by ``seed``.
    """
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(classes), CLASSES, replace=False)
    known = [rng.choice(np.flatnonzero(labels == c), ROWS, replace=False) for c in chosen]
    order = rng.permutation(np.concatenate(known))
    X = rows[order]
    y = np.searchsorted(np.sort(chosen), labels[order])
    copies = np.ones(len(y), np.int64)
    copies[: TEXTS * len(COPIES)] = np.repeat(COPIES, TEXTS)
    stored = y.copy()
    wrong = slice(TEXTS * len(COPIES))
    stored[wrong] = (y[wrong] + rng.integers(1, CLASSES, TEXTS * len(COPIES))) % CLASSES
    names = [classes[c] for c in np.sort(chosen)]
    system.fit(np.repeat(X, copies, axis=0), np.repeat(stored, copies), names)
    before = system.predict(X[wrong]) == y[wrong]
    at_once = []
    for x, label in zip(X[wrong], y[wrong].tolist()):
        system.correct(x, label)
        at_once.append(system.predict(np.array([x]))[0] == label)
    found = pd.DataFrame({"copies": copies[wrong], "before": before, "holds_at_once": at_once})
    found["holds"] = system.predict(X[wrong]) == y[wrong]
    return found.groupby("copies", as_index=False).mean().to_dict("records")


def run_one(setting: dict) -> list[dict]:
    """Outcomes of one system of ours and seed, a row for each number of copies."""
    data = load(DATASET)
    system = made(setting["system"])
    found = holds(system, data.X_train, data.y_train, data.classes, setting["seed"])
    if isinstance(system, Memory):
        system.close()
    return found


def _about(setting):
    return declared(setting["system"].removeprefix(MEMORY))


STORED_WRONG = Study(
    "stored_wrong",
    ("system", "seed", "copies"),
    run_one=run_one,
    settings=("system", "seed"),
    about=_about,
)


def run_stored_wrong(**how) -> pd.DataFrame:
    """All rows of ours; ``how``: options of ``run_tasks``."""
    settings = [dict(zip(("system", "seed"), one)) for one in product(SYSTEMS, SEEDS)]
    return STORED_WRONG.run(settings, **how)


def run_products() -> pd.DataFrame:
    """All rows of products."""
    from studies.product_adapters import VERSIONS, make_product

    data: Sentences = load_sentences(DATASET, DEFAULT_ENCODER)
    found = []
    for name, seed in product(VERSIONS, SEEDS):
        rows = holds(
            make_product(name, DATASET), data.X_train, data.y_train, list(data.classes), seed
        )
        found += [{"system": name, "version": VERSIONS[name], "seed": seed} | row for row in rows]
    return pd.DataFrame(found)


def main() -> None:
    from studies.product_adapters import VERSIONS, check_versions
    from studies.products import quiet

    try:
        check_versions()
        quiet()
        write_results(run_products(), path_of(PRODUCTS), made_where() | {"products": VERSIONS})
    except InputError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
