"""Figures that vendors print of their products, derived again and judged as the paper's claims are.

microresolve's script adds those test sentences that were answered wrongly, then scores the same
test file. That is the leak: each figure after learning is derived with it, as printed, and without
it, from as many training sentences.
"""

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import yaml

from ocrrlib.datasets import Texts, load_texts
from ocrrlib.files import ROOT
from studies.product_adapters import VERSIONS, AdaptiveClassifier, MicroResolve

SHOTS = 20  # first sentences of each class, as the vendor has
SHOT_DRAWS = 3  # of these sentences
TOLERANCE = 0.02  # of accuracies, as for the paper's claims
FACTOR = 2.0  # of costs, as for the paper's claims
HOLDS = "holds"
DIRECTION = "holds in direction"
FAILS = "does not hold"
UNCHECKED = "cannot be checked"


@dataclass(frozen=True)
class Figure:
    """A printed figure, and which measurements it is judged by, as ``product_claims.yml`` says."""

    name: str
    product: str
    claim: str
    printed: float
    kind: str
    unit: str = ""
    as_printed: str = ""
    fair: str = ""
    before: str = ""
    note: str = ""


FIGURES = [
    Figure(**row)
    for row in yaml.safe_load((ROOT / "studies/product_claims.yml").read_text(encoding="utf-8"))
]


def judge(figure: Figure, found: dict[str, float]) -> str:
    """The verdict on a figure, from measurements by name."""
    if figure.kind == "unchecked":
        return UNCHECKED
    value = found[figure.fair or figure.as_printed]
    if figure.kind == "accuracy":
        direction = bool(figure.before) and value > found[figure.before]
        return _verdict(abs(value - figure.printed) <= TOLERANCE, direction)
    if figure.kind == "gain":
        return _verdict(value >= figure.printed / FACTOR, value > 1)
    factor = FACTOR if figure.kind == "cost" else 1.0
    return _verdict(value <= factor * figure.printed, False)


def _verdict(holds, direction):
    if holds:
        return HOLDS
    return DIRECTION if direction else FAILS


def table(found: dict[str, float]) -> pd.DataFrame:
    """All figures with what was found, a row each."""
    rows = [
        {
            "name": figure.name,
            "product": figure.product,
            "version": VERSIONS[figure.product],
            "claim": figure.claim,
            "printed": figure.printed,
            "unit": figure.unit,
            "with_leak": found.get(figure.as_printed, np.nan),
            "without_leak": found.get(figure.fair, np.nan),
            "verdict": judge(figure, found),
            "note": figure.note,
        }
        for figure in FIGURES
    ]
    return pd.DataFrame(rows)


# Measurements


def learning(make, texts: Texts, seed: int) -> dict[str, float]:
    """Accuracy of a product of few sentences: cold, after learning with and without the leak.

    ``make`` gives a new product. Class ids are positions among the class names.
    """
    rng = np.random.default_rng(seed)
    classes, y_train, y_test = texts.labels
    X_train = np.array(texts.train)
    X_test = np.array(texts.test)
    order = rng.permutation(len(y_train))
    place = pd.Series(y_train[order]).groupby(y_train[order]).cumcount().to_numpy()
    first = order[place < SHOTS]
    later = order[place >= SHOTS][: len(y_test)]
    found = {}
    ways = {"leak": (X_test, y_test), "fair": (X_train[later], y_train[later])}
    for name, (X, y) in ways.items():
        product = make().fit(X_train[first], y_train[first], classes)
        found["cold"] = float(np.mean(product.predict(X_test) == y_test))
        wrong = np.flatnonzero(product.predict(X) != y)
        for row in wrong:
            product.correct(X[row], int(y[row]))
        found[name] = float(np.mean(product.predict(X_test) == y_test))
        found[f"{name}_corrections"] = len(wrong)
    return found


def processor_ms(function: Callable, *given) -> float:
    """Milliseconds of processor time that a call takes."""
    begin = time.process_time()
    function(*given)
    return 1e3 * (time.process_time() - begin)


def in_scope(texts: Texts) -> Texts:
    """The texts without out-of-scope sentences, as the vendor has CLINC150."""
    train = [place for place, label in enumerate(texts.train_labels) if label != "oos"]
    test = [place for place, label in enumerate(texts.test_labels) if label != "oos"]
    return Texts(
        train=[texts.train[place] for place in train],
        train_labels=[texts.train_labels[place] for place in train],
        test=[texts.test[place] for place in test],
        test_labels=[texts.test_labels[place] for place in test],
    )


def after_learning(dataset: str) -> dict[str, float]:
    """``learning`` of microresolve on a dataset, means over ``SHOT_DRAWS`` draws of sentences."""
    texts = in_scope(load_texts(dataset))
    draws = pd.DataFrame([learning(MicroResolve, texts, seed) for seed in range(SHOT_DRAWS)])
    return draws.mean().add_prefix(f"{dataset}.").to_dict()


def small(classes: int, per_class: int) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """The first sentences of the first classes of CLINC150, their class ids, and class names."""
    texts = load_texts("clinc150")
    names, y, _ = texts.labels
    place = pd.Series(y).groupby(y).cumcount().to_numpy()
    rows = np.flatnonzero((y < classes) & (place < per_class))
    return np.array(texts.train)[rows], y[rows], names


def answer_ms() -> dict[str, float]:
    """microresolve's processor milliseconds of an answer: 100 classes of 5 sentences."""
    X, y, names = small(100, 5)
    product = MicroResolve().fit(X, y, names)
    times = [processor_ms(product.predict, X[row : row + 1]) for row in range(len(X))]
    return {"answer_ms": float(np.median(times))}


def head_and_onnx() -> dict[str, float]:
    """adaptive-classifier: seconds of training at 100 examples; PyTorch's time over ONNX's."""
    X, y, names = small(10, 10)
    product = AdaptiveClassifier().fit(X, y, names)
    trained = [processor_ms(product.correct, X[row], int(y[row])) for row in (10, 40, 70)]
    medians = {}
    for name, given in {"onnx": product, "torch": AdaptiveClassifier(use_onnx=False)}.items():
        own = given.fit(X, y, names)
        times = [processor_ms(own.predict, X[row : row + 1]) for row in range(len(X))]
        medians[name] = float(np.median(times))
    return {
        "head_s": float(np.median(trained)) / 1e3,
        "onnx_gain": medians["torch"] / medians["onnx"],
    }


# What main derives, each kept by its name.
MEASUREMENTS: dict[str, Callable[[], dict[str, float]]] = {
    "banking77": functools.partial(after_learning, "banking77"),
    "clinc150": functools.partial(after_learning, "clinc150"),
    "answer": answer_ms,
    "head": head_and_onnx,
}
