"""Open the memory that a command names: a file, or a base's address and a name."""

from contextlib import contextmanager
from typing import Annotated, Any

import typer

from ocrrlib.files import InputError


def place_of(context: typer.Context, value: str | None) -> Any:
    """The location of a memory; the option ``--name`` is read before."""
    from corrigible.stores.location import located

    return None if value is None else located(value, context.params.get("name"))


def place_alone(value: str | None) -> Any:
    """The location of a memory that has its name in its address."""
    from corrigible.stores.location import located

    return None if value is None else located(value)


def place_named_alike(context: typer.Context, value: str) -> Any:
    """The location of one of two memories: a name is that of those in a base."""
    from corrigible.stores.location import is_address, located

    return located(value, context.params.get("name") if is_address(value) else None)


HELP = "The memory's file, or postgresql://user@host/base with --name."
# Text on the command line, a location in the command
File = Annotated[str, typer.Argument(callback=place_of, help=HELP)]
OptionalFile = Annotated[str | None, typer.Argument(callback=place_of, help=HELP)]
OneOfTwo = Annotated[str, typer.Argument(callback=place_named_alike, help=HELP)]
Name = Annotated[
    str | None, typer.Option("--name", is_eager=True, help="Name of the memory in a base.")
]
Author = Annotated[str, typer.Option(help="Who says so.")]


def opened(place, reader="substrate", search=None, ef_search=None):
    """The correction memory in a place where there is one."""
    from corrigible import CorrectionMemory

    if not place.holds_memory():
        raise InputError(f"there is no memory in {place}: make it with `corrigible new`")
    return CorrectionMemory.open(place, reader=reader, search=search, ef_search=ef_search)


def text_of(file):
    """The text of a small file, as ``corrigible.proofs.pasted_text.read_file`` reads it."""
    from corrigible.proofs.pasted_text import read_file

    return read_file(file)


@contextmanager
def blamed(source):
    """Put a file, or a variable of the environment, before an ``InputError`` about its text."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{source}: {error}") from error


def read_from(file, read):
    """What a small file holds, as ``read`` gets it from text; an error begins with the file."""
    text = text_of(file)
    with blamed(file):
        return read(text)


def read_signer(text):
    """A signer's key from its text; ``InputError`` if that is none, or a verifier's."""
    from corrigible import Key

    key = Key.read(text)
    key.sign(b"")  # a verifier's key cannot
    return key
