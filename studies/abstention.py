"""How well a correction memory knows when not to answer.

A memory is corrected by a stream of new classes. At four moments it is asked all test rows, with
and without a promise: how many answers it gives, how many of these are right, and how many rows of
a class that it was never told get an answer. Other memories have few labels, some of them wrong.
"""

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from corrigible import CorrectionMemory
from ocrrlib.embeddings import Embedded, load
from ocrrlib.experiments import THREE
from ocrrlib.runs import declared
from ocrrlib.scenario import Scenario, make_scenario
from studies.results import Study

READERS = ("substrate", "ledger_lda")
PROMISES = (0.8, 0.9, 0.95, 0.99)
FEW = (2, 3, 5, 10)  # labels of a memory that has few
FLIPPED = (0.0, 0.1, 0.2)  # shares of its entries that have a wrong label
ENTRIES = 1500  # that it has at most; as many rows are asked, and rows of other labels
MOMENTS = {"before": 0, "10": 10, "100": 100, "all": None}  # corrections so far
OUT_OF_SCOPE = "oos"  # class of CLINC150 whose rows no class describes
BINS = 15  # of the calibration error
DECIMALS = 6


@lru_cache(maxsize=1)
def scenario_in_scope(dataset: str, seed: int) -> tuple[Scenario, np.ndarray]:
    """A scenario without out-of-scope rows, and its out-of-scope test rows (m, d)."""
    data = load(dataset)
    if OUT_OF_SCOPE not in data.classes:
        return make_scenario(data, seed, cap=None), data.X_test[:0]
    oos = data.classes.index(OUT_OF_SCOPE)
    return make_scenario(_without(data, oos), seed, cap=None), data.X_test[data.y_test == oos]


def _without(data: Embedded, label: int) -> Embedded:
    """A dataset without one class."""
    rows = {split: getattr(data, f"y_{split}") != label for split in ("train", "test")}
    parts: dict[str, np.ndarray] = {}
    for split, kept in rows.items():
        y = getattr(data, f"y_{split}")[kept]
        parts[f"X_{split}"] = getattr(data, f"X_{split}")[kept]
        parts[f"y_{split}"] = y - (y > label)
    classes = data.classes[:label] + data.classes[label + 1 :]
    return replace(data, classes=classes, **parts)


def run_one(setting: dict) -> list[dict]:
    """Outcomes of one memory at every moment, for every promise."""
    scenario, out_of_scope = scenario_in_scope(setting["dataset"], setting["seed"])
    names = np.arange(len(scenario.classes)).astype(str)
    tests = np.concatenate([scenario.X_novel, scenario.X_original])
    labels = names[np.concatenate([scenario.y_novel, scenario.y_original])]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "asked.sqlite")
        with CorrectionMemory.open(path, reader=setting["reader"]) as memory:
            memory.learn(scenario.X_initial, names[scenario.y_initial], again=True)
            for moment, corrections in _moments(memory, scenario, names):
                found = _asked(memory, tests, labels, out_of_scope)
                rows += [{"moment": moment, "corrections": corrections} | row for row in found]
    return rows


def _moments(memory, scenario, names) -> Iterator[tuple[str, int]]:
    """Correct every mistake of a stream; stop at each moment with the corrections so far."""
    due = {corrections: moment for moment, corrections in MOMENTS.items()}
    yield due[0], 0
    corrections = 0
    for x, label in zip(scenario.X_stream, names[scenario.y_stream]):
        if memory.predict(x).label != label:
            memory.correct(x, label)
            corrections += 1
            if corrections in due:
                yield due[corrections], corrections
    yield due[None], corrections


def _asked(memory, tests, labels, out_of_scope):
    """Quality of the answers to test rows at one moment, a row for each promise."""
    answers = memory.predict(tests)
    right = np.array([answer.label for answer in answers]) == labels
    confidence = np.array([answer.confidence for answer in answers])
    overall = {
        "accuracy": right.mean(),
        # Processors differ in the last bits.
        "ece": round(calibration_error(confidence, right), DECIMALS),
        "aurc": round(area_under_risk(confidence, right), DECIMALS),
    }
    promised = _promised(memory, tests)
    others = _promised(memory, out_of_scope) if len(out_of_scope) else np.empty(0)
    for promise in PROMISES:
        given = promised >= promise
        row = {"promise": promise, "coverage": given.mean()}
        row["right"] = right[given].mean() if given.any() else np.nan
        row["out_of_scope"] = (others >= promise).mean() if len(others) else np.nan
        yield overall | row


