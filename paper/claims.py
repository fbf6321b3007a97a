"""The original paper's claims: expressions in ``claims.yml`` decide them, no verdict is typed."""

import re
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd
import simpleeval
import yaml

from ocrrlib.files import ROOT, InputError
from paper.tables import SIZES, Table

KINDS = {
    "paper": "against itself",
    "released": "against the released results",
    "ours": "against our runs",
}
VERDICTS = (
    "holds",
    "holds in direction",
    "depends on the setting",
    "not shown here",
    "does not hold",
    "cannot be checked",
)
HOLDS, DIRECTION, DEPENDS, NOT_SHOWN, FAILS, UNCHECKED = VERDICTS
SHORT = dict(zip(VERDICTS, ("holds", "direction", "setting", "not shown", "no", "unchecked")))
SIGNS = dict(zip(VERDICTS, "✓≈±○✗?"))  # so that colour is never the only sign
# From light to dark as less of a claim is left, so that grey keeps their order.
COLOURS = dict(zip(VERDICTS, ("#CDEBD3", "#96CDEA", "#D08A1E", "#8A5A83", "#7A2410", "#FFFFFF")))
FUNCTIONS = {f.__name__: f for f in (abs, min, max, round, len, sum, all, any, sorted)}
# Has a standard deviation beside it.
MEAN = re.compile(r"ours(\.\w+|\[claim\.\w+\])+\.(novel|original)")
UNITS = {"us": "µs", "ms": "ms", "mb": "MB"}
# Names in claims.yml -> words for readers, applied in this order.
WORDS = dict(
    a_gem="A-GEM",
    knn_lm="kNN-LM",
    ewc="EWC",
    lwf="LwF",
    lora="LoRA",
    hnsw="HNSW",
    gdumb="GDumb",
    mir="MIR",
)
WORDS |= dict(
    banking77="Banking77",
    clinc150="CLINC150",
    acc="accuracy",
    std="SD",
    lr="step size",
    der_pp="DER++",
)
WORDS |= {
    r"random(\d+)": r"random-\1",
    r"to_(\d+)": r"to \1 %",
    r"(\d+)_(\d+)": r"\1.\2",
    r"(10?)m": r"\1M",
}
TOGETHER = r"(?<=[=±]) | (?=[±%]|[µm]s\b|MB\b)"  # spaces at which no line should end


def read(path: Path = ROOT / "paper/claims.yml") -> tuple[dict, list[dict]]:
    """Quoted facts, and the list of claims in the order of the paper.

    Facts are numbers by source: ``paper`` and ``released``.
    """
    facts = yaml.safe_load(path.read_text(encoding="utf-8"))
    return facts, facts.pop("claims")


def printed_scale() -> pd.DataFrame:
    """The original's table of section 6.5, a row for each number of entries."""
    rows = read()[0]["paper"]["scale"]
    return pd.DataFrame(rows.values(), index=SIZES)


def check(
    facts: dict, claims: list[dict], ours: dict, each_seed: Sequence[dict] = ()
) -> list[dict]:
    """Evaluate every expression of every claim: a list of dict.

    ``facts``, a dict of quoted numbers, and ``ours``, a dict of our results, have the names that
    expressions may use. ``each_seed`` are our results again, with those of one seed in place of
    means: an expression about our runs that names no printed figure must be true of these, too.
    Each claim keeps its ``id``, ``section``, ``claim``, ``printed``, ``note``, ``unchecked``,
    ``central``; ``checks`` has by kind the verdict and the numbers found, a mean over our seeds
    with its standard deviation, the kind that decides last; ``verdict`` is that of the kind named
    by ``decides``, else of our runs, else of the release, else of the paper. What the release
    confirms and our runs deny, with another encoder, is not shown here, unless ``decides`` names
    our runs.
    """
    facts = {name: _read_only(fact) for name, fact in facts.items()}
    ours = _read_only(ours)
    each_seed = [_read_only(seed) for seed in each_seed]
    rows = []
    for claim in claims:
        names = facts | {"ours": ours, "printed": claim["printed"], "claim": claim}
        kinds = sorted(KINDS, key=lambda kind: kind == claim.get("decides"))
        alone = [names | {"ours": seed} for seed in each_seed]
        checks = {
            kind: _judge(claim, kind, names, alone if kind == "ours" else [])
            for kind in kinds
            if kind in claim
        }
        row = {
            key: claim.get(key, "")
            for key in ("id", "section", "claim", "printed", "note", "unchecked")
        }
        row |= {"section": str(claim["section"]), "central": claim.get("central", False)}
        rows.append(row | {"checks": checks, "verdict": _verdict(claim, checks)})
    return rows


