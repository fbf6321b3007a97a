"""The registry: every system by name, with its hyperparameters (paper, Appendix B).

A new system is one class in a file of ``ocrrlib/systems`` or ``ocrrlib/rivals`` and one row here.
Comparisons, tests and figures follow from the row.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from ocrrlib.files import InputError


@dataclass(frozen=True)
class Row:
    """One system as data."""

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
KEPT = {"reservoir": "a uniform sample of all rows (Vitter 1985)", "fifo": "the newest rows"}
LORA = dict(
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


def _near(cls, about, comparisons=(), small=None, **params):
    return Row("systems.neighbours", cls, params or VOTE, about, comparisons, small=small)


def _head(cls, about, comparisons, small, **params):
    return Row("systems.heads", cls, params | HEAD, about, comparisons, small=small)


def _lora(about, epochs=2, small=None, **params):
    return Row(
        "systems.lora",
        "LoRA",
        {"epochs": epochs} | LORA | params,
        f"Stores low-rank adapters and a head on a transformer; {about} (Hu et al. 2022).",
        extra="lora",
        small=small,
        reads="sentences",
    )


PAPER = {
    "static_knn": _near(
        "StaticKNN",
        "Stores the initial rows, votes among the 5 nearest; learns nothing.",
        WIDE,
        small={},
    ),
    "static_linear": Row(
        "systems.heads",
        "StaticLinear",
        HEAD,
        "Stores a head over known classes; learns nothing.",
        EVERY_ENCODER,
        small={},
        shares="head of known classes",
    ),
    "online_linear": _head(
        "LinearHead",
        "Stores a linear head; one SGD step per correction.",
        WIDE,
        small={},
        lr=0.05,
    ),
    "ewc": _head(
        "EWC",
        "SGD held to the initial head (Kirkpatrick et al. 2017).",
        WIDE,
        small=dict(fisher_rows=100),
        lr=0.05,
        strength=1000.0,
        fisher_rows=2000,
    ),
    "a_gem": _head(
        "AGEM",
        "SGD that spares 1,000 old rows (Chaudhry et al. 2019).",
        WIDE,
        small=dict(memory=60, memory_batch=16),
        lr=0.05,
        memory=1000,
        memory_batch=64,
    ),
    "lwf": _head(
        "LwF",
        "SGD held to the old answers (Li and Hoiem 2017).",
        WIDE,
        small={},
        lr=0.05,
        strength=1.0,
        temperature=2.0,
    ),
    "knn_lm": _near(
        "KNNLM",
        "Stores a frozen head and every row; a correction is one more row "
        "(Khandelwal et al. 2020).",
        EVERY_ENCODER,
        small={},
        k=5,
        weight=0.5,
        temperature=0.1,
        **HEAD,
    ),
    "river_logreg": Row(
        "systems.river",
        "RiverLogReg",
        dict(lr=0.01, rows=3000),
        "Stores river's one-vs-rest logistic regression; one SGD step per correction "
        "(Montiel et al. 2021).",
        WIDE,
        extra="river",
        small=dict(rows=100),
        shares="river",
    ),
    "substrate": _near(
        "Substrate",
        "Stores every row in a hash-chained ledger, votes among the 5 nearest; appends.",
        EVERY_ENCODER,
        small={},
    ),
    **{
        f"bounded_{eviction}_{budget}": _near(
            "Bounded",
            f"Substrate of {budget} entries at most: {kept}.",
            small=dict(budget=50) if budget == 100 else None,
            budget=budget,
            eviction=eviction,
            **VOTE,
        )
        for eviction, kept in KEPT.items()
        for budget in BUDGETS
    },
    "substrate_hnsw": Row(
        "systems.neighbours",
        "SubstrateHNSW",
        dict(M=16, ef_construction=200, ef=64, **VOTE),
        "Stores the ledger and an index for approximate search (Malkov and Yashunin 2020); "
        "appends to both.",
        extra="ann",
        small={},
    ),
    "lora": _lora("one SGD step per correction", small=SMALL_LORA),
    "lora_replay": _lora(
        "one SGD step on the mean loss of a correction and 31 old rows",
        small=dict(SMALL_LORA, replay=2),
        replay=31,
        memory=1000,
    ),
    "lora_replay_summed": _lora(
        "one SGD step on the sum of the losses of a correction and 31 old rows",
        replay=31,
        memory=1000,
        lr=32 * 5e-4,
    ),
    "lora_no_dropout": _lora(
        "one SGD step per correction, without dropout", correct_with_dropout=False
    ),
    "lora_epochs_5": _lora("one SGD step per correction, after 5 epochs of training", epochs=5),
    "lora_epochs_10": _lora("one SGD step per correction, after 10 epochs of training", epochs=10),
}


REPLAY = dict(memory=1000, memory_batch=10, **HEAD)
KLDA = dict(features=2000, shrinkage=0.2, target="variance")
FEW_FEATURES = dict(features=64)
SMALL_KERNEL = dict(bandwidth=0.7, shrinkage=0.1, prior_rows=2, rank=16, **FEW_FEATURES)
MIX = dict(  # as found by a search on training rows
    k=20,
    neighbour_temperature=0.06,
    neighbour_weight=0.35,
    kernel_weight=0.4,
    new_odds=1.5,
    head_weight=0.2,
    model_temperature=25.0,
    kernel_temperature=18.0,
    model=dict(shrinkage=0.1, floor=0.2, prior_rows=100, power=0.75),
    kernel=dict(features=1536, bandwidth=0.7, shrinkage=0.02, prior_rows=2.5, rank=512),
    **HEAD,
)


def _closed(module, cls, about, comparisons=WIDE, small=None, shares="initial rows", **params):
    return Row(f"rivals.{module}", cls, params, about, comparisons, small=small, shares=shares)


def _klda(about, comparisons, **params):
    settings = KLDA | params
    shares = "kernel features"
    return _closed("discriminants", "KLDA", about, comparisons, FEW_FEATURES, shares, **settings)


def _replay(cls, about, comparisons=WIDE, small=None, **params):
    return Row(
        "rivals.replay",
        cls,
        REPLAY | params,
        about,
        comparisons,
        small=small,
        shares="head of known classes",
    )


def _even(name, small=None, shares="initial rows"):
    """A class model under the even rule."""
    return Row(
        "rivals.even",
        "Even",
        dict(of=name),
        f"As {name}, known and new classes equally likely once a new one has two rows.",
        TWO_ENCODERS,
        small=small,
        shares=shares,
    )


RIVALS = {
    "online_linear_tuned": Row(
        "rivals.tuned",
        "OnlineLinearTuned",
        HEAD,
        "Stores a linear head; SGD at the rate best on held-out known classes.",
        EVERY_ENCODER,
        small={},
    ),
    "ncm": _closed(
        "discriminants",
        "NCM",
        "Stores class means; a correction moves one (Mensink et al. 2013).",
        EVERY_ENCODER,
        small={},
    ),
    "ncm_cosine": _closed(
        "discriminants",
        "NCM",
        "Stores unit class means; a correction moves one (Rebuffi et al. 2017).",
        small={},
        unit=True,
    ),
    "slda": _closed(
        "discriminants",
        "SLDA",
        "Stores class means and a covariance, moves both (Hayes and Kanan 2020).",
        EVERY_ENCODER,
        small={},
        shrinkage=1e-4,
    ),
    "slda_frozen": _closed(
        "discriminants",
        "SLDA",
        "As slda, but moves means alone.",
        small={},
        shrinkage=1e-4,
        updated=False,
    ),
    "slda_shrunk": _closed(
        "discriminants",
        "SLDA",
        "As slda, its covariance shrunk 100 times as much.",
        EVERY_ENCODER,
        shrinkage=1e-2,
    ),
    "klda": _klda(
        "As slda, on 2,000 random features (Prabhu et al. 2024; Momeni et al. 2025).",
        EVERY_ENCODER,
    ),
    "klda_held": _klda(
        "As klda, class means held to that of all initial rows, a prior worth 2.5 rows "
        "(Gauvain and Lee 1994).",
        EVERY_ENCODER,
        prior_rows=2.5,
    ),
    "klda_oas": _klda(
        "As klda, shrunk by an OAS estimate on the initial rows "
        "(Prabhu et al. 2024; Chen et al. 2010).",
        TWO_ENCODERS,
        shrinkage="oas",
    ),
    "klda_5": _closed(
        "discriminants",
        "AveragedKLDA",
        "Mean of klda over 5 draws of its features (Momeni et al. 2025).",
        TWO_ENCODERS,
        small=dict(params=FEW_FEATURES),
        shares="kernel features",
        draws=5,
        params=KLDA,
    ),
    "rls": _closed(
        "ridge",
        "RLS",
        "Stores ridge regression on all rows, updated exactly (Zhuang et al. 2022).",
        EVERY_ENCODER,
        small={},
        ridge=0.1,
    ),
    "ranpac": _closed(
        "ridge",
        "RanPAC",
        "As rls, on 2,000 rectified projections, classes weighing the same "
        "(McDonnell et al. 2023).",
        EVERY_ENCODER,
        small=FEW_FEATURES,
        shares="projections",
        features=2000,
    ),
    "blind": _closed(
        "blind",
        "Blind",
        "Stores one class id, that of the last correction, and answers it.",
        small={},
    ),
    "er": _replay(
        "ER",
        "SGD on a correction and 10 of 1,000 stored rows (Chaudhry et al. 2019).",
        small=dict(memory=60),
        lr=0.1,
    ),
    "er_ace": _replay(
        "ERACE",
        "As er, new rows compete among their own classes (Caccia et al. 2022).",
        small=dict(memory=60),
        lr=0.1,
        recent=10,
    ),
    "der_pp": _replay(
        "DERPP",
        "As er, stored rows held to their old logits (Buzzega et al. 2020).",
        small=dict(memory=60, memory_batch=8),
        lr=0.03,
        memory_batch=32,
        alpha=0.1,
        beta=0.5,
    ),
    "mir": _replay(
        "MIR",
        "As er, on the rows that a correction hurts (Aljundi et al. 2019).",
        small=dict(memory=60, candidates=20),
        lr=0.1,
        candidates=50,
    ),
    "er_tuned": _replay(
        "ER",
        "As er, at the rate best on held-out known classes.",
        EVERY_ENCODER,
        small=dict(memory=60),
    ),
    "er_ace_tuned": _replay(
        "ERACE",
        "As er_ace, at the rate best on held-out known classes.",
        EVERY_ENCODER,
        recent=10,
    ),
    "gdumb": _replay(
        "GDumb",
        "Stores 1,000 rows, trains a new head on them (Prabhu et al. 2020).",
        small=dict(memory=60),
        every=25,
    ),
    "pa": Row(
        "rivals.passive_aggressive",
        "PassiveAggressive",
        dict(C=1.0),
        "Stores a one-vs-rest linear model; the least step that corrects (Crammer et al. 2006).",
        WIDE,
        small={},
        shares="passive-aggressive",
    ),
    "ledger_plda": Row(
        "rivals.ledger_plda",
        "LedgerPLDA",
        MIX,
        "The system proposed before: the ledger, read through two Gaussian models, a head and "
        "neighbours; appends.",
        EVERY_ENCODER,
        small=dict(kernel=SMALL_KERNEL),
        shares="head of known classes",
    ),
    "ledger_lda": Row(
        "rivals.ledger_lda",
        "LedgerLDA",
        HEAD,
        "Proposed: the substrate's ledger, read through whitened class means, nearest entries "
        "and a head; appends.",
        EVERY_ENCODER,
        small={},
        shares="head of known classes",
        version=2,
    ),
    "slda_even": _even("slda", small={}),
    "klda_held_even": _even("klda_held", shares="kernel features"),
    "ledger_plda_even": Row(
        "rivals.even",
        "Even",
        dict(of="ledger_plda", changes=dict(new_odds=1.0), calibrated=False),
        "As ledger_plda, its factor on new classes replaced by the even rule.",
        TWO_ENCODERS,
        shares="head of known classes",
    ),
}

ABLATIONS = {  # of the substrate's vote (section 5.6)
    "substrate_k1": _near(
        "Substrate",
        "Substrate that asks the nearest entry alone.",
        k=1,
        margin=0.05,
    ),
    "substrate_sumsim": _near(
        "Substrate",
        "Substrate with votes weighed by cosine.",
        k=5,
        rule="sumsim",
    ),
    "substrate_count_only": _near(
        "Substrate",
        "Substrate with ties by count only.",
        **VOTE,
        rule="count_only",
    ),
    "substrate_no_recency": _near(
        "Substrate",
        "Substrate with ties by class id.",
        **VOTE,
        rule="no_recency",
    ),
}

SYSTEMS = PAPER | RIVALS | ABLATIONS
