"""The original paper's claims, checked by expressions: verdicts are computed, never typed."""

import re
from pathlib import Path

import pandas as pd
import simpleeval
import yaml

from ocrrlib import results
from ocrrlib.encoders import DEFAULT_ENCODER, PAPER_BACKBONE
from ocrrlib.errors import InputError
from ocrrlib.files import ROOT
from ocrrlib.metrics import by_cell
from ocrrlib.publish import published

CLAIMS = ROOT / "paper/claims.yml"
OF_THE_PAPER = ("full_sweep", "storage_pareto", "lora", "vote_ablation")  # its own experiments, as far as they are runs
MEASURED = ("scale", "scale_costs", "growth")  # and those that are quoted row by row
KINDS = {"paper": "against itself", "released": "against the released results", "ours": "against our runs"}
VERDICTS = ("holds", "holds in direction", "does not hold", "cannot be checked")
FUNCTIONS = {f.__name__: f for f in (abs, min, max, round, len, sum, all, any, sorted)}
MEAN = re.compile(r"ours(\.\w+)+\.(novel|original)")  # has a standard deviation beside it
REQUIRED, OPTIONAL = {"id", "section", "claim", "printed"}, {*KINDS, "unchecked", "note"}


def read(path=CLAIMS):
    """Quoted facts and claims.

    Returns
    -------
    facts : dict
        Figures by where they were quoted from: ``paper``, ``released``.
    claims : list of dict

    Raises
    ------
    InputError
        If the file is not YAML, or a claim lacks something, has too much, or has the name of another.
    """
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        claims = content.pop("claims")
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise InputError(f"{path} cannot be read ({type(error).__name__}): {error}") from error
    names = set()
    for number, claim in enumerate(claims, 1):
        name = claim.get("id", f"claim {number}")
        wrong = (REQUIRED - claim.keys()) | (claim.keys() - REQUIRED - OPTIONAL)
        if wrong:
            raise InputError(f"{path}, {name}: missing or unknown: {', '.join(sorted(wrong))}")
        if not re.fullmatch(r"[\w.-]+", name, re.ASCII):
            raise InputError(f"{path}: {name!r} cannot be linked to: give an id of letters, digits, '.', '-' and '_'")
        if name in names:
            raise InputError(f"{path}: two claims are called {name}")
        if not claim.keys() & {*KINDS, "unchecked"}:
            raise InputError(f"{path}, {name}: nothing says how to check it, or why it cannot be")
        names.add(name)
    return content, claims


def our_figures(folder=ROOT):
    """What the results in a checkout, or in a folder that is laid out like one, say, as nested dictionaries.

    ``<experiment>.<dataset>.<policy>.<system>`` holds means and spreads over seeds, see ``metrics.by_cell``.
    """
    folder = Path(folder)
    figures = {name: by_cell(results.read(folder / f"data/results/{name}.parquet")[0]) for name in OF_THE_PAPER}
    figures["beyond"] = by_cell(published("beyond"))  # made by a later notebook: as published, in any folder
    for name in MEASURED:
        figures[name] = results.read(folder / f"data/results/{name}.parquet")[0].to_dict("records")
    costs, _ = results.read(folder / "data/results/costs.parquet")
    figures["costs"] = {
        row["system"]: {"correct_us": row["correct_median"], "predict_us": row["predict_median"], "bytes": row["bytes"]}
        for row in costs[costs["dataset"] == "banking77"].to_dict("records")
    }
    orders = pd.read_csv(folder / "paper/tables/table_file_order.csv")
    figures["file_order"] = orders.to_dict("records")
    counts = pd.read_csv(folder / "paper/tables/table_parameters.csv").set_index("backbone")
    names = {"deberta": PAPER_BACKBONE, "minilm": DEFAULT_ENCODER}
    figures["parameters"] = {short: counts.loc[name].to_dict() for short, name in names.items()}
    return figures


def check(facts, claims, ours):
    """Evaluate every expression of every claim.

    Returns
    -------
    list of dict
        ``id``, ``section``, ``claim``, ``printed``, ``note``, ``unchecked``; ``checks``, by kind the verdict, the
        figures found, and the standard deviations of those that are means over our seeds; and ``verdict``, that of
        our runs where they can say something, else of the released results, else of the paper itself.
    """
    return [_checked(claim, facts | {"ours": ours, "printed": claim["printed"]}) for claim in claims]


def _checked(claim, names):
    checks = {kind: _judge(claim, kind, names) for kind in KINDS if kind in claim}
    said = [checks[kind]["verdict"] for kind in reversed(KINDS) if kind in checks]
    return {
        "id": claim["id"],
        "section": str(claim["section"]),
        "claim": claim["claim"],
        "printed": claim["printed"],
        "note": claim.get("note", ""),
        "unchecked": claim.get("unchecked", ""),
        "checks": checks,
        "verdict": said[0] if said and ("ours" in checks or "unchecked" not in claim) else VERDICTS[3],
    }


def _judge(claim, kind, names):
    plan = claim[kind]
    found = {name: _evaluate(text, names, claim, kind) for name, text in plan.get("found", {}).items()}
    means = {name: text for name, text in plan.get("found", {}).items() if MEAN.fullmatch(str(text))}
    spread = {name: _evaluate(f"{text}_std", names, claim, kind) for name, text in means.items()}
    tests = {"holds": VERDICTS[0], "direction": VERDICTS[1]}
    said = (
        v for test, v in tests.items() if test in plan and _evaluate(plan[test], names | found, claim, kind) is True
    )
    return {"verdict": next(said, VERDICTS[2]), "found": found, "spread": spread}


def _evaluate(text, names, claim, kind):
    """One expression.

    Raises
    ------
    InputError
        If it cannot be evaluated; the message names claim, kind and expression.
    """
    try:
        return simpleeval.EvalWithCompoundTypes(names=names, functions=FUNCTIONS).eval(str(text))
    except (simpleeval.InvalidExpression, SyntaxError, KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise InputError(f"claim {claim['id']}, {kind}: {text!r} fails: {error}") from error
