"""Linear softmax heads: initial training with AdamW, and the updates that the paper compares, in closed form.

Training and updates run in float64: the published float32 protocol differs from
it by rounding only, and results no longer depend on a machine's arithmetic.
"""

import math

import numpy as np
from threadpoolctl import threadpool_limits

from ocrrlib.shared import shared
from ocrrlib.systems.base import Storage, System, softmax


class TorchDraws:
    """torch's random draws without torch, as after ``torch.Generator().manual_seed(seed)``.

    torch and NumPy share the Mersenne Twister; this repeats what torch makes of its 32-bit words for
    ``nn.Linear`` and ``randperm`` on a CPU, from which the published heads start.
    """

    def __init__(self, seed):
        # RandomState seeds the twister as torch does; default_rng would not.
        self._words = np.random.RandomState(seed)._bit_generator.random_raw

    def uniform(self, low, high, shape):
        """``torch.empty(shape).uniform_(low, high)``, float32."""
        fractions = (self._words(int(np.prod(shape))) & 0xFFFFFF) * 2.0**-24
        low, high = np.float32(low), np.float32(high)
        # The sum is rounded once: torch multiplies and adds in one instruction.
        return (fractions * float(high - low) + float(low)).astype(np.float32).reshape(shape)

    def linear(self, d, n_classes):
        """Initial weight (n_classes, d) and bias (n_classes,) of ``torch.nn.Linear``, float32."""
        wide, bound = math.sqrt(3.0) * (math.sqrt(2.0 / 6.0) / math.sqrt(d)), 1 / math.sqrt(d)
        return self.uniform(-wide, wide, (n_classes, d)), self.uniform(-bound, bound, (n_classes,))

    def permutation(self, n):
        """``torch.randperm(n)``."""
        order = list(range(n))
        if n > 1:
            hops = self._words(n - 1) % np.arange(n, 1, -1, dtype=np.uint64)
            for i, hop in enumerate(hops.tolist()):
                order[i], order[i + hop] = order[i + hop], order[i]
        return np.array(order)


class AdamW:
    """AdamW (Loshchilov and Hutter 2019) on one array, in place, with torch's default betas."""

    def __init__(self, theta, lr, weight_decay, betas=(0.9, 0.999), eps=1e-8):
        self.theta, self.lr, self.decay, self.betas, self.eps = theta, lr, 1 - lr * weight_decay, betas, eps
        self.sum, self.squares, self.room = np.zeros_like(theta), np.zeros_like(theta), np.empty_like(theta)
        self.steps = 0

    def step(self, gradient):
        """Move ``theta`` against the gradient; the gradient's memory is used up."""
        self.steps += 1
        b1, b2 = self.betas
        # Moments are kept as plain decayed sums; their weights and bias corrections meet in two numbers.
        spread = np.sqrt((1 - b2**self.steps) / (1 - b2))
        rate = self.lr * (1 - b1) / (1 - b1**self.steps) * spread
        self.sum *= b1
        self.sum += gradient
        self.squares *= b2
        self.squares += np.multiply(gradient, gradient, out=gradient)
        np.sqrt(self.squares, out=self.room)
        self.room += self.eps * spread
        np.divide(self.sum, self.room, out=self.room)
        self.room *= rate
        self.theta *= self.decay
        self.theta -= self.room


@shared(keep=1)
def _orders(n, epochs, seed):
    """The order of rows in each epoch; the same for the heads over known and over all classes."""
    draws = TorchDraws(seed)
    return [draws.permutation(n) for _ in range(epochs)]