def _read_only(value: Any) -> Any:
    """A view of nested dicts; simpleeval would look through every entry of a dict at every step."""
    if isinstance(value, dict):
        return MappingProxyType({name: _read_only(one) for name, one in value.items()})
    return value


def _verdict(claim, checks):
    """The verdict of the check that decides; our runs alone do not turn what the release confirms.

    They have another encoder. A claim that no encoder touches may name them in ``decides``.
    """
    if not checks:
        return UNCHECKED
    decides, check = list(checks.items())[-1]
    denied = decides == "ours" and check["verdict"] == FAILS
    confirmed = checks.get("released", {}).get("verdict") in (HOLDS, DIRECTION)
    if denied and confirmed and "decides" not in claim:
        return NOT_SHOWN
    return check["verdict"]


def _judge(claim, kind, names, alone):
    """Verdict of one check, and the numbers found; ``<name>_std`` beside a mean over seeds.

    ``alone`` are the names with the results of one seed each. ``in_seeds`` says in how many of them
    the strongest test is true that is true of the means, where it is not all. A claim that only
    such tests support is not shown here.
    """
    plan = claim[kind]
    found = _found(claim, kind, names)
    for name, text in plan.get("found", {}).items():
        if MEAN.fullmatch(str(text)):
            found[f"{name}_std"] = _value(claim, kind, f"{text}_std", names)
    known = names | found
    tests = zip(VERDICTS, ("holds", "direction", "depends"))
    for verdict, test in tests:
        if test not in plan or _value(claim, kind, plan[test], known) is not True:
            continue
        if "printed" in str(plan[test]):  # a level, asked of the means
            return {"verdict": verdict, "found": found}
        agree = [_agrees(claim, kind, plan[test], seed) for seed in alone]
        if all(agree):
            return {"verdict": verdict, "found": found}
        found.setdefault("in_seeds", f"{sum(agree)} of {len(agree)}")
    return {"verdict": NOT_SHOWN if "in_seeds" in found else FAILS, "found": found}


def _agrees(claim, kind, test, names):
    """Whether a test is true of one seed; a count of corrections to a level never reached is not.

    The test was evaluated on the means, so nothing else can fail.
    """
    try:
        return _value(claim, kind, test, names | _found(claim, kind, names)) is True
    except InputError:
        return False


def _found(claim, kind, names):
    """The numbers that a check finds, by name."""
    plan = claim[kind].get("found", {})
    return {name: _value(claim, kind, text, names) for name, text in plan.items()}


def _value(claim, kind, text, names):
    """What an expression of a claim gives."""
    try:
        return simpleeval.EvalWithCompoundTypes(names=names, functions=FUNCTIONS).eval(str(text))
    except (
        simpleeval.InvalidExpression,
        SyntaxError,
        KeyError,
        TypeError,
        ValueError,
        ArithmeticError,
    ) as error:
        raise InputError(f"claim {claim['id']}, {kind}: {text!r} fails: {error}") from error


def _name(name):
    """A number's name in words: ``hnsw_acc`` as HNSW accuracy."""
    for pattern, word in WORDS.items():
        name = re.sub(rf"(?<![a-z0-9]){pattern}(?![a-z0-9])", word, name)
    return name.replace("_", " ").strip()


