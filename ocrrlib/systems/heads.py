"""The linear softmax head that seven systems start from, and its gradients in closed form.

Training and updates run in float64: the published float32 protocol differs from
it by rounding only, and results no longer depend on the machine's arithmetic.
"""

import numpy as np
import torch

from ocrrlib.shared import shared
from ocrrlib.systems.base import Storage, System


@shared(keep=2)
def train_head(X, y, n_classes, seed, epochs, lr, weight_decay, batch):
    """Train a linear head with AdamW and cross-entropy.

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
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = torch.nn.Linear(X.shape[1], n_classes).double()
    inputs, labels = torch.from_numpy(X).double(), torch.from_numpy(y)
    order = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(head.parameters(), lr=lr, weight_decay=weight_decay, fused=True)
    for _ in range(epochs if len(y) else 0):
        for rows in torch.randperm(len(y), generator=order).split(batch):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(head(inputs[rows]), labels[rows]).backward()
            optimiser.step()
    return head.weight.detach().numpy(), head.bias.detach().numpy()


def softmax(logits):
    """Probabilities along the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


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
        self.W, self.b = W.copy(), b.copy()

    def _logits(self, X):
        return X.astype(np.float64) @ self.W.T + self.b

    def _predict(self, X):
        return self._logits(X).argmax(axis=1)

    def _residual(self, x, y):
        """Gradient of the cross-entropy with respect to the logits of one example, (C,)."""
        residual = softmax(self.W @ x + self.b)
        residual[y] -= 1
        return residual

    def storage(self):
        parameters = self.W.size + self.b.size
        return Storage(bytes=4 * parameters, parameters=parameters)
