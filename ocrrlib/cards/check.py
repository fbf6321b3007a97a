"""What a result card must be: as its schema says, and with numbers that follow from each other."""

import functools
import json
import math
from pathlib import Path

import jsonschema

from ocrrlib.cards.cells import place_of, spread
from ocrrlib.errors import InputError

VERSION = 1
SCHEMA = Path(__file__).with_name("schema.json")


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
