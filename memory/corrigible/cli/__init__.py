"""``corrigible`` on the command line.

Exit status: 0; 1 for a broken memory; 2 for input that cannot be used; 3 for another error.
"""

import sys
import traceback
from typing import Annotated

import typer

from corrigible import __version__
from corrigible.cli.acts import acting
from corrigible.cli.asking import asking
from corrigible.cli.changing import changing
from corrigible.cli.mcp import answering
from corrigible.cli.serving import serving
from corrigible.cli.trust import trust
from ocrr.data.options import PLAIN
from ocrrlib.escapes import visible, warnings_in_one_line
from ocrrlib.files import InputError

app = typer.Typer(**PLAIN)
for commands in (changing, acting, asking, trust, serving, answering):
    app.add_typer(commands)


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"corrigible {__version__}")
        raise typer.Exit


@app.callback()
def corrigible(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_tell_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """A correction memory: learn, ask, correct, verify."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command, by default that of the command line.

    Input that cannot be used, or a warning, is one line on stderr.
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
