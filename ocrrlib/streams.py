"""Harder streams, cell by cell: one system, streamed through one scenario under one policy.

``ocrrlib.stream_plan`` says which cells make a study, and runs them.
"""

from dataclasses import dataclass, replace

import numpy as np

from ocrrlib.errors import pick
from ocrrlib.policies import POLICIES, Policy
from ocrrlib.scenario import make_scenario, shuffled
from ocrrlib.scope import confidences, detection
from ocrrlib.shifts import from_centre_outwards, keep_known
from ocrrlib.stream import run_stream

ORACLE = POLICIES["oracle"]


@dataclass(frozen=True)
class Cell:
    """One system, streamed once: ``new`` classes stream by, it starts from ``known`` others (0 for all).

    An empty encoder is the usual one.
    """

    system: str
    seed: int
    dataset: str = "banking77"
    encoder: str = ""
    policy: Policy = ORACLE
    drift: str = "none"
    order: str = "file"
    new: int = 10
    known: int = 0
    cap: int | None = None
    thin: int = 1
    out_of_scope: bool = False

    @property
    def source(self):
        """What its rows are read from."""
        return self.dataset, self.encoder, self.out_of_scope

    @property
    def start(self):
        """The same without system and policy: cells that have it in common share a scenario."""
        return replace(self, system="", policy=ORACLE)


def scenario_of(cell, data):
    """The scenario that a cell streams, from its dataset."""
    scenario = make_scenario(data, cell.seed, cap=cell.cap, held_out=cell.new, thin=cell.thin)
    if cell.known:
        scenario = keep_known(scenario, min(cell.known, len(np.unique(scenario.y_initial))))
    if cell.drift != "none":
        scenario = from_centre_outwards(scenario, cell.drift)
    return shuffled(scenario) if pick("order", cell.order, {"file": False, "shuffled": True}) else scenario


def right_rows(scenario):
    """The rows that stream by, as bytes, each with its class."""
    return {(x.tobytes(), y) for x, y in zip(scenario.X_stream, scenario.y_stream.tolist())}


def wrong_entries(system, scenario, right):
    """The share of stored entries that are not among the ``right_rows``; None where none are stored."""
    entries = getattr(system, "entries", None)
    if entries is None or not entries.size:
        return None
    written = entries.since(len(scenario.y_initial))  # the initial ones are right
    wrong = sum((entries.X[slot].tobytes(), int(entries.y[slot])) not in right for slot in written)
    return wrong / entries.size


def _told_apart(system, scenario, outside):
    """How well a system tells test rows, all or the original ones, from those out of scope."""
    found, out = {}, confidences(system, outside)
    tested = confidences(system, scenario.queries[len(scenario.y_stream) :])  # novel ones first
    for name, rows in {"all": slice(None), "original": slice(len(scenario.y_novel), None)}.items():
        for score, inside in tested.items():
            for metric, value in detection(inside[rows], out[score]).items():
                found[f"{metric}_{score}_{name}"] = value
    return found


def run_cell(cell, system, scenario, outside=None):
    """Stream a cell: one dict per checkpoint.

    Parameters
    ----------
    cell : Cell
        Which policy.
    system : System
        The one it names, fresh.
    scenario : Scenario
        As ``scenario_of`` makes it.
    outside : (m, d) float32, optional
        Rows out of scope.
    """
    rows, right = [], right_rows(scenario)
    for checkpoint in run_stream(system, scenario, cell.policy):
        row = checkpoint.scalars | {"wrong_entries": wrong_entries(system, scenario, right)}
        if outside is not None and checkpoint.step in (0, len(scenario.y_stream)):
            row |= _told_apart(system, scenario, outside)
        rows.append(row | {"known": len(np.unique(scenario.y_initial))})
    return rows
