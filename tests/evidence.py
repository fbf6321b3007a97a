"""The correction memory under tests that are not ours; `make torture` runs them all.

Edits T1 to T9 of Agent Memory Integrity; AMTB's edits (axis 3); proofs checked by pymerkle and tlog-scales.
"""

import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from agmi.adapters.base import MemoryAdapter, Record
from agmi.attacks.at_rest import AT_REST_ATTACKS_WITH_SNAPSHOT

from ocrrlib import CorrectionMemory
from ocrrlib.database import FIELDS
from ocrrlib.ledger import Fault
from tests.auditor import PUT, corrupted, extended, fault, forged, included, sql, trees

ALL, ONE = "SELECT * FROM entries ORDER BY place", "SELECT * FROM entries WHERE place = ?"
CUT = "DELETE FROM entries WHERE place = ?"
SHIFT = "UPDATE entries SET place = -place - 1 WHERE place >= ?", "UPDATE entries SET place = -place WHERE place < 0"
VERIFIERS = "inclusion, pymerkle", "inclusion, ledger", "consistency, tlog-scales", "consistency, ledger"
WORDS = {"safe": "reported", "VULNERABLE": "accepted", "ERROR": "not landed", "n/a": "failed"}
KINDS = "overwrite", "swap", "delete", "insert", "cut"


class Stored(MemoryAdapter):
    """The file under attackers who hash nothing anew, as in the suite's adapters; if ``anchored``, heads are kept."""

    name, supports_replay, supports_metadata, supports_snapshot = "CorrectionMemory", True, True, True

    def __init__(self, anchored):
        self.anchored = anchored

    def setup(self):
        self.folder, self.heads = Path(tempfile.mkdtemp()), []

    def seed(self, n, context="first"):
        with CorrectionMemory.open(self.folder / context, lambda texts: np.eye(64)[: len(texts)]) as memory:
            numbers = range(len(memory), len(memory) + n)
            memory.learn([f"{context} {i}" for i in numbers], [f"limit {40 + i}" for i in numbers], by=context)
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
    delete_raw = lambda self, seq: sql(self.folder / "first", [CUT, [seq]])
    replay_onto = lambda self, seq, donor: self.write_raw(Record(seq, donor.fields))
    forge_record = lambda self, last: self.mutate_payload(Record(last.seq + 1, last.fields))
    read_meta = lambda self, seq: {"author": self.read_all_raw()[seq].fields["author"]}
    write_meta = lambda self, seq, _: self.write_raw(Record(seq, self.read_all_raw()[seq].fields | {"author": "other"}))
    identity_of = lambda self, record: f"{record.fields['context']} {record.seq}"
    payload_of = lambda self, record: record.fields["text"] + record.fields["label"]
    owner_of = lambda self, record: record.fields["context"]
    snapshot_store = lambda self: shutil.copytree(self.folder, self.folder.with_suffix(".old"))


def integrity(anchored):
    """Verdict on each of Agent Memory Integrity's nine edits, and how it came about."""
    results = [attack().run(Stored(anchored)) for attack in AT_REST_ATTACKS_WITH_SNAPSHOT]
    return {one.attack: f"{WORDS[one.status]}: {one.guard or one.error or one.detail}" for one in results}


def edit(path, kind, n, rng, old=0):
    """Edit a file of ``n`` entries at random, what is new hashed as anybody can; the fault to be reported.

    The newest ``old`` entries are left alone, but for the cut of a tail.
    """
    (place, *one), (other, *two) = (sql(path, [ONE, [at]])[0] for at in rng.sample(range(n - old), 2))
    new = forged(place, one[2], two[8])
    if kind == "overwrite":  # next to the last one, only the head could say which of the two is another
        sql(path, [PUT, new])
        return Fault(0, "forked") if place == n - 1 else Fault(place + (place == n - 2), "changed")
    if kind == "swap":
        sql(path, [PUT, (other, *one)], [PUT, (place, *two)])
        return Fault(min(place, other), "reordered")
    if kind == "delete":
        sql(path, [CUT, [place]])
        return Fault(place, "truncated" if place == n - 1 else "removed")
    if kind == "cut":
        sql(path, [CUT.replace("=", ">="), [place]])
        return Fault(place, "truncated")
    sql(path, [SHIFT[0], [place]], [SHIFT[1]], [PUT, new])
    return Fault(place, "inserted")


def tampering(n=10_000, each=250, seed=0, anchored=True):
    """AMTB, axis 3, and cut tails: edits of an intact ledger, one at a time; how many of each kind are reported.

    If ``anchored``, with a head that was kept elsewhere, and place and kind must be right, too; else the chain alone,
    with edits of old entries.
    """
    rng, found = random.Random(seed), Counter()
    with tempfile.TemporaryDirectory() as folder:
        path, copy, heads = Path(folder, "intact"), Path(folder, "copy"), []
        with CorrectionMemory.open(path) as memory:
            for X in np.array_split(np.random.default_rng(seed).normal(size=(n, 16)), 10):
                memory.learn(X, np.arange(len(X)) % 77)
                heads.append(str(memory.head()))
        found["intact"] = sum(fault(path, head) is None for head in heads)
        for kind in KINDS * each:
            shutil.copy(path, copy)
            expected, reported = edit(copy, kind, n, rng, 0 if anchored else 2), fault(copy, *heads[9 : 9 + anchored])
            found[kind] += reported == expected if anchored else reported is not None
    return dict(found)


def proofs(count=10_000, n=10_000, seed=0):
    """Random proofs of both kinds and as many corrupted ones: how often each verifier is right."""
    rng, found = random.Random(seed), Counter()
    ours, theirs, hashes = trees(n, rng)
    for _ in range(count):
        size = rng.randint(1, n)
        place, old, root = rng.randrange(size), rng.randint(1, size), ours.root(size)
        paths = ours.inclusion(place, size), ours.consistency(old, size)
        for word in ("accepted", "corrupted, refused"):
            one = included(theirs, hashes[place], place, size, paths[0], root)
            two = extended((old, ours.root(old)), (size, root), paths[1])
            for name, verdict in zip(VERIFIERS, one + two):
                found[f"{word}: {name}"] += verdict is (word == "accepted")
            paths = [corrupted(path, rng) for path in paths]
    return dict(found)
