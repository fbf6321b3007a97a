"""Encoders of sentences by name: a pretrained model's or the lexical one."""

import importlib.metadata
from pathlib import Path

from ocrrlib import backbones
from ocrrlib.backbones import DEFAULT_ENCODER
from ocrrlib.errors import InputError

LEXICAL_ENCODER = "tfidf-svd"
PAPER_ENCODER = "BAAI/bge-large-en-v1.5"
_NEEDS = "the encoder {!r} needs packages that are not installed: run `pip install 'ocrrlib[{}]'`"


def slug(encoder):
    """The encoder's name as part of a file name; a local folder's has its content in it.

    Raises
    ------
    InputError
        As ``revision`` does.
    """
    path = Path(encoder)
    if path.is_dir():
        return f"{path.resolve().name}-{revision(encoder)[:8]}"
    return encoder.replace("/", "--")


def revision(encoder):
    """What pins an encoder: ``backbones.revision``, or the lexical one's library.

    Raises
    ------
    InputError
        If a package that it needs is not installed.
    """
    if encoder == LEXICAL_ENCODER:
        try:
            return f"scikit-learn {importlib.metadata.version('scikit-learn')}"
        except importlib.metadata.PackageNotFoundError as error:
            raise InputError(_NEEDS.format(encoder, "statistics")) from error
    return backbones.revision(encoder)


def load_encoder(encoder, sentences=None):
    """A model that encodes sentences: sentence-transformers' or the lexical one.

    Parameters
    ----------
    encoder : str
        Its name.
    sentences : list of str, optional
        A dataset's training sentences, on which the lexical encoder is fitted; the others are pretrained.

    Raises
    ------
    InputError
        If it cannot be loaded, or is the lexical one and there is nothing to fit it on.
    """
    if encoder == LEXICAL_ENCODER:
        try:
            from ocrrlib.lexical import Lexical  # as below
        except ImportError as error:
            raise InputError(_NEEDS.format(encoder, "statistics")) from error

        if not sentences:
            raise InputError(f"encoder {encoder!r} is fitted on a dataset's training sentences: give these")
        return Lexical(sentences)
    try:
        from sentence_transformers import SentenceTransformer  # slow to import, seldom needed
    except ImportError as error:
        raise InputError(_NEEDS.format(encoder, "text")) from error

    source, local = backbones.source(encoder)
    try:
        return SentenceTransformer(source, local_files_only=local)
    except Exception as error:  # the hub, the disk and the model each raise their own kinds
        raise InputError(
            f"cannot load encoder {encoder!r} ({type(error).__name__}): give {DEFAULT_ENCODER!r}, "
            f"{LEXICAL_ENCODER!r}, a folder with a sentence-transformers model, or a name on the hub "
            f"(the paper's: {PAPER_ENCODER!r}) and a network"
        ) from error
