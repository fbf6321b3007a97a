"""``ocrr`` on the command line.

Exit status: 0; 1 for a broken memory; 2 for input that cannot be used; 3 for an error in code of your own.
"""

import json
import os
import pkgutil
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.files import InputError

# Everything else is imported where it is used, so that `ocrr --help` is quick.
plain = dict(no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
app, memories = typer.Typer(**plain), typer.Typer(**plain, help="A correction memory: learn, ask, correct, verify.")
app.add_typer(memories, name="memory")

TextColumn = Annotated[str, typer.Option("--text", help="Column of the texts.")]
LabelColumn = Annotated[str, typer.Option("--label", help="Column of the labels.")]
File = Annotated[Path, typer.Argument(help="The memory's file.")]
Author = Annotated[str, typer.Option(help="Who says so.")]
Signer = Annotated[Path | None, typer.Option("--key", help="File of the key that signs; made if there is none.")]


def _named(name):
    """A name as it is; ``module:name`` as that object, from a module in the current folder."""
    if ":" not in name:
        return name
    sys.path.insert(0, os.getcwd())  # stays: worker processes import the module, too
    try:
        return pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"cannot import {name} ({error}): give module:name of a module in this folder") from error


@app.command("run", help="Evaluate systems; after a stop, the same command goes on where it was.")
@app.command("compare", help="Differences of the first system to each other one, on the same streams.")
def evaluate(
    context: typer.Context,
    systems: Annotated[list[str], typer.Argument(help="Names in `ocrr systems`, or module:name in this folder.")],
    dataset: Annotated[str, typer.Option("--dataset", "-d", help="A name in `ocrr datasets`.")] = "banking77",
    data: Annotated[Path | None, typer.Option(help="Your data: a file of texts or vectors, with labels.")] = None,
    text: TextColumn = "text",
    label: LabelColumn = "label",
    split: Annotated[str | None, typer.Option(help="Column of --data with train or test; else a quarter.")] = None,
    encoder: Annotated[str, typer.Option(help="A model's name or folder, or module:name.")] = DEFAULT_ENCODER,
    seeds: Annotated[str, typer.Option("--seeds", "-s", help="Seeds, as 0,1,2 or 0-4.")] = "0-9",
    policy: Annotated[str, typer.Option("--policy", "-p", help="oracle, random50 or random10.")] = "oracle",
    held_out: Annotated[int | None, typer.Option(help="Held-out classes; by default 10, at most a quarter.")] = None,
    every: Annotated[int, typer.Option(min=1, help="Stream items between two checkpoints.")] = 50,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Worker processes; results are the same.")] = 1,
    name: Annotated[str | None, typer.Option(help="Name of the system in results.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for one CSV of leaderboard rows per system.")] = None,
    source: Annotated[str, typer.Option(help="In these rows, whose result it is: a name or a link.")] = "own run",
):
    """Evaluate systems one after the other, and print each result as soon as it is there."""
    from ocrrlib import own, own_data

    compare = context.info_name == "compare"
    options = dict(encoder=_named(encoder), progress=sys.stderr.isatty())
    if data is not None:
        dataset = own_data.read_data(data, text, label, split, **options)
    options |= dict(seeds=seeds, policy=policy, held_out=held_out, every=every, jobs=jobs, name=name)
    results = []
    for system in [_named(one) for one in systems]:  # all are imported before the first one runs
        results.append(found := own.evaluate(system, dataset, **options))
        if out is not None:
            found.to_csv(out / f"{found.name}.csv", source)
        typer.echo(repr(found) if compare else f"{found.title}\n{found.summary.round(3).to_string(index=False)}")
    for other in results[1:] if compare else ():
        gaps = results[0].against(other).round(3).to_string(index=False)
        typer.echo(f"{results[0].name} minus {other.name}:\n{gaps}")


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


def _opened(file, reader="substrate"):
    """The correction memory in a file that exists."""
    from ocrrlib.memory import CorrectionMemory

    if not file.is_file():
        raise InputError(f"there is no file {file}: make it with `ocrr memory new`")
    return CorrectionMemory.open(file, reader=reader)


def _text(file):
    return file.read_text("utf-8", "replace")  # what is no text has not the form that is read from it


def _signer(file, kind):
    """The signer's key in a file; if there is none, a new one, with its verifier's key in ``file``.pub."""
    from ocrrlib.files import write_text
    from ocrrlib.ledger import Key

    if file is None or file.exists():
        return file and Key.read(_text(file))
    key = Key.new(file.stem, kind)
    with open(file, "x", opener=lambda path, flags: os.open(path, flags, 0o600)) as secret:
        secret.write(key.private_text + "\n")
    write_text(f"{file}.pub", key.public_text + "\n")
    typer.echo(f"{file} made: keep it secret, and give {file}.pub away", err=True)
    return key


