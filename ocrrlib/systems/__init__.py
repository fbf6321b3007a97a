"""The registry: every system by name, with its hyperparameters (paper, Appendix B).

To add a system, write one class in a file of this package and one row below.
"""

import importlib
from dataclasses import dataclass

from ocrrlib.files import InputError, pick


@dataclass(frozen=True)
class Entry:
    """One system as data.

    Systems of one family run in the same process so that they share cached work. If a library is
    missing, it is installed with ``pip install 'ocrrlib[<family>]'``.
    """

    module: str  #: where its class is; imported when it is first made
    cls: str
    params: dict  #: hyperparameters
    about: str  #: one sentence: what it stores and how it learns from a correction, with its source
    family: str = "shared"
    reads: str = "embeddings"  #: or ``sentences``
    version: int = 1  #: raised when the system's outcomes change

    def make(self, seed=0, encoder=None):
        """A fresh system; one that reads sentences encodes them. ``InputError`` if a library is not installed."""
        try:
            module = importlib.import_module(f"ocrrlib.{self.module}")
        except ModuleNotFoundError as error:
            raise InputError(
                f"{self.cls} needs {error.name}, which is not installed: run `pip install 'ocrrlib[{self.family}]'`"
            ) from error
        own = {"backbone": encoder} if encoder and self.reads == "sentences" else {}
        return getattr(module, self.cls)(seed=seed, **own, **self.params)


HEAD = dict(epochs=30, fit_lr=1e-2, weight_decay=1e-4, batch=256)
VOTE = dict(k=5, margin=0.05)
LORA = dict(
    rank=8, alpha=16, dropout=0.05, fit_lr=2e-4, weight_decay=1e-4, batch=16, max_length=64, lr=5e-4
)
REPLAY = dict(memory=1000, memory_batch=10, **HEAD)
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
KLDA = dict(features=2000, shrinkage=0.2, target="variance")
BUDGETS = (100, 500, 1000, 5000)
KEPT = dict(reservoir="a uniform sample of all rows (Vitter 1985)", fifo="the newest rows")


def _near(cls, about, **params):
    return Entry("systems.neighbours", cls, params or VOTE, about)


def _head(cls, about, family="shared", **params):
    return Entry("systems.heads", cls, params | HEAD, about, family)


def _replay(cls, about, **params):
    return Entry("rivals.replay", cls, REPLAY | params, about, "known_head")


def _closed(cls, about, family="shared", **params):
    return Entry("rivals.discriminants", cls, params, about, family)


def _ridge(cls, about, family="shared", **params):
    return Entry("rivals.ridge", cls, params, about, family)


def _lora(about, epochs=2, **params):
    about = f"Stores low-rank adapters and a head on a transformer; {about} (Hu et al. 2022)."
    return Entry(
        "systems.lora", "LoRA", dict(epochs=epochs, **LORA | params), about, "lora", "sentences"
    )


