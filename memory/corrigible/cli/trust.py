"""``corrigible key``, ``verify``, ``head``, ``prove`` and ``witness``."""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from corrigible.cli.opening import (
    File,
    Name,
    OptionalFile,
    blamed,
    opened,
    place_alone,
    read_from,
    read_signer,
    text_of,
)
from ocrr.data.options import PLAIN
from ocrrlib.files import InputError

trust = typer.Typer(**PLAIN)

Signers = Annotated[
    list[Path],
    typer.Option(
        "--key", help="File of a key that signs; an Ed25519 one is made if there is none."
    ),
]


def signer_in(file, kind, name=None):
    """The signer's key in a file.

    A file that is missing is made with a new key, and ``file``.pub with its verifier's key.
    """
    from ocrrlib.files import writable, write_text

    public = Path(f"{file}.pub")
    was_public = public.exists()  # asked first: another program makes it after the key
    if not file.exists():
        if was_public:
            raise InputError(
                f"{public} is there without its key {file}: restore that, or choose another name"
            )
        _make_key(file, kind, name)
    key = read_from(file, read_signer)
    if not public.exists() and writable(public.parent):
        write_text(public, key.public_text + "\n")
    return key


def _make_key(file, kind, name):
    """Make the files of a new key, unless another program has just done so."""
    from corrigible import Key
    from ocrrlib.files import sync_to_disk

    key = Key.new(name or file.stem, kind)
    with TemporaryDirectory(dir=file.parent) as folder:
        secret = Path(folder, "key")
        secret.touch(0o600)  # only its owner can read it
        secret.write_text(key.private_text + "\n")
        sync_to_disk(secret)
        try:
            os.link(secret, file)  # whole, and only if there is none
        except FileExistsError:
            return
    typer.echo(f"{file} made: keep it secret, and give {file}.pub away", err=True)


def _sign(text, signers):
    """Sign the head at the end of a proof or request."""
    from corrigible import Head
    from corrigible.proofs.pasted_text import plain

    start, end, note = plain(text).lstrip().partition("\n\n")
    head = Head.read(note)
    for signer in signers:
        head = head.signed(signer)
    return start + end + str(head)


def _check_asks(text):
    """Raise ``InputError`` unless a text is a request to a witness, with a head at its end."""
    from corrigible import Head
    from corrigible.proofs.pasted_text import plain

    start, _, note = plain(text).lstrip().partition("\n\n")
    if not start.startswith("old "):
        raise InputError("no request to a witness: give what `prove --head` printed")
    Head.read(note)


def print_text(text):
    """Print a head, proof or request as it is, whatever the terminal's encoding."""
    typer.echo(text.encode(), nl=False)


@trust.command("key")
def memory_key(
    file: Annotated[Path, typer.Argument(help="The key's file; FILE.pub is to be given away.")],
    kind: Annotated[
        str, typer.Option(help="ml-dsa-44 (of a memory or a witness), ed25519 or ed25519-witness.")
    ] = "ml-dsa-44",
    name: Annotated[str | None, typer.Option(help="Its name; by default the file's.")] = None,
    of: Annotated[
        str | None,
        typer.Option(
            callback=place_alone,
            help="Memory that names it, as C2SP wants of a log's key.",
        ),
    ] = None,
):
    """Make a key of any kind, by default one that is to hold against quantum computers, too."""
    from corrigible import COSIGNATURE, ML_DSA_44, SIGNATURE
    from ocrrlib.files import pick

    kinds = {"ml-dsa-44": ML_DSA_44, "ed25519": SIGNATURE, "ed25519-witness": COSIGNATURE}
    chosen = pick("kind of key", kind, kinds)
    if file.exists():
        raise InputError(f"{file} is there already: choose another name")
    if of is not None:
        if name is not None:
            raise InputError("there are two names of one key: give --name or --of")
        with opened(of) as memory:
            name = memory.origin
    signer_in(file, chosen, name)


