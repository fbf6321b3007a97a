"""The correction memory for applications: a ledger in a file, its tree, heads and proofs, and a reader.

``memory`` learns, answers and forgets; ``file`` is the SQLite file; ``tree``, ``keys``, ``heads``
and ``proofs`` show others what a file holds, one module a format.
"""

from ocrrlib.memory.file import Broken, verify
from ocrrlib.memory.heads import Head
from ocrrlib.memory.keys import COSIGNATURE, SIGNATURE, Key
from ocrrlib.memory.memory import Answer, CorrectionMemory, Neighbour
from ocrrlib.memory.proofs import proven, request, witness

__all__ = [
    "COSIGNATURE",
    "SIGNATURE",
    "Answer",
    "Broken",
    "CorrectionMemory",
    "Head",
    "Key",
    "Neighbour",
    "proven",
    "request",
    "verify",
    "witness",
]
