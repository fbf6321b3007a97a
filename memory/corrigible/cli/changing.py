"""``corrigible new``, ``add``, ``forget`` and other commands that write."""

import json
from pathlib import Path
from typing import Annotated

import typer

from corrigible.cli.opening import Author, File, Name, OneOfTwo, opened
from ocrr.data.options import (
    PLAIN,
    Encoding,
    LabelColumn,
    NoHeader,
    NoQuotes,
    Separator,
    TextColumn,
    Where,
)
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.escapes import from_cell, visible
from ocrrlib.files import InputError, needs

changing = typer.Typer(**PLAIN)

Again = Annotated[bool, typer.Option("--again", help="Store what is stored already, too.")]


@changing.command()
def new(
    file: File,
    encoder: Annotated[str, typer.Option(help="Name or folder.")] = DEFAULT_ENCODER,
    name: Name = None,
):
    """Make a memory of texts, whose encoder is loaded; one that is there stays."""
    from corrigible import CorrectionMemory

    CorrectionMemory.open(file, encoder).close()


@changing.command()
def add(
    file: File,
    data: Annotated[Path, typer.Argument(help="A file of texts or vectors, with labels.")],
    text: TextColumn = "text",
    label: LabelColumn = "label",
    about: Annotated[
        list[str] | None,
        typer.Option(help="A column that is kept with each entry, as `ticket`; may be repeated."),
    ] = None,
    by: Author = "",
    encoding: Encoding = None,
    sep: Separator = None,
    no_header: NoHeader = False,
    no_quotes: NoQuotes = False,
    where: Where = None,
    drop_empty: Annotated[
        bool, typer.Option("--drop-empty", help="Leave out rows without text or label.")
    ] = False,
    again: Again = False,
    name: Name = None,
):
    """Learn all rows of a file, but those that are stored already."""
    from corrigible.export import is_csv_export

    # Before the memory is opened: to close its file here would end SQLite's locks on it.
    noted = about or []
    texts, labels, *columns = _rows(
        data,
        text,
        label,
        noted,
        encoding=encoding,
        sep=sep,
        no_header=no_header,
        no_quotes=no_quotes,
        where=where or (),
        drop_empty=drop_empty,
    )
    if is_csv_export(data):
        texts = [from_cell(cell) for cell in texts]
        labels = [from_cell(cell) for cell in labels]
        columns = [[from_cell(cell) for cell in column] for column in columns]
    notes: list[dict] = [{} for _ in labels]
    for name, column in zip(noted, columns):
        for note, value in zip(notes, column):
            if value:
                note[name] = value
    with opened(file) as memory:
        before = len(memory)
        places = memory.learn(texts, labels, by, about=notes, again=again)
        n_new = len({place for place in places if place >= before})
        n_held = len(places) - n_new
        held = f"; stored already, and left out: {n_held} (--again adds them, too)"
        typer.echo(f"{n_new} entries added, {len(memory)} in {file}{held if n_held else ''}")


def _rows(data, text, label, also, **reading):
    """Texts or vectors of a file, labels, and columns ``also``.

    JSON Lines are read without further packages, too.
    """
    try:
        with needs("corrigible[files]"):
            from ocrr.data.read import read_rows
    except InputError:
        if data.suffix.lower() != ".jsonl" or reading["where"]:
            raise
        return _json_lines(data, [text, label, *also])
    return read_rows(data, text, label, also=also, **reading)


def _json_lines(data, names):
    with open(data, encoding="utf-8-sig") as lines:
        try:
            rows = [json.loads(line) for line in lines if line.strip()]
            columns = [[row[name] for row in rows] for name in names]
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            raise InputError(
                f"{data} has a line that is no JSON object with {', '.join(names)} ({error}): "
                "give one a line"
            ) from error
    if "answer" not in names and any("answer" in row for row in rows):  # may reject the label
        raise InputError(f"{data} has answers: run `pip install 'corrigible[files]'` to choose by")
    return columns


@changing.command()
def correct(
    file: File,
    text: str,
    label: str,
    by: Author = "",
    replaces: Annotated[
        int | None, typer.Option(help="Entry that does not count any more.")
    ] = None,
    about: Annotated[str | None, typer.Option(help="A small JSON object, kept with it.")] = None,
    again: Again = False,
    name: Name = None,
):
    """Learn the right class of a text."""
    with opened(file) as memory:
        noted = None if about is None else _json(about)
        before = len(memory)
        place = memory.correct(text, label, by, replaces=replaces, about=noted, again=again)
        if place < before:
            typer.echo(f"it is stored as entry {place} in {file} (--again adds it once more)")
            return
        typer.echo(f"entry {place} added to {file}")
        older = memory.overruled(place)
        if older:
            places = " ".join(str(one.place) for one in older)
            labels = ", ".join(dict.fromkeys(one.label for one in older))
            told = (
                f"older entries with an equal vector say {labels}: undo the wrong ones ({places})"
            )
            typer.echo(visible(told))


def _json(text):
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{text:.60} is no JSON ({error}): give an object") from error


@changing.command()
def forget(
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


@changing.command()
def export(
    file: File,
    out: Annotated[Path, typer.Argument(help="A .csv, .jsonl or .parquet file.")],
    form: Annotated[
        str | None, typer.Option(help="`label-studio` (.json) or `spacy` (.jsonl): as these read.")
    ] = None,
    name: Name = None,
):
    """Write the entries that count to a file."""
    with opened(file) as memory:
        memory.export(out, form)


@changing.command()
def copy(source: OneOfTwo, target: OneOfTwo, name: Name = None):
    """Copy a memory to another file or base, entry by entry: heads and proofs fit both."""
    from corrigible.ledger.copies import copy

    head = copy(source, target)
    typer.echo(f"{head.size} entries of {source} copied to {target}; both are as they were written")


@changing.command()
def index(file: File, name: Name = None):
    """Let a database index its vectors, for --ef-search of `serve`; it takes minutes."""
    with opened(file, search="database") as memory:
        memory.make_index()
        typer.echo(f"the vectors of {file} are indexed")
