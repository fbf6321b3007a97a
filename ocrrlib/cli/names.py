"""What names given to a command stand for: systems of the registry, encoders, or objects in modules of one's own."""

import importlib
import re
import sys
from pathlib import Path

from ocrrlib.errors import InputError, pick
from ocrrlib.evaluation.own_code import noting
from ocrrlib.systems import SYSTEMS

_OWN = re.compile(r"(.*\w):(\w+)")  # not a path with a drive
WAY_OUT = "give module:name, with the module in this folder"


def system_of(name):
    """A registry name as it is; ``module:name`` as the object of that name in a module of the current folder.

    Raises
    ------
    InputError
        If there is none.
    Exception
        Whatever the module raises, with a note that says so.
    """
    return _object(name) if ":" in name else pick("system", name, SYSTEMS) and name


def encoder_of(name):
    """A name of an encoder, or a folder's, as it is; ``module:name`` as ``system_of`` has it."""
    return _object(name) if _OWN.fullmatch(name) and not Path(name).exists() else name


def _object(name):
    module, _, attribute = name.partition(":")
    if "/" in module or "\\" in module or module.endswith(".py"):
        raise InputError(f"cannot import {name}: {module} is a path, and a module has a name: {WAY_OUT}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        with noting(f"{module} was imported"):
            try:
                found = importlib.import_module(module)
            except ImportError as error:
                raise InputError(f"cannot import {name} ({error}): {WAY_OUT}") from error
    finally:
        sys.path.pop(0)
    if not hasattr(found, attribute):
        raise InputError(f"cannot import {name}: {found!r} has no {attribute!r}: {WAY_OUT}")
    return getattr(found, attribute)
