"""Two datasets from elsewhere: TREC questions, and the questions to a shop's chatbot.

TREC has classes of very different size, the shop few rows. Both came as tables of texts and labels,
and went through the door for users' own data. Their embeddings are published, their texts are not
needed; the form of the proposed system was chosen with these data in view.
"""

import os
from collections.abc import Iterable
from copy import deepcopy
from functools import lru_cache
from itertools import product
from pathlib import Path

import pandas as pd

from ocrr.data.read import read_data
from ocrrlib.embeddings import FOLDER, Embedded, halve, keep, path_of, read
from ocrrlib.encoders import DEFAULT_ENCODER, revision
from ocrrlib.experiments import STRONGER
from ocrrlib.files import sha256
from ocrrlib.metrics import AXES, harmonic_mean
from ocrrlib.policies import POLICIES
from ocrrlib.runs import declared
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import make
from studies.results import Study

# Columns of texts and of classes in <dataset>.csv
TEXT_AND_LABEL = {"trec": ("question", "type"), "curekart": ("sentence", "label")}
ELSEWHERE_POLICIES = ("oracle", "random10")
LEAST_ROWS = 5  # different ones of a class
TEST_SHARE = 0.2


def embed_tables(folder: str | Path, to: str | Path = FOLDER) -> list[Embedded]:
    """Embed ``<folder>/<dataset>.csv`` of both datasets, and keep the results in files.

    Raises as ``read_data`` does.
    """
    found = []
    for name, (text, label) in TEXT_AND_LABEL.items():
        table = Path(folder) / f"{name}.csv"
        how = dict(drop_duplicates=True, min_rows=LEAST_ROWS, test_share=TEST_SHARE)
        data = read_data(table, text, label, name=name, **how)
        tensors = {"X_train": halve(data.X_train), "X_test": halve(data.X_test)}
        tensors |= {"y_train": data.y_train, "y_test": data.y_test}
        about = {
            "dataset": name,
            "encoder": DEFAULT_ENCODER,
            "classes": data.classes,
            "origin": {
                "sources": {table.name: sha256(table)},
                "revision": revision(DEFAULT_ENCODER),
            },
        }
        found.append(keep(tensors, about, path_of(name, DEFAULT_ENCODER, to)))
    return found


@lru_cache
def load_elsewhere(dataset: str) -> Embedded:
    """The published embeddings of a dataset, a name in ``TEXT_AND_LABEL``."""
    return read(path_of(dataset, DEFAULT_ENCODER))


@lru_cache(maxsize=1)
def _scenario(dataset, seed):
    return make_scenario(load_elsewhere(dataset), seed, cap=None)


def run_system(setting: dict) -> list[dict]:
    """Outcomes of one system and seed under every policy; fitted once.

    Scalars of the last checkpoint, and ``start``, original accuracy before the first correction.
    """
    scenario = _scenario(setting["dataset"], setting["seed"])
    fitted = make(setting["system"], setting["seed"])
    fitted.fit(scenario.X_initial, scenario.y_initial, scenario.classes)
    rows = []
    for policy in ELSEWHERE_POLICIES:
        n = len(scenario.y_stream)
        stream = run_stream(deepcopy(fitted), scenario, POLICIES[policy], every=n, fitted=True)
        start, end = stream
        rows.append({"policy": policy} | end.scalars | {"start": start.original_acc})
    return rows


def _about(setting):
    data = load_elsewhere(setting["dataset"])
    return declared(setting["system"]) | {"data": data.fingerprint}


ELSEWHERE = Study(
    "elsewhere",
    ("dataset", "seed", "system", "policy"),
    run_one=run_system,
    settings=("dataset", "seed", "system"),
    about=_about,
    together=("dataset", "seed"),
)


def run_elsewhere(seeds: Iterable[int] = range(20), **how) -> pd.DataFrame:
    """All runs, a row each, of the systems that ran with the second encoder.

    ``how``: options of ``run_tasks``.
    """
    runs = product(TEXT_AND_LABEL, seeds, STRONGER)
    return ELSEWHERE.run([dict(zip(ELSEWHERE.settings, run)) for run in runs], **how)


def measured(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with metrics named as in ``studies.target``, and the harmonic mean."""
    found = rows.rename(columns={name: axis for axis, name in AXES.items()})
    return found.assign(hm=harmonic_mean(found["novel"], found["original"]))


if __name__ == "__main__":
    embed_tables(Path(os.environ["OCRR_DATA_DIR"]) / "practice")
