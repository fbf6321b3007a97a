"""What becomes of out-of-scope queries when they are a class among others: a table, and numbers to quote."""

import pandas as pd

from ocrrlib.experiments import OURS
from ocrrlib.report.beyond.figures import MAIN
from paper.style import POLICY_TITLES
from paper.tables import Table
from paper.values import Value
from ocrrlib.statistics.bar import REFERENCE

SYSTEMS = (*MAIN, "static_linear")  # of the table, in its order
PARTS = {"inside": "out of scope", "others": "in scope"}
QUOTED = {"ours": OURS, "substrate": REFERENCE, "klda": "klda", "head": "static_linear"}


def table(found):
    """Both parts of the original test rows, from the rows of ``one_class.apart``."""
    numbers = found[found["system"].isin(SYSTEMS)].reset_index(drop=True)
    text = {"System": list(SYSTEMS)}
    for policy, rows in numbers.groupby("policy", sort=False):
        own = rows.set_index("system").loc[list(SYSTEMS)]
        title = POLICY_TITLES.get(policy, policy)
        text |= {f"{title}, {part}": [f"{v:.3f}" for v in own[name]] for name, part in PARTS.items()}
    share, seeds = numbers["share"].mean(), numbers["seeds"].iloc[0]
    caption = (
        f"Final original accuracy on out-of-scope queries ({100 * share:.0f} % of the original test rows of CLINC150) "
        f"and on all others, by policy: means over the {seeds} seeds that know out-of-scope queries from the start."
    )
    return Table("table_out_of_scope", caption, numbers, pd.DataFrame(text))


def quoted(found, alike, policy="oracle"):
    """What the paper quotes: shares answered right by some systems, and of rows whose nearest is alike, in %.

    ``dominating_in`` counts the systems that are at least as good as the substrate on new classes and in scope.

    Parameters
    ----------
    found, alike
        As ``one_class.apart`` and ``one_class.alike`` return them.
    """
    rows = found[found["policy"] == policy].set_index("system")
    shares = {
        f"{name}_{part}": rows.at[system, column]
        for name, system in QUOTED.items()
        for part, column in (("out", "inside"), ("in", "others"))
    }
    shares |= {f"alike_{part}": share for part, share in alike.items()}
    values = {name: Value(100 * share, digits=0, unit="%") for name, share in shares.items()}
    others = rows.assign(**{name: rows[name].round(12) for name in ("others", "novel")})
    ahead = (others[["others", "novel"]] >= others.loc[REFERENCE, ["others", "novel"]]).all(axis=1)
    values["dominating_in"] = int(ahead.sum() - 1)
    return {f"beyond.scope.{name}": value for name, value in values.items()}
