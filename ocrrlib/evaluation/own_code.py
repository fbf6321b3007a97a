"""Errors in code of one's own, a module or a system: while what was done, and in which line."""

import sys
import traceback
from contextlib import contextmanager

from ocrrlib.errors import InputError


def is_library(module):
    """Whether the module of this name is Python's own or of an installed package."""
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return module != "__main__" and ("site-packages" in file or module.partition(".")[0] in sys.stdlib_module_names)


def line_of(error):
    """File and line of the innermost frame that is neither a library's nor ours; nothing where there is none."""
    own = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not is_library(name := frame.f_globals.get("__name__", "")) and name.partition(".")[0] != "ocrrlib"
    ]
    return f"{own[-1][0]}, line {own[-1][1]}" if own else ""


@contextmanager
def noting(what):
    """Note on what is raised here while what it happened; code that ends the program has failed as well."""
    try:
        yield
    except InputError:
        raise
    except SystemExit as error:
        found = RuntimeError(f"it ends the program with status {error.code}")
        found.add_note(f"while {what}")
        raise found.with_traceback(error.__traceback__) from error
    except Exception as error:
        error.add_note(f"while {what}")
        raise
