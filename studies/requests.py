"""Sixty requests to a bank, written for this compendium in twelve classes of Banking77.

The datasets' own texts are not published here; these show what a request, a mistake and a
correction look like.
"""

from functools import lru_cache

import numpy as np
import pandas as pd
from safetensors.numpy import load_file, save_file

from ocrrlib.embeddings import FOLDER, encode, widen
from ocrrlib.encoders import DEFAULT_ENCODER, load_encoder
from ocrrlib.files import ROOT, atomic

TEXTS = ROOT / "data/requests.csv"
VECTORS = FOLDER / f"requests.{DEFAULT_ENCODER}.safetensors"


def embed_requests() -> None:
    """Encode the requests into the published file."""
    texts = pd.read_csv(TEXTS)["text"].tolist()
    with atomic(VECTORS) as temporary:
        save_file({"X": encode(texts, load_encoder(DEFAULT_ENCODER))}, temporary)


@lru_cache(maxsize=1)
def requests() -> tuple[pd.DataFrame, np.ndarray]:
    """The requests, columns ``text`` and ``label``, and their embeddings (60, d) float32."""
    return pd.read_csv(TEXTS), widen(load_file(VECTORS)["X"])


if __name__ == "__main__":
    embed_requests()
