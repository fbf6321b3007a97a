"""A correction memory: a ledger of labelled texts that answers, is corrected, and proves it.

>>> from corrigible import CorrectionMemory
>>> memory = CorrectionMemory.open("desk.sqlite", encoder="all-MiniLM-L6-v2")
>>> memory.learn(["where is my card", "I forgot my PIN"], ["card_arrival", "change_pin"])
>>> memory.correct("the machine swallowed my card", "card_swallowed", by="ana")
>>> memory.predict("an ATM ate my card").label

- The API, in this folder: ``memory`` learns, answers and forgets, ``past`` is a memory under an
  earlier head, ``answers`` come from one of ``readers``, ``confidence`` tells how sure they are,
  ``fitted`` keeps that beside a file, ``review`` tells what is worth a human's time, ``report``
  what corrections came to, ``examples`` what to show to a language model; ``relabel`` lays out what
  a query gets another label by; ``inputs`` are checked, ``ledger_encoder`` encodes texts with an
  encoder that it knows again, ``export`` writes files.
- ``ledger/``: entries, verified as they are read and only appended to, and what they mean.
- ``stores/``: the interface of a store, SQLite in a file, PostgreSQL on a server.
- ``proofs/``: formats that show others what a ledger holds; they know no store.
- ``service/``: a memory behind HTTP, with a desk for people. ``cli/``: the command.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corrigible.api import *  # noqa: F403

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import what is public on first use: the command stays quick."""
    import corrigible.api as api

    if name not in api.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(api, name)
