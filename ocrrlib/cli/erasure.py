"""``ocrr memory``: erasure, and receipts of it."""

from pathlib import Path
from typing import Annotated

import typer

from ocrrlib.cli.opening import File, Name, OptionalFile, opened, read_from
from ocrrlib.cli.options import PLAIN
from ocrrlib.cli.trust import Signers, print_text, signer_in
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
    reason: Annotated[str, typer.Option(help="Why, for the receipt: name nobody.")] = "",
    key: Signers = [],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what it would be.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Only print the receipt of ENTRIES erased before.")
    ] = False,
    name: Name = None,
):
    """Erase content and author of entries, and print a receipt; all proofs still hold."""
    from ocrrlib.escapes import visible
    from ocrrlib.memory import SIGNATURE

    chosen = author is not None or like is not None
    if chosen == bool(entries):
        raise InputError("it is not clear what to forget: give entries, or --author or --like")
    if chosen and by:  # `entries --by` lists the entries of an author
        raise InputError("--by would be who erases: give --author, or --erased-by")
    if by and erased_by:
        raise InputError("there are two who erase: give --by or --erased-by")
    if chosen and again:
        raise InputError("nothing is kept of what was chosen by: give the places of the entries")
    with opened(file) as memory:
        if dry_run:
            _list(memory, entries, author, like)
            return
        signers = [signer_in(one, SIGNATURE) for one in key]
        for signer in signers:
            memory.head().signed(signer)  # refuses a key that cannot sign before it is needed
        if chosen:
            entries = memory.forget_all(author=author, like=like, erased_by=erased_by)
        elif not again:
            entries = memory.forget(entries, by or erased_by)
        if not entries:
            typer.echo(visible(f"{file} has {_none(author, like)}: nothing was erased"), err=True)
            return
        receipt = memory.receipt(entries, reason)
        for signer in signers:
            receipt = receipt.signed(signer)
        print_text(str(receipt))
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


@erasure.command("receipt")
def memory_receipt(
    receipt: Annotated[Path, typer.Argument(help="What `forget` printed.")],
    file: OptionalFile = None,
    key: Annotated[list[Path], typer.Option(help="Public key that must have signed it.")] = [],
    name: Name = None,
):
    """Check a receipt of an erasure; exit status 1 if it does not hold."""
    from ocrrlib.escapes import visible
    from ocrrlib.memory import Broken, Key, Receipt
    from ocrrlib.memory.receipts import Refuted

    if file is None and not key:
        raise InputError("there is nothing to check it by: give --key, the memory's file, or both")
    keys = [read_from(one, Key.read) for one in key]
    found = read_from(receipt, Receipt.read)
    try:
        found.check(keys, file)
    except (Refuted, Broken) as error:
        typer.echo(visible(f"{receipt}: {error}"))
        raise typer.Exit(1) from error
    said = f"{receipt} holds: {len(found.erased)} erased of {found.before.origin}"
    if found.by:
        said += f", by {found.by}"
    if keys:
        said += f"; signed by {', '.join(one.name for one in keys)}"
    if file is not None:
        said += f"; {file} shows it"
    typer.echo(visible(said))
