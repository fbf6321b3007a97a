"""Results as the site shows them, in HTML: a slider, six systems, the leaderboard, the claims.

    python -m paper.pages

brings ``docs/reproduction.md`` up to date, which has its tables in Markdown.
"""

import json
import re
from collections.abc import Iterable
from html import escape

import numpy as np
import pandas as pd

from ocrrlib.files import ROOT, write_text
from paper import build
from paper.claims import SIGNS
from paper.leaderboard import APART, apart, cells, halves, ranks
from paper.reproduction import VERDICTS

FIRST_SYSTEMS = {
    "static_linear": "a linear head that never learns",
    "online_linear": "a linear head, one gradient step per correction",
    "knn_lm": "a frozen head mixed with five neighbours",
    "substrate": "the original's ledger: the five nearest entries vote",
    "slda": "class means and one shared covariance",
    "ledger_lda": "ours: the ledger, read by class means, nearest entries and a head",
}
MOVED = ("ledger_lda", "substrate", "knn_lm", "online_linear")  # by the slider of the first page
MOVED_AXES = ("novel_acc", "original_acc")
CORRECTIONS = np.r_[0:50:5, 50:200:10, 200:1201:50]
CORRECTIONS_FIRST = 12  # place of the number that the slider begins with
FIRST_COLUMNS = {"Novel": "novel", "Original": "original", "Area": "ausuc", "Holds": "holds"}
MORE_COLUMNS = {
    "HM": "hm",
    "Best HM": "best hm",
    "Starts at": "starts at",
    "Lost (pp)": "lost",
    "Holds at once": "holds at once",
}
SCALES = {"Lost (pp)": (100, 1)}  # times, decimals
# How a column sorts first; numbers do from the highest down.
ORDERS = {"Rank": "place", "Section": "place", "Lost (pp)": "low"} | dict.fromkeys(
    ("System", "Source", "Kind", "Checked against", "Claim", "Verdict", "Printed", "Found"), "text"
)
KINDS = {"ours": "our runs", "released": "release", "paper": "paper"}


def systems(ranked: pd.DataFrame, dataset: str, policy: str) -> str:
    """The table of the first page: ``FIRST_SYSTEMS`` in a cell of the leaderboard."""
    cell = ranked[(ranked["dataset"] == dataset) & (ranked["policy"] == policy)]
    ((title, setting, cell),) = cells(cell)
    block = cell.set_index("system", drop=False).loc[list(FIRST_SYSTEMS)]
    names = [f"{name}<small>{escape(about)}</small>" for name, about in FIRST_SYSTEMS.items()]
    hm = _numbers(block, MORE_COLUMNS)["HM"]
    text = {"System": names} | _numbers(block, FIRST_COLUMNS) | {"HM": hm}
    (seeds,) = block["seeds"].unique()
    about = f"{title}: means over {seeds} seeds ± half the width of the 95 % interval; {setting}."
    return f"<p>{escape(about)}</p>\n{_table(pd.DataFrame(text), 'leaderboard systems', title)}"


def slider(checkpoints: pd.DataFrame) -> str:
    """A slider over corrections that moves both accuracies of ``MOVED`` systems, in HTML.

    ``checkpoints`` are runs of one cell. Without a script the block stays hidden.
    """
    systems = {}
    for name in MOVED:
        runs = checkpoints[checkpoints["system"] == name].groupby("seed")
        means = [np.mean([_after(run, axis) for _, run in runs], axis=0) for axis in MOVED_AXES]
        systems[name] = [mean.round(3).tolist() for mean in means]
    data = json.dumps({"grid": CORRECTIONS.tolist(), "systems": systems})
    bars = '<td class="bar"></td>' * len(MOVED_AXES)
    rows = "".join(f'<tr><th scope="row">{name}</th>{bars}</tr>\n' for name in systems)
    return (
        '<div class="slider" hidden>\n<label>How many corrections? <output></output>\n'
        f'<input type="range" min="0" max="{len(CORRECTIONS) - 1}" value="{CORRECTIONS_FIRST}">'
        "</label>\n<table><thead><tr><th>System</th><th>right of new classes</th>"
        f"<th>right of known classes</th></tr></thead><tbody>\n{rows}</tbody></table>\n"
        f'<script type="application/json">{data}</script>\n</div>\n'
    )


def _after(run, axis):
    """Accuracy (n,) of one run after each of ``CORRECTIONS``; one that ended keeps its last.

    Between checkpoints it lies on a straight line.
    """
    return np.interp(CORRECTIONS, run["corrections"], run[axis])


def leaderboard(ranked: pd.DataFrame) -> str:
    """A leaderboard: a tab for each cell, of which the site's style shows the chosen one.

    Rows without a rank stand in a table of their own.
    """
    parts = []
    for number, (title, setting, block) in enumerate(cells(ranked)):
        chosen = "" if number else " checked"
        first, others = apart(block)
        tables = _ranked(first, title)
        if len(others):
            tables += f"<p>{APART}:</p>\n{_ranked(others, f'{title}, {APART.lower()}')}"
        parts.append(
            f'<input type="radio" name="cell" id="cell-{number}"{chosen}>\n'
            f'<label for="cell-{number}">{escape(title)}</label>\n'
            f"<section>\n<p>{escape(setting)}</p>\n{tables}</section>\n"
        )
    return f'<div class="tabs">\n{"".join(parts)}</div>\n'