SYSTEMS = {
    "static_knn": _near(
        "StaticKNN", "Stores the initial rows, votes among the 5 nearest; learns nothing."
    ),
    "static_linear": _head(
        "StaticLinear", "Stores a head over known classes; learns nothing.", "known_head"
    ),
    "online_linear": _head(
        "LinearHead", "Stores a linear head; one SGD step per correction.", lr=0.05
    ),
    "ewc": _head(
        "EWC",
        "SGD held to the initial head (Kirkpatrick et al. 2017).",
        lr=0.05,
        strength=1000.0,
        fisher_rows=2000,
    ),
    "a_gem": _head(
        "AGEM",
        "SGD that spares 1,000 old rows (Chaudhry et al. 2019).",
        lr=0.05,
        memory=1000,
        memory_batch=64,
    ),
    "lwf": _head(
        "LwF",
        "SGD held to the old answers (Li and Hoiem 2017).",
        lr=0.05,
        strength=1.0,
        temperature=2.0,
    ),
    "knn_lm": _near(
        "KNNLM",
        "Stores a frozen head and every row; a correction is one more row (Khandelwal et al. 2020).",
        **dict(k=5, weight=0.5, temperature=0.1, **HEAD),
    ),
    "river_logreg": Entry(
        "systems.river",
        "RiverLogReg",
        dict(lr=0.01, rows=3000),
        "Stores river's one-vs-rest logistic regression; one SGD step per correction (Montiel et al. 2021).",
        "river",
    ),
    "substrate": _near(
        "Substrate",
        "Stores every row in a hash-chained ledger, votes among the 5 nearest; appends.",
    ),
    **{
        f"bounded_{eviction}_{budget}": _near(
            "Bounded",
            f"Substrate of {budget} entries at most: {kept}.",
            budget=budget,
            eviction=eviction,
            **VOTE,
        )
        for eviction, kept in KEPT.items()
        for budget in BUDGETS
    },
    "substrate_hnsw": _near(
        "SubstrateHNSW",
        "Stores the ledger and an index for approximate search (Malkov and Yashunin 2020); appends to both.",
        **dict(M=16, ef_construction=200, ef=64, **VOTE),
    ),
    "lora": _lora("one SGD step per correction"),
    "lora_replay": _lora(
        "one SGD step on the mean loss of a correction and 31 old rows", replay=31, memory=1000
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
    "online_linear_tuned": Entry(
        "rivals.tuned",
        "OnlineLinearTuned",
        HEAD,
        "Stores a linear head; SGD at the rate best on held-out known classes.",
    ),
    "ncm": _closed("NCM", "Stores class means; a correction moves one (Mensink et al. 2013)."),
    "ncm_cosine": _closed(
        "NCM", "Stores unit class means; a correction moves one (Rebuffi et al. 2017).", unit=True
    ),
    "slda": _closed(
        "SLDA",
        "Stores class means and a covariance, moves both (Hayes and Kanan 2020).",
        shrinkage=1e-4,
    ),
    "slda_frozen": _closed(
        "SLDA", "As slda, but moves means alone.", shrinkage=1e-4, updated=False
    ),
    "slda_shrunk": _closed(
        "SLDA", "As slda, its covariance shrunk 100 times as much.", shrinkage=1e-2
    ),
    "klda": _closed(
        "KLDA",
        "As slda, on 2,000 random features (Prabhu et al. 2024; Momeni et al. 2025).",
        "klda",
        **KLDA,
    ),
    "klda_held": _closed(
        "KLDA",
        "As klda, class means held to that of all initial rows, a prior worth 2.5 rows (Gauvain and Lee 1994).",
        "klda",
        **KLDA,
        prior_rows=2.5,
    ),
    "klda_oas": _closed(
        "KLDA",
        "As klda, shrunk by an OAS estimate on the initial rows (Prabhu et al. 2024; Chen et al. 2010).",
        "klda",
        **KLDA | dict(shrinkage="oas"),
    ),
    "klda_5": _closed(
        "AveragedKLDA",
        "Mean of klda over 5 draws of its features (Momeni et al. 2025).",
        "klda",
        draws=5,
        params=KLDA,
    ),
    "rls": _ridge(
        "RLS",
        "Stores ridge regression on all rows, updated exactly (Zhuang et al. 2022).",
        ridge=0.1,
    ),
    "ranpac": _ridge(
        "RanPAC",
        "As rls, on 2,000 rectified projections, classes weighing the same (McDonnell et al. 2023).",
        "ranpac",
        features=2000,
    ),
    "blind": Entry(
        "rivals.blind",
        "Blind",
        {},
        "Stores one class id, that of the last correction, and answers it.",
    ),
    "er": _replay(
        "ER", "SGD on a correction and 10 of 1,000 stored rows (Chaudhry et al. 2019).", lr=0.1
    ),
    "er_ace": _replay(
        "ERACE",
        "As er, new rows compete among their own classes (Caccia et al. 2022).",
        lr=0.1,
        recent=10,
    ),
    "der_pp": _replay(
        "DERPP",
        "As er, stored rows held to their old logits (Buzzega et al. 2020).",
        **dict(lr=0.03, memory_batch=32, alpha=0.1, beta=0.5),
    ),
    "mir": _replay(
        "MIR",
        "As er, on the rows that a correction hurts (Aljundi et al. 2019).",
        lr=0.1,
        candidates=50,
    ),
    "er_tuned": _replay("ER", "As er, at the rate best on held-out known classes."),
    "er_ace_tuned": _replay(
        "ERACE", "As er_ace, at the rate best on held-out known classes.", recent=10
    ),
    "gdumb": _replay(
        "GDumb", "Stores 1,000 rows, trains a new head on them (Prabhu et al. 2020).", every=25
    ),
    "pa": Entry(
        "rivals.passive_aggressive",
        "PassiveAggressive",
        dict(C=1.0),
        "Stores a one-vs-rest linear model; the least step that corrects (Crammer et al. 2006).",
        "river",
    ),
    "ledger_plda": Entry(
        "rivals.ledger_plda",
        "LedgerPLDA",
        MIX,
        "The system proposed before: the ledger, read through two Gaussian models, a head and neighbours; appends.",
        "known_head",
    ),
    "ledger_lda": Entry(
        "rivals.ledger_lda",
        "LedgerLDA",
        dict(k=30, spread_rows=300, **HEAD),
        "Proposed: the substrate's ledger, read through Bayesian discriminants, nearest entries and a head; appends.",
        "known_head",
    ),
    "substrate_k1": _near(
        "Substrate", "Substrate that asks the nearest entry alone.", k=1, margin=0.05
    ),
    "substrate_sumsim": _near(
        "Substrate", "Substrate with votes weighed by cosine.", k=5, rule="sumsim"
    ),
    "substrate_count_only": _near(
        "Substrate", "Substrate with ties by count only.", **VOTE, rule="count_only"
    ),
    "substrate_no_recency": _near(
        "Substrate", "Substrate with ties by class id.", **VOTE, rule="no_recency"
    ),
}


def make(name, seed=0, encoder=None):
    """A fresh system by its registry name; ``encoder`` matters only to systems that read sentences.

    Raises ``InputError`` if there is no such system, or it needs a library that is not installed.
    """
    return pick("system", name, SYSTEMS).make(seed, encoder)
