"""Harder streams, cell by cell: one system, streamed through one scenario under one policy.

``ocrrlib.stream_plan`` says which cells make a study.
"""

import hashlib
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from ocrrlib.cache import RunCache
from ocrrlib.digits import load_pixels
from ocrrlib.embeddings import load
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.errors import InputError, pick
from ocrrlib.files import ROOT
from ocrrlib.policies import POLICIES, Policy
from ocrrlib.provenance import closure, digest
from ocrrlib.scenario import make_scenario
from ocrrlib.scope import confidences, detection, split_off
from ocrrlib.shifts import from_centre_outwards, keep_known, shuffled
from ocrrlib.stream import run_stream
from ocrrlib.systems import SYSTEMS, make

CACHE = ROOT / "build/cache/streams"
CHUNK = 20  # cells of one scenario that one worker runs in a row, sharing work
ORACLE = POLICIES["oracle"]


@dataclass(frozen=True)
class Cell:
    """One system, streamed once: ``new`` classes stream by, it starts from ``known`` others (0 for all)."""

    system: str
    seed: int
    dataset: str = "banking77"
    encoder: str = DEFAULT_ENCODER
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
        """What cells that share work have in common."""
        return (*self.source, self.seed, self.new, self.known, self.order, self.drift, str(self.cap), self.thin)


@lru_cache(maxsize=4)
def _data(dataset, encoder, out_of_scope):
    """The embedded dataset, and rows out of its scope where these are set apart."""
    data = load_pixels() if dataset == "digits" else load(dataset, encoder)
    return split_off(data) if out_of_scope else (data, None)


def scenario_of(cell):
    """The scenario that a cell streams."""
    data, _ = _data(*cell.source)
    scenario = make_scenario(data, cell.seed, cap=cell.cap, held_out=cell.new, thin=cell.thin)
    if cell.known:
        scenario = keep_known(scenario, min(cell.known, len(np.unique(scenario.y_initial))))
    if cell.drift != "none":
        scenario = from_centre_outwards(scenario, cell.drift)
    return shuffled(scenario) if pick("order", cell.order, {"file": False, "shuffled": True}) else scenario


def wrong_entries(system, scenario):
    """The share of stored entries whose label was never that of such a row; None where none are stored."""
    entries = getattr(system, "entries", None)
    if entries is None or not entries.size:
        return None
    true = {(x.tobytes(), y) for x, y in zip(scenario.X_stream, scenario.y_stream.tolist())}
    written = entries.since(len(scenario.y_initial))  # the initial ones are right
    wrong = sum((entries.X[slot].tobytes(), int(entries.y[slot])) not in true for slot in written)
    return wrong / entries.size


def _told_apart(system, scenario, outside):
    """How well a system tells test rows, all or the original ones, from those out of scope."""
    found, out = {}, confidences(system, outside)
    for name, X in {"all": scenario.queries[len(scenario.y_stream) :], "original": scenario.X_original}.items():
        for score, inside in confidences(system, X).items():
            for metric, value in detection(inside, out[score]).items():
                found[f"{metric}_{score}_{name}"] = value
    return found


def run_cell(cell, scenario=None):
    """Stream a cell: one dict per checkpoint."""
    scenario, (_, outside) = scenario or scenario_of(cell), _data(*cell.source)
    system, rows = make(cell.system, cell.seed), []
    for checkpoint in run_stream(system, scenario, cell.policy):
        row = checkpoint.scalars | {"wrong_entries": wrong_entries(system, scenario)}
        if outside is not None and checkpoint.step in (0, len(scenario.y_stream)):
            row |= _told_apart(system, scenario, outside)
        rows.append(row | {"known": len(np.unique(scenario.y_initial))})
    return rows


def _run_kept(cells, cache):
    """Cells of one start, each kept as soon as it is finished: pairs of key and rows."""
    scenario, done = scenario_of(cells[0][0]), []
    with threadpool_limits(1):
        for cell, key in cells:
            rows = run_cell(cell, scenario)
            cache.save(key, rows)
            done.append((key, rows))
    return done


def _key(cell):
    entry, (data, outside) = SYSTEMS[cell.system], _data(*cell.source)
    code, libraries = closure("ocrrlib.streams", f"ocrrlib.systems.{entry.module}")
    rows = None if outside is None else hashlib.sha256(outside).hexdigest()
    return digest([asdict(cell), entry.cls, entry.params, code, libraries, data.fingerprint, rows])


def run_cells(cells, jobs=1, cache=CACHE, progress=True):
    """Run cells; finished ones are found in the cache. A list of what ``run_cell`` gives for each."""
    if jobs < 1:
        raise InputError(f"{jobs} jobs are too few: give at least 1")
    kept, keys = RunCache(cache), {cell: _key(cell) for cell in dict.fromkeys(cells)}
    found = {key: rows for key in keys.values() if (rows := kept.load(key)) is not None}
    starts = {}
    for cell, key in keys.items():
        if key not in found:
            starts.setdefault(cell.start, []).append((cell, key))
    chunks = [group[i : i + CHUNK] for group in starts.values() for i in range(0, len(group), CHUNK)]
    chunks.sort(key=lambda chunk: -sum(cell.new for cell, _ in chunk))  # what is long must not start last
    work = Parallel(n_jobs=jobs, return_as="generator_unordered")(delayed(_run_kept)(c, kept) for c in chunks)
    with tqdm(total=len(keys), initial=len(found), unit="run", disable=not progress) as bar:
        for done in work:
            found |= done
            bar.update(len(done))
    return [found[keys[cell]] for cell in cells]
