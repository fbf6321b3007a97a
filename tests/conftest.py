"""Fixtures: the committed Banking77 embeddings, a tiny dataset, backbones of random weights."""

import gc
import os
import shutil
import socket

# Before NumPy is there: on a machine with other work, waiting BLAS threads make small products ten
# times slower.
for library in ("OPENBLAS", "MKL", "OMP"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from ocrrlib.embeddings import Embedded, path_of, read
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.files import ROOT
from ocrrlib.tasks import CACHE  # noqa: F401  found once, here: it must not be that of one test
from tests.browser import browser, find
from tests.samples import clusters, git

settings.register_profile(
    "repeatable", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def banking():
    """Banking77 by the default encoder, from the committed file; never encoded anew."""
    return read(path_of("banking77", DEFAULT_ENCODER))


@pytest.fixture(scope="session")
def tiny():
    """12 classes in 16 dimensions, 20 training and 6 test rows of each."""
    n_classes = 12
    d = 16
    X_train, y_train = clusters(n_classes, 20, d, seed=0)
    X_test, y_test = clusters(n_classes, 6, d, seed=1)
    names = tuple(f"class {id:02d}" for id in range(n_classes))
    return Embedded("tiny", "drawn at random", names, X_train, y_train, X_test, y_test)


WORDS = [f"word{i}" for i in range(3 * 12 + 8)]  # three of each class, then eight of all
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SHAPE = dict(
    vocab_size=len(SPECIAL) + len(WORDS),
    max_position_embeddings=64,
    hidden_size=16,
    intermediate_size=32,
)
SHAPE |= dict(num_hidden_layers=2, num_attention_heads=2)
SHAPE |= dict(initializer_range=0.1)  # large enough for the first token to depend on the others
LIKE_V3 = dict(
    relative_attention=True, position_buckets=4, share_att_key=True, pos_att_type=["p2c", "c2p"]
)
LIKE_V3 |= dict(
    norm_rel_ebd="layer_norm",
    max_relative_positions=-1,
    type_vocab_size=0,
    position_biased_input=False,
)
STILL = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


@pytest.fixture(scope="session")
def backbones(tmp_path_factory):
    """Backbones of random weights, each with a tokeniser.

    BERT, BERT without any dropout, and DeBERTa as in version 3.
    """
    torch, transformers = map(pytest.importorskip, ("torch", "transformers"))
    models = {
        "bert": (transformers.BertModel, transformers.BertConfig(**SHAPE)),
        "still": (transformers.BertModel, transformers.BertConfig(**SHAPE, **STILL)),
        "deberta": (transformers.DebertaV2Model, transformers.DebertaV2Config(**SHAPE, **LIKE_V3)),
    }
    folder = tmp_path_factory.mktemp("backbones")
    vocab = {word: place for place, word in enumerate(SPECIAL + WORDS)}
    for kind, (cls, config) in models.items():
        with torch.random.fork_rng():
            torch.manual_seed(0)
            cls(config).save_pretrained(folder / kind)
        transformers.BertTokenizerFast(vocab=vocab).save_pretrained(folder / kind)
    # On a GPU sums depend on the batch by more than tests allow.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: False)
        yield {kind: str(folder / kind) for kind in models}


@pytest.fixture(scope="session")
def sentences():
    """12 classes of sentences with words of their own: 3 training and 1 test sentence of each.

    Sentences have from three words to more than a backbone reads.
    """

    def draw(per_class, seed):
        rng = np.random.default_rng(seed)
        y = rng.permutation(np.repeat(np.arange(12), per_class))
        more = rng.choice([1, 3, 9, 90], len(y), p=[0.4, 0.3, 0.2, 0.1])
        words = [
            [*rng.choice(WORDS[3 * c :][:3], 2), *rng.choice(WORDS[36:], n)]
            for c, n in zip(y, more)
        ]
        return np.array([" ".join(rng.permutation(row)) for row in words]), y

    return Embedded(
        "tiny", "none", tuple(f"class {id:02d}" for id in range(12)), *draw(3, 0), *draw(1, 1)
    )


@pytest.fixture
def no_network(monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")

    def unreachable(*args, **kwargs):
        raise socket.gaierror("no network")

    monkeypatch.setattr(socket, "getaddrinfo", unreachable)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)  # it reads the variable once, on import


def pytest_collection_finish():
    """Let garbage collections, which some libraries ask for, skip what was imported: it stays."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def vectors(tmp_path_factory):
    """A file of six classes of vectors that can be learnt."""
    X, y = clusters(6, 30, 8, seed=3)
    path = tmp_path_factory.mktemp("data") / "vectors.npz"
    np.savez(path, X=X, y=y)
    return path


@pytest.fixture(scope="module")
def tab():
    """A tab of a headless browser."""
    if not find():
        pytest.skip("no Chromium is installed")
    with browser() as tab:
        yield tab


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A folder with a space in its path, with all files of the checkout, committed."""
    folder = tmp_path_factory.mktemp("check out")
    for name in git(ROOT, "ls-files", "-z").split("\0")[:-1]:
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "all")
    return folder
