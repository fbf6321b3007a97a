"""Errors and warnings on stderr: one line each, and on request where somebody's own module or system raised it."""

import sys
import traceback
import warnings
from collections import Counter
from contextlib import contextmanager

import typer

from ocrrlib.errors import InputError
from ocrrlib.evaluation.own_code import line_of

FAILED = 3  # exit status
VARIABLE = "OCRR_TRACEBACK"


def one_line(error):
    """An error in one line: what it is, where in code of one's own it was raised, and while what was done."""
    message = " ".join(str(error).split())
    what = type(error).__name__ + (f": {message}" if message else "")
    place = line_of(error)
    return "; ".join([what + (f" ({place})" if place else ""), *getattr(error, "__notes__", ())])


@contextmanager
def traceback_if(wanted):
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
def warnings_once():
    """Say each warning once, in one line on stderr; at the end, how often it came if that was more than once."""
    came = Counter()

    def say(message, *_, **__):
        line = " ".join(str(message).split())
        came[line] += 1
        if came[line] == 1:
            typer.echo(f"warning: {line}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = say
        try:
            yield
        finally:
            for line in (line for line in came if came[line] > 1):
                typer.echo(f"warning: {came[line]:,} times in all: {line}", err=True)


def exit_failed(error):
    """Say an error on stderr, and end with the status that stands for it."""
    print(f"error: {one_line(error)}", file=sys.stderr)
    sys.exit(FAILED)
