"""Low-rank adapters keep the contract of a system, and every correction is the step that the paper describes."""

import copy
import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from conftest import assert_watched_equals_predicted
from hypothesis import given
from hypothesis import strategies as st
from test_systems import assert_ids, assert_refused, teach

from ocrrlib import results, sweep
from ocrrlib.encoders import load_backbone, load_tokeniser
from ocrrlib.embeddings import Embedded
from ocrrlib.errors import InputError
from ocrrlib.experiments import Run
from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import SYSTEMS, make
from ocrrlib.systems.base import Storage

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("peft")
lora = pytest.importorskip("ocrrlib.systems.lora")
LoRA, Training, cross_entropy = lora.LoRA, lora.Training, torch.nn.functional.cross_entropy

TEXT = [name for name, entry in SYSTEMS.items() if entry.reads == "sentences"]
CASES = [*((name, "bert") for name in TEXT), ("lora_replay", "deberta")]
GPU = torch.cuda.is_available()

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
LIKE_V3 = dict(
    relative_attention=True,
    position_buckets=4,
    share_att_key=True,
    pos_att_type=["p2c", "c2p"],
    norm_rel_ebd="layer_norm",
    max_relative_positions=-1,
    type_vocab_size=0,
    position_biased_input=False,
)
STILL = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Backbones of random weights, each with a tokeniser: BERT, BERT without any dropout, DeBERTa as in version 3."""
    kinds = {
        "bert": (transformers.BertModel, transformers.BertConfig(**SHAPE)),
        "still": (transformers.BertModel, transformers.BertConfig(**SHAPE, **STILL)),
        "deberta": (transformers.DebertaV2Model, transformers.DebertaV2Config(**SHAPE, **LIKE_V3)),
    }
    folder = tmp_path_factory.mktemp("backbones")
    for kind, (cls, config) in kinds.items():
        with lora.torch_seed(0):
            cls(config).save_pretrained(folder / kind)
        vocab = {word: place for place, word in enumerate(VOCABULARY)}
        transformers.BertTokenizerFast(vocab=vocab).save_pretrained(folder / kind)
    return {kind: str(folder / kind) for kind in kinds}


def draw(per_class, seed):
    """Sentences that have words of their class, from three words to more than can be read; and their class ids."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(len(OWN)), per_class))
    others = rng.choice([1, 3, 9, 90], len(y), p=[0.4, 0.3, 0.2, 0.1])
    words = [[*rng.choice(OWN[id], 2), *rng.choice(COMMON, more)] for id, more in zip(y, others)]
    return np.array([" ".join(rng.permutation(row)) for row in words]), y


def dataset(encoder):
    """12 classes, 3 training sentences and one test sentence of each."""
    names = tuple(f"class {id:02d}" for id in range(len(OWN)))
    return Embedded("tiny", encoder, names, *draw(3, 0), *draw(1, 1))


@pytest.fixture(scope="module")
def s():
    """Eight known classes, 24 sentences; four new ones, 12 sentences stream by."""
    return make_scenario(dataset("none"), 0, held_out=4, cap=None)


@pytest.fixture(scope="module", autouse=True)
def on_the_processor():
    """On a GPU sums depend on the batch by more than these tests allow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: False)
        yield


@pytest.fixture(scope="module", params=CASES, ids=" on ".join)
def new(request, folders):
    """Makes a registry row's system: ``new(seed=0)``."""
    name, kind = request.param
    return partial(make, name, encoder=folders[kind])


@pytest.fixture(scope="module")
def _start(new, s):
    return fit(new(), s)


@pytest.fixture
def system(_start):
    """A registry row's system, fitted; each test has its own."""
    return copy.deepcopy(_start)


def anew(system, s):
    """The system fitted once more, sharing nothing."""
    lora.training.forget()
    return fit(system, s)


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
    assert a.keys() == b.keys()
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=0, atol=atol, msg=lambda text: f"{name}: {text}")


# --- the contract of a system, as in tests/test_systems.py


def test_every_row_of_the_registry_that_reads_sentences_is_here():
    assert {"lora", "lora_replay", "lora_no_dropout", "lora_epochs_5", "lora_epochs_10"} <= set(TEXT)
    assert all(SYSTEMS[name].cls == "LoRA" for name in TEXT)


