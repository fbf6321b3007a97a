"""The append-only ledger: a hash chain, a Merkle tree over it, proofs, and signed heads.

The chain (paper, section 4.3) binds each entry to the one before. The tree (RFC 6962, RFC 9162) has the same entry
hashes as leaves, so that short proofs show that an entry is in a ledger, or that a ledger extends an older one. Both
prove nothing about a cut tail or a complete rewrite without a *head* (size and root) that was kept elsewhere. Heads
are C2SP checkpoints, signed with Ed25519 (c2sp.org/tlog-checkpoint, signed-note, tlog-cosignature, tlog-proof).
"""

import base64
import json
import re
import secrets
import struct
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ocrrlib.files import InputError, write_text

_entry, _length = struct.Struct("<7sQq").pack, struct.Struct("<I").pack
SIGNATURE, COSIGNATURE = 1, 4  # types of keys in C2SP's signed notes
PROOF = "c2sp.org/tlog-proof@v1"
WORDS = "label", "author", "text"


def commitment(salt, x, label, author="", text=None):
    """SHA-256 of an entry's content; once ``salt`` and content are erased, it reveals nothing about them.

    Encoded as: ``salt`` (bytes), length of ``x`` in bytes (uint32, little-endian), ``x`` (float32 each,
    little-endian), and ``label``, ``author`` and ``text``, if there is one, in UTF-8, separated by zero bytes.
    """
    words = f"{label}\0{author}" if text is None else f"{label}\0{author}\0{text}"
    return sha256(b"".join((salt, _length(len(x)), x, words.encode()))).digest()


def entry_hash(place, time, committed, previous):
    """Hash of an entry, as RFC 6962 hashes a leaf.

    SHA-256 over a zero byte and the entry: ``b"OCRR2 "``, place (uint64), time (int64, microseconds since 1970, UTC),
    all little-endian, commitment to the content, hash of the entry before (32 bytes each).
    """
    return sha256(_entry(b"\0OCRR2 ", place, time) + committed + previous).digest()


class Fault(NamedTuple):
    """The first broken entry."""

    position: int
    kind: str  # changed, removed (just before), inserted, reordered, truncated (before the head), forked (off the head)

    def __str__(self):
        return f"entry {self.position}: {self.kind}"


# The tree


def _node(left, right):
    return sha256(b"\1" + left + right).digest()


def _way(place, size, old=None):
    """From a leaf, or the subtree around it that ends at ``old``, up to the root: it and its siblings."""
    start, stop, siblings = 0, size, []
    while stop - start > 1 and stop != old:
        middle = start + (1 << (stop - start - 1).bit_length() - 1)
        siblings.append((middle, stop) if place < middle else (start, middle))
        start, stop = (start, middle) if place < middle else (middle, stop)
    return [(start, stop), *siblings[::-1]]


def _fold(hash, place, siblings, path, left=False):
    """The root above a subtree around a place, from all siblings or those to its left; None if there are others."""
    if len(siblings) != len(path):
        return None
    for (_, stop), other in zip(siblings, path):
        if stop <= place:
            hash = _node(other, hash)
        elif not left:
            hash = _node(hash, other)
    return hash


