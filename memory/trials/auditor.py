"""A ledger seen from outside: its file edited by SQL, its proofs checked by other libraries.

pymerkle checks inclusion proofs, tlog-scales consistency proofs (pymerkle's are not RFC 6962's).
Suites of other authors: edits T1 to T9 of Agent Memory Integrity, and AMTB's edits (axis 3). `make
torture` runs them whole.
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

from corrigible import Broken, CorrectionMemory
from corrigible.proofs.rows import FIELDS
from corrigible.proofs.tree import Tree, root_from_inclusion_proof, verify_consistency
from corrigible.stores.location import is_address
from ocrrlib.chain import Fault, commitment, entry_hash
from trials.servers import connection

ALL = "SELECT * FROM entries ORDER BY place"
PUT = f"REPLACE INTO entries VALUES (?{10 * ', ?'})"
ADD = f"INSERT INTO entries VALUES (?{10 * ', ?'})"
COPIED: set[str] = set()  # memories on servers that have a copy
VERIFIERS = (  # of proofs
    "inclusion, pymerkle",
    "inclusion, ledger",
    "consistency, tlog-scales",
    "consistency, ledger",
)
# Words for the verdicts of Agent Memory Integrity
WORDS = {"safe": "reported", "VULNERABLE": "accepted", "ERROR": "not landed", "n/a": "failed"}
# Kinds of edits; all but the cut are AMTB's
KINDS = "overwrite", "swap", "delete", "insert", "cut"


def sql(path, *statements):
    """Run statements with their parameters behind a memory, on its file or server.

    Rows of the last one.
    """
    if is_address(path):
        with connection(path) as base:
            for text, *values in statements:
                cursor = base.execute(text.replace("?", "%s"), *values)
        return cursor.fetchall() if cursor.description else []
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("PRAGMA synchronous = OFF")
        for statement in statements:
            found = base.execute(*statement).fetchall()
        return found


def fault(path, *heads):
    """First fault of a file, as it opens or by ``verify``."""
    try:
        with CorrectionMemory.open(path) as memory:
            return memory.verify(*heads)
    except Broken as broken:
        return broken.fault


def letters(texts):
    """Encode texts by how often each of eight letters occurs."""
    return np.array([[1 + text.count(letter) for letter in "acdinprt"] for text in texts], float)


def write(path, texts, key, about=None):
    """Append texts to a file, labelled by their first letter; return the head.

    ``about`` replaces what a new file says about itself.
    """
    CorrectionMemory.open(path, letters).close()
    if about:
        sql(path, ["UPDATE about SET about = ?", [about]])
    with CorrectionMemory.open(path, letters) as memory:
        if texts:
            memory.learn(list(texts), [text[0] for text in texts], by="ana")
        return memory.head(key)


def forged(place, previous, x):
    """Row of an entry that anybody could have hashed."""
    salt = b"s" * 16
    time = 7
    committed = commitment(salt, x, "a")
    hash = entry_hash(place, time, committed, previous)
    return place, time, committed, previous, hash, salt, "a", "", None, x, None


def rewritten(path, items, *heads):
    """Fault of a copy of a memory with these entries; tuples are numbered anew, lists are not.

    On a server, the copy is made by the first call.
    """
    if is_address(path):
        copy = f"{path}copy"
        if path not in COPIED:
            COPIED.add(path)
            CorrectionMemory.open(copy).close()
            sql(copy, ["UPDATE about SET about = ?", sql(path, ["SELECT about FROM about"])[0]])
    else:
        copy = shutil.copy(path, path.with_name("copy"))
    statements = [["DELETE FROM entries"]]
    for place, item in enumerate(items):
        if isinstance(item, tuple):
            item = (place, *item[1:])
        statements.append([ADD, item])
    sql(copy, *statements)
    return fault(copy, *heads)


def trees(n, rng):
    """Our tree and pymerkle's over the same ``n`` random entries, and the hashes of these."""
    entries = [rng.randbytes(rng.randrange(90)) for _ in range(n)]
    hashes = [hashlib.sha256(b"\0" + entry).digest() for entry in entries]
    ours = Tree(hashes)
    theirs = InmemoryTree()
    theirs.append_entries(entries)
    return ours, theirs, hashes


