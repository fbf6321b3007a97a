"""Label names: the name of a class as its first row, at its first correction or before the stream.

Regressions from names to class means learnt no more over the stream (tried on training rows with
seeds from 1000 on).
"""

from collections.abc import Iterable
from itertools import product

import numpy as np
import pandas as pd
from safetensors.numpy import load_file, save_file
from scipy.integrate import cumulative_trapezoid

from ocrrlib.embeddings import FOLDER, Embedded, encode, load, widen
from ocrrlib.encoders import DEFAULT_ENCODER, load_encoder
from ocrrlib.experiments import OURS, THREE
from ocrrlib.files import atomic
from ocrrlib.metrics import AXES
from ocrrlib.policies import POLICIES
from ocrrlib.runs import dataset_of, declared
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import make
from ocrrlib.systems.base import class_means, class_sums
from studies.results import Study
from studies.statistics import differences, flip_p, holm, t_intervals

NAMES_FILE = FOLDER / f"names.{DEFAULT_ENCODER}.safetensors"
# No names, each with the first correction of its class, all before the stream.
TRACKS = ("none", "arriving", "upfront")
CONTROLS = ("arriving, shuffled", "arriving, opaque", "upfront, shuffled")
PLAN = {OURS: TRACKS + CONTROLS} | dict.fromkeys(("substrate", "ncm", "slda"), TRACKS)


class Named:
    """A system that gets the name of a new class as its first row.

    It gets it right before the first correction of the class or, ``upfront``, before the stream.
    ``names`` (C, d) are embeddings; they are moved by the difference between the mean of the known
    classes' means and the mean of their names.
    """

    def __init__(self, system, names: np.ndarray, upfront: bool):
        self.system = system
        self.names = names
        self.upfront = upfront

    def fit(self, X: np.ndarray, y: np.ndarray, classes) -> None:
        self.system.fit(X, y, classes)
        known = self.system.seen.copy()
        means = class_means(*class_sums(X, y, len(classes)))
        self.rows = widen(self.names + (means - self.names)[known].mean(axis=0))
        if self.upfront:
            for label in np.flatnonzero(~known).tolist():
                self.system.correct(self.rows[label], label)

    def correct(self, x: np.ndarray, y: int) -> None:
        if not self.system.seen[y]:
            self.system.correct(self.rows[y], y)
        self.system.correct(x, y)

    def __getattr__(self, name):
        return getattr(self.system, name)


def embed_names() -> None:
    """Encode all class names, and opaque ones such as "class 0", into the published file."""
    texts = {name: [label.replace("_", " ") for label in load(name).classes] for name in THREE}
    most = max(len(own) for own in texts.values())
    texts["opaque"] = [f"class {number}" for number in range(most)]
    encoder = load_encoder(DEFAULT_ENCODER)
    with atomic(NAMES_FILE) as temporary:
        save_file({name: encode(own, encoder) for name, own in texts.items()}, temporary)


def name_rows(data: Embedded, names: str, seed: int) -> np.ndarray:
    """Embeddings (C, d) of class names; for controls, of other classes' names or opaque ones."""
    part = "opaque" if "opaque" in names else data.dataset
    rows = widen(load_file(NAMES_FILE)[part][: len(data.classes)])
    if names in CONTROLS:
        order = np.random.default_rng([seed, 9]).permutation(len(rows))
        rows[order] = rows[np.roll(order, 1)]
    return rows


def _data(setting):
    return dataset_of(setting["dataset"], DEFAULT_ENCODER, "embeddings")


def run_named(setting: dict) -> dict:
    """Corrections, and each accuracy and area at the start, at the end and over the stream."""
    data = _data(setting)
    names = setting["names"]
    seed = setting["seed"]
    system = make(setting["system"], seed)
    if names != "none":
        system = Named(system, name_rows(data, names, seed), "upfront" in names)
    scenario = make_scenario(data, seed, cap=None)
    run = pd.DataFrame(run_stream(system, scenario, POLICIES[setting["policy"]]))
    step = run["step"].to_numpy()
    outcomes = {"corrections": int(run["corrections"].iloc[-1])}
    for name, column in AXES.items():
        values = run[column].tolist()
        over_steps = float(cumulative_trapezoid(values, step)[-1] / step[-1])
        outcomes[f"{name}_start"] = values[0]
        outcomes[name] = values[-1]
        outcomes[f"{name}_over_steps"] = over_steps
    return outcomes


def _about(setting):
    return declared(setting["system"]) | {"data": _data(setting).fingerprint}


LABEL_NAMES = Study(
    "names",
    ("dataset", "policy", "seed", "system", "names"),
    run_one=run_named,
    about=_about,
    together=("dataset", "seed"),
)


def run_names(seeds: Iterable[int] = range(20), **how) -> pd.DataFrame:
    """All runs, a row each; ``how``: options of ``run_tasks``."""
    settings = []
    for *run, system in product(THREE, ("oracle", "random10"), seeds, PLAN):
        settings += [dict(zip(LABEL_NAMES.key, (*run, system, names))) for names in PLAN[system]]
    return LABEL_NAMES.run(settings, **how)


def compared(rows: pd.DataFrame) -> pd.DataFrame:
    """Paired differences to the same system without names, with t intervals.

    ``p_holm`` is the p of flipped signs, corrected by Holm over all rows.
    """
    metrics = (*AXES, "novel_over_steps", "ausuc_over_steps")
    index = ["metric", "dataset", "policy", "system", "names"]
    wide = rows.melt(list(LABEL_NAMES.key), metrics, "metric")
    wide = wide.pivot(index=index, columns="seed", values="value")
    usual = wide.xs("none", level="names")
    wide = wide.drop("none", level="names")
    d = differences(wide, usual.loc[wide.index.droplevel("names")])
    found = t_intervals(d).set_index(wide.index).reset_index()
    p_holm = holm([flip_p(row) for row in d])
    return found.rename(columns={"mean": "difference"}).assign(p_holm=p_holm)
