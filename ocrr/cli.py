"""The command ``ocrr``: run, compare, verify, and the lists of systems and datasets.

Exit status: 0; 1 for a contribution that is not re-run; 2 for input that cannot be used; 3 for an
error in code of your own.
"""

import importlib.util
import operator
import os
import sys
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

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
from ocrrlib import __version__
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.escapes import visible, warnings_in_one_line
from ocrrlib.files import InputError, check_name, pick

# Everything else is imported where it is used, so that `ocrr --help` is quick.
app = typer.Typer(**PLAIN)

READING = "text label split ignore_split encoding sep no_header no_quotes where".split()
READING += ["drop_duplicates", "drop_empty", "min_rows"]  # options about a file of --data


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


def _named(name):
    """The object that ``module:name`` stands for, in the current folder; another name as it is."""
    if ":" not in name:
        return name
    sys.path.insert(0, os.getcwd())  # stays: worker processes import the module, too
    module, _, attribute = name.partition(":")
    try:
        there = importlib.util.find_spec(module)
    except (ImportError, ValueError):  # of the package around it
        there = None
    try:
        found = importlib.import_module(module) if there else None
    except (InputError, OSError, SystemExit) as error:  # else it would pass for one of ours
        raise RuntimeError(f"{module} cannot be imported: {error!r}") from error
    try:
        return operator.attrgetter(attribute)(found)
    except AttributeError as error:
        raise InputError(
            f"there is no {name}: give module:name of a module in this folder"
        ) from error


def _distinct(systems, name, out):
    """The systems of these names, all imported; each result has a name, and a file, of its own."""
    from ocrr.adapters import title_of

    if name is not None and len(systems) > 1:
        raise InputError(
            f"the name {name!r} is for one system, and there are {len(systems)}: "
            "run them one by one, or without --name"
        )
    found = [_named(one) for one in systems]
    titles = [name or title_of(one) for one in found]
    if out is not None and len({title.casefold() for title in titles}) < len(titles):
        raise InputError(
            f"the files of {', '.join(titles)} in {out} would have one name: "
            "run them one by one, each with a --name"
        )
    if out is not None and any(Path(title).name != title for title in titles):
        raise InputError(f"{name!r} cannot be the name of a file in {out}: leave out slashes")
    return found


def _check_source(given, data):
    """Refuse options about a file that is not given, and a dataset beside a file."""
    about_file = [name for name in READING if name in given]
    if data is None and about_file:
        option = about_file[0].replace("_", "-")
        raise InputError(f"--{option} is about a file of your own: name it by --data")
    if data is not None and "dataset" in given:
        raise InputError("there are two datasets, --data and --dataset: leave out one")


def _check_before(systems, data, seeds, policy, out, source):
    """Refuse what no run can use before texts are encoded, which may take hours."""
    from ocrr.adapters import as_system
    from ocrr.evaluation import check_folder
    from ocrrlib.experiments import parse_seeds
    from ocrrlib.policies import POLICIES
    from ocrrlib.systems.base import TextSystem

    for system in systems:
        if isinstance(as_system(system), TextSystem) and data is not None:
            raise InputError(f"{system} reads sentences of published datasets: leave out --data")
    parse_seeds(seeds)
    pick("policy", policy, POLICIES)
    if out is not None:
        check_name("source", source)
        check_folder(out)


