"""Harder streams: which cells make a study, and the studies as one tidy frame.

Corrections are wrong, late, or asked for. Queries drift from the centre of their class, belong to
few new classes or to many, or to none at all. And what the first rows, the encoder and the modality
have to do with it.
"""

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np
import pandas as pd

from ocrrlib.embeddings import Embedded, halve, load, widen
from ocrrlib.encoders import DEFAULT_ENCODER, LEXICAL_ENCODER
from ocrrlib.experiments import OURS, WHOLE, parse_seeds
from ocrrlib.policies import CONFUSIONS, UNCERTAINTIES, Policy
from ocrrlib.runs import declared
from ocrrlib.scenario import make_scenario, shuffled
from ocrrlib.search import top_k
from ocrrlib.stream import ADDED, run_stream
from ocrrlib.systems import make
from ocrrlib.tasks import Task, run_tasks

SEEDS = {"paper": (0, 1, 2, 3, 4), "quick": (0,)}
COMPARED = ("substrate", "bounded_reservoir_1000", "knn_lm", "online_linear", "slda", OURS)
# What a memory with a budget keeps depends on the order; on digits the question is whether a head's
# step carries over.
OTHERS = {
    "order": ("bounded_fifo_1000", "bounded_reservoir_1000"),
    "digits": (*COMPARED, "online_linear_tuned"),
}
ORACLE = {
    "asking": "random",
    "p": 1.0,
    "wrong": 0.0,
    "confusion": "none",
    "delay": 0,
}  # corrects every mistake at once
SETTING = [*ORACLE, "drift", "order", "new", "known"]
NAMED = ["dataset", "encoder", "system", "seed", *SETTING]  # fields of a cell that are in a row
KEY = ["study", *NAMED, "step"]
DRIFTS = ("abrupt", "gradual", "recurring")
RECALL = 0.95  # share of the queries in scope that must pass the threshold


@dataclass(frozen=True)
class Cell:
    """One system, streamed once: ``new`` classes stream by, it starts from ``known`` others (0 for all).

    A share ``p`` of the stream is asked about, ``asking`` at random or by an uncertainty;
    ``wrong``, ``confusion`` and ``delay`` are those of a ``Policy``.
    """

    system: str
    seed: int
    dataset: str = "banking77"
    encoder: str = DEFAULT_ENCODER
    asking: str = "random"
    p: float = 1.0
    wrong: float = 0.0
    confusion: str = "none"
    delay: int = 0
    drift: str = "none"
    order: str = "file"
    new: int = 10
    known: int = 0
    cap: int | None = None
    thin: int = 1
    out_of_scope: bool = False

    @property
    def policy(self):
        """The correction policy; at random it asks about exactly the share ``p``, as by uncertainty."""
        confusion = self.confusion if self.wrong else "uniform"
        ask = None if self.asking == "random" else self.asking
        return Policy("asked", self.p, self.wrong, confusion, self.delay, ask, exact=True)


def _product(**options):
    """All combinations, as dicts."""
    return [dict(zip(options, values)) for values in product(*options.values())]


# Each setting as its changes of the usual cell.
STUDIES = {
    "wrong": [{}, *_product(wrong=(0.1, 0.2, 0.4), confusion=CONFUSIONS)],
    "late": _product(delay=(0, 10, 50, 200)),
    "asked": _product(p=(0.05, 0.1, 0.2, 0.4), asking=("random", *UNCERTAINTIES)),
    "drift": _product(drift=("none", *DRIFTS)),
    "new": _product(new=(1, 5, 10, 20, 40), known=(37,)),  # 40 of 77 leave 37
    "known": _product(known=(5, 10, 20, 37, 0)),
    "scope": [dict(dataset="clinc150", out_of_scope=True)],
    "order": _product(order=("file", "shuffled")),
    "encoder": [{}, dict(encoder=LEXICAL_ENCODER)],
    "digits": [dict(dataset="digits", encoder="pixels", new=5)],
}