def _ranked(block, title):
    """A table of rows of the leaderboard."""
    text = {"Rank": ranks(block), "System": [escape(name) for name in block["system"]]}
    text |= _numbers(block, FIRST_COLUMNS) | _numbers(block, MORE_COLUMNS)
    text |= {"Seeds": block["seeds"].astype(str).tolist()}
    for column in ("kind", "checked against", "source"):
        text[column.capitalize()] = [escape(value) for value in block[column]]
    return _table(pd.DataFrame(text), "leaderboard", title)


def claims(rows: list[dict]) -> str:
    """The claims of ``claims.json``, with a choice among verdicts and a field to search them."""
    counts = pd.Series([row["verdict"] for row in rows]).value_counts()
    choices = {"": f"all {len(rows)}"}
    choices |= {verdict: f"{SIGNS[verdict]} {verdict} {counts[verdict]}" for verdict in SIGNS}
    labels = "".join(
        f'<label><input type="radio" name="verdict" value="{verdict}"'
        f"{'' if verdict else ' checked'}> {shown}</label>\n"
        for verdict, shown in choices.items()
    )
    marks = [f' id="claim-{row["id"]}" data-verdict="{row["verdict"]}"' for row in rows]
    return (
        f'<form class="choice">\n<fieldset>\n<legend>Verdict</legend>\n{labels}</fieldset>\n'
        '<label>Words <input type="search" name="words"></label>\n<output></output>\n</form>\n'
        f"{_claims(rows, 'Claims', marks)}"
    )


def central(rows: list[dict]) -> str:
    """Those of the claims that carry the original."""
    return _claims([row for row in rows if row["central"]], "Ten claims that carry the original")


def _claims(rows, title, marks=()):
    """A table of claims."""
    text = pd.DataFrame(
        {
            "Section": [escape(row["section"]) for row in rows],
            "Claim": [_claim(row) for row in rows],
            "Verdict": [f"{SIGNS[row['verdict']]} {row['verdict']}" for row in rows],
            "Printed": [escape(row["printed"]) for row in rows],
            "Found": [_found(row["checks"]) for row in rows],
        }
    )
    return _table(text, "claims", title, marks)


def _numbers(block, columns):
    """Means with half of their intervals, by title."""
    return {title: halves(block, name, *SCALES.get(title, ())) for title, name in columns.items()}


def _claim(row):
    """A claim and, in small letters, why its verdict is what it is."""
    notes = [escape(row[name]) for name in ("note", "unchecked") if row.get(name)]
    return escape(row["claim"]) + "".join(f"<small>{note}</small>" for note in notes)


def _found(checks):
    """What each check found, a line each."""
    lines = []
    for kind, title in KINDS.items():
        if kind in checks:
            sign = SIGNS[checks[kind]["verdict"]]
            lines.append(f"<div><b>{title}</b> {sign} {escape(checks[kind]['found'])}</div>")
    return "".join(lines)


def _table(text: pd.DataFrame, name: str, title: str, marks: Iterable[str] = ()) -> str:
    """HTML of a table of HTML cells that the site's script sorts; ``marks`` are its rows' own."""
    head = "".join(
        f'<th scope="col" data-order="{ORDERS.get(column, "high")}">{column}</th>'
        for column in text
    )
    rows = []
    for mark, row in zip(marks or [""] * len(text), text.itertuples(index=False)):
        rows.append(f"<tr{mark}>{''.join(map(_cell, text, row))}</tr>\n")
    return (
        f'<div class="box" role="region" aria-label="{escape(title)}" tabindex="0">\n'
        f'<table class="sortable {name}">\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{''.join(rows)}</tbody>\n</table>\n</div>\n"
    )


def _cell(column, value):
    """A cell; half of an interval goes below its mean where there is little room."""
    tag = 'th scope="row"' if column == "System" else "td"
    mean, sign, half = value.partition(" ± ")
    if ORDERS.get(column, "high") != "text" and sign:
        value = f"{mean}<span> ± {half}</span>"
    return f'<{tag} data-title="{column}">{value}</{tag[:2]}>'


def reproduction(text: str) -> str:
    """The page on the reproduction with what belongs between its marks ``<!--name-->``.

    That is a published table by its name, how often each verdict is in it by ``verdicts:`` and the
    end of its name, or what our paper calls a figure or table, by its id.
    """
    names = build.places()
    for path in ROOT.glob("paper/tables/table_reproduction_*.csv"):
        words = [*pd.read_csv(path)["verdict"].str.partition(" (")[0]]
        counts = {word: words.count(word) for word in (*VERDICTS, "same", "other")}
        told = ", ".join(f"{n} {word}" for word, n in counts.items() if n)
        names[f"verdicts:{path.stem.removeprefix('table_reproduction_')}"] = told

    def name_of(mark):
        return f"{mark[1]}{names[mark[2]]}{mark[3]}"

    def table_of(mark):
        table = (ROOT / f"paper/tables/{mark[2]}.md").read_text(encoding="utf-8")
        body, caption = table.split("\n\n: ")
        return f"{mark[1]}\n\n{body}\n\n{caption}\n{mark[3]}"

    text = re.sub(r"(<!--(\w+:\w+)-->).*?(<!---->)", name_of, text)
    return re.sub(r"(?s)(<!--(table_\w+)-->).*?(<!---->)", table_of, text)


if __name__ == "__main__":
    PAGE = ROOT / "docs/reproduction.md"
    write_text(PAGE, reproduction(PAGE.read_text(encoding="utf-8")))
