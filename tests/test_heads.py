"""Heads in closed form: training and every correction equal plain torch and its autograd."""

import numpy as np
import pytest
from conftest import clusters, rows

from ocrrlib.systems.heads import AGEM, EWC, LinearHead, LwF, OnlineLinear, StaticLinear, TorchDraws, train_head

torch = pytest.importorskip("torch")
F = torch.nn.functional

TRAINING = dict(epochs=6, fit_lr=1e-2, weight_decay=1e-4, batch=32)
LR, KNOWN, CLASSES = 0.05, 6, 9


def trained(X, y, n_classes, seed, epochs, fit_lr, weight_decay, batch):
    """The published training loop in plain torch, float64 from its float32 start."""
    torch.manual_seed(seed)
    head = torch.nn.Linear(X.shape[1], n_classes).double()
    optimizer = torch.optim.AdamW(head.parameters(), lr=fit_lr, weight_decay=weight_decay)
    generator = torch.Generator().manual_seed(seed)
    X, y = torch.from_numpy(X).double(), torch.from_numpy(y)
    for _ in range(epochs):
        order = torch.randperm(len(X), generator=generator)
        for start in range(0, len(X), batch):
            picked = order[start : start + batch]
            optimizer.zero_grad()
            F.cross_entropy(head(X[picked]), y[picked]).backward()
            optimizer.step()
    return head


def numbers(head):
    return [p.detach().numpy() for p in head.parameters()]


def assert_equal(system, head, rtol=0.0):
    for ours, theirs in zip((system.W, system.b), numbers(head)):
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=1e-9)


def tensors(x, y):
    return torch.from_numpy(x).double()[None], torch.tensor([y])


def step(head, gradients):
    """Plain SGD."""
    with torch.no_grad():
        for parameter, gradient in zip(head.parameters(), gradients):
            parameter -= LR * gradient


@pytest.fixture(scope="module")
def initial():
    return clusters(KNOWN, 15, 8, seed=3)


@pytest.fixture(scope="module")
def corrections():
    """Rows of known and of new classes."""
    return rows(40, 8, 4), np.random.default_rng(5).integers(0, CLASSES, 40).tolist()


def fitted(cls, initial, seed=1, **params):
    """A system and a torch head, both after the initial training."""
    X, y = initial
    system = cls(seed, **params, **TRAINING).fit(X, y, range(CLASSES))
    head = trained(X, y, CLASSES, seed, **TRAINING)
    assert_equal(system, head)
    return system, head


@pytest.mark.parametrize("seed", [0, 1, 42])
@pytest.mark.parametrize("n, d, n_classes, batch", [(90, 8, 6, 32), (64, 16, 3, 64), (10, 4, 2, 256), (50, 30, 7, 1)])
def test_training_equals_torch(n, d, n_classes, batch, seed):
    X, y = rows(n, d, seed), np.random.default_rng(seed).integers(0, n_classes, n)
    settings = dict(epochs=5, fit_lr=1e-2, weight_decay=1e-2, batch=batch)
    W, b = train_head(X, y, n_classes, seed, **settings)
    weight, bias = numbers(trained(X, y, n_classes, seed, **settings))
    np.testing.assert_allclose(W, weight, rtol=0, atol=1e-9)
    np.testing.assert_allclose(b, bias, rtol=0, atol=1e-9)


def test_default_settings_are_the_published_ones(tiny):
    weight, bias = numbers(trained(tiny.X_train, tiny.y_train, 12, 0, 30, 1e-2, 1e-4, 256))
    W, b = train_head(tiny.X_train, tiny.y_train, 12, 0)
    np.testing.assert_allclose(W, weight, rtol=0, atol=1e-9)
    np.testing.assert_allclose(b, bias, rtol=0, atol=1e-9)


def test_static_linear_is_a_head_over_the_known_classes_alone(initial):
    X, y = initial
    ids = np.array([8, 1, 7, 4, 0, 5])  # the known classes' ids, with gaps
    system = StaticLinear(2, **TRAINING).fit(X, ids[y], range(CLASSES))
    ranks = np.searchsorted(np.sort(ids), ids[y])
    head = trained(X, ranks, KNOWN, 2, **TRAINING)
    assert_equal(system, head)
    Q = rows(50, 8, 6)
    expected = np.sort(ids)[head(torch.from_numpy(Q).double()).argmax(1).numpy()]
    np.testing.assert_array_equal(system.predict(Q), expected)


def test_prediction_is_the_highest_logit_and_classes_not_met_have_no_probability(initial):
    system, head = fitted(LinearHead, initial)
    Q = rows(50, 8, 6)
    logits = head(torch.from_numpy(Q).double()).detach()
    np.testing.assert_array_equal(system.predict(Q), logits.argmax(1).numpy())
    p = np.zeros((50, CLASSES))
    p[:, :KNOWN] = F.softmax(logits[:, :KNOWN], dim=1).numpy()
    np.testing.assert_allclose(system.probabilities(Q), p, atol=1e-9)