def accepts(check, *ends):
    """Whether another implementation's check raises no error."""
    try:
        check(*ends)
    except (InvalidProof, ConsistencyProofInvalid):
        return False
    return True


def included(tree, hash, place, size, path, root):
    """Whether pymerkle and the ledger accept an inclusion proof.

    pymerkle takes the layout of the proof from a tree of its own.
    """
    rule = tree.prove_inclusion(place + 1, size).rule
    proof = InclusionProof("sha256", True, size, place + 1, rule, [hash, *path])
    theirs = accepts(proof.verify, hash, root)
    ours = root_from_inclusion_proof(hash, place, size, path) == root
    return theirs, ours


def extended(old, new, path):
    """Whether tlog-scales and the ledger accept a consistency proof between two (size, root)."""
    old_size, old_root = old
    size, root = new
    theirs = accepts(ConsistencyProof(old_size, size, list(path)).check, old_root, root)
    ours = verify_consistency(old_size, old_root, size, root, path)
    return theirs, ours


def corrupted(path, rng):
    """Return a proof with a hash changed, removed, doubled or added."""
    at = rng.randint(0, len(path))
    if at == len(path):
        return [*path, rng.randbytes(32)]
    hash = path[at]
    changed = bytes([hash[0] ^ 1 << rng.randrange(8)]) + hash[1:]
    instead = rng.choice([[changed], [], [hash, hash]])
    return [*path[:at], *instead, *path[at + 1 :]]


class Stored(MemoryAdapter):
    """The file under attackers who hash nothing anew, as in the suite's own adapters.

    If ``anchored``, heads are kept elsewhere.
    """

    name = "CorrectionMemory"
    supports_replay = True
    supports_metadata = True
    supports_snapshot = True

    def __init__(self, anchored):
        self.anchored = anchored

    def setup(self):
        self.folder = Path(tempfile.mkdtemp())
        self.heads = []

    def teardown(self):
        shutil.rmtree(self.folder)

    def reload(self):
        """Nothing is kept open."""

    # Genuine use

    def seed(self, n, context="first"):
        def encoder(texts):
            return np.eye(64)[[sum(text.encode()) % 64 for text in texts]]

        with CorrectionMemory.open(self.folder / context, encoder) as memory:
            numbers = range(len(memory), len(memory) + n)
            texts = [f"{context} {i}" for i in numbers]
            memory.learn(texts, [f"limit {40 + i}" for i in numbers], by=context)
            if self.anchored and context == "first":
                self.heads = [str(memory.head())]

    def seed_other(self, n):
        self.seed(n, "other")

    def append_genuine(self):
        self.seed(1)

    def verify(self):
        self.verify_detail = fault(self.folder / "first", *self.heads)
        return self.verify_detail is None

    # What the attackers read

    def read_all_raw(self, context="first"):
        rows = sql(self.folder / context, [ALL])
        return [Record(row[0], dict(zip(FIELDS.split(", "), row), context=context)) for row in rows]

    def read_other_raw(self):
        return self.read_all_raw("other")

    def read_meta(self, seq):
        return {"author": self.read_all_raw()[seq].fields["author"]}

    def identity_of(self, record):
        return f"{record.fields['context']} {record.seq}"

    def payload_of(self, record):
        return record.fields["text"] + record.fields["label"]

    def owner_of(self, record):
        return record.fields["context"]

    # What they write

    def write_raw(self, record):
        values = list(record.fields.values())[1:11]
        sql(self.folder / "first", [PUT, [record.seq, *values]])

    def delete_raw(self, seq):
        sql(self.folder / "first", ["DELETE FROM entries WHERE place = ?", [seq]])

    def mutate_payload(self, record):
        return Record(record.seq, record.fields | {"label": "limit 999"})

    def forge_record(self, last):
        return self.mutate_payload(Record(last.seq + 1, last.fields))

    def replay_onto(self, seq, donor):
        self.write_raw(Record(seq, donor.fields))

    def write_meta(self, seq, _):
        fields = self.read_all_raw()[seq].fields | {"author": "other"}
        self.write_raw(Record(seq, fields))

    def snapshot_store(self):
        return shutil.copytree(self.folder, self.folder.with_suffix(".old"))

    def restore_store(self, token):
        shutil.rmtree(self.folder)
        shutil.move(token, self.folder)


