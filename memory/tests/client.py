"""What tests of the service have in common: a service that runs, and whose keys it knows."""

import socket
import threading
from contextlib import contextmanager

import httpx2
import uvicorn

from corrigible.service.app import make_app
from corrigible.service.connection import TimedProtocol

KEYS = {"ana": "secret of ana", "bö": "schlüssel"}
ANA = {"Authorization": "Bearer secret of ana"}
TEXTS = {"lost card": "lost", "no pin": "pin", "card gone": "lost"}


@contextmanager
def serving(memory, keys=KEYS, signer=None, patience=None):
    """A client of the service of a memory, run by uvicorn in a thread.

    It ends with the context, after what is in progress, or ``patience`` in seconds.
    """
    app = make_app(memory, keys, signer)
    how = dict(log_config=None, lifespan="off", timeout_graceful_shutdown=patience)
    config = uvicorn.Config(app, http=TimedProtocol, **how)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            with httpx2.Client(base_url=address, timeout=60) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join()


def detail(reply):
    """The one line of a refusal."""
    why = reply.json()["detail"]
    assert isinstance(why, str) and len(why.splitlines()) == 1 and "Traceback" not in why
    return why
