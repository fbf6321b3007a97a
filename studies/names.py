"""Label names: the name of a class as its first row, at its first correction or before the stream.

As chosen on training rows, seeds from 1000 on: regressions from names to class means learnt no more
over the stream.
"""

from itertools import product

import numpy as np
import pandas as pd
from safetensors.numpy import load_file, save_file
from scipy.integrate import cumulative_trapezoid
from statsmodels.stats.multitest import multipletests

from ocrrlib.embeddings import FOLDER, encode, load, widen
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
from ocrrlib.tasks import Task, run_tasks
from studies.results import STUDIES
from studies.statistics import differences, flip_p, t_intervals

FILE, KEY = FOLDER / f"names.{DEFAULT_ENCODER}.safetensors", STUDIES["names"]
EMBEDDED = DEFAULT_ENCODER, "embeddings"
TRACKS = (
    "none",
    "arriving",
    "upfront",
)  # no names, each with the first correction of its class, all before the stream
CONTROLS = ("arriving, shuffled", "arriving, opaque", "upfront, shuffled")
PLAN = {OURS: TRACKS + CONTROLS} | dict.fromkeys(("substrate", "ncm", "slda"), TRACKS)


class Named:
    """A system to which the name of a new class is its first row, right before its first correction or ``upfront``.

    ``names`` (C, d), their embeddings, are moved by the mean of the known classes' means less that
    of their names.
    """

    def __init__(self, system, names, upfront):
        self.system, self.names, self.upfront = system, names, upfront

    def fit(self, X, y, classes):
        self.system.fit(X, y, classes)
        means, known = class_means(*class_sums(X, y, len(classes))), self.system.seen.copy()
        self.rows = widen(self.names + (means - self.names)[known].mean(axis=0))
        for label in np.flatnonzero(~known).tolist() if self.upfront else ():
            self.system.correct(self.rows[label], label)

    def correct(self, x, y):
        if not self.system.seen[y]:
            self.system.correct(self.rows[y], y)
        self.system.correct(x, y)

    def __getattr__(self, name):
        return getattr(self.system, name)


def embed_names():
    """Encode the names of all classes, and opaque ones, "class 0" and so on, into the file that is published."""
    texts = {name: [label.replace("_", " ") for label in load(name).classes] for name in THREE}
    texts["opaque"] = [f"class {number}" for number in range(max(map(len, texts.values())))]
    with atomic(FILE) as temporary:
        save_file(
            {name: encode(own, load_encoder(DEFAULT_ENCODER)) for name, own in texts.items()},
            temporary,
        )


def rows_of(data, names, seed):
    """Embeddings (C, d) of the names of all classes; as a control, of those of others or of opaque ones, at random."""
    rows = widen(
        load_file(FILE)["opaque" if "opaque" in names else data.dataset][: len(data.classes)]
    )
    if names in CONTROLS:
        order = np.random.default_rng([seed, 9]).permutation(len(rows))
        rows[order] = rows[np.roll(order, 1)]
    return rows


def run_one(dataset, policy, seed, system, names):
    """Accuracies and area under the curve, each at the start, at the end and over the stream; and corrections."""
    data, asked = dataset_of(dataset, *EMBEDDED), make(system, seed)
    asked = (
        asked if names == "none" else Named(asked, rows_of(data, names, seed), "upfront" in names)
    )
    run = pd.DataFrame(run_stream(asked, make_scenario(data, seed, cap=None), POLICIES[policy]))
    step, row = run["step"].to_numpy(), {"corrections": int(run["corrections"].iloc[-1])}
    for name, column in AXES.items():
        start, *_, end = values = run[column].tolist()
        over_steps = float(cumulative_trapezoid(values, step)[-1] / step[-1])
        row |= {f"{name}_start": start, name: end, f"{name}_over_steps": over_steps}
    return row


def run_names(seeds=range(20), **how):
    """All runs, a row each; ``how``: ``jobs``, ``cache``, ``progress`` and ``dask`` of ``run_tasks``."""
    grid, tasks = product(THREE, ("oracle", "random10"), seeds, PLAN), []
    rows = [dict(zip(KEY, (*run, names))) for run in grid for names in PLAN[run[-1]]]
    for row in rows:
        about = declared(row["system"]) | {
            "data": dataset_of(row["dataset"], *EMBEDDED).fingerprint
        }
        tasks.append(Task(row | about, tuple(row.values()), (row["dataset"], row["seed"])))
    return pd.DataFrame([row | found for row, found in zip(rows, run_tasks(run_one, tasks, **how))])


def rerun(row):
    """Outcomes by column of a published row, a mapping by column, from its own settings."""
    return run_one(*(row[name] for name in KEY))


def compared(rows):
    """Paired differences to the same system without names, their t-intervals, and ``p``, by Holm over all rows."""
    metrics, index = (*AXES, "novel_over_steps", "ausuc_over_steps"), ["metric", *KEY[:2], *KEY[3:]]
    wide = rows.melt(KEY, metrics, "metric").pivot(index=index, columns="seed", values="value")
    usual, wide = wide.xs("none", level="names"), wide.drop("none", level="names")
    d = differences(wide, usual.loc[wide.index.droplevel("names")])
    found, p = t_intervals(d).set_index(wide.index).reset_index(), [flip_p(row) for row in d]
    return found.rename(columns={"mean": "difference"}).assign(
        p_holm=multipletests(p, method="holm")[1]
    )
