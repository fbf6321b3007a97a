"""The held-out-class shift: initial rows, stream and test sets (paper, section 3.2)."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ocrrlib.errors import InputError, pick

# After the held-out classes, the authors' full sweep makes a new generator from the seed ("fresh"), their other
# experiments continue the same one.
DRAWS = {"fresh": True, "continued": False}
PAPER_CAP = 400  # test rows per axis in the authors' code; the paper does not mention it


@dataclass(frozen=True)
class Scenario:
    """One draw of the benchmark; arrays are read-only.

    Attributes
    ----------
    classes : tuple of str
        Names of all classes; a class id is a position in it.
    held_out : (h,) int64
        Ids of the novel classes, first met in the stream.
    X_initial, y_initial
        Training rows of the known classes, in file order.
    X_stream, y_stream
        Training rows of the held-out classes, shuffled.
    X_novel, y_novel
        Test rows of the held-out classes.
    X_original, y_original
        Test rows of the known classes.
    """

    dataset: str
    encoder: str
    seed: int
    classes: tuple[str, ...]
    held_out: np.ndarray
    X_initial: np.ndarray
    y_initial: np.ndarray
    X_stream: np.ndarray
    y_stream: np.ndarray
    X_novel: np.ndarray
    y_novel: np.ndarray
    X_original: np.ndarray
    y_original: np.ndarray

    def __post_init__(self):
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False  # one scenario serves many runs

    @cached_property
    def queries(self):
        """All rows to predict, (q, d): stream, novel test rows, original test rows."""
        rows = np.concatenate([self.X_stream, self.X_novel, self.X_original])
        rows.flags.writeable = False
        return rows


def make_scenario(data, seed, draw="fresh", cap=PAPER_CAP, held_out=10, thin=1):
    """Draw a scenario from an embedded dataset.

    Parameters
    ----------
    data : Embedded
        The dataset.
    seed : int
        Seed of every draw, from 0 up.
    draw : str
        A name in ``DRAWS``: the generator after the held-out classes are drawn.
    cap : int or None
        Test rows per axis at most, drawn at random; None for all.
    held_out : int
        Number of held-out classes.
    thin : int
        Keep every ``thin``-th training row.

    Raises
    ------
    InputError
        If the draw is unknown or a number is out of range.
    """
    renew = pick("draw", draw, DRAWS)
    n_classes = len(data.classes)
    if not (isinstance(seed, (int, np.integer)) and seed >= 0):
        raise InputError(f"seed {seed!r} is out of range: give an integer from 0 up")
    if not 0 < held_out < n_classes:
        raise InputError(f"cannot hold out {held_out} of {n_classes} classes: give 1 to {n_classes - 1}")
    if cap is not None and cap < 1:
        raise InputError(f"a cap of {cap} test rows is too small: give at least 1, or None for all")
    if thin < 1:
        raise InputError(f"thin {thin} is out of range: give 1 for all training rows, n for every n-th")

    rng = np.random.default_rng(seed)
    held = rng.choice(n_classes, held_out, replace=False)
    if renew:
        rng = np.random.default_rng(seed)

    def capped(rows):
        return rows if cap is None or len(rows) <= cap else rng.choice(rows, cap, replace=False)

    novel_test = np.isin(data.y_test, held)
    original = capped(np.flatnonzero(~novel_test))
    novel = capped(np.flatnonzero(novel_test))
    X_train, y_train = data.X_train[::thin], data.y_train[::thin]
    streamed = np.isin(y_train, held)
    stream = np.flatnonzero(streamed)
    stream = stream[rng.permutation(len(stream))]
    return Scenario(
        dataset=data.dataset,
        encoder=data.encoder,
        seed=seed,
        classes=data.classes,
        held_out=held,
        X_initial=X_train[~streamed],
        y_initial=y_train[~streamed],
        X_stream=X_train[stream],
        y_stream=y_train[stream],
        X_novel=data.X_test[novel],
        y_novel=data.y_test[novel],
        X_original=data.X_test[original],
        y_original=data.y_test[original],
    )


def shuffled(scenario):
    """The same scenario with its initial rows in random order, drawn from its seed."""
    order = np.random.default_rng(scenario.seed).permutation(len(scenario.y_initial))
    return replace(scenario, X_initial=scenario.X_initial[order], y_initial=scenario.y_initial[order])
