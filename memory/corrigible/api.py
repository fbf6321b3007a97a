"""All that is public of ``corrigible``."""

from corrigible.answers import Answer, Neighbour
from corrigible.examples import Example
from corrigible.ledger.history import Entry, History
from corrigible.ledger.ledger import Broken
from corrigible.ledger.verification import verify
from corrigible.memory import CorrectionMemory
from corrigible.past import Past
from corrigible.proofs.heads import Head
from corrigible.proofs.keys import COSIGNATURE, ML_DSA_44, SIGNATURE, Key
from corrigible.proofs.proofs import proven
from corrigible.proofs.witnesses import request, witness
from corrigible.report import Report, Week
from corrigible.review import Change, Preview, Suspect, Unsure, suspects_of
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
    "Example",
    "Head",
    "History",
    "Key",
    "Neighbour",
    "Past",
    "Preview",
    "Report",
    "Suspect",
    "Undone",
    "Unknown",
    "Unsure",
    "Week",
    "proven",
    "request",
    "suspects_of",
    "verify",
    "witness",
]
