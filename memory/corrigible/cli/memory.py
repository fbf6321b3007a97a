"""``corrigible new``, ``add``, ``ask``, ``correct``, ``export`` and ``index``."""

import json
from pathlib import Path
from typing import Annotated

import typer

from corrigible.cli.opening import Author, File, Name, opened, read_from
from ocrr.data.options import (
    PLAIN,
    Encoding,
    LabelColumn,
    NoHeader,
    NoQuotes,
    Separator,
    TextColumn,
)
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.files import InputError

memories = typer.Typer(**PLAIN, help="A correction memory: learn, ask, correct, verify.")


@memories.command("new")
def memory_new(
    file: File,
    encoder: Annotated[str, typer.Option(help="Name or folder.")] = DEFAULT_ENCODER,
    name: Name = None,
):
    """Make a memory of texts, whose encoder is loaded; one that is there stays."""
    from corrigible import CorrectionMemory

    CorrectionMemory.open(file, encoder).close()


@memories.command("add")
def memory_add(
    file: File,
    data: Annotated[Path, typer.Argument(help="A file of texts or vectors, with labels.")],
    text: TextColumn = "text",
    label: LabelColumn = "label",
    by: Author = "",
    encoding: Encoding = None,
    sep: Separator = None,
    no_header: NoHeader = False,
    no_quotes: NoQuotes = False,
    drop_empty: Annotated[
        bool, typer.Option("--drop-empty", help="Leave out rows without text or label.")
    ] = False,
    name: Name = None,
):
    """Learn all rows of a file."""
    import numpy as np

    from corrigible.export import is_csv_export
    from ocrr.data.read import read_rows
    from ocrrlib.escapes import from_cell

    # Before the memory is opened: to close its file here would end SQLite's locks on it.
    texts, labels = read_rows(
        data,
        text,
        label,
        encoding=encoding,
        sep=sep,
        no_header=no_header,
        no_quotes=no_quotes,
        drop_empty=drop_empty,
    )
    if is_csv_export(data):
        texts = np.array([from_cell(cell) for cell in texts], object)
        labels = np.array([from_cell(cell) for cell in labels], object)
    with opened(file) as memory:
        places = memory.learn(texts, labels, by)
        typer.echo(f"{len(places)} entries added, {len(memory)} in {file}")


@memories.command("ask")
def memory_ask(
    file: File,
    texts: Annotated[list[str], typer.Argument(help="One text or several.")],
    reader: Annotated[str, typer.Option(help="The system that answers.")] = "substrate",
    at: Annotated[
        Path | None, typer.Option(help="File of an earlier head: answer as then.")
    ] = None,
    at_least: Annotated[
        float | None, typer.Option(help="Share of answers that must be right, as 0.95.")
    ] = None,
    name: Name = None,
):
    """Answer texts: class, probability that it is right, nearest entries."""
    from corrigible import Head
    from ocrrlib.escapes import visible

    with opened(file, reader) as memory:
        asked = memory if at is None else memory.at(read_from(at, Head.read))
        for answer in asked.predict(texts, at_least):
            told = answer.reason or f"{answer.label} ({answer.confidence:.2f})"
            typer.echo(visible(told))
            for near in answer.neighbours:
                source = f"entry {near.entry}, {near.when:%Y-%m-%d}, {near.label}: {near.text}"
                typer.echo(visible(f"  {near.cosine:.3f}  {source}"))


@memories.command("correct")
def memory_correct(
    file: File,
    text: str,
    label: str,
    by: Author = "",
    replaces: Annotated[
        int | None, typer.Option(help="Entry that does not count any more.")
    ] = None,
    about: Annotated[str | None, typer.Option(help="A small JSON object, kept with it.")] = None,
    name: Name = None,
):
    """Learn the right class of a text."""
    with opened(file) as memory:
        noted = None if about is None else _json(about)
        place = memory.correct(text, label, by, replaces=replaces, about=noted)
        typer.echo(f"entry {place} added to {file}")


def _json(text):
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{text:.60} is no JSON ({error}): give an object") from error


@memories.command("export")
def memory_export(
    file: File,
    out: Annotated[Path, typer.Argument(help="A .csv, .jsonl or .parquet file.")],
    name: Name = None,
):
    """Write the entries that count to a file."""
    with opened(file) as memory:
        memory.export(out)


@memories.command("index")
def memory_index(file: File, name: Name = None):
    """Let a database index its vectors, for --ef-search of `serve`; it takes minutes."""
    with opened(file, search="database") as memory:
        memory.make_index()
        typer.echo(f"the vectors of {file} are indexed")
