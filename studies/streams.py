"""Harder streams: how a setting is run, and studies of settings as one tidy frame.

Corrections are wrong, late, or asked for. Queries drift from the centre of their class, belong to
few new classes or to many, or to none at all. Other studies vary the initial rows, the encoder and
the modality.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np
import pandas as pd

from ocrrlib.embeddings import Embedded, halve, load, widen
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.experiments import ALL_ROWS
from ocrrlib.policies import Policy
from ocrrlib.runs import declared
from ocrrlib.scenario import Scenario, make_scenario, shuffled
from ocrrlib.search import top_k
from ocrrlib.stream import run_stream
from ocrrlib.systems import make
from studies.results import Study

# Columns that the published file does not have.
ADDED = ["mistakes", "ausuc", "best_hm", "ausuc_declared", "holds_at_once", "holds"]
# The policy that corrects every mistake at once.
ORACLE = {
    "asking": "random",
    "p": 1.0,
    "wrong": 0.0,
    "confusion": "none",
    "delay": 0,
}
VARIED = [*ORACLE, "drift", "order", "new", "known"]
# Columns of a row that are fields of a setting.
NAMED = ["dataset", "encoder", "system", "seed", *VARIED]
RECALL = 0.95  # share of the queries in scope that must pass the threshold


@dataclass(frozen=True)
class Setting:
    """One system, streamed once.

    ``new`` classes stream by; the system starts from ``known`` others (0 for all). A share ``p`` of
    the stream is asked about, ``asking`` at random or by an uncertainty; ``wrong``, ``confusion``
    and ``delay`` are those of a ``Policy``.
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
    def policy(self) -> Policy:
        """The correction policy; at random, too, it asks about exactly the share ``p``."""
        confusion = self.confusion if self.wrong else "uniform"
        ask = None if self.asking == "random" else self.asking
        return Policy("asked", self.p, self.wrong, confusion, self.delay, ask, exact=True)


def combine(**options: Iterable) -> list[dict]:
    """All combinations of options, as dicts."""
    return [dict(zip(options, values)) for values in product(*options.values())]


def load_pixels() -> Embedded:
    """Images of digits as unit rows: 1,797 of 8 × 8 grey values (Alpaydin and Kaynak 1998)."""
    from sklearn.datasets import load_digits  # slow to import, seldom needed

    X, y = load_digits(return_X_y=True)
    rows = widen(halve(X))
    y = y.astype(np.int64)
    test = np.arange(len(y)) % 4 == 3
    return Embedded(
        "digits", "pixels", tuple("0123456789"), rows[~test], y[~test], rows[test], y[test]
    )


@lru_cache(maxsize=4)
def rows_of(
    dataset: str, encoder: str, out_of_scope: bool = False
) -> tuple[Embedded, str, np.ndarray | None]:
    """The embedded dataset, its fingerprint, and the test rows of class "oos" if it is split off.

    These are None unless ``out_of_scope``.
    """
    data = load_pixels() if dataset == "digits" else load(dataset, encoder)
    if not out_of_scope:
        return data, data.fingerprint, None
    out = data.classes.index("oos")
    parts = {"classes": data.classes[:out] + data.classes[out + 1 :]}
    for split in ("train", "test"):
        X = getattr(data, f"X_{split}")
        y = getattr(data, f"y_{split}")
        inside = y != out
        parts[f"X_{split}"] = X[inside]
        parts[f"y_{split}"] = y[inside] - (y[inside] > out)
    return replace(data, **parts), data.fingerprint, data.X_test[data.y_test == out]


def keep_known(scenario: Scenario, n: int) -> Scenario:
    """The same stream for a system that starts with ``n`` random known classes.

    The classes of a smaller ``n`` are among those of a larger one.
    """
    rng = np.random.default_rng([scenario.seed, 7])
    kept = rng.permutation(np.unique(scenario.y_initial))[:n]
    parts = {}
    for part in ("initial", "original"):
        X = getattr(scenario, f"X_{part}")
        y = getattr(scenario, f"y_{part}")
        of_kept = np.isin(y, kept)
        parts[f"X_{part}"] = X[of_kept]
        parts[f"y_{part}"] = y[of_kept]
    return replace(scenario, **parts)


def drifting(scenario: Scenario, how: str) -> Scenario:
    """The same stream with the rows of each class in another order: near its centre first.

    Which class comes when stays as it was. ``gradual``: in order of distance. ``abrupt``: the inner
    half of a class, then the outer one, both in random order. ``recurring``: halves of the inner
    and of the outer half in turn, twice.
    """
    X = scenario.X_stream.astype(np.float64)
    y = scenario.y_stream
    rng = np.random.default_rng([scenario.seed, 6])
    order = np.arange(len(y))
    for label in np.unique(y):
        places = np.flatnonzero(y == label)
        distances = ((X[places] - X[places].mean(axis=0)) ** 2).sum(axis=1)
        outwards = places[np.argsort(distances, kind="stable")]
        order[places] = outwards if how == "gradual" else _in_halves(outwards, how, rng)
    return replace(scenario, X_stream=scenario.X_stream[order])


def _in_halves(outwards, how, rng):
    """Places (n,) of a class from its centre outwards, as ``abrupt`` or ``recurring`` drift."""
    middle = len(outwards) // 2
    inner = rng.permutation(outwards[:middle])
    outer = rng.permutation(outwards[middle:])
    if how == "recurring":
        first_inner, second_inner = np.array_split(inner, 2)
        first_outer, second_outer = np.array_split(outer, 2)
        return np.concatenate([first_inner, first_outer, second_inner, second_outer])
    return np.concatenate([inner, outer])


