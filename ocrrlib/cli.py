"""``ocrr`` on the command line: the benchmark on what is published here, or on your own system and data.

Exit status: 0 if all went well, 1 if a ledger is broken or a card is not one, 2 if something given cannot be used.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from ocrrlib import __version__, cards
from ocrrlib.datasets import DATASETS
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.errors import InputError, pick
from ocrrlib.evaluation import evaluate
from ocrrlib.policies import POLICIES
from ocrrlib.student import interval
from ocrrlib.systems import SYSTEMS

BROKEN, WRONG = 1, 2
BARS = "▁▂▃▄▅▆▇█"

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="OCRR: how fast does a classifier learn new classes from corrections, and what does it forget?",
)
ledgers = typer.Typer(no_args_is_help=True, help="Write, show and verify the files of append-only ledgers.")
app.add_typer(ledgers, name="ledger")

Systems = Annotated[
    list[str] | None,
    typer.Argument(help="Names in `ocrr systems`, or module:name of an object, class or function of your own."),
]
System = Annotated[str, typer.Argument(help="A name in `ocrr systems`, or module:name of your own.")]
Dataset = Annotated[str, typer.Option("--dataset", "-d", help="A name in `ocrr datasets`.")]
Data = Annotated[Path | None, typer.Option(help="Instead of a dataset: a CSV, parquet, .npz or .safetensors file.")]
Text = Annotated[str, typer.Option(help="Column of the texts in --data.")]
Label = Annotated[str, typer.Option(help="Column of the labels in --data.")]
Split = Annotated[str | None, typer.Option(help="Column of --data that says `train` or `test`.")]
Encoder = Annotated[str, typer.Option(help="What embeds texts: a sentence-transformers name or folder.")]
Seeds = Annotated[str, typer.Option("--seeds", "-s", help="Seeds, as 0,1,2 or 0-4.")]
PolicyName = Annotated[str, typer.Option("--policy", "-p", help=f"Who is corrected: {', '.join(POLICIES)}.")]
HeldOut = Annotated[int | None, typer.Option(help="Classes first met in the stream [default: 10, at most a quarter].")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Processes; results are the same for any number.")]
AsJSON = Annotated[bool, typer.Option("--json", help="Print JSON for programs, and no progress.")]


def seeds_of(text):
    """Seeds from ``0,1,2`` or ``0-4``, as a list.

    Raises
    ------
    InputError
        If it is neither.
    """
    try:
        parts = [[int(number) for number in part.split("-")] for part in text.split(",")]
        return [seed for part in parts for seed in range(part[0], part[-1] + 1)]
    except ValueError:
        raise InputError(f"seeds {text!r} cannot be read: give them as 0,1,2 or 0-4") from None


def system_of(name):
    """A registry name as it is; ``module:name`` as the object of that name in a module of the current folder.

    Raises
    ------
    InputError
        If there is none.
    """
    module, _, attribute = name.partition(":")
    if not attribute:
        pick("system", name, SYSTEMS)
        return name
    sys.path.insert(0, str(Path.cwd()))
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"cannot import {name} ({error}): give module:name, with the module in this folder") from error
    finally:
        sys.path.pop(0)


def data_of(dataset, data, text, label, split, encoder, progress):
    """What ``evaluate`` takes as its dataset: a name, or what was read from a file."""
    if data is None:
        return pick("dataset", dataset, DATASETS) and dataset
    from ocrrlib.own_data import read_data

    return read_data(data, text=text, label=label, split=split, encoder=encoder, progress=progress)


def sparkline(values):
    """Accuracies as a line of bars, one for each checkpoint."""
    return "".join(BARS[min(int(value * len(BARS)), len(BARS) - 1)] for value in values)


def said(evaluation):
    """An evaluation in lines of text: curves, then each metric with its interval."""
    curve = evaluation.curve
    reached = curve.groupby("seed")["step"].max().min()  # streams differ in length: as far as all of them go
    mean = curve[curve["step"] <= reached].groupby("step")[["novel_acc", "original_acc"]].mean()
    first = curve.iloc[0]
    yield f"{evaluation.name} on {first['dataset']}, {first['policy']}: {len(evaluation.runs)} seeds"
    for name in ("novel", "original"):
        yield f"  {name:<9} {sparkline(mean[f'{name}_acc'])}"
    for row in evaluation.summary.to_dict("records"):
        digits = 1 if row["metric"] == "corrections" else 3
        between = f"  ({row['low']:.{digits}f} to {row['high']:.{digits}f})" if row["n"] > 1 else ""
        yield f"  {row['metric']:<17} {row['mean']:.{digits}f}{between}"


def _print(value):
    typer.echo(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False))


def _each(systems, as_json, shared):
    """Evaluate one system after the other, each with what is given for all; texts are encoded once."""
    progress = not as_json and sys.stderr.isatty()
    dataset = data_of(*(shared[name] for name in ("dataset", "data", "text", "label", "split", "encoder")), progress)
    own = {"encoder": shared["encoder"]} if shared["data"] is None else {}
    for name in systems:
        yield evaluate(
            system_of(name),
            dataset,
            seeds_of(shared["seeds"]),
            shared["policy"],
            held_out=shared["held_out"],
            jobs=shared["jobs"],
            progress=progress,
            **own,
        )


@app.command()
def run(
    systems: Systems = None,
    dataset: Dataset = "banking77",
    data: Data = None,
    text: Text = "text",
    label: Label = "label",
    split: Split = None,
    encoder: Encoder = DEFAULT_ENCODER,
    seeds: Seeds = "0-4",
    policy: PolicyName = "oracle",
    held_out: HeldOut = None,
    jobs: Jobs = 1,
    out: Annotated[Path | None, typer.Option(help="Folder for each system's curve (CSV) and card (JSON).")] = None,
    as_json: AsJSON = False,
):
    """Evaluate systems and print their curves and summaries, each as soon as it is there.

    \b
    ocrr run substrate ledger_plda
    ocrr run --data tickets.csv --text body --label queue
    ocrr run my_module:MyClassifier --dataset clinc150 --policy random10 --seeds 0-9 --json
    """
    names, done = systems or ["substrate"], []
    for one in _each(names, as_json, locals()):
        done.append(one.card())
        if out is not None:
            _keep(one, out)
        if not as_json:
            typer.echo("\n".join(said(one)) + "\n")
    if as_json:
        _print(done)


def _keep(evaluation, folder):
    from ocrrlib.files import write_text

    write_text(folder / f"{evaluation.name}.csv", evaluation.curve.to_csv(index=False))
    cards.write_card(evaluation.card(), folder / f"{evaluation.name}.json")


@app.command()
def compare(
    first: System,
    second: System,
    dataset: Dataset = "banking77",
    data: Data = None,
    text: Text = "text",
    label: Label = "label",
    split: Split = None,
    encoder: Encoder = DEFAULT_ENCODER,
    seeds: Seeds = "0-9",
    policy: PolicyName = "oracle",
    held_out: HeldOut = None,
    jobs: Jobs = 1,
    as_json: AsJSON = False,
):
    """Evaluate two systems on the same streams and print what the first has over the second, seed by seed.

    \b
    ocrr compare ledger_plda substrate --policy random10
    """
    one, other = _each([first, second], as_json, locals())
    rows = []
    for metric, column in cards.METRICS.items():
        gaps = one.runs[column].to_numpy() - other.runs[column].to_numpy()
        rows.append(
            {"metric": metric, "higher": int((gaps > 0).sum()), "lower": int((gaps < 0).sum())} | interval(gaps)
        )
    if as_json:
        _print({"first": one.card(), "second": other.card(), "differences": [_plain(row) for row in rows]})
        return
    typer.echo("\n".join([*said(one), "", *said(other), "", f"{one.name} less {other.name}, in pairs of one seed:"]))
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


@app.command()
def card(
    system: System,
    out: Annotated[Path, typer.Option("--out", "-o", help="The card's file; a Markdown file is put beside it.")],
    dataset: Dataset = "banking77",
    data: Data = None,
    text: Text = "text",
    label: Label = "label",
    split: Split = None,
    encoder: Encoder = DEFAULT_ENCODER,
    seeds: Seeds = "0-19",
    policy: PolicyName = "oracle",
    held_out: HeldOut = None,
    jobs: Jobs = 1,
    source: Annotated[str, typer.Option(help="Whose result it is: a name, a link.")] = "own run",
    as_json: AsJSON = False,
):
    """Evaluate a system and write its result card: numbers, and everything needed to repeat them.

    \b
    ocrr card ncm --out ncm.json --seeds 0-4
    """
    from ocrrlib.files import write_text

    (one,) = _each([system], as_json, locals())
    made = one.card(source)
    cards.write_card(made, out)
    write_text(out.with_suffix(".md"), cards.markdown(made))
    if as_json:
        _print(made)
    else:
        typer.echo("\n".join([*said(one), "", f"{out} and {out.with_suffix('.md')} say how to repeat it"]))


@app.command()
def check(files: Annotated[list[Path], typer.Argument(help="Result cards, as JSON.")]):
    """Check that files are result cards; exit status 1 if one of them is not."""
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
    """List all systems with what they are set to."""
    rows = [
        {"name": name, "class": entry.cls, "reads": entry.reads, "parameters": entry.params}
        for name, entry in SYSTEMS.items()
    ]
    if as_json:
        _print(rows)
    for row in [] if as_json else rows:
        settings = ", ".join(f"{name} {value}" for name, value in row["parameters"].items())
        typer.echo(f"{row['name']:<24} {row['class']:<18} {settings}")


@app.command(name="datasets")
def list_datasets(as_json: AsJSON = False):
    """List all datasets, and where they are from."""
    rows = [
        {"name": one.name, "title": one.title, "licence": one.licence, "citation": one.citation, "url": one.url}
        for one in DATASETS.values()
    ]
    if as_json:
        _print(rows)
    for row in [] if as_json else rows:
        typer.echo(f"{row['name']:<12} {row['title']} ({row['licence']}): {row['citation']}")


File = Annotated[Path, typer.Argument(help="The ledger's file.")]


@ledgers.command(name="write")
def ledger_write(
    file: File,
    system: System = "substrate",
    dataset: Dataset = "banking77",
    encoder: Encoder = DEFAULT_ENCODER,
    seed: Annotated[int, typer.Option(help="Of the stream.")] = 0,
    policy: PolicyName = "oracle",
):
    """Stream once through a system that keeps a ledger, and write that."""
    from ocrrlib import ledger_file
    from ocrrlib.embeddings import load
    from ocrrlib.ledger import Ledger
    from ocrrlib.scenario import make_scenario
    from ocrrlib.stream import run_stream
    from ocrrlib.systems import make

    one, scenario = make(system, seed), make_scenario(load(dataset, encoder), seed, cap=None)
    for _ in run_stream(one, scenario, pick("policy", policy, POLICIES)):
        pass
    if not isinstance(getattr(one, "entries", None), Ledger):
        raise InputError(f"{system} keeps no ledger: choose substrate or ledger_plda")
    added = ledger_file.write(one.entries, file, scenario.classes)
    typer.echo(f"{file}: {added} entries added\nhead {ledger_file.head(one.entries)}: note it elsewhere")


@ledgers.command(name="verify")
def ledger_verify(
    file: File,
    head: Annotated[str | None, typer.Option(help="The head as noted elsewhere; else a cut tail goes unseen.")] = None,
    as_json: AsJSON = False,
):
    """Walk a ledger's chain; exit status 1 if an entry was changed, removed, inserted or reordered."""
    from ocrrlib import ledger_file

    found = ledger_file.read(file)
    fault = found.verify(head=None if head is None else ledger_file.from_hex(head))
    if as_json:
        _print({"entries": found.size, "head": ledger_file.head(found), "fault": str(fault) if fault else None})
    else:
        state = f"{fault}" if fault else f"{found.size} entries, unbroken"
        less = "" if fault or head else " (no head was given: a cut tail or a full rewrite would not show)"
        typer.echo(f"{file}: {state}{less}")
    raise typer.Exit(BROKEN if fault else 0)


@ledgers.command(name="show")
def ledger_show(
    file: File,
    last: Annotated[int, typer.Option(help="Entries shown, newest last.")] = 5,
):
    """Show the newest entries of a ledger."""
    from ocrrlib import ledger_file

    found = ledger_file.read(file)
    for place in range(max(found.size - last, 0), found.size):
        label = int(found.y[place])
        name = found.classes[label] if 0 <= label < len(found.classes) else f"label {label}"
        typer.echo(f"{place:>8}  {found.hashes[place].hex()[:16]}  {name}")
    typer.echo(f"{found.size} entries, head {ledger_file.head(found)}")


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False):
    if version:
        typer.echo(__version__)
        raise typer.Exit()


def main(arguments=None):
    """Run a command; errors of input are one line on stderr."""
    try:
        app(arguments)
    except InputError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(WRONG)


if __name__ == "__main__":
    main()
