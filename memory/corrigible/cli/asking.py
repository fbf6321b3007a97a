"""``corrigible ask``, ``review`` and other commands that only read."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from corrigible.cli.opening import File, Name, opened, read_from
from corrigible.proofs.pasted_text import read_file
from ocrr.data.options import PLAIN
from ocrrlib.escapes import visible
from ocrrlib.files import InputError

asking = typer.Typer(**PLAIN)

Lines = Annotated[Path, typer.Argument(help="A file with a text a line.")]
Number = Annotated[int, typer.Option("--n", min=1, help="How many at most.")]
Reader = Annotated[str, typer.Option(help="The system that answers.")]


@asking.command()
def ask(
    file: File,
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="One or several; without, one a line is read from standard input."),
    ] = None,
    reader: Reader = "substrate",
    at: Annotated[
        Path | None, typer.Option(help="File of an earlier head: answer as then.")
    ] = None,
    at_least: Annotated[
        float | None,
        typer.Option(help="Share that must be right of answers at least as sure, as 0.95."),
    ] = None,
    name: Name = None,
):
    """Answer texts: class, probability that it is right, nearest entries."""
    from corrigible import Head

    with opened(file, reader) as memory:
        asked = memory if at is None else memory.at(read_from(at, Head.read))
        if texts:
            _tell(asked.predict(texts, at_least))
            return
        asked.predict(["this loads the encoder, and learns how sure answers are"])
        for text in _typed():
            _tell(asked.predict([text], at_least))


def _typed() -> Iterator[str]:
    """Texts from standard input, one a line, with a prompt where somebody types."""
    prompt = "> " if sys.stdin.isatty() else ""
    while True:
        try:
            text = input(prompt).strip()
        except EOFError:
            return
        except UnicodeDecodeError as error:
            raise InputError(f"standard input is no UTF-8 ({error}): convert it") from error
        if text:
            yield text


def _tell(answers):
    for answer in answers:
        promised = "" if answer.promised is None else f"; promised {answer.promised:.2f}"
        sure = f"{answer.label} ({answer.confidence:.2f}{promised})"
        told = [] if answer.label is None else [sure]
        if answer.reason is not None:
            told.append(answer.reason)
        typer.echo(visible(": ".join(told)))
        for near in answer.neighbours:
            source = f"entry {near.entry}, {near.when:%Y-%m-%d}, {near.label}: {near.text}"
            typer.echo(visible(f"  {near.cosine:.3f}  {source}{_noted(near.about)}"))


def _noted(about):
    return f" {json.dumps(about)}" if about else ""


@asking.command()
def entries(
    file: File,
    label: Annotated[str | None, typer.Option(help="That they count as.")] = None,
    by: Annotated[str | None, typer.Option(help="Their author.")] = None,
    since: Annotated[str | None, typer.Option(help="Time, as 2026-01-31T08:00, UTC.")] = None,
    like: Annotated[str | None, typer.Option(help="A part of their text.")] = None,
    name: Name = None,
):
    """List the entries that count."""
    with opened(file) as memory:
        found = memory.entries(label, by, since, like)
        if not found:
            typer.echo(f"{file} has no such entry that counts", err=True)
        for entry in found:
            source = f"entry {entry.place}, {entry.when:%Y-%m-%d}, {entry.label}: {entry.text}"
            typer.echo(visible(source + _noted(entry.about)))


@asking.command()
def history(file: File, entry: int, name: Name = None):
    """Tell what became of an entry."""
    with opened(file) as memory:
        found = memory.history(entry)
        for event in found.events:
            author = f" by {event.author}" if event.author else ""
            typer.echo(visible(f"entry {event.place}, {event.when:%Y-%m-%d}{author}: {event.what}"))
        counts = "does not count" if found.label is None else f"counts as {found.label}"
        typer.echo(visible(f"entry {entry} {counts}"))


@asking.command()
def report(
    file: File,
    at: Annotated[Path | None, typer.Option(help="File of an earlier head: as of then.")] = None,
    at_least: Annotated[
        float, typer.Option(help="Share of right answers whose promise is counted.")
    ] = 0.95,
    reader: Reader = "substrate",
    name: Name = None,
):
    """Tell what corrections came to, week by week, with the head that says of which entries."""
    from corrigible import Head

    with opened(file, reader) as memory:
        asked = memory if at is None else memory.at(read_from(at, Head.read))
        made = asked.report(at_least)
    typer.echo("week of     corrections  hold  repeats  new labels")
    for week in made.weeks:
        typer.echo(_week(week.monday.isoformat(), week))
    if made.total is not None:
        typer.echo(_week("all", made.total))
    lack = "" if made.lack is None else f": {made.lack}"
    typer.echo(f"{made.entries} entries with {made.labels} labels count")
    typer.echo(f"{made.coverage:.0%} of texts like these get an answer at {at_least:g}{lack}")
    typer.echo(f"\n{str(made.head).strip()}")


def _week(when, week):
    counts = f"{week.corrections:11}  {week.hold:4}  {week.repeats:7}  {week.new_labels:10}"
    return f"{when:10}  {counts}"


@asking.command()
def review(
    file: File, texts: Lines, n: Number = 20, reader: Reader = "substrate", name: Name = None
):
    """List the texts that are worth a human's time, least sure first."""
    lines = _lines(texts)
    with opened(file, reader) as memory:
        for one in memory.review(lines, n):
            answer = one.answer
            typer.echo(visible(f"{answer.confidence:.2f} {answer.label}: {one.text}"))


@asking.command()
def suspects(file: File, n: Number = 20, name: Name = None):
    """List the entries that others contradict, those most surely wrong first."""
    with opened(file) as memory:
        for one in memory.suspects(n):
            source = f"entry {one.place}, {one.label}: {one.text}"
            told = f"{one.confidence:.2f} {one.instead}, not {source}{_noted(one.about)}"
            typer.echo(visible(told))


@asking.command()
def preview(
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
    asked = [] if queries is None else _lines(queries)
    with opened(file, reader) as memory:
        shown = memory.preview(text, label, asked)
        for change in [*shown.entries, *shown.queries]:
            what = f"line {change.row}" if change.place is None else f"entry {change.place}"
            names = f"{change.before} becomes {change.after}"
            typer.echo(visible(f"{what}, {names}: {change.text}"))
        typer.echo(f"{len(shown.entries)} entries and {len(shown.queries)} texts change")


def _lines(file):
    lines = [line.strip() for line in read_file(file).splitlines() if line.strip()]
    if not lines:
        raise InputError(f"{file} has no text: give one a line")
    return lines
