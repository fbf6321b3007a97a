"""``ocrr ledger``: write, show and verify the files of append-only ledgers."""

from pathlib import Path
from typing import Annotated

import typer

from ocrrlib import ledger_file
from ocrrlib.cli_options import BROKEN, AsJSON, Dataset, Encoder, PolicyName, System, print_json
from ocrrlib.embeddings import load
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.errors import InputError, pick
from ocrrlib.ledger import Ledger
from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import make

ledgers = typer.Typer(
    no_args_is_help=True,
    help="""Write, show and verify the files of append-only ledgers.

    \b
    ocrr ledger write corrections.sqlite
    ocrr ledger verify corrections.sqlite
    """,
)
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
    """Stream once through a system that keeps a ledger, and write that.

    \b
    ocrr ledger write corrections.sqlite ledger_plda --policy random10
    """
    one, scenario = make(system, seed), make_scenario(load(dataset, encoder), seed, cap=None)
    for _ in run_stream(one, scenario, pick("policy", policy, POLICIES)):
        pass
    if not isinstance(getattr(one, "entries", None), Ledger):
        raise InputError(f"{system} keeps no ledger: choose substrate or ledger_plda")
    added = ledger_file.write(one.entries, file, scenario.classes)
    head = ledger_file.head(one.entries, scenario.classes)
    typer.echo(f"{file}: {added} entries added\nhead {head}: note it elsewhere")


@ledgers.command(name="verify")
def ledger_verify(
    file: File,
    head: Annotated[str | None, typer.Option(help="The head as noted elsewhere; else a cut tail goes unseen.")] = None,
    as_json: AsJSON = False,
):
    """Walk a ledger's chain; exit status 1 if an entry was changed, removed, inserted or reordered.

    \b
    ocrr ledger verify corrections.sqlite
    ocrr ledger verify corrections.sqlite --head "$(cat head.txt)" --json
    """
    found = ledger_file.read(file)
    fault = found.verify(head=None if head is None else ledger_file.from_hex(head))
    if as_json:
        print_json({"entries": found.size, "head": ledger_file.head(found), "fault": str(fault) if fault else None})
    else:
        state = f"{fault}" if fault else f"{found.size} entries, unbroken"
        less = "" if fault or head else " (no head was given: a cut tail or a full rewrite would not show)"
        typer.echo(f"{file}: {state}{less}")
    raise typer.Exit(BROKEN if fault else 0)


@ledgers.command(name="show")
def ledger_show(
    file: File,
    last: Annotated[int, typer.Option(min=0, help="Entries shown, newest last.")] = 5,
):
    """Show the newest entries of a ledger.

    \b
    ocrr ledger show corrections.sqlite --last 20
    """
    found = ledger_file.read(file)
    for place in range(max(found.size - last, 0), found.size):
        label = int(found.y[place])
        name = found.classes[label] if 0 <= label < len(found.classes) else f"label {label}"
        typer.echo(f"{place:>8}  {found.hashes[place].hex()[:16]}  {name}")
    typer.echo(f"{found.size} entries, head {ledger_file.head(found)}")
