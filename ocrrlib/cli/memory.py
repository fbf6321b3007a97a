"""``ocrr memory``: a correction memory on the command line."""

import json
import os
import signal
import socket
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from ocrrlib.cli.opening import File, Name, OptionalFile, opened, place_alone, text_of
from ocrrlib.cli.options import (
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

Author = Annotated[str, typer.Option(help="Who says so.")]
Signers = Annotated[
    list[Path],
    typer.Option(
        "--key", help="File of a key that signs; an Ed25519 one is made if there is none."
    ),
]
Policy = Annotated[
    Path | None,
    typer.Option(help="Policy of logs and witnesses that must have signed (C2SP's tlog-policy)."),
]


def _keys(files, policy):
    """Keys, and a policy among them, that must have signed heads."""
    from ocrrlib.memory import Key, Quorum

    keys = [Key.read(text_of(file)) for file in files]
    if policy is not None:
        keys.append(Quorum.read(text_of(policy)))
    return keys


def signer_in(file, kind, name=None):
    """The signer's key in a file.

    A file that is missing is made with a new key, and ``file``.pub with its verifier's key.
    """
    from ocrrlib.files import writable, write_text
    from ocrrlib.memory import Key

    public = Path(f"{file}.pub")
    was_public = public.exists()  # asked first: another program makes it after the key
    if not file.exists():
        if was_public:
            raise InputError(
                f"{public} is there without its key {file}: restore that, or choose another name"
            )
        _make_key(file, kind, name)
    key = Key.read(text_of(file))
    if key.private and not public.exists() and writable(public.parent):
        write_text(public, key.public_text + "\n")
    return key


def _make_key(file, kind, name):
    """Make the files of a new key, unless another program has just done so."""
    from ocrrlib.files import sync_to_disk
    from ocrrlib.memory import Key

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
    from ocrrlib.memory import Head
    from ocrrlib.memory.texts import plain

    start, end, note = plain(text).lstrip().partition("\n\n")
    head = Head.read(note)
    for signer in signers:
        head = head.signed(signer)
    return start + end + str(head)


@memories.command("key")
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
            help="Memory that names it, as policies want of a log's key.",
        ),
    ] = None,
):
    """Make a key of any kind, by default one that is to hold against quantum computers, too."""
    from ocrrlib.files import pick
    from ocrrlib.memory import COSIGNATURE, ML_DSA_44, SIGNATURE

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


@memories.command("new")
def memory_new(
    file: File,
    encoder: Annotated[str, typer.Option(help="Name or folder.")] = DEFAULT_ENCODER,
    name: Name = None,
):
    """Make a memory of texts, whose encoder is loaded; one that is there stays."""
    from ocrrlib.memory import CorrectionMemory

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
    name: Name = None,
):
    """Learn all rows of a file."""
    import numpy as np

    from ocrrlib.escapes import from_cell
    from ocrrlib.memory.export import is_csv_export
    from ocrrlib.own.data import read_rows

    # Before the memory is opened: to close its file here would end SQLite's locks on it.
    texts, labels = read_rows(
        data,
        text,
        label,
        encoding=encoding,
        sep=sep,
        no_header=no_header,
        no_quotes=no_quotes,
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
    from ocrrlib.escapes import visible

    with opened(file, reader) as memory:
        asked = memory if at is None else memory.at(text_of(at))
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


@memories.command("verify")
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
    policy: Policy = None,
    name: Name = None,
):
    """Verify a memory or a proof; exit status 1 if a memory is not as it was written."""
    from ocrrlib.memory import Head, verify

    keys = _keys(key, policy)
    if policy is not None and proof is None and not head:
        raise InputError("there is no head that the policy is about: give --head, too")
    heads = [Head.read(text_of(one)) for one in head]
    if proof is not None and file is None:
        typer.echo(json.dumps(_proven(proof, heads, keys)))
        return
    if file is None or proof is not None:
        raise InputError("there is not one file to verify: give a memory, or --proof with a proof")
    if _is_proof(file):  # in the memory's place it would pass, and the memory be gone
        raise InputError(f"{file} is a proof, no memory: verify it by --proof {file}")
    fault = verify(file, *heads, keys=keys)
    if fault:
        typer.echo(f"{file}: {fault}")
        raise typer.Exit(1)
    covered = max((one.size for one in heads), default="no")
    typer.echo(f"{file}: all as it was written; {covered} entries are covered by a head")


def _is_proof(file):
    """Whether a memory's place is a file that begins as a proof does."""
    from ocrrlib.memory.proofs import is_proof

    path = Path(str(file))
    if not path.is_file():
        return False
    with open(path, "rb") as content:
        return is_proof(content.read(1024).decode("utf-8", "replace"))


def _proven(file, heads, keys):
    """The entry that a proof shows to be under the heads."""
    from ocrrlib.memory import proven

    entry, shown = proven(text_of(file), keys)
    for head in heads:
        if (head.origin, head.size, head.root) != (shown.origin, shown.size, shown.root):
            raise InputError(f"{file} proves an entry to another head: ask for a proof to this one")
    return entry


def print_text(text):
    """Print a head, proof or request as it is, whatever the terminal's encoding."""
    typer.echo(text.encode(), nl=False)


