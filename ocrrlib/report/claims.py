"""The audit of the original paper's claims, as tables, a figure and a file for the site."""

import json
import re

import matplotlib.pyplot as plt
import pandas as pd

from ocrrlib.claims import KINDS, VERDICTS
from ocrrlib.files import write_text
from ocrrlib.report.style import PALETTE, WIDTH
from ocrrlib.report.table import Table

# Colour and sign of each verdict, so that nothing is said by colour alone.
LOOKS = dict(zip(VERDICTS, (("green", "✓"), ("sky", "≈"), ("vermilion", "✗"), ("grey", "?"))))
SHORT = dict(zip(VERDICTS, ("holds", "direction", "no", "unchecked")))
SIGNS = {verdict: sign for verdict, (_, sign) in LOOKS.items()}
KEYS = ("holds", "direction", "fails", "unchecked")  # of values, in the order of verdicts
FIRST, LAST = "abstract", ("table", "figure")  # what has no number, before and after the sections
UNITS = {"us": "µs", "ms": "ms", "mb": "MB"}
# How readers know what the names of figures are made of; the first that fits.
WORDS = {
    r"a_gem": "A-GEM",
    r"knn_lm": "kNN-LM",
    r"ewc": "EWC",
    r"lwf": "LwF",
    r"lora": "LoRA",
    r"hnsw": "HNSW",
    r"banking77": "Banking77",
    r"clinc150": "CLINC150",
    r"random(\d+)": r"random-\1",
    r"to_(\d+)": r"to \1 %",
    r"(\d+)_(\d+)": r"\1.\2",
    r"1m": "1M",
    r"acc": "accuracy",
    r"std": "SD",
    r"lr": "step size",
}
NAMES = re.compile("|".join(rf"(?<![a-z0-9]){pattern}(?![a-z0-9])" for pattern in WORDS))
TOGETHER = r"(?<=[=±]) | (?=[±%]|[µm]s\b|MB\b)"  # spaces at which no line should end


def _number(value):
    """Three decimals below one, three digits below a thousand, else whole."""
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 0.9995:
        return f"{value:.3g}"
    if 0.0001 <= size < 0.001:
        return f"{value:.1g}"
    return f"{round(value, 3) + 0.0:.3f}".rstrip("0").rstrip(".")  # no minus zero


def _name(name):
    """A figure's name in words: ``hnsw_acc`` as HNSW accuracy."""
    said = NAMES.sub(lambda hit: next(re.sub(p, w, hit[0]) for p, w in WORDS.items() if re.fullmatch(p, hit[0])), name)
    return said.replace("_", " ").strip()


def _pair(name, value, spread=None):
    """``name = value``, with its standard deviation or its unit."""
    if value is None and name.startswith("to_"):
        return f"{_name(name)} = never"
    if spread is not None:
        return f"{_name(name)} = {value:.3f} ± {spread:.3f}"
    *rest, last = name.split("_")
    if last in UNITS:
        return " = ".join(filter(None, (_name("_".join(rest)), f"{shown(value)} {UNITS[last]}")))
    return f"{_name(name)} = {shown(value)}"


def shown(value, spreads=None):
    """A figure, or several by name, as readers write them; with their standard deviations, where they are known."""
    if isinstance(value, dict):
        ends = {name: f"{name}_std" for name in value if f"{name}_std" in value}
        spreads = {name: value[end] for name, end in ends.items()} | (spreads or {})
        return "; ".join(_pair(*one, spreads.get(one[0])) for one in value.items() if one[0] not in ends.values())
    if isinstance(value, list | tuple | set):
        return ", ".join(map(shown, value)) or "none"
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return _number(value) if isinstance(value, float) else str(value)


def found(check):
    """The figures that a check found, with their standard deviations where they are known."""
    return shown(check["found"], check.get("spread"))


def group(section):
    """The part of the paper that a section belongs to: results by subsection, the rest as a whole."""
    word = section.split(" ")[0]
    return f"{word}s" if word in LAST else section if section[0] in "5a" else section.split(".")[0]


def order(part):
    """Sorts parts of the paper: abstract, sections by number, tables and figures."""
    last = part.split(" ")[0].rstrip("s") in LAST
    number = [] if last or part == FIRST else [int(n) for n in part.split(".")]
    return part != FIRST, last, number, part


