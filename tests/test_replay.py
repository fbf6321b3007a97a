"""Replay: what the class-balanced memory keeps, and that every step is the gradient of the loss it says."""

import numpy as np
import pytest
from conftest import assert_watched_equals_predicted, clusters, rows
from hypothesis import given
from hypothesis import strategies as st

from ocrrlib.scenario import make_scenario
from ocrrlib.systems.der_pp import DERPP
from ocrrlib.systems.er import ER
from ocrrlib.systems.er_ace import ERACE
from ocrrlib.systems.gdumb import GDumb
from ocrrlib.systems.heads import train_head
from ocrrlib.systems.mir import MIR
from ocrrlib.systems.replay import BalancedReservoir, Replay

KNOWN, CLASSES, D = 5, 8, 12
TRAINING = dict(epochs=6, fit_lr=1e-2, weight_decay=1e-4, batch=32)
X0, Y0 = clusters(KNOWN, 20, D, seed=3)
NEW_X, NEW_Y = rows(60, D, 4), np.random.default_rng(5).integers(0, CLASSES, 60).tolist()
FAMILY = [ER, ERACE, DERPP, MIR, GDumb]
every_member = pytest.mark.parametrize("cls", FAMILY)


def fitted(cls, memory=40, **params):
    return cls(1, memory=memory, lr=0.1, **params, **TRAINING).fit(X0, Y0, range(CLASSES))


@given(st.lists(st.integers(0, 6), max_size=300), st.integers(1, 30), st.integers(0, 5))
def test_memory_is_filled_never_over_and_every_class_met_is_kept_where_it_can_be(labels, budget, seed):
    reservoir, kept = BalancedReservoir(budget, 7, np.random.default_rng(seed)), {}
    for label in labels:
        full = reservoir.size == budget
        slot = reservoir.slot(label)
        assert slot is not None or full
        if slot is not None:
            assert 0 <= slot < budget
            kept[slot] = label
    assert reservoir.size == len(kept) == min(budget, len(labels))
    for label, slots in enumerate(reservoir.places):
        assert sorted(slots) == sorted(slot for slot, own in kept.items() if own == label)
    met = np.bincount(labels, minlength=7) if labels else np.zeros(7)
    sizes = np.array([len(slots) for slots in reservoir.places])
    # A class smaller than the largest, by more than one row, has lost nothing.
    small = sizes < sizes.max() - 1
    never = ~np.array(reservoir.was_largest)
    np.testing.assert_array_equal(sizes[small & never], met[small & never])


def test_sorted_and_shuffled_streams_both_end_balanced():
    labels = np.repeat(np.arange(7), 100)
    for order in (labels, np.random.default_rng(0).permutation(labels)):
        reservoir = BalancedReservoir(70, 7, np.random.default_rng(1))
        for label in order.tolist():
            reservoir.slot(label)
        sizes = [len(slots) for slots in reservoir.places]
        assert max(sizes) - min(sizes) <= 1


def test_a_class_is_sampled_uniformly_from_its_rows():
    counts = np.zeros(40)
    for seed in range(600):
        reservoir, where = BalancedReservoir(10, 1, np.random.default_rng(seed)), {}
        for row in range(40):
            slot = reservoir.slot(0)
            if slot is not None:
                where[slot] = row
        counts[list(where.values())] += 1
    assert np.abs(counts / 600 - 0.25).max() < 0.08  # over four standard deviations


@every_member
def test_memory_holds_rows_with_their_own_labels(cls):
    system = fitted(cls)
    for x, y in zip(NEW_X, NEW_Y):
        system.correct(x, y)
    known = {x.tobytes(): y for x, y in zip(np.vstack([X0, NEW_X]), [*Y0.tolist(), *NEW_Y])}
    assert [known[x.tobytes()] for x in system.memory_X] == system.memory_y.tolist()
    for label, slots in enumerate(system.reservoir.places):
        assert (system.memory_y[slots] == label).all()
    assert all(system.reservoir.places)  # new classes are there


@every_member
def test_unseen_classes_are_neither_answered_nor_moved(cls):
    system, Q = fitted(cls), rows(300, D, 9)
    for x, y in zip(NEW_X, NEW_Y):
        if y < KNOWN:
            system.correct(x, y)
    assert not system.seen[KNOWN:].any() and system.predict(Q).max() < KNOWN
    if cls is not DERPP:  # its source holds logits of all classes to what they were: zero
        assert not system.W[KNOWN:].any() and not system.b[KNOWN:].any()
    assert np.abs(system.W[KNOWN:]).max() < 1e-8  # float32 of zero is zero


def losses(W, b, X, y, classes):
    """Mean cross-entropy among some classes."""
    logits = (X.astype(np.float64) @ W.T + b)[:, classes]
    own = [list(classes).index(label) for label in y]
    return np.mean(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(y)), own])


