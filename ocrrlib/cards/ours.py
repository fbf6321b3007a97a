"""The result cards of all systems that are published here, made of the published results."""

from pathlib import Path

from ocrrlib import __version__
from ocrrlib.cards import write_card
from ocrrlib.cards.cells import HELD_OUT, cell_of
from ocrrlib.cards.check import VERSION
from ocrrlib.embeddings import load
from ocrrlib.errors import InputError
from ocrrlib.experiments import EXPERIMENTS
from ocrrlib.files import data_folder
from ocrrlib.provenance import digest
from ocrrlib.statistics.anytime import measure
from ocrrlib.systems import SYSTEMS


def cards_of(results, provenance, datasets):
    """One card for each system of the published comparison, over all its cells.

    Parameters
    ----------
    results, provenance
        As ``ocrrlib.results.read`` returns them.
    datasets : dict of str to Embedded
        The datasets by name.

    Raises
    ------
    InputError
        If the results are of other data than these.
    """
    for name, fingerprint in provenance["data"].items():
        if datasets[name].fingerprint != fingerprint:
            raise InputError(f"the results are of another {name} than the one given: give the data they were made of")
    plan, measured = EXPERIMENTS["beyond"], measure(results)
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
    """Write a card for each system of the published comparison into ``folder``; cards of others stay.

    Raises
    ------
    InputError
        If somebody else's card has the name of one of ours; then nothing is written.
    """
    from ocrrlib import results  # reads parquet, which the core cannot

    frame, provenance = results.read(data_folder() / "results/beyond.parquet")
    paths = {name: Path(folder) / f"{name}.json" for name in frame["system"].unique()}
    for path in paths.values():
        if path.exists() and '"source"' in path.read_text(encoding="utf-8", errors="replace"):  # ours have none
            raise InputError(
                f"{path} is somebody's card, and has the name of one that is published here: rename it, to "
                f"reader-{path.name} for instance, with the name of whose it is"
            )
    for card in cards_of(frame, provenance, {name: load(name) for name in provenance["data"]}):
        write_card(card, paths[card["system"]["name"]])
