"""Result cards: one system on one or more cells, as JSON that says what repeats it."""

import functools
import json
import math
import re
from pathlib import Path

import jsonschema
import pandas as pd

from ocrrlib import __version__
from ocrrlib.anytime import measure
from ocrrlib.embeddings import load
from ocrrlib.errors import InputError
from ocrrlib.experiments import EXPERIMENTS
from ocrrlib.files import write_text
from ocrrlib.home import data_folder
from ocrrlib.provenance import digest
from ocrrlib.student import interval
from ocrrlib.systems import SYSTEMS

VERSION = 1
SCHEMA = Path(__file__).with_name("card.schema.json")
PUBLISHED_HERE = "published here"
HELD_OUT = 10  # classes, in all published cells
DIGITS = 6
# What a run comes to: names in cards, columns of ``measure``.
METRICS = {
    "novel": "novel",
    "original": "original",
    "anytime novel": "novel_over_steps",
    "anytime original": "original_over_steps",
    "corrections": "corrections",
}
_SPREAD = ("mean", "sd", "low", "high")
_NUMBERS = re.compile(r"\[\s+([^][{}]*?)\s+\]")  # a list with nothing in it that has parts


def spread(values):
    """Mean, standard deviation and 95 % t interval as cards have them: rounded, None where one seed gives none."""
    found = interval(values)
    return {name: None if math.isnan(found[name]) else round(found[name], DIGITS) for name in _SPREAD}


def cell_of(runs, fingerprint, revision, held_out, draw, cap):
    """A cell of a card from the runs of one system on it.

    Parameters
    ----------
    runs : DataFrame
        One row per seed, as ``measure`` makes them.
    fingerprint, revision : str
        Of the dataset and of the encoder.
    held_out, draw, cap
        How the scenarios were drawn, see ``make_scenario``.
    """
    first = runs.iloc[0]
    finals = {name: [round(value, DIGITS) for value in runs[column].tolist()] for name, column in METRICS.items()}
    return {
        "dataset": {"name": first["dataset"], "fingerprint": fingerprint},
        "encoder": {"name": first["encoder"], "revision": revision},
        "policy": first["policy"],
        "held_out": held_out,
        "draw": draw,
        "cap": cap,
        "seeds": runs["seed"].tolist(),
        "finals": finals,
        "summary": {name: spread(values) for name, values in finals.items()},
    }


def cards_of(results, provenance, datasets, experiment="beyond"):
    """One card for each system of published results, over all its cells.

    Parameters
    ----------
    results, provenance
        As ``ocrrlib.results.read`` returns them.
    datasets : dict of str to Embedded
        The datasets by name.
    experiment : str
        Whose results they are.

    Raises
    ------
    InputError
        If the results are of other data than these.
    """
    for name, fingerprint in provenance["data"].items():
        if datasets[name].fingerprint != fingerprint:
            raise InputError(f"the results are of another {name} than the one given: give the data they were made of")
    plan, measured = EXPERIMENTS[experiment], measure(results)
    made_with = {
        "ocrrlib": __version__,
        "libraries": provenance["libraries"],
        "code": digest(provenance["code"]),
    }
    cards = []
    for system, own in measured.groupby("system", sort=False):
        entry = SYSTEMS[system]
        about = {"name": system, "registry": system, "parameters": entry.params}
        about |= {"module": f"ocrrlib.systems.{entry.module}", "class": entry.cls}
        cells = [
            cell_of(
                runs,
                provenance["data"][dataset],
                datasets[dataset].origin.get("revision"),
                HELD_OUT,
                plan.draw,
                plan.cap,
            )
            for (dataset, _), runs in own.groupby(["dataset", "policy"], sort=False)
        ]
        cards.append({"version": VERSION, "system": about, "made_with": made_with, "cells": cells})
    return cards


def publish_cards(folder):
    """Write a card for each system of the published comparison into ``folder``; cards of others stay."""
    from ocrrlib import results  # reads parquet, which the core cannot

    frame, provenance = results.read(data_folder() / "results/beyond.parquet")
    for card in cards_of(frame, provenance, {name: load(name) for name in provenance["data"]}):
        write_card(card, Path(folder) / f"{card['system']['name']}.json")