def plan(study, encoder=DEFAULT_ENCODER, seeds=None, profile="paper"):
    """The cells of a study; without ``seeds``, for those of the profile."""
    usual, seeds = (
        WHOLE[profile] | {"encoder": encoder},
        parse_seeds(SEEDS[profile] if seeds is None else seeds),
    )
    grid = product(STUDIES[study], seeds, OTHERS.get(study, COMPARED))
    return [Cell(system, seed, **usual | change) for change, seed, system in grid]


def load_pixels():
    """1,797 images of 8 × 8 grey values as unit rows of length 64, ten classes (Alpaydin and Kaynak 1998)."""
    from sklearn.datasets import load_digits  # slow to import, seldom needed

    X, y = load_digits(return_X_y=True)
    rows, y, test = widen(halve(X)), y.astype(np.int64), np.arange(len(y)) % 4 == 3
    return Embedded(
        "digits", "pixels", tuple("0123456789"), rows[~test], y[~test], rows[test], y[test]
    )


@lru_cache(maxsize=4)
def rows_of(dataset, encoder, out_of_scope=False):
    """The embedded dataset, its fingerprint, and None, or the test rows of its class "oos", which is split off."""
    data = load_pixels() if dataset == "digits" else load(dataset, encoder)
    if not out_of_scope:
        return data, data.fingerprint, None
    out = data.classes.index("oos")
    parts = {"classes": data.classes[:out] + data.classes[out + 1 :]}
    for split in ("train", "test"):
        X, y = getattr(data, f"X_{split}"), getattr(data, f"y_{split}")
        parts |= {f"X_{split}": X[y != out], f"y_{split}": y[y != out] - (y[y != out] > out)}
    return replace(data, **parts), data.fingerprint, data.X_test[data.y_test == out]


def keep_known(scenario, n):
    """The same stream for a system that starts with ``n`` random known classes; fewer are among more."""
    kept = np.random.default_rng([scenario.seed, 7]).permutation(np.unique(scenario.y_initial))[:n]
    parts = {}
    for part in ("initial", "original"):
        X, y = getattr(scenario, f"X_{part}"), getattr(scenario, f"y_{part}")
        parts |= {f"X_{part}": X[np.isin(y, kept)], f"y_{part}": y[np.isin(y, kept)]}
    return replace(scenario, **parts)


def drifting(scenario, how):
    """The same stream with rows near the centre of their class first; which class comes when stays as it was.

    ``gradual``: in order of distance. ``abrupt``: the inner half of a class, then the outer one,
    both in random order. ``recurring``: halves of the inner and of the outer half in turn, twice.
    """
    X, y = scenario.X_stream.astype(np.float64), scenario.y_stream
    rng, order = np.random.default_rng([scenario.seed, 6]), np.arange(len(y))
    for label in np.unique(y):
        places = np.flatnonzero(y == label)
        distances = ((X[places] - X[places].mean(axis=0)) ** 2).sum(axis=1)
        outwards, m = places[np.argsort(distances, kind="stable")], len(places) // 2
        if how != "gradual":
            halves = [rng.permutation(outwards[:m]), rng.permutation(outwards[m:])]
            inner, outer = (np.array_split(half, 2 if how == "recurring" else 1) for half in halves)
            outwards = np.concatenate([part for pair in zip(inner, outer) for part in pair])
        order[places] = outwards
    return replace(scenario, X_stream=scenario.X_stream[order])


@lru_cache(maxsize=1)
def scenario_of(cell):
    """The scenario that a cell streams."""
    data, _, _ = rows_of(cell.dataset, cell.encoder, cell.out_of_scope)
    scenario = make_scenario(data, cell.seed, cap=cell.cap, held_out=cell.new, thin=cell.thin)
    scenario = keep_known(scenario, cell.known) if cell.known else scenario
    scenario = scenario if cell.drift == "none" else drifting(scenario, cell.drift)
    return shuffled(scenario) if cell.order == "shuffled" else scenario