def summary(rows):
    """How many claims have which verdict, by what they were checked against."""
    checked = {
        title: [r["checks"][kind]["verdict"] for r in rows if kind in r["checks"]] for kind, title in KINDS.items()
    }
    checked["in all"] = [row["verdict"] for row in rows]
    numbers = pd.DataFrame(
        [
            {"checked": name} | {v: said.count(v) for v in VERDICTS} | {"claims": len(said)}
            for name, said in checked.items()
        ]
    )
    text = numbers.rename(columns=lambda name: name.capitalize())
    text["Checked"] = text["Checked"].str.capitalize()
    caption = (
        "Verdicts on the original's claims, by what they were checked against. In all, our runs decide where they can "
        "say something, else the released results, else the paper itself."
    )
    return Table("table_claims_summary", caption, numbers, text)


def table(rows):
    """Every claim with what is printed, what was found, and the verdicts."""
    rows = sorted(rows, key=lambda row: order(row["section"]))
    best = [row["checks"].get("ours") or row["checks"].get("released") or row["checks"].get("paper") for row in rows]
    numbers = pd.DataFrame(
        {
            "section": [row["section"] for row in rows],
            "claim": [row["claim"] for row in rows],
            "printed": [shown(row["printed"]) for row in rows],
            "found": [found(check) if check else "" for check in best],
            **{kind: [row["checks"].get(kind, {}).get("verdict", "") for row in rows] for kind in KINDS},
            "verdict": [row["verdict"] for row in rows],
            "id": [row["id"] for row in rows],
        }
    )
    text = numbers[["section", "claim", "printed", "found"]].rename(columns=str.capitalize)
    text[["Printed", "Found"]] = text[["Printed", "Found"]].replace(TOGETHER, "\N{NO-BREAK SPACE}", regex=True)
    for kind, title in {"paper": "Itself", "released": "Release", "ours": "Ours"}.items():
        text[title] = [SIGNS.get(verdict, "–") for verdict in numbers[kind]]
    text["Verdict"] = [SHORT[verdict] for verdict in numbers["verdict"]]
    signs = ", ".join(f"{sign} {verdict}" for verdict, sign in SIGNS.items())
    caption = (
        "The original's claims in our words, the figures that it prints, those found (in our runs where they can tell, "
        "else in the release or in the paper itself; ± one standard deviation over seeds), whether the claim holds "
        f"against the paper itself, the released results and our runs ({signs}, – not checked against), and the "
        "verdict on the whole."
    )
    return Table("table_claims", caption, numbers, text)


def overview(rows):
    """One square for every claim, by part of the paper."""
    places = sorted({group(row["section"]) for row in rows}, key=order)
    figure, axes = plt.subplots(figsize=(WIDTH, 0.26 * len(places) + 0.9))
    for y, place in enumerate(places):
        said = sorted((row["verdict"] for row in rows if group(row["section"]) == place), key=VERDICTS.index)
        for x, verdict in enumerate(said):
            colour, sign = LOOKS[verdict]
            axes.add_patch(plt.Rectangle((x - 0.45, y - 0.45), 0.9, 0.9, color=PALETTE[colour], linewidth=0))
            axes.text(x, y, sign, ha="center", va="center_baseline", fontsize=8, color="white")
    widest = max(sum(group(row["section"]) == place for row in rows) for place in places)
    axes.set(xlim=(-0.7, widest - 0.3), ylim=(len(places) - 0.4, -0.6), yticks=range(len(places)), xticks=[])
    axes.set_yticklabels([place if place[0].isalpha() else f"section {place}" for place in places])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.grid(False)
    counts = [sum(row["verdict"] == verdict for row in rows) for verdict in VERDICTS]
    patches = [plt.Rectangle((0, 0), 1, 1, color=PALETTE[colour]) for colour, _ in LOOKS.values()]
    titles = [f"{sign} {verdict} ({n})" for n, (verdict, (_, sign)) in zip(counts, LOOKS.items())]
    figure.legend(patches, titles, loc="outside lower center", ncols=len(VERDICTS), handlelength=1, handleheight=1)
    return figure


def write(rows, path):
    """Write what the site shows of each claim, as JSON."""
    entries = [
        {key: row[key] for key in ("id", "section", "claim", "verdict")}
        | {"printed": shown(row["printed"]), "note": " ".join(filter(None, (row["note"], row["unchecked"])))}
        | {"checks": {kind: {"verdict": c["verdict"], "found": found(c)} for kind, c in row["checks"].items()}}
        for row in sorted(rows, key=lambda row: order(row["section"]))
    ]
    write_text(path, json.dumps(entries, ensure_ascii=False, indent=1) + "\n")
