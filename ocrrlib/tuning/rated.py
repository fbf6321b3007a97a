"""Systems rated on held-out classes of the training rows: in parallel, and each kept as soon as it is finished."""

from ocrrlib.embeddings import load
from ocrrlib.home import cache_folder
from ocrrlib.provenance import closure, digest
from ocrrlib.tasks import run_tasks
from ocrrlib.tuning.held_out import FOLDS, accuracy, from_training_rows, row_weights

CACHE = cache_folder() / "tuning"
DATASETS = ("banking77", "clinc150")
SEEDS = tuple(range(1000, 1008))  # none of them is reported on
IN_A_ROW = 20  # settings that a worker rates in a row, so that many workers have enough to do


def accuracies(plan, encoder, jobs, cache, progress, dask=None):
    """``accuracy`` for each (entry, dataset, policy, seed); those of one dataset and seed share work."""
    whole = {name: load(name, encoder) for name in dict.fromkeys(dataset for _, dataset, _, _ in plan)}
    # The fold goes with the seed: a few rows of a class that weighs much must not decide alone.
    data = {(name, fold): from_training_rows(one, fold) for name, one in whole.items() for fold in range(FOLDS)}
    weights = {(name, fold): row_weights(whole[name], one) for (name, fold), one in data.items()}
    fingerprints = {part: [data[part].fingerprint, weights[part].tolist()] for part in data}
    parts = [(d, s % FOLDS) for _, d, _, s in plan]
    codes = [closure("ocrrlib.tuning.held_out", f"ocrrlib.systems.{entry.module}") for entry, *_ in plan]
    keys = [
        digest([e.cls, e.params, p, s, fingerprints[part], *code])
        for (e, _, p, s), part, code in zip(plan, parts, codes)
    ]
    tasks = [(data[part], weights[part], p, s, e) for (e, _, p, s), part in zip(plan, parts)]
    together = [(e.family, d, s) for e, d, _, s in plan]
    names = [f"{e.cls} {e.params} on {d}, {p}, seed {s}" for e, d, p, s in plan]
    return run_tasks(accuracy, tasks, keys, jobs, cache, progress, dask, together=together, most=IN_A_ROW, names=names)
