"""The datasets as vectors, or as sentences for systems that read text; files of embeddings.

Files hold unit vectors rounded to float16, longer ones than ``LONG`` values to int8.  Systems see
these normalised again in float64 and rounded to multiples of 2**-24, so that a cached and a fresh
run agree, and so that cosines are exact (see ``ocrrlib.search``).
"""

import hashlib
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from ocrrlib.datasets import DATASETS, load_texts
from ocrrlib.encoders import DEFAULT_ENCODER, load_encoder, name_of, revision, slug
from ocrrlib.files import (
    InputError,
    atomic,
    cache_folder,
    data_folder,
    installed,
    pick,
    writable,
)

FOLDER = data_folder() / "embeddings"
ROWS_AT_ONCE = 128  # that are computed in float64: they fit a cache
# Rows of more than LONG values are kept as int8, multiples of an INT8_STEPS-th of the largest one:
# three datasets of 768 values a row take 27 MB instead of 69.
LONG = 384
INT8_STEPS = 64


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
    def fingerprint(self) -> str:
        """SHA-256 over names, labels and vectors."""
        digest = hashlib.sha256(json.dumps([self.dataset, self.encoder, self.classes]).encode())
        for array in (self.X_train, self.y_train, self.X_test, self.y_test):
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
        return digest.hexdigest()


