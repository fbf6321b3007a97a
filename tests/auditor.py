"""How tests see a ledger from outside: its file edited by SQL, its proofs checked by other implementations.

Those are pymerkle for inclusion proofs and tlog-scales for consistency proofs: pymerkle's are not RFC 6962's.
"""

import hashlib
import shutil
import sqlite3
from contextlib import closing

import numpy as np
from pymerkle import InclusionProof, InmemoryTree, InvalidProof
from tlog_scales.tlog import ConsistencyProof, ConsistencyProofInvalid

from ocrrlib import CorrectionMemory
from ocrrlib.database import Broken
from ocrrlib.ledger import Head, Tree, commitment, entry_hash, extends, root_of

PUT = f"REPLACE INTO entries VALUES (?{9 * ', ?'})"


def sql(path, *statements):
    """Read or edit a file behind the memory's back by statements with their parameters; rows of the last one."""
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("PRAGMA synchronous = OFF")
        return [base.execute(*statement).fetchall() for statement in statements][-1]


def fault(path, *heads):
    """The first fault of a file, as it opens or by ``verify``."""
    try:
        with CorrectionMemory.open(path) as memory:
            return memory.verify(*heads)
    except Broken as broken:
        return broken.fault


def letters(texts):
    """An encoder: how often the first letters occur."""
    return np.array([[text.count(letter) + 0.1 for letter in "abcdef"] for text in texts])


def write(path, texts, key, about=None):
    """Append texts to a file, labelled by their first letter; ``about`` replaces what a new one says about itself."""
    CorrectionMemory.open(path, letters).close()
    if about:
        sql(path, ["UPDATE about SET about = ?", [about]])
    with CorrectionMemory.open(path, letters) as memory:
        if texts:
            memory.learn(list(texts), [text[0] for text in texts], by="ana")
        return memory.head(key)


def forged(place, previous, x):
    """An entry that anybody could have hashed."""
    hashed = place, 7, commitment(b"s" * 16, x, "a"), previous
    return *hashed, entry_hash(*hashed), b"s" * 16, "a", "", None, x


def rewritten(path, items, *heads):
    """The fault of a copy of a file with these entries: tuples are numbered anew, lists keep their places."""
    items = [item if isinstance(item, list) else (place, *item[1:]) for place, item in enumerate(items)]
    copy = shutil.copy(path, path.with_name("copy"))
    sql(copy, ["DELETE FROM entries"], *([PUT, item] for item in items))
    return fault(copy, *heads)


def trees(n, rng):
    """The tree of the ledger and that of pymerkle over the same ``n`` random entries, and their hashes."""
    entries = [rng.randbytes(rng.randrange(90)) for _ in range(n)]
    ours, theirs, hashes = Tree(), InmemoryTree(), [hashlib.sha256(b"\0" + entry).digest() for entry in entries]
    ours.extend(hashes)
    theirs.append_entries(entries)
    return ours, theirs, hashes


def accepts(check, *ends):
    try:
        check(*ends)
    except (InvalidProof, ConsistencyProofInvalid):
        return False
    return True


def included(tree, hash, place, size, path, root):
    """Whether pymerkle, which lays it out by a tree of its own, and the ledger accept an inclusion proof."""
    proof = InclusionProof("sha256", True, size, place + 1, tree.prove_inclusion(place + 1, size).rule, [hash, *path])
    return accepts(proof.verify, hash, root), root_of(hash, place, size, path) == root


def extended(old, new, path):
    """Whether tlog-scales and the ledger accept a consistency proof between two (size, root)."""
    ours = extends(*(Head("", *end, "") for end in (old, new)), path)
    return accepts(ConsistencyProof(old[0], new[0], list(path)).check, old[1], new[1]), ours


def corrupted(path, rng):
    """A proof with a hash changed, removed, doubled or added."""
    at = rng.randint(0, len(path))
    if at == len(path):
        return [*path, rng.randbytes(32)]
    changed = bytes([path[at][0] ^ 1 << rng.randrange(8)]) + path[at][1:]
    return [*path[:at], *rng.choice([[changed], [], path[at : at + 1] * 2]), *path[at + 1 :]]