def integrity(anchored):
    """Verdict on each of Agent Memory Integrity's nine edits, and how it came about."""
    verdicts = {}
    for attack in AT_REST_ATTACKS_WITH_SNAPSHOT:
        one = attack().run(Stored(anchored))
        verdicts[one.attack] = f"{WORDS[one.status]}: {one.guard or one.error or one.detail}"
    return verdicts


def edit(items, kind, rng, old=0):
    """Edit entries at random; return them and the fault to be reported.

    New entries are hashed as anybody can. The newest ``old`` entries are left alone, but for the
    cut of a tail.
    """
    place, other = rng.sample(range(len(items) - old), 2)
    before = items[:place]
    after = items[place + 1 :]
    new = forged(place, items[place][3], items[other][9])
    if kind == "overwrite":
        if not after:  # the chain holds
            return [*before, new], Fault(0, "forked")
        return [*before, new, *after], Fault(place + 1, "changed")  # it does not follow the new one
    if kind == "swap":
        swapped = list(items)
        swapped[place] = items[other]
        swapped[other] = items[place]
        return swapped, Fault(min(place, other), "changed")
    if kind == "insert":
        return [*before, new, items[place], *after], Fault(place + 1, "changed")
    if kind == "cut":
        return before, Fault(place, "truncated")
    kept = [list(item) for item in before + after]
    return kept, Fault(place, "changed" if after else "truncated")


def tampering(n=10_000, each=250, seed=0, anchored=True):
    """Count the reported edits of each kind: AMTB, axis 3, and cut tails, one edit at a time.

    If ``anchored``, a head was kept elsewhere, and place and kind must be right, too; else the
    chain is alone, and edits are of old entries.
    """
    rng = random.Random(seed)
    found = Counter()
    heads = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "intact")
        with CorrectionMemory.open(path) as memory:
            for X in np.array_split(np.random.default_rng(seed).normal(size=(n, 16)), 10):
                memory.learn(X, np.arange(len(X)) % 77)
                heads.append(str(memory.head()))
        found["intact"] = sum(fault(path, head) is None for head in heads)
        items = sql(path, [ALL])
        known = heads[-1:] if anchored else []
        for kind in KINDS * each:
            edited, expected = edit(items, kind, rng, old=0 if anchored else 2)
            reported = rewritten(path, edited, *known)
            if anchored:
                found[kind] += reported == expected
            else:
                found[kind] += reported is not None
    return dict(found)


def proofs(count=10_000, n=10_000, seed=0):
    """Count how often each verifier is right on proofs of both kinds, corrupted ones, too."""
    rng = random.Random(seed)
    found = Counter()
    ours, theirs, hashes = trees(n, rng)
    for _ in range(count):
        size = rng.randint(1, n)
        place = rng.randrange(size)
        old = rng.randint(1, size)
        root = ours.root(size)
        inclusion = ours.inclusion_proof(place, size)
        consistency = ours.consistency_proof(old, size)
        for word in ("accepted", "corrupted, refused"):
            verdicts = included(theirs, hashes[place], place, size, inclusion, root)
            verdicts += extended((old, ours.root(old)), (size, root), consistency)
            for name, verdict in zip(VERIFIERS, verdicts):
                found[f"{word}: {name}"] += verdict is (word == "accepted")
            inclusion = corrupted(inclusion, rng)
            consistency = corrupted(consistency, rng)
    return dict(found)
