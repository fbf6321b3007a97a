"""Encode texts, showing progress, and keep their vectors in the cache."""

import hashlib
import itertools
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from tqdm import tqdm

from ocrr.data.arrays import unit_rows
from ocrr.data.findings import listed
from ocrrlib.embeddings import raw_rows
from ocrrlib.encoders import LEXICAL_ENCODER, load_encoder, name_of, revision
from ocrrlib.files import InputError, atomic, cache_folder

TEXTS_AT_ONCE = 256  # four batches of a model
PAUSE = 10.0  # seconds between two lines in a log


@dataclass
class Encoded:
    """Vectors (n, d) float16, unit rows, of texts.

    ``cut`` (n,) bool marks texts of which the encoder read the first ``limit`` tokens only.
    """

    rows: np.ndarray
    cut: np.ndarray
    limit: int


def encoded(
    texts: list[str], places: Iterable, encoder: Any, training: list[str], progress: bool
) -> Encoded:
    """Encode texts; what a named encoder gives is kept in the cache, chunk by chunk.

    ``tfidf-svd`` is fitted on the texts ``training``. A kept file that is damaged or was edited is
    made again. Raises ``InputError`` if the encoder cannot be used, or gives texts no vectors of
    which unit rows can be made; ``places`` (n,) name these.
    """
    if not isinstance(encoder, (str, Path)):
        function = load_encoder(encoder, training)
        return Encoded(_units(texts, places, function), *_cut(texts, function))
    fitted_on = training if encoder == LEXICAL_ENCODER else None
    key = _digest([name_of(encoder), revision(encoder), texts, fitted_on])
    path = cache_folder() / "vectors" / f"{key}.safetensors"
    kept = _kept(path, key)
    if kept is not None:
        return Encoded(kept["rows"], kept["cut"], int(kept["limit"]))
    function = load_encoder(encoder, training)
    chunks = path.with_suffix("")  # a folder, as long as not all are encoded
    rows = _units(texts, places, lambda given: _by_chunks(given, function, progress, chunks))
    found = Encoded(rows, *_cut(texts, function))
    _keep(path, key, {"rows": found.rows, "cut": found.cut, "limit": np.array(found.limit)})
    shutil.rmtree(chunks, ignore_errors=True)
    return found


def _units(texts, places, function):
    """Unit rows (n, d) float16 of texts; those without one are refused together."""
    rows, bad = unit_rows(raw_rows(texts, function))
    if bad.any():
        named = (f"{place} ({text[:40]!r})" for place, text in zip(places, texts))
        shown = listed(itertools.compress(named, bad))
        raise InputError(
            f"the embedding of row {shown} is zero, not finite or too long to be normalised: "
            "fix or drop it, or give another encoder"
        )
    return rows


def _digest(value):
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _checksum(key, tensors):
    """SHA-256 of what is kept: it finds damage and edits, not one who computes it anew."""
    digest = hashlib.sha256(key.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(json.dumps([name, str(tensor.dtype), tensor.shape]).encode())
        digest.update(np.ascontiguousarray(tensor))
    return digest.hexdigest()


def _keep(path, key, tensors):
    with atomic(path) as temporary:
        save_file(tensors, temporary, metadata={"sha256": _checksum(key, tensors)})


def _kept(path, key):
    """What is kept; None where there is no such file, or it is not as it was written."""
    try:
        with safe_open(path, "numpy") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}
            is_whole = file.metadata()["sha256"] == _checksum(key, tensors)
        return tensors if is_whole else None
    except (OSError, KeyError, TypeError, ValueError, SafetensorError):
        return None  # missing or damaged


def _by_chunks(texts, function, progress, folder):
    """Rows (n, d) of texts; the longest are encoded first, as a batch takes that of its longest.

    Each chunk is kept in the folder, which is named by what decides it; after a stop, those that
    are there are not encoded again.
    """
    order = np.argsort([-len(text) for text in texts], kind="stable")
    parts = []
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        kept = _kept(folder / f"{start}", folder.name)
        if kept is None:
            break
        parts.append(kept["rows"])
    for start in starts(len(texts), progress, first=min(TEXTS_AT_ONCE * len(parts), len(texts))):
        chunk = [texts[place] for place in order[start : start + TEXTS_AT_ONCE]]
        parts.append(np.ascontiguousarray(function(chunk)))
        _keep(folder / f"{start}", folder.name, {"rows": parts[-1]})
    return np.concatenate(parts)[np.argsort(order)]


def starts(
    n: int, progress: bool, clock: Callable[[], float] = time.monotonic, first: int = 0
) -> Iterator[int]:
    """Where each chunk of ``n`` texts starts; with ``progress``, stderr shows how far it is.

    That is a bar in a terminal, and in a log a line with count and time left every ``PAUSE``
    seconds. The ``first`` texts are encoded already.
    """
    as_bar = progress and sys.stderr.isatty()
    as_lines = progress and not as_bar
    began = clock()
    said = began
    with tqdm(total=n, initial=first, unit="text", desc="encoding", disable=not as_bar) as bar:
        for start in range(first, n, TEXTS_AT_ONCE):
            now = clock()
            if start > first and as_lines and now - said >= PAUSE:
                left = (now - began) * (n - start) / (start - first)
                line = f"encoding: {start} of {n} texts, {left / 60:.1f} min left"
                print(line, file=sys.stderr, flush=True)
                said = now
            yield start
            bar.update(min(TEXTS_AT_ONCE, n - start))


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
    for start in range(0, len(long), TEXTS_AT_ONCE):
        places = long[start : start + TEXTS_AT_ONCE]
        chunk = [texts[place] for place in places]
        tokens = model.tokenizer(chunk, truncation=False, verbose=False)["input_ids"]
        cut[places] = [len(one) > limit for one in tokens]
    return cut, limit


def _is_sentence_transformer(model):
    library = sys.modules.get("sentence_transformers")
    return library is not None and isinstance(model, library.SentenceTransformer)
