"""The paper's experiments and the wider comparison, as grids of runs."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ocrrlib.encoders import DEFAULT_ENCODER, LEXICAL_ENCODER, SECOND_ENCODER
from ocrrlib.files import InputError, pick
from ocrrlib.metrics import RUN
from ocrrlib.policies import JOINT, POLICIES
from ocrrlib.scenario import PAPER_CAP
from ocrrlib.systems import SYSTEMS

ONE = ("banking77",)
BOTH = ("banking77", "clinc150")
THREE = (*BOTH, "hwu64")
ALL_POLICIES = tuple(POLICIES)
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

    @property
    def names(self) -> dict:
        """The columns that name the run in results."""
        return {name: getattr(self, name) for name in RUN}


@dataclass(frozen=True)
class Experiment:
    """A grid: everything against everything, with one way of drawing scenarios."""

    datasets: tuple[str, ...]
    policies: tuple[str, ...]
    systems: tuple[str, ...]
    draw: str
    slower: int = 1  # how many times fewer training rows a quick look takes
    seeds: tuple[int, ...] = SEEDS
    cap: int | None = PAPER_CAP
    rows: bool = False  # whether it is kept which test rows were right
    encoder: str = DEFAULT_ENCODER


def wider(policies: tuple[str, ...], systems: tuple[str, ...], encoder=DEFAULT_ENCODER):
    """An experiment of our own: three datasets, 20 seeds, whole test sets."""
    return Experiment(
        THREE,
        policies,
        systems,
        "fresh",
        seeds=tuple(range(20)),
        cap=None,
        rows=True,
        encoder=encoder,
    )


def joining(comparison: str, first: Sequence[str] = ()) -> tuple[str, ...]:
    """Systems whose registry rows join a comparison: some ``first``, the others in its order.

    Rows of published files keep the order in which they were run.
    """
    names = [name for name, row in SYSTEMS.items() if comparison in row.comparisons]
    return (*first, *(name for name in names if name not in first))


OURS = "ledger_lda"  # the proposed system
BEFORE = "ledger_plda"  # the one that it replaces
FULL_SWEEP = joining("full_sweep")
COMPARED = joining(
    "beyond",
    (
        *FULL_SWEEP,
        *"online_linear_tuned pa ncm ncm_cosine slda slda_frozen slda_shrunk klda rls".split(),
        *"klda_held klda_oas klda_5 ranpac blind er er_ace der_pp mir gdumb".split(),
    ),
)
# Those that keep the known classes and learn the new ones, one of each kind, and the floor.
NARROWER = joining(
    "beyond_tfidf",
    "static_linear online_linear_tuned knn_lm substrate ncm slda slda_shrunk rls".split(),
)
BOUNDED = tuple(name for name in joining("storage_pareto") if name.startswith("bounded_"))

LORAS = joining("lora", ("lora", "lora_no_dropout", "lora_epochs_5", "lora_epochs_10"))
VARIANTS = joining(
    "vote_ablation", ("substrate", "substrate_count_only", "substrate_no_recency", "substrate_k1")
)
STORAGE = joining("storage_pareto", ("substrate",))

EXPERIMENTS = {
    "full_sweep": Experiment(BOTH, ALL_POLICIES, FULL_SWEEP, "fresh"),
    "storage_pareto": Experiment(ONE, ("oracle",), STORAGE, "continued"),
    "lora": Experiment(ONE, ("oracle",), LORAS, "continued", slower=5),
    "vote_ablation": Experiment(ONE, ("oracle",), VARIANTS, "continued"),
    "beyond": wider(ALL_POLICIES, COMPARED),
    "beyond_mpnet": wider(
        ALL_POLICIES, joining("beyond_mpnet", first=NARROWER), encoder=SECOND_ENCODER
    ),
    "beyond_tfidf": wider(ALL_POLICIES, NARROWER, encoder=LEXICAL_ENCODER),
    "joint": wider((JOINT.name,), joining("joint", first=NARROWER)),
}

# ``quick`` shows in seconds that everything works; its numbers mean nothing.
PROFILES: dict[str, dict] = {"paper": dict(cap=PAPER_CAP, thin=1), "quick": dict(cap=60, thin=24)}
WHOLE = PROFILES | {"paper": dict(cap=None, thin=1)}  # for what is not the paper's: all test rows


def parse_seeds(seeds: str | Iterable[int]) -> tuple[int, ...]:
    """Seeds as integers, from ``"0,1,2"``, ``"0-4"`` or a sequence.

    Raises ``InputError`` if there is none, one twice, or one that is not an integer from 0 up.
    """
    way_out = f"from 0 to {2**32 - 1}, as 0,1,2 or, at most {MOST_SEEDS:,} of them, as 0-2"
    refusal = InputError(f"seeds {seeds!r} cannot be used: give different integers {way_out}")
    numbers: list[int] = []
    try:
        if isinstance(seeds, str):
            for part in seeds.split(","):
                numbers += _span(part)
        else:
            numbers = [operator.index(seed) for seed in seeds]
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
    experiment: str,
    encoder: str | None = None,
    seeds: str | Iterable[int] | None = None,
    profile: str = "paper",
) -> list[Run]:
    """All runs of an experiment, in the order of its result file.

    By default with its own encoder and seeds. Raises ``InputError`` if a name is unknown or a seed
    out of range.
    """
    plan = pick("experiment", experiment, EXPERIMENTS)
    size = pick("profile", profile, PROFILES)
    cap = size["cap"] if profile == "quick" else plan.cap
    thin = size["thin"] * plan.slower if profile == "quick" else size["thin"]
    return [
        Run(dataset, encoder or plan.encoder, policy, seed, system, plan.draw, cap, thin)
        for dataset in plan.datasets
        for policy in plan.policies
        for seed in parse_seeds(plan.seeds if seeds is None else seeds)
        for system in plan.systems
    ]
