"""``corrigible copy``: copy a memory to another file or base."""

import typer

from corrigible.cli.opening import Name, OneOfTwo
from ocrr.data.options import PLAIN

copying = typer.Typer(**PLAIN)


@copying.command("copy")
def memory_copy(source: OneOfTwo, target: OneOfTwo, name: Name = None):
    """Copy a memory to another file or base, entry by entry: heads and proofs fit both."""
    from corrigible.ledger.copies import copy

    head = copy(source, target)
    typer.echo(f"{head.size} entries of {source} copied to {target}; both are as they were written")
