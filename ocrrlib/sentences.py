"""A dataset as sentences, for systems that read text: the same rows, in the same places, as its embeddings."""

import numpy as np

from ocrrlib.backbones import revision
from ocrrlib.datasets import DATASETS, load_texts
from ocrrlib.embeddings import Embedded
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
    ids = {name: id for id, name in enumerate(texts.classes)}
    return Sentences(
        dataset=dataset,
        encoder=backbone,
        classes=texts.classes,
        X_train=np.array(texts.train),
        y_train=np.array([ids[label] for label in texts.train_labels]),
        X_test=np.array(texts.test),
        y_test=np.array([ids[label] for label in texts.test_labels]),
    )
