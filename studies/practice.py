"""Two practice sets: TREC questions, and the questions to a shop's chatbot.

TREC has classes of very different size, the shop few rows. Both came as tables of texts and labels,
and went through the door for users' own data. Their embeddings are published, their texts are not
needed. The form of the proposed system was chosen on these data: they are no evidence for it.
"""

import os
from functools import lru_cache
from pathlib import Path

from ocrr.data.read import read_data
from ocrrlib.embeddings import FOLDER, Embedded, halve, keep, path_of, read
from ocrrlib.encoders import DEFAULT_ENCODER, revision
from ocrrlib.files import sha256

# Columns of texts and of classes in <dataset>.csv
TEXT_AND_LABEL = {"trec": ("question", "type"), "curekart": ("sentence", "label")}
LEAST_ROWS = 5  # different ones of a class
TEST_SHARE = 0.2


def embed_tables(folder: str | Path, to: str | Path = FOLDER) -> list[Embedded]:
    """Embed ``<folder>/<dataset>.csv`` of both datasets, and keep the results in files.

    Raises as ``read_data`` does.
    """
    found = []
    for name, (text, label) in TEXT_AND_LABEL.items():
        table = Path(folder) / f"{name}.csv"
        how = dict(drop_duplicates=True, min_rows=LEAST_ROWS, test_share=TEST_SHARE)
        data = read_data(table, text, label, name=name, **how)
        tensors = {"X_train": halve(data.X_train), "X_test": halve(data.X_test)}
        tensors |= {"y_train": data.y_train, "y_test": data.y_test}
        about = {
            "dataset": name,
            "encoder": DEFAULT_ENCODER,
            "classes": data.classes,
            "origin": {
                "sources": {table.name: sha256(table)},
                "revision": revision(DEFAULT_ENCODER),
            },
        }
        found.append(keep(tensors, about, path_of(name, DEFAULT_ENCODER, to)))
    return found


@lru_cache
def load_practice(dataset: str) -> Embedded:
    """The published embeddings of a dataset, a name in ``TEXT_AND_LABEL``."""
    return read(path_of(dataset, DEFAULT_ENCODER))


if __name__ == "__main__":
    embed_tables(Path(os.environ["OCRR_DATA_DIR"]) / "practice")
