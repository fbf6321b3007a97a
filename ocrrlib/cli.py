"""``ocrr`` on the command line.

Exit status: 0; 1 for a broken ledger; 2 for input that cannot be used; 3 for an error in code of your own.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from ocrrlib.files import InputError, pick

# Everything else is imported where it is used, so that `ocrr --help` is quick.
plain = dict(no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
app, ledgers = typer.Typer(**plain), typer.Typer(**plain, help="Write, verify and show ledgers in files.")
app.add_typer(ledgers, name="ledger")

SYSTEM = "A name in `ocrr systems`, or module:name of your own, from the current folder."
System = Annotated[str, typer.Argument(help=SYSTEM)]
Dataset = Annotated[str, typer.Option("--dataset", "-d", help="A name in `ocrr datasets`.")]
Data = Annotated[Path | None, typer.Option(help="Your data: .csv, .tsv, .jsonl, .parquet, .npz or .safetensors.")]
Text = Annotated[str, typer.Option(help="Column of the texts in --data.")]
Label = Annotated[str, typer.Option(help="Column of the labels in --data.")]
Split = Annotated[str | None, typer.Option(help="Column of --data with train or test; else a quarter is drawn.")]
Encoder = Annotated[str, typer.Option(help="Embeds texts: a model's name or folder, tfidf-svd, or module:name.")]
Seeds = Annotated[str, typer.Option("--seeds", "-s", help="Seeds, as 0,1,2 or 0-4.")]
PolicyName = Annotated[str, typer.Option("--policy", "-p", help="oracle, random50 or random10.")]
HeldOut = Annotated[int | None, typer.Option(help="Held-out classes; by default 10, at most a quarter.")]
Every = Annotated[int, typer.Option(help="Stream items between two checkpoints.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Worker processes; results are the same.")]
Name = Annotated[str | None, typer.Option(help="Name of the system in results.")]
AsJSON = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]
File = Annotated[Path, typer.Argument(help="The ledger's file.")]
MINILM = "all-MiniLM-L6-v2"


def _named(name):
    """A name as it is; ``module:name`` as that object, from a module in the current folder."""
    module, colon, attribute = name.partition(":")
    if not colon:
        return name
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)  # stays: worker processes import the module, too
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise InputError(f"cannot import {name} ({error}): give module:name of a module in this folder") from error


def _evaluate(systems, dataset, data, text, label, split, encoder, **options):
    """Evaluations of systems on the same data, each as soon as it is there."""
    from ocrrlib import own, own_data

    systems, encoder, shown = list(map(_named, systems)), {"encoder": _named(encoder)}, sys.stderr.isatty()
    if data is not None:
        dataset, encoder = own_data.read_data(data, text, label, split, **encoder, progress=shown), {}
    for system in systems:
        yield own.evaluate(system, dataset, progress=shown, **encoder, **options)


def _print(frame, as_json):
    text = frame.to_json(orient="records", lines=True).rstrip() if as_json else frame.round(3).to_string(index=False)
    typer.echo(text)


@app.command()
def run(
    systems: Annotated[list[str], typer.Argument(help=SYSTEM)],
    dataset: Dataset = "banking77",
    data: Data = None,
    text: Text = "text",
    label: Label = "label",
    split: Split = None,
    encoder: Encoder = MINILM,
    seeds: Seeds = "0-4",
    policy: PolicyName = "oracle",
    held_out: HeldOut = None,
    every: Every = 50,
    jobs: Jobs = 1,
    name: Name = None,
    out: Annotated[Path | None, typer.Option(help="Folder for one CSV of leaderboard rows per system.")] = None,
    source: Annotated[str, typer.Option(help="In these rows, whose result it is: a name or a link.")] = "own run",
    as_json: AsJSON = False,
):
    """Evaluate systems: ocrr run ncm my_module:MyClassifier --data tickets.csv --text body --label queue

    After a stop, the same command goes on where it was.
    """
    options = dict(seeds=seeds, policy=policy, held_out=held_out, every=every, jobs=jobs, name=name)
    for one in _evaluate(systems, dataset, data, text, label, split, encoder, **options):
        if out is not None:
            one.to_csv(out / f"{one.name}.csv", source)
        if not as_json:
            typer.echo(f"{one.name} on {one.cell['dataset']}, {policy}, {len(one.runs)} seeds")
        _print(one.summary.assign(system=one.name) if as_json else one.summary, as_json)


@app.command()
def compare(
    first: System,
    second: System,
    dataset: Dataset = "banking77",
    data: Data = None,
    text: Text = "text",
    label: Label = "label",
    split: Split = None,
    encoder: Encoder = MINILM,
    seeds: Seeds = "0-9",
    policy: PolicyName = "oracle",
    held_out: HeldOut = None,
    every: Every = 50,
    jobs: Jobs = 1,
    as_json: AsJSON = False,
):
    """Differences between two systems on the same streams, seed by seed: ocrr compare ledger_plda substrate"""
    options = dict(seeds=seeds, policy=policy, held_out=held_out, every=every, jobs=jobs)
    one, other = _evaluate([first, second], dataset, data, text, label, split, encoder, **options)
    if not as_json:
        typer.echo(f"{one!r}\n{other!r}\n{one.name} minus {other.name}:")
    _print(one.against(other), as_json)


@app.command()
def systems():
    """List the systems."""
    from ocrrlib.systems import SYSTEMS

    for name, entry in SYSTEMS.items():
        typer.echo(f"{name:<24} {getattr(entry, 'about', '')}".rstrip())


@app.command()
def datasets():
    """List the datasets."""
    from ocrrlib.datasets import DATASETS

    for one in DATASETS.values():
        typer.echo(f"{one.name:<12} {one.title} ({one.licence}): {one.citation}")


@ledgers.command("write")
def ledger_write(
    file: File,
    system: Annotated[str, typer.Argument(help="A system that keeps a ledger: substrate, ledger_plda.")] = "substrate",
    dataset: Dataset = "banking77",
    encoder: Encoder = MINILM,
    seed: Annotated[int, typer.Option(help="Seed of the stream.")] = 0,
    policy: PolicyName = "oracle",
):
    """Stream once through a system that keeps a ledger, and write or extend the file."""
    from ocrrlib import embeddings, ledger, policies, scenario, stream, systems

    kept, chosen = systems.make(system, seed), pick("policy", policy, policies.POLICIES)
    drawn = scenario.make_scenario(embeddings.load(dataset, encoder), seed, cap=None)
    list(stream.run_stream(kept, drawn, chosen))
    if not isinstance(getattr(kept, "entries", None), ledger.Ledger):
        raise InputError(f"{system} keeps no ledger: give substrate or ledger_plda")
    added = ledger.write(kept.entries, file, drawn.classes)
    typer.echo(f"{file}: {added} entries added\nhead {ledger.read(file).head.hex()}: note it elsewhere")


@ledgers.command("verify")
def ledger_verify(
    file: File,
    head: Annotated[str | None, typer.Option(help="The head as noted elsewhere; else a cut tail goes unseen.")] = None,
    as_json: AsJSON = False,
):
    """Walk a ledger's chain; exit status 1 if an entry was changed, removed, inserted or reordered."""
    from ocrrlib import ledger

    size = newest = None
    try:
        found = ledger.read(file)
    except InputError as error:
        if not file.is_file():
            raise
        fault, told = error, f"{error}"
    else:
        size, newest, fault = found.size, found.head.hex(), found.verify(head=head)
        covered = "no head was given: a cut tail or a full rewrite would not show"
        if head is not None:
            covered = "the head is the newest" if head == newest else "the head is older: later entries are not covered"
        told = f"{file}: {fault or f'{size} entries, unbroken ({covered})'}"
    typer.echo(json.dumps({"entries": size, "head": newest, "fault": fault and str(fault)}) if as_json else told)
    raise typer.Exit(1 if fault else 0)


@ledgers.command("show")
def ledger_show(file: File, last: Annotated[int, typer.Option(min=0, help="Entries shown, newest last.")] = 5):
    """Show the newest entries of a ledger."""
    from ocrrlib import ledger

    found = ledger.read(file)
    for place in range(max(found.size - last, 0), found.size):
        typer.echo(f"{place:>8}  {found.hashes[place].hex()[:16]}  {found.classes[found.y[place]]}")
    typer.echo(f"{found.size} entries, head {found.head.hex()}")


def main(arguments=None):
    """Run a command; an error is one line on stderr."""
    try:
        app(arguments)
    except (InputError, OSError, RuntimeError) as error:  # RuntimeError: from code of the user's own
        typer.echo("error: " + " ".join(str(error).split()), err=True)
        sys.exit(3 if isinstance(error, RuntimeError) else 2)


if __name__ == "__main__":
    main()