def train(X, y, n_classes, seed, epochs=30, fit_lr=1e-2, weight_decay=1e-4, batch=256):
    """Train a linear head with AdamW and cross-entropy.

    Initial weights and the order of rows are torch's for this seed, as published.

    Parameters
    ----------
    X : (n, d) float32
        Embeddings.
    y : (n,) int64
        Class ids below ``n_classes``.
    seed : int
        Seed of the initial weights and of the order of rows.
    epochs, fit_lr, weight_decay, batch
        As published by default.

    Returns
    -------
    W : (n_classes, d) float64
    b : (n_classes,) float64
    """
    weight, bias = TorchDraws(seed).linear(X.shape[1], n_classes)
    theta = np.hstack([weight, bias[:, None]]).astype(np.float64)
    inputs = np.hstack([X, np.ones((len(X), 1))])  # float64, with the bias as one more weight
    adam = AdamW(theta, fit_lr, weight_decay)
    with threadpool_limits(1):  # the products are too small for more threads, which would wait for each other
        for order in _orders(len(y), epochs, seed):
            for start in range(0, len(y), batch):
                rows = order[start : start + batch]
                part, places = inputs[rows], np.arange(len(rows))
                residual = theta @ part.T  # classes in rows: products and sums are fastest so
                residual -= residual.max(axis=0)
                np.exp(residual, out=residual)
                residual /= residual.sum(axis=0) * len(rows)
                residual[y[rows], places] -= 1 / len(rows)
                adam.step(residual @ part)
    return theta[:, :-1].copy(), theta[:, -1].copy()


train_head = shared(keep=2)(train)  # of initial rows, which many runs have in common


class LinearHead(System):
    """A linear softmax head over all classes; subclasses decide how a correction moves it.

    Parameters
    ----------
    lr : float
        Step of plain SGD per correction.
    training
        Settings of ``train``.
    """

    def __init__(self, seed=0, lr=0.05, **training):
        super().__init__(seed)
        self.lr, self.training = lr, training

    def _fit(self, X, y):
        W, b = train_head(X, y, self.n_classes, self.seed, **self.training)
        self.W, self.b, self.room = W.copy(), b.copy(), np.empty_like(W)

    def _scores(self, X):
        return X.astype(np.float64) @ self.W.T + self.b

    def _answer(self, logits):
        return logits.argmax(axis=1)

    def _descend(self, residual, x):
        """One SGD step along the gradient residual x^T, (C,) and (d,) float64."""
        step = -self.lr * residual
        self.W += np.multiply.outer(step, x, out=self.room)
        self.b += step

    def _residual(self, x, y):
        """Gradient of the cross-entropy with respect to the logits of one example, (C,)."""
        residual = softmax(self.W @ x + self.b)
        residual[y] -= 1
        return residual

    def storage(self):
        parameters = self.W.size + self.b.size
        return Storage(bytes=4 * parameters, parameters=parameters)


class StaticLinear(LinearHead):
    """A head over the known classes, never updated (paper, section 4.1)."""

    def _fit(self, X, y):
        self.known, known_y = np.unique(y, return_inverse=True)
        if len(self.known):
            self.W, self.b = train_head(X, known_y, len(self.known), self.seed, **self.training)
        else:
            self.W, self.b = np.zeros((0, self.dim)), np.zeros(0)

    def _answer(self, logits):
        return self.known[logits.argmax(axis=1)] if len(self.known) else np.full(len(logits), -1)

    def _chances(self, logits):
        p = np.zeros((len(logits), self.n_classes))
        if len(self.known):
            p[:, self.known] = softmax(logits)
        return p

    def watch(self, Q):
        answers = super().watch(Q)(np.arange(len(Q)))  # for good: nothing changes them
        return lambda rows: answers[rows]

    def _correct(self, x, y):
        """The point of this baseline: it does not learn."""


class OnlineLinear(LinearHead):
    """One plain SGD step on the cross-entropy of each correction (paper, section 4.1)."""

    def _correct(self, x, y):
        x = x.astype(np.float64)
        self._descend(self._residual(x, y), x)