def test_same_seed_gives_the_same_predictions_and_another_one_others(new, s):
    first, second, other = fit(new(seed=3), s), anew(new(seed=3), s), fit(new(seed=4), s)
    for pair in corrections(s, 3):
        teach(first, [pair])
        teach(second, [pair])
        np.testing.assert_array_equal(first.predict(s.queries), second.predict(s.queries))
        assert first.storage() == second.storage() and equal(learnt(first), learnt(second))
    assert not np.array_equal(first.predict(s.queries), other.predict(s.queries))


def test_corrections_alone_change_a_system(system, s):
    before, start = system.predict(s.queries), learnt(system)
    system.watch(s.queries)(np.arange(9))
    system.storage()
    np.testing.assert_array_equal(system.predict(s.queries), before)
    assert_ids(before, s, len(s.queries))
    assert equal(learnt(system), start) and (before >= 0).all()
    for pair in corrections(s, 2):
        kept = learnt(system)
        teach(system, [pair])
        assert all(not torch.equal(p, kept[name]) for name, p in learnt(system).items())


@pytest.mark.parametrize("name", TEXT)
def test_unseen_class_is_accepted_and_learnt(folders, s, name):
    system, x, unseen = fit(variant(name, folders["bert"], lr=0.05), s), s.X_stream[0], int(s.y_stream[0])
    assert unseen not in s.y_initial and system.predict([x])[0] != unseen
    assert_ids(teach(system, [(x, unseen)] * 10).predict(s.queries), s, len(s.queries))
    if "replay" not in name:  # there so few sentences of the class count for little
        assert system.predict([x])[0] == unseen


@pytest.mark.parametrize("kind", ["bert", "deberta"])
def test_initial_state_answers_its_own_sentences_if_it_is_trained_for_long(folders, s, kind):
    system = fit(variant("lora", folders[kind], epochs=20, fit_lr=0.01, batch=8), s)
    predictions = system.predict(s.X_initial)
    assert np.mean(predictions == s.y_initial) > 0.7  # by chance one of eight
    assert set(predictions.tolist()) <= set(s.y_initial.tolist())


