"""Sentence embeddings, and the file that keeps them.

Files hold unit vectors rounded to float16.  Systems see what is read back from
those, normalised anew and rounded to multiples of 2**-24, so that a cached and a
fresh run agree, and so that cosines are exact (see ``ocrrlib.search``).
"""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ocrrlib.datasets import DATASETS, Texts, load_texts
from ocrrlib.encoders import DEFAULT_ENCODER, LEXICAL_ENCODER, load_encoder, revision, slug
from ocrrlib.errors import InputError, pick
from ocrrlib.files import atomic
from ocrrlib.home import cache_folder, data_folder, installed
from ocrrlib.provenance import digest
from ocrrlib.row_cache import kept_rows

FOLDER = data_folder() / "embeddings"
BLOCK = 2**16  # rows that are computed with in float64 at once
_WAY_OUT = "restore it, or make it anew with `make embed`"


@dataclass(frozen=True)
class Embedded:
    """A dataset as vectors.

    Attributes
    ----------
    X_train, X_test : (n, d) float32
        Unit rows as made by ``widen``.
    y_train, y_test : (n,) int64
        Class ids, positions in ``classes``.
    classes : tuple of str
        Class names, sorted.
    origin : dict
        Hashes of the raw files, revision of the encoder.
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
        """SHA-256 over names, labels and vectors: what results depend on."""
        digest = hashlib.sha256(json.dumps([self.dataset, self.encoder, self.classes]).encode())
        for array in (self.X_train, self.y_train, self.X_test, self.y_test):
            digest.update(np.ascontiguousarray(array).view(np.uint8))
        return digest.hexdigest()


def halve(X, row="row {} of the embeddings".format):
    """Unit rows as float16, the form in which they are kept.

    Parameters
    ----------
    X : (n, d) numbers
        Rows of any length but zero.
    row : callable
        What to call a row in an error, from its number.

    Raises
    ------
    InputError
        If a row is zero or has a NaN or infinity.
    """
    X = np.asarray(X, np.float64)
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    bad = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if len(bad):
        raise InputError(f"{row(bad[0])} is zero or not finite: check the encoder and its input")
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
    """Embeddings of sentences as they are kept, (n, d) float16 unit rows."""
    model, sentences = model or load_encoder(encoder), list(sentences)
    rows = model.encode(sentences, batch_size=64, show_progress_bar=progress)
    starts = range(0, max(len(sentences), 1), BLOCK)

    def text(place):
        return f"the embedding of text {place} ({sentences[place][:40]!r})"

    return np.concatenate([halve(rows[start : start + BLOCK], lambda i: text(start + i)) for start in starts])


def encode_once(sentences, encoder, fitted_on, progress=False):
    """Embeddings of any sentences, as ``encode`` gives them; kept in the cache under what they depend on.

    Parameters
    ----------
    sentences : list of str
        What is encoded.
    encoder : str
        See ``load_encoder``.
    fitted_on : list of str
        Training sentences, on which the lexical encoder is fitted.

    Raises
    ------
    InputError
        If a sentence's embedding is zero or not finite, or the encoder cannot be used.
    """
    fitted_on = fitted_on if encoder == LEXICAL_ENCODER else None
    key = digest([revision(encoder), sentences, fitted_on])
    path = cache_folder() / "embeddings" / f"{slug(encoder)}.{key[:32]}.safetensors"
    return kept_rows(path, lambda: encode(sentences, encoder, load_encoder(encoder, fitted_on), progress))


def path_of(dataset, encoder, folder=FOLDER):
    """Where the embeddings of a dataset by an encoder are kept."""
    return Path(folder) / f"{dataset}.{slug(encoder)}.safetensors"


def embed(dataset, encoder=DEFAULT_ENCODER, folder=FOLDER, texts: Texts | None = None, progress=True):
    """Encode a dataset, keep the result in its file, and return it as read back."""
    texts = texts or load_texts(dataset)
    model = load_encoder(encoder, texts.train)
    tensors = {
        "X_train": encode(texts.train, encoder, model, progress),
        "X_test": encode(texts.test, encoder, model, progress),
    }
    path = path_of(dataset, encoder, folder)
    save(tensors | labels_of(texts), _about(dataset, encoder, texts), path)
    return read(path)


def _own(dataset, encoder):
    """The same without a file of its own: the rows are kept in the cache."""
    texts = load_texts(dataset)
    rows, n = encode_once(texts.train + texts.test, encoder, texts.train, progress=True), len(texts.train)
    tensors = {"X_train": rows[:n], "X_test": rows[n:]} | labels_of(texts)
    return _assemble(tensors, _about(dataset, encoder, texts))


def labels_of(texts):
    ids = {name: id for id, name in enumerate(texts.classes)}
    parts = {"y_train": texts.train_labels, "y_test": texts.test_labels}
    return {name: np.array([ids[label] for label in labels]) for name, labels in parts.items()}


def _about(dataset, encoder, texts):
    files = DATASETS[dataset].files if dataset in DATASETS else {}
    origin = {"sources": files, "revision": revision(encoder)}
    return {"dataset": dataset, "encoder": encoder, "classes": texts.classes, "origin": origin}


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
    """Read a file that ``save`` wrote and check it.

    Raises
    ------
    InputError
        If the file is damaged or its content is not what its fingerprint says.
    """
    try:
        with safe_open(path, "numpy") as handle:
            about = json.loads(handle.metadata()["about"])
            tensors = {name: handle.get_tensor(name) for name in ("X_train", "y_train", "X_test", "y_test")}
        fingerprint = about.pop("fingerprint")
        data = _assemble(tensors, about)
    except (SafetensorError, OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged ({type(error).__name__}): {_WAY_OUT}") from error
    if data.fingerprint != fingerprint:
        raise InputError(f"{path} is damaged (its fingerprint differs): {_WAY_OUT}")
    return data


def load(dataset, encoder=DEFAULT_ENCODER, folder=FOLDER):
    """The embeddings of a dataset, from their file or, where there is none, encoded now.

    What an installed package encodes is kept in the cache, all else beside what is published.

    Raises
    ------
    InputError
        If the dataset is unknown, the file is damaged or made from other texts, or encoding
        needs what is not there.
    """
    files = pick("dataset", dataset, DATASETS).files
    path = path_of(dataset, encoder, folder)
    if not path.exists():
        return _own(dataset, encoder) if installed() else embed(dataset, encoder, folder)
    data = read(path)
    if (data.dataset, data.origin.get("sources")) != (dataset, files):
        raise InputError(f"{path} was not made from the pinned texts of {dataset}: make it anew with `make embed`")
    return data


def recheck(data, texts, rows=64):
    """Encode every so-many-th sentence again; the smallest cosine to the kept embedding."""
    pick_train = np.linspace(0, len(texts.train) - 1, rows).astype(int)
    pick_test = np.linspace(0, len(texts.test) - 1, rows).astype(int)
    model = load_encoder(data.encoder, texts.train)
    sentences = [texts.train[i] for i in pick_train] + [texts.test[i] for i in pick_test]
    kept = np.concatenate([data.X_train[pick_train], data.X_test[pick_test]])
    return float(np.einsum("nd,nd->n", widen(encode(sentences, data.encoder, model)), kept).min())
