"""The audit of the original paper's claims, as tables, a figure and a file for the site."""

import json

import matplotlib.pyplot as plt
import pandas as pd

from ocrrlib.claims import KINDS, VERDICTS
from ocrrlib.files import write_text
from ocrrlib.report.style import PALETTE, WIDTH
from ocrrlib.report.tables import Table

# Colour and sign of each verdict, so that nothing is said by colour alone.
LOOKS = dict(zip(VERDICTS, (("green", "✓"), ("sky", "≈"), ("vermilion", "✗"), ("grey", "?"))))
SHORT = dict(zip(VERDICTS, ("holds", "direction", "no", "unchecked")))
KEYS = ("holds", "direction", "fails", "unchecked")  # of values, in the order of verdicts
FIRST, LAST = "abstract", ("table", "figure")  # what has no number, before and after the sections


def shown(value):
    """A figure, or several by name, as readers write them."""
    if isinstance(value, dict):
        return ", ".join(
            f"{name.replace('_std', '_SD').replace('_', ' ')} {shown(part)}" for name, part in value.items()
        )
    if isinstance(value, list | tuple | set):
        return ", ".join(map(shown, value))
    if value is None or isinstance(value, bool):
        return {None: "never", True: "yes", False: "no"}[value]
    if isinstance(value, int) or (isinstance(value, float) and abs(value) >= 100):
        return f"{value:,.0f}"
    if isinstance(value, float):
        return f"{round(value, 3) + 0.0:.3f}".rstrip("0").rstrip(".")  # no minus zero
    return str(value)


def found(check):
    """The figures that a check found, with their standard deviations where they are known."""
    ends = {name: f" ± {spread:.3f}" for name, spread in check.get("spread", {}).items()}
    return shown({name: shown(part) + ends.get(name, "") for name, part in check["found"].items()})


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
    for kind, title in {"paper": "Itself", "released": "Release", "ours": "Ours"}.items():
        text[title] = [SHORT.get(verdict, "–") for verdict in numbers[kind]]
    text["Verdict"] = [SHORT[verdict] for verdict in numbers["verdict"]]
    caption = (
        "The original's claims in our words, the figures that it prints, those found (in our runs where they can tell, "
        "else in the release or in the paper itself), whether the claim holds against the paper itself, the released "
        "results and our runs, and the verdict on the whole."
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
            axes.text(x, y, sign, ha="center", va="center_baseline", fontsize=6.5, color="white")
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
