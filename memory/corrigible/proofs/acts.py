"""Acts: how an entry changes others, and notes about itself, as JSON in its field ``act``.

An entry with a vector may have ``about`` and ``replaces``; one without does one of the other four::

    about      {...}                    whatever the application notes: a ticket's number, a channel
    replaces   place                    of the entry in whose stead this one counts
    undo       place                    of the entry that counts no more, or of the act that is off
    rename     [label, new label]
    merge      [[label, ...], into]     ``into`` may be one of them
    retire     label

An entry that tells of an erasure repeats what the one that it erased did to others: what was put
right does not come back, and a label keeps its name. It may have ``about``, too: the reason. The
text is canonical: keys sorted, no blanks, ASCII. ``corrigible.ledger.meaning`` says what acts mean.
"""

import json
from collections.abc import Mapping
from typing import Any

from ocrrlib.files import InputError

ALONE = ("undo", "rename", "merge", "retire")
LONGEST_ABOUT = 4096  # bytes of JSON
DEEPEST_ABOUT = 8  # objects and lists in one another: any reader can parse it, however it is called


def act_text(act: Mapping) -> str | None:
    """Canonical JSON of an act; None if it is empty.

    Raises ``TypeError`` or ``ValueError`` if it is no JSON, or a word in it no Unicode text.
    """
    if not act:
        return None
    json.dumps(act, ensure_ascii=False).encode()  # refuses half a character
    return json.dumps(act, sort_keys=True, separators=(",", ":"), allow_nan=False)


def read_act(text: str | None) -> dict:
    """The act in a field of a verified entry; empty if there is none."""
    return json.loads(text) if text else {}


def done_to_others(act: Mapping) -> dict:
    """What an act does to other entries, without what its own says about itself."""
    return {name: value for name, value in act.items() if name != "about"}


def checked_about(about: Any) -> dict:
    """An application's note as it is kept; empty if there is none.

    Raises ``InputError`` if it is no small JSON object.
    """
    if about is None:
        return {}
    way_out = f"give a JSON object of at most {LONGEST_ABOUT} bytes, {DEEPEST_ABOUT} levels deep"
    try:
        text = act_text({"about": about}) or ""
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"about cannot be kept ({error}): {way_out}") from error
    kept = json.loads(text)["about"]
    if not _is_right("about", kept) or len(text) > LONGEST_ABOUT:
        raise InputError(f"about {text:.60} cannot be kept: {way_out}")
    return {"about": kept} if kept else {}


def is_act(text: Any, x: bytes, words: str | None) -> bool:
    """Whether a text is the act of an entry with vector ``x`` and text ``words``, as it is written.

    Another form of the same JSON is none, so that no two texts mean one thing.
    """
    try:
        act = json.loads(text)
        canonical = act_text(act) == text
    except (TypeError, ValueError, RecursionError, AttributeError):
        return False
    if not canonical or not isinstance(act, dict):
        return False
    if x:
        known = {"about", "replaces"}
    elif words is not None:  # it tells of an erasure
        known = {"about", "replaces", *ALONE}
    else:
        known = {*ALONE}
    if not act.keys() <= known or len(done_to_others(act)) > 1:
        return False
    return all(_is_right(name, value) for name, value in act.items())


def _is_right(name, value):
    """Whether a value is one of its kind."""
    if name == "about":
        return isinstance(value, dict) and _is_shallow(value, DEEPEST_ABOUT)
    if name in ("replaces", "undo"):
        return type(value) is int and value >= 0
    if name == "retire":
        return isinstance(value, str)
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[1], str):
        return False
    labels = value[0] if name == "merge" else [value[0]]
    return isinstance(labels, list) and bool(labels) and all(isinstance(one, str) for one in labels)


def _is_shallow(value, levels):
    """Whether objects and lists in a value stand in one another no deeper than some levels."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return True
    return levels > 0 and all(_is_shallow(one, levels - 1) for one in value)
