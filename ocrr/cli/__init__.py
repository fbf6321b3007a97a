"""``ocrr`` on the command line.

Exit status: 0; 2 for input that cannot be used; 3 for an error in code of your own.
"""

import sys
import traceback
from typing import Annotated

import typer

from ocrr.cli.benchmark import app
from ocrrlib import __version__
from ocrrlib.escapes import visible, warnings_in_one_line
from ocrrlib.files import InputError


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"ocrr {__version__}")
        raise typer.Exit


@app.callback()
def ocrr(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_tell_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """OCRR: how fast classifiers learn new classes from corrections, and what they forget."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command, by default that of the command line.

    Input that cannot be used, or a warning, is one line on stderr, an error in code of your own its
    traceback.
    """
    try:
        with warnings_in_one_line():
            app(arguments)
    except (InputError, OSError) as error:
        typer.echo("error: " + visible(" ".join(str(error).split())), err=True)
        sys.exit(2)
    except Exception:
        traceback.print_exc()
        sys.exit(3)