@functools.cache
def _validator():
    return jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def check(card, origin="the card"):
    """Refuse what is no card.

    Raises
    ------
    InputError
        If the card's format is unknown, it breaks the schema, or its numbers do not fit together; the message
        has ``origin`` and the place in the card.
    """
    if isinstance(card, dict) and card.get("version", VERSION) != VERSION:
        raise InputError(
            f"{origin}: version: {card['version']!r} is not a version of cards known here: "
            f"give one of version {VERSION}, or get a newer ocrrlib"
        )
    error = jsonschema.exceptions.best_match(_validator().iter_errors(card))
    if error:
        _refuse(origin, error.absolute_path, error.message)
    for at, cell in enumerate(card["cells"]):
        for name, values in cell["finals"].items():
            if len(values) != len(cell["seeds"]):
                _refuse(origin, ["cells", at, "finals", name], f"{len(values)} values for {len(cell['seeds'])} seeds")
            wanted = spread(values)
            for part, value in cell["summary"][name].items():
                if (value is None) != (wanted[part] is None) or not math.isclose(
                    value or 0, wanted[part] or 0, rel_tol=1e-5, abs_tol=1e-5
                ):
                    place = ["cells", at, "summary", name, part]
                    _refuse(origin, place, f"{value} does not follow from finals, which give {wanted[part]}")
    places = [place_of(cell) for cell in card["cells"]]
    for at, place in enumerate(places):
        if place in places[:at]:
            _refuse(origin, ["cells", at], f"is the same cell as cells/{places.index(place)}")


def _refuse(origin, place, why):
    where = "/".join(map(str, place)) or "the whole"
    why = why if len(why) < 200 else f"{why[:90]} … {why[-90:]}"
    raise InputError(f"{origin}: {where}: {why}".replace("\n", " "))


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


def place_of(cell):
    """What makes two cells the same: dataset, encoder, policy, and how scenarios were drawn."""
    data = cell["dataset"]
    names = data["name"], data["fingerprint"], cell["encoder"]["name"], cell["policy"]
    return *names, cell["held_out"], cell["draw"], cell["cap"]


def standings(cards, place, seeds=None):
    """All systems with a card of a cell, best first by anytime novel accuracy.

    Parameters
    ----------
    cards : sequence of dict
        Cards, checked.
    place : tuple
        A cell's ``place_of``.
    seeds : sequence of int, optional
        Compare over those of these seeds that a card has, where it has any; by default over all it has.

    Returns
    -------
    DataFrame
        One row per card: ``system``, ``source``, ``seeds`` (how many), then for each metric its mean under its
        name, and ``<metric> low`` and ``<metric> high``, NaN where one seed gives no interval.
    """
    rows = []
    for card in cards:
        for cell in (cell for cell in card["cells"] if place_of(cell) == place):
            shared = [at for at, seed in enumerate(cell["seeds"]) if seeds is None or seed in seeds]
            chosen = shared or range(len(cell["seeds"]))
            row = {"system": card["system"]["name"], "source": card.get("source", PUBLISHED_HERE)}
            row["seeds"] = len(chosen)
            for name in METRICS:
                found = interval([cell["finals"][name][at] for at in chosen])
                row |= {name: found["mean"], f"{name} low": found["low"], f"{name} high": found["high"]}
            rows.append(row)
    columns = ["system", "source", "seeds", *(f"{name}{end}" for name in METRICS for end in ("", " low", " high"))]
    table = pd.DataFrame(rows, columns=columns)
    return table.sort_values(["anytime novel", "system"], ascending=[False, True], kind="stable", ignore_index=True)


def markdown(card):
    """A card for readers, as Markdown."""
    system, made_with = card["system"], card["made_with"]
    lines = [f"# {system['name']}", "", f"Source: {card.get('source', PUBLISHED_HERE)}", ""]
    lines += [f"- {name}: `{json.dumps(system[name])}`" for name in sorted(system) if name != "name"]
    lines += [f"- {name}: `{json.dumps(made_with[name])}`" for name in sorted(made_with)]
    for cell in card["cells"]:
        data, encoder = cell["dataset"], cell["encoder"]
        tested = "all test rows" if cell["cap"] is None else f"at most {cell['cap']} test rows per axis"
        lines += ["", f"## {data['name']}, {cell['policy']}, {encoder['name']}", ""]
        lines += [f"- dataset: `{data['fingerprint']}`", f"- encoder: `{encoder['revision']}`"]
        lines += [f"- {cell['held_out']} classes held out, {tested}, draw `{cell['draw']}`"]
        lines += [f"- seeds: {', '.join(map(str, cell['seeds']))}", ""]
        lines += ["| metric | mean | SD | 95 % t interval |", "|:--|--:|--:|:--|"]
        for name in METRICS:
            mean, sd, low, high = (cell["summary"][name][part] for part in _SPREAD)
            digits = 1 if name == "corrections" else 4
            spreads = ("", "") if sd is None else (f"{sd:.{digits}f}", f"{low:.{digits}f} to {high:.{digits}f}")
            lines.append(f"| {name} | {mean:.{digits}f} | {spreads[0]} | {spreads[1]} |")
    return "\n".join(lines) + "\n"
