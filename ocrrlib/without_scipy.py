"""Where SciPy is not installed, policies are there all the same; only mistaking a class for its nearest needs it."""

import importlib
import sys
import types

from ocrrlib.errors import InputError

_WANTED = "scipy.spatial.distance"


def _cdist(*_):
    raise InputError("which class is nearest needs SciPy: run `pip install 'ocrrlib[statistics]'`")


def import_policies():
    """Import ``ocrrlib.policies`` with a stand-in for the one function that it imports from SciPy.

    Nobody else sees the stand-in: to all other libraries SciPy stays what it is, not installed.
    """
    stand_in = types.ModuleType(_WANTED)
    stand_in.cdist = _cdist
    sys.modules[_WANTED] = stand_in
    try:
        importlib.import_module("ocrrlib.policies")
    finally:
        del sys.modules[_WANTED]