def _pair(name, value, spread):
    """``name = value``, with its standard deviation or its unit."""
    if value is None and name.startswith("to_"):
        return f"{_name(name)} = never"
    if spread is not None:
        return f"{_name(name)} = {value:.3f} ± {spread:.3f}"
    rest, _, last = name.rpartition("_")
    if last in UNITS:
        return f"{_name(rest)} = {shown(value)} {UNITS[last]}".removeprefix(" = ")
    return f"{_name(name)} = {shown(value)}"


def shown(value) -> str:
    """A number, or several by name, as text; with standard deviations where they are known."""
    if isinstance(value, dict):
        names = [name for name in value if not _is_spread(name, value)]
        return "; ".join(_pair(name, value[name], value.get(f"{name}_std")) for name in names)
    if isinstance(value, list | tuple | set):
        return ", ".join(map(shown, value)) or "none"
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return _decimal(value) if isinstance(value, float) else str(value)


def _is_spread(name, values):
    """Whether a name is that of the standard deviation of another value."""
    return name.endswith("_std") and name.removesuffix("_std") in values


def _decimal(value):
    """Three decimals below one, three digits below a thousand, else whole."""
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 0.9995:
        return f"{value:.3g}"
    if 0.0001 <= size < 0.001:
        return f"{value:.1g}"
    # + 0.0: no minus zero
    return f"{round(value, 3) + 0.0:.3f}".rstrip("0").rstrip(".")


def part(section: str) -> str:
    """The part of the paper that a claim's first section belongs to.

    Results go by subsection, figures and tables by kind, the rest by section.
    """
    word = section.split(" ")[0]
    first = section.split(", ")[0]
    if word in ("figure", "table"):
        return f"{word}s"
    return first if first[0] in "5a" else first.split(".")[0]


def table(rows: list[dict]) -> Table:
    """Every claim with the printed numbers, those found, and the verdicts."""
    numbers = pd.DataFrame(rows)[["section", "claim"]]
    numbers["printed"] = [shown(row["printed"]) for row in rows]
    numbers["found"] = [
        shown(list(row["checks"].values())[-1]["found"]) if row["checks"] else "" for row in rows
    ]
    for kind in KINDS:
        numbers[kind] = [row["checks"].get(kind, {}).get("verdict", "") for row in rows]
    numbers[["verdict", "id"]] = pd.DataFrame(rows)[["verdict", "id"]]
    text = numbers[["section", "claim", "printed", "found"]].rename(columns=str.capitalize)
    sections = numbers["section"].str.partition(", ")
    text["Section"] = sections[0]
    elsewhere = sections[2]
    text["Claim"] += elsewhere.map(lambda sections: f" (Also {sections}.)" if sections else "")
    text[["Printed", "Found"]] = text[["Printed", "Found"]].replace(
        TOGETHER, "\N{NO-BREAK SPACE}", regex=True
    )
    for kind, title in zip(KINDS, ("Itself", "Release", "Ours")):
        text[title] = [SIGNS.get(verdict, "–") for verdict in numbers[kind]]
    text["Verdict"] = numbers["verdict"].map(SHORT)
    signs = ", ".join(f"{sign} {verdict}" for verdict, sign in SIGNS.items())
    caption = (
        "The original's claims in our words, figures printed, figures found by the check that "
        "decides (± one population standard deviation over seeds, as in the original; in seeds: a "
        "comparison of means is true in so many only), verdicts against the paper, the release, "
        f"our runs ({signs}, – none), and in all."
    )
    return Table("table_claims", caption, numbers, text)


def central(rows: list[dict]) -> Table:
    """The claims that carry the original, as ``table`` shows them, with verdicts in words."""
    ten = table([row for row in rows if row["central"]])
    verdicts = [f"{SIGNS[verdict]} {verdict}" for verdict in ten.numbers["verdict"]]
    caption = (
        "Ten claims that carry the original: what its abstract, its contributions and its "
        "conclusion say of results, counts of runs and systems left out. Figures found are those "
        "of the check that decides, ± one population standard deviation over seeds."
    )
    columns = ["Section", "Claim", "Printed", "Found"]
    return Table("table_central", caption, ten.numbers, ten.text[columns].assign(Verdict=verdicts))
