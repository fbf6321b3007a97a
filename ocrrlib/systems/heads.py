"""Linear softmax heads: initial training with AdamW, and the updates that the paper compares, in closed form.

A step size may be tuned on a rehearsal among the known classes.

Training and updates run in float64: the published float32 protocol differs from
it by rounding only, and results no longer depend on a machine's arithmetic.
"""

import math
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from ocrrlib.shared import shared
from ocrrlib.systems.base import Storage, System, softmax


class TorchDraws:
    """torch's random draws without torch, as after ``torch.Generator().manual_seed(seed)``.

    torch and NumPy share the Mersenne Twister; this repeats what torch makes of its 32-bit words
    for ``nn.Linear`` and ``randperm`` on a CPU, from which the published heads start.
    """

    def __init__(self, seed):
        # RandomState seeds the twister as torch does; default_rng would not.
        self._words = np.random.RandomState(seed)._bit_generator.random_raw

    def uniform(self, bound, shape):
        """``torch.empty(shape).uniform_(-bound, bound)``, float32."""
        fractions, bound = (self._words(math.prod(shape)) & 0xFFFFFF) * 2.0**-24, np.float32(bound)
        # The sum is rounded once: torch multiplies and adds in one instruction.
        return (fractions * float(bound - -bound) - float(bound)).astype(np.float32).reshape(shape)

    def linear(self, d, n_classes):
        """Initial weight (n_classes, d) and bias (n_classes,) of ``torch.nn.Linear``, float32."""
        wide = math.sqrt(3.0) * (math.sqrt(2.0 / 6.0) / math.sqrt(d))
        return self.uniform(wide, (n_classes, d)), self.uniform(1 / math.sqrt(d), (n_classes,))

    def permutation(self, n):
        """``torch.randperm(n)``, n above 0."""
        order = list(range(n))
        for i, hop in enumerate(
            (self._words(n - 1) % np.arange(n, 1, -1, dtype=np.uint64)).tolist()
        ):
            order[i], order[i + hop] = order[i + hop], order[i]
        return np.array(order)


def with_bias(X):
    """Rows (n, d) as float64 with a last column of ones, (n, d + 1)."""
    return np.hstack([X, np.ones((len(X), 1))])


def train(X, y, n_classes, seed, epochs=30, fit_lr=1e-2, weight_decay=1e-4, batch=256):
    """Train a linear head with cross-entropy and AdamW (Loshchilov and Hutter 2019), with torch's default betas.

    ``X`` (n, d) float32 are rows, ``y`` (n,) int64 their class ids below ``n_classes``. Initial
    weights and the order of rows are torch's for ``seed``; the other settings are as published by
    default. Returns weights, and biases in the last column, (n_classes, d + 1) float64.
    """
    weight, bias = TorchDraws(seed).linear(X.shape[1], n_classes)
    theta = np.hstack([weight, bias[:, None]]).astype(np.float64)
    inputs, draws = with_bias(X), TorchDraws(seed)
    steps, b1, b2 = 0, 0.9, 0.999
    first, second, move = np.zeros_like(theta), np.zeros_like(theta), np.empty_like(theta)
    with threadpool_limits(
        1
    ):  # the products are too small for more threads, which would wait for each other
        for order in (draws.permutation(len(y)) for _ in range(epochs)):
            for start in range(0, len(y), batch):
                rows = order[start : start + batch]
                part, places = inputs[rows], np.arange(len(rows))
                residual = theta @ part.T  # classes in rows: products and sums are fastest so
                residual -= residual.max(axis=0)
                np.exp(residual, out=residual)
                residual /= residual.sum(axis=0) * len(rows)
                residual[y[rows], places] -= 1 / len(rows)
                gradient = residual @ part
                steps += 1
                # Moments are kept as plain decayed sums; their weights and bias corrections meet in
                # two numbers.
                spread = np.sqrt((1 - b2**steps) / (1 - b2))
                first *= b1
                first += gradient
                second *= b2
                second += np.multiply(gradient, gradient, out=gradient)
                np.sqrt(second, out=move)
                move += 1e-8 * spread
                np.divide(first, move, out=move)
                move *= fit_lr * (1 - b1) / (1 - b1**steps) * spread
                theta *= 1 - fit_lr * weight_decay
                theta -= move
    return theta


train_head = shared(keep=2)(train)  # of initial rows, which many runs have in common


def residuals(logits, y):
    """Gradients of the cross-entropies of rows of classes y (m,) with respect to their logits (m, C)."""
    R = softmax(logits)
    R[np.arange(len(y)), y] -= 1
    return R


@dataclass(eq=False)
class Trained(System):
    """A system with a linear head, and the settings of its ``train``."""

    epochs: int = 30
    fit_lr: float = 1e-2
    weight_decay: float = 1e-4
    batch: int = 256
    trainer = staticmethod(train_head)

    def _trained(self, X, y, n_classes):
        return self.trainer(
            X, y, n_classes, self.seed, self.epochs, self.fit_lr, self.weight_decay, self.batch
        )


