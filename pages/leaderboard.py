"""The leaderboard: one table for each cell, with a link to each system's card."""

import re
from types import SimpleNamespace

from markupsafe import Markup

from ocrrlib import cards
from ocrrlib.report import leaderboard
from pages.tables import parse

FOLDER = "cards"


def read(source):
    """Tables of all cards of a checkout, and the files that they link to.

    Raises
    ------
    InputError
        If a card is none.
    """
    found = cards.read_cards(source / "data/results/cards")
    made = [path for suffix in (".csv", ".md") if (path := source / f"figures/leaderboard{suffix}").exists()]
    if not found:
        return SimpleNamespace(tables=[], caption="", cards=[], files=[])
    files = {(card["system"]["name"], card.get("source", cards.PUBLISHED_HERE)): path for path, card in found.items()}
    caption, *blocks = re.split("^## ", leaderboard.markdown(leaderboard.rank(found.values())), flags=re.MULTILINE)
    return SimpleNamespace(
        tables=[_table(block, files) for block in blocks],
        caption=re.sub(r"\*(.+?)\*", r"\1", caption.partition("\n\n")[2].strip()),
        cards=list(found),
        files=made,
    )


def _table(block, files):
    """A cell's table, in which each system's name leads to its card."""
    title, about, text = block.split("\n\n", 2)
    table = parse(text, re.sub(r"\W+", "-", title.lower()), title)
    system, source = table.header.index("System"), table.header.index("Source")
    for row in table.rows:
        path = files[row[system], row[source]]
        row[system] = Markup('<a href="{}/{}">{}</a>').format(FOLDER, path.name, row[system])
    return SimpleNamespace(name=table.name, title=title, about=about, table=table)
