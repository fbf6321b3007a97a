"""What systems say to a query, and the neighbours that they say it for."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ocrrlib.errors import InputError
from ocrrlib.search import top_k
from ocrrlib.systems import SYSTEMS

SHOWN = 5  # neighbours


@dataclass(frozen=True)
class Reply:
    """What the systems say to one query.

    Attributes
    ----------
    query : str
        The query in words.
    truth : str or None
        Its class, where it is known.
    answers : DataFrame
        One row per system: ``before`` (its answer when the same query was asked last), ``answer``, ``right``
        (None where the truth is not known), ``votes`` (of those inside the margin band, where the system votes),
        ``probability``, ``runner-up``.
    neighbours : dict of str to DataFrame
        Of each system that keeps entries the nearest, best first: ``entry``, ``cosine``, ``class``, ``new`` (met in
        the stream only), ``inside`` (within the margin of the best).
    margins : dict of str to float or None
        How far below the best cosine entries of these systems still vote; None where they do not.
    """

    query: str
    truth: str | None
    answers: pd.DataFrame = field(compare=False)
    neighbours: dict[str, pd.DataFrame] = field(compare=False)
    margins: dict[str, float | None]


def reply_to(query, x, truth, systems, classes, new, before):
    """What systems say to one query.

    Parameters
    ----------
    query : str
        The query in words.
    x : (d,) float32
        Its embedding.
    truth : str or None
        Its class, where it is known.
    systems : dict of str to System
        Fitted systems by their names in the registry.
    classes : sequence of str
        All classes by id.
    new : set of str
        Those that are met in the stream only.
    before : dict of str to str
        Answers when the same query was asked last, by system.

    Returns
    -------
    Reply
    """
    keeping = {name: system for name, system in systems.items() if hasattr(system, "entries")}
    margins = {name: _margin(name) for name in keeping}
    near = {name: _neighbours(name, system, x, margins[name], classes, new) for name, system in keeping.items()}
    rows = [_answer(name, system, x, truth, classes, near, margins) for name, system in systems.items()]
    answers = pd.DataFrame(rows, index=pd.Index(systems, name="system"))
    answers.insert(0, "before", [before.get(name, "") for name in systems])
    return Reply(query, truth, answers, near, margins)


def _answer(name, system, x, truth, classes, near, margins):
    id = int(system.predict(x[None])[0])
    answer = classes[id] if id >= 0 else "no answer"
    about = {"answer": answer, "right": None if truth is None else answer == truth, "votes": ""}
    if margins.get(name) is not None:
        counted = near[name]["class"][near[name]["inside"]].value_counts()
        about["votes"] = ", ".join(f"{n} {label}" for label, n in counted.items())
    try:
        p = system.probabilities(x[None])[0]
    except InputError:
        return about | {"probability": None, "runner-up": ""}
    second = int(np.argsort(-np.where(np.arange(len(p)) == id, -1, p), kind="stable")[0])
    runner = classes[second] if p[second] > 0 else ""
    return about | {"probability": float(p[id]) if id >= 0 else 0.0, "runner-up": runner}


def _neighbours(name, system, x, margin, classes, new):
    columns = ["entry", "cosine", "class", "new", "inside"]
    if not system.entries.size:
        return pd.DataFrame(columns=columns)
    entries = system.entries
    k = min(SHOWN, SYSTEMS[name].params.get("k", SHOWN), entries.size)
    sims, slots = (found[0] for found in top_k(x[None], entries.X, entries.born, k))
    labels = [classes[id] for id in entries.y[slots]]
    inside = sims >= sims[0] - (np.inf if margin is None else margin)
    return pd.DataFrame(dict(zip(columns, (slots, sims, labels, [label in new for label in labels], inside))))


def _margin(name):
    """Within which cosine distance of the best a system's entries vote; None where they do not."""
    return SYSTEMS[name].params.get("margin")
