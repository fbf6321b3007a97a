"""The paper's experiments as grids of runs."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from ocrrlib.encoders import DEFAULT_ENCODER, LEXICAL_ENCODER, SECOND_ENCODER
from ocrrlib.files import InputError, pick
from ocrrlib.metrics import RUN
from ocrrlib.policies import JOINT, POLICIES
from ocrrlib.scenario import PAPER_CAP
from ocrrlib.systems import SYSTEMS

SEEDS = (0, 1, 2)
MOST_SEEDS = 100_000  # of one range: each is laid out


@dataclass(frozen=True)
class Run:
    """One system, streamed once: names and numbers only, so that it can be hashed and sent anywhere."""

    dataset: str
    encoder: str
    policy: str
    seed: int
    system: str
    draw: str = "fresh"
    cap: int | None = PAPER_CAP
    thin: int = 1

    @property
    def names(self):
        """What names the run in results, as a dict."""
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

ONE = ("banking77",)
BOTH = ("banking77", "clinc150")
THREE = (*BOTH, "hwu64")
ALL_POLICIES = tuple(POLICIES)
WIDER = dict(seeds=tuple(range(20)), cap=None, rows=True)

EXPERIMENTS = {
    "full_sweep": Experiment(BOTH, ALL_POLICIES, FULL_SWEEP, "fresh"),
    "storage_pareto": Experiment(ONE, ("oracle",), STORAGE, "continued"),
    "lora": Experiment(ONE, ("oracle",), LORAS, "continued", slower=5),
    "vote_ablation": Experiment(ONE, ("oracle",), VARIANTS, "continued"),
    "beyond": Experiment(THREE, ALL_POLICIES, COMPARED, "fresh", **WIDER),
    "beyond_mpnet": Experiment(
        THREE,
        ALL_POLICIES,
        joining("beyond_mpnet", first=NARROWER),
        "fresh",
        encoder=SECOND_ENCODER,
        **WIDER,
    ),
    "beyond_tfidf": Experiment(
        THREE, ALL_POLICIES, NARROWER, "fresh", encoder=LEXICAL_ENCODER, **WIDER
    ),
    "joint": Experiment(THREE, (JOINT.name,), joining("joint", first=NARROWER), "fresh", **WIDER),
}

# ``quick`` shows in seconds that everything works; its numbers mean nothing.
PROFILES = {"paper": dict(cap=PAPER_CAP, thin=1), "quick": dict(cap=60, thin=24)}
WHOLE = PROFILES | {"paper": dict(cap=None, thin=1)}  # for what is not the paper's: all test rows


def parse_seeds(seeds):
    """Seeds as a tuple of integers, from ``"0,1,2"``, ``"0-4"`` or a sequence.

    Raises ``InputError`` if there is none, one twice, or one that is not an integer from 0 up.
    """
    try:
        parts = seeds.split(",") if isinstance(seeds, str) else map(operator.index, seeds)
        spans = [[int(end) for end in str(part).split("-")] for part in parts]
        if any(len(span) > 2 or span[-1] - span[0] not in range(MOST_SEEDS) for span in spans):
            raise ValueError
        numbers = tuple(number for span in spans for number in range(span[0], span[-1] + 1))
        if not numbers or max(numbers) >= 2**32 or len(set(numbers)) < len(numbers):
            raise ValueError
    except (TypeError, ValueError):
        way_out = f"from 0 to {2**32 - 1}, as 0,1,2 or, at most {MOST_SEEDS:,} of them, as 0-2"
        raise InputError(
            f"seeds {seeds!r} cannot be used: give different integers {way_out}"
        ) from None
    return numbers


def grid(experiment, encoder=None, seeds=None, profile="paper"):
    """All runs of an experiment, in the order of its result file; by default with its own encoder and seeds.

    Raises ``InputError`` if a name is unknown or a seed out of range.
    """
    plan = pick("experiment", experiment, EXPERIMENTS)
    size = pick("profile", profile, PROFILES)
    size = size | (
        {"thin": size["thin"] * plan.slower} if profile == "quick" else {"cap": plan.cap}
    )
    return [
        Run(dataset, encoder or plan.encoder, policy, seed, system, draw=plan.draw, **size)
        for dataset in plan.datasets
        for policy in plan.policies
        for seed in parse_seeds(plan.seeds if seeds is None else seeds)
        for system in plan.systems
    ]