class Tree:
    """Merkle tree over entry hashes (RFC 6962, section 2.1). It keeps all perfect subtrees: 64 bytes an entry."""

    def __init__(self):
        self._levels = [bytearray() for _ in range(64)]

    def __len__(self):
        return len(self._levels[0]) // 32

    def extend(self, hashes):
        """Append leaves."""
        self._levels[0] += b"".join(hashes)

    def _grow(self):
        """Hash the subtrees that new leaves completed; amortised constant time for each leaf."""
        for below, above in pairwise(self._levels):
            if not (pairs := range(2 * len(above), len(below) // 64 * 64, 64)):
                break
            above += b"".join([sha256(b"\1" + below[at : at + 64]).digest() for at in pairs])

    def root(self, stop, start=0):
        """Root of the first ``stop`` leaves, or of those from ``start`` on, where a subtree starts."""
        self._grow()
        if not (size := stop - start):
            return sha256().digest()
        level = size.bit_length() - 1
        if size == 1 << level:
            at = 32 * (start >> level)
            return bytes(self._levels[level][at : at + 32])
        middle = start + (1 << level)
        return _node(self.root(middle, start), self.root(stop, middle))

    def inclusion(self, place, size):
        """Proof that the leaf at ``place`` is in the tree of the first ``size``: O(log n) hashes, in O(log n) time."""
        return [self.root(stop, start) for start, stop in _way(place, size)[1:]]

    def consistency(self, old, size):
        """Proof that the tree of the first ``size`` leaves extends that of the first ``old``, likewise."""
        way = _way(old - 1, size, old) if old else []
        return [self.root(stop, start) for start, stop in way if (start, stop) != (0, old)]


def root_of(hash, place, size, path):
    """The root that an inclusion proof leads to from an entry's hash; None if the proof is of another length."""
    return _fold(hash, place, _way(place, size)[1:], path) if place < size else None


def extends(old, new, path):
    """Whether a consistency proof shows that the head ``new`` extends the head ``old``."""
    if not 0 < old.size < new.size:
        return not path and (not old.size or (old.size, old.root) == (new.size, new.root))
    ((start, _), *siblings), place = _way(old.size - 1, new.size, old.size), old.size - 1
    first, *path = (path or [b""]) if start else [old.root, *path]
    return [_fold(first, place, siblings, path, left) for left in (True, False)] == [old.root, new.root]


# Heads


def _b64(content):
    return base64.b64encode(content).decode()


def _unb64(text):
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise InputError(f"{text!r} is not in base64: give the whole text") from error


class Key(NamedTuple):
    """An Ed25519 key with a name; ``private`` is empty in a verifier's."""

    name: str
    kind: int  # SIGNATURE or COSIGNATURE
    public: bytes
    private: bytes = b""

    @classmethod
    def new(cls, name, kind=SIGNATURE, seed=None):
        if not re.fullmatch(r"[^\s+]+", name):
            raise InputError(f"{name!r} is no name of a key: leave out spaces and +")
        seed = seed or secrets.token_bytes(32)
        return cls(name, kind, Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw(), seed)

    @classmethod
    def read(cls, text):
        """A key from its text; ``InputError`` if that is none."""
        with suppress(ValueError, IndexError):
            name, id, content = text.strip().removeprefix("PRIVATE+KEY+").split("+", 2)
            kind, material = (content := _unb64(content))[0], content[1:]
            key = cls.new(name, kind, material) if text.startswith("PRIVATE") else cls(name, kind, material)
            if kind in (SIGNATURE, COSIGNATURE) and len(key.public) == 32 and key.id.hex() == id:
                return key
        raise InputError("no Ed25519 key: give name+hash+key, or PRIVATE+KEY+name+hash+key, as in C2SP's signed notes")

    @property
    def id(self):
        return sha256(self.name.encode() + b"\n" + bytes([self.kind]) + self.public).digest()[:4]

    @property
    def public_text(self):
        """The verifier's key as text, to be given away."""
        return f"{self.name}+{self.id.hex()}+{_b64(bytes([self.kind]) + self.public)}"

    @property
    def private_text(self):
        """The signer's key as text, to be kept secret."""
        return f"PRIVATE+KEY+{self.name}+{self.id.hex()}+{_b64(bytes([self.kind]) + self.private)}"


class Head(NamedTuple):
    """Size and Merkle root of a ledger at a time; as text, a C2SP checkpoint, with its signatures."""

    origin: str
    size: int
    root: bytes
    time: str
    signatures: tuple = ()  # lines

    @classmethod
    def read(cls, text):
        """A head from its text; ``InputError`` if that is none."""
        lines = r"(.+)\n(0|[1-9][0-9]{0,18})\n([A-Za-z0-9+/]{43}=)\ntime (\S+)(\n(\n— \S+ \S+)+)?"
        if not (found := re.fullmatch(lines, str(text).strip())):
            raise InputError("no head: give the text of one, with its lines of origin, size, root, time and signatures")
        return cls(found[1], int(found[2]), _unb64(found[3]), found[4], tuple((found[5] or "").splitlines()[2:]))

    @property
    def body(self):
        return f"{self.origin}\n{self.size}\n{_b64(self.root)}\ntime {self.time}\n"

    def __str__(self):
        return self.body + "\n" + "".join(f"{line}\n" for line in self.signatures)

    def _message(self, stamp):
        """What is signed: the body, in a cosignature under its own time, ``stamp``."""
        return (f"cosignature/v1\ntime {int.from_bytes(stamp)}\n" if stamp else "").encode() + self.body.encode()

    def signed(self, key):
        """This head with one more signature."""
        if not key.private:
            raise InputError(f"the key {key.name} is a verifier's: give the one that begins with PRIVATE+KEY")
        stamp = b"" if key.kind == SIGNATURE else int(datetime.now(UTC).timestamp()).to_bytes(8)
        signature = Ed25519PrivateKey.from_private_bytes(key.private).sign(self._message(stamp))
        return self._replace(signatures=(*self.signatures, f"— {key.name} {_b64(key.id + stamp + signature)}"))

    def check(self, keys):
        """Raise ``InputError`` unless every one of the keys has signed this head."""
        for key in keys:
            public = Ed25519PublicKey.from_public_bytes(key.public)
            for line in self.signatures:
                with suppress(InvalidSignature, ValueError):
                    content = _unb64(line.removeprefix(f"— {key.name} "))
                    if content[:4] == key.id:
                        public.verify(content[-64:], self._message(content[4:-64]))
                        break
            else:
                raise InputError(f"the head of {self.origin} is not signed by {key.name}: do not trust it")


def proof(entry, path, head):
    """Text of a proof of inclusion (C2SP tlog-proof), with the fields of an entry, bytes in hexadecimal digits."""
    extra = _b64(json.dumps(entry).encode())
    return "\n".join([PROOF, f"extra {extra}", f"index {entry['place']}", *map(_b64, path), "", str(head)])


def proven(text, keys=()):
    """The fields of an entry and the head that a proof of inclusion shows to belong together.

    Raises ``InputError`` if it shows nothing, or if not every one of the keys has signed the head.
    """
    lines, _, head = text.partition("\n\n")
    (head := Head.read(head)).check(keys)
    with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error):
        tag, extra, index, *path = lines.splitlines()
        entry = json.loads(_unb64(extra.removeprefix("extra ")))
        names = "place", "time", "commitment", "previous", *(("salt", "x", *WORDS) if "salt" in entry else ())
        entry = {name: entry[name] for name in names if name in entry}  # all else is not proven
        committed, previous, *content = (bytes.fromhex(entry[name]) for name in names[2:6] if name in entry)
        fits = not content or commitment(*content, *map(entry.get, WORDS)) == committed
        hash = entry_hash(entry["place"], entry["time"], committed, previous)
        fits &= head.root == root_of(hash, entry["place"], head.size, list(map(_unb64, path)))
        if fits and (tag, index) == (PROOF, f"index {entry['place']}"):
            return entry | {"hash": hash.hex()}, head
    raise InputError("the proof shows nothing: entry, hashes and head do not fit each other")


def request(old, path, head):
    """Text that asks a witness to cosign a head that extends one of size ``old``, with proof (C2SP tlog-witness)."""
    return "\n".join([f"old {old}", *map(_b64, path), "", str(head)])


def witness(text, state, key, keys=()):
    """Cosign a head that extends the last one seen, which the file ``state`` holds, and note it there.

    Without that file the head is the first one seen. Returns it with a cosignature by ``key``, or a ``Fault`` if it
    contradicts the last one. Raises ``InputError`` if the request is about another one, or not signed by ``keys``.
    """
    lines, _, head = text.partition("\n\n")
    (head := Head.read(head)).check(keys)
    if Path(state).exists():
        last, (old, *path) = Head.read(Path(state).read_text("utf-8")), lines.splitlines() or [""]
        if (last.origin, f"old {last.size}") != (head.origin, old) or last.size > head.size:
            raise InputError(f"the last head seen is of {last.origin} with {last.size} entries: prove from that one on")
        if not extends(last, head, list(map(_unb64, path))):
            return Fault(last.size, "forked")
    write_text(state, str(head))
    return head.signed(key)
