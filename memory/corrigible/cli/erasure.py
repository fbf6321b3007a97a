"""``corrigible forget``: erase entries."""

from typing import Annotated

import typer

from corrigible.cli.opening import File, Name, opened
from ocrr.data.options import PLAIN
from ocrrlib.files import InputError

erasure = typer.Typer(**PLAIN)


@erasure.command("forget")
def memory_forget(
    file: File,
    entries: Annotated[list[int] | None, typer.Argument(help="Entries to erase.")] = None,
    author: Annotated[str | None, typer.Option(help="Erase all that this author wrote.")] = None,
    like: Annotated[
        str | None, typer.Option(help="Erase all with this part in a text or a note, in any case.")
    ] = None,
    erased_by: Annotated[str, typer.Option(help="Who erases.")] = "",
    by: Annotated[str, typer.Option(help="The same, with ENTRIES only.")] = "",
    reason: Annotated[str, typer.Option(help="Why; it stays: name nobody.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what it would be.")] = False,
    name: Name = None,
):
    """Erase content and author of entries; all proofs still hold."""
    from ocrrlib.escapes import visible

    chosen = author is not None or like is not None
    if chosen == bool(entries):
        raise InputError("it is not clear what to forget: give entries, or --author or --like")
    if chosen and by:  # `entries --by` lists the entries of an author
        raise InputError("--by would be who erases: give --author, or --erased-by")
    if by and erased_by:
        raise InputError("there are two who erase: give --by or --erased-by")
    with opened(file) as memory:
        if dry_run:
            _list(memory, entries, author, like)
            return
        if chosen:
            erased = memory.forget_all(author=author, like=like, erased_by=erased_by, reason=reason)
        else:
            erased = memory.forget(entries, by or erased_by, reason)
        if not erased:
            typer.echo(visible(f"{file} has {_none(author, like)}: nothing was erased"), err=True)
            return
        for entry in erased:
            typer.echo(f"entry {entry} erased: entry {memory.told_by(entry)} tells so")
        if memory.unreached:
            typer.echo(f"erased in {file}, but not in {memory.unreached}", err=True)


def _none(author, like):
    """Tell that no entry was found, and by what they were looked for."""
    said = "no entry"
    if author is not None:
        said += f" by {author!r} (names are compared as written)"
    if like is not None:
        said += f" with {like!r} in a text or a note"
    return said


def _list(memory, places, author, like):
    """List what would be erased."""
    from ocrrlib.escapes import visible

    if places:
        found = [memory.entry(place) for place in dict.fromkeys(places)]
        found = [one for one in found if one.get("x")]  # others are erased, or have no content
        lines = [f"entry {one['place']}, {one.get('label')}: {one.get('text')}" for one in found]
    else:
        lines = []
        for entry in memory.would_forget(author=author, like=like):
            what = entry.label or "an act"
            lines.append(f"entry {entry.place}, {entry.when:%Y-%m-%d}, {what}: {entry.text}")
    for line in [*lines, f"would be erased: {len(lines)}"]:
        typer.echo(visible(line))
