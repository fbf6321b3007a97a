"""Validate undo, replace, rename, merge and retire."""

from collections.abc import Container, Sequence

from corrigible.ledger.meaning import Meaning
from ocrrlib.files import InputError


def undo(entry: dict, meaning: Meaning) -> dict:
    """The act that undoes an entry, by its fields.

    Raises ``InputError`` if it was erased, unless it is an act, tells of an erasure, or was undone
    before.
    """
    place = entry["place"]
    if "salt" not in entry and place not in meaning.alone:
        raise InputError(f"entry {place} was erased, for good: correct its text anew")
    if entry.get("x") == "" and "text" in entry:
        raise InputError(f"entry {place} tells of an erasure, which is for good")
    if place in meaning.undone_by:
        by = meaning.undone_by[place]
        raise InputError(f"entry {place} was undone by entry {by}: undo that one, if you want it")
    return {"undo": place}


def replace(entry: dict, meaning: Meaning) -> dict:
    """The act of an entry that stands for another one, by the latter's fields.

    Raises ``InputError`` if that one has no label, or does not count any more.
    """
    place = entry["place"]
    if not entry.get("x"):
        raise InputError(f"entry {place} has no label that could be replaced")
    for what, by in (("replaced", meaning.replaced_by), ("undone", meaning.undone_by)):
        if place in by:
            raise InputError(f"entry {place} was {what} by entry {by[place]}: it does not count")
    return {"replaces": place}


def rename(old: str, new: str, labels: Container[str], meaning: Meaning) -> dict:
    """The act that gives a label, one of ``labels``, another name.

    Raises ``InputError`` if there is no such label, or the new one is there.
    """
    _check_known([old], labels)
    if new in labels or new in meaning.retired_by:
        raise InputError(f"label {new!r} is there already: merge {old!r} into it, or undo that")
    return {"rename": [old, new]}


def merge(old: Sequence[str], into: str, labels: Container[str], meaning: Meaning) -> dict:
    """The act that makes one label of several.

    Raises ``InputError`` if there are none, one of them is no label, or the result is retired.
    """
    if not [label for label in old if label != into]:
        raise InputError(f"there is nothing to merge into {into!r}: give other labels")
    _check_known(old, labels)
    check_not_retired([into], meaning)
    return {"merge": [list(dict.fromkeys(old)), into]}


def retire(label: str, labels: Container[str], meaning: Meaning) -> dict:
    """The act that lets a label be answered no more.

    Raises ``InputError`` if there is no such label, or it is retired.
    """
    check_not_retired([label], meaning)
    _check_known([label], labels)
    return {"retire": label}


def check_not_retired(labels: Sequence[str], meaning: Meaning) -> None:
    """Raise ``InputError`` if a label is retired."""
    for label in labels:
        if label in meaning.retired_by:
            place = meaning.retired_by[label]
            raise InputError(
                f"label {label!r} was retired by entry {place}: undo that, or give another label"
            )


def _check_known(labels, known):
    for label in labels:
        if label not in known:
            raise InputError(f"there is no label {label!r} by now: give one that is answered")
