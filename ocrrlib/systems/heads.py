"""The linear softmax head of all systems that have one, and its gradients in closed form.

Training and updates run in float64: the published float32 protocol differs from
it by rounding only, and results no longer depend on a machine's arithmetic.
"""

import numpy as np
from threadpoolctl import threadpool_limits

from ocrrlib.shared import shared
from ocrrlib.systems.base import Storage, System
from ocrrlib.systems.certain import best_class
from ocrrlib.systems.linear import softmax, softmax_seen
from ocrrlib.torch_draws import TorchDraws


def train(X, y, n_classes, seed, epochs, lr, weight_decay, batch):
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

    Returns
    -------
    W : (n_classes, d) float64
    b : (n_classes,) float64
    """
    weight, bias = TorchDraws(seed).linear(X.shape[1], n_classes)
    theta = np.hstack([weight, bias[:, None]]).astype(np.float64)
    inputs = np.hstack([X, np.ones((len(X), 1))])  # float64, with the bias as one more weight
    adam = AdamW(theta, lr, weight_decay)
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


@shared(keep=1)
def _orders(n, epochs, seed):
    """The order of rows in each epoch; the same for the heads over known and over all classes."""
    draws = TorchDraws(seed)
    return [draws.permutation(n) for _ in range(epochs)]


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


class LinearHead(System):
    """A linear softmax head over all classes; subclasses say how a correction moves it.

    Parameters
    ----------
    lr : float
        Step of plain SGD per correction.
    epochs, fit_lr, weight_decay, batch
        Initial training with AdamW.
    """

    def __init__(self, seed=0, lr=0.05, epochs=30, fit_lr=1e-2, weight_decay=1e-4, batch=256):
        super().__init__(seed)
        self.lr = lr
        self.training = dict(epochs=epochs, lr=fit_lr, weight_decay=weight_decay, batch=batch)

    def _fit(self, X, y):
        W, b = train_head(X, y, self.n_classes, self.seed, **self.training)
        self.W, self.b, self.room = W.copy(), b.copy(), np.empty_like(W)

    def _logits(self, X):
        return X.astype(np.float64) @ self.W.T + self.b

    def _predict(self, X):
        return best_class(X, self.W, self.b)

    def _probabilities(self, X):
        return softmax_seen(self._logits(X), self._is_met)

    @property
    def _is_met(self):
        """Classes that initial rows or corrections had, (C,) bool; the head has weights for all."""
        return np.isin(np.arange(self.n_classes), list(self.met))

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
