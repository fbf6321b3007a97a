"""The datasets as text: sources, pinned files, parsers.

Set ``OCRR_DATA_DIR`` to a folder with ``<dataset>/<file>`` to work without a
network; otherwise pooch downloads each file once into the user's cache.
"""

import csv
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ocrrlib.errors import InputError, pick
from ocrrlib.files import sha256


@dataclass(frozen=True)
class Texts:
    """Sentences and their class names, split as published, rows in file order."""

    train: list[str]
    train_labels: list[str]
    test: list[str]
    test_labels: list[str]

    @property
    def classes(self):
        """Class names, sorted; a class's id is its position."""
        return tuple(sorted(set(self.train_labels) | set(self.test_labels)))

    @property
    def ids(self):
        """Class ids of the rows, int64 arrays ``y_train`` and ``y_test``."""
        ids = {name: id for id, name in enumerate(self.classes)}
        parts = {"y_train": self.train_labels, "y_test": self.test_labels}
        return {name: np.array([ids[label] for label in labels]) for name, labels in parts.items()}


@dataclass(frozen=True)
class Dataset:
    """A dataset: pinned files with SHA-256, licence, citation, parser."""

    name: str
    title: str
    url: str  # pinned to a commit
    files: dict[str, str]  # name -> SHA-256
    licence: str
    citation: str
    parse: Callable[[dict[str, Path]], Texts]


def _banking77(paths):
    def rows(name):
        with open(paths[name], newline="", encoding="utf-8") as handle:
            pairs = [(row["text"], row["category"]) for row in csv.DictReader(handle)]
        return [text for text, _ in pairs], [label for _, label in pairs]

    return Texts(*rows("train.csv"), *rows("test.csv"))


def _clinc150(paths):
    # The "plus" variant: out-of-scope sentences are a 151st class of their own.
    with open(paths["data_oos_plus.json"], encoding="utf-8") as handle:
        parts = json.load(handle)

    def rows(*names):
        pairs = [pair for name in names for pair in parts[name]]
        return [text for text, _ in pairs], [label for _, label in pairs]

    return Texts(*rows("train", "oos_train"), *rows("test", "oos_test"))


DATASETS = {
    "banking77": Dataset(
        name="banking77",
        title="Banking77",
        url="https://raw.githubusercontent.com/PolyAI-LDN/task-specific-datasets/"
        "57ec275d8078af65b7731c2a98be812d844a6d6b/banking_data",
        files={
            "train.csv": "b06e26ac675513959a63135f11b94ea7786ed02da65db93a5650d8838cbc664b",
            "test.csv": "d12d6e3bc4c3103966ae786dc435913c0c563dfa328f5a3646d0e62cfeeb474d",
        },
        licence="CC-BY-4.0",
        citation="Casanueva et al. (2020), Efficient intent detection with dual sentence encoders, NLP4ConvAI",
        parse=_banking77,
    ),
    "clinc150": Dataset(
        name="clinc150",
        title="CLINC150",
        url="https://raw.githubusercontent.com/clinc/oos-eval/828f8093932c8fe6ca7936c3d2e52903b1c523de/data",
        files={"data_oos_plus.json": "bfcca9ae515623541dc1983c94c4ed7cae9d26b42ae47d74b972e51bb6f7a21f"},
        licence="CC-BY-3.0",
        citation="Larson et al. (2019), An evaluation dataset for intent classification "
        "and out-of-scope prediction, EMNLP-IJCNLP",
        parse=_clinc150,
    ),
}


def fetch(dataset, name):
    """Path of one raw file, checked: from ``OCRR_DATA_DIR`` or downloaded once.

    Raises
    ------
    InputError
        If the file is absent, differs from its SHA-256, or cannot be downloaded.
    """
    import pooch  # slow to import, seldom needed

    folder = os.environ.get("OCRR_DATA_DIR")
    expected = dataset.files[name]
    if folder:
        path = Path(folder) / dataset.name / name
        if not path.is_file():
            raise InputError(f"{path} is missing: OCRR_DATA_DIR must hold {dataset.name}/{name} from {dataset.url}")
        if sha256(path) != expected:
            raise InputError(f"{path} is not the published file (SHA-256 differs): fetch it again from {dataset.url}")
        return path
    try:
        fetched = pooch.retrieve(
            url=f"{dataset.url}/{name}",
            known_hash=f"sha256:{expected}",
            fname=name,
            path=pooch.os_cache("ocrr") / dataset.name,
            downloader=pooch.HTTPDownloader(timeout=10),
        )
    except (OSError, ValueError) as error:  # requests' errors are OSErrors; a wrong hash is a ValueError
        raise InputError(
            f"could not download {dataset.name}/{name} ({type(error).__name__}): connect to the network, or set "
            f"OCRR_DATA_DIR to a folder that holds {dataset.name}/{name} from {dataset.url}"
        ) from error
    return Path(fetched)


def load_texts(name):
    """Sentences and labels of a dataset by name.

    Raises
    ------
    InputError
        If the dataset is unknown or one of its files is not available.
    """
    dataset = pick("dataset", name, DATASETS)
    return dataset.parse({file: fetch(dataset, file) for file in dataset.files})
