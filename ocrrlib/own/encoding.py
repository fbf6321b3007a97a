"""Vectors of your texts: encoded with progress, and kept in the cache."""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from tqdm import tqdm

from ocrrlib.embeddings import encode
from ocrrlib.encoders import LEXICAL_ENCODER, load_encoder, name_of, revision
from ocrrlib.files import atomic, cache_folder

CHUNK = 256  # texts, four batches of a model
PAUSE = 10.0  # seconds between two lines in a log


@dataclass
class Encoded:
    """Vectors (n, d) float16, unit rows, of texts.

    ``cut`` (n,) bool marks texts of which the encoder read the first ``limit`` tokens only.
    """

    rows: np.ndarray
    cut: np.ndarray
    limit: int


def encoded(texts: list[str], encoder: Any, training: list[str], progress: bool) -> Encoded:
    """Encode texts; what a named encoder gives is kept in the cache.

    ``tfidf-svd`` is fitted on the texts ``training``. A kept file that is damaged or was edited is
    made again. Raises ``InputError`` if the encoder cannot be used.
    """
    if not isinstance(encoder, (str, Path)):
        function = load_encoder(encoder, training)
        return Encoded(encode(texts, function), *_cut(texts, function))
    fitted_on = training if encoder == LEXICAL_ENCODER else None
    key = _digest([name_of(encoder), revision(encoder), texts, fitted_on])
    path = cache_folder() / "vectors" / f"{key}.safetensors"
    found = _kept(path, key, len(texts))
    if found is None:
        function = load_encoder(encoder, training)
        rows = encode(texts, lambda sentences: _by_chunks(sentences, function, progress))
        found = Encoded(rows, *_cut(texts, function))
        _keep(path, key, found)
    return found


def _digest(value):
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _checksum(key, found):
    """SHA-256 of what is kept: it finds damage and edits, not one who computes it anew."""
    digest = hashlib.sha256(json.dumps([key, found.limit, found.rows.shape]).encode())
    digest.update(np.ascontiguousarray(found.rows))
    digest.update(np.ascontiguousarray(found.cut))
    return digest.hexdigest()


def _keep(path, key, found):
    about = {"limit": found.limit, "sha256": _checksum(key, found)}
    with atomic(path) as temporary:
        tensors = {"rows": found.rows, "cut": found.cut}
        save_file(tensors, temporary, metadata={"about": json.dumps(about)})


def _kept(path, key, n):
    """What is kept; None where there is no such file, or it is not as it was written."""
    try:
        with safe_open(path, "numpy") as tensors:
            about = json.loads(tensors.metadata()["about"])
            rows = tensors.get_tensor("rows")
            found = Encoded(rows, tensors.get_tensor("cut"), about["limit"])
        whole = rows.dtype == np.float16 and rows.ndim == 2 and len(rows) == len(found.cut) == n
        return found if whole and about["sha256"] == _checksum(key, found) else None
    except (OSError, KeyError, TypeError, ValueError, AttributeError, SafetensorError):
        return None  # missing or damaged


def _by_chunks(texts, function, progress):
    """Rows (n, d) of texts; the longest are encoded first, as a batch takes that of its longest."""
    order = np.argsort([-len(text) for text in texts], kind="stable")
    parts = []
    for start in starts(len(texts), progress):
        chunk = [texts[place] for place in order[start : start + CHUNK]]
        parts.append(np.asarray(function(chunk)))
    return np.concatenate(parts)[np.argsort(order)]


def starts(n: int, progress: bool, clock: Callable[[], float] = time.monotonic) -> Iterator[int]:
    """Where each chunk of ``n`` texts starts; with ``progress``, stderr shows how far it is.

    That is a bar in a terminal, and in a log a line with count and time left every ``PAUSE``
    seconds.
    """
    as_bar = progress and sys.stderr.isatty()
    as_lines = progress and not as_bar
    began = clock()
    said = began
    with tqdm(total=n, unit="text", desc="encoding", disable=not as_bar) as bar:
        for start in range(0, n, CHUNK):
            now = clock()
            if start and as_lines and now - said >= PAUSE:
                left = (now - began) * (n - start) / start
                line = f"encoding: {start} of {n} texts, {left / 60:.1f} min left"
                print(line, file=sys.stderr, flush=True)
                said = now
            yield start
            bar.update(min(CHUNK, n - start))


def _cut(texts, function):
    """Which texts (n,) bool have more tokens than a model reads, and how many it reads.

    None and 0 of a function or another kind of model, of which this is not known.
    """
    cut = np.zeros(len(texts), bool)
    model = getattr(getattr(function, "func", function), "__self__", None)
    if not _is_sentence_transformer(model) or not model.max_seq_length:
        return cut, 0
    limit = int(model.max_seq_length)
    # A token is a byte at least, but for two or so that mark begin and end.
    long = [place for place, text in enumerate(texts) if len(text.encode()) > limit - 8]
    for start in range(0, len(long), CHUNK):
        places = long[start : start + CHUNK]
        chunk = [texts[place] for place in places]
        tokens = model.tokenizer(chunk, truncation=False, verbose=False)["input_ids"]
        cut[places] = [len(one) > limit for one in tokens]
    return cut, limit


def _is_sentence_transformer(model):
    library = sys.modules.get("sentence_transformers")
    return library is not None and isinstance(model, library.SentenceTransformer)
