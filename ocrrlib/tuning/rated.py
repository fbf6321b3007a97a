"""Systems rated on held-out classes of the training rows: in parallel, and each kept as soon as it is finished."""

from ocrrlib.embeddings import load
from ocrrlib.files import cache_folder
from ocrrlib.provenance import closure, digest
from ocrrlib.tasks import IN_A_ROW, Task, run_tasks
from ocrrlib.tuning.held_out import FOLDS, accuracy, from_training_rows, row_weights

CACHE = cache_folder() / "tuning"
DATASETS = ("banking77", "clinc150")
SEEDS = tuple(range(1000, 1024))  # none of them is reported on


def accuracies(plan, encoder, jobs, cache, progress, dask=None):
    """``accuracy`` for each (entry, dataset, policy, seed); those of one dataset and seed share work."""
    whole = {name: load(name, encoder) for name in dict.fromkeys(dataset for _, dataset, _, _ in plan)}
    # The fold goes with the seed: a few rows of a class that weighs much must not decide alone.
    data = {(name, fold): from_training_rows(one, fold) for name, one in whole.items() for fold in range(FOLDS)}
    weights = {(name, fold): row_weights(whole[name], one) for (name, fold), one in data.items()}
    fingerprints = {part: [data[part].fingerprint, weights[part].tolist()] for part in data}
    tasks = []
    for entry, dataset, policy, seed in plan:
        part, code = (dataset, seed % FOLDS), closure("ocrrlib.tuning.held_out", f"ocrrlib.systems.{entry.module}")
        tasks.append(
            Task(
                (data[part], weights[part]),
                (policy, seed, entry),
                digest([entry.cls, entry.params, policy, seed, fingerprints[part], *code]),
                f"{entry.cls} {entry.params} on {dataset}, {policy}, seed {seed}",
                group=(entry.family, dataset, seed),
            )
        )
    return run_tasks(accuracy, tasks, jobs, cache, progress, dask, in_a_row=IN_A_ROW)
