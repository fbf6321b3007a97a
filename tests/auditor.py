"""How tests see a ledger from outside: its file edited by SQL, its proofs checked by other implementations.

Those are pymerkle for inclusion proofs and tlog-scales for consistency proofs: pymerkle's are not
RFC 6962's. Suites that are not ours: edits T1 to T9 of Agent Memory Integrity, and AMTB's edits
(axis 3). `make torture` runs them whole.
"""

import hashlib
import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
from agmi.adapters.base import MemoryAdapter, Record
from agmi.attacks.at_rest import AT_REST_ATTACKS_WITH_SNAPSHOT
from pymerkle import InclusionProof, InmemoryTree, InvalidProof
from tlog_scales.tlog import ConsistencyProof, ConsistencyProofInvalid

from ocrrlib import CorrectionMemory
from ocrrlib.chain import Fault, commitment, entry_hash
from ocrrlib.memory import Broken
from ocrrlib.memory.database import FIELDS
from ocrrlib.memory.tree import Tree, root_from_inclusion_proof, verify_consistency

ALL = "SELECT * FROM entries ORDER BY place"
PUT = f"REPLACE INTO entries VALUES (?{9 * ', ?'})"
VERIFIERS = (
    "inclusion, pymerkle",
    "inclusion, ledger",
    "consistency, tlog-scales",
    "consistency, ledger",
)
WORDS = {"safe": "reported", "VULNERABLE": "accepted", "ERROR": "not landed", "n/a": "failed"}
KINDS = "overwrite", "swap", "delete", "insert", "cut"


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
    """An encoder: the numbers of each letter."""
    return np.array([[1 + text.count(letter) for letter in "acdinprt"] for text in texts], float)


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
    items = [
        item if isinstance(item, list) else (place, *item[1:]) for place, item in enumerate(items)
    ]
    copy = shutil.copy(path, path.with_name("copy"))
    sql(copy, ["DELETE FROM entries"], *([PUT, item] for item in items))
    return fault(copy, *heads)


def trees(n, rng):
    """The tree of the ledger and that of pymerkle over the same ``n`` random entries, and their hashes."""
    entries = [rng.randbytes(rng.randrange(90)) for _ in range(n)]
    ours, theirs, hashes = (
        Tree(),
        InmemoryTree(),
        [hashlib.sha256(b"\0" + entry).digest() for entry in entries],
    )
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
    proof = InclusionProof(
        "sha256", True, size, place + 1, tree.prove_inclusion(place + 1, size).rule, [hash, *path]
    )
    return accepts(proof.verify, hash, root), root_from_inclusion_proof(
        hash, place, size, path
    ) == root


def extended(old, new, path):
    """Whether tlog-scales and the ledger accept a consistency proof between two (size, root)."""
    ours = verify_consistency(*old, *new, path)
    return accepts(ConsistencyProof(old[0], new[0], list(path)).check, old[1], new[1]), ours


def corrupted(path, rng):
    """A proof with a hash changed, removed, doubled or added."""
    at = rng.randint(0, len(path))
    if at == len(path):
        return [*path, rng.randbytes(32)]
    changed = bytes([path[at][0] ^ 1 << rng.randrange(8)]) + path[at][1:]
    return [*path[:at], *rng.choice([[changed], [], path[at : at + 1] * 2]), *path[at + 1 :]]


