"""``corrigible review``, ``suspects`` and ``preview``."""

from pathlib import Path
from typing import Annotated

import typer

from corrigible.cli.opening import File, Name, opened, text_of
from ocrr.data.options import PLAIN
from ocrrlib.files import InputError

reviews = typer.Typer(**PLAIN)

Lines = Annotated[Path, typer.Argument(help="A file with a text a line.")]
Number = Annotated[int, typer.Option("--n", min=1, help="How many at most.")]
Reader = Annotated[str, typer.Option(help="The system that answers.")]


def _lines(file):
    lines = [line.strip() for line in text_of(file).splitlines() if line.strip()]
    if not lines:
        raise InputError(f"{file} has no text: give one a line")
    return lines


@reviews.command("review")
def memory_review(
    file: File, texts: Lines, n: Number = 20, reader: Reader = "substrate", name: Name = None
):
    """List the texts that are worth a human's time, least sure first."""
    from ocrrlib.escapes import visible

    lines = _lines(texts)
    with opened(file, reader) as memory:
        for one in memory.review(lines, n):
            answer = one.answer
            typer.echo(visible(f"{answer.confidence:.2f} {answer.label}: {one.text}"))


@reviews.command("suspects")
def memory_suspects(file: File, n: Number = 20, name: Name = None):
    """List the entries that others contradict, those most surely wrong first."""
    from ocrrlib.escapes import visible

    with opened(file) as memory:
        for one in memory.suspects(n):
            source = f"entry {one.place}, {one.label}: {one.text}"
            typer.echo(visible(f"{one.confidence:.2f} {one.instead}, not {source}"))


@reviews.command("preview")
def memory_preview(
    file: File,
    text: str,
    label: str,
    queries: Annotated[
        Path | None, typer.Option(help="A file with a text a line, to be asked as well.")
    ] = None,
    reader: Reader = "substrate",
    name: Name = None,
):
    """Tell which answers a correction would change; nothing is written."""
    from ocrrlib.escapes import visible

    asked = [] if queries is None else _lines(queries)
    with opened(file, reader) as memory:
        shown = memory.preview(text, label, asked)
        for change in [*shown.entries, *shown.queries]:
            what = f"line {change.row}" if change.place is None else f"entry {change.place}"
            names = f"{change.before} becomes {change.after}"
            typer.echo(visible(f"{what}, {names}: {change.text}"))
        typer.echo(f"{len(shown.entries)} entries and {len(shown.queries)} texts change")
