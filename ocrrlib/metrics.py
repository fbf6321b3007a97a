"""Metrics of the paper: final accuracies, corrections to reach N % (section 3.2)."""

import pandas as pd

RUN = ["dataset", "encoder", "policy", "seed", "system"]
CELL = ["dataset", "policy", "system"]
LEVELS = (10, 30, 50, 70, 90)
AXES = {"novel": "novel_acc", "original": "original_acc", "ausuc": "ausuc"}  # the paper's results lack the last one


def final(results):
    """The last checkpoint of every run."""
    return results.groupby(RUN, sort=False, observed=True).tail(1).reset_index(drop=True)


def corrections_to(results, level):
    """Corrections at the first checkpoint with ``level`` % novel accuracy: a Series by run, of those that have one."""
    reached = results[results["novel_acc"] >= level / 100]
    return reached.groupby(RUN, sort=False, observed=True)["corrections"].first().rename(f"to_{level}")


def summarise(results):
    """Mean and spread over seeds of every (dataset, policy, system), in order of appearance.

    Standard deviations are the population's (division by n), as in the paper.
    ``to_N`` is the mean over the seeds that reached N %, ``to_N_reached`` how many did.
    """
    last = final(results)
    for level in LEVELS:
        last = last.join(corrections_to(results, level), on=RUN)
    groups = last.groupby(CELL, sort=False, observed=True)
    columns = {"seeds": groups.size()}
    for axis, name in AXES.items():
        if name in last:
            columns |= {axis: groups[name].mean(), f"{axis}_std": groups[name].std(ddof=0)}
    columns |= {name: groups[name].mean() for name in ("corrections", "stored_entries", "storage_bytes")}
    for level in LEVELS:
        columns[f"to_{level}"] = groups[f"to_{level}"].mean()
        columns[f"to_{level}_reached"] = groups[f"to_{level}"].count()
    return pd.DataFrame(columns).reset_index()


def by_cell(results):
    """Summary of every cell as a nested dict: ``[dataset][policy][system]``.

    A cell holds means over seeds: ``novel``, ``original`` and their ``_std``, ``start_novel`` and ``start_original``
    before the stream, ``corrections``, ``entries``, ``mb``, and ``to_N``, None where no seed reached N %.
    """
    start = results[results["step"] == 0].groupby(CELL)[["novel_acc", "original_acc"]].mean()
    found = {}
    for row in summarise(results).to_dict("records"):
        dataset, policy, system = place = tuple(row[name] for name in CELL)
        cell = {key: row[key] for key in ("novel", "novel_std", "original", "original_std", "corrections", "seeds")}
        cell |= {"entries": row["stored_entries"], "mb": row["storage_bytes"] / 1e6}
        cell |= dict(zip(("start_novel", "start_original"), start.loc[place].tolist()))
        cell |= {f"to_{n}": row[f"to_{n}"] if row[f"to_{n}_reached"] else None for n in LEVELS}
        found.setdefault(dataset, {}).setdefault(policy, {})[system] = cell
    return found
