"""``ocrr memory``: a correction memory on the command line."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from ocrrlib.cli.options import PLAIN, LabelColumn, TextColumn
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.files import InputError

memories = typer.Typer(**PLAIN, help="A correction memory: learn, ask, correct, verify.")

File = Annotated[Path, typer.Argument(help="The memory's file.")]
Author = Annotated[str, typer.Option(help="Who says so.")]
Signer = Annotated[
    Path | None, typer.Option("--key", help="File of the key that signs; made if there is none.")
]


def _opened(file, reader="substrate"):
    """The correction memory in a file that exists."""
    from ocrrlib.memory import CorrectionMemory

    if not file.is_file():
        raise InputError(f"there is no file {file}: make it with `ocrr memory new`")
    return CorrectionMemory.open(file, reader=reader)


def _text(file):
    return file.read_text(
        "utf-8", "replace"
    )  # what is no text has not the form that is read from it


def _signer(file, kind):
    """The signer's key in a file; if there is none, a new one, with its verifier's key in ``file``.pub."""
    from ocrrlib.files import write_text
    from ocrrlib.memory.keys import Key

    if file is None or file.exists():
        return file and Key.read(_text(file))
    key = Key.new(file.stem, kind)
    with open(file, "x", opener=lambda path, flags: os.open(path, flags, 0o600)) as secret:
        secret.write(key.private_text + "\n")
    write_text(f"{file}.pub", key.public_text + "\n")
    typer.echo(f"{file} made: keep it secret, and give {file}.pub away", err=True)
    return key


@memories.command("new")
def memory_new(
    file: File, encoder: Annotated[str, typer.Option(help="Name or folder.")] = DEFAULT_ENCODER
):
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
    from ocrrlib.own.data import read_rows

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
                typer.echo(
                    f"  {one.cosine:.3f}  entry {one.entry}, {one.when:%Y-%m-%d}, {one.label}: {one.text}"
                )


@memories.command("correct")
def memory_correct(file: File, text: str, label: str, by: Author = ""):
    """Learn the right class of a text."""
    with _opened(file) as memory:
        typer.echo(f"entry {memory.correct(text, label, by)} added to {file}")


@memories.command("verify")
def memory_verify(
    file: Annotated[Path, typer.Argument(help="A memory, or a proof.")],
    head: Annotated[
        list[Path], typer.Option(help="Head kept elsewhere; else a cut tail goes unseen.")
    ] = [],
    key: Annotated[
        list[Path], typer.Option(help="Public key that must have signed the heads.")
    ] = [],
):
    """Verify a memory, or a proof of an entry; exit status 1 if a memory is not as it was written."""
    from ocrrlib.memory.file import verify
    from ocrrlib.memory.heads import Head
    from ocrrlib.memory.keys import Key
    from ocrrlib.memory.proofs import PROOF, proven

    keys, heads = [Key.read(_text(one)) for one in key], [Head.read(_text(one)) for one in head]
    with open(file, "rb") as start:
        is_proof = start.read(len(PROOF)) == PROOF.encode()
    if is_proof:
        entry, own = proven(_text(file), keys)
        if any(one[:3] != own[:3] for one in heads):
            raise InputError(f"{file} proves an entry to another head: ask for a proof to this one")
        typer.echo(json.dumps(entry))
        return
    fault = verify(file, *heads, keys=keys)
    covered = max((one.size for one in heads), default="no")
    typer.echo(
        f"{file}: {fault or f'all as it was written; {covered} entries are covered by a head'}"
    )
    raise typer.Exit(1 if fault else 0)


@memories.command("head")
def memory_head(file: File, key: Signer = None):
    """Print the head, to be kept elsewhere."""
    with _opened(file) as memory:
        typer.echo(str(memory.head(_signer(key, 1))), nl=False)


@memories.command("prove")
def memory_prove(
    file: File,
    entry: Annotated[
        int | None, typer.Option(help="Entry to prove; else that the memory extends the head.")
    ] = None,
    head: Annotated[
        Path | None, typer.Option(help="Head of whom it is proved to; by default the newest.")
    ] = None,
    key: Signer = None,
):
    """Print a proof that an entry is in the memory, or a request that a witness cosigns the newest head."""
    if entry is None and head is None:
        raise InputError("there is nothing to prove: give --entry, --head or both")
    with _opened(file) as memory:
        old = head and _text(head)
        typer.echo(
            memory.prove(
                old if entry is None else entry, _signer(key, 1), entry is not None and old
            ),
            nl=False,
        )


@memories.command("forget")
def memory_forget(file: File, entry: int, by: Author = ""):
    """Erase content and author of an entry; all proofs still hold."""
    with _opened(file) as memory:
        memory.forget(entry, by)


@memories.command("export")
def memory_export(
    file: File, out: Annotated[Path, typer.Argument(help="A .csv or .parquet file.")]
):
    """Write all entries to a file."""
    with _opened(file) as memory:
        memory.export(out)


@memories.command("witness")
def memory_witness(
    request: Annotated[Path, typer.Argument(help="What `prove --head` printed.")],
    state: Annotated[Path, typer.Option(help="File for the last head seen.")],
    key: Signer,
    trust: Annotated[
        list[Path], typer.Option(help="Public key that must have signed the head.")
    ] = [],
):
    """Cosign a head that extends the last one seen; exit status 1 if it does not."""
    from ocrrlib.chain import Fault
    from ocrrlib.memory.keys import COSIGNATURE, Key
    from ocrrlib.memory.proofs import witness

    keys, signer = [Key.read(_text(one)) for one in trust], _signer(key, COSIGNATURE)
    found = witness(_text(request), state, signer, keys)
    typer.echo(str(found), nl=False)
    raise typer.Exit(isinstance(found, Fault))
