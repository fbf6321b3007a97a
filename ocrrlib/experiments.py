"""Grids of runs, and the systems of the wider comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.files import InputError
from ocrrlib.metrics import RUN
from ocrrlib.scenario import PAPER_CAP
from ocrrlib.systems import SYSTEMS

THREE = ("banking77", "clinc150", "hwu64")
SEEDS = (0, 1, 2)
MOST_SEEDS = 100_000  # of one range: each is laid out


@dataclass(frozen=True)
class Run:
    """One system, streamed once under one policy.

    Names and numbers only, so that it can be hashed and sent anywhere.
    """

    dataset: str
    encoder: str
    policy: str
    seed: int
    system: str
    draw: str = "fresh"
    cap: int | None = PAPER_CAP
    thin: int = 1
    held_out: int = 10

    @property
    def names(self) -> dict:
        """The columns that name the run in results."""
        return {name: getattr(self, name) for name in RUN}


def joining(comparison: str, first: Sequence[str] = ()) -> tuple[str, ...]:
    """Systems that join a comparison: those named ``first``, then the others in registry order.

    Rows of published files keep the order in which they were run.
    """
    names = [name for name, row in SYSTEMS.items() if comparison in row.comparisons]
    return (*first, *(name for name in names if name not in first))


OURS = "ledger_lda"  # the proposed system
SUBSTRATE = "substrate"  # the paper's
COMPARED = joining(
    "beyond",
    (
        *"static_knn static_linear online_linear ewc a_gem lwf knn_lm river_logreg".split(),
        *"substrate online_linear_tuned pa ncm ncm_cosine slda slda_frozen slda_shrunk".split(),
        *"klda rls klda_held ranpac blind er er_ace der_pp mir gdumb".split(),
    ),
)
# Those that keep the known classes and learn the new ones, one of each kind, and the floor.
NARROWER = joining(
    "beyond_tfidf",
    "static_linear online_linear_tuned knn_lm substrate ncm slda slda_shrunk rls".split(),
)
STRONGER = joining("beyond_mpnet", NARROWER)  # run with the second encoder

# ``quick`` shows in seconds that everything works; its numbers mean nothing.
PROFILES: dict[str, dict] = {"paper": dict(cap=PAPER_CAP, thin=1), "quick": dict(cap=60, thin=24)}
ALL_ROWS = PROFILES | {
    "paper": dict(cap=None, thin=1)
}  # for what is not the paper's: all test rows


def parse_names(names: str | Iterable[str]) -> list[str]:
    """Names as a list, from ``"a,b"``, one name or a sequence."""
    parts = names.split(",") if isinstance(names, str) else names
    return [part.strip() for part in parts]


def parse_seeds(seeds: int | str | Iterable[int]) -> tuple[int, ...]:
    """Seeds as integers, from one of them, ``"0,1,2"``, ``"0-4"`` or a sequence.

    Raises ``InputError`` if there is none, one twice, or one that is not an integer from 0 up.
    """
    way_out = f"from 0 to {2**32 - 1}, as 0,1,2 or, at most {MOST_SEEDS:,} of them, as 0-2"
    refusal = InputError(f"seeds {seeds!r} cannot be used: give different integers {way_out}")
    if isinstance(seeds, str):
        parts: Iterable[Any] = seeds.split(",")
    elif isinstance(seeds, Iterable):
        parts = seeds
    else:
        parts = [seeds]
    numbers: list[int] = []
    try:
        for part in parts:
            numbers += _span(str(part))
    except (TypeError, ValueError):
        raise refusal from None
    if not numbers or min(numbers) < 0 or max(numbers) >= 2**32:
        raise refusal
    if len(set(numbers)) < len(numbers):
        raise refusal
    return tuple(numbers)


def _span(part):
    """The numbers of ``"3"`` or ``"0-4"``; ``ValueError`` if it is neither."""
    first, dash, last = part.partition("-")
    start = int(first)
    stop = int(last if dash else first) + 1
    if not start < stop <= start + MOST_SEEDS:
        raise ValueError
    return range(start, stop)


def grid(
    datasets: Iterable[str],
    policies: Iterable[str],
    systems: Iterable[str],
    seeds: int | str | Iterable[int],
    encoder: str = DEFAULT_ENCODER,
    **setting: Any,
) -> list[Run]:
    """Everything against everything: systems within seeds, policies and datasets.

    ``setting``: ``draw``, ``cap``, ``thin`` and ``held_out`` of all runs. Raises ``InputError`` if
    a seed is out of range.
    """
    numbers = parse_seeds(seeds)
    return [
        Run(dataset, encoder, policy, seed, system, **setting)
        for dataset, policy, seed, system in product(datasets, policies, numbers, systems)
    ]
