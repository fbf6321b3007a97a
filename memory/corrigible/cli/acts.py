"""``corrigible undo``, ``rename``, ``merge``, ``retire``, ``entries`` and ``history``."""

import json
from typing import Annotated

import typer

from corrigible.cli.opening import Author, File, Name, opened
from ocrr.data.options import PLAIN

acts = typer.Typer(**PLAIN)


@acts.command("undo")
def memory_undo(file: File, entry: int, by: Author = "", name: Name = None):
    """Undo an entry: a correction, a rename, a merge, a retirement, or an undo."""
    with opened(file) as memory:
        typer.echo(f"entry {memory.undo(entry, by)} added to {file}: entry {entry} is undone")


@acts.command("rename")
def memory_rename(file: File, old: str, new: str, by: Author = "", name: Name = None):
    """Give a label another name."""
    with opened(file) as memory:
        typer.echo(f"entry {memory.rename(old, new, by)} added to {file}: {old} is now {new}")


@acts.command("merge")
def memory_merge(
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


@acts.command("retire")
def memory_retire(file: File, label: str, by: Author = "", name: Name = None):
    """Answer a label no more, and refuse corrections with it."""
    with opened(file) as memory:
        typer.echo(f"entry {memory.retire(label, by)} added to {file}: {label} is retired")


@acts.command("entries")
def memory_entries(
    file: File,
    label: Annotated[str | None, typer.Option(help="That they count as.")] = None,
    by: Annotated[str | None, typer.Option(help="Their author.")] = None,
    since: Annotated[str | None, typer.Option(help="Time, as 2026-01-31T08:00, UTC.")] = None,
    like: Annotated[str | None, typer.Option(help="A part of their text.")] = None,
    name: Name = None,
):
    """List the entries that count."""
    from ocrrlib.escapes import visible

    with opened(file) as memory:
        found = memory.entries(label, by, since, like)
        if not found:
            typer.echo(f"{file} has no such entry that counts", err=True)
        for entry in found:
            source = f"entry {entry.place}, {entry.when:%Y-%m-%d}, {entry.label}: {entry.text}"
            about = f" {json.dumps(entry.about)}" if entry.about else ""
            typer.echo(visible(source + about))


@acts.command("history")
def memory_history(file: File, entry: int, name: Name = None):
    """Tell what became of an entry."""
    from ocrrlib.escapes import visible

    with opened(file) as memory:
        found = memory.history(entry)
        for event in found.events:
            author = f" by {event.author}" if event.author else ""
            typer.echo(visible(f"entry {event.place}, {event.when:%Y-%m-%d}{author}: {event.what}"))
        counts = "does not count" if found.label is None else f"counts as {found.label}"
        typer.echo(visible(f"entry {entry} {counts}"))