@pytest.mark.parametrize("seed", [0, 12345, 2**32 - 1])
@pytest.mark.parametrize("d, n_classes", [(1, 1), (3, 2), (16, 12), (384, 77), (1024, 151)])
def test_draws_of_linear_layers_are_torchs(seed, d, n_classes):
    torch.manual_seed(seed)
    weight, bias = numbers(torch.nn.Linear(d, n_classes))
    ours = TorchDraws(seed).linear(d, n_classes)
    assert ours[0].dtype == ours[1].dtype == np.float32
    np.testing.assert_array_equal(ours[0], weight)
    np.testing.assert_array_equal(ours[1], bias)


@pytest.mark.parametrize("seed", [0, 12345, 2**32 - 1])
def test_draws_of_permutations_are_torchs_one_after_the_other(seed):
    draws, generator = TorchDraws(seed), torch.Generator().manual_seed(seed)
    for n in (0, 1, 2, 5, 100, 8808, 3, 20000, 700):
        np.testing.assert_array_equal(draws.permutation(n), torch.randperm(n, generator=generator).numpy())


def test_online_linear_equals_autograd(initial, corrections):
    system, head = fitted(OnlineLinear, initial, lr=LR)
    for x, y in zip(*corrections):
        system.correct(x, y)
        inputs, target = tensors(x, y)
        step(head, torch.autograd.grad(F.cross_entropy(head(inputs), target), list(head.parameters())))
        assert_equal(system, head)


@pytest.mark.parametrize("fisher_rows", [30, 2000])  # fewer than the initial rows, and more
@pytest.mark.parametrize("strength", [20.0, 1000.0])
def test_ewc_equals_autograd(initial, corrections, fisher_rows, strength):
    X, seed = initial[0], 1
    system, head = fitted(EWC, initial, seed, lr=LR, strength=strength, fisher_rows=fisher_rows)
    start = [p.detach().clone() for p in head.parameters()]

    picked = np.random.default_rng(seed).choice(len(X), min(fisher_rows, len(X)), replace=False)
    fisher = [torch.zeros_like(p) for p in start]
    for row in torch.from_numpy(X[picked]).double():
        log_p = F.log_softmax(head(row[None]), dim=1)[0]
        for total, gradient in zip(fisher, torch.autograd.grad(log_p[log_p.argmax()], list(head.parameters()))):
            total += gradient**2 / len(picked)
    np.testing.assert_allclose(system.F_W, fisher[0], rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(system.F_b, fisher[1], rtol=1e-9, atol=1e-15)

    for x, y in zip(*corrections):
        system.correct(x, y)
        inputs, target = tensors(x, y)
        penalty = sum((f * (p - p0) ** 2).sum() for f, p, p0 in zip(fisher, head.parameters(), start))
        loss = F.cross_entropy(head(inputs), target) + strength / 2 * penalty
        step(head, torch.autograd.grad(loss, list(head.parameters())))
        assert_equal(system, head, rtol=1e-9)  # with so few rows the published penalty overshoots to huge weights


@pytest.mark.parametrize("memory, memory_batch", [(40, 16), (1000, 64)])  # fewer than the initial rows, and more
def test_a_gem_equals_autograd(initial, corrections, memory, memory_batch):
    (X, y_initial), seed = initial, 1
    system, head = fitted(AGEM, initial, seed, lr=LR, memory=memory, memory_batch=memory_batch)
    rng = np.random.default_rng(seed)
    remembered = rng.choice(len(X), min(memory, len(X)), replace=False)
    projected = 0
    for x, y in zip(*corrections):
        system.correct(x, y)
        parameters = list(head.parameters())
        picked = remembered[rng.choice(len(remembered), min(memory_batch, len(remembered)), replace=False)]
        inputs, target = tensors(x, y)
        gradients = torch.autograd.grad(F.cross_entropy(head(inputs), target), parameters)
        old = torch.from_numpy(X[picked]).double(), torch.from_numpy(y_initial[picked])
        reference = torch.autograd.grad(F.cross_entropy(head(old[0]), old[1]), parameters)
        overlap = sum((g * r).sum() for g, r in zip(gradients, reference))
        if overlap < 0:
            projected += 1
            scale = overlap / sum((r * r).sum() for r in reference)
            gradients = [g - scale * r for g, r in zip(gradients, reference)]
        step(head, gradients)
        assert_equal(system, head)
    assert 0 < projected < len(corrections[1])  # both branches were seen


def test_lwf_equals_autograd(initial, corrections):
    strength, T = 1.0, 2.0
    system, head = fitted(LwF, initial, lr=LR, strength=strength, temperature=T)
    teacher = trained(*initial, CLASSES, 1, **TRAINING)
    for x, y in zip(*corrections):
        system.correct(x, y)
        inputs, target = tensors(x, y)
        soft, log_soft = F.softmax(teacher(inputs) / T, dim=1), F.log_softmax(head(inputs) / T, dim=1)
        divergence = (soft * (soft.log() - log_soft)).sum()  # KL(teacher || student)
        loss = F.cross_entropy(head(inputs), target) + strength * T**2 * divergence
        step(head, torch.autograd.grad(loss, list(head.parameters())))
        assert_equal(system, head)
