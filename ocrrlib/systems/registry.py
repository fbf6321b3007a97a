"""The registry: every system by name, with its hyperparameters (paper, Appendix B).

A new system is one class in a file of ``ocrrlib/systems`` or ``ocrrlib/rivals`` and one row here.
Comparisons, tests and figures follow from the row.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from ocrrlib.files import InputError


@dataclass(frozen=True)
class Row:
    """One system: its class, its hyperparameters, its source, and where it takes part."""

    module: str  #: where its class is, below ``ocrrlib``; imported when it is first made
    cls: str
    params: dict  #: hyperparameters
    about: str  #: one sentence: what it stores and how it learns from a correction, its source
    comparisons: tuple[str, ...] = ()  #: that it joins, see ``ocrrlib.experiments``
    extra: str | None = None  #: what ``pip install 'ocrrlib[extra]'`` brings for it
    small: dict | None = None  #: settings that make its contract tests quick; None: not tested
    reads: str = "embeddings"  #: or ``sentences``
    shares: str = "initial rows"  #: work; systems that share it run in one process, in a row
    version: int = 1  #: raised when the system's outcomes change

    def make(self, seed: int = 0, encoder: str | None = None):
        """A fresh system; one that reads sentences encodes them by the backbone ``encoder``.

        Raises ``InputError`` if a library is not installed.
        """
        try:
            module = importlib.import_module(f"ocrrlib.{self.module}")
        except ModuleNotFoundError as error:
            missing = f"{self.cls} needs {error.name}, which is not installed"
            way_out = f"ocrrlib[{self.extra}]" if self.extra else error.name
            raise InputError(f"{missing}: run `pip install '{way_out}'`") from error
        settings = dict(self.params)
        if encoder and self.reads == "sentences":
            settings["backbone"] = encoder
        return getattr(module, self.cls)(seed=seed, **settings)


# Comparisons that several systems join.
WIDE = ("beyond",)
TWO_ENCODERS = ("beyond", "beyond_mpnet")
EVERY_ENCODER = (*TWO_ENCODERS, "beyond_tfidf")

HEAD = dict(epochs=30, fit_lr=1e-2, weight_decay=1e-4, batch=256)
VOTE = dict(k=5, margin=0.05)
BUDGETS = (100, 500, 1000, 5000)
KEPT_BY = {"reservoir": "a uniform sample of all rows (Vitter 1985)", "fifo": "the newest rows"}
LORA = dict(
    epochs=2,
    rank=8,
    alpha=16,
    dropout=0.05,
    fit_lr=2e-4,
    weight_decay=1e-4,
    batch=16,
    max_length=64,
    lr=5e-4,
)
SMALL_LORA = dict(fit_lr=0.01, lr=0.1)
# Fields that the rows of a family share.
LORA_ROW: dict[str, Any] = dict(module="systems.lora", cls="LoRA", extra="lora", reads="sentences")

PAPER = {
    "static_knn": Row(
        module="systems.neighbours",
        cls="StaticKNN",
        params=VOTE,
        about="Stores the initial rows, votes among the 5 nearest; learns nothing.",
        comparisons=WIDE,
        small={},
    ),
    "static_linear": Row(
        module="systems.heads",
        cls="StaticLinear",
        params=HEAD,
        about="Stores a head over known classes; learns nothing.",
        comparisons=EVERY_ENCODER,
        small={},
        shares="head of known classes",
    ),
    "online_linear": Row(
        module="systems.heads",
        cls="LinearHead",
        params=dict(lr=0.05, **HEAD),
        about="Stores a linear head; one SGD step per correction.",
        comparisons=WIDE,
        small={},
    ),
    "ewc": Row(
        module="systems.heads",
        cls="EWC",
        params=dict(lr=0.05, strength=1000.0, fisher_rows=2000, **HEAD),
        about="SGD held to the initial head (Kirkpatrick et al. 2017).",
        comparisons=WIDE,
        small=dict(fisher_rows=100),
    ),
    "a_gem": Row(
        module="systems.heads",
        cls="AGEM",
        params=dict(lr=0.05, memory=1000, memory_batch=64, **HEAD),
        about="SGD that spares 1,000 old rows (Chaudhry et al. 2019).",
        comparisons=WIDE,
        small=dict(memory=60, memory_batch=16),
    ),
    "lwf": Row(
        module="systems.heads",
        cls="LwF",
        params=dict(lr=0.05, strength=1.0, temperature=2.0, **HEAD),
        about="SGD held to the old answers (Li and Hoiem 2017).",
        comparisons=WIDE,
        small={},
    ),
    "knn_lm": Row(
        module="systems.neighbours",
        cls="KNNLM",
        params=dict(k=5, weight=0.5, temperature=0.1, **HEAD),
        about="Stores a frozen head and every row; a correction is one more row "
        "(Khandelwal et al. 2020).",
        comparisons=EVERY_ENCODER,
        small={},
    ),
    "river_logreg": Row(
        module="systems.river",
        cls="RiverLogReg",
        params=dict(lr=0.01, rows=3000),
        about="Stores river's one-vs-rest logistic regression; one SGD step per correction "
        "(Montiel et al. 2021).",
        comparisons=WIDE,
        extra="river",
        small=dict(rows=100),
        shares="river",
    ),
    "substrate": Row(
        module="systems.neighbours",
        cls="Substrate",
        params=VOTE,
        about="Stores every row in a hash-chained ledger, votes among the 5 nearest; appends.",
        comparisons=EVERY_ENCODER,
        small={},
    ),
    **{
        f"bounded_{eviction}_{budget}": Row(
            module="systems.neighbours",
            cls="Bounded",
            params=dict(budget=budget, eviction=eviction, **VOTE),
            about=f"Substrate of {budget} entries at most: {kept}.",
            small=dict(budget=50) if budget == 100 else None,
        )
        for eviction, kept in KEPT_BY.items()
        for budget in BUDGETS
    },
    "substrate_hnsw": Row(
        module="systems.neighbours",
        cls="SubstrateHNSW",
        params=dict(M=16, ef_construction=200, ef=64, **VOTE),
        about="Stores the ledger and an index for approximate search (Malkov and Yashunin 2020); "
        "appends to both.",
        extra="ann",
        small={},
    ),
    "lora": Row(
        **LORA_ROW,
        params=LORA,
        about="Stores low-rank adapters and a head on a transformer; "
        "one SGD step per correction (Hu et al. 2022).",
        small=SMALL_LORA,
    ),
    "lora_replay": Row(
        **LORA_ROW,
        params=LORA | dict(replay=31, memory=1000),
        about="Stores low-rank adapters and a head on a transformer; "
        "one SGD step on the mean loss of a correction and 31 old rows (Hu et al. 2022).",
        small=SMALL_LORA | dict(replay=2),
    ),
    "lora_replay_summed": Row(
        **LORA_ROW,
        params=LORA | dict(replay=31, memory=1000, lr=32 * 5e-4),
        about="Stores low-rank adapters and a head on a transformer; "
        "one SGD step on the sum of the losses of a correction and 31 old rows (Hu et al. 2022).",
    ),
    "lora_no_dropout": Row(
        **LORA_ROW,
        params=LORA | dict(correct_with_dropout=False),
        about="Stores low-rank adapters and a head on a transformer; "
        "one SGD step per correction, without dropout (Hu et al. 2022).",
    ),
    "lora_epochs_5": Row(
        **LORA_ROW,
        params=LORA | dict(epochs=5),
        about="Stores low-rank adapters and a head on a transformer; "
        "one SGD step per correction, after 5 epochs of training (Hu et al. 2022).",
    ),
    "lora_epochs_10": Row(
        **LORA_ROW,
        params=LORA | dict(epochs=10),
        about="Stores low-rank adapters and a head on a transformer; "
        "one SGD step per correction, after 10 epochs of training (Hu et al. 2022).",
    ),
}

REPLAY = dict(memory=1000, memory_batch=10, **HEAD)
KLDA = dict(features=2000, shrinkage=0.2, target="variance")
FEW_FEATURES = dict(features=64)
# Fields that the rows of a family share.
KERNEL_ROW: dict[str, Any] = dict(
    module="rivals.discriminants", cls="KLDA", small=FEW_FEATURES, shares="kernel features"
)
REPLAY_ROW: dict[str, Any] = dict(module="rivals.replay", shares="head of known classes")

RIVALS = {
    "online_linear_tuned": Row(
        module="rivals.tuned",
        cls="OnlineLinearTuned",
        params=HEAD,
        about="Stores a linear head; SGD at the rate best on held-out known classes.",
        comparisons=EVERY_ENCODER,
        small={},
    ),
    "ncm": Row(
        module="rivals.discriminants",
        cls="NCM",
        params={},
        about="Stores class means; a correction moves one (Mensink et al. 2013).",
        comparisons=EVERY_ENCODER,
        small={},
    ),
    "ncm_cosine": Row(
        module="rivals.discriminants",
        cls="NCM",
        params=dict(unit=True),
        about="Stores unit class means; a correction moves one (Rebuffi et al. 2017).",
        comparisons=WIDE,
        small={},
    ),
    "slda": Row(
        module="rivals.discriminants",
        cls="SLDA",
        params=dict(shrinkage=1e-4),
        about="Stores class means and a covariance, moves both (Hayes and Kanan 2020).",
        comparisons=EVERY_ENCODER,
        small={},
    ),
    "slda_frozen": Row(
        module="rivals.discriminants",
        cls="SLDA",
        params=dict(shrinkage=1e-4, updated=False),
        about="As slda, but moves means alone.",
        comparisons=WIDE,
        small={},
    ),
    "slda_shrunk": Row(
        module="rivals.discriminants",
        cls="SLDA",
        params=dict(shrinkage=1e-2),
        about="As slda, its covariance shrunk 100 times as much.",
        comparisons=EVERY_ENCODER,
    ),
    "klda": Row(
        **KERNEL_ROW,
        params=KLDA,
        about="As slda, on 2,000 random features (Prabhu et al. 2024; Momeni et al. 2025).",
        comparisons=EVERY_ENCODER,
    ),
    "klda_held": Row(
        **KERNEL_ROW,
        params=KLDA | dict(prior_rows=2.5),
        about="As klda, class means held to that of all initial rows, a prior worth 2.5 rows "
        "(Gauvain and Lee 1994).",
        comparisons=EVERY_ENCODER,
    ),
    "rls": Row(
        module="rivals.ridge",
        cls="RLS",
        params=dict(ridge=0.1),
        about="Stores ridge regression on all rows, updated exactly (Zhuang et al. 2022).",
        comparisons=EVERY_ENCODER,
        small={},
    ),
    "ranpac": Row(
        module="rivals.ridge",
        cls="RanPAC",
        params=dict(features=2000),
        about="As rls, on 2,000 rectified projections, classes weighing the same "
        "(McDonnell et al. 2023).",
        comparisons=EVERY_ENCODER,
        small=FEW_FEATURES,
        shares="projections",
    ),
    "blind": Row(
        module="rivals.blind",
        cls="Blind",
        params={},
        about="Stores one class id, that of the last correction, and answers it.",
        comparisons=WIDE,
        small={},
    ),
    "er": Row(
        **REPLAY_ROW,
        cls="ER",
        params=REPLAY | dict(lr=0.1),
        about="SGD on a correction and 10 of 1,000 stored rows (Chaudhry et al. 2019).",
        comparisons=WIDE,
        small=dict(memory=60),
    ),
    "er_ace": Row(
        **REPLAY_ROW,
        cls="ERACE",
        params=REPLAY | dict(lr=0.1, recent=10),
        about="As er, new rows compete among their own classes (Caccia et al. 2022).",
        comparisons=WIDE,
        small=dict(memory=60),
    ),
    "der_pp": Row(
        **REPLAY_ROW,
        cls="DERPP",
        params=REPLAY | dict(lr=0.03, memory_batch=32, alpha=0.1, beta=0.5),
        about="As er, stored rows held to their old logits (Buzzega et al. 2020).",
        comparisons=WIDE,
        small=dict(memory=60, memory_batch=8),
    ),
    "mir": Row(
        **REPLAY_ROW,
        cls="MIR",
        params=REPLAY | dict(lr=0.1, candidates=50),
        about="As er, on the rows that a correction hurts (Aljundi et al. 2019).",
        comparisons=WIDE,
        small=dict(memory=60, candidates=20),
    ),
    "er_tuned": Row(
        **REPLAY_ROW,
        cls="ER",
        params=REPLAY,
        about="As er, at the rate best on held-out known classes.",
        comparisons=EVERY_ENCODER,
        small=dict(memory=60),
    ),
    "er_ace_tuned": Row(
        **REPLAY_ROW,
        cls="ERACE",
        params=REPLAY | dict(recent=10),
        about="As er_ace, at the rate best on held-out known classes.",
        comparisons=EVERY_ENCODER,
    ),
    "gdumb": Row(
        **REPLAY_ROW,
        cls="GDumb",
        params=REPLAY | dict(every=25),
        about="Stores 1,000 rows, trains a new head on them (Prabhu et al. 2020).",
        comparisons=WIDE,
        small=dict(memory=60),
    ),
    "pa": Row(
        module="rivals.passive_aggressive",
        cls="PassiveAggressive",
        params=dict(C=1.0),
        about="Stores a one-vs-rest linear model; the least step that corrects "
        "(Crammer et al. 2006).",
        comparisons=WIDE,
        small={},
        shares="passive-aggressive",
    ),
    "ledger_lda": Row(
        module="rivals.ledger_lda",
        cls="LedgerLDA",
        params=HEAD,
        about="Proposed: the substrate's ledger, read through held class means, nearest entries "
        "and a head; appends.",
        comparisons=EVERY_ENCODER,
        small={},
        shares="head of known classes",
        version=3,
    ),
    "slda_even": Row(
        module="rivals.even",
        cls="Even",
        params=dict(of="slda"),
        about="As slda, known and new classes equally likely once a new one has two rows.",
        comparisons=TWO_ENCODERS,
        small={},
    ),
    "klda_held_even": Row(
        module="rivals.even",
        cls="Even",
        params=dict(of="klda_held"),
        about="As klda_held, known and new classes equally likely once a new one has two rows.",
        comparisons=TWO_ENCODERS,
        shares="kernel features",
    ),
    "slda_even_lookup": Row(
        module="rivals.even",
        cls="Even",
        params=dict(of="slda", lookup=True),
        about="As slda_even, a row that is stored is answered as it was corrected.",
        comparisons=WIDE,
        small={},
    ),
    "klda_held_even_lookup": Row(
        module="rivals.even",
        cls="Even",
        params=dict(of="klda_held", lookup=True),
        about="As klda_held_even, a row that is stored is answered as it was corrected.",
        comparisons=WIDE,
        shares="kernel features",
    ),
    "ranpac_even_lookup": Row(
        module="rivals.even",
        cls="Even",
        params=dict(of="ranpac", lookup=True),
        about="As ranpac, with the even rule; a row that is stored is answered as it was "
        "corrected.",
        comparisons=WIDE,
        shares="projections",
    ),
}

ABLATIONS = {  # of the substrate's vote (section 5.6)
    "substrate_k1": Row(
        module="systems.neighbours",
        cls="Substrate",
        params=dict(k=1, margin=0.05),
        about="Substrate that asks the nearest entry alone.",
        comparisons=EVERY_ENCODER,
    ),
    "substrate_sumsim": Row(
        module="systems.neighbours",
        cls="Substrate",
        params=dict(k=5, rule="sumsim"),
        about="Substrate with votes weighed by cosine.",
    ),
    "substrate_count_only": Row(
        module="systems.neighbours",
        cls="Substrate",
        params=dict(**VOTE, rule="count_only"),
        about="Substrate with ties by count only.",
    ),
    "substrate_no_recency": Row(
        module="systems.neighbours",
        cls="Substrate",
        params=dict(**VOTE, rule="no_recency"),
        about="Substrate with ties by class id.",
    ),
}

SYSTEMS = PAPER | RIVALS | ABLATIONS
