"""Approximate search on real ledgers and synthetic clusters, by the order of their rows."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pandas as pd

from ocrrlib.embeddings import load
from ocrrlib.experiments import ALL_ROWS, SEEDS, parse_seeds
from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario
from ocrrlib.search import top_k
from ocrrlib.stream import run_stream
from ocrrlib.systems import make
from studies.results import Study
from studies.scale import EFFORTS, SETTINGS, Cell, K, empty_index, judge, search, to_grid

CLUSTERS = {f"{classes} clusters": Cell(10_000, classes, noise) for classes, noise in SETTINGS}
ORDERS = ("as written", "by class", "shuffled")
NEAREST = 20  # neighbours from which a local dimension is estimated


def ledger_of(
    name: str, encoder: str, seed: int, profile: str = "paper"
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows (n, d) of a ledger, class ids (n,), queries (m, d), class ids (m,).

    Of a dataset the ledger is the substrate's after a whole stream, and queries are all test rows.
    """
    if name in CLUSTERS:
        cell = replace(CLUSTERS[name], seed=seed, n=10_000 if profile == "paper" else 500)
        return cell.rows(0, cell.n), cell.labels(0, cell.n), *cell.query_rows()
    s = make_scenario(load(name, encoder), seed, **ALL_ROWS[profile])
    system = make("substrate")
    for _ in run_stream(system, s, POLICIES["oracle"]):
        pass
    Q = s.queries[len(s.y_stream) :]
    y = np.concatenate([s.y_novel, s.y_original])
    return to_grid(system.entries.X), system.entries.y, to_grid(Q), y


def dimension(cosines: np.ndarray) -> float:
    """Median local intrinsic dimension around queries.

    ``cosines`` (m, k) are those of their neighbours, best first. The maximum-likelihood estimate
    (Levina and Bickel 2004) is the inverse mean of log(r_k / r_i) over distances r.
    """
    r = np.sqrt(np.maximum(2 - 2 * cosines, 1e-6))
    return float(np.median(1 / np.log(r[:, -1:] / r[:, :-1]).mean(axis=1)))


def search_ledger(setting: dict, profile: str = "paper") -> list[dict]:
    """Approximate search on a ledger whose rows were added in one order: a dict per effort.

    ``setting`` has ``dataset``, ``encoder``, ``order`` and ``seed``; with ``ef``, it is the only
    effort.
    """
    seed = setting["seed"]
    X, labels, Q, y = ledger_of(setting["dataset"], setting["encoder"], seed, profile)
    if setting["order"] == "by class":
        order = np.argsort(labels, kind="stable")
    elif setting["order"] == "shuffled":
        order = np.random.default_rng(seed).permutation(len(X))
    else:
        order = slice(None)
    X = X[order]
    labels = labels[order]
    index = empty_index(len(X), EFFORTS[0], dim=X.shape[1])
    index.add_items(X, None, 1)
    sims, slots = top_k(Q, X, np.arange(len(X)), NEAREST)
    exact = (sims[:, :K], slots[:, :K])
    known = {"entries": len(X), "dimension": dimension(sims)}
    efforts = (setting["ef"],) if "ef" in setting else EFFORTS
    rows = []
    for ef in efforts:
        index.set_ef(ef)
        rows.append({"ef": ef} | known | judge(exact, search(index, Q, K), labels, y))
    return rows


LEDGER_SEARCH = Study(
    "ledger_search", ("dataset", "encoder", "order", "seed", "ef"), run_one=search_ledger
)


def search_ledgers(
    names: Iterable[str], encoder: str, seeds=SEEDS, profile: str = "paper", jobs: int = 1
) -> pd.DataFrame:
    """``search_ledger`` of several ledgers, in all orders, as a table."""
    settings = [
        {"dataset": name, "encoder": encoder, "order": order, "seed": seed}
        for name in names
        for order in ORDERS
        for seed in parse_seeds(seeds)
    ]
    return LEDGER_SEARCH.run(settings, profile, jobs=jobs, cache=None, progress=False)