def wrong_entries(system, scenario):
    """The share of stored entries that are stream rows with a wrong label; NaN where none are stored."""
    entries = getattr(system, "entries", None)
    if entries is None:
        return np.nan
    right = {(x.tobytes(), y) for x, y in zip(scenario.X_stream, scenario.y_stream.tolist())}
    written = entries.since(len(scenario.y_initial))  # the initial ones are right
    return (
        sum((entries.X[slot].tobytes(), int(entries.y[slot])) not in right for slot in written)
        / entries.size
    )


def confidences(system, X):
    """Scores (m,) by name: the highest class probability; where entries are stored, the best cosine, too."""
    scores = {"probability": system.predict_proba(X).max(axis=1)}
    if hasattr(system, "entries"):
        scores["cosine"] = top_k(X, system.entries.X, system.entries.born, 1)[0][:, 0]
    return scores


def detection(inside, outside):
    """AUROC of scores of queries in scope (m,) against others (n,), and the false-positive rate at 95 % recall."""
    from sklearn.metrics import roc_auc_score, roc_curve  # slow to import, seldom needed

    # Rounded, since BLAS does not round alike in batches of different size.
    scores = np.round(np.concatenate([inside, outside]), 9)
    truth = np.repeat([1, 0], [len(inside), len(outside)])
    false, true, _ = roc_curve(truth, scores, drop_intermediate=False)
    return {
        "auroc": float(roc_auc_score(truth, scores)),
        "fpr95": float(false[true >= RECALL].min()),
    }


def run_cell(cell):
    """Stream a cell: one dict per checkpoint; the first and the last with ``detection`` where rows are out of scope."""
    scenario = scenario_of(
        replace(cell, system="", **ORACLE)
    )  # remembered, whatever the system and the policy
    _, _, outside = rows_of(cell.dataset, cell.encoder, cell.out_of_scope)
    system, rows = make(cell.system, cell.seed), []
    for checkpoint in run_stream(system, scenario, cell.policy):
        row = {name: value for name, value in checkpoint.scalars.items() if name not in ADDED}
        row["wrong_entries"] = wrong_entries(system, scenario)
        if outside is not None and checkpoint.step in (0, len(scenario.y_stream)):
            out, tested = (
                confidences(system, outside),
                confidences(system, scenario.queries[len(scenario.y_stream) :]),
            )
            for name, start in {"all": 0, "original": len(scenario.y_novel)}.items():
                for score, inside in tested.items():
                    found = detection(inside[start:], out[score])
                    row |= {f"{metric}_{score}_{name}": value for metric, value in found.items()}
        rows.append(row | {"known": len(np.unique(scenario.y_initial))})
    return rows


def run_studies(names=tuple(STUDIES), encoder=DEFAULT_ENCODER, seeds=None, profile="paper", **how):
    """Run studies and return their checkpoints, one row each; the same whatever the workers.

    ``how``: ``jobs``, ``cache``, ``progress`` and ``dask`` of ``run_tasks``.

    Returns
    -------
    DataFrame
        What names a row (``KEY``), the paper's metrics of a checkpoint, ``wrong_entries`` (share of
        what is stored), and for ``scope`` before and after the stream AUROC and FPR at 95 % recall,
        by score and by rows.
    """
    cells, tasks, rows = (
        [(name, cell) for name in names for cell in plan(name, encoder, seeds, profile)],
        [],
        [],
    )
    for _, cell in cells:
        about = declared(cell.system) | {
            "data": rows_of(cell.dataset, cell.encoder, cell.out_of_scope)[1]
        }
        tasks.append(Task(asdict(cell) | about, (cell,)))
    for (study, cell), found in zip(cells, run_tasks(run_cell, tasks, **how)):
        setting = {"study": study} | {name: getattr(cell, name) for name in NAMED}
        rows += [setting | checkpoint for checkpoint in found]
    frame = pd.DataFrame(rows)
    return frame[KEY + [name for name in frame if name not in KEY]]


def rerun(row):
    """Outcomes by column of a published row, a mapping by column, from its own settings."""
    cell = Cell(**{name: row[name] for name in NAMED}, out_of_scope=row["study"] == "scope")
    (found,) = (checkpoint for checkpoint in run_cell(cell) if checkpoint["step"] == row["step"])
    return found
