"""The leaderboard: all systems that have a card, cell by cell, in the order of ``standings``."""

import pandas as pd

from ocrrlib.cards.cells import METRICS, PLACE, place_of, tested
from ocrrlib.cards.standings import standings
from ocrrlib.files import write_text
from paper.style import cell_title
from ocrrlib.statistics.collapse import DROP, FLOOR

CAPTION = (
    "All systems with a result card, best first by *anytime novel*: novel accuracy, averaged over the stream. "
    "*Novel* and *original* are the accuracies at its end. Means over seeds ± half the width of the 95 % t interval. "
    f"Systems that have *collapsed* come after all others, whatever they learnt: their original accuracy is more than "
    f"{100 * DROP:.0f} points below that of {FLOOR}, which learns nothing from the stream."
)
COLUMNS = (
    *("Rank", "System", "Novel", "Original", "Collapsed", "Anytime novel", "Anytime original"),
    *("Corrections", "Seeds", "Source"),
)


def rank(cards):
    """One row per cell and system.

    Parameters
    ----------
    cards : iterable of dict
        Cards, checked.

    Returns
    -------
    DataFrame
        What names the cell (``dataset``, ``fingerprint``, ``encoder``, ``policy``, ``held_out``, ``draw``, ``cap``,
        ``every``), ``rank``, and the columns of ``standings``. Equals have equal ranks.
    """
    cards = list(cards)
    blocks = []
    for place in dict.fromkeys(place_of(cell) for card in cards for cell in card["cells"]):
        names = dict(zip(PLACE, place, strict=True))
        block = standings(cards, place)
        within = block.groupby("collapsed")["anytime novel"].rank(ascending=False, method="min").astype(int)
        ranks = within + block["collapsed"] * (~block["collapsed"]).sum()
        front = pd.DataFrame({name: [value] * len(block) for name, value in names.items()}).assign(rank=ranks)
        blocks.append(front.join(block))
    return pd.concat(blocks, ignore_index=True).astype({"cap": "Int64"})


def markdown(table):
    """The same for readers: a heading and a table per cell."""
    blocks = [f"# Leaderboard\n\n{CAPTION}"]
    for place, block in table.groupby(list(PLACE), sort=False, dropna=False):
        dataset, _, encoder, policy, held_out, _, cap, every = place
        on = tested(None if pd.isna(cap) else cap, every)
        heading = f"## {cell_title(dataset, policy)}\n\n{encoder}, {held_out} classes held out, {on}"
        text = {"Rank": block["rank"], "System": block["system"]}
        text |= {name.capitalize(): _half(block, name) for name in METRICS}
        text |= {"Collapsed": block["collapsed"].map({True: "collapsed", False: ""})}
        text |= {"Seeds": block["seeds"], "Source": block["source"]}
        blocks.append(
            f"{heading}\n\n{pd.DataFrame(text)[list(COLUMNS)].to_markdown(index=False, disable_numparse=True)}"
        )
    return "\n\n".join(blocks) + "\n"


def _half(block, name):
    """``mean ± half the interval``; the mean alone where one seed gives none, and of corrections."""
    digits = 0 if name == "corrections" else 3
    halves = (block[f"{name} high"] - block[f"{name} low"]) / 2
    return [
        f"{mean:.{digits}f}" + ("" if pd.isna(half) or not digits else f" ± {half:.{digits}f}")
        for mean, half in zip(block[name], halves)
    ]


def write(table, folder):
    """Write ``leaderboard.csv`` and ``leaderboard.md``; returns their paths."""
    written = {"csv": table.round(6).to_csv(index=False, lineterminator="\n"), "md": markdown(table)}
    paths = [folder / f"leaderboard.{suffix}" for suffix in written]
    for path, text in zip(paths, written.values()):
        write_text(path, text)
    return paths
