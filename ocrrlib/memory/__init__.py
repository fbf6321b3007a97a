"""The correction memory for applications: a ledger in a file, its heads and proofs, and a reader.

``memory`` learns, answers and forgets; ``inputs`` checks what it is given, ``identity`` knows its
encoder again, ``vectors`` are what it reads of the ledger, ``export`` writes files of others.
``file`` is the ledger, verified as it is read; ``database`` its SQLite tables, ``damage`` the names
of its faults.
One module a format shows others what a file holds: ``tree``, ``keys``, ``notes``, ``heads``,
``proofs``, ``witnesses``, ``quorum``; ``texts`` reads them after editors and mail.
"""

from ocrrlib.memory.file import Broken, verify
from ocrrlib.memory.heads import Head
from ocrrlib.memory.keys import COSIGNATURE, ML_DSA_44, SIGNATURE, Key
from ocrrlib.memory.memory import Answer, CorrectionMemory, Neighbour
from ocrrlib.memory.proofs import proven
from ocrrlib.memory.quorum import Quorum
from ocrrlib.memory.witnesses import request, witness

__all__ = [
    "COSIGNATURE",
    "ML_DSA_44",
    "SIGNATURE",
    "Answer",
    "Broken",
    "CorrectionMemory",
    "Head",
    "Key",
    "Neighbour",
    "Quorum",
    "proven",
    "request",
    "verify",
    "witness",
]
