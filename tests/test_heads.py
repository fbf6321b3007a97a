"""Heads in closed form: training and every correction equal plain torch and its autograd."""

import numpy as np
import pytest

from ocrrlib.systems.heads import AGEM, EWC, LinearHead, LwF, StaticLinear, train
from tests.samples import clusters, rows

torch = pytest.importorskip("torch")
F = torch.nn.functional

TRAINING = dict(epochs=6, fit_lr=1e-2, weight_decay=1e-4, batch=32)
LR = 0.05
KNOWN = 6
CLASSES = 9
X0, Y0 = clusters(KNOWN, 15, 8, seed=3)
# known and new classes
NEW_X = rows(40, 8, 4)
NEW_Y = np.random.default_rng(5).integers(0, CLASSES, 40).tolist()
Q = rows(50, 8, 6)


def trained(X, y, n_classes, seed=0, epochs=30, fit_lr=1e-2, weight_decay=1e-4, batch=256):
    """The published training loop in plain torch, float64 from its float32 start."""
    torch.manual_seed(seed)
    head = torch.nn.Linear(X.shape[1], n_classes).double()
    optimizer = torch.optim.AdamW(head.parameters(), lr=fit_lr, weight_decay=weight_decay)
    generator = torch.Generator().manual_seed(seed)
    X = torch.from_numpy(X).double()
    y = torch.from_numpy(y)
    for _ in range(epochs):
        order = torch.randperm(len(X), generator=generator)
        for start in range(0, len(X), batch):
            picked = order[start : start + batch]
            optimizer.zero_grad()
            F.cross_entropy(head(X[picked]), y[picked]).backward()
            optimizer.step()
    return head


def assert_equal(theta, head, rtol=0.0):
    expected = np.hstack([head.weight.detach().numpy(), head.bias.detach().numpy()[:, None]])
    np.testing.assert_allclose(theta, expected, rtol=rtol, atol=1e-9)


def logits(head, X):
    return head(torch.from_numpy(X).double()).detach()


@pytest.mark.parametrize("seed", [0, 12345, 2**32 - 1])
@pytest.mark.parametrize(
    "n, d, n_classes, batch",
    [(10, 1, 2, 256), (64, 16, 3, 64), (50, 30, 7, 1), (20000, 3, 2, 999), (700, 384, 77, 99)],
)
def test_training_equals_torch(n, d, n_classes, batch, seed):
    X = rows(n, d, seed)
    y = np.random.default_rng(seed).integers(0, n_classes, n)
    settings = dict(seed=seed, epochs=3, fit_lr=1e-2, weight_decay=1e-2, batch=batch)
    assert_equal(train(X, y, n_classes, **settings), trained(X, y, n_classes, **settings))


def test_static_linear_is_a_head_over_the_known_classes_alone():
    ids = np.array([8, 1, 7, 4, 0, 5])  # the known classes' ids, with gaps
    system = StaticLinear(2, **TRAINING).fit(X0, ids[Y0], range(CLASSES))
    head = trained(X0, np.searchsorted(np.sort(ids), ids[Y0]), KNOWN, 2, **TRAINING)
    assert_equal(system.theta, head)
    np.testing.assert_array_equal(
        system.predict(Q), np.sort(ids)[logits(head, Q).argmax(1).numpy()]
    )


def test_prediction_is_the_highest_logit_and_classes_not_met_have_no_probability():
    system = LinearHead(1, **TRAINING).fit(X0, Y0, range(CLASSES))
    head = trained(X0, Y0, CLASSES, 1, **TRAINING)
    np.testing.assert_array_equal(system.predict(Q), logits(head, Q).argmax(1).numpy())
    p = np.zeros((50, CLASSES))
    p[:, :KNOWN] = F.softmax(logits(head, Q)[:, :KNOWN], dim=1).numpy()
    np.testing.assert_allclose(system.predict_proba(Q), p, atol=1e-9)


# The gradient that each paper writes, as a function of a correction (1, d), (1,), made from the
# head as first trained.
def of(loss, head):
    return torch.autograd.grad(loss, list(head.parameters()))


def online_linear(head):
    return lambda x, y: of(F.cross_entropy(head(x), y), head)


def ewc(head, strength, fisher_rows):
    start = [p.detach().clone() for p in head.parameters()]
    picked = np.random.default_rng(1).choice(len(X0), min(fisher_rows, len(X0)), replace=False)
    fisher = [torch.zeros_like(p) for p in start]
    for row in torch.from_numpy(X0[picked]).double():
        for total, gradient in zip(fisher, of(F.log_softmax(head(row[None]), dim=1).max(), head)):
            total += gradient**2 / len(picked)

    def gradient(x, y):
        penalty = sum(
            (f * (p - p0) ** 2).sum() for f, p, p0 in zip(fisher, head.parameters(), start)
        )
        return of(F.cross_entropy(head(x), y) + strength / 2 * penalty, head)

    return gradient


def a_gem(head, memory, memory_batch):
    rng = np.random.default_rng(1)
    a_gem.branches = set()
    remembered = rng.choice(len(X0), min(memory, len(X0)), replace=False)

    def gradient(x, y):
        picked = remembered[
            rng.choice(len(remembered), min(memory_batch, len(remembered)), replace=False)
        ]
        gradients = of(F.cross_entropy(head(x), y), head)
        old = torch.from_numpy(X0[picked]).double()
        labels = torch.from_numpy(Y0[picked])
        reference = of(F.cross_entropy(head(old), labels), head)
        overlap = sum((g * r).sum() for g, r in zip(gradients, reference))
        a_gem.branches.add(bool(overlap < 0))
        scale = overlap.clamp(max=0) / sum((r * r).sum() for r in reference)
        return [g - scale * r for g, r in zip(gradients, reference)]

    return gradient


def lwf(head, strength, temperature):
    teacher = trained(X0, Y0, CLASSES, 1, **TRAINING)
    T = temperature

    def gradient(x, y):
        soft = F.softmax(teacher(x) / T, dim=1)
        log_soft = F.log_softmax(head(x) / T, dim=1)
        divergence = (soft * (soft.log() - log_soft)).sum()  # KL(teacher || student)
        return of(F.cross_entropy(head(x), y) + strength * T**2 * divergence, head)

    return gradient


PAPERS = [
    (LinearHead, online_linear, {}),
    (EWC, ewc, dict(strength=20.0, fisher_rows=30)),
    (EWC, ewc, dict(strength=1000.0, fisher_rows=2000)),
    (AGEM, a_gem, dict(memory=40, memory_batch=16)),
    (AGEM, a_gem, dict(memory=1000, memory_batch=64)),
    (LwF, lwf, dict(strength=0.5, temperature=3.0)),
]


@pytest.mark.parametrize("cls, paper, params", PAPERS)
def test_each_correction_is_one_sgd_step_along_the_gradient_of_its_paper(cls, paper, params):
    system = cls(1, lr=LR, **params, **TRAINING).fit(X0, Y0, range(CLASSES))
    head = trained(X0, Y0, CLASSES, 1, **TRAINING)
    gradient = paper(head, **params)
    for x, y in zip(NEW_X, NEW_Y):
        system.correct(x, y)
        gradients = gradient(torch.from_numpy(x).double()[None], torch.tensor([y]))
        with torch.no_grad():
            for parameter, own in zip(head.parameters(), gradients):
                parameter -= LR * own
        assert_equal(system.theta, head, rtol=1e-9)  # on so few rows EWC overshoots to huge weights
    assert getattr(paper, "branches", {False, True}) == {False, True}