def numeric_step(system, loss, eps=1e-6):
    """Weights after one step of gradient descent, the gradient taken by differences."""
    theta = np.hstack([system.W, system.b[:, None]])
    gradient = np.zeros_like(theta)
    for place in np.ndindex(theta.shape):
        up, down = theta.copy(), theta.copy()
        up[place] += eps
        down[place] -= eps
        gradient[place] = (loss(up[:, :-1], up[:, -1]) - loss(down[:, :-1], down[:, -1])) / (2 * eps)
    return theta - system.lr * gradient


def drawn(system, monkeypatch):
    """Records the rows that a system draws, as they are then: embeddings, labels and, if stored, logits."""
    found, draw = [], system._draw

    def recorded(n):
        slots = draw(n)
        kept = [getattr(system, name, np.zeros(system.memory)) for name in ("memory_X", "memory_y", "memory_logits")]
        found.append([values[slots] for values in kept])
        return slots

    monkeypatch.setattr(system, "_draw", recorded)
    return found


def assert_steps(cls, monkeypatch, loss_of, **params):
    """Each correction moves the head by the gradient of ``loss_of(before, i, drawn)``."""
    system = fitted(cls, **params)
    found = drawn(system, monkeypatch)
    for i, (x, y) in enumerate(zip(NEW_X[:12], NEW_Y)):
        before = fitted(cls, **params)
        before.W, before.b, before.seen = system.W.copy(), system.b.copy(), system.seen.copy()
        before.seen[y] = True
        found.clear()
        system.correct(x, y)
        expected = numeric_step(before, loss_of(before, i, found))
        np.testing.assert_allclose(np.hstack([system.W, system.b[:, None]]), expected, atol=1e-7)


def test_er_steps_along_half_the_new_and_half_the_remembered_loss(monkeypatch):
    def loss_of(before, i, found):
        seen, (M, m, _) = np.flatnonzero(before.seen), found[0]
        x, y = NEW_X[i : i + 1], NEW_Y[i : i + 1]
        return lambda W, b: losses(W, b, x, y, seen) / 2 + losses(W, b, M, m, seen) / 2

    assert_steps(ER, monkeypatch, loss_of)


def test_er_ace_steps_along_the_new_loss_among_new_classes_and_the_remembered_among_all(monkeypatch):
    def loss_of(before, i, found):
        seen, (M, m, _) = np.flatnonzero(before.seen), found[0]
        X, y = NEW_X[max(i - 3, 0) : i + 1], NEW_Y[max(i - 3, 0) : i + 1]
        return lambda W, b: losses(W, b, X, y, sorted(set(y))) + losses(W, b, M, m, seen)

    assert_steps(ERACE, monkeypatch, loss_of, recent=4)


def test_der_pp_steps_along_new_stored_and_remembered_losses(monkeypatch):
    def loss_of(before, i, found):
        seen, ((A, _, Z), (B, m, _)) = np.flatnonzero(before.seen), found
        x, y, A, Z = NEW_X[i : i + 1], NEW_Y[i : i + 1], A.astype(np.float64), Z.astype(np.float64)

        def loss(W, b):
            kept = np.mean((A @ W.T + b - Z) ** 2)
            return losses(W, b, x, y, seen) + 0.3 * kept + 0.5 * losses(W, b, B, m, seen)

        return loss

    assert_steps(DERPP, monkeypatch, loss_of, alpha=0.3)


