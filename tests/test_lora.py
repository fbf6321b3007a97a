"""Low-rank adapters: training resumes and stops as promised, corrections are the paper's step.

``tests/test_systems.py`` has the contract of a system.
"""

import copy
from functools import partial

import numpy as np
import pytest

from ocrrlib.encoders import load_backbone, load_tokeniser
from ocrrlib.scenario import make_scenario
from ocrrlib.systems import SYSTEMS
from ocrrlib.systems.base import Storage
from tests.samples import assert_refused, corrections, teach

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch")
pytest.importorskip("peft")
lora = pytest.importorskip("ocrrlib.systems.lora")
Training = lora.Training
cross_entropy = torch.nn.functional.cross_entropy
# of the backbones
HIDDEN = 16
LAYERS = 2
kinds = pytest.mark.parametrize("kind", ["bert", "deberta"])


@pytest.fixture(scope="module")
def s(sentences):
    """Eight known classes, 24 sentences; four new ones, 12 sentences stream by."""
    return make_scenario(sentences, 0, held_out=4, cap=None)


@pytest.fixture
def fitted(s, backbones):
    """A registry row's system with some hyperparameters changed, fitted."""

    def fit(name, kind, seed=0, **params):
        system = lora.LoRA(seed, backbones[kind], **SYSTEMS[name].params | params)
        return system.fit(s.X_initial, s.y_initial, s.classes)

    return fit


def learnt(system):
    return {name: p.detach().clone() for name, p in system.model.learnt().items()}


