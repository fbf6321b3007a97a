"""The datasets as vectors, or as sentences for systems that read text; embeddings and their files.

Files hold unit vectors rounded to float16, longer ones than ``LONG`` values to int8.  Systems see
these normalised again in float64 and rounded to multiples of 2**-24, so that a cached and a fresh
run agree, and so that cosines are exact (see ``ocrrlib.search``).
"""

import hashlib
import json
import zlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from ocrrlib.datasets import DATASETS, load_texts
from ocrrlib.encoders import DEFAULT_ENCODER, load_encoder, name_of, revision, slug
from ocrrlib.files import InputError, atomic, cache_folder, data_folder, installed, pick

FOLDER = data_folder() / "embeddings"
BLOCK = 128  # rows computed at once in float64: they fit a cache
LONG, LEVELS = (
    384,
    64,
)  # rows of more values are kept as int8: three datasets of 768 take 27 MB instead of 69


@dataclass(frozen=True, eq=False)  # one dataset is itself: it can be remembered by
class Embedded:
    """A dataset as vectors.

    ``X_train`` and ``X_test`` (n, d) float32 are unit rows as made by ``widen``; ``y_train`` and
    ``y_test`` (n,) int64 class ids, positions in ``classes``, the sorted class names; ``origin``
    says from which files and by which revision.
    """

    dataset: str
    encoder: str
    classes: tuple[str, ...]
    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    origin: dict = field(default_factory=dict)

    @cached_property
    def fingerprint(self):
        """SHA-256 over names, labels and vectors."""
        digest = hashlib.sha256(json.dumps([self.dataset, self.encoder, self.classes]).encode())
        for array in (self.X_train, self.y_train, self.X_test, self.y_test):
            digest.update(np.ascontiguousarray(array).view(np.uint8))
        return digest.hexdigest()


class Sentences(Embedded):
    """As ``Embedded``, but ``X_train`` and ``X_test`` are (n,) strings and ``encoder`` is a system's backbone."""

    @property
    def fingerprint(self):
        """SHA-256 over the pinned files of the dataset and the revision of the backbone."""
        pinned = [self.dataset, DATASETS[self.dataset].files, self.encoder, revision(self.encoder)]
        return hashlib.sha256(json.dumps(pinned, sort_keys=True).encode()).hexdigest()


def load_sentences(dataset, backbone):
    """The ``Sentences`` of a dataset; raises as ``load_texts`` does."""
    texts = load_texts(dataset)
    classes, y_train, y_test = texts.labels
    return Sentences(
        dataset, backbone, classes, np.array(texts.train), y_train, np.array(texts.test), y_test
    )


def halve(X, row="row {}".format):
    """Rows X (n, d) of any length but zero as unit rows in float16, the form in files.

    Raises ``InputError`` if a row is zero, not finite or too long to be normalised; ``row`` names
    it, from its number.
    """
    X = np.asarray(X)
    halves = np.empty(X.shape, np.float16)
    for start in range(0, len(X), BLOCK):
        rows = X[start : start + BLOCK].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = np.sqrt((rows**2).sum(axis=1, keepdims=True))
        bad = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
        if len(bad):
            raise InputError(
                f"{row(start + bad[0])} is zero, not finite or too long to be normalised: fix or drop it"
            )
        halves[start : start + BLOCK] = rows / lengths
    return halves


def quantise(halves):
    """Unit rows (n, d) float16 as int8: multiples of a 64th of the row's largest value; ``widen`` needs no scale."""
    return np.round(
        halves * (LEVELS / np.abs(halves).max(axis=1, keepdims=True).astype(np.float64))
    ).astype(np.int8)


def widen(halves):
    """Unit rows as float32 from float16 or int8 ones: normalised, then rounded to multiples of 2**-24.

    Every step is exact or correctly rounded whatever the order of summation, so all machines get
    the same bits.
    """
    X = np.empty(halves.shape, np.float32)
    for start in range(0, len(X), BLOCK):
        rows = halves[start : start + BLOCK].astype(np.float64)
        rows /= np.sqrt((rows**2).sum(axis=1, keepdims=True))
        X[start : start + BLOCK] = np.round(rows * 2.0**24) / 2.0**24
    return X


