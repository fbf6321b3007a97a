"""The data of an evaluation, however they are given, and how many of their classes are held out."""

from pathlib import Path

import numpy as np

from ocrrlib.cards.cells import HELD_OUT
from ocrrlib.datasets import DATASETS
from ocrrlib.embeddings import Embedded, Sentences, load, load_sentences
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.errors import InputError
from ocrrlib.own_data.files import ARRAYS, TABLES

FILES = (*TABLES, *ARRAYS)


def as_data(dataset, encoder, reads, progress):
    """The data that a system is evaluated on.

    Parameters
    ----------
    dataset : str, path, DataFrame, dict of arrays or Embedded
        A registry name, what ``own_data.reading.read_data`` reads, or what that returned.
    encoder : str or callable
        What embeds texts.
    reads : str
        What the system reads: ``embeddings`` or ``sentences``.
    progress : bool or str
        Whether a bar shows what is being done.

    Returns
    -------
    Embedded
        Vectors; the sentences themselves, in the same form, for a system that reads those.

    Raises
    ------
    InputError
        If there is no such dataset, its file cannot be used, it was embedded by another encoder, or it has no sentences
        where the system reads those.
    """
    if reads == "sentences":
        check_sentences(dataset)
        return dataset if isinstance(dataset, Sentences) else load_sentences(dataset, encoder)
    if isinstance(dataset, Embedded):
        if encoder not in (DEFAULT_ENCODER, dataset.encoder):
            raise InputError(f"{dataset.dataset} was embedded by {dataset.encoder!r}, not by {encoder!r}: leave it out")
        return dataset
    if isinstance(dataset, str) and dataset in DATASETS:
        return load(dataset, encoder)
    named = isinstance(dataset, (str, Path))
    if named and Path(dataset).suffix.lower() not in FILES and not Path(dataset).exists():
        known = ", ".join(DATASETS)
        raise InputError(f"unknown dataset {str(dataset)!r}; there are: {known}; or give a file ({', '.join(FILES)})")
    from ocrrlib.own_data.reading import read_data

    return read_data(dataset, encoder=encoder, progress=progress)


def check_sentences(dataset):
    """Refuse what has no sentences for a system that reads those: anything but the benchmark's own datasets.

    Raises
    ------
    InputError
        If it is something else; nothing was read or encoded.
    """
    if not (isinstance(dataset, Sentences) or (isinstance(dataset, str) and dataset in DATASETS)):
        given = dataset.dataset if isinstance(dataset, Embedded) else dataset
        named = repr(str(given)) if isinstance(given, (str, Path)) else f"a {type(given).__name__}"
        raise InputError(
            f"systems that read sentences run on the benchmark's own datasets only, not on {named}: give "
            f"{' or '.join(DATASETS)}, or a system that reads embeddings (`ocrr systems --json` says which do)"
        )


def n_held_out(given, data):
    """How many classes of a dataset are first met in the stream: as given, or for None 10, or a quarter of few.

    Raises
    ------
    InputError
        If the dataset has one class only, or all of its classes or none would be held out.
    """
    n_classes = len(data.classes)
    if n_classes < 2:
        raise InputError(f"{data.dataset} has {n_classes} class: one to know and one to learn are needed")
    if given is None:
        return min(HELD_OUT, max(1, n_classes // 4))
    if not (isinstance(given, (int, np.integer)) and 0 < given < n_classes):
        raise InputError(f"cannot hold out {given!r} of {n_classes} classes: give 1 to {n_classes - 1}")
    return int(given)
