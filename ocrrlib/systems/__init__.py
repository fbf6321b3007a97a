"""The registry: every system by name, with its hyperparameters (paper, Appendix B).

To add a system, write one file beside this one and one row below.
"""

import importlib
from dataclasses import dataclass, field

from ocrrlib.errors import InputError, pick


@dataclass(frozen=True)
class Entry:
    """One system as data: where its class is, how it is set, what it shares work with.

    Systems of one family run in the same process so that they share cached work. If a library is missing, it is
    installed with ``pip install 'ocrrlib[<family>]'``.
    """

    module: str
    cls: str
    params: dict = field(default_factory=dict)
    family: str = "shared"
    reads: str = "embeddings"  # or sentences

    def make(self, seed=0, encoder=None):
        """A fresh system; one that reads sentences encodes them by itself.

        Raises
        ------
        InputError
            If a library that it needs is not installed.
        """
        try:
            module = importlib.import_module(f"ocrrlib.systems.{self.module}")
        except ModuleNotFoundError as error:
            raise InputError(
                f"{self.cls} needs {error.name}, which is not installed: run `pip install 'ocrrlib[{self.family}]'`"
            ) from error
        own = {"backbone": encoder} if encoder and self.reads == "sentences" else {}
        return getattr(module, self.cls)(seed=seed, **own, **self.params)


HEAD = dict(epochs=30, fit_lr=1e-2, weight_decay=1e-4, batch=256)
VOTE = dict(k=5, margin=0.05)
LORA = dict(rank=8, alpha=16, dropout=0.05, fit_lr=2e-4, weight_decay=1e-4, batch=16, max_length=64, lr=5e-4)
REPLAY = dict(memory=1000, memory_batch=10, **HEAD)
MIX = dict(  # as found by ``studies.tune.search``
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
BUDGETS = (100, 500, 1000, 5000)


def _bounded(eviction):
    return {
        f"bounded_{eviction}_{budget}": Entry("bounded", "Bounded", dict(budget=budget, eviction=eviction, **VOTE))
        for budget in BUDGETS
    }


def _replay(module, cls, **more):
    return Entry(module, cls, REPLAY | more, family="known_head")


def _lora(epochs=2, **more):
    return Entry("lora", "LoRA", dict(epochs=epochs, **LORA | more), family="lora", reads="sentences")


SYSTEMS = {
    "static_knn": Entry("static_knn", "StaticKNN", VOTE),
    "static_linear": Entry("static_linear", "StaticLinear", HEAD, family="known_head"),
    "online_linear": Entry("online_linear", "OnlineLinear", dict(lr=0.05, **HEAD)),
    "ewc": Entry("ewc", "EWC", dict(lr=0.05, strength=1000.0, fisher_rows=2000, **HEAD)),
    "a_gem": Entry("a_gem", "AGEM", dict(lr=0.05, memory=1000, memory_batch=64, **HEAD)),
    "lwf": Entry("lwf", "LwF", dict(lr=0.05, strength=1.0, temperature=2.0, **HEAD)),
    "knn_lm": Entry("knn_lm", "KNNLM", dict(k=5, weight=0.5, temperature=0.1, **HEAD)),
    "river_logreg": Entry("river_logreg", "RiverLogReg", dict(lr=0.01, rows=3000), family="river"),
    "substrate": Entry("substrate", "Substrate", VOTE),
    **_bounded("reservoir"),
    **_bounded("fifo"),
    "substrate_hnsw": Entry("substrate_hnsw", "SubstrateHNSW", dict(M=16, ef_construction=200, ef=64, **VOTE)),
    "lora": _lora(),
    "lora_replay": _lora(replay=31, memory=1000),
    "lora_replay_summed": _lora(replay=31, memory=1000, lr=32 * LORA["lr"]),  # the sum of 32 losses, not their mean
    "lora_no_dropout": _lora(correct_with_dropout=False),
    "lora_epochs_5": _lora(epochs=5),
    "lora_epochs_10": _lora(epochs=10),
    "online_linear_tuned": Entry("online_linear_tuned", "OnlineLinearTuned", HEAD),
    "ncm": Entry("ncm", "NCM"),
    "ncm_cosine": Entry("ncm", "NCM", dict(unit=True)),
    "slda": Entry("slda", "SLDA", dict(shrinkage=1e-4)),
    "slda_frozen": Entry("slda", "SLDA", dict(shrinkage=1e-4, updated=False)),
    "slda_shrunk": Entry("slda", "SLDA", dict(shrinkage=1e-2)),
    "klda": Entry("klda", "KLDA", dict(features=2000, shrinkage=0.2, target="variance"), family="klda"),
    "rls": Entry("rls", "RLS", dict(ridge=0.1)),
    "er": _replay("er", "ER", lr=0.1),
    "er_ace": _replay("er_ace", "ERACE", lr=0.1, recent=10),
    "der_pp": _replay("der_pp", "DERPP", lr=0.03, memory_batch=32, alpha=0.1, beta=0.5),
    "mir": _replay("mir", "MIR", lr=0.1, candidates=50),
    "er_tuned": _replay("er_tuned", "ERTuned"),
    "er_ace_tuned": _replay("er_ace_tuned", "ERACETuned", recent=10),
    "gdumb": _replay("gdumb", "GDumb", every=25),
    "pa": Entry("pa", "PassiveAggressive", dict(C=1.0), family="river"),
    "ledger_plda": Entry("ledger_plda", "LedgerPLDA", MIX, family="known_head"),
    "substrate_k1": Entry("substrate", "Substrate", dict(k=1, margin=0.05)),
    "substrate_sumsim": Entry("substrate", "Substrate", dict(k=5, rule="sumsim")),
    "substrate_count_only": Entry("substrate", "Substrate", dict(**VOTE, rule="count_only")),
    "substrate_no_recency": Entry("substrate", "Substrate", dict(**VOTE, rule="no_recency")),
}


def make(name, seed=0, encoder=None):
    """A fresh system by its registry name; ``encoder`` matters only to systems that read sentences.

    Raises
    ------
    InputError
        If there is no such system, or it needs a library that is not installed.
    """
    return pick("system", name, SYSTEMS).make(seed, encoder)