class Stored(MemoryAdapter):
    """The file under attackers who hash nothing anew, as in the suite's adapters; if ``anchored``, heads are kept."""

    name, supports_replay, supports_metadata, supports_snapshot = (
        "CorrectionMemory",
        True,
        True,
        True,
    )

    def __init__(self, anchored):
        self.anchored = anchored

    def setup(self):
        self.folder, self.heads = Path(tempfile.mkdtemp()), []

    def seed(self, n, context="first"):
        with CorrectionMemory.open(
            self.folder / context, lambda texts: np.eye(64)[: len(texts)]
        ) as memory:
            numbers = range(len(memory), len(memory) + n)
            memory.learn(
                [f"{context} {i}" for i in numbers],
                [f"limit {40 + i}" for i in numbers],
                by=context,
            )
            if self.anchored and context == "first":
                self.heads = [str(memory.head())]

    def read_all_raw(self, context="first"):
        rows = sql(self.folder / context, [ALL])
        return [Record(row[0], dict(zip(FIELDS.split(", "), row), context=context)) for row in rows]

    def write_raw(self, record):
        sql(self.folder / "first", [PUT, [record.seq, *[*record.fields.values()][1:10]]])

    def restore_store(self, token):
        shutil.rmtree(self.folder)
        shutil.move(token, self.folder)

    def verify(self):
        self.verify_detail = fault(self.folder / "first", *self.heads)
        return self.verify_detail is None

    teardown = lambda self: shutil.rmtree(self.folder)
    reload = lambda self: None  # nothing is kept open
    mutate_payload = lambda self, record: Record(record.seq, record.fields | {"label": "limit 999"})
    append_genuine = lambda self: self.seed(1)
    seed_other = lambda self, n: self.seed(n, "other")
    read_other_raw = lambda self: self.read_all_raw("other")
    delete_raw = lambda self, seq: sql(
        self.folder / "first", ["DELETE FROM entries WHERE place = ?", [seq]]
    )
    replay_onto = lambda self, seq, donor: self.write_raw(Record(seq, donor.fields))
    forge_record = lambda self, last: self.mutate_payload(Record(last.seq + 1, last.fields))
    read_meta = lambda self, seq: {"author": self.read_all_raw()[seq].fields["author"]}
    write_meta = lambda self, seq, _: self.write_raw(
        Record(seq, self.read_all_raw()[seq].fields | {"author": "other"})
    )
    identity_of = lambda self, record: f"{record.fields['context']} {record.seq}"
    payload_of = lambda self, record: record.fields["text"] + record.fields["label"]
    owner_of = lambda self, record: record.fields["context"]
    snapshot_store = lambda self: shutil.copytree(self.folder, self.folder.with_suffix(".old"))


def integrity(anchored):
    """Verdict on each of Agent Memory Integrity's nine edits, and how it came about."""
    results = [attack().run(Stored(anchored)) for attack in AT_REST_ATTACKS_WITH_SNAPSHOT]
    return {
        one.attack: f"{WORDS[one.status]}: {one.guard or one.error or one.detail}"
        for one in results
    }


def edit(items, kind, rng, old=0):
    """Entries edited at random, what is new hashed as anybody can, and the fault to be reported.

    The newest ``old`` entries are left alone, but for the cut of a tail.
    """
    place, other = rng.sample(range(len(items) - old), 2)
    one, two, left = items[place], items[other], len(items) - 1 - place
    before, new, after = items[:place], forged(place, one[3], two[9]), items[place + 1 :]
    if (
        kind == "overwrite"
    ):  # next to the last one, only the head could say which of the two is another
        return [*before, new, *after], Fault(place + (left == 1), "changed") if left else Fault(
            0, "forked"
        )
    if kind == "swap":
        swapped = [{place: two, other: one}.get(at, item) for at, item in enumerate(items)]
        return swapped, Fault(min(place, other), "reordered")
    if kind == "insert":
        return [*before, new, one, *after], Fault(place, "inserted")
    kept = before if kind == "cut" else [*map(list, before + after)]
    return kept, Fault(place, "removed" if kept[place:] else "truncated")


def tampering(n=10_000, each=250, seed=0, anchored=True):
    """AMTB, axis 3, and cut tails: edits of an intact ledger, one at a time; how many of each kind are reported.

    If ``anchored``, with a head that was kept elsewhere, and place and kind must be right, too;
    else the chain alone, with edits of old entries.
    """
    rng, found, heads = random.Random(seed), Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        with CorrectionMemory.open(path := Path(folder, "intact")) as memory:
            for X in np.array_split(np.random.default_rng(seed).normal(size=(n, 16)), 10):
                memory.learn(X, np.arange(len(X)) % 77)
                heads.append(str(memory.head()))
        found["intact"], items = sum(fault(path, head) is None for head in heads), sql(path, [ALL])
        for kind in KINDS * each:
            edited, expected = edit(items, kind, rng, 0 if anchored else 2)
            reported = rewritten(path, edited, *heads[9 : 9 + anchored])
            found[kind] += reported == expected if anchored else reported is not None
    return dict(found)


def proofs(count=10_000, n=10_000, seed=0):
    """Random proofs of both kinds and as many corrupted ones: how often each verifier is right."""
    rng, found = random.Random(seed), Counter()
    ours, theirs, hashes = trees(n, rng)
    for _ in range(count):
        size = rng.randint(1, n)
        place, old, root = rng.randrange(size), rng.randint(1, size), ours.root(size)
        paths = ours.inclusion_proof(place, size), ours.consistency_proof(old, size)
        for word in ("accepted", "corrupted, refused"):
            one = included(theirs, hashes[place], place, size, paths[0], root)
            two = extended((old, ours.root(old)), (size, root), paths[1])
            for name, verdict in zip(VERIFIERS, one + two):
                found[f"{word}: {name}"] += verdict is (word == "accepted")
            paths = [corrupted(path, rng) for path in paths]
    return dict(found)
