"""``corrigible undo``, ``relabel``, ``rename`` and others: what earlier entries mean by now."""

import re
from typing import Annotated

import typer

from corrigible.cli.opening import Author, File, Name, opened
from ocrr.data.options import PLAIN
from ocrrlib.escapes import visible
from ocrrlib.files import InputError

acting = typer.Typer(**PLAIN)


@acting.command()
def undo(
    file: File,
    entries: Annotated[list[str], typer.Argument(help="Entries; 17-56 are forty.")],
    by: Author = "",
    name: Name = None,
):
    """Undo entries: a correction, a rename, a merge, a retirement, or an undo; all, or none."""
    with opened(file) as memory:
        places = _places(entries, len(memory))
        for place, entry in zip(memory.undo(places, by), places):
            typer.echo(f"entry {place} added to {file}: entry {entry} is undone")


def _places(words, end):
    """Places of entries, each once, from numbers and ranges, as 17-56, below an end."""
    places = []
    for word in words:
        found = re.fullmatch("([0-9]{1,9})(?:-([0-9]{1,9}))?", word)
        some = range(int(found[1]), int(found[2] or found[1]) + 1) if found else range(0)
        if not some:
            raise InputError(f"{word!r} is no entry: give a number, or several as 17-56")
        if some[-1] >= end:
            raise InputError(f"there is no entry {some[-1]}: the last one is {end - 1}")
        places += some
    return [*dict.fromkeys(places)]


@acting.command()
def relabel(
    file: File,
    to: Annotated[str, typer.Option(help="The label that they get.")],
    label: Annotated[str | None, typer.Option(help="That they count as.")] = None,
    author: Annotated[str | None, typer.Option(help="Who wrote them.")] = None,
    since: Annotated[str | None, typer.Option(help="Time, as 2026-01-31T08:00, UTC.")] = None,
    like: Annotated[str | None, typer.Option(help="A part of their text.")] = None,
    by: Author = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what it would be.")] = False,
    name: Name = None,
):
    """Give all entries that count and fit another label; one undo takes it back."""
    which = dict(label=label, author=author, since=since, like=like)
    with opened(file) as memory:
        if dry_run:
            found = memory.would_relabel(to, **which)
            for entry in found:
                told = f"entry {entry.place}, {entry.when:%Y-%m-%d}, {entry.label}: {entry.text}"
                typer.echo(visible(told))
            typer.echo(f"would be relabelled: {len(found)}")
            return
        places = memory.relabel(to, **which, by=by)
    if not places:
        typer.echo(f"{file} has no such entry of another label: nothing was relabelled", err=True)
        return
    told = f"{len(places)} entries of {file} are now {to}: undo {places[0]}-{places[-1]} if not"
    typer.echo(visible(told))


@acting.command()
def rename(file: File, old: str, new: str, by: Author = "", name: Name = None):
    """Give a label another name."""
    with opened(file) as memory:
        typer.echo(f"entry {memory.rename(old, new, by)} added to {file}: {old} is now {new}")


@acting.command()
def merge(
    file: File,
    labels: Annotated[list[str], typer.Argument(help="Labels that become one.")],
    into: Annotated[str, typer.Option(help="The label that they become.")],
    by: Author = "",
    name: Name = None,
):
    """Make one label of several."""
    with opened(file) as memory:
        place = memory.merge(labels, into, by)
        typer.echo(f"entry {place} added to {file}: {', '.join(labels)} are now {into}")


@acting.command()
def retire(file: File, label: str, by: Author = "", name: Name = None):
    """Answer a label no more, and refuse corrections with it."""
    with opened(file) as memory:
        typer.echo(f"entry {memory.retire(label, by)} added to {file}: {label} is retired")
