"""``ocrr`` on the command line.

Exit status: 0; 1 for a broken ledger; 2 for input that cannot be used; 3 for an error in code of your own.
"""

import json
import pkgutil
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from ocrrlib.files import InputError, pick

# Everything else is imported where it is used, so that `ocrr --help` is quick.
plain = dict(no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
app, ledgers = typer.Typer(**plain), typer.Typer(**plain, help="Write, verify and show ledgers in files.")
app.add_typer(ledgers, name="ledger")

Dataset = Annotated[str, typer.Option("--dataset", "-d", help="A name in `ocrr datasets`.")]
PolicyName = Annotated[str, typer.Option("--policy", "-p", help="oracle, random50 or random10.")]
File = Annotated[Path, typer.Argument(help="The ledger's file.")]


def _named(name):
    """A name as it is; ``module:name`` as that object, from a module in the current folder."""
    if ":" not in name:
        return name
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)  # stays: worker processes import the module, too
    try:
        return pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"cannot import {name} ({error}): give module:name of a module in this folder") from error


@app.command("run", help="Evaluate systems; after a stop, the same command goes on where it was.")
@app.command("compare", help="Differences of the first system to each other one, on the same streams.")
def evaluate(
    context: typer.Context,
    systems: Annotated[list[str], typer.Argument(help="Names in `ocrr systems`, or module:name in this folder.")],
    dataset: Dataset = "banking77",
    data: Annotated[Path | None, typer.Option(help="Your data: a file of texts or vectors, with labels.")] = None,
    text: Annotated[str, typer.Option(help="Column of the texts in --data.")] = "text",
    label: Annotated[str, typer.Option(help="Column of the labels in --data.")] = "label",
    split: Annotated[str | None, typer.Option(help="Column of --data with train or test; else a quarter.")] = None,
    encoder: Annotated[str, typer.Option(help="A model's name or folder, or module:name.")] = "all-MiniLM-L6-v2",
    seeds: Annotated[str, typer.Option("--seeds", "-s", help="Seeds, as 0,1,2 or 0-4.")] = "0-9",
    policy: PolicyName = "oracle",
    held_out: Annotated[int | None, typer.Option(help="Held-out classes; by default 10, at most a quarter.")] = None,
    every: Annotated[int, typer.Option(min=1, help="Stream items between two checkpoints.")] = 50,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Worker processes; results are the same.")] = 1,
    name: Annotated[str | None, typer.Option(help="Name of the system in results.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for one CSV of leaderboard rows per system.")] = None,
    source: Annotated[str, typer.Option(help="In these rows, whose result it is: a name or a link.")] = "own run",
):
    """Evaluate systems one after the other, and print each result as soon as it is there."""
    from ocrrlib import own, own_data

    if context.info_name == "compare" and len(systems) < 2:
        raise InputError("there is nothing to compare: give two systems or more")
    given, options = list(map(_named, systems)), dict(encoder=_named(encoder), progress=sys.stderr.isatty())
    if data is not None:
        dataset = own_data.read_data(data, text, label, split, **options)
        del options["encoder"]
    options |= dict(seeds=seeds, policy=policy, held_out=held_out, every=every, jobs=jobs, name=name)
    results, compare = [], context.info_name == "compare"
    for system in given:
        results.append(found := own.evaluate(system, dataset, **options))
        if out is not None:
            found.to_csv(out / f"{found.name}.csv", source)
        typer.echo(repr(found) if compare else f"{found.title}\n{found.summary.round(3).to_string(index=False)}")
    first, *others = results
    for other in others if compare else ():
        typer.echo(f"{first.name} minus {other.name}:\n{first.against(other).round(3).to_string(index=False)}")


@app.command()
def systems():
    """List the systems."""
    from ocrrlib.systems import SYSTEMS

    for name, entry in SYSTEMS.items():
        typer.echo(f"{name:<24} {entry.about}")


@app.command()
def datasets():
    """List the datasets."""
    from ocrrlib.datasets import DATASETS

    for name, one in DATASETS.items():
        typer.echo(f"{name:<12} {one.title} ({one.licence}): {one.citation}")


@ledgers.command("write")
def ledger_write(
    file: File,
    system: Annotated[str, typer.Argument(help="A system that keeps a ledger: substrate, ledger_plda.")] = "substrate",
    dataset: Dataset = "banking77",
    seed: Annotated[int, typer.Option(help="Seed of the stream.")] = 0,
    policy: PolicyName = "oracle",
):
    """Stream once through a system that keeps a ledger, and write or extend the file."""
    from ocrrlib import embeddings, ledger, policies, scenario, stream, systems

    kept, chosen = systems.make(system, seed), pick("policy", policy, policies.POLICIES)
    drawn = scenario.make_scenario(embeddings.load(dataset), seed, cap=None)
    list(stream.run_stream(kept, drawn, chosen))
    if not isinstance(getattr(kept, "entries", None), ledger.Ledger):
        raise InputError(f"{system} keeps no ledger: give substrate or ledger_plda")
    added = ledger.write(kept.entries, file, drawn.classes)
    typer.echo(f"{file}: {added} entries added\nhead {ledger.read(file).head.hex()}: note it elsewhere")


@ledgers.command("verify")
def ledger_verify(
    file: File,
    head: Annotated[str | None, typer.Option(help="The head as noted elsewhere; else a cut tail goes unseen.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
):
    """Walk a ledger's chain; exit status 1 if an entry was changed, removed, inserted or reordered."""
    from ocrrlib import ledger

    size = newest = None
    try:
        found = ledger.read(file)
    except InputError as error:
        if not file.is_file():
            raise
        fault = told = error
    else:
        size, newest, fault = found.size, found.head.hex(), found.verify(head)
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
    """Run a command; input that cannot be used is one line on stderr, an error in your code its traceback."""
    try:
        app(arguments)
    except (InputError, OSError) as error:
        typer.echo("error: " + " ".join(str(error).split()), err=True)
        sys.exit(2)
    except Exception:
        traceback.print_exc()
        sys.exit(3)


if __name__ == "__main__":
    main()