class EWC(LinearHead):
    """Elastic weight consolidation (paper, section 4.2; Kirkpatrick et al. 2017).

    Adds ``strength / 2 * sum(F * (theta - theta_0)**2)`` to the loss of each correction.

    Parameters
    ----------
    strength : float
        Lambda of the penalty.
    fisher_rows : int
        Initial rows that estimate F, the mean squared gradient of the
        log-probability of the predicted label.
    """

    def __init__(self, seed=0, strength=1000.0, fisher_rows=2000, **head):
        super().__init__(seed, **head)
        self.strength, self.fisher_rows = strength, fisher_rows

    def _fit(self, X, y):
        super()._fit(X, y)
        self.W0, self.b0 = self.W.copy(), self.b.copy()
        rows = np.random.default_rng(self.seed).choice(len(X), min(self.fisher_rows, len(X)), replace=False)
        rows = X[rows].astype(np.float64)
        residual = softmax(self._scores(rows))
        residual[np.arange(len(rows)), residual.argmax(axis=1)] -= 1
        n = max(len(rows), 1)
        self.F_W, self.F_b = (residual**2).T @ rows**2 / n, (residual**2).sum(axis=0) / n

    def _correct(self, x, y):
        x = x.astype(np.float64)
        residual = self._residual(x, y)
        pull = self.lr * self.strength
        self.W -= pull * self.F_W * (self.W - self.W0)
        self.b -= pull * self.F_b * (self.b - self.b0)
        self._descend(residual, x)

    def storage(self):
        head = super().storage()
        return Storage(bytes=3 * head.bytes, parameters=head.parameters)  # head, its start, F


class AGEM(LinearHead):
    """Averaged gradient episodic memory (paper, section 4.2; Chaudhry et al. 2019).

    Removes from each gradient the part that would raise the loss on remembered rows.

    Parameters
    ----------
    memory : int
        Initial rows remembered, drawn once.
    memory_batch : int
        Remembered rows that a correction is checked against.
    """

    def __init__(self, seed=0, memory=1000, memory_batch=64, **head):
        super().__init__(seed, **head)
        self.memory, self.memory_batch = memory, memory_batch

    def _fit(self, X, y):
        super()._fit(X, y)
        self.rng = np.random.default_rng(self.seed)
        rows = self.rng.choice(len(X), min(self.memory, len(X)), replace=False)
        self.memory_X, self.memory_y = X[rows].astype(np.float64), y[rows]
        self.products = self.memory_X @ self.memory_X.T + 1  # of the rows with the bias's constant 1

    def _correct(self, x, y):
        x = x.astype(np.float64)
        residual = self._residual(x, y)
        if len(self.memory_y):
            rows = self.rng.choice(len(self.memory_y), min(self.memory_batch, len(self.memory_y)), replace=False)
            M = self.memory_X[rows]
            R = self._memory_residual(M, rows)
            # Gradients are residual x^T and R^T M, so their products need neither of them written out.
            overlap = (R @ residual) @ (M @ x) + R.sum(axis=0) @ residual
            if overlap < 0:
                scale = overlap / np.vdot(R @ R.T, self.products[np.ix_(rows, rows)])
                self.W += self.lr * scale * (R.T @ M)
                self.b += self.lr * scale * R.sum(axis=0)
        self._descend(residual, x)

    def _memory_residual(self, M, rows):
        """Gradient of the mean cross-entropy over remembered rows with respect to their logits, (r, C)."""
        R = softmax(M @ self.W.T + self.b)
        R[np.arange(len(rows)), self.memory_y[rows]] -= 1
        return R / len(rows)

    def storage(self):
        head, stored = super().storage(), len(self.memory_y)
        return Storage(head.bytes + stored * (4 * self.dim + 8), entries=stored, parameters=head.parameters)


class LwF(LinearHead):
    """Learning without forgetting (paper, section 4.2; Li and Hoiem 2017).

    Adds ``strength * T**2 * KL(teacher || student)`` at temperature T to the loss of each correction; the teacher
    is the head as first trained.
    """

    def __init__(self, seed=0, strength=1.0, temperature=2.0, **head):
        super().__init__(seed, **head)
        self.strength, self.temperature = strength, temperature

    def _fit(self, X, y):
        super()._fit(X, y)
        self.W0, self.b0 = self.W.copy(), self.b.copy()

    def _correct(self, x, y):
        x, T = x.astype(np.float64), self.temperature
        student, teacher = softmax((self.W @ x + self.b) / T), softmax((self.W0 @ x + self.b0) / T)
        self._descend(self._residual(x, y) + self.strength * T * (student - teacher), x)

    def storage(self):
        head = super().storage()
        return Storage(bytes=2 * head.bytes, parameters=head.parameters)  # student and teacher
