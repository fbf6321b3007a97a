"""Result cards: one system on one or more cells, as JSON that says what repeats it; read, written, and as Markdown."""

import functools
import json
import re
from pathlib import Path

from ocrrlib.cards.cells import METRICS, SPREAD, tested
from ocrrlib.cards.check import check
from ocrrlib.cards.repeat import repeat
from ocrrlib.errors import InputError
from ocrrlib.files import write_text
from ocrrlib.files import data_folder
from ocrrlib.stream import EVERY

PUBLISHED_HERE = "published here"
_NUMBERS = re.compile(r"\[\s+([^][{}]*?)\s+\]")  # a list with nothing in it that has parts


def text_of(card):
    """A card as JSON: keys sorted, lists of numbers on one line each."""
    text = json.dumps(card, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return _NUMBERS.sub(lambda match: f"[{' '.join(match[1].split())}]", text) + "\n"


def write_card(card, path):
    """Write a card; the same card gives the same bytes.

    Raises
    ------
    InputError
        If it is no card, or the file cannot be written.
    """
    check(card)
    write_text(path, text_of(card))


def read_card(path):
    """Read a card and check it.

    Raises
    ------
    InputError
        If the file is missing or no card; the message names the file and the place in it.
    """
    try:
        card = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_no_number)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): give a card's file") from error
    except ValueError as error:  # not UTF-8, or not JSON
        raise InputError(f"{path} is not a card: {error}") from error
    check(card, path)
    return card


def _no_number(name):
    raise ValueError(f"{name} is not a number in JSON")


def read_cards(folder):
    """All cards of a folder, in the order of their file names, as a dict from path to card.

    Raises
    ------
    InputError
        If one of them cannot be read.
    """
    return {path: read_card(path) for path in sorted(Path(folder).glob("*.json"))}


@functools.cache
def published_cards():
    """Cards of all published systems, as a tuple in the order of their file names; not to be changed."""
    return tuple(read_cards(data_folder() / "results/cards").values())


def markdown(card):
    """A card for readers, as Markdown."""
    system, made_with = card["system"], card["made_with"]
    lines = [f"# {system['name']}", "", f"Source: {card.get('source', PUBLISHED_HERE)}", ""]
    lines += [f"- {name}: `{json.dumps(system[name])}`" for name in sorted(system) if name != "name"]
    lines += [f"- {name}: `{json.dumps(made_with[name])}`" for name in sorted(made_with)]
    for cell in card["cells"]:
        data, encoder = cell["dataset"], cell["encoder"]
        on = tested(cell["cap"], cell.get("every", EVERY))
        lines += ["", f"## {data['name']}, {cell['policy']}, {encoder['name']}", ""]
        lines += [f"- dataset: `{data['fingerprint']}`", f"- encoder: `{encoder['revision']}`"]
        lines += [f"- {cell['held_out']} classes held out, {on}, draw `{cell['draw']}`"]
        lines += [f"- {name}: `{json.dumps(data[name])}`" for name in ("sources", "columns", "split") if name in data]
        lines += [f"- seeds: {', '.join(map(str, cell['seeds']))}"]
        command = repeat(card, cell)
        lines += ([f"- Repeat: `{command}`"] if command else []) + [""]
        lines += ["| metric | mean | SD | 95 % t interval |", "|:--|--:|--:|:--|"]
        for name in METRICS:
            mean, sd, low, high = (cell["summary"][name][part] for part in SPREAD)
            digits = 1 if name == "corrections" else 4
            spreads = ("", "") if sd is None else (f"{sd:.{digits}f}", f"{low:.{digits}f} to {high:.{digits}f}")
            lines.append(f"| {name} | {mean:.{digits}f} | {spreads[0]} | {spreads[1]} |")
    return "\n".join(lines) + "\n"
