"""Low-rank adapters keep the contract of a system, and every correction is the step that the paper describes."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
from conftest import assert_watched_equals_predicted
from test_systems import assert_refused, teach

from ocrrlib.embeddings import Embedded
from ocrrlib.encoders import load_backbone, load_tokeniser
from ocrrlib.scenario import make_scenario
from ocrrlib.systems import SYSTEMS, make
from ocrrlib.systems.base import Storage

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("peft")
lora = pytest.importorskip("ocrrlib.systems.lora")
LoRA, Training, cross_entropy = lora.LoRA, lora.Training, torch.nn.functional.cross_entropy

TEXT = [name for name, entry in SYSTEMS.items() if entry.reads == "sentences"]
COMMON = [f"common{i}" for i in range(8)]
OWN = [[f"class{c}word{i}" for i in range(3)] for c in range(12)]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *COMMON, *sum(OWN, [])]
HIDDEN, LAYERS = 16, 2
SHAPE = dict(
    vocab_size=len(VOCABULARY),
    hidden_size=HIDDEN,
    num_hidden_layers=LAYERS,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=64,
    initializer_range=0.1,  # large enough for the first token to depend on the others
)
LIKE_V3 = dict(relative_attention=True, position_buckets=4, share_att_key=True, pos_att_type=["p2c", "c2p"])
LIKE_V3 |= dict(norm_rel_ebd="layer_norm", max_relative_positions=-1, type_vocab_size=0, position_biased_input=False)
STILL = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
kinds = pytest.mark.parametrize("kind", ["bert", "deberta"])


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Backbones of random weights, each with a tokeniser: BERT, BERT without any dropout, DeBERTa as in version 3."""
    models = {
        "bert": (transformers.BertModel, transformers.BertConfig(**SHAPE)),
        "still": (transformers.BertModel, transformers.BertConfig(**SHAPE, **STILL)),
        "deberta": (transformers.DebertaV2Model, transformers.DebertaV2Config(**SHAPE, **LIKE_V3)),
    }
    folder = tmp_path_factory.mktemp("backbones")
    for kind, (cls, config) in models.items():
        with lora.torch_seed(0):
            cls(config).save_pretrained(folder / kind)
        vocab = {word: place for place, word in enumerate(VOCABULARY)}
        transformers.BertTokenizerFast(vocab=vocab).save_pretrained(folder / kind)
    return {kind: str(folder / kind) for kind in models}


def draw(per_class, seed):
    """Sentences that have words of their class, from three words to more than can be read; and their class ids."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(len(OWN)), per_class))
    others = rng.choice([1, 3, 9, 90], len(y), p=[0.4, 0.3, 0.2, 0.1])
    words = [[*rng.choice(OWN[id], 2), *rng.choice(COMMON, more)] for id, more in zip(y, others)]
    return np.array([" ".join(rng.permutation(row)) for row in words]), y


@pytest.fixture(scope="module")
def s():
    """Eight known classes, 24 sentences; four new ones, 12 sentences stream by."""
    names = tuple(f"class {id:02d}" for id in range(len(OWN)))
    return make_scenario(Embedded("tiny", "none", names, *draw(3, 0), *draw(1, 1)), 0, held_out=4, cap=None)


@pytest.fixture(scope="module", autouse=True)
def on_the_processor():
    """On a GPU sums depend on the batch by more than these tests allow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: False)
        yield


@pytest.fixture(scope="module", params=[("lora", "bert"), ("lora_replay", "deberta")], ids=" on ".join)
def new(request, folders):
    """Makes a registry row's system: ``new(seed=0)``."""
    name, kind = request.param
    return partial(make, name, encoder=folders[kind])


def fit(system, s):
    return system.fit(s.X_initial, s.y_initial, s.classes)


def variant(name, backbone, seed=0, **params):
    """A registry row's system with some hyperparameters changed."""
    return LoRA(seed, backbone, **SYSTEMS[name].params | params)


def corrections(s, n):
    """New sentences, with some known ones in between."""
    X, y = np.concatenate([s.X_stream, s.X_initial]), np.concatenate([s.y_stream, s.y_initial])
    chosen = np.random.default_rng(5).permutation(len(y))[:n]
    return list(zip(X[chosen], y[chosen].tolist()))


def learnt(system):
    return {name: p.detach().clone() for name, p in system.model.learnt().items()}


