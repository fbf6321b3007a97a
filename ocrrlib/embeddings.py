"""The datasets as vectors, or as sentences for systems that read text; embeddings and their files.

Files hold unit vectors rounded to float16.  Systems see these normalised again in float64 and rounded to multiples
of 2**-24, so that a cached and a fresh run agree, and so that cosines are exact (see ``ocrrlib.search``).
"""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ocrrlib.datasets import DATASETS, load_texts
from ocrrlib.encoders import DEFAULT_ENCODER, load_encoder, revision, slug
from ocrrlib.files import InputError, atomic, cache_folder, data_folder, installed, pick

FOLDER = data_folder() / "embeddings"
BLOCK = 2**16  # rows to compute at once in float64
_WAY_OUT = "restore it, or make it again with `make embed`"


@dataclass(frozen=True, eq=False)  # one dataset is itself: it can be remembered by
class Embedded:
    """A dataset as vectors.

    ``X_train``, ``X_test`` are (n, d) float32 unit rows as made by ``widen``, ``y_train``, ``y_test`` (n,) int64
    class ids, positions in the sorted ``classes``; ``origin`` has hashes of the raw files and the encoder's revision.
    """

    dataset: str
    encoder: str
    classes: tuple[str, ...]
    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    origin: dict = field(default_factory=dict)

    @property
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
    return Sentences(dataset, backbone, texts.classes, np.array(texts.train), X_test=np.array(texts.test), **texts.ids)


def halve(X):
    """Rows X (n, d) of any length but zero as unit rows in float16, the form in files.

    Raises ``InputError`` if a row is zero or has a NaN or infinity.
    """
    X = np.asarray(X, np.float64)
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    if len(bad := np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))):
        raise InputError(f"row {bad[0]} of the embeddings is zero or not finite: check the encoder and its input")
    return (X / lengths).astype(np.float16)


def widen(halves):
    """Unit rows as float32 from float16 ones: normalised, then rounded to multiples of 2**-24.

    Every step is exact or correctly rounded whatever the order of summation,
    so all machines get the same bits.
    """
    X = halves.astype(np.float64)
    X /= np.sqrt((X**2).sum(axis=1, keepdims=True))
    return (np.round(X * 2.0**24) / 2.0**24).astype(np.float32)


def encode(sentences, encoder, model=None, progress=False):
    """Embeddings of sentences, (n, d) float16 unit rows.

    ``encoder`` is a name, loaded already as ``model`` or not, or a function from a list of sentences to rows (n, d).
    Raises ``InputError`` if the encoder cannot be used, or gives a row that is zero or not finite.
    """
    if callable(encoder):
        return halve(encoder(sentences))
    return halve((model or load_encoder(encoder)).encode(sentences, batch_size=64, show_progress_bar=progress))


def path_of(dataset, encoder, folder=FOLDER):
    """Path of the embeddings of a dataset by a named encoder."""
    return Path(folder) / f"{dataset}.{slug(encoder)}.safetensors"


def embed(dataset, encoder=DEFAULT_ENCODER, folder=FOLDER):
    """Encode a dataset by a named encoder, keep the result in its file, and return it as read back."""
    texts = load_texts(dataset)
    model = load_encoder(encoder, texts.train)
    parts = {"X_train": texts.train, "X_test": texts.test}
    tensors = {name: encode(part, encoder, model, progress=True) for name, part in parts.items()} | texts.ids
    origin = {"sources": DATASETS[dataset].files, "revision": revision(encoder)}
    about = {"dataset": dataset, "encoder": encoder, "classes": texts.classes, "origin": origin}
    save(tensors, about, path_of(dataset, encoder, folder))
    return read(path_of(dataset, encoder, folder))


def save(tensors, about, path):
    """Write float16 embeddings and labels to a safetensors file, whole or not at all."""
    about = about | {"fingerprint": _assemble(tensors, about).fingerprint}
    with atomic(path) as temporary:
        # One metadata key only: safetensors does not keep their order.
        save_file(tensors, temporary, metadata={"about": json.dumps(about, sort_keys=True)})


def _assemble(tensors, about):
    widened = {name: widen(t) if name[0] == "X" else t.astype(np.int64) for name, t in tensors.items()}
    return Embedded(**about | {"classes": tuple(about["classes"])}, **widened)


def read(path):
    """Read a file that ``save`` wrote; raises ``InputError`` if it is damaged or its fingerprint differs."""
    try:
        with safe_open(path, "numpy") as handle:
            about = json.loads(handle.metadata()["about"])
            tensors = {name: handle.get_tensor(name) for name in ("X_train", "y_train", "X_test", "y_test")}
        fingerprint = about.pop("fingerprint")
        data = _assemble(tensors, about)
    except (SafetensorError, OSError, AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged ({type(error).__name__}): {_WAY_OUT}") from error
    if data.fingerprint != fingerprint:
        raise InputError(f"{path} is damaged (its fingerprint differs): {_WAY_OUT}")
    return data


def load(dataset, encoder=DEFAULT_ENCODER, folder=FOLDER):
    """The embeddings of a dataset, from their file or, where there is none, encoded now.

    Raises ``InputError`` if the dataset is unknown, its file is damaged or made from other texts, or encoding needs
    something that is not installed.
    """
    files = pick("dataset", dataset, DATASETS).files
    if installed() and not path_of(dataset, encoder, folder).exists():
        folder = cache_folder() / "embeddings"
    path = path_of(dataset, encoder, folder)
    if not path.exists():
        return embed(dataset, encoder, folder)
    data = read(path)
    if (data.dataset, data.origin.get("sources")) != (dataset, files):
        raise InputError(f"{path} was not made from the pinned texts of {dataset}: {_WAY_OUT}")
    return data


def recheck(data, texts, rows=64):
    """Encode every so-many-th sentence again; the smallest cosine to the embedding in the file."""
    train, test = (np.linspace(0, len(part) - 1, rows).astype(int) for part in (texts.train, texts.test))
    model = load_encoder(data.encoder, texts.train)
    sentences = [texts.train[i] for i in train] + [texts.test[i] for i in test]
    kept = np.concatenate([data.X_train[train], data.X_test[test]])
    return float(np.einsum("nd,nd->n", widen(encode(sentences, data.encoder, model)), kept).min())
