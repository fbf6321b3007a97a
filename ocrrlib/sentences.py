"""A dataset as sentences, for systems that read text: the same rows, in the same places, as its embeddings."""

import numpy as np

from ocrrlib.backbones import revision
from ocrrlib.datasets import DATASETS, load_texts
from ocrrlib.embeddings import Embedded, labels_of
from ocrrlib.errors import pick
from ocrrlib.provenance import digest


class Sentences(Embedded):
    """As ``Embedded``, but ``X_train`` and ``X_test`` are (n,) strings and ``encoder`` is a system's backbone."""

    @property
    def fingerprint(self):
        """Known from the pinned hashes alone, where the texts are not at hand."""
        return fingerprint(self.dataset, self.encoder)


def fingerprint(dataset, backbone):
    """SHA-256 over what the sentences and the backbone are pinned by."""
    return digest([dataset, pick("dataset", dataset, DATASETS).files, backbone, revision(backbone)])


def load_sentences(dataset, backbone):
    """The sentences of a dataset, to be read by ``backbone``.

    Raises
    ------
    InputError
        If the dataset is unknown or one of its files cannot be had.
    """
    texts = load_texts(dataset)
    rows = {"X_train": np.array(texts.train), "X_test": np.array(texts.test)} | labels_of(texts)
    return Sentences(dataset, backbone, texts.classes, **rows)
