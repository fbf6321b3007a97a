"""Replay: what the memory keeps, and that every step is along the gradient of its loss."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocrrlib.rivals import tuned
from ocrrlib.rivals.replay import DERPP, ER, ERACE, MIR, BalancedReservoir, GDumb
from ocrrlib.rivals.tuned import REHEARSED_CLASSES, TEST_EVERY, OnlineLinearTuned, rehearse
from ocrrlib.systems.heads import train, with_bias
from tests.samples import clusters, rows

torch = pytest.importorskip("torch")
KNOWN = 5
CLASSES = 8
D = 12
TRAINING = dict(epochs=6, fit_lr=1e-2, weight_decay=1e-4, batch=32)
X0, Y0 = clusters(KNOWN, 20, D, seed=3)
NEW_X = rows(60, D, 4)
NEW_Y = np.random.default_rng(5).integers(0, CLASSES, 60).tolist()


def fitted(cls, memory=40, **params):
    return cls(1, memory=memory, lr=0.1, **params, **TRAINING).fit(X0, Y0, range(CLASSES))


@given(st.lists(st.integers(0, 6), max_size=300), st.integers(1, 30), st.integers(0, 5))
def test_memory_fills_up_and_classes_that_were_never_the_largest_lose_nothing(labels, budget, seed):
    memory = BalancedReservoir(budget, 1, 7, np.random.default_rng(seed))
    sizes = np.zeros(7, int)
    largest = np.zeros(7, bool)
    for number, label in enumerate(labels):
        slot = memory.write(number, label)
        assert slot is not None or (memory.size == budget and largest[label])
        assert slot is None or (memory.X[slot], memory.y[slot]) == (number, label)
        sizes = np.bincount(memory.y[: memory.size], minlength=7)
        largest |= (sizes == sizes.max()) & (memory.size == budget)
    assert memory.size == min(budget, len(labels))
    assert len(set(memory.X[: memory.size, 0])) == memory.size
    offered = np.bincount(np.array(labels, int), minlength=7)
    np.testing.assert_array_equal(sizes[~largest], offered[~largest])


@pytest.mark.parametrize(
    "order", [np.arange(700), np.random.default_rng(0).permutation(700)], ids=["sorted", "mixed"]
)
def test_memory_ends_balanced(order):
    memory = BalancedReservoir(70, 1, 7, np.random.default_rng(1))
    for label in (order // 100).tolist():
        memory.write(0, label)
    assert np.ptp(np.bincount(memory.y)) <= 1


def losses(at, X, y, classes):
    """Cross-entropy of each row among some classes, at weights (C, d + 1), intercepts last."""
    logits = torch.from_numpy(with_bias(X)) @ at[list(classes)].T
    return torch.nn.functional.cross_entropy(
        logits, torch.tensor(np.searchsorted(classes, y)), reduction="none"
    )


def gradient(loss, at):
    at = torch.tensor(at, requires_grad=True)
    return torch.autograd.grad(loss(at), at)[0].numpy()


def recorded(system, monkeypatch):
    """The rows that a system draws, as they are then, and their labels."""
    found = []
    draw = system._draw

    def noted(n):
        slots = draw(n)
        found.append((system.held.X[slots], system.held.y[slots]))
        return slots

    monkeypatch.setattr(system, "_draw", noted)
    return found


# The loss that each paper writes, at any weights: of correction i, the classes seen, the rows
# drawn, and the weights before this and all former corrections.
def er(i, seen, drawn, starts):
    ((M, m),) = drawn
    return lambda at: (
        losses(at, NEW_X[[i]], [NEW_Y[i]], seen)[0] / 2 + losses(at, M, m, seen).mean() / 2
    )


def er_ace(i, seen, drawn, starts):
    ((M, m),) = drawn
    first = max(i - 3, 0)
    X = NEW_X[first : i + 1]
    y = NEW_Y[first : i + 1]
    return lambda at: losses(at, X, y, sorted(set(y))).mean() + losses(at, M, m, seen).mean()


def der_pp(i, seen, drawn, starts):
    (A, _), (B, m) = drawn
    written = {x.tobytes(): number for number, x in enumerate(NEW_X)}
    Z = torch.tensor(np.array([starts[written.get(x.tobytes(), 0)] @ np.append(x, 1) for x in A]))

    def loss(at):
        kept = torch.mean((torch.from_numpy(with_bias(A)) @ at.T - Z) ** 2)
        return (
            losses(at, NEW_X[[i]], [NEW_Y[i]], seen)[0]
            + 0.3 * kept
            + 0.5 * losses(at, B, m, seen).mean()
        )

    return loss


def mir(i, seen, drawn, starts):
    ((M, m),) = drawn

    def new(at):
        return losses(at, NEW_X[[i]], [NEW_Y[i]], seen)[0]

    alone = starts[-1] - 0.1 * gradient(new, starts[-1])
    before = losses(torch.tensor(starts[-1]), M, m, seen)
    after = losses(torch.tensor(alone), M, m, seen)
    most = torch.argsort(after - before)[-4:].numpy()
    return lambda at: new(at) + losses(at, M[most], m[most], seen).mean()


PAPERS = [
    (ER, {}, er),
    (ERACE, dict(recent=4), er_ace),
    (DERPP, dict(alpha=0.3), der_pp),
    (MIR, dict(candidates=15, memory_batch=4), mir),
]


@pytest.mark.parametrize("cls, params, loss_of", PAPERS, ids=[loss.__name__ for *_, loss in PAPERS])
def test_each_correction_is_one_step_along_the_gradient_of_its_papers_loss(
    cls, params, loss_of, monkeypatch
):
    system = fitted(cls, memory=20, **params)
    drawn = recorded(system, monkeypatch)
    starts = []
    for i in range(25):
        drawn.clear()
        starts.append(system.theta.copy())
        system.correct(NEW_X[i], NEW_Y[i])
        # Their sources draw first and store afterwards; only ER-ACE's batch needs the row in
        # memory.
        assert cls is ERACE or not any((X == NEW_X[i]).all(axis=1).any() for X, _ in drawn)
        loss = loss_of(i, np.flatnonzero(system.seen), drawn, starts)
        np.testing.assert_allclose(
            system.theta, starts[-1] - 0.1 * gradient(loss, starts[-1]), atol=1e-9
        )


def test_gdumb_is_a_head_trained_on_the_memory_alone_and_again_when_it_is_due():
    system = fitted(GDumb, every=7)
    since = 0
    met = set(Y0.tolist())
    for x, y in zip(NEW_X, NEW_Y):
        before = system.theta.copy()
        system.correct(x, y)
        since += 1
        if y in met and since < 7:
            np.testing.assert_array_equal(system.theta, before)
        else:
            since = 0
            met.add(y)
            known, ranks = np.unique(system.held.y, return_inverse=True)
            np.testing.assert_array_equal(
                system.theta[known], train(system.held.X, ranks, len(known), 1, **TRAINING)
            )
    assert met == set(range(CLASSES))
    assert since


class Recorder:
    """Never right; notes the rows that it is given, which are numbers."""

    seed = 0

    def fit(self, X, y, classes):
        self.trained = X.tolist()
        self.corrected = []
        self.asked = []

    def predict(self, X):
        self.asked.append(X.tolist())
        return np.full(len(X), -1)

    def correct(self, x, y):
        self.corrected.append(x)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=50).filter(any))
def test_a_rehearsal_trains_streams_and_tests_each_row_in_one_place_only(counts):
    y = np.random.default_rng(len(counts)).permutation(np.repeat(np.arange(len(counts)), counts))
    recorder = Recorder()
    rehearse(recorder, np.arange(len(y)), y, len(counts))
    streamed = recorder.corrected
    # Each is asked about before it is learnt.
    assert recorder.asked[: len(streamed)] == [[row] for row in streamed]
    tested = sum(recorder.asked[len(streamed) :], [])
    assert sorted(recorder.trained + streamed + tested) == list(range(len(y)))
    classes, counts = np.unique(y, return_counts=True)
    assert not set(y[recorder.trained]) & set(y[streamed])
    assert len(set(y[streamed])) == min(REHEARSED_CLASSES, len(classes) // 4)
    np.testing.assert_array_equal(
        [np.count_nonzero(y[tested] == c) for c in classes], counts // TEST_EVERY
    )


@pytest.mark.parametrize("cls", [OnlineLinearTuned, ER, ERACE])
def test_apart_from_its_rate_it_is_the_system_that_is_rehearsed(cls):
    tuned = cls(1, **TRAINING).fit(X0, Y0, range(CLASSES))
    plain = cls(1, lr=tuned.rate, **TRAINING).fit(X0, Y0, range(CLASSES))
    for x, y in zip(NEW_X, NEW_Y):
        tuned.correct(x, y)
        plain.correct(x, y)
    np.testing.assert_array_equal(tuned.theta, plain.theta)
    np.testing.assert_array_equal(tuned.predict(X0), plain.predict(X0))


def test_the_best_rate_wins_and_of_equal_ones_the_lowest(monkeypatch):
    scores = dict(zip(ER.rates, [1, 3, 3, 0, 3, 0]))
    monkeypatch.setattr(tuned, "rehearse", lambda system, *args: scores[system.lr])
    assert ER(**TRAINING).fit(X0, Y0, range(CLASSES)).rate == ER.rates[1]
