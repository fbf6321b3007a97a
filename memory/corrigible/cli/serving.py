"""``corrigible serve``: answer over HTTP."""

import os
import signal
import socket
from contextlib import suppress
from typing import Annotated

import typer

from corrigible.cli.opening import File, Name, blamed, opened, read_signer
from ocrr.data.options import PLAIN
from ocrrlib.files import InputError, needs

serving = typer.Typer(**PLAIN)


@serving.command()
def serve(
    file: File,
    host: Annotated[str, typer.Option(help="Address; 0.0.0.0 is all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 is any that is free.")] = 8000,
    reader: Annotated[str, typer.Option(help="The system that answers.")] = "substrate",
    remember: Annotated[
        int, typer.Option(min=0, help="Texts asked last that the desk may review, kept in RAM.")
    ] = 1000,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A name that it is reached under, as desk.example; also by a proxy."),
    ] = None,
    name: Name = None,
    search: Annotated[
        str | None, typer.Option(help="`database` leaves vectors there; else they are read.")
    ] = None,
    ef_search: Annotated[
        int | None, typer.Option(help="Effort of a search by the database's index; else exact.")
    ] = None,
):
    """Answer over HTTP until Ctrl-C; OCRR_MEMORY_KEYS=name:secret,... says who may correct."""
    with needs("corrigible[serve]"):
        import uvicorn

        from corrigible.service.app import make_app
        from corrigible.service.connection import TimedProtocol
    if not 0 <= port < 2**16:
        raise InputError(f"{port} is no port: give a number up to 65535")
    keys = _secrets(os.environ.get("OCRR_MEMORY_KEYS", ""))
    signer = None
    if "MEMORY_KEY" in os.environ:
        with blamed("MEMORY_KEY"):
            signer = read_signer(os.environ["MEMORY_KEY"])
    with (
        opened(file, reader, search, ef_search) as memory,
        _listening(host, port) as listener,
    ):
        own_port = listener.getsockname()[1]
        hosts = [f"{host}:{own_port}", *(allow_host or [])]
        app = make_app(memory, keys, signer, remember, hosts)
        memory.embed(["this loads the encoder"])
        config = uvicorn.Config(
            app,
            http=TimedProtocol,
            ws="none",
            lifespan="off",
            access_log=False,
            log_level="warning",
            limit_concurrency=1000,
            timeout_graceful_shutdown=30,  # seconds for requests in progress
        )
        address = f"http://{host}:{own_port}"
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
