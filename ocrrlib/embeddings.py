"""The datasets as vectors, or as sentences for systems that read text; embeddings and their files.

Files hold unit vectors rounded to float16.  Systems see these normalised again in float64 and rounded to multiples
of 2**-24, so that a cached and a fresh run agree, and so that cosines are exact (see ``ocrrlib.search``).
"""

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ocrrlib.datasets import DATASETS, load_texts
from ocrrlib.encoders import DEFAULT_ENCODER, LEXICAL_ENCODER, load_encoder, name_of, revision, slug
from ocrrlib.files import InputError, atomic, cache_folder, data_folder, installed, pick

FOLDER = data_folder() / "embeddings"
BLOCK = 2**16  # rows computed at once in float64
_WAY_OUT = "restore it, or make it again with `make embed`"


@dataclass(frozen=True, eq=False)  # one dataset is itself: it can be remembered by
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
        return sentences_fingerprint(self.dataset, self.encoder)


def sentences_fingerprint(dataset, backbone):
    """SHA-256 over the pinned files of a dataset and the revision of a backbone; needs no texts."""
    pinned = [dataset, pick("dataset", dataset, DATASETS).files, backbone, revision(backbone)]
    return hashlib.sha256(json.dumps(pinned, sort_keys=True).encode()).hexdigest()


def load_sentences(dataset, backbone):
    """The ``Sentences`` of a dataset; raises as ``load_texts`` does."""
    texts = load_texts(dataset)
    rows = {"X_train": np.array(texts.train), "X_test": np.array(texts.test)} | texts.ids
    return Sentences(dataset, backbone, texts.classes, **rows)


def halve(X, row="row {} of the embeddings".format):
    """Rows X (n, d) of any length but zero as unit rows in float16, the form in files.

    ``row`` names a row in an error, from its number.

    Raises
    ------
    InputError
        If a row is zero, has a NaN or infinity, or is too long to be normalised.
    """
    X = np.asarray(X, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(X, axis=1, keepdims=True)
    bad = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if len(bad):
        raise InputError(f"{row(bad[0])} is zero, not finite or too long to be normalised: fix or drop it")
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
    With ``progress``, a named encoder shows percentage and time left.

    Raises
    ------
    InputError
        If the encoder cannot be used, or does not give one finite row other than zero for each sentence.
    """
    sentences = list(sentences)
    if callable(encoder):
        rows = encoder(sentences)
    else:
        rows = (model or load_encoder(encoder)).encode(sentences, batch_size=64, show_progress_bar=progress)
    rows = np.asarray(rows)
    if rows.ndim != 2 or len(rows) != len(sentences) or rows.dtype.kind not in "fiu":
        gave = f"{rows.dtype} of shape {rows.shape} for {len(sentences)} texts"
        raise InputError(f"encoder {name_of(encoder)} gave {gave}: give one row of numbers for each")

    def text(place):
        return f"the embedding of text {place} ({sentences[place][:40]!r})"

    starts = range(0, max(len(sentences), 1), BLOCK)
    return np.concatenate([halve(rows[start : start + BLOCK], lambda i: text(start + i)) for start in starts])


def encode_once(sentences, encoder, fitted_on=(), progress=False):
    """``encode``, kept in the cache folder under revision and texts; a function is called every time.

    ``fitted_on`` are the training sentences of the lexical encoder.
    """
    if callable(encoder):
        return encode(sentences, encoder)
    fitted_on = list(fitted_on) if encoder == LEXICAL_ENCODER else []
    key = hashlib.sha256(json.dumps([revision(encoder), list(sentences), fitted_on]).encode()).hexdigest()
    path = cache_folder() / "embeddings" / f"{slug(encoder)}.{key[:32]}.npy"
    try:
        return np.load(path)
    except (OSError, ValueError, EOFError):  # not there, or damaged
        rows = encode(sentences, encoder, load_encoder(encoder, fitted_on), progress)
    with atomic(path) as temporary:
        np.save(temporary, rows)
    return rows


def path_of(dataset, encoder, folder=FOLDER):
    """Path of the embeddings of a dataset by a named encoder."""
    return Path(folder) / f"{dataset}.{slug(encoder)}.safetensors"


def _content(dataset, encoder, texts, rows):
    """Tensors and description of a dataset, from the embeddings of its training and test sentences in a row."""
    tensors = dict(zip(("X_train", "X_test"), np.split(rows, [len(texts.train)]))) | texts.ids
    sources = DATASETS[dataset].files if dataset in DATASETS else {}
    origin = {"sources": sources, "revision": "a function" if callable(encoder) else revision(encoder)}
    return tensors, {"dataset": dataset, "encoder": name_of(encoder), "classes": texts.classes, "origin": origin}


def embed(dataset, encoder=DEFAULT_ENCODER, folder=FOLDER, texts=None, progress=True):
    """Encode a dataset by a named encoder, keep the result in its file, and return it as read back."""
    texts = texts or load_texts(dataset)
    model = load_encoder(encoder, texts.train)
    parts = [encode(sentences, encoder, model, progress) for sentences in (texts.train, texts.test)]
    save(*_content(dataset, encoder, texts, np.concatenate(parts)), path_of(dataset, encoder, folder))
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
    """Read a file that ``save`` wrote and check it.

    Raises
    ------
    InputError
        If the file is damaged or its content does not match its fingerprint.
    """
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

    Raises
    ------
    InputError
        If the dataset is unknown, the file is damaged or made from other texts, or encoding
        needs something that is not installed.
    """
    files = pick("dataset", dataset, DATASETS).files
    if callable(encoder) or installed() and not path_of(dataset, encoder, folder).exists():
        texts = load_texts(dataset)
        rows = encode_once(texts.train + texts.test, encoder, texts.train, progress=True)
        return _assemble(*_content(dataset, encoder, texts, rows))
    path = path_of(dataset, encoder, folder)
    if not path.exists():
        return embed(dataset, encoder, folder)
    data = read(path)
    if (data.dataset, data.origin.get("sources")) != (dataset, files):
        raise InputError(f"{path} was not made from the pinned texts of {dataset}: make it again with `make embed`")
    return data


def recheck(data, texts, rows=64):
    """Encode every so-many-th sentence again; the smallest cosine to the embedding in the file."""
    pick_train = np.linspace(0, len(texts.train) - 1, rows).astype(int)
    pick_test = np.linspace(0, len(texts.test) - 1, rows).astype(int)
    model = load_encoder(data.encoder, texts.train)
    sentences = [texts.train[i] for i in pick_train] + [texts.test[i] for i in pick_test]
    kept = np.concatenate([data.X_train[pick_train], data.X_test[pick_test]])
    return float(np.einsum("nd,nd->n", widen(encode(sentences, data.encoder, model)), kept).min())
