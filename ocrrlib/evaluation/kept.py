"""Seeds of an evaluation that are kept in files as soon as they are done, and taken from there when it goes on."""

import json
from pathlib import Path

import pandas as pd

from ocrrlib import cards
from ocrrlib.errors import InputError
from ocrrlib.evaluation.outcome import Evaluation
from ocrrlib.files import write_text
from ocrrlib.stream import EVERY

SHARES = ("novel_acc", "original_acc")  # read by Python, which gives back each number as it was
_SAID = {"fingerprint": "data", "dataset": "data", "revision": "encoder", "made_with": "version of the code"}
_OF_DATA = ("sources", "split", "columns")


def files_of(path):
    """Where an evaluation's curve and card are kept, from their name without an ending."""
    return Path(f"{path}.csv"), Path(f"{path}.json")


def write_kept(evaluation, path):
    """Keep an evaluation: its curve as CSV, its card as JSON.

    Raises
    ------
    InputError
        If it can have no card, or a file cannot be written.
    """
    curve, card = files_of(path)
    made = evaluation.card()
    write_text(curve, evaluation.curve.to_csv(index=False))
    cards.write_card(made, card)


def checkpoints_kept(path, names, about):
    """The checkpoints of each seed of the evaluation that ``write_kept`` wrote; none where there is none.

    Parameters
    ----------
    path : path
        Name of its files, without an ending.
    names, about : dict
        Dataset, encoder, policy and system of the evaluation that goes on, and its ``about``: the same must have
        made what is kept.

    Returns
    -------
    dict of int to list of dict

    Raises
    ------
    InputError
        If a file is missing or damaged, or something else made them.
    """
    curve, card = files_of(path)
    if not (curve.exists() or card.exists()):
        return {}
    made = cards.read_card(card)
    try:
        frame = pd.read_csv(curve, converters=dict.fromkeys(SHARES, float), keep_default_na=False)
        frame = frame[frame["seed"].isin(made["cells"][0]["seeds"])]  # a stop may come when only the curve is written
        kept, first = Evaluation(frame, _about(made)), frame.iloc[0][list(names)].to_dict()
        fits = json.loads(json.dumps(kept.card()["cells"])) == made["cells"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{curve} is missing or damaged ({type(error).__name__}): {_way_out(path)}") from error
    if not fits:
        raise InputError(f"{curve} and {card} are not of the same seeds: {_way_out(path)}")
    own, its = ({**named, **json.loads(json.dumps(said))} for named, said in ((names, about), (first, kept.about)))
    if other := {_SAID.get(name, name) for name in own if own[name] != its[name]}:
        raise InputError(
            f"{card} was made with another {' and '.join(sorted(other))}, so it cannot go on: {_way_out(path)}"
        )
    return {seed: rows.drop(columns=[*names, "seed"]).to_dict("records") for seed, rows in frame.groupby("seed")}


def _way_out(path):
    curve, card = files_of(path)
    return f"remove {curve} and {card.name}, or choose another place"


def _about(card):
    """What ``Evaluation.about`` was when its card was made."""
    (cell,) = card["cells"]
    data = cell["dataset"]
    return {
        "system": {name: value for name, value in card["system"].items() if name != "given"},
        "made_with": card["made_with"],
        "fingerprint": data["fingerprint"],
        "revision": cell["encoder"]["revision"],
        "every": cell.get("every", EVERY),
        "data": {name: data[name] for name in _OF_DATA if name in data},
    } | {name: cell[name] for name in ("held_out", "draw", "cap")}