class Sentences(Embedded):
    """A dataset as text: ``X_train`` and ``X_test`` are (n,) strings.

    ``encoder`` is the backbone of the system that reads them; all else is as in ``Embedded``.
    """

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the pinned files of the dataset and the revision of the backbone."""
        pinned = [self.dataset, DATASETS[self.dataset].files, self.encoder, revision(self.encoder)]
        return hashlib.sha256(json.dumps(pinned, sort_keys=True).encode()).hexdigest()


def load_sentences(dataset: str, backbone: str) -> Sentences:
    """The ``Sentences`` of a dataset; raises as ``load_texts`` does."""
    texts = load_texts(dataset)
    classes, y_train, y_test = texts.labels
    return Sentences(
        dataset, backbone, classes, np.array(texts.train), y_train, np.array(texts.test), y_test
    )


def halve(X: np.ndarray, row: Callable[[int], str] = "row {}".format) -> np.ndarray:
    """Scale rows (n, d) to length 1 and round them to float16, the form in files.

    Raises ``InputError`` if a row is zero, not finite or too long to be normalised; ``row`` names
    it, from its number.
    """
    X = np.asarray(X)
    halves = np.empty(X.shape, np.float16)
    for start in range(0, len(X), ROWS_AT_ONCE):
        rows = X[start : start + ROWS_AT_ONCE].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = np.sqrt((rows**2).sum(axis=1, keepdims=True))
        bad = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
        if len(bad):
            raise InputError(
                f"{row(start + bad[0])} is zero, not finite or too long to be normalised: "
                "fix or drop it"
            )
        halves[start : start + ROWS_AT_ONCE] = rows / lengths
    return halves


def quantise(halves: np.ndarray) -> np.ndarray:
    """Round unit rows (n, d) float16 to int8: multiples of a 64th of the row's largest value.

    No scale is kept, as ``widen`` normalises the rows.
    """
    largest = np.abs(halves).max(axis=1, keepdims=True).astype(np.float64)
    # q = round(64 x / max |x|)
    return np.round(halves * (INT8_STEPS / largest)).astype(np.int8)


def widen(halves: np.ndarray) -> np.ndarray:
    """Restore unit rows (n, d) float32 from float16 or int8, rounded to multiples of 2**-24.

    Every step is exact or correctly rounded whatever the order of summation, so all machines get
    the same bits.
    """
    X = np.empty(halves.shape, np.float32)
    for start in range(0, len(X), ROWS_AT_ONCE):
        rows = halves[start : start + ROWS_AT_ONCE].astype(np.float64)
        rows /= np.sqrt((rows**2).sum(axis=1, keepdims=True))
        X[start : start + ROWS_AT_ONCE] = np.round(rows * 2.0**24) / 2.0**24
    return X


def encode(sentences: list[str], encoder: Callable[[list[str]], Any]) -> np.ndarray:
    """Embeddings (n, d) float16, unit rows, of sentences.

    ``encoder`` is a function as ``load_encoder`` gives it. Raises ``InputError`` if it does not
    give one finite row other than zero for each sentence.
    """
    rows = raw_rows(sentences, encoder)
    return halve(rows, lambda place: f"the embedding of text {place} ({sentences[place][:40]!r})")


def raw_rows(sentences: list[str], encoder: Callable[[list[str]], Any]) -> np.ndarray:
    """Rows (n, d) as an encoder gives them; ``InputError`` unless they are numbers, one each.

    Raises ``RuntimeError`` if the encoder fails.
    """
    try:
        given = encoder(list(sentences))  # which it may sort or change
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # else it would pass for one of the data
        raise RuntimeError(f"the encoder failed: {error!r}") from error
    try:
        rows = np.asarray(given)
    except (ValueError, TypeError, RuntimeError) as error:  # rows of several lengths, bfloat16
        why = " ".join(str(error).split())
        raise InputError(
            f"the encoder gave {type(given).__name__} that is no table ({why}): "
            "give one row of numbers for each text"
        ) from error
    is_table = rows.ndim == 2 and rows.dtype.kind in "fiu"
    if not is_table or len(rows) != len(sentences) or rows.shape[1] == 0:
        gave = f"{rows.dtype} of shape {rows.shape} for {len(sentences)} texts"
        raise InputError(f"the encoder gave {gave}: give one row of numbers for each")
    return rows


def path_of(dataset: str, encoder: str | Path, folder: str | Path = FOLDER) -> Path:
    """Path of the embeddings of a dataset by a named encoder.

    A wheel has a few files; others are made in the cache, as those of a read-only checkout.
    """
    path = Path(folder) / f"{dataset}.{slug(encoder)}.safetensors"
    if not path.exists() and (installed() or not writable(path.parent)):
        return cache_folder() / "embeddings" / path.name
    return path


def _encoded(dataset, encoder):
    """Encode a dataset by an encoder of any kind: tensors, as in a file, and their description."""
    texts = load_texts(dataset)
    classes, y_train, y_test = texts.labels
    function = load_encoder(encoder, texts.train, progress=True)
    tensors = {"X_train": encode(texts.train, function), "X_test": encode(texts.test, function)}
    if tensors["X_train"].shape[1] > LONG:
        tensors = {name: quantise(rows) for name, rows in tensors.items()}
    tensors |= {"y_train": y_train, "y_test": y_test}
    about = {
        "dataset": dataset,
        "encoder": name_of(encoder),
        "classes": classes,
        "origin": {"sources": DATASETS[dataset].files},
    }
    return tensors, about


def embed(
    dataset: str, encoder: str | Path = DEFAULT_ENCODER, folder: str | Path = FOLDER
) -> Embedded:
    """Encode a dataset by a named encoder, keep the result in its file, and return it as read back.

    A file has tensors ``X_train``, ``y_train``, ``X_test`` and ``y_test``, and JSON under the
    metadata key ``about``. int8 rows are compressed by zlib; safetensors has no type for that, so
    the bytes of the stream are kept as a vector of uint8.
    """
    tensors, about = _encoded(dataset, encoder)
    about["origin"]["revision"] = revision(encoder)
    return keep(tensors, about, path_of(dataset, encoder, folder))


def keep(tensors: dict[str, Any], about: dict, path: Path) -> Embedded:
    """Write halves or quantised rows and class ids to a file, and return it as read back.

    ``about`` are the other fields of an ``Embedded``.
    """
    about = about | {"fingerprint": _assemble(tensors, about).fingerprint}
    tensors = dict(tensors)
    for name, tensor in tensors.items():
        if tensor.dtype == np.int8:
            tensors[name] = np.frombuffer(zlib.compress(tensor, 9), np.uint8)
    with atomic(path) as temporary:
        # One metadata key only: safetensors does not keep their order.
        save_file(tensors, temporary, metadata={"about": json.dumps(about, sort_keys=True)})
    return read(path)


def _assemble(tensors, about):
    return Embedded(
        **about | {"classes": tuple(about["classes"])},
        X_train=widen(tensors["X_train"]),
        y_train=tensors["y_train"],
        X_test=widen(tensors["X_test"]),
        y_test=tensors["y_test"],
    )


def read(path: str | Path) -> Embedded:
    """Read a file that ``embed`` wrote.

    Raises ``InputError`` if it is damaged: its content does not match its fingerprint.
    """
    try:
        with safe_open(path, "numpy") as handle:
            about = json.loads(handle.metadata()["about"])
            tensors = {
                name: handle.get_tensor(name) for name in ("X_train", "y_train", "X_test", "y_test")
            }
        for part in ("train", "test"):
            X = tensors[f"X_{part}"]
            if X.dtype == np.uint8:
                values = np.frombuffer(zlib.decompress(X), np.int8)
                tensors[f"X_{part}"] = values.reshape(len(tensors[f"y_{part}"]), -1)
        fingerprint = about.pop("fingerprint")
        data = _assemble(tensors, about)
        if data.fingerprint != fingerprint:
            raise ValueError("the fingerprint differs")
        return data
    except Exception as error:  # damaged files raise whatever their readers meet
        raise InputError(
            f"{path} is damaged ({type(error).__name__}): "
            "restore it, or make it again with `make embed`"
        ) from error


def load(
    dataset: str,
    encoder: str | Path | Callable | Any = DEFAULT_ENCODER,
    folder: str | Path = FOLDER,
) -> Embedded:
    """The embeddings of a dataset, from their file or, where there is none, encoded now.

    Raises ``InputError`` if the dataset is unknown, the file is damaged or was made from other
    texts, or encoding needs something that is not installed.
    """
    files = pick("dataset", dataset, DATASETS).files
    if not isinstance(encoder, (str, Path)):
        return _assemble(*_encoded(dataset, encoder))
    path = path_of(dataset, encoder, folder)
    data = read(path) if path.exists() else embed(dataset, encoder, folder)
    if data.dataset != dataset or data.origin.get("sources") != files:
        raise InputError(
            f"{path} was not made from the pinned texts of {dataset}: "
            "make it again with `make embed`"
        )
    return data