@contextmanager
def _told_when_stopped():
    """Say after Ctrl-C what is kept."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(
            "stopped: finished runs are kept, of your own systems with --out; "
            "the same command goes on from there",
            err=True,
        )
        raise


@app.command("run", help="Evaluate systems; with --out, finished runs of your own are kept, too.")
@app.command(
    "compare", help="Differences of the first system to each other one, on the same streams."
)
def run(
    context: typer.Context,
    systems: Annotated[
        list[str], typer.Argument(help="Names in `ocrr systems`, or module:name in this folder.")
    ],
    dataset: Annotated[
        str, typer.Option("--dataset", "-d", help="A name in `ocrr datasets`.")
    ] = "banking77",
    data: Annotated[
        Path | None, typer.Option(help="Your data: a file of texts or vectors, with labels.")
    ] = None,
    text: TextColumn = "text",
    label: LabelColumn = "label",
    split: Annotated[
        str | None, typer.Option(help="Column of --data with train or test; else a quarter.")
    ] = None,
    ignore_split: Annotated[
        list[str] | None, typer.Option(help="Leave out rows of this split, as validation.")
    ] = None,
    encoding: Encoding = None,
    sep: Separator = None,
    no_header: NoHeader = False,
    no_quotes: NoQuotes = False,
    where: Where = None,
    drop_duplicates: Annotated[
        bool, typer.Option("--drop-duplicates", help="Of equal rows, leave out all but the first.")
    ] = False,
    drop_empty: Annotated[
        bool, typer.Option("--drop-empty", help="Leave out rows without text, label or split.")
    ] = False,
    min_rows: Annotated[
        int | None, typer.Option(min=1, help="Leave out classes of fewer different rows.")
    ] = None,
    encoder: Annotated[
        str, typer.Option(help="A model's name or folder, or module:name.")
    ] = DEFAULT_ENCODER,
    seeds: Annotated[str, typer.Option("--seeds", "-s", help="Seeds, as 0,1,2 or 0-4.")] = "0-9",
    policy: Annotated[
        str, typer.Option("--policy", "-p", help="oracle, random50 or random10.")
    ] = "oracle",
    held_out: Annotated[
        int | None, typer.Option(help="Held-out classes; by default 10, at most a quarter.")
    ] = None,
    every: Annotated[int, typer.Option(min=1, help="Stream items between two checkpoints.")] = 50,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, help="Worker processes; results are the same.")
    ] = 1,
    name: Annotated[str | None, typer.Option(help="Name of the system in results.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for a CSV of leaderboard rows per system, and finished runs."),
    ] = None,
    system_version: Annotated[
        str, typer.Option(help="Version of your system: another one after a change of it.")
    ] = "",
    source: Annotated[
        str, typer.Option(help="In these rows, whose result it is: a name or a link.")
    ] = "own run",
) -> None:
    """Evaluate systems one after the other, and print each result as soon as it is there."""
    from ocrr.data.read import read_data
    from ocrr.evaluator import evaluate
    from ocrrlib.embeddings import Embedded

    sources = {option: context.get_parameter_source(option) for option in context.params}
    given = {option for option, by in sources.items() if by is not None and by.name != "DEFAULT"}
    _check_source(given, data)
    named = _distinct(systems, name, out)
    _check_before(named, data, seeds, policy, out, source)
    compare = context.info_name == "compare"
    encoder = _named(encoder)
    reading: dict[str, Any] = dict(
        split=split,
        ignore_split=ignore_split or (),
        encoding=encoding,
        sep=sep,
        no_header=no_header,
        no_quotes=no_quotes,
        where=where or (),
        drop_duplicates=drop_duplicates,
        drop_empty=drop_empty,
        min_rows=min_rows,
    )
    streamed: str | Embedded = dataset
    results = []
    with _told_when_stopped():
        if data is not None:
            streamed = read_data(data, text, label, encoder=encoder, held_out=held_out, **reading)
        for system in named:
            found = evaluate(
                system,
                streamed,
                seeds,
                policy,
                encoder,
                held_out,
                every,
                name=name,
                jobs=jobs,
                out=out,
                version=system_version,
            )
            results.append(found)
            if out is not None:
                found.to_csv(out / f"{found.name}.csv", source, keep=True)
            if compare:
                typer.echo(repr(found))
            else:
                typer.echo(f"{found.title}\n{found.summary.round(3).to_string(index=False)}")
                typer.echo(found.sizes)
    if compare:
        for other in results[1:]:
            gaps = results[0].against(other).round(3).to_string(index=False)
            typer.echo(f"{results[0].name} minus {other.name}:\n{gaps}")


@app.command()
def verify(
    name: Annotated[
        str, typer.Argument(help="A folder, or the name of one in data/results/leaderboard.")
    ],
    sample: Annotated[int, typer.Option(min=1, help="Submitted seeds that are run again.")] = 3,
) -> None:
    """Check a contribution to the leaderboard: replay its answers, run its system again."""
    from ocrr.board.verify import RERUN
    from ocrr.board.verify import verify as verified

    kind, lines = verified(name, sample)
    typer.echo("\n".join([*lines, f"{name}: {kind}"]))
    if kind != RERUN:
        raise typer.Exit(1)


@app.command()
def systems() -> None:
    """List the systems."""
    from ocrrlib.systems import SYSTEMS

    for name, entry in SYSTEMS.items():
        typer.echo(f"{name:<24} {entry.about}")


@app.command()
def datasets() -> None:
    """List the datasets."""
    from ocrrlib.datasets import DATASETS

    for name, one in DATASETS.items():
        typer.echo(f"{name:<12} {one.title} ({one.licence}): {one.citation}")


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
