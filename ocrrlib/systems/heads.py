"""Linear softmax heads: initial training with AdamW, and the updates that the paper compares.

Training and updates run in float64: the published float32 protocol differs from it by rounding
only, and results no longer depend on a machine's arithmetic. Of a linear softmax head all gradients
have a closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from ocrrlib.shared import shared
from ocrrlib.systems.base import Storage, System
from ocrrlib.voting import softmax


class TorchDraws:
    """torch's random draws without torch, as after ``torch.Generator().manual_seed(seed)``.

    torch and NumPy share the Mersenne Twister; this repeats what torch makes of its 32-bit words
    for ``nn.Linear`` and ``randperm`` on a CPU, from which the published heads start.
    """

    def __init__(self, seed: int):
        # RandomState seeds the twister as torch does; default_rng would not.
        self._words = np.random.RandomState(seed)._bit_generator.random_raw

    def uniform(self, bound: float, shape: tuple[int, ...]) -> np.ndarray:
        """``torch.empty(shape).uniform_(-bound, bound)``, float32."""
        bound = float(np.float32(bound))
        width = float(np.float32(bound) - np.float32(-bound))
        fractions = (self._words(math.prod(shape)) & 0xFFFFFF) * 2.0**-24
        # The sum is rounded once: torch multiplies and adds in one instruction.
        return (fractions * width - bound).astype(np.float32).reshape(shape)

    def linear(self, d: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
        """Initial weight (n_classes, d) and bias (n_classes,) of ``torch.nn.Linear``, float32."""
        bound = math.sqrt(3.0) * (math.sqrt(2.0 / 6.0) / math.sqrt(d))
        weight = self.uniform(bound, (n_classes, d))
        bias = self.uniform(1 / math.sqrt(d), (n_classes,))
        return weight, bias

    def permutation(self, n: int) -> np.ndarray:
        """``torch.randperm(n)``, n above 0."""
        order = list(range(n))
        hops = self._words(n - 1) % np.arange(n, 1, -1, dtype=np.uint64)
        for i, hop in enumerate(hops.tolist()):
            order[i], order[i + hop] = order[i + hop], order[i]
        return np.array(order)


def with_bias(X: np.ndarray) -> np.ndarray:
    """Rows (n, d) as float64 with a last column of ones, (n, d + 1)."""
    return np.hstack([X, np.ones((len(X), 1))])


def train(
    X: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    seed: int,
    epochs: int = 30,
    fit_lr: float = 1e-2,
    weight_decay: float = 1e-4,
    batch: int = 256,
) -> np.ndarray:
    """Train a linear head with cross-entropy and AdamW (Loshchilov and Hutter 2019, algorithm 2).

    ``X`` (n, d) float32 are rows, ``y`` (n,) int64 their class ids below ``n_classes``. Initial
    weights and the order of rows are torch's for ``seed``, the decay rates of the moments its
    defaults; the other settings are as published by default. Returns weights, and biases in the
    last column, (n_classes, d + 1) float64.
    """
    weight, bias = TorchDraws(seed).linear(X.shape[1], n_classes)
    theta = np.hstack([weight, bias[:, None]]).astype(np.float64)
    inputs = with_bias(X)
    draws = TorchDraws(seed)
    beta1 = 0.9
    beta2 = 0.999
    epsilon = 1e-8
    m = np.zeros_like(theta)
    v = np.zeros_like(theta)
    t = 0
    # The products are too small for more threads, which would wait for each other.
    with threadpool_limits(1):
        for _ in range(epochs):
            order = draws.permutation(len(y))
            for start in range(0, len(y), batch):
                rows = order[start : start + batch]
                x = inputs[rows]
                # g = R^T x / n, with R = softmax(x theta^T) - onehot(y)
                g = residuals(x @ theta.T, y[rows]).T @ x / len(rows)
                # m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
                # theta = (1 - lr decay) theta - lr m_hat / (sqrt(v_hat) + epsilon)
                t += 1
                m = beta1 * m + (1 - beta1) * g
                v = beta2 * v + (1 - beta2) * g**2
                m_hat = m / (1 - beta1**t)
                v_hat = v / (1 - beta2**t)
                theta *= 1 - fit_lr * weight_decay
                theta -= fit_lr * m_hat / (np.sqrt(v_hat) + epsilon)
    return theta


train_head = shared(keep=4)(train)  # of initial rows, which several systems have in common


def residuals(logits: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Gradients (m, C) of the cross-entropies of rows with respect to their logits (m, C).

    That is softmax(logits) - onehot(y), of classes y (m,).
    """
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
        settings = self.epochs, self.fit_lr, self.weight_decay, self.batch
        return self.trainer(X, y, n_classes, self.seed, *settings)


