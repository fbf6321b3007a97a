"""The datasets as text: sources, pinned files, parsers.

Without a network: set ``OCRR_DATA_DIR`` to a folder with ``<dataset>/<file>``.
"""

import csv
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ocrrlib.files import InputError, pick, sha256


@dataclass(frozen=True)
class Texts:
    """Sentences and their class names, split as published, rows in file order."""

    train: list[str]
    train_labels: list[str]
    test: list[str]
    test_labels: list[str]

    @property
    def labels(self) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
        """Sorted class names, and class ids of training and test rows, (n,) int64.

        A class id is a position among the names.
        """
        classes, ids = np.unique(self.train_labels + self.test_labels, return_inverse=True)
        y_train, y_test = np.split(ids, [len(self.train)])
        return tuple(classes.tolist()), y_train, y_test


@dataclass(frozen=True)
class Dataset:
    """A dataset: pinned files, licence, citation, parser."""

    title: str
    url: str  # pinned to a commit
    files: dict[str, str]  # name -> SHA-256
    licence: str
    citation: str
    parse: Callable[[dict[str, Path]], Texts]


def _banking77(paths):
    def rows(name):
        with open(paths[name], encoding="utf-8", newline="") as file:  # texts have line breaks
            return list(csv.DictReader(file))

    train = rows("train.csv")
    test = rows("test.csv")
    return Texts(
        train=[row["text"] for row in train],
        train_labels=[row["category"] for row in train],
        test=[row["text"] for row in test],
        test_labels=[row["category"] for row in test],
    )


def _clinc150(paths):
    # The "plus" variant: out-of-scope sentences are a 151st class of their own.
    parts = json.loads(paths["data_oos_plus.json"].read_text(encoding="utf-8"))
    train = parts["train"] + parts["oos_train"]
    test = parts["test"] + parts["oos_test"]
    return Texts(
        train=[text for text, _ in train],
        train_labels=[label for _, label in train],
        test=[text for text, _ in test],
        test_labels=[label for _, label in test],
    )


def _hwu64(paths):
    def lines(name):
        return paths[name].read_text(encoding="utf-8").splitlines()

    # Validation rows are trained on, too: no setting is chosen by them.
    return Texts(
        train=lines("train/seq.in") + lines("valid/seq.in"),
        train_labels=lines("train/label") + lines("valid/label"),
        test=lines("test/seq.in"),
        test_labels=lines("test/label"),
    )


DATASETS = {
    "banking77": Dataset(
        title="Banking77",
        url="https://raw.githubusercontent.com/PolyAI-LDN/task-specific-datasets/"
        "57ec275d8078af65b7731c2a98be812d844a6d6b/banking_data",
        files={
            "train.csv": "b06e26ac675513959a63135f11b94ea7786ed02da65db93a5650d8838cbc664b",
            "test.csv": "d12d6e3bc4c3103966ae786dc435913c0c563dfa328f5a3646d0e62cfeeb474d",
        },
        licence="CC-BY-4.0",
        citation="Casanueva et al. (2020), Efficient intent detection with dual sentence encoders, "
        "NLP4ConvAI",
        parse=_banking77,
    ),
    "clinc150": Dataset(
        title="CLINC150",
        url="https://raw.githubusercontent.com/clinc/oos-eval/"
        "828f8093932c8fe6ca7936c3d2e52903b1c523de/data",
        files={
            "data_oos_plus.json": "bfcca9ae515623541dc1983c94c4ed7cae9d26b42ae47d74b972e51bb6f7a21f"
        },
        licence="CC-BY-3.0",
        citation="Larson et al. (2019), An evaluation dataset for intent classification and "
        "out-of-scope prediction, EMNLP-IJCNLP",
        parse=_clinc150,
    ),
    "hwu64": Dataset(
        title="HWU64",
        url="https://raw.githubusercontent.com/jianguoz/Few-Shot-Intent-Detection/"
        "fa9553312b1dba54b1be0aae2d30b13171f898e5/Datasets/HWU64",
        files={
            "train/seq.in": "6f37991e7920711e3c5024f5f5ac535882b9da1df84e837d889c5a53ef91cd4f",
            "train/label": "90e21d2f25cba02dd332b6cdb7d09d4fe178680b91a4469adf1790f753f7df2c",
            "valid/seq.in": "fa939bc5394f708691c3d4d5c03bb59fc8301af4cc72a73e9e32fcedafd4e3c2",
            "valid/label": "aec9b5c05528709ec48202dddd7ee1789536a5562866d91feef102d5d9476815",
            "test/seq.in": "c0129df86114872dd58ac48448fd5559ed6679895b1938f469cf360f7c85ba79",
            "test/label": "aec9b5c05528709ec48202dddd7ee1789536a5562866d91feef102d5d9476815",
        },
        licence="CC-BY-4.0",
        citation="Liu et al. (2019), Benchmarking natural language understanding services for "
        "building conversational agents, IWSDS",
        parse=_hwu64,
    ),
}


def load_texts(name: str) -> Texts:
    """Sentences and labels of a dataset by name, from ``OCRR_DATA_DIR`` or downloaded once.

    Raises ``InputError`` if there is no such dataset, or a file is missing, differs from its
    SHA-256, or cannot be downloaded.
    """
    import pooch  # slow to import, seldom needed

    dataset = pick("dataset", name, DATASETS)
    given = os.environ.get("OCRR_DATA_DIR")
    folder = Path(given or pooch.os_cache("ocrr")) / name
    for file, digest in dataset.files.items():
        try:
            if not given:
                pooch.retrieve(f"{dataset.url}/{file}", f"sha256:{digest}", file, folder)
            elif sha256(folder / file) != digest:
                raise ValueError("its SHA-256 differs")
        # The errors of requests are OSErrors; pooch raises ValueError for a wrong hash.
        except (OSError, ValueError) as error:
            why = error if given else type(error).__name__
            raise InputError(
                f"cannot use {folder / file} ({why}): set OCRR_DATA_DIR to a folder with "
                f"{name}/{file} from {dataset.url}, or go online"
            ) from error
    return dataset.parse({file: folder / file for file in dataset.files})
