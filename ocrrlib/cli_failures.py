"""What is said where somebody's own module or system raises an error; by ``ocrr`` one line, the rest on request."""

import sys
import traceback
from contextlib import contextmanager

from ocrrlib.errors import InputError
from ocrrlib.identity import is_library

FAILED = 3  # exit status
VARIABLE = "OCRR_TRACEBACK"


def told(error):
    """An error in one line: what it is, where in code of one's own it was raised, and while what was done."""
    message = " ".join(str(error).split())
    what = type(error).__name__ + (f": {message}" if message else "")
    place = place_of(error)
    return "; ".join([what + (f" ({place})" if place else ""), *getattr(error, "__notes__", ())])


def place_of(error):
    """File and line of the innermost frame that is neither a library's nor ours; nothing where there is none."""
    own = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not is_library(name := frame.f_globals.get("__name__", "")) and name.partition(".")[0] != "ocrrlib"
    ]
    return f"{own[-1][0]}, line {own[-1][1]}" if own else ""


@contextmanager
def shown(wanted):
    """Print the traceback of what is raised here on stderr, if that is wanted."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if wanted:
            traceback.print_exc()
        else:
            error.add_note("--traceback shows where")
        raise


@contextmanager
def noted(what):
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


def end(error):
    """Say an error on stderr, and end with the status that stands for it."""
    print(f"error: {told(error)}", file=sys.stderr)
    sys.exit(FAILED)
