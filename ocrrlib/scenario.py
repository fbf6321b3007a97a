"""The held-out-class shift: initial rows, stream and test sets (paper, section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ocrrlib.files import InputError, pick

if TYPE_CHECKING:
    from ocrrlib.embeddings import Embedded

# After the held-out classes, the authors' full sweep makes a new generator from the seed ("fresh"),
# their other experiments continue the same one.
DRAWS = {"fresh": True, "continued": False}
PAPER_CAP = 400  # test rows per axis in the authors' code; the paper does not mention it


@dataclass(frozen=True)
class Scenario:
    """One draw of the benchmark; arrays are read-only.

    ``classes`` are the names of all classes, a class id is a position there; ``held_out`` (h,) the
    ids of the novel ones. ``X_initial`` (n, d), ``y_initial`` (n,) are the training rows of the
    known classes, in file order; ``stream``, those of the held-out classes, shuffled; ``novel`` and
    ``original``, the test rows of the held-out and the known classes.
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
    def queries(self) -> np.ndarray:
        """All rows to predict, (q, d): stream, novel test rows, original test rows."""
        rows = np.concatenate([self.X_stream, self.X_novel, self.X_original])
        rows.flags.writeable = False
        return rows


def make_scenario(
    data: Embedded,
    seed: int,
    draw: str = "fresh",
    cap: int | None = PAPER_CAP,
    held_out: int = 10,
    thin: int = 1,
) -> Scenario:
    """Draw a scenario from an embedded dataset.

    ``seed`` decides every draw, ``draw``, a name in ``DRAWS``, the generator once ``held_out``
    classes are drawn. ``cap`` limits the test rows per axis, drawn at random; None keeps all. Every
    ``thin``-th training row is kept.

    Raises ``InputError`` if the draw is unknown or a number is out of range.

    Examples
    --------
    >>> from ocrrlib.embeddings import load
    >>> scenario = make_scenario(load("banking77"), seed=0)
    >>> [scenario.classes[i] for i in scenario.held_out[:2]]
    ['top_up_by_card_charge', 'topping_up_by_card']
    >>> scenario.X_initial.shape, scenario.X_stream.shape
    ((8808, 384), (1195, 384))
    >>> len(scenario.y_novel), len(scenario.y_original)  # at most 400, as in the paper's code
    (400, 400)
    """
    renew = pick("draw", draw, DRAWS)
    n_classes = len(data.classes)
    whole = isinstance(seed, (int, np.integer)) and seed >= 0
    if not (whole and 0 < held_out < n_classes and thin >= 1 and (cap is None or cap >= 1)):
        given = f"seed {seed!r}, held_out {held_out}, cap {cap} or thin {thin}"
        allowed = f"seed from 0, held_out 1 to {n_classes - 1}, cap and thin from 1"
        raise InputError(f"{given} is out of range: {allowed}")

    rng = np.random.default_rng(seed)
    held = rng.choice(n_classes, held_out, replace=False)
    if renew:
        rng = np.random.default_rng(seed)

    novel_test = np.isin(data.y_test, held)
    original = _capped(np.flatnonzero(~novel_test), cap, rng)
    novel = _capped(np.flatnonzero(novel_test), cap, rng)
    X_train = data.X_train[::thin]
    y_train = data.y_train[::thin]
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


def _capped(rows, cap, rng):
    """At most ``cap`` of these rows, at random; no draw is made where they are few enough."""
    if cap is None or len(rows) <= cap:
        return rows
    return rng.choice(rows, cap, replace=False)


def joint(scenario: Scenario) -> Scenario:
    """The same test rows with the stream's rows among the initial ones, and no stream."""
    return replace(
        scenario,
        X_initial=np.concatenate([scenario.X_initial, scenario.X_stream]),
        y_initial=np.concatenate([scenario.y_initial, scenario.y_stream]),
        X_stream=scenario.X_stream[:0],
        y_stream=scenario.y_stream[:0],
    )


def shuffled(scenario: Scenario) -> Scenario:
    """The same scenario with its initial rows in random order, drawn from its seed."""
    order = np.random.default_rng(scenario.seed).permutation(len(scenario.y_initial))
    return replace(
        scenario, X_initial=scenario.X_initial[order], y_initial=scenario.y_initial[order]
    )