def test_der_pp_stores_the_logits_of_the_moment_a_row_enters():
    system = fitted(DERPP, memory=300)
    np.testing.assert_array_equal(system.memory_logits[:100], system._logits(X0).astype(np.float32))
    expected = system._logits(NEW_X[:1])[0]
    system.correct(NEW_X[0], KNOWN)
    slot = system.reservoir.places[KNOWN][0]
    np.testing.assert_allclose(system.memory_logits[slot], expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(system.memory_logits[slot, KNOWN:], 0)


@pytest.mark.parametrize("cls", [ER, DERPP, MIR])
@pytest.mark.parametrize("n", [0, 7])
def test_a_correction_is_not_drawn_beside_itself(cls, n, monkeypatch):
    """Their sources draw first and store afterwards; only ER-ACE's batch needs the row in memory."""
    system = cls(1, memory=100, lr=0.1, **TRAINING).fit(X0[:n], Y0[:n], range(CLASSES))
    found = drawn(system, monkeypatch)
    for count, (x, y) in enumerate(zip(NEW_X[:6], NEW_Y)):
        found.clear()
        system.correct(x, y)
        for X, labels, _ in found:
            assert len(labels) == min(n + count, system.candidates if cls is MIR else system.memory_batch)
            assert not (X == x).all(axis=1).any()
        assert (system.memory_X[: system.reservoir.size] == x).all(axis=1).any()


@pytest.mark.parametrize("cls", [ER, DERPP, MIR])
def test_with_an_empty_memory_the_step_is_that_of_the_correction_alone(cls):
    system = cls(1, memory=40, lr=0.1, **TRAINING).fit(X0[:0], Y0[:0], range(CLASSES))
    system.correct(NEW_X[0], 2)  # one class alone has no gradient
    assert not system.W.any()
    again = cls(1, memory=40, lr=0.1, **TRAINING).fit(X0[:0], Y0[:0], range(CLASSES))
    again.seen[4] = True
    seen, before = np.array([2, 4]), _at((again.W.copy(), again.b.copy()))
    again.correct(NEW_X[0], 2)
    expected = numeric_step(before, lambda W, b: losses(W, b, NEW_X[:1], [2], seen))
    np.testing.assert_allclose(np.hstack([again.W, again.b[:, None]]), expected, atol=1e-7)


def test_er_ace_has_no_gradient_from_a_first_correction_but_that_of_remembered_rows():
    system = fitted(ERACE)
    own = np.arange(CLASSES) == KNOWN
    system.seen[KNOWN] = True
    np.testing.assert_array_equal(system._residuals(system._logits(NEW_X[:1]), np.array([KNOWN]), own), 0)
    alone = ERACE(1, memory=40, lr=0.1, **TRAINING).fit(X0[:0], Y0[:0], range(CLASSES))
    alone.correct(NEW_X[0], 2)
    alone.correct(NEW_X[1], 3)
    assert alone.W.any()  # it entered the memory first, so it is drawn against the other class


def test_mir_replays_the_rows_whose_loss_rises_most(monkeypatch):
    system = fitted(MIR, candidates=15, memory_batch=4)
    found = drawn(system, monkeypatch)
    before = W, b = system.W.copy(), system.b.copy()
    seen = np.arange(KNOWN + 1)
    system.correct(NEW_X[0], KNOWN)
    M, labels, _ = found[0]
    new = numeric_step(_at(before), lambda W, b: losses(W, b, NEW_X[:1], [KNOWN], seen))
    rise = [
        losses(new[:, :-1], new[:, -1], M[i : i + 1], labels[i : i + 1], seen)
        - losses(W, b, M[i : i + 1], labels[i : i + 1], seen)
        for i in range(15)
    ]
    most = np.argsort(rise)[-4:]
    expected = numeric_step(
        _at(before),
        lambda W, b: losses(W, b, NEW_X[:1], [KNOWN], seen) + losses(W, b, M[most], labels[most], seen),
    )
    np.testing.assert_allclose(np.hstack([system.W, system.b[:, None]]), expected, atol=1e-7)


def _at(weights):
    system = Replay(0, lr=0.1)
    system.W, system.b = weights
    return system


def test_gdumb_is_a_head_trained_on_the_memory_alone_and_again_when_it_is_due():
    system = fitted(GDumb, every=7)
    settings, since, met = dict(epochs=6, lr=1e-2, weight_decay=1e-4, batch=32), 0, set(Y0.tolist())
    for x, y in zip(NEW_X, NEW_Y):
        before = system.W.copy()
        system.correct(x, y)
        since += 1
        if y in met and since < 7:
            np.testing.assert_array_equal(system.W, before)
        else:
            since = 0
            met.add(y)
            known, ranks = np.unique(system.memory_y, return_inverse=True)
            W, b = train_head(system.memory_X, ranks, len(known), 1, **settings)
            np.testing.assert_array_equal(system.W[known], W)
            np.testing.assert_array_equal(system.b[known], b)
    assert met == set(range(CLASSES)) and since


@every_member
def test_standing_queries_equal_predict(cls, tiny):
    s = make_scenario(tiny, 0, held_out=4, cap=None)
    system = cls(0, memory=50, lr=0.1, **TRAINING).fit(s.X_initial, s.y_initial, s.classes)
    assert_watched_equals_predicted(system, s, list(zip(s.X_stream, s.y_stream.tolist()))[:60], halfway=30)


@every_member
def test_storage_counts_head_and_memory_as_float32(cls):
    system = fitted(cls)
    for x, y in zip(NEW_X[:20], NEW_Y):
        system.correct(x, y)
    head, entry = 4 * CLASSES * (D + 1), 4 * D + 8
    more = 10 * entry if cls is ERACE else 40 * 4 * CLASSES if cls is DERPP else 0
    assert system.storage().bytes == head + 40 * entry + more
    assert system.storage().entries == (50 if cls is ERACE else 40)
