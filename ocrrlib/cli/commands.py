"""``ocrr`` on the command line: the benchmark on what is published here, or on your own system and data.

Exit status: 0 if all went well, 1 if a ledger is broken or a card is not one, 2 if something given cannot be used,
3 if code raised an error: a module or system of your own, 130 if stopped from the keyboard.
"""

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ocrrlib import __version__, cards
from ocrrlib.cli.curves import text_lines
from ocrrlib.cli.failures import exit_failed, warnings_once
from ocrrlib.cli.options import BROKEN, STOPPED, WRONG, AsJSON, Once, Options, System, print_json, with_options
from ocrrlib.datasets import DATASETS
from ocrrlib.errors import InputError
from ocrrlib.evaluation.kept import write_kept
from ocrrlib.evaluation.outcome import Stopped
from ocrrlib.experiments import parse_seeds
from ocrrlib.files import write_text
from ocrrlib.systems import SYSTEMS

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""OCRR: how fast does a classifier learn new classes from corrections, and what does it forget?

    \b
    ocrr run ncm substrate --seeds 0-2
    ocrr run ncm --data tickets.csv --text body --label queue
    ocrr compare my_module:MyClassifier ncm
    """,
)


def _progress(as_json):
    return True if not as_json and sys.stderr.isatty() else "lines"


@app.command(cls=Once)
@with_options()
def run(
    *,
    systems: Annotated[
        list[str] | None,
        typer.Argument(help="Names in `ocrr systems`, or module:name of an object, class or function of your own."),
    ] = None,
    options: Options,
    out: Annotated[Path | None, typer.Option(help="Folder for each system's curve (CSV) and card (JSON).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on: seeds that are in --out are not run again.")] = False,
    as_json: AsJSON = False,
):
    """Evaluate systems and print their curves and summaries, each as soon as it is there.

    \b
    ocrr run substrate ledger_plda
    ocrr run --data tickets.csv --text body --label queue
    ocrr run my_module:MyClassifier --dataset clinc150 --policy random10 --seeds 0-9 --json
    ocrr run er_tuned --seeds 0-19 --out results --resume
    """
    if resume and out is None:
        raise InputError("--resume says nothing without --out, where seeds are kept: name that, too")
    named, done = options.named(systems or ["substrate"]), []
    files = {name: out / options.stem(name) for name in named} if out is not None else {}
    for path in files.values():
        for suffix in (".csv", ".json"):
            _check_place(path.with_name(path.name + suffix))
        if not resume:
            _check_kept(path.with_name(path.name + ".json"), options.seeds)
    stopped = None
    try:
        for one in options.evaluate(named, _progress(as_json), files, resume):
            done.append(one.card())
            if files:
                write_kept(one, files[one.name])
            if not as_json:
                typer.echo("\n".join(text_lines(one)) + "\n")
    except KeyboardInterrupt as stop:
        if not done:
            raise
        left = ", ".join(list(named)[len(done) :])
        stopped = f"stopped; left are {left}"
        if isinstance(stop, Stopped):
            stopped = f"{stop}, and all of {left}" if left else f"{stop}"
        stopped += "; --resume goes on" if files else ""
    except Exception:
        if as_json and done:
            print_json(done)
        raise
    if as_json:
        print_json(done)
    if stopped:
        typer.echo(stopped, err=True)
        raise typer.Exit(STOPPED)


@contextmanager
def _stoppable():
    """Say what was done where Ctrl-C ends a command that needs all of it."""
    try:
        yield
    except Stopped as stop:
        typer.echo(f"{stop}", err=True)
        raise typer.Exit(STOPPED) from stop


def _check_place(path):
    """Refuse a file that cannot be written, before anything is run."""
    folder = next(one for one in path.absolute().parents if os.path.exists(one))
    if not (os.path.isdir(folder) and os.access(folder, os.W_OK)):
        raise InputError(f"cannot write {path}: {folder} is no folder that can be written; choose another --out")
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder; give --out a file in it, as {path / 'card.json'}")


def _check_kept(path, seeds):
    """Refuse to write over a card with seeds that are not among those to be run."""
    kept = {seed for cell in cards.read_card(path)["cells"] for seed in cell["seeds"]} if path.exists() else set()
    if lost := sorted(kept - set(parse_seeds(seeds))):
        raise InputError(
            f"{path} has seeds {', '.join(map(str, lost))}, which would be lost: add them to --seeds, or choose "
            "another --out; with --resume they are kept, and the others run"
        )


@app.command(cls=Once)
@with_options(seeds="0-9")
def compare(
    *,
    first: System,
    second: System,
    options: Options,
    as_json: AsJSON = False,
):
    """Evaluate two systems on the same streams and print what the first has over the second, seed by seed.

    \b
    ocrr compare ledger_plda substrate --policy random10
    """
    named = options.named([first, second])
    with _stoppable():
        one, other = options.evaluate(named, _progress(as_json))
    rows = one.against(other).to_dict("records")
    if as_json:
        print_json({"first": one.card(), "second": other.card(), "differences": [_plain(row) for row in rows]})
        return
    typer.echo(
        "\n".join(
            [*text_lines(one), "", *text_lines(other), "", f"{one.name} less {other.name}, in pairs of one seed:"]
        )
    )
    for row in rows:
        digits = 1 if row["metric"] == "corrections" else 3
        between = f"  ({row['low']:+.{digits}f} to {row['high']:+.{digits}f})" if row["n"] > 1 else ""
        typer.echo(
            f"  {row['metric']:<17} {row['mean']:+.{digits}f}{between}  "
            f"higher in {row['higher']}, lower in {row['lower']} of {row['n']}"
        )


def _plain(row):
    """Numbers that JSON can hold."""
    return {name: None if value != value else value for name, value in row.items()}


@app.command(cls=Once)
@with_options(seeds="0-19")
def card(
    *,
    system: System,
    out: Annotated[Path, typer.Option("--out", "-o", help="The card's file; a Markdown file is put beside it.")],
    options: Options,
    source: Annotated[str, typer.Option(help="Whose result it is: a name, a link.")] = "own run",
    as_json: AsJSON = False,
):
    """Evaluate a system and write its result card: numbers, and everything needed to repeat them.

    \b
    ocrr card ncm --out ncm.json --seeds 0-4
    """
    if out.suffix.lower() == ".md":
        raise InputError(f"--out {out} is where the card's Markdown goes: give {out.with_suffix('.json')}")
    named = options.named([system])
    _check_place(out)
    with _stoppable():
        (one,) = options.evaluate(named, _progress(as_json))
    made = one.card(source)
    cards.write_card(made, out)
    write_text(out.with_suffix(".md"), cards.markdown(made))
    if as_json:
        print_json(made)
    else:
        typer.echo("\n".join([*text_lines(one), "", f"{out} and {out.with_suffix('.md')} say how to repeat it"]))


@app.command()
def check(files: Annotated[list[Path], typer.Argument(help="Result cards, as JSON.")]):
    """Check that files are result cards; exit status 1 if one of them is not.

    \b
    ocrr check ncm.json cards/*.json
    """
    broken = False
    for path in files:
        try:
            cards.read_card(path)
            typer.echo(f"{path}: fine")
        except InputError as error:
            broken = True
            typer.echo(f"{error}", err=True)
    raise typer.Exit(BROKEN if broken else 0)


@app.command(name="systems")
def list_systems(as_json: AsJSON = False):
    """List all systems with what they are set to.

    \b
    ocrr systems
    ocrr systems --json
    """
    rows = [
        {"name": name, "class": entry.cls, "reads": entry.reads, "parameters": entry.params}
        for name, entry in SYSTEMS.items()
    ]
    if as_json:
        print_json(rows)
    for row in [] if as_json else rows:
        settings = ", ".join(f"{name} {value}" for name, value in row["parameters"].items())
        typer.echo(f"{row['name']:<24} {row['class']:<18} {settings}")


@app.command(name="datasets")
def list_datasets(as_json: AsJSON = False):
    """List all datasets, and where they are from.

    \b
    ocrr datasets
    ocrr datasets --json
    """
    rows = [
        {"name": one.name, "title": one.title, "licence": one.licence, "citation": one.citation, "url": one.url}
        for one in DATASETS.values()
    ]
    if as_json:
        print_json(rows)
    for row in [] if as_json else rows:
        typer.echo(f"{row['name']:<12} {row['title']} ({row['licence']}): {row['citation']}")


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False):
    if version:
        typer.echo(__version__)
        raise typer.Exit()


def main(arguments=None):
    """Run a command; errors and warnings are one line each on stderr."""
    try:
        with warnings_once():
            if hasattr(sys.stdout, "reconfigure"):  # names of systems may not be in its encoding
                sys.stdout.reconfigure(errors="backslashreplace")
            app(arguments)
    except InputError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(WRONG)
    except Exception as error:  # whatever somebody's own code raises
        exit_failed(error)


if __name__ == "__main__":
    main()