def _promised(memory, X):
    """What is promised of answers to rows (m, d) and all surer ones."""
    return np.array([one.promised for one in memory.predict(X, at_least=PROMISES[0])])


def calibration_error(confidence: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error of answers (n,) in ``BINS`` bins of equal size.

    Naeini, Cooper and Hauskrecht, *AAAI* 2015.
    """
    # sum over bins of n_b / n |mean confidence - share right|
    error = 0.0
    for part in np.array_split(np.argsort(confidence, kind="stable"), BINS):
        if len(part):
            error += len(part) * abs(confidence[part].mean() - right[part].mean())
    return float(error / len(confidence))


def area_under_risk(confidence: np.ndarray, right: np.ndarray) -> float:
    """Area under the risk–coverage curve of answers (n,).

    The mean, over all n, of the share of wrong ones among the n surest (Geifman and El-Yaniv,
    *NeurIPS* 2017).
    """
    order = np.argsort(-confidence, kind="stable")
    return float(np.mean(np.cumsum(~right[order]) / np.arange(1, len(right) + 1)))


def _about(setting):
    return declared(setting["reader"]) | {"data": load(setting["dataset"]).fingerprint}


ABSTENTION = Study(
    "abstention",
    ("dataset", "seed", "reader", "moment", "promise"),
    run_one=run_one,
    settings=("dataset", "seed", "reader"),
    about=_about,
    together=("dataset", "seed"),
)


def run_abstention(seeds: Iterable[int] = range(5), **how) -> pd.DataFrame:
    """All runs, a row for each moment and promise; ``how``: options of ``run_tasks``."""
    runs = product(THREE, seeds, READERS)
    return ABSTENTION.run([dict(zip(ABSTENTION.settings, run)) for run in runs], **how)


class FewLabels(NamedTuple):
    """Entries of few classes, some under a wrong one, and test rows of these and of others."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    X_others: np.ndarray


def few_labels(dataset: str, seed: int, labels: int, flipped: float) -> FewLabels:
    """``labels`` classes drawn from a dataset, and half of their rows, with a share ``flipped``."""
    data = load(dataset)
    rng = np.random.default_rng([seed, labels])
    in_scope = [c for c, name in enumerate(data.classes) if name != OUT_OF_SCOPE]
    drawn = rng.choice(in_scope, labels, replace=False)
    X = np.concatenate([data.X_train, data.X_test])
    y = np.concatenate([data.y_train, data.y_test])
    own = rng.permutation(np.flatnonzero(np.isin(y, drawn)))
    entries, tests = own[: len(own) // 2][:ENTRIES], own[len(own) // 2 :][:ENTRIES]
    others = rng.permutation(np.flatnonzero(np.isin(y, in_scope) & ~np.isin(y, drawn)))[:ENTRIES]
    told = y[entries].copy()
    for place in np.flatnonzero(rng.random(len(entries)) < flipped):
        told[place] = rng.choice(drawn[drawn != told[place]])
    return FewLabels(X[entries], told, X[tests], y[tests], X[others])


def run_few(setting: dict) -> list[dict]:
    """Outcomes of one memory of few labels, for every promise."""
    few = few_labels(*(setting[name] for name in ("dataset", "seed", "labels", "flipped")))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "few.sqlite")
        with CorrectionMemory.open(path, reader=setting["reader"]) as memory:
            memory.learn(few.X, few.y.astype(str), again=True)
            return list(_asked(memory, few.X_test, few.y_test.astype(str), few.X_others))


FEW_LABELS = Study(
    "few_labels",
    ("dataset", "labels", "flipped", "seed", "reader", "promise"),
    run_one=run_few,
    settings=("dataset", "labels", "flipped", "seed", "reader"),
    about=_about,
    together=("dataset", "seed"),
)


def run_few_labels(seeds: Iterable[int] = range(2), **how) -> pd.DataFrame:
    """All runs of memories of few labels, a row for each promise; ``how`` as above."""
    runs = product(THREE, FEW, FLIPPED, seeds, READERS)
    return FEW_LABELS.run([dict(zip(FEW_LABELS.settings, run)) for run in runs], **how)
