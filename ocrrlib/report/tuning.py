"""How our system was set, as tables: the search, and each setting by itself."""

import re

import pandas as pd

from ocrrlib.bar import AXES, CELL
from ocrrlib.errors import InputError
from ocrrlib.experiments import OURS
from ocrrlib.report.tables import Table, titles
from ocrrlib.tuning_plan import SPACE, behind

SHOWN = 8  # settings of the search, the best ones


def search(rows):
    """The settings that came furthest in the search, with what the objective says of them.

    Parameters
    ----------
    rows : DataFrame
        As ``tuning_plan.search`` returns it.
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
    text = {"Seeds": shown["seeds"], "Behind (pp)": [f"{100 * value:.2f}" for value in shown["behind"]]}
    # Names with spaces can be broken, so that the table is as narrow as the page.
    text |= {re.sub(r"[._]", " ", name): [f"{value:g}" for value in shown[name]] for name in SPACE}
    caption = (
        f"The search for the settings of {OURS}, on held-out classes of the training rows: how far a setting is behind "
        "the best system on either axis of a cell (root mean square, 0 where ahead). Those that went through most "
        "rounds come first; the first of all is what was chosen."
    )
    return Table("table_search", caption, numbers, pd.DataFrame(text))


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
    settings = settings.sort_values("chosen", ascending=False, kind="stable")
    places = pd.MultiIndex.from_frame(settings)
    text = {"Setting": settings["parameter"].where(~settings["chosen"], "as it is"), "Value": settings["value"]}
    for cell, own in numbers.groupby(CELL, sort=False, observed=True):
        own = own.set_index(names).reindex(places)
        title = ", ".join(
            column[0] for column in list(titles(pd.DataFrame([dict(zip(CELL, cell), system="")])).values())[:2]
        )
        text[title] = ["–" if pd.isna(n) else f"{n:.3f} / {o:.3f}" for n, o in zip(own["novel"], own["original"])]
    mean = numbers.assign(both=numbers[list(AXES)].mean(axis=1)).groupby(names, sort=False)["both"].mean()
    text["Mean"] = [f"{value:.3f}" for value in mean.reindex(places)]
    caption = (
        f"Settings of {OURS}, one changed at a time, on held-out classes of the training rows: final novel / original "
        "accuracy, means over seeds, and the mean of all."
    )
    return Table("table_tuning", caption, numbers, pd.DataFrame(text))