def encode(sentences, encoder):
    """Embeddings (n, d) float16, unit rows, of a list of sentences, by a function as ``load_encoder`` gives it.

    Raises ``InputError`` if it does not give one finite row other than zero for each sentence.
    """
    rows = np.asarray(encoder(sentences))
    if rows.ndim != 2 or len(rows) != len(sentences) or rows.dtype.kind not in "fiu":
        gave = f"{rows.dtype} of shape {rows.shape} for {len(sentences)} texts"
        raise InputError(f"the encoder gave {gave}: give one row of numbers for each")
    return halve(rows, lambda place: f"the embedding of text {place} ({sentences[place][:40]!r})")


def path_of(dataset, encoder, folder=FOLDER):
    """Path of the embeddings of a dataset by a named encoder; beside a wheel's few, those that are made are cached."""
    path = Path(folder) / f"{dataset}.{slug(encoder)}.safetensors"
    return cache_folder() / "embeddings" / path.name if installed() and not path.exists() else path


def _encoded(dataset, encoder):
    """Tensors, as in a file, and description of a dataset by an encoder of any kind."""
    texts = load_texts(dataset)
    classes, y_train, y_test = texts.labels
    function = load_encoder(encoder, texts.train, progress=True)
    tensors = {"X_train": encode(texts.train, function), "X_test": encode(texts.test, function)}
    if tensors["X_train"].shape[1] > LONG:
        tensors = {name: quantise(rows) for name, rows in tensors.items()}
    about = {"dataset": dataset, "encoder": name_of(encoder), "classes": classes}
    return tensors | {"y_train": y_train, "y_test": y_test}, about | {
        "origin": {"sources": DATASETS[dataset].files}
    }


def embed(dataset, encoder=DEFAULT_ENCODER, folder=FOLDER):
    """Encode a dataset by a named encoder, keep the result in its file, and return it as read back."""
    tensors, about = _encoded(dataset, encoder)
    about["origin"]["revision"] = revision(encoder)
    about["fingerprint"] = _assemble(tensors, about).fingerprint
    with atomic(path := path_of(dataset, encoder, folder)) as temporary:
        small = {
            key: np.frombuffer(zlib.compress(t, 9), np.uint8)
            for key, t in tensors.items()
            if t.dtype == np.int8
        }
        # One metadata key only: safetensors does not keep their order.
        save_file(tensors | small, temporary, metadata={"about": json.dumps(about, sort_keys=True)})
    return read(path)


def _assemble(tensors, about):
    widened = {name: widen(t) if name[0] == "X" else t for name, t in tensors.items()}
    return Embedded(**about | {"classes": tuple(about["classes"])}, **widened)


def read(path):
    """Read a file that ``embed`` wrote.

    Raises ``InputError`` if it is damaged: its content does not match its fingerprint.
    """
    try:
        with safe_open(path, "numpy") as handle:
            about = json.loads(handle.metadata()["about"])
            tensors = {
                name: handle.get_tensor(name) for name in ("X_train", "y_train", "X_test", "y_test")
            }
        for X, y in (("X_train", "y_train"), ("X_test", "y_test")):
            if tensors[X].dtype == np.uint8:
                tensors[X] = np.frombuffer(zlib.decompress(tensors[X]), np.int8).reshape(
                    len(tensors[y]), -1
                )
        fingerprint = about.pop("fingerprint")
        if (data := _assemble(tensors, about)).fingerprint != fingerprint:
            raise ValueError("the fingerprint differs")
        return data
    except Exception as error:  # damaged files raise whatever their readers meet
        way_out = "restore it, or make it again with `make embed`"
        raise InputError(f"{path} is damaged ({type(error).__name__}): {way_out}") from error


def load(dataset, encoder=DEFAULT_ENCODER, folder=FOLDER):
    """The embeddings of a dataset, from their file or, where there is none, encoded now.

    Raises ``InputError`` if the dataset is unknown, the file is damaged or was made from other
    texts, or encoding needs something that is not installed.
    """
    files = pick("dataset", dataset, DATASETS).files
    if not isinstance(encoder, (str, Path)):
        return _assemble(*_encoded(dataset, encoder))
    path = path_of(dataset, encoder, folder)
    data = read(path) if path.exists() else embed(dataset, encoder, folder)
    if (data.dataset, data.origin.get("sources")) != (dataset, files):
        raise InputError(
            f"{path} was not made from the pinned texts of {dataset}: make it again with `make embed`"
        )
    return data
