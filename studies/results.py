"""Results of studies that are not grids of streams: what names a row of each, and how they are published."""

import pandas as pd

from ocrrlib.files import ROOT
from ocrrlib.runs import made_where, path_of, published, write_results

# Results that are not streams of a grid: what names a row.
STUDIES = {
    "parameters": ["backbone"],
    "scale": ["classes", "noise", "n", "seed"],
    "scale_costs": ["classes", "noise", "n", "seed"],
    "race": ["dimensions", "n", "index", "effort"],
    "ledger_search": ["dataset", "encoder", "order", "seed", "ef"],
    "costs": ["dataset", "system"],
    "growth": ["system", "entries"],
    "memory": ["test", "case"],
    "names": ["dataset", "policy", "seed", "system", "names"],
    "boldness": ["dataset", "seed", "factor"],
    "streams": "study dataset encoder system seed asking p wrong confusion delay drift order new known step".split(),
}
# Their files say on what machine, with what libraries and when.
TIMED = "scale_costs", "race", "costs", "growth", "memory"


def publish_study(name, fresh, out=ROOT, keep=True):
    """Write a study's rows and return them: the fresh ones and, with ``keep``, the published ones beside them.

    A fresh row takes the place of a published one of the same name, see ``STUDIES``.
    """
    keys = STUDIES[name]
    if keep:
        fresh = (
            pd.concat([fresh, published(name)], ignore_index=True)
            if len(fresh)
            else published(name)
        )
    joined = fresh.drop_duplicates(keys).sort_values(keys, kind="stable", ignore_index=True)
    write_results(joined, path_of(name, out), made_where() if name in TIMED else None)
    return joined