def equal(a, b):
    """Whether two dictionaries of tensors are the same, bit for bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def assert_close(a, b, atol):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


# --- the contract of a system, as in tests/test_systems.py


def test_same_seed_gives_the_same_system_whatever_the_threads_and_the_state_of_torch(new, s):
    ends, before = [], torch.get_num_threads()
    for number in (1, 2):
        torch.set_num_threads(number)
        torch.manual_seed(number)
        state = torch.get_rng_state()
        lora.training.forget()
        system = teach(fit(new(seed=3), s), corrections(s, 3))
        ends.append((learnt(system), system.predict(s.queries)))
        assert torch.get_num_threads() == number and torch.equal(torch.get_rng_state(), state)
    torch.set_num_threads(before)
    assert equal(ends[0][0], ends[1][0])
    np.testing.assert_array_equal(ends[0][1], ends[1][1])


def test_batch_equals_row_by_row_and_watched_queries_equal_predict(new, s):
    system = fit(new(), s)
    whole = teach(system, corrections(s, 2)).predict(s.queries)
    np.testing.assert_array_equal(np.concatenate([system.predict([x]) for x in s.queries]), whole)
    np.testing.assert_array_equal(system.predict(s.queries[::-1]), whole[::-1])
    assert_watched_equals_predicted(system, s, corrections(s, 4), halfway=2)


def test_fit_again_starts_afresh_and_a_pickled_system_goes_on(new, s):
    used = new().fit(s.X_initial[:5], np.arange(5) % 2, ("no", "yes", "perhaps"))
    assert set(teach(used, [(s.X_initial[0], 2)]).predict(s.queries).tolist()) <= {0, 1, 2}
    fresh, used = fit(new(), s), fit(used, s)
    twin = pickle.loads(pickle.dumps(teach(fresh, corrections(s, 2))))
    teach(used, corrections(s, 2))
    for system in (fresh, used, twin):
        teach(system, corrections(s, 4)[2:])
        assert equal(learnt(system), learnt(fresh)) and system.storage() == fresh.storage()


def test_bad_input_is_refused_in_one_line_and_changes_nothing(new, s):
    assert_refused("call fit first", new().predict, s.queries)
    system = fit(new(), s)
    start = learnt(system)
    assert_refused("rows must be sentences", system.predict, np.eye(4, dtype=np.float32))
    assert_refused("rows must be sentences", system.correct, ["how", "do"], 0)
    assert_refused("row 1 is an empty sentence", system.predict, ["how", " \t"])
    assert_refused("class id", system.correct, "how", len(s.classes))
    assert equal(learnt(system), start)


@pytest.mark.parametrize("name", TEXT)
def test_unseen_class_is_accepted_and_learnt(folders, s, name):
    system, x, unseen = fit(variant(name, folders["bert"], lr=0.05), s), s.X_stream[0], int(s.y_stream[0])
    assert unseen not in s.y_initial and system.predict([x])[0] != unseen
    teach(system, [(x, unseen)] * 10)
    assert "replay" in name or system.predict([x])[0] == unseen  # there so few sentences of the class count for little


# --- parameters


@kinds
def test_adapters_sit_on_all_query_and_value_projections_and_alone_change(folders, s, kind):
    targets = {"bert": ["query", "value"], "deberta": ["query_proj", "value_proj"]}[kind]
    system = teach(fit(LoRA(backbone=folders[kind], rank=3, alpha=12, dropout=0.4, fit_lr=0.01), s), corrections(s, 2))
    names = system.model.learnt().keys() - {"head.weight", "head.bias"}
    layers = {name.rsplit(".lora_", 1)[0].removeprefix("backbone.base_model.model.") for name in names}
    assert layers == {f"encoder.layer.{layer}.attention.self.{t}" for layer in range(LAYERS) for t in targets}
    frozen = {name: p for name, p in system.model.backbone.named_parameters() if not p.requires_grad}
    frozen = {name.removeprefix("base_model.model.").replace(".base_layer", ""): p for name, p in frozen.items()}
    assert equal(frozen, dict(load_backbone(system.backbone).named_parameters()))
    x = torch.randn(5, HIDDEN, generator=torch.Generator().manual_seed(0))
    for m in (m for m in system.model.eval().modules() if hasattr(m, "lora_A")):
        A, B = m.lora_A["default"].weight, m.lora_B["default"].weight
        assert A.shape == (3, HIDDEN) and B.shape == (HIDDEN, 3) and m.lora_dropout["default"].p == 0.4
        torch.testing.assert_close(m(x), m.base_layer(x) + 12 / 3 * x @ A.T @ B.T)


@pytest.mark.parametrize("name", ["lora", "lora_replay"])
def test_storage_counts_adapters_head_and_remembered_rows(folders, s, name):
    system = fit(variant(name, folders["bert"], epochs=0), s)
    parameters, entries = LAYERS * 2 * 8 * 2 * HIDDEN + (HIDDEN + 1) * 12, 24 if "replay" in name else 0
    assert system.storage() == Storage(4 * parameters + 8 * entries * (64 + 2), entries, parameters)


# --- training


SETTINGS = dict(adapter=(8, 16, 0.05), max_length=64, lr=1e-2, weight_decay=1e-2, batch=8, device="cpu")


def mean_loss(model, backbone, X, y):
    """The mean loss over sentences, one by one, padded by nobody."""
    read = partial(load_tokeniser(backbone), truncation=True, max_length=64, return_tensors="pt")
    first = [model.backbone(**read([str(x)])).last_hidden_state[:, 0] for x in X]
    return cross_entropy(model.head(torch.cat(first)), torch.tensor(np.asarray(y)))


@kinds
def test_training_goes_on_where_it_stopped_as_if_it_had_not_stopped(folders, s, kind):
    data = dict(X=s.X_initial, y=s.y_initial, n_classes=12, seed=0, backbone=folders[kind])
    stopped, whole = (Training(**data, **SETTINGS) for _ in range(2))
    second = {name: p.clone() for name, p in stopped.after(2).items()}
    assert equal(stopped.after(3), whole.after(3)) and not equal(second, stopped.after(3))
    assert equal(stopped.after(2), second) and equal(whole.after(2), second)


def test_training_equals_plain_adamw(folders, s):
    """Without dropout, and with all rows in one batch, so that nothing is drawn."""
    backbone, settings = folders["still"], SETTINGS | dict(adapter=(8, 16, 0.0), batch=100)
    ours = Training(s.X_initial, s.y_initial, 12, 0, backbone, **settings).after(3)
    model = lora.untrained(backbone, 12, 0, 8, 16, 0.0, "cpu")
    optimiser = torch.optim.AdamW(model.learnt().values(), lr=1e-2, weight_decay=1e-2)
    for _ in range(3):
        optimiser.zero_grad()
        mean_loss(model, backbone, s.X_initial, s.y_initial).backward()
        optimiser.step()
    assert_close(ours, {name: p.detach() for name, p in model.learnt().items()}, atol=1e-5)


def test_a_fit_after_an_interrupted_one_starts_afresh(folders, s, monkeypatch):
    system, calls = LoRA(backbone=folders["bert"]), iter([cross_entropy])
    lora.training.forget()
    with monkeypatch.context() as patch, pytest.raises(StopIteration):  # in the middle of an epoch
        patch.setattr(lora, "cross_entropy", lambda *args: next(calls)(*args))
        fit(system, s)
    after = learnt(fit(system, s))
    lora.training.forget()
    assert equal(after, learnt(fit(copy.deepcopy(system), s)))


# --- corrections


def step(system, X, y, lr):
    """Adapters and head of a system after a plain SGD step, dropout off."""
    model = copy.deepcopy(system.model).eval()
    parameters = dict(model.learnt())
    gradients = torch.autograd.grad(mean_loss(model, system.backbone, X, y), list(parameters.values()))
    return {name: (p - lr * g).detach() for (name, p), g in zip(parameters.items(), gradients)}


@pytest.mark.parametrize(
    "kind, memory, replay", [("bert", 0, 0), ("deberta", 0, 0), ("bert", 1000, 7), ("bert", 16, 7)]
)
def test_a_correction_is_one_sgd_step_on_the_mean_loss_of_it_and_remembered_rows(folders, s, kind, memory, replay):
    params = dict(memory=memory, replay=replay, lr=0.5, fit_lr=0.01)
    system, rng = fit(variant("lora_no_dropout", folders[kind], 6, **params), s), np.random.default_rng(6)
    kept = rng.choice(24, min(memory, 24), replace=False)
    for x, y in corrections(s, 3):
        again, before = kept[rng.choice(len(kept), replay, replace=False)], learnt(system)
        expected = step(system, [x, *s.X_initial[again]], [y, *s.y_initial[again]], 0.5)
        system.correct(x, y)
        assert_close(learnt(system), expected, atol=1e-6)
        assert all((p - before[name]).abs().max() > 2e-5 for name, p in learnt(system).items())  # above the tolerance


@pytest.mark.parametrize("kind", ["bert", "still"])  # with the backbone's own dropout, and with the adapters' alone
def test_the_papers_correction_has_dropout_anew_at_each_step_and_can_be_repeated(folders, s, kind):
    x, y = corrections(s, 1)[0]

    def moves(name):
        system = fit(variant(name, folders[kind], lr=0.01, dropout=0.3 if kind == "still" else 0.0), s)
        start = learnt(system)
        for _ in range(2):
            system.correct(x, y)
            yield {n: p - start[n] for n, p in learnt(system).items()}
            system.model.load_state_dict(start, strict=False)

    first, second = moves("lora")
    assert not equal(first, second)
    assert all(map(equal, moves("lora"), (first, second)))
    plain, again = moves("lora_no_dropout")
    assert equal(plain, again) and not equal(plain, first)