def equal(a, b):
    """Whether two dictionaries of tensors are the same, bit for bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def assert_close(a, b, atol):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


@kinds
def test_neither_threads_nor_the_state_of_torch_matter_or_change(fitted, s, kind):
    ends = []
    before = torch.get_num_threads()
    for number in (1, 2):
        torch.set_num_threads(number)
        torch.manual_seed(number)
        state = torch.get_rng_state()
        lora.training.forget()
        ends.append(learnt(teach(fitted("lora_replay", kind), corrections(s, 3))))
        assert torch.get_num_threads() == number and torch.equal(torch.get_rng_state(), state)
    torch.set_num_threads(before)
    assert equal(*ends)


def test_bad_input_is_refused_in_one_line_and_changes_nothing(fitted, s):
    assert_refused("call fit first", lora.LoRA().predict, s.queries)
    system = fitted("lora", "bert")
    start = learnt(system)
    assert_refused("rows must be sentences", system.predict, np.eye(4, dtype=np.float32))
    assert_refused("rows must be sentences", system.correct, ["how", "do"], 0)
    assert_refused("row 1 is an empty sentence", system.predict, ["how", " \t"])
    assert_refused("class id", system.correct, "how", len(s.classes))
    assert equal(learnt(system), start)


@kinds
def test_adapters_sit_on_all_query_and_value_projections_and_alone_change(fitted, s, kind):
    targets = {"bert": ["query", "value"], "deberta": ["query_proj", "value_proj"]}[kind]
    system = teach(
        fitted("lora", kind, rank=3, alpha=12, dropout=0.4, fit_lr=0.01), corrections(s, 2)
    )
    names = system.model.learnt().keys() - {"head.weight", "head.bias"}
    layers = {
        name.rsplit(".lora_", 1)[0].removeprefix("backbone.base_model.model.") for name in names
    }
    assert layers == {
        f"encoder.layer.{layer}.attention.self.{t}" for layer in range(LAYERS) for t in targets
    }
    frozen = {
        name: p for name, p in system.model.backbone.named_parameters() if not p.requires_grad
    }
    frozen = {
        name.removeprefix("base_model.model.").replace(".base_layer", ""): p
        for name, p in frozen.items()
    }
    assert equal(frozen, dict(load_backbone(system.backbone).named_parameters()))
    for m in (m for m in system.model.modules() if hasattr(m, "lora_A")):
        assert (m.r["default"], m.scaling["default"], m.lora_dropout["default"].p) == (
            3,
            12 / 3,
            0.4,
        )


@pytest.mark.parametrize("name", ["lora", "lora_replay"])
def test_storage_counts_adapters_head_and_remembered_rows(fitted, name):
    parameters = LAYERS * 2 * 8 * 2 * HIDDEN + (HIDDEN + 1) * 12
    entries = 24 if "replay" in name else 0
    held = fitted(name, "bert", epochs=0).storage()
    assert held == Storage(4 * parameters + 8 * entries * (64 + 2), entries, parameters)


SETTINGS = dict(
    adapter=(8, 16, 0.05), max_length=64, lr=1e-2, weight_decay=1e-2, batch=8, device="cpu"
)


def mean_loss(model, backbone, X, y):
    """The mean loss over sentences, one by one, padded by nobody."""
    read = partial(load_tokeniser(backbone), truncation=True, max_length=64, return_tensors="pt")
    first = [model.backbone(**read([str(x)])).last_hidden_state[:, 0] for x in X]
    return cross_entropy(model.head(torch.cat(first)), torch.tensor(np.asarray(y)))


@kinds
def test_training_goes_on_where_it_stopped_as_if_it_had_not_stopped(backbones, s, kind):
    data = dict(X=s.X_initial, y=s.y_initial, n_classes=12, seed=0, backbone=backbones[kind])
    stopped, whole = (Training(**data, **SETTINGS) for _ in range(2))
    second = {name: p.clone() for name, p in stopped.after(2).items()}
    assert equal(stopped.after(3), whole.after(3)) and not equal(second, stopped.after(3))
    assert equal(stopped.after(2), second) and equal(whole.after(2), second)


def test_training_equals_plain_adamw(backbones, s):
    """Without dropout, and with all rows in one batch, so that nothing is drawn."""
    backbone = backbones["still"]
    settings = SETTINGS | dict(adapter=(8, 16, 0.0), batch=100)
    ours = Training(s.X_initial, s.y_initial, 12, 0, backbone, **settings).after(3)
    model = lora.untrained(backbone, 12, 0, 8, 16, 0.0, "cpu")
    optimiser = torch.optim.AdamW(model.learnt().values(), lr=1e-2, weight_decay=1e-2)
    for _ in range(3):
        optimiser.zero_grad()
        mean_loss(model, backbone, s.X_initial, s.y_initial).backward()
        optimiser.step()
    assert_close(ours, {name: p.detach() for name, p in model.learnt().items()}, atol=1e-5)


def test_a_fit_after_an_interrupted_one_starts_afresh(fitted, monkeypatch):
    calls = iter([cross_entropy])
    lora.training.forget()
    with monkeypatch.context() as patch, pytest.raises(StopIteration):  # in the middle of an epoch
        patch.setattr(lora, "cross_entropy", lambda *args: next(calls)(*args))
        fitted("lora", "bert")
    after = learnt(fitted("lora", "bert"))
    lora.training.forget()
    assert equal(after, learnt(fitted("lora", "bert")))


def step(system, X, y, lr):
    """Adapters and head of a system after a plain SGD step, dropout off."""
    model = copy.deepcopy(system.model).eval()
    parameters = dict(model.learnt())
    gradients = torch.autograd.grad(
        mean_loss(model, system.backbone, X, y), list(parameters.values())
    )
    return {name: (p - lr * g).detach() for (name, p), g in zip(parameters.items(), gradients)}


@pytest.mark.parametrize(
    "kind, memory, replay", [("bert", 0, 0), ("deberta", 1000, 12), ("bert", 16, 12)]
)
def test_a_correction_is_one_sgd_step_on_the_mean_loss_of_it_and_remembered_rows(
    fitted, s, kind, memory, replay
):
    params = dict(memory=memory, replay=replay, lr=0.5, fit_lr=0.01)
    system = fitted("lora_no_dropout", kind, 6, **params)
    rng = np.random.default_rng(6)
    kept = rng.choice(24, min(memory, 24), replace=False)
    for x, y in corrections(s, 3):
        again = kept[rng.choice(len(kept), replay, replace=False)]
        before = learnt(system)
        expected = step(system, [x, *s.X_initial[again]], [y, *s.y_initial[again]], 0.5)
        system.correct(x, y)
        assert_close(learnt(system), expected, atol=1e-6)
        # Above the tolerance.
        assert all((p - before[name]).abs().max() > 2e-5 for name, p in learnt(system).items())


# With the backbone's own dropout, and with the adapters' alone.
@pytest.mark.parametrize("kind", ["bert", "still"])
def test_the_papers_correction_has_dropout_anew_at_each_step_and_can_be_repeated(fitted, s, kind):
    x, y = corrections(s, 1)[0]

    def moves(name):
        system = fitted(name, kind, lr=0.01, dropout=0.3 if kind == "still" else 0.0)
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
