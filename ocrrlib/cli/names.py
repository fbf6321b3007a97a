"""What names given to a command stand for: systems of the registry or of one's own modules."""

import importlib
import sys
from pathlib import Path

from ocrrlib.errors import InputError, pick
from ocrrlib.evaluation.own_code import noting
from ocrrlib.systems import SYSTEMS


def system_of(name):
    """A registry name as it is; ``module:name`` as the object of that name in a module of the current folder.

    Raises
    ------
    InputError
        If there is none.
    Exception
        Whatever the module raises, with a note that says so.
    """
    module, _, attribute = name.partition(":")
    if not attribute:
        pick("system", name, SYSTEMS)
        return name
    way_out = "give module:name, with the module in this folder"
    sys.path.insert(0, str(Path.cwd()))
    try:
        with noting(f"{module} was imported"):
            try:
                found = importlib.import_module(module)
            except ImportError as error:
                raise InputError(f"cannot import {name} ({error}): {way_out}") from error
    finally:
        sys.path.pop(0)
    if not hasattr(found, attribute):
        raise InputError(f"cannot import {name}: {found!r} has no {attribute!r}: {way_out}")
    return getattr(found, attribute)
