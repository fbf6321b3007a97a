"""``ocrr ledger``: write, show and verify the files of append-only ledgers."""

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ocrrlib import ledger_file, stored_ledger
from ocrrlib.cli.names import encoder_of
from ocrrlib.cli.options import BROKEN, AsJSON, Dataset, Encoder, Once, PolicyName, print_json
from ocrrlib.embeddings import load
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.errors import InputError, pick
from ocrrlib.policies import POLICIES
from ocrrlib.progress import Progress
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import SYSTEMS

# Known without a library that a system may need; all subclasses of Substrate are here.
KEEPERS = {name: entry for name, entry in SYSTEMS.items() if entry.cls in ("Substrate", "SubstrateHNSW", "LedgerPLDA")}

ledgers = typer.Typer(
    no_args_is_help=True,
    help="""Write, show and verify the files of append-only ledgers.

    \b
    ocrr ledger write corrections.sqlite
    ocrr ledger verify corrections.sqlite
    """,
)
File = Annotated[Path, typer.Argument(help="The ledger's file.")]
Keeper = Annotated[str, typer.Argument(help=f"What keeps a ledger: {', '.join(KEEPERS)}.")]


@contextmanager
def _broken_told():
    """Say that a file is broken, and end with the status that stands for it."""
    try:
        yield
    except stored_ledger.Broken as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(BROKEN) from None


@ledgers.command(name="write", cls=Once)
def ledger_write(
    file: File,
    system: Keeper = "substrate",
    dataset: Dataset = "banking77",
    encoder: Encoder = DEFAULT_ENCODER,
    seed: Annotated[int, typer.Option(help="Of the stream.")] = 0,
    policy: PolicyName = "oracle",
):
    """Stream once through a system that keeps a ledger, and write that.

    \b
    ocrr ledger write corrections.sqlite ledger_plda --policy random10
    """
    if system in SYSTEMS and system not in KEEPERS:
        raise InputError(f"{system} keeps no ledger: choose one of {', '.join(KEEPERS)}")
    one, corrected = pick("system that keeps a ledger", system, KEEPERS).make(seed), pick("policy", policy, POLICIES)
    with _broken_told():
        ledger_file.check_target(file)
        scenario = make_scenario(load(dataset, encoder_of(encoder)), seed, cap=None)
        ledger_file.check_target(file, scenario.classes)
        with Progress(f"{system} on {dataset}", how=True if sys.stderr.isatty() else "lines") as doing:
            doing.says(f"learning {len(scenario.y_initial):,} rows")
            for checkpoint in run_stream(one, scenario, corrected):
                doing.says(f"{checkpoint.step:,} of {len(scenario.y_stream):,} items streamed")
        added = ledger_file.write(one.entries, file, scenario.classes)
    head = stored_ledger.head(one.entries, scenario.classes)
    typer.echo(f"{file}: {added} entries added\nhead {head}: note it elsewhere")


@ledgers.command(name="verify", cls=Once)
def ledger_verify(
    file: File,
    head: Annotated[str | None, typer.Option(help="The head as noted elsewhere; else a cut tail goes unseen.")] = None,
    as_json: AsJSON = False,
):
    """Walk a ledger's chain; exit status 1 if anything was changed, removed, inserted or reordered.

    \b
    ocrr ledger verify corrections.sqlite
    ocrr ledger verify corrections.sqlite --head "$(cat head.txt)" --json
    """
    about, vouched = {"entries": None, "head": None, "vouched": None}, None
    try:
        found = ledger_file.read(file)
        noted = None if head is None else stored_ledger.from_hex(head)
        fault = found.verify(head=noted)
        about |= {"entries": found.size, "head": stored_ledger.head(found)}
    except stored_ledger.Broken as error:
        fault = error.fault
    if head is not None and not fault:
        vouched = found.vouched(noted)
        about["vouched"] = dict(zip(("entries", "names"), vouched))
    if as_json:
        print_json(about | {"fault": str(fault) if fault else None})
    else:
        typer.echo(f"{file}: {fault or _unbroken(found.size, vouched)}")
    raise typer.Exit(BROKEN if fault else 0)


def _unbroken(size, vouched):
    """That a ledger is unbroken, and what the head does not vouch for that was given, if one was."""
    if vouched is None:
        return f"{size} entries, unbroken (no head was given: a cut tail or a full rewrite would not show)"
    entries, names = vouched
    less = []
    if entries < size:
        of = f"entry {entries - 1}" if entries else "a ledger without entries"
        less.append(f"the head given is that of {of}: entries from {entries} on are not vouched for")
    if not names:
        less.append("the head given is not that of a file: names of classes are not vouched for")
    return f"{size} entries, unbroken" + (f" ({'; '.join(less)})" if less else "")


@ledgers.command(name="show", cls=Once)
def ledger_show(
    file: File,
    last: Annotated[int, typer.Option(min=0, help="Entries shown, newest last.")] = 5,
):
    """Show the newest entries of a ledger.

    \b
    ocrr ledger show corrections.sqlite --last 20
    """
    with _broken_told():
        found = ledger_file.read(file)
    for place in range(max(found.size - last, 0), found.size):
        label = int(found.y[place])
        name = found.classes[label] if 0 <= label < len(found.classes) else f"label {label}"
        typer.echo(f"{place:>8}  {found.hashes[place].hex()[:16]}  {name}")
    typer.echo(f"{found.size} entries, head {stored_ledger.head(found)}")