@dataclass(eq=False)
class LinearHead(Trained):
    """A linear softmax head over all classes; each correction is one step of plain SGD (paper, section 4.1).

    ``theta`` (C, d + 1) float64 are weights and, in the last column, biases.
    """

    lr: float = 0.05  #: step of SGD
    copies, stored = 1, 0  # of the head and of rows that are kept

    def _tune(self, X, y):
        self.rate = self.lr

    def _fit(self, X, y):
        self._tune(X, y)
        self.theta = self._trained(X, y, self.n_classes).copy()

    def _scores(self, X):
        return with_bias(X) @ self.theta.T

    def _answer(self, logits):
        return logits.argmax(axis=1)

    def _correct(self, x, y):
        x = np.append(x, 1.0)
        self.theta -= self.rate * self._gradient(residuals((self.theta @ x)[None], [y])[0], x)

    def _gradient(self, residual, x):
        """Of the loss of a row x (d + 1,), given that of its cross-entropy with respect to the logits, (C,)."""
        return np.multiply.outer(residual, x)

    def storage(self):
        """Heads have 4 bytes a parameter, as published, whatever they are computed in."""
        heads, rows = 4 * self.copies * self.theta.size, self.stored * (4 * self.dim + 8)
        return Storage(heads + rows, entries=self.stored, parameters=self.theta.size)


class StaticLinear(LinearHead):
    """A head over the known classes, never updated (paper, section 4.1)."""

    def _fit(self, X, y):
        self.known, ranks = np.unique(y, return_inverse=True)
        self.theta = self._trained(X, ranks, len(self.known))

    def _answer(self, logits):
        return self.known[logits.argmax(axis=1)]

    def _probabilities(self, logits):
        p = np.zeros((len(logits), self.n_classes))
        p[:, self.known] = softmax(logits)
        return p

    def _correct(self, x, y):
        """The point of this baseline: it does not learn, and watched answers stay."""
        self.corrections = 0


@dataclass(eq=False)
class EWC(LinearHead):
    """Elastic weight consolidation (paper, section 4.2; Kirkpatrick et al. 2017).

    Adds ``strength / 2 * sum(F * (theta - theta_0)**2)`` to the loss of each correction.
    """

    strength: float = 1000.0  #: lambda of the penalty
    #: initial rows that estimate F, the mean squared gradient of the log-probability of the
    #: predicted label
    fisher_rows: int = 2000
    copies = 3  # head, its start, F

    def _fit(self, X, y):
        super()._fit(X, y)
        self.start = self.theta.copy()
        rows = X[
            np.random.default_rng(self.seed).choice(
                len(X), min(self.fisher_rows, len(X)), replace=False
            )
        ]
        logits = self._scores(rows)
        squares = residuals(logits, logits.argmax(axis=1)) ** 2
        self.fisher = squares.T @ with_bias(rows) ** 2 / len(rows)

    def _gradient(self, residual, x):
        return super()._gradient(residual, x) + self.strength * self.fisher * (
            self.theta - self.start
        )


@dataclass(eq=False)
class AGEM(LinearHead):
    """Averaged gradient episodic memory (paper, section 4.2; Chaudhry et al. 2019).

    Removes from each gradient the part that would raise the loss on remembered rows.
    """

    memory: int = 1000  #: initial rows remembered, drawn once
    memory_batch: int = 64  #: remembered rows that a correction is checked against

    def _fit(self, X, y):
        super()._fit(X, y)
        self.rng, self.stored = np.random.default_rng(self.seed), min(self.memory, len(X))
        rows = self.rng.choice(len(X), self.stored, replace=False)
        self.memory_X, self.memory_y = with_bias(X[rows]), y[rows]

    def _gradient(self, residual, x):
        gradient = super()._gradient(residual, x)
        rows = self.rng.choice(self.stored, min(self.memory_batch, self.stored), replace=False)
        M = self.memory_X[rows]
        R = residuals(M @ self.theta.T, self.memory_y[rows]) / len(rows)
        overlap = (R @ residual) @ (M @ x)  # of both gradients, residual x^T and R^T M
        if overlap < 0:
            reference = R.T @ M
            gradient -= overlap / np.vdot(reference, reference) * reference
        return gradient


@dataclass(eq=False)
class LwF(LinearHead):
    """Learning without forgetting (paper, section 4.2; Li and Hoiem 2017).

    Adds ``strength * T**2 * KL(teacher || student)`` at temperature T to the loss of each
    correction; the teacher is the head as first trained.
    """

    strength: float = 1.0
    temperature: float = 2.0
    copies = 2  # student and teacher

    def _fit(self, X, y):
        super()._fit(X, y)
        self.teacher = self.theta.copy()

    def _gradient(self, residual, x):
        student, teacher = (
            softmax(theta @ x / self.temperature) for theta in (self.theta, self.teacher)
        )
        return super()._gradient(
            residual + self.strength * self.temperature * (student - teacher), x
        )