@dataclass(eq=False)
class LinearHead(Trained):
    """A linear softmax head over all classes; one step of SGD per correction (section 4.1).

    ``theta`` (C, d + 1) float64 are weights and, in the last column, biases.
    """

    lr: float | None = 0.05  #: step of SGD
    copies = 1  # of the head that are kept

    def _fit(self, X, y):
        self._tune(X, y)
        self.theta = self._trained(X, y, self.n_classes).copy()

    def _tune(self, X, y):
        """Set the step size ``rate`` of corrections."""
        self.rate = self.lr

    def _scores(self, X):
        return with_bias(X) @ self.theta.T

    def _answer(self, logits):
        return logits.argmax(axis=1)

    def _correct(self, x, y):
        x = np.append(x, 1.0)
        residual = residuals((self.theta @ x)[None], np.array([y]))[0]
        self.theta -= self.rate * self._gradient(residual, x)

    def _gradient(self, residual, x):
        """Gradient (C, d + 1) of the loss of one row x (d + 1,) with respect to ``theta``.

        ``residual`` (C,) is the gradient of its cross-entropy with respect to the logits.
        """
        return np.multiply.outer(residual, x)

    @property
    def stored(self) -> int:
        """Rows that are kept."""
        return 0

    def storage(self) -> Storage:
        """Heads have 4 bytes a parameter, as published, whatever they are computed in."""
        heads = 4 * self.copies * self.theta.size
        rows = self.stored * (4 * self.dim + 8)
        return Storage(heads + rows, entries=self.stored, parameters=self.theta.size)


class StaticLinear(LinearHead):
    """A head over the known classes, never updated (paper, section 4.1)."""

    learns = False

    def _fit(self, X, y):
        self.known, ranks = np.unique(y, return_inverse=True)
        self.theta = self._trained(X, ranks, len(self.known))

    def _scores(self, X):
        scores = np.full((len(X), self.n_classes), -np.inf)
        scores[:, self.known] = super()._scores(X)
        return scores

    def _probabilities(self, scores):
        p = np.zeros_like(scores)
        p[:, self.known] = softmax(scores[:, self.known])
        return p


@dataclass(eq=False)
class EWC(LinearHead):
    """Elastic weight consolidation (paper, section 4.2; Kirkpatrick et al. 2017).

    The loss of a correction has the penalty lambda / 2 * sum_i F_i (theta_i - theta*_i)^2 added,
    theta* being the head as first trained.
    """

    strength: float = 1000.0  #: lambda of the penalty
    fisher_rows: int = 2000  #: initial rows that estimate F
    copies = 3  # head, its start, F

    def _fit(self, X, y):
        super()._fit(X, y)
        self.start = self.theta.copy()
        n = min(self.fisher_rows, len(X))
        rows = X[np.random.default_rng(self.seed).choice(len(X), n, replace=False)]
        # F = mean of (d log p(c | x) / d theta)^2 over rows x, c being the predicted class
        logits = self._scores(rows)
        squares = residuals(logits, logits.argmax(axis=1)) ** 2
        self.fisher = squares.T @ with_bias(rows) ** 2 / len(rows)

    def _gradient(self, residual, x):
        pull = self.strength * self.fisher * (self.theta - self.start)
        return super()._gradient(residual, x) + pull


@dataclass(eq=False)
class AGEM(LinearHead):
    """Averaged gradient episodic memory (paper, section 4.2; Chaudhry et al. 2019).

    Removes from each gradient the part that would raise the loss on remembered rows.
    """

    memory: int = 1000  #: initial rows remembered, drawn once
    memory_batch: int = 64  #: remembered rows that a correction is checked against

    def _fit(self, X, y):
        super()._fit(X, y)
        self.rng = np.random.default_rng(self.seed)
        rows = self.rng.choice(len(X), min(self.memory, len(X)), replace=False)
        self.memory_X = with_bias(X[rows])
        self.memory_y = y[rows]

    def _gradient(self, residual, x):
        g = super()._gradient(residual, x)
        n = len(self.memory_y)
        rows = self.rng.choice(n, min(self.memory_batch, n), replace=False)
        M = self.memory_X[rows]
        R = residuals(M @ self.theta.T, self.memory_y[rows]) / len(rows)
        # g = residual x^T, g_ref = R^T M;  if g . g_ref < 0: g -= (g . g_ref / g_ref . g_ref) g_ref
        overlap = (R @ residual) @ (M @ x)
        if overlap < 0:
            g_ref = R.T @ M
            g -= overlap / np.vdot(g_ref, g_ref) * g_ref
        return g

    @property
    def stored(self) -> int:
        return len(self.memory_y)


@dataclass(eq=False)
class LwF(LinearHead):
    """Learning without forgetting (paper, section 4.2; Li and Hoiem 2017).

    The loss of a correction has lambda * T^2 * KL(teacher || student) added, both at temperature T;
    the teacher is the head as first trained.
    """

    strength: float = 1.0  #: lambda
    temperature: float = 2.0  #: T
    copies = 2  # student and teacher

    def _fit(self, X, y):
        super()._fit(X, y)
        self.teacher = self.theta.copy()

    def _gradient(self, residual, x):
        # With respect to the logits: d(T^2 KL) = T (student - teacher)
        student = softmax(self.theta @ x / self.temperature)
        teacher = softmax(self.teacher @ x / self.temperature)
        distillation = self.strength * self.temperature * (student - teacher)
        return super()._gradient(residual + distillation, x)
