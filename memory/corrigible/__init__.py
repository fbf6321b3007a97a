"""The correction memory for applications: a ledger, its heads and proofs, and a reader.

``memory`` learns, answers and forgets; ``inputs`` checks what it is given, ``encoding`` turns texts
into vectors, by an encoder that ``identity`` knows again, ``vectors`` are what it reads of the
ledger, ``answers`` come from a system of ``readers``, ``confidence`` tells how sure they are,
``review`` what is worth a human's time, ``export`` writes files of others. Entries may change what
others mean: ``acts`` are their form, ``changes`` what users may ask for, ``meaning`` the rule,
``history`` what became of an entry, ``past`` what is asked, now or under an earlier head.
``erasure`` chooses what is erased. ``ledger`` is verified as it is read, ``verification`` that by
whoever may only read; ``writers`` lets threads that write at once share a commit. ``store`` says
what a ledger needs of a database, ``waiting`` how long it waits for others, ``location`` finds it:
``sqlite`` keeps it in a file, ``postgres`` on a server, with ``postgres_tables``,
``postgres_connection`` and ``postgres_search``; ``copies`` go from one to another.
``service`` puts a memory behind HTTP, ``wire`` is what clients send it, ``desk`` a page for people.
One module a format shows others what a file holds: ``tree``, ``keys``, ``notes``, ``heads``,
``proofs``, ``witnesses``; ``texts`` reads them after editors and mail.
"""

from corrigible.answers import Answer, Neighbour
from corrigible.ledger.history import Entry, History
from corrigible.ledger.ledger import Broken
from corrigible.ledger.verification import verify
from corrigible.memory import CorrectionMemory
from corrigible.past import Past
from corrigible.proofs.heads import Head
from corrigible.proofs.keys import COSIGNATURE, ML_DSA_44, SIGNATURE, Key
from corrigible.proofs.proofs import proven
from corrigible.proofs.witnesses import request, witness
from corrigible.review import Change, Open, Preview, Suspect, suspects_of
from corrigible.stores.store import Undone, Unknown

__all__ = [
    "COSIGNATURE",
    "ML_DSA_44",
    "SIGNATURE",
    "Answer",
    "Broken",
    "Change",
    "CorrectionMemory",
    "Entry",
    "Head",
    "History",
    "Key",
    "Neighbour",
    "Open",
    "Past",
    "Preview",
    "Suspect",
    "Undone",
    "Unknown",
    "proven",
    "request",
    "suspects_of",
    "verify",
    "witness",
]