@trust.command("verify")
def memory_verify(
    file: OptionalFile = None,
    proof: Annotated[
        Path | None, typer.Option(help="Proof of an entry, to verify instead of a memory.")
    ] = None,
    head: Annotated[
        list[Path], typer.Option(help="Head kept elsewhere; else a cut tail goes unseen.")
    ] = [],
    key: Annotated[
        list[Path], typer.Option(help="Public key that must have signed the heads.")
    ] = [],
    name: Name = None,
):
    """Verify a memory or a proof; exit status 1 if a memory is not as it was written."""
    from corrigible import Head, Key, verify

    keys = [read_from(one, Key.read) for one in key]
    heads = [read_from(one, Head.read) for one in head]
    if proof is not None and file is None:
        typer.echo(json.dumps(_proven(proof, heads, keys)))
        return
    if file is None or proof is not None:
        raise InputError("there is not one file to verify: give a memory, or --proof with a proof")
    if _is_proof(file):  # in the memory's place it would pass, and the memory be gone
        raise InputError(f"{file} is a proof, no memory: verify it by --proof {file}")
    for source, one in zip(head, heads):
        with blamed(source):
            one.check(keys)
    fault = verify(file, *heads)
    if fault:
        typer.echo(f"{file}: {fault}")
        raise typer.Exit(1)
    covered = max((one.size for one in heads), default="no")
    typer.echo(f"{file}: all as it was written; {covered} entries are covered by a head")


def _is_proof(file):
    """Whether a memory's place is a file that begins as a proof does."""
    from corrigible.proofs.proofs import is_proof

    path = Path(str(file))
    if not path.is_file():
        return False
    with open(path, "rb") as content:
        return is_proof(content.read(1024).decode("utf-8", "replace"))


def _proven(file, heads, keys):
    """The entry that a proof shows to be under the heads."""
    from corrigible import proven

    entry, shown = read_from(file, lambda text: proven(text, keys))
    for head in heads:
        if (head.origin, head.size, head.root) != (shown.origin, shown.size, shown.root):
            raise InputError(f"{file} proves an entry to another head: ask for a proof to this one")
    return entry


@trust.command("head")
def memory_head(file: File, key: Signers = [], name: Name = None):
    """Print the head, to be kept elsewhere."""
    from corrigible import SIGNATURE

    with opened(file) as memory:
        head = memory.head()
        for one in key:
            head = head.signed(signer_in(one, SIGNATURE))
        print_text(str(head))


@trust.command("prove")
def memory_prove(
    file: File,
    entry: Annotated[
        int | None, typer.Option(help="Entry to prove; else that the memory extends the head.")
    ] = None,
    head: Annotated[
        Path | None, typer.Option(help="Head of whom it is proved to; by default the newest.")
    ] = None,
    key: Signers = [],
    name: Name = None,
):
    """Print a proof of an entry, or a request to a witness to cosign the newest head."""
    from corrigible import SIGNATURE, Head

    if entry is None and head is None:
        raise InputError("there is nothing to prove: give --entry, --head or both")
    with opened(file) as memory:
        known = None if head is None else read_from(head, Head.read)
        signers = [signer_in(one, SIGNATURE) for one in key]
        if entry is None:
            proof = _sign(memory.prove_extension(known), signers)
        elif known is None:
            proof = _sign(memory.prove_entry(entry), signers)
        else:
            proof = memory.prove_entry(entry, head=known)  # as its reader has it
        print_text(proof)
        told_by = None if entry is None else memory.told_by(entry)
        if told_by is not None:
            typer.echo(f"entry {entry} was erased: prove entry {told_by}, which says so", err=True)


@trust.command("witness")
def memory_witness(
    request: Annotated[Path, typer.Argument(help="What `prove --head` printed.")],
    state: Annotated[Path, typer.Option(help="File for the last head seen.")],
    key: Signers,
    trust: Annotated[
        list[Path], typer.Option(help="Public key that must have signed the head.")
    ] = [],
):
    """Cosign a head that extends the last one seen; exit status 1 if it is of another history."""
    from corrigible import COSIGNATURE, Head, Key, witness
    from ocrrlib.chain import Fault

    keys = [read_from(one, Key.read) for one in trust]
    asked = text_of(request)
    first, *others = [signer_in(one, COSIGNATURE) for one in key]
    with blamed(request):
        _check_asks(asked)
    _sign(asked, others)  # refuses keys that cannot sign before the state changes
    found = witness(asked, state, first, keys)
    if isinstance(found, Head):
        for signer in others:
            found = found.signed(signer)
    print_text(str(found))
    raise typer.Exit(1 if isinstance(found, Fault) else 0)
