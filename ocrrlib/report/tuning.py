"""How our system was set, as tables: the search, and each setting by itself."""

import re

import pandas as pd

from ocrrlib.errors import InputError
from ocrrlib.experiments import OURS
from paper.style import cell_title
from paper.tables import Table
from paper.values import Value
from ocrrlib.statistics.bar import AXES, CELL
from ocrrlib.systems import SYSTEMS
from studies.tune import SPACE, behind, left_out

SHOWN = 8  # settings of the search, the best ones


def search(rows):
    """The settings that came furthest in the search, with what the objective says of them.

    Parameters
    ----------
    rows : DataFrame
        As ``studies.tune.search`` returns it.
    """
    is_ours = rows["system"].str.startswith(f"{OURS} ")
    seeds = rows[is_ours].groupby("system")["seed"].agg(lambda own: tuple(sorted(set(own))))
    found = []
    for some, names in seeds.groupby(seeds).groups.items():
        compared = rows[rows["seed"].isin(some) & (~is_ours | rows["system"].isin(names))]
        found.append(pd.DataFrame({"seeds": len(some), "behind": behind(compared, list(names))}))
    numbers = pd.concat(found).sort_values(["seeds", "behind"], ascending=[False, True], kind="stable")
    values = rows[is_ours].drop_duplicates("system").set_index("system")[list(SPACE)]
    numbers = numbers.join(values).rename_axis("system").reset_index()
    shown = numbers.head(SHOWN)
    rows_of = {"Seeds": "seeds", "Behind (pp)": "behind"} | {re.sub(r"[._]", " ", name): name for name in SPACE}
    digits = {"behind": lambda value: f"{100 * value:.2f}"}
    text = pd.DataFrame([[digits.get(name, "{:g}".format)(v) for v in shown[name]] for name in rows_of.values()])
    text.columns = [f"{place}." for place in range(1, len(shown) + 1)]
    text.insert(0, "", list(rows_of))
    caption = (
        f"The search for the settings of {OURS}, on held-out classes of the training rows, one column per setting. "
        "Behind: the most that is lost to another system, on either axis of any cell, at a one-sided 95 % bound. "
        "Those that went through most rounds come first; the first of all is what was chosen."
    )
    return Table("table_search", caption, numbers, text)


def quoted(numbers):
    """What the paper says of a search, from the numbers of its table: values by key."""
    chosen = numbers.iloc[0]
    edges = sum(chosen[name] in (min(values), max(values)) for name, values in SPACE.items())
    values = {"behind": Value(100 * chosen["behind"], digits=2, unit="pp"), "tried": Value(len(numbers), digits=0)}
    return {f"beyond.search.{name}": value for name, value in (values | {"edges": Value(edges, digits=0)}).items()}


def one_at_a_time(rows):
    """How much our system's settings matter.

    Parameters
    ----------
    rows : DataFrame
        parameter, value, chosen (bool), dataset, policy, seed, novel, original.
    """
    names = ["parameter", "value", "chosen"]
    missing = [name for name in (*names, *CELL, "seed", *AXES) if name not in rows]
    if missing:
        raise InputError(f"rows of tuning lack {', '.join(missing)}: give all columns")
    named = rows.assign(value=["" if pd.isna(value) else f"{value:g}" for value in rows["value"]])
    numbers = named.groupby([*names, *CELL], sort=False, observed=True)[list(AXES)].mean().reset_index()
    settings = numbers[names].drop_duplicates()
    first = (~settings["chosen"]).astype(int) + (settings["value"] != "")  # as it is, readers left out, then values
    settings = settings.loc[first.sort_values(kind="stable").index]
    places = pd.MultiIndex.from_frame(settings)
    text = {"Setting": settings["parameter"].where(~settings["chosen"], "as it is"), "Value": settings["value"]}
    for cell, own in numbers.groupby(CELL, sort=False, observed=True):
        own = own.set_index(names).reindex(places)
        text[cell_title(*cell)] = [
            "–" if pd.isna(n) else f"{n:.3f} / {o:.3f}" for n, o in zip(own["novel"], own["original"])
        ]
    mean = numbers.assign(both=numbers[list(AXES)].mean(axis=1)).groupby(names, sort=False)["both"].mean()
    text["Mean"] = [f"{value:.3f}" for value in mean.reindex(places)]
    caption = (
        f"Settings of {OURS}, one changed at a time, and its readers, one left out at a time, on held-out classes of "
        "the training rows: final novel / original accuracy, means over seeds, and the mean of all."
    )
    return Table("table_tuning", caption, numbers, pd.DataFrame(text))


def without(rows):
    """What our system loses without each of its readers, in points, in the cell where that is most.

    Parameters
    ----------
    rows : DataFrame
        As for ``one_at_a_time``.

    Returns
    -------
    dict
        ``["no_<reader>"]["novel" or "original"]`` to ``Value``.
    """
    means = rows.groupby(["parameter", *CELL])[list(AXES)].mean()
    values = {}
    for name in left_out(SYSTEMS[OURS].params):
        lost = (means.loc[""] - means.loc[name]).max()
        own = {axis: Value(100 * lost[axis], digits=1, unit="pp") for axis in AXES}
        values[name.lower().replace(" ", "_")] = own
    return values