def test_batch_equals_row_by_row(system, s):
    for part in ([], corrections(s, 3)):
        teach(system, part)
        whole = system.predict(s.queries)
        np.testing.assert_array_equal(np.concatenate([system.predict([x]) for x in s.queries]), whole)
        parts = [system.predict(part) for part in np.array_split(s.queries, 7)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
        np.testing.assert_array_equal(system.predict(s.queries[::-1]), whole[::-1])


def test_watched_queries_equal_predict_at_any_time(system, s):
    assert_watched_equals_predicted(system, s, corrections(s, 4), halfway=2)


def test_no_sentences_get_no_answers(system, s):
    assert system.predict(s.queries[:0]).shape == (0,)


def test_empty_initial_set_is_coped_with(new, s):
    system = new().fit(s.X_initial[:0], s.y_initial[:0], s.classes)
    teach(system, corrections(s, 2))
    assert_ids(system.predict(s.queries), s, len(s.queries))
    assert system.storage().entries == 0


def test_fit_again_starts_afresh(new, s, system):
    other = make_scenario(dataset("none"), 1, held_out=6)
    used = teach(fit(new(), other), corrections(other, 2))
    assert fit(used, s) is used
    for part in ([], corrections(s, 2)):
        assert equal(learnt(teach(used, part)), learnt(teach(system, part))) and used.storage() == system.storage()
    np.testing.assert_array_equal(used.predict(s.queries), system.predict(s.queries))


def test_fit_again_may_change_the_classes(system, s):
    system = system.fit(s.X_initial[:5], np.arange(5) % 2, ("no", "yes", "perhaps"))
    assert set(teach(system, [(s.X_initial[0], 2)]).predict(s.queries).tolist()) <= {0, 1, 2}


def test_pickled_system_goes_on_as_the_original(system, s):
    pairs = corrections(s, 4)
    for part in (pairs[:2], pairs[2:]):
        twin = pickle.loads(pickle.dumps(system))
        np.testing.assert_array_equal(twin.predict(s.queries), system.predict(s.queries))
        teach(twin, part)
        teach(system, part)
        assert equal(learnt(twin), learnt(system)) and twin.storage() == system.storage()


def test_inputs_are_neither_changed_nor_depended_on_later(new, s, system):
    X, y, Q, classes = s.X_initial.copy(), s.y_initial.copy(), s.queries.copy(), list(s.classes)
    loose = new().fit(X, y, classes)
    np.testing.assert_array_equal(X, s.X_initial)
    np.testing.assert_array_equal(y, s.y_initial)
    assert classes == list(s.classes)
    X[:], y[:] = X[::-1].copy(), 0
    classes.clear()
    assert equal(learnt(teach(loose, corrections(s, 2))), learnt(teach(system, corrections(s, 2))))
    np.testing.assert_array_equal(loose.predict(Q), system.predict(s.queries))
    np.testing.assert_array_equal(Q, s.queries)
    assert X.flags.writeable and Q.flags.writeable


def test_lists_and_other_string_types_are_read_as_the_same_sentences(new, s, system):
    loose = new().fit(s.X_initial.tolist(), s.y_initial.astype(np.int32), s.classes)
    for kind, (x, y) in zip((str, np.array, np.str_), corrections(s, 3)):
        system.correct(x, y)
        loose.correct(kind(x), np.int16(y))
    assert equal(learnt(system), learnt(loose))
    for rows in (s.queries.tolist(), s.queries.astype(object)):
        np.testing.assert_array_equal(system.predict(s.queries), loose.predict(rows))


NO_SENTENCES = {
    "embeddings": np.eye(4, dtype=np.float32),
    "one sentence": "how do I top up?",
    "one axis too many": [["how", "do"], ["I", "top"]],
    "bytes": [b"how do I top up?"],
    "a missing one": np.array(["how do I top up?", None]),
    "nothing": None,
}


def test_bad_input_is_refused_in_one_clear_line_and_changes_nothing(system, s):
    teach(system, corrections(s, 1))
    fresh = copy.deepcopy(system)
    X, y, C = s.X_initial[:9], s.y_initial[:9], len(s.classes)
    before, start, held = system.predict(s.queries), learnt(system), system.storage()

    for rows in NO_SENTENCES.values():
        assert_refused("rows must be sentences", system.predict, rows)
        assert_refused("rows must be sentences", system.fit, rows, y, s.classes)
    for row in (np.eye(4, dtype=np.float32)[0], ["how"], ["how", "do"], np.array(["how"]), b"how", 1.0, None):
        assert_refused("rows must be sentences", system.correct, row, 0)
    for empty in ("", "  ", "\t\n"):
        assert_refused("row 9 is an empty sentence", system.predict, np.append(X, empty))
        assert_refused("row 9 is an empty sentence", system.fit, np.append(X, empty), np.append(y, 0), s.classes)
        assert_refused("row 0 is an empty sentence", system.correct, empty, 0)
    assert_refused("fit needs", system.fit, X, y[:-1], s.classes)
    assert_refused("fit needs", system.fit, X, y[:, None], s.classes)
    for label in (-1, C, 10**12, 1.5, np.nan, "card", None):
        assert_refused("class id", system.correct, X[0], label)
    for label in (-1, C):
        assert_refused("class ids", system.fit, X, np.append(y[:-1], label), s.classes)
    assert_refused("class ids", system.fit, X, y.astype(float), s.classes)

    np.testing.assert_array_equal(system.predict(s.queries), before)
    assert system.storage() == held and equal(learnt(system), start)
    assert equal(learnt(teach(system, corrections(s, 2))), learnt(teach(fresh, corrections(s, 2))))


def test_a_system_that_was_not_fitted_says_so(new, s):
    assert_refused("call fit first", new().predict, s.queries)
    assert_refused("call fit first", new().correct, s.queries[0], 0)


def test_a_system_whose_fit_failed_is_not_fitted(s, tmp_path):
    system = LoRA(backbone=str(tmp_path))
    with pytest.raises(InputError, match="cannot load"):
        fit(system, s)
    assert_refused("call fit first", system.predict, s.queries)


def test_a_stream_equals_a_plain_loop_that_asks_row_by_row(new, s, system):
    steps = list(run_stream(new(), s, POLICIES["random50"], every=5))
    assert [c.step for c in steps] == [0, 5, 10, 12]
    coins, corrected = POLICIES["random50"].draws(s.seed, 12), 0
    for first, c in zip((0, 0, 5, 10), steps):
        for n in range(first, c.step):
            if coins[n] and system.predict(s.X_stream[n : n + 1])[0] != s.y_stream[n]:
                system.correct(s.X_stream[n], s.y_stream[n])
                corrected += 1
        assert c.corrections == corrected
        assert c.novel_acc == np.mean(system.predict(s.X_novel) == s.y_novel)
        assert c.original_acc == np.mean(system.predict(s.X_original) == s.y_original)
        assert (c.storage_bytes, c.stored_entries) == (system.storage().bytes, system.storage().entries)
    assert corrected > 2


# --- what is learnt


@pytest.mark.parametrize(
    "kind, targets", [("bert", ["query", "value"]), ("deberta", ["query_proj", "value_proj"])], ids=["bert", "deberta"]
)
def test_adapters_sit_on_all_query_and_value_projections_and_on_nothing_else(folders, s, kind, targets):
    assert lora.attention_targets(load_backbone(folders[kind])) == targets
    names = fit(LoRA(backbone=folders[kind]), s).model.learnt().keys() - {"head.weight", "head.bias"}
    layers = {name.rsplit(".lora_", 1)[0].removeprefix("backbone.base_model.model.") for name in names}
    path = "encoder.layer.{}.attention.self.{}"
    assert layers == {path.format(layer, target) for layer in range(LAYERS) for target in targets}


def test_a_model_without_such_projections_is_refused_with_the_layers_that_there_are():
    model = torch.nn.ModuleDict(
        {"up": torch.nn.Linear(2, 2), "down": torch.nn.Linear(2, 2), "norm": torch.nn.Sigmoid()}
    )
    assert_refused(r"\['down', 'up'\]", lora.attention_targets, model)


@pytest.mark.parametrize("kind", ["bert", "deberta"])
def test_rank_alpha_and_dropout_reach_the_adapters(folders, s, kind):
    model = fit(LoRA(backbone=folders[kind], rank=3, alpha=12, dropout=0.4, fit_lr=0.01), s).model.eval()
    adapted = [m for m in model.modules() if hasattr(m, "lora_A")]
    assert len(adapted) == 2 * LAYERS
    x = torch.randn(5, HIDDEN, generator=torch.Generator().manual_seed(0))
    for m in adapted:
        A, B = m.lora_A["default"].weight, m.lora_B["default"].weight
        assert A.shape == (3, HIDDEN) and B.shape == (HIDDEN, 3) and m.lora_dropout["default"].p == 0.4
        torch.testing.assert_close(m(x), m.base_layer(x) + 12 / 3 * x @ A.T @ B.T)
        assert B.abs().max() > 1e-3  # learnt from zero


def test_only_adapters_and_head_change_by_training_and_corrections(system, s):
    teach(system, corrections(s, 2))
    frozen = {name: p for name, p in system.model.backbone.named_parameters() if not p.requires_grad}
    frozen = {name.removeprefix("base_model.model.").replace(".base_layer", ""): p for name, p in frozen.items()}
    assert equal(frozen, dict(load_backbone(system.backbone).named_parameters()))


@pytest.mark.parametrize("rank, n_classes", [(8, 12), (1, 3)])
@pytest.mark.parametrize("name", TEXT)
def test_storage_counts_adapters_head_and_remembered_rows(folders, s, name, rank, n_classes):
    classes = s.classes[:n_classes]
    system = variant(name, folders["bert"], rank=rank, epochs=0).fit(s.X_initial, s.y_initial % n_classes, classes)
    parameters = LAYERS * 2 * rank * 2 * HIDDEN + (HIDDEN + 1) * n_classes
    assert parameters == sum(p.numel() for p in system.model.parameters() if p.requires_grad)
    entries = len(s.y_initial) if "replay" in name else 0
    held = Storage(4 * parameters + 8 * entries * (64 + 2), entries, parameters)
    for pair in [None, *corrections(s, 2)]:
        teach(system, [(pair[0], pair[1] % n_classes)] if pair else [])
        assert system.storage() == held
        assert [type(value) for value in vars(held).values()] == [type(v) for v in vars(system.storage()).values()]


def test_the_papers_backbone_has_434_million_parameters_of_which_865_357_are_learnt():
    shape = dict(vocab_size=128_100, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16)
    with torch.device("meta"):
        config = transformers.DebertaV2Config(**shape, intermediate_size=4096, **LIKE_V3 | dict(position_buckets=256))
        backbone = transformers.DebertaV2Model(config)
        whole = sum(p.numel() for p in backbone.parameters())
        counts = {name: p.numel() for name, p in lora.Classifier(backbone, 77, 8, 16, 0.05).learnt().items()}
    assert 430e6 < whole < 440e6
    head = counts.pop("head.weight") + counts.pop("head.bias")
    assert (sum(counts.values()), head) == (786_432, 78_925)
    assert sum(counts.values()) + head == 865_357


# --- training


def rows_of(s, n_classes=12, seed=0):
    return dict(X=s.X_initial, y=s.y_initial, n_classes=n_classes, seed=seed)


SETTINGS = dict(adapter=(8, 16, 0.05), max_length=64, lr=1e-2, weight_decay=1e-2, batch=8, device="cpu")


@pytest.mark.parametrize("kind", ["bert", "deberta"])
def test_training_goes_on_where_it_stopped_as_if_it_had_not_stopped(folders, s, kind):
    stopped, whole = (Training(**rows_of(s), backbone=folders[kind], **SETTINGS) for _ in range(2))
    second = {name: p.clone() for name, p in stopped.after(2).items()}
    third = stopped.after(3)
    assert equal(third, whole.after(3)) and not equal(second, third)
    assert equal(stopped.after(2), second) and equal(whole.after(2), second)


def test_before_any_epoch_adapters_change_nothing_and_the_head_is_a_fresh_one(folders, s):
    start = Training(**rows_of(s, seed=7), backbone=folders["bert"], **SETTINGS).after(0)
    fresh = lora.untrained(folders["bert"], 12, 7, 8, 16, 0.05, "cpu")
    assert equal(start, {name: p.detach() for name, p in fresh.learnt().items()})
    tokens = load_tokeniser(folders["bert"])([str(s.X_stream[0])], return_tensors="pt")
    plain = load_backbone(folders["bert"]).eval()(**tokens).last_hidden_state[:, 0]
    ours = fresh.eval()(tokens["input_ids"], tokens["attention_mask"])
    torch.testing.assert_close(ours, plain @ start["head.weight"].T + start["head.bias"])


def test_training_equals_plain_adamw(folders, s):
    """Without dropout, and with all rows in one batch, so that nothing is drawn."""
    backbone, settings = folders["still"], SETTINGS | dict(adapter=(8, 16, 0.0), batch=100)
    ours = Training(**rows_of(s), backbone=backbone, **settings).after(3)
    model = lora.untrained(backbone, 12, 0, 8, 16, 0.0, "cpu")
    optimiser = torch.optim.AdamW(model.learnt().values(), lr=1e-2, weight_decay=1e-2)
    for _ in range(3):
        optimiser.zero_grad()
        mean_loss(model, backbone, s.X_initial, s.y_initial).backward()
        optimiser.step()
    assert_close(ours, {name: p.detach() for name, p in model.learnt().items()}, atol=1e-5)


def test_an_epoch_sees_every_row_once_in_new_batches_of_neighbours_in_length(folders, s, monkeypatch):
    seen, logits = [], lora.logits
    monkeypatch.setattr(lora, "logits", lambda model, tokens, n: seen.append((tokens, n)) or logits(model, tokens, n))
    Training(**rows_of(s), backbone=folders["bert"], **SETTINGS | dict(batch=4)).after(2)
    everything = sorted(lora.tokenise(s.X_initial, folders["bert"], 64)[0].tolist())
    compositions = []
    for epoch in (seen[:6], seen[6:]):
        assert [len(lengths) for _, lengths in epoch] == [4] * 6  # 24 rows
        assert sorted(np.concatenate([tokens for tokens, _ in epoch]).tolist()) == everything
        by_length = sorted([sorted(lengths.tolist()) for _, lengths in epoch])
        assert sum(by_length, []) == sorted(sum(by_length, []))
        assert [sorted(lengths.tolist()) for _, lengths in epoch] != by_length  # short ones do not come first
        compositions.append(sorted(sorted(tokens.tolist()) for tokens, _ in epoch))
    assert compositions[0] != compositions[1]


def test_systems_that_share_their_training_equal_those_that_do_not(folders, s):
    shared = [fit(variant("lora", folders["bert"], epochs=epochs), s) for epochs in (2, 4, 2)]
    teach(shared[0], corrections(s, 2))
    for epochs, system in zip((4, 2), shared[1:]):
        assert equal(learnt(system), learnt(anew(variant("lora", folders["bert"], epochs=epochs), s)))


def test_a_fit_after_an_interrupted_one_starts_afresh(folders, s, monkeypatch):
    system, left = LoRA(backbone=folders["bert"]), iter([False, True])  # in the middle of an epoch
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(lora, "cross_entropy", lambda *args: cross_entropy(*args) if not next(left) else stop())
        anew(system, s)
    assert equal(learnt(fit(system, s)), learnt(anew(copy.deepcopy(system), s)))


def stop():
    raise KeyboardInterrupt


# --- corrections


def mean_loss(model, backbone, X, y):
    """The mean loss over sentences, one by one, padded by nobody."""
    read = partial(load_tokeniser(backbone), truncation=True, max_length=64, return_tensors="pt")
    first = [model.backbone(**read([str(x)])).last_hidden_state[:, 0] for x in X]
    return cross_entropy(model.head(torch.cat(first)), torch.tensor(np.asarray(y)))


def step(system, X, y, lr):
    """What a plain SGD step, with dropout off, makes of a system's adapters and head."""
    model = copy.deepcopy(system.model).eval()
    parameters = dict(model.learnt())
    gradients = torch.autograd.grad(mean_loss(model, system.backbone, X, y), list(parameters.values()))
    return {name: (p - lr * g).detach() for (name, p), g in zip(parameters.items(), gradients)}


def assert_moved(system, before, expected):
    after = learnt(system)
    assert_close(after, expected, atol=5e-7)
    assert all((after[name] - before[name]).abs().max() > 1e-5 for name in after)  # well above the tolerance


@pytest.mark.parametrize("kind", ["bert", "deberta"])
def test_a_correction_is_one_step_of_plain_sgd_on_the_loss_of_its_sentence(folders, s, kind):
    system = fit(variant("lora_no_dropout", folders[kind], lr=0.1, fit_lr=0.01), s)
    for x, y in corrections(s, 5):
        before, expected = learnt(system), step(system, [x], [y], 0.1)
        system.correct(x, y)
        assert_moved(system, before, expected)


def test_a_correction_takes_the_published_step():
    assert {SYSTEMS[name].params["lr"] for name in TEXT if "summed" not in name} == {5e-4}


@pytest.fixture(scope="module")
def many():
    """Eleven known classes, 33 sentences; more than are replayed at a time."""
    return make_scenario(dataset("none"), 0, held_out=1, cap=None)


@pytest.mark.parametrize("memory", [1000, 32, 9], ids=["all rows", "some rows", "fewer rows than are replayed"])
@pytest.mark.parametrize("kind", ["bert", "deberta"])
def test_replay_takes_the_mean_loss_over_the_correction_and_31_remembered_rows(folders, many, kind, memory):
    s, params = many, dict(memory=memory, lr=0.5, fit_lr=0.01, correct_with_dropout=False)
    system, rng = fit(variant("lora_replay", folders[kind], seed=6, **params), s), np.random.default_rng(6)
    kept = rng.choice(33, min(memory, 33), replace=False)
    for x, y in corrections(s, 2):
        again = kept[rng.choice(len(kept), min(31, len(kept)), replace=False)]
        X, labels = [x, *s.X_initial[again]], [y, *s.y_initial[again]]
        assert len(set(again.tolist())) == min(31, memory)
        before, expected = learnt(system), step(system, X, labels, 0.5)
        system.correct(x, y)
        assert_moved(system, before, expected)


@pytest.mark.skipif("lora_replay_summed" not in SYSTEMS, reason="there is no such row")
def test_the_summed_replay_takes_the_sum_of_32_losses_at_the_step_of_one(folders, many):
    s, rng = many, np.random.default_rng(0)
    system = fit(variant("lora_replay_summed", folders["bert"], correct_with_dropout=False), s)
    again = rng.choice(33, 33, replace=False)[rng.choice(33, 31, replace=False)]
    x, y = corrections(s, 1)[0]
    start = learnt(system)
    ones = [
        step(system, [row], [label], 5e-4) for row, label in zip([x, *s.X_initial[again]], [y, *s.y_initial[again]])
    ]
    system.correct(x, y)
    expected = {name: p + sum(one[name] - p for one in ones) for name, p in start.items()}
    assert_close(learnt(system), expected, atol=2e-6)


@pytest.mark.parametrize("kind", ["bert", "still"])  # with the backbone's own dropout, and with the adapters' alone
def test_the_papers_correction_has_dropout_anew_at_each_step_and_can_be_repeated(folders, s, kind):
    dropout = dict(dropout=0.3) if kind == "still" else dict(dropout=0.0)
    x, y = corrections(s, 1)[0]

    def moves(name, lr=0.01):
        system = fit(variant(name, folders[kind], lr=lr, **dropout), s)
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


# --- tokens and batches


def test_sentences_are_padded_and_cut_to_the_tokens_that_are_read(folders):
    word = {word: place for place, word in enumerate(VOCABULARY)}
    X = np.array(["common1", "common1 common2 common3", " ".join(["common4"] * 50), "common5 unheard"])
    tokens, lengths = lora.tokenise(X, folders["bert"], 6)
    a, b = word["[CLS]"], word["[SEP]"]
    assert tokens.tolist() == [
        [a, word["common1"], b, 0, 0, 0],
        [a, word["common1"], word["common2"], word["common3"], b, 0],
        [a, *[word["common4"]] * 4, b],
        [a, word["common5"], word["[UNK]"], b, 0, 0],
    ]
    assert lengths.tolist() == [3, 5, 6, 4] and tokens.dtype == lengths.dtype == np.int64


@pytest.mark.parametrize("kind", ["bert", "deberta"])
def test_what_is_beyond_the_tokens_that_are_read_changes_nothing(folders, s, kind):
    long = [" ".join(rng_words) for rng_words in (["common1"] * 90, ["common1"] * 90 + ["common2"])]
    system = fit(LoRA(backbone=folders[kind]), s)
    twin = copy.deepcopy(system)
    for sentence, one in zip(long, (system, twin)):
        one.correct(sentence, 1)
    assert equal(learnt(system), learnt(twin))


@pytest.mark.parametrize("kind", ["bert", "deberta"])
def test_a_rows_logits_do_not_depend_on_how_far_it_is_padded(folders, s, kind):
    model = fit(LoRA(backbone=folders[kind]), s).model.eval()
    tokens, lengths = lora.tokenise(s.queries, folders[kind], 64)
    assert lengths.min() < 6 and lengths.max() == 64
    together = lora.logits(model, tokens, lengths)
    alone = [lora.logits(model, tokens[i : i + 1], lengths[i : i + 1]) for i in range(len(tokens))]
    torch.testing.assert_close(together, torch.cat(alone), rtol=0, atol=1e-4)


def test_a_scenario_is_tokenised_once_for_all_runs(folders, monkeypatch):
    read = []
    tokeniser = load_tokeniser(folders["bert"])
    monkeypatch.setattr(
        lora, "load_tokeniser", lambda name: lambda X, **how: read.append(len(X)) or tokeniser(X, **how)
    )
    s = make_scenario(dataset("none"), 3, held_out=4)
    for name in ("lora", "lora_replay", "lora_epochs_5"):
        for policy in ("oracle", "random10"):
            list(run_stream(make(name, 0, folders["bert"]), s, POLICIES[policy]))
    assert [n for n in read if n > 1] == [len(s.X_initial), len(s.queries)]
    assert read.count(1) > 3  # corrections come one by one


@given(st.data())
def test_batches_are_all_rows_once_sorted_by_length(data):
    lengths = np.array(data.draw(st.lists(st.integers(2, 64), min_size=1, max_size=60)))
    rows = np.array(data.draw(st.permutations(range(len(lengths)))), np.int64)
    rows, size = rows[: data.draw(st.integers(0, len(rows)))], data.draw(st.integers(1, 20))
    batches = lora.by_length(lengths, rows, size)
    together = np.concatenate([rows[:0], *batches])
    assert sorted(together) == sorted(rows) and (np.diff(lengths[together]) >= 0).all()
    assert all(len(batch) == size for batch in batches[:-1])
    assert all(0 < len(batch) <= size for batch in batches)


# --- nothing outside decides or is changed


@pytest.fixture
def threads():
    """Sets torch's threads; they are as before in the end."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_torchs_threads_and_random_state_are_left_as_they_were(new, s, threads):
    threads(2)
    torch.manual_seed(99)
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    system = new()
    for act in (
        lambda: anew(system, s),
        lambda: system.predict(s.queries),
        lambda: system.watch(s.queries)(np.arange(3)),
        lambda: system.correct(s.X_stream[0], 1),
    ):
        act()
        assert torch.get_num_threads() == 2
        assert torch.equal(torch.get_rng_state(), torch_state)
        np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)


def test_results_depend_neither_on_threads_nor_on_a_callers_seed(new, s, threads):
    ends = []
    for number in (1, 2):
        threads(number)
        torch.manual_seed(number)
        system = anew(new(), s)
        torch.rand(number)
        ends.append((learnt(teach(system, corrections(s, 2))), system.predict(s.queries)))
    assert equal(ends[0][0], ends[1][0])
    np.testing.assert_array_equal(ends[0][1], ends[1][1])


# --- sweeps


@pytest.fixture(scope="module")
def job(folders):
    """Two scenarios, two rows of the registry each; and the dataset."""
    backbone = folders["bert"]
    systems = ("lora", "lora_replay")
    runs = [Run("tiny", backbone, "oracle", seed, system, cap=10) for seed in (1, 0) for system in systems]
    return runs, {"tiny": dataset(backbone)}


@pytest.fixture(scope="module")
def reference(job):
    """The results of all runs, done one after the other without any cache."""
    return sweep.sweep(*job, cache=None, progress=False)[0]


def as_bytes(frame, path):
    results.write(frame, {}, path)
    return path.read_bytes()


@pytest.mark.skipif(GPU, reason="workers would use the GPU")
def test_two_workers_give_the_bytes_of_one(job, reference, tmp_path):
    frame, _ = sweep.sweep(*job, jobs=2, cache=None, progress=False)
    assert as_bytes(frame, tmp_path / "two") == as_bytes(reference, tmp_path / "one")
    assert reference.groupby(["seed", "system"], sort=False)["corrections"].max().gt(15).all()


def test_a_finished_run_is_not_repeated(job, reference, tmp_path, monkeypatch):
    (runs, datasets), ran, stream = job, [], sweep.run_stream
    monkeypatch.setattr(sweep, "run_stream", lambda system, *how: ran.append(system) or stream(system, *how))
    sweep.sweep(runs[:3], datasets, cache=tmp_path, progress=False)
    assert len(ran) == 3
    frame, _ = sweep.sweep(runs, datasets, cache=tmp_path, progress=False)
    assert len(ran) == 4
    pd.testing.assert_frame_equal(frame, reference, check_exact=True)


def test_sentences_for_another_backbone_are_refused(job, folders):
    runs, _ = job
    with pytest.raises(InputError, match="tiny was embedded by .*deberta.*, not by .*bert"):
        sweep.sweep(runs, {"tiny": dataset(folders["deberta"])}, cache=None, progress=False)