@memories.command("head")
def memory_head(file: File, key: Signers = [], name: Name = None):
    """Print the head, to be kept elsewhere."""
    from ocrrlib.memory import SIGNATURE

    with opened(file) as memory:
        head = memory.head()
        for one in key:
            head = head.signed(signer_in(one, SIGNATURE))
        print_text(str(head))


@memories.command("prove")
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
    from ocrrlib.memory import SIGNATURE

    if entry is None and head is None:
        raise InputError("there is nothing to prove: give --entry, --head or both")
    with opened(file) as memory:
        known = None if head is None else text_of(head)
        signers = [signer_in(one, SIGNATURE) for one in key]
        if entry is None:
            proof = _sign(memory.prove_extension(known), signers)
        elif known is None:
            proof = _sign(memory.prove_entry(entry), signers)
        else:
            proof = memory.prove_entry(entry, head=known)  # as its reader has it
        print_text(proof)


@memories.command("export")
def memory_export(
    file: File,
    out: Annotated[Path, typer.Argument(help="A .csv, .jsonl or .parquet file.")],
    name: Name = None,
):
    """Write the entries that count to a file."""
    with opened(file) as memory:
        memory.export(out)


@memories.command("witness")
def memory_witness(
    request: Annotated[Path, typer.Argument(help="What `prove --head` printed.")],
    state: Annotated[Path, typer.Option(help="File for the last head seen.")],
    key: Signers,
    trust: Annotated[
        list[Path], typer.Option(help="Public key that must have signed the head.")
    ] = [],
    policy: Policy = None,
):
    """Cosign a head that extends the last one seen; exit status 1 if it is of another history."""
    from ocrrlib.chain import Fault
    from ocrrlib.memory import COSIGNATURE, Head, witness

    keys = _keys(trust, policy)
    asked = text_of(request)
    first, *others = [signer_in(one, COSIGNATURE) for one in key]
    _sign(asked, others)  # refuses keys that cannot sign before the state changes
    found = witness(asked, state, first, keys)
    if isinstance(found, Head):
        for signer in others:
            found = found.signed(signer)
    print_text(str(found))
    raise typer.Exit(1 if isinstance(found, Fault) else 0)


@memories.command("index")
def memory_index(file: File, name: Name = None):
    """Let a database index its vectors, for --ef-search of `serve`; it takes minutes."""
    with opened(file, search="database") as memory:
        memory.make_index()
        typer.echo(f"the vectors of {file} are indexed")


@memories.command("serve")
def memory_serve(
    file: File,
    host: Annotated[str, typer.Option(help="Address; 0.0.0.0 is all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 is any that is free.")] = 8000,
    reader: Annotated[str, typer.Option(help="The system that answers.")] = "substrate",
    remember: Annotated[
        int, typer.Option(min=0, help="Texts asked last that the desk may review, kept in RAM.")
    ] = 1000,
    name: Name = None,
    search: Annotated[
        str | None, typer.Option(help="`database` leaves vectors there; else they are read.")
    ] = None,
    ef_search: Annotated[
        int | None, typer.Option(help="Effort of a search by the database's index; else exact.")
    ] = None,
):
    """Answer over HTTP until Ctrl-C; OCRR_MEMORY_KEYS=name:secret,... says who may correct."""
    from ocrrlib.memory import Key

    try:
        import uvicorn

        from ocrrlib.memory.service import make_app
    except ModuleNotFoundError as error:
        raise InputError(
            f"the package {error.name} is not installed: run `pip install 'ocrrlib[serve]'`"
        ) from error
    if not 0 <= port < 2**16:
        raise InputError(f"{port} is no port: give a number up to 65535")
    keys = _secrets(os.environ.get("OCRR_MEMORY_KEYS", ""))
    signer = Key.read(os.environ["MEMORY_KEY"]) if "MEMORY_KEY" in os.environ else None
    with (
        opened(file, reader, search, ef_search) as memory,
        _listening(host, port) as listener,
    ):
        app = make_app(memory, keys, signer, remember)
        memory.embed(["this loads the encoder"])
        config = uvicorn.Config(
            app,
            ws="none",
            lifespan="off",
            access_log=False,
            log_level="warning",
            limit_concurrency=1000,
            timeout_graceful_shutdown=30,  # seconds for requests in progress
        )
        address = f"http://{host}:{listener.getsockname()[1]}"
        authors = ", ".join(keys) or "nobody (OCRR_MEMORY_KEYS is empty)"
        typer.echo(f"{address} serves the {len(memory)} entries of {file}; correct: {authors}")
        # uvicorn raises a signal again when it has ended: the memory is closed then.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])


def _secrets(text):
    """Secrets by name, from ``name:secret,name:secret``."""
    pairs = [part.strip().partition(":") for part in text.split(",") if part.strip()]
    keys = {name: secret for name, _, secret in pairs}
    if not all(keys) or not all(keys.values()) or len(set(keys.values())) < len(pairs):
        raise InputError("OCRR_MEMORY_KEYS is unclear: give name:secret,name:secret")
    return keys


def _listening(host, port):
    """A socket that listens at an address."""
    try:
        family = socket.getaddrinfo(host, None)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise InputError(f"cannot listen at {host}, port {port} ({error}): give another") from error