@lru_cache(maxsize=1)
def scenario_of(setting: Setting) -> Scenario:
    """The scenario that a setting streams."""
    data, _, _ = rows_of(setting.dataset, setting.encoder, setting.out_of_scope)
    scenario = make_scenario(
        data, setting.seed, cap=setting.cap, held_out=setting.new, thin=setting.thin
    )
    if setting.known:
        scenario = keep_known(scenario, setting.known)
    if setting.drift != "none":
        scenario = drifting(scenario, setting.drift)
    if setting.order == "shuffled":
        scenario = shuffled(scenario)
    return scenario


def wrong_entries(system, scenario: Scenario) -> float:
    """Share of stored entries that are stream rows with a wrong label; NaN if none are stored."""
    entries = getattr(system, "entries", None)
    if entries is None:
        return np.nan
    right = {(x.tobytes(), y) for x, y in zip(scenario.X_stream, scenario.y_stream.tolist())}
    wrong = 0
    for slot in entries.since(len(scenario.y_initial)):  # the initial ones are right
        wrong += (entries.X[slot].tobytes(), int(entries.y[slot])) not in right
    return wrong / entries.size


def confidences(system, X: np.ndarray) -> dict[str, np.ndarray]:
    """Scores (m,) of queries by name: the highest class probability, and the best cosine.

    The latter only of a system that stores entries.
    """
    scores = {"probability": system.predict_proba(X).max(axis=1)}
    if hasattr(system, "entries"):
        scores["cosine"] = top_k(X, system.entries.X, system.entries.born, 1)[0][:, 0]
    return scores


def detection(inside: np.ndarray, outside: np.ndarray) -> dict[str, float]:
    """AUROC, and false-positive rate at 95 % recall, of scores in scope (m,) and out of it (n,)."""
    from sklearn.metrics import roc_auc_score, roc_curve  # slow to import, seldom needed

    # Rounded, since BLAS does not round alike in batches of different size.
    scores = np.round(np.concatenate([inside, outside]), 9)
    truth = np.repeat([1, 0], [len(inside), len(outside)])
    false, true, _ = roc_curve(truth, scores, drop_intermediate=False)
    return {
        "auroc": float(roc_auc_score(truth, scores)),
        "fpr95": float(false[true >= RECALL].min()),
    }


def run_setting(setting: Setting) -> list[dict]:
    """Stream a setting: one dict per checkpoint.

    Where rows are out of scope, the first and the last one have ``detection`` by score and rows.
    """
    # One scenario is remembered for all systems and policies.
    scenario = scenario_of(replace(setting, system="", **ORACLE))
    _, _, outside = rows_of(setting.dataset, setting.encoder, setting.out_of_scope)
    system = make(setting.system, setting.seed)
    known = len(np.unique(scenario.y_initial))
    rows = []
    for checkpoint in run_stream(system, scenario, setting.policy):
        row = {name: value for name, value in checkpoint.scalars.items() if name not in ADDED}
        row["wrong_entries"] = wrong_entries(system, scenario)
        if outside is not None and checkpoint.step in (0, len(scenario.y_stream)):
            row |= _detections(system, scenario, outside)
        row["known"] = known
        rows.append(row)
    return rows


def _detections(system, scenario, outside):
    """``detection`` of rows out of scope among all test rows, and among those of known classes."""
    out = confidences(system, outside)
    tested = confidences(system, scenario.queries[len(scenario.y_stream) :])
    outcomes = {}
    for name, start in {"all": 0, "original": len(scenario.y_novel)}.items():
        for score, inside in tested.items():
            for metric, value in detection(inside[start:], out[score]).items():
                outcomes[f"{metric}_{score}_{name}"] = value
    return outcomes


def _setting(row, profile="paper"):
    fields = {name: row[name] for name in NAMED}
    return Setting(**fields, out_of_scope=row["study"] == "scope", **ALL_ROWS[profile])


def _run(row, profile="paper"):
    return run_setting(_setting(row, profile))


def _about(row):
    scope = row["study"] == "scope"
    _, fingerprint, _ = rows_of(row["dataset"], row["encoder"], scope)
    # Nothing else depends on the study: settings that several studies share run once.
    return declared(row["system"]) | {"data": fingerprint, "study": scope}


STREAMS = Study(
    "streams",
    ("study", *NAMED, "step"),
    run_one=_run,
    settings=("study", *NAMED),
    about=_about,
)


def run_studies(
    changes: Mapping[str, Iterable[dict]],
    systems: Mapping[str, Iterable[str]],
    seeds: Iterable[int],
    encoder: str = DEFAULT_ENCODER,
    profile: str = "paper",
    **how,
) -> pd.DataFrame:
    """Run studies and return their checkpoints, one row each; the same whatever the workers.

    ``changes``: what each setting of a study changes of the usual ``Setting``, by study;
    ``systems``: those of each study; ``how``: the options of ``run_tasks``.

    Returns
    -------
    DataFrame
        What names a row (``STREAMS.key``), the paper's metrics of a checkpoint, ``wrong_entries``
        (share of what is stored), and for ``scope`` before and after the stream AUROC and FPR at
        95 % recall, by score and by rows.
    """
    rows = []
    for study in changes:
        for change, seed, system in product(changes[study], seeds, systems[study]):
            setting = Setting(system, seed, **{"encoder": encoder} | change)
            rows.append({"study": study} | {name: getattr(setting, name) for name in NAMED})
    frame = STREAMS.run(rows, profile, **how)
    key = list(STREAMS.key)
    return frame[key + [name for name in frame if name not in key]]