@memories.command("new")
def memory_new(file: File, encoder: Annotated[str, typer.Option(help="Name or folder.")] = DEFAULT_ENCODER):
    """Make a memory of texts; one that is there stays."""
    from ocrrlib.memory import CorrectionMemory

    CorrectionMemory.open(file, encoder).close()


@memories.command("add")
def memory_add(
    file: File,
    data: Annotated[Path, typer.Argument(help="A file of texts or vectors, with labels.")],
    text: TextColumn = "text",
    label: LabelColumn = "label",
    by: Author = "",
):
    """Learn all rows of a file."""
    from ocrrlib.own_data import read_rows

    with _opened(file) as memory:
        places = memory.learn(*read_rows(data, text, label), by)
        typer.echo(f"{len(places)} entries added, {len(memory)} in {file}")


@memories.command("ask")
def memory_ask(
    file: File,
    texts: Annotated[list[str], typer.Argument(help="One text or several.")],
    reader: Annotated[str, typer.Option(help="The system that answers.")] = "substrate",
):
    """Answer texts: class, probability, nearest entries."""
    with _opened(file, reader) as memory:
        for answer in memory.predict(texts):
            typer.echo(f"{answer.label} ({answer.confidence:.2f})")
            for one in answer.neighbours:
                typer.echo(f"  {one.cosine:.3f}  entry {one.entry}, {one.when:%Y-%m-%d}, {one.label}: {one.text}")


@memories.command("correct")
def memory_correct(file: File, text: str, label: str, by: Author = ""):
    """Learn the right class of a text."""
    with _opened(file) as memory:
        typer.echo(f"entry {memory.correct(text, label, by)} added to {file}")


@memories.command("verify")
def memory_verify(
    file: Annotated[Path, typer.Argument(help="A memory, or a proof.")],
    head: Annotated[list[Path], typer.Option(help="Head kept elsewhere; else a cut tail goes unseen.")] = [],
    key: Annotated[list[Path], typer.Option(help="Public key that must have signed the heads.")] = [],
):
    """Verify a memory, or a proof of an entry; exit status 1 if a memory is not as it was written."""
    from ocrrlib import database, ledger

    keys, heads = [ledger.Key.read(_text(one)) for one in key], [ledger.Head.read(_text(one)) for one in head]
    with open(file, "rb") as start:
        is_proof = start.read(len(ledger.PROOF)) == ledger.PROOF.encode()
    if is_proof:
        entry, own = ledger.proven(_text(file), keys)
        if any(one[:3] != own[:3] for one in heads):
            raise InputError(f"{file} proves an entry to another head: ask for a proof to this one")
        typer.echo(json.dumps(entry))
        return
    fault = database.verify(file, *heads, keys=keys)
    covered = max((one.size for one in heads), default="no")
    typer.echo(f"{file}: {fault or f'all as it was written; {covered} entries are covered by a head'}")
    raise typer.Exit(1 if fault else 0)


@memories.command("head")
def memory_head(file: File, key: Signer = None):
    """Print the head, to be kept elsewhere."""
    with _opened(file) as memory:
        typer.echo(str(memory.head(_signer(key, 1))), nl=False)


@memories.command("prove")
def memory_prove(
    file: File,
    entry: Annotated[int | None, typer.Option(help="Entry to prove; else that the memory extends the head.")] = None,
    head: Annotated[Path | None, typer.Option(help="Head of whom it is proved to; by default the newest.")] = None,
    key: Signer = None,
):
    """Print a proof that an entry is in the memory, or a request that a witness cosigns the newest head."""
    if entry is None and head is None:
        raise InputError("there is nothing to prove: give --entry, --head or both")
    with _opened(file) as memory:
        old = head and _text(head)
        typer.echo(memory.prove(old if entry is None else entry, _signer(key, 1), entry is not None and old), nl=False)


@memories.command("forget")
def memory_forget(file: File, entry: int, by: Author = ""):
    """Erase content and author of an entry; all proofs still hold."""
    with _opened(file) as memory:
        memory.forget(entry, by)


@memories.command("export")
def memory_export(file: File, out: Annotated[Path, typer.Argument(help="A .csv or .parquet file.")]):
    """Write all entries to a file."""
    with _opened(file) as memory:
        memory.export(out)


@memories.command("witness")
def memory_witness(
    request: Annotated[Path, typer.Argument(help="What `prove --head` printed.")],
    state: Annotated[Path, typer.Option(help="File for the last head seen.")],
    key: Signer,
    trust: Annotated[list[Path], typer.Option(help="Public key that must have signed the head.")] = [],
):
    """Cosign a head that extends the last one seen; exit status 1 if it does not."""
    from ocrrlib import ledger

    keys, signer = [ledger.Key.read(_text(one)) for one in trust], _signer(key, ledger.COSIGNATURE)
    found = ledger.witness(_text(request), state, signer, keys)
    typer.echo(str(found), nl=False)
    raise typer.Exit(isinstance(found, ledger.Fault))


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
