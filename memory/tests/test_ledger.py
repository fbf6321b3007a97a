"""The ledger: chain, tree, proofs, heads, witnesses; a file's faults, named by place."""

import base64
import hashlib
import json
import shutil
import struct
from contextlib import suppress
from functools import partial
from math import ceil, log2
from secrets import token_hex
from types import SimpleNamespace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from entries import rows
from hypothesis import assume, given
from hypothesis import strategies as st
from tlog_scales.signing import NoteSignature, Vkey

from corrigible import COSIGNATURE, CorrectionMemory, Head, Key, proven, request, verify, witness
from corrigible.proofs.proofs import proof_text
from corrigible.proofs.rows import FIELDS
from corrigible.proofs.tree import Tree
from corrigible.stores.location import is_address
from ocrrlib.chain import Fault, Ledger, commitment, entry_hash
from ocrrlib.files import InputError
from trials.auditor import (
    ALL,
    corrupted,
    extended,
    fault,
    forged,
    included,
    integrity,
    rewritten,
    sql,
    trees,
    write,
)

D = 6
N = 9  # entries in the file
ERASED = 1
TOMBSTONE = 4  # the entry that says so
LOG = Key.new("log", seed=bytes(32))
WITNESS = Key.new("witness", COSIGNATURE, seed=bytes(32))
OTHER = Key.new("other", seed=bytes(32))
# Leaves of certificate transparency's reference implementation, and its roots of the first 1 to 8
INPUTS = (
    "",
    "00",
    "10",
    "2021",
    "3031",
    "40414243",
    "5051525354555657",
    "606162636465666768696a6b6c6d6e6f",
)
ROOTS = """6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d
fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125
aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77
d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7
4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4
76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef
ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c
5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"""
places = st.integers(0, 10**6)
hashes = st.binary(min_size=32, max_size=32)


def test_an_entry_is_hashed_with_the_one_before_in_a_canonical_encoding():
    X = rows(5, D, 0)
    y = np.array([2, 0, 13, 1, 0])
    ledger = Ledger(X[:3], y[:3])
    for x, label in zip(X[3:], y[3:].tolist()):
        ledger.append(x, label)
    previous = bytes(32)
    for place, (x, label) in enumerate(zip(X, y.tolist())):
        content = hashlib.sha256(struct.pack(f"<I{D}f", 4 * D, *x) + f"{label}\0".encode()).digest()
        previous = hashlib.sha256(
            b"\0OCRR2 " + struct.pack("<Qq", place, 0) + content + previous
        ).digest()
        assert ledger.hashes[place] == previous
    assert ledger.nbytes == 5 * (4 * D + 3 * 8 + 2 * 32)


def test_a_ledger_in_memory_names_its_first_broken_entry():
    ledger = Ledger(rows(5, D, 0), np.array([2, 0, 13, 1, 0]))
    ledger.append(rows(1, D, 1)[0], 7)
    assert ledger.verify() is None
    newest = ledger.hashes.pop()
    assert ledger.verify() == Fault(5, "inserted")
    ledger.hashes += [newest, newest]
    assert ledger.verify() == Fault(6, "truncated")
    ledger.hashes[5] = bytes(32)
    assert ledger.verify() == Fault(5, "changed")
    ledger.y[4] = 1
    assert ledger.verify() == Fault(4, "changed")
    ledger.X[3, 0] += 2.0**-24
    assert ledger.verify() == Fault(3, "changed")


def test_roots_are_those_of_certificate_transparency():
    tree = Tree()
    for leaf in INPUTS:  # one at a time
        tree.leaves += hashlib.sha256(b"\0" + bytes.fromhex(leaf)).digest()
    assert [tree.root(size).hex() for size in range(1, 9)] == ROOTS.split()


@given(n=st.integers(1, 99), place=places, rng=st.randoms(use_true_random=False))
def test_inclusion_proofs_are_short_and_hold_for_another_implementation_unless_corrupted(
    n, place, rng
):
    ours, theirs, leaves = trees(n + 3, rng)
    place %= n
    leaf = leaves[place]
    root = ours.root(n)
    proof = ours.inclusion_proof(place, n)
    assert len(proof) <= ceil(log2(n))
    assert included(theirs, leaf, place, n, proof, root) == (True, True)
    other = rng.randbytes(32)
    wrong = corrupted(proof, rng)
    assert included(theirs, leaf, place, n, wrong, root) == (False, False)
    assert included(theirs, other, place, n, proof, root) == (False, False)
    assert included(theirs, leaf, place, n, proof, other) == (False, False)


@given(n=st.integers(1, 99), old=places, rng=st.randoms(use_true_random=False))
def test_consistency_proofs_are_short_and_hold_for_another_implementation_unless_corrupted(
    n, old, rng
):
    tree, _, _ = trees(n + 3, rng)
    old = 1 + old % n
    old_root = tree.root(old)
    root = tree.root(n)
    proof = tree.consistency_proof(old, n)
    assert len(proof) <= ceil(log2(n)) + 1
    assert extended((old, old_root), (n, root), proof) == (True, True)
    other = rng.randbytes(32)
    wrong = corrupted(proof, rng)
    assert extended((old, old_root), (n, root), wrong) == (False, False)
    assert extended((old, other), (n, root), proof) == (False, False)
    assert extended((old, root), (n, other), proof) == (False, False)


@pytest.mark.parametrize("key", [LOG, WITNESS], ids=["signature", "cosignature"])
def test_heads_and_keys_are_c2sp_notes_that_other_implementations_read(key):
    head = Head("log", 7, bytes(range(32)), "2026-11-25T10:00:00Z").signed(OTHER).signed(key)
    assert Head.read(str(head)) == head
    assert str(head).startswith(head.body + "\n— other ")
    assert Key.read(key.private_text) == key
    assert Key.read(key.public_text) == key._replace(private=b"")
    theirs = Vkey.from_string(key.public_text)
    line = NoteSignature.from_line(head.signatures[1])
    id = hashlib.sha256(f"{key.name}\n".encode() + bytes([key.kind]) + key.public).digest()[:4]
    assert theirs.match(line)
    assert key.id == id == line.key_id.to_bytes(4)
    theirs.get_verifier().verify(line.payload, SimpleNamespace(serialize_body=lambda: head.body))
    if key is LOG:
        Ed25519PublicKey.from_public_bytes(key.public).verify(line.payload, head.body.encode())
    head.check([key, OTHER])


@pytest.mark.parametrize(
    "text",
    ["", "log", "log+00000000+AQ==", LOG.public_text.replace("+", "s+", 1), "PRIVATE+KEY+"],
)
def test_what_is_no_key_is_refused(text):
    with pytest.raises(InputError, match="no Ed25519 key"):
        Key.read(text)


@given(at=places, letter=st.characters(codec="utf-8"), key=st.sampled_from([LOG, WITNESS]))
def test_an_altered_head_is_refused(at, letter, key):
    head = Head("log", 70, bytes(range(32)), "2026-11-25T10:00:00Z").signed(key)
    at %= len(head.body)
    assume(head.body[at] != letter)
    altered = head.body[:at] + letter + head.body[at + 1 :] + str(head)[len(head.body) :]
    with pytest.raises(InputError, match="no head|not signed"):
        Head.read(altered).check([key])


@pytest.mark.parametrize("key", [LOG, WITNESS], ids=["signature", "cosignature"])
def test_a_head_that_another_key_signed_is_refused(key):
    head = Head("log", 70, bytes(range(32)), "2026-11-25T10:00:00Z").signed(key)
    others = [
        Key.new(key.name, key.kind),
        key._replace(name="other"),
        key._replace(kind=5 - key.kind),
    ]
    for other in others:
        with pytest.raises(InputError, match="not signed"):
            head.check([other])


def test_every_head_is_checked_by_all_keys_in_whichever_form_they_come(tmp_path):
    path = tmp_path / "log"
    signed = write(path, "abc", LOG)
    unsigned = write(path, "d", None)
    assert verify(path, signed, keys=iter([LOG])) is None
    for keys in ([LOG], (key for key in [LOG]), {LOG}):
        with pytest.raises(InputError, match="not signed"):
            verify(path, signed, unsigned, keys=keys)
    for door in (signed.check, lambda keys: verify(path, signed, keys=keys)):
        with pytest.raises(InputError, match="list"):
            door(LOG)


@pytest.mark.parametrize("name", ["PRIVATE", "PRIVATE-desk", "PRIVATE.key"])
def test_a_key_may_have_any_printable_name(name):
    key = Key.new(name)
    assert Key.read(key.private_text) == key
    assert Key.read(key.public_text) == key._replace(private=b"")


def test_what_is_no_text_is_refused(tmp_path):
    write(tmp_path / "log", "abc", LOG)
    doors = [Head.read, Key.read, proven, lambda text: verify(tmp_path / "log", text)]
    doors.append(lambda text: witness(text, tmp_path / "state", WITNESS))
    for door in doors:
        for other in (b"log", tmp_path / "log", None, 5):
            with pytest.raises(InputError, match="no text"):
                door(other)


def test_a_witness_cosigns_what_extends_the_last_head_seen_and_names_a_fork(tmp_path):
    state = tmp_path / "state"
    empty = write(tmp_path / "log", "", LOG)
    old = write(tmp_path / "log", "abc", LOG)
    about = sql(tmp_path / "log", ["SELECT about FROM about"])[0][0]
    write(tmp_path / "fork", "abcde", LOG, about=about)
    write(tmp_path / "foreign", "abcde", LOG)
    ask = partial(witness, state=state, key=WITNESS, keys=[LOG])
    with (
        CorrectionMemory.open(tmp_path / "log") as memory,
        CorrectionMemory.open(tmp_path / "fork") as fork,
        CorrectionMemory.open(tmp_path / "foreign") as foreign,
    ):
        ask(memory.prove_extension(empty, LOG)).check([LOG, WITNESS])
        assert Head.read(state.read_text()).root == old.root
        memory.forget(0)
        cosigned = ask(memory.prove_extension(old, LOG))
        noted = state.read_text()
        assert cosigned.size == Head.read(noted).size == 4
        refused = {
            "": "no head",
            f"old x\n\n{noted}": "last head seen",
            memory.prove_extension(old, LOG): "last head seen",  # it is stale
            memory.prove_extension(noted): "not signed",
            foreign.prove_extension(foreign.head(), LOG): "last head seen",
        }
        for text, why in refused.items():
            with pytest.raises(InputError, match=why):
                ask(text)
        with pytest.raises(InputError, match="does not fit"):  # this may be damage
            ask(request(4, [], fork.head(LOG)))
        write(tmp_path / "log", "d", LOG)
        cosigned = ask(memory.prove_extension(noted, LOG))
        noted = state.read_text()
        assert cosigned.size == len(fork) == 5
        assert ask(request(4, [], fork.head(LOG))) == Fault(5, "forked")
        assert state.read_text() == noted
        with pytest.raises(InputError, match="does not extend"):
            fork.prove_extension(noted)


@pytest.fixture(scope="module", params=["file", pytest.param("server", marks=pytest.mark.slow)])
def intact(request, tmp_path_factory):
    """A memory with its entries and heads, in a file or on a server."""
    if request.param == "file":
        path = tmp_path_factory.mktemp("ledger") / "intact"
    else:
        path = f"{request.getfixturevalue('server')}#{token_hex(8)}"
    heads = [write(path, ["abc", "bcd", "add", "fee"], LOG)]
    with CorrectionMemory.open(path) as memory:
        memory.forget(ERASED, by="ana")
        heads.append(memory.head())
    heads.append(write(path, ["cab", "dad", "fab", "bee"], LOG))
    return SimpleNamespace(path=path, heads=heads, items=sql(path, [ALL]))


in_a_file = pytest.mark.parametrize("intact", ["file"], indirect=True)


@given(place=st.integers(0, N - 1), at=places, letter=st.sampled_from("0aZ+/=\n, {}—"))
def test_a_proof_shows_an_entry_erased_or_not_and_nothing_once_altered(intact, place, at, letter):
    with CorrectionMemory.open(intact.path) as memory:
        text = memory.prove_entry(place, LOG)
        entry = memory.entry(place)
    found, head = proven(text, [LOG])
    assert found == entry
    assert ("label" in entry) == (place != ERASED)
    at %= len(text)
    with suppress(InputError):  # or it says the same, or less
        again, other = proven(text[:at] + letter + text[at + 1 :], [LOG])
        assert again.items() <= entry.items()
        assert other.body == head.body


def edited_proof(proof, **fields):
    """A proof with other fields of the entry."""
    lines = proof.splitlines(keepends=True)
    entry = json.loads(base64.b64decode(lines[1].removeprefix("extra ")))
    encoded = base64.b64encode(json.dumps(entry | fields).encode()).decode()
    return "".join([lines[0], f"extra {encoded}\n", *lines[2:]])


@pytest.mark.parametrize(
    "edit, why",
    [
        (lambda text: text.replace("tlog-proof", "tlog"), "not a proof"),
        (lambda text: text.replace("extra ", "extra ="), "damaged"),
        (lambda text: edited_proof(text, place="2"), "damaged"),
        (lambda text: text.replace("index 2", "index 3"), "index"),
        (lambda text: edited_proof(text, label="other"), "commitment"),
        (lambda text: edited_proof(text, label="a\0ana", author="add", text=None), "commitment"),
        (lambda text: edited_proof(text, place=99).replace("index 2", "index 99"), "entries only"),
        (lambda text: edited_proof(text, time=1), "do not fit"),
    ],
)
def test_a_proof_that_shows_nothing_says_why(intact, edit, why):
    with CorrectionMemory.open(intact.path) as memory:
        text = memory.prove_entry(2, LOG)
    assert proven(text)[0]["text"] == "add"
    with pytest.raises(InputError, match=f"shows nothing, .*{why}"):
        proven(edit(text))


def proof_of(entry, committed):
    """A proof of the only entry of a ledger, and of what it commits to."""
    hash = entry_hash(0, 1, committed, bytes(32))
    head = Head("log", 1, hash, "2026-11-25T10:00:00Z").signed(LOG)
    link = {"place": 0, "time": 1, "commitment": committed.hex(), "previous": "00" * 32}
    return proof_text(link | entry, [], head)


@pytest.mark.parametrize(
    "fields",
    [
        {"text": True},
        {"label": None},
        {"author": 1},
        {"text": ["a"]},
        {"place": False},
        {"time": True},
        {"time": 1.0},
    ],
)
def test_a_proof_with_values_of_other_types_shows_nothing(fields):
    entry = {"salt": b"s" * 16, "x": bytes(8), "label": "None", "author": "1", "text": "True"}
    if fields.get("text") == ["a"]:
        entry["text"] = "['a']"
    committed = commitment(**entry)
    entry |= {"salt": entry["salt"].hex(), "x": entry["x"].hex()}
    assert proven(proof_of(entry, committed), [LOG])[0].items() >= entry.items()
    text = proof_of(entry | fields, committed).replace("index False", "index 0")
    with pytest.raises(InputError, match="shows nothing"):
        proven(text, [LOG])


@pytest.mark.parametrize("start", [12, 20, 24], ids="salt of {} bytes".format)
def test_no_proof_shows_another_content_of_an_entry_whatever_its_vector_says(start):
    # Wherever a reader believes that the salt ends, a length and another content follow.
    x = struct.pack("<I", 4) * 2 + bytes(4) + b"pay \0bob\0at once    "
    words = "honest\0ana\0text"
    salt = b"s" * 12 + struct.pack("<I", 4)
    committed = commitment(salt, x, *words.split("\0"))
    content = salt + struct.pack("<I", len(x)) + x + words.encode()
    honest = {"salt": salt.hex(), "x": x.hex(), "label": "honest", "author": "ana", "text": "text"}
    assert proven(proof_of(honest, committed), [LOG])[0]["label"] == "honest"
    length = int.from_bytes(content[start : start + 4], "little")
    end = start + 4 + length
    label, author, text = content[end:].decode().split("\0", 2)
    other = {
        "salt": content[:start].hex(),
        "x": content[start + 4 : end].hex(),
        "label": label,
        "author": author,
        "text": text,
    }
    with pytest.raises(InputError, match="shows nothing"):
        proven(proof_of(other, committed), [LOG])


@pytest.mark.parametrize("salt, x", [(16, 7), (16, 1), (12, 8), (20, 8)])
def test_an_entry_of_other_sizes_is_named_though_all_hashes_fit(intact, salt, x):
    content = {"salt": bytes(salt), "x": b"x" * x, "label": "a", "author": "", "text": None}
    committed = commitment(**content)
    previous = intact.items[-1][4]
    time = intact.items[-1][1] + 1
    hash = entry_hash(N, time, committed, previous)
    columns = [content[name] for name in ("salt", "label", "author", "text", "x")]
    row = (N, time, committed, previous, hash, *columns, None)
    assert rewritten(intact.path, [*intact.items, row]) == Fault(N, "changed")
    entry = content | {"salt": content["salt"].hex(), "x": content["x"].hex()}
    with pytest.raises(InputError, match="shows nothing"):
        proven(proof_of(entry, committed), [LOG])


def test_a_proof_that_lost_a_part_of_its_content_shows_nothing(intact):
    with CorrectionMemory.open(intact.path) as memory:
        text = memory.prove_entry(2, LOG)
    with pytest.raises(InputError, match="shows nothing"):
        proven(edited_proof(text, salt=None))


@given(place=st.integers(0, N - 1), column=st.integers(1, 10), data=st.data())
def test_a_changed_value_is_named(intact, place, column, data):
    name = FIELDS.split(", ")[column]
    if name == "time":
        values = st.integers(-(2**63), 2**63 - 1)
    elif name in ("label", "author", "text", "act"):
        values = st.text(max_size=9)
    else:
        values = hashes | st.binary(max_size=24)
    if column > 4:  # it may be NULL
        values = st.none() | values
    value = data.draw(values)
    assume(value != intact.items[place][column])
    assume(not (is_address(intact.path) and isinstance(value, str) and "\0" in value))
    items = [list(item) for item in intact.items]
    items[place][column] = value
    assert rewritten(intact.path, items) == Fault(place, "changed")


@pytest.mark.parametrize("place", sorted({*range(N)} - {ERASED, TOMBSTONE}))
def test_an_erasure_without_a_tombstone_is_named(intact, place):
    items = [list(item) for item in intact.items]
    items[place][5:] = [None] * 6
    assert rewritten(intact.path, items) == Fault(place, "changed")


@in_a_file
@pytest.mark.parametrize("column", ["time", "commitment", "previous", "hash", "x"])
def test_a_value_of_another_type_is_named(intact, column):
    path = shutil.copy(intact.path, intact.path.with_name("types"))
    schema = "UPDATE sqlite_master SET sql = "
    sql(path, ["PRAGMA writable_schema = ON"], [f"{schema} replace(sql, ') STRICT', ')')"])
    sql(path, [f"UPDATE entries SET {column} = 1.5 WHERE place = 2"])
    sql(path, ["PRAGMA writable_schema = ON"], [f"{schema} sql || ' STRICT'"])
    assert fault(path) == Fault(2, "changed")


@given(place=st.integers(0, N - 2), count=st.integers(1, N), numbered=st.booleans())
def test_the_place_of_removed_entries_is_named_renumbered_or_not(intact, place, count, numbered):
    kind = list if numbered else tuple
    items = [kind(item) for item in intact.items]
    kept = items[:place] + items[min(place + count, N - 1) :]
    assert rewritten(intact.path, kept) == Fault(place, "changed")


@given(place=st.integers(0, N - 1), other=st.integers(0, N - 1))
def test_a_copied_entry_is_named(intact, place, other):
    items = intact.items[:place] + [intact.items[other]] + intact.items[place:]
    position = place + 1 if place == other else place  # of two equal ones the second
    assert rewritten(intact.path, items) == Fault(position, "changed")


@given(place=st.integers(0, N - 1), other=st.integers(0, N - 1), link=hashes, how=st.integers(0, 2))
def test_an_inserted_entry_or_the_next_is_named_with_whichever_link_it_was_hashed(
    intact, place, other, link, how
):
    items = intact.items
    previous = [link, items[other][4], items[place][3]][how]
    new = forged(place, previous, items[0][9])
    inserted = items[:place] + [new] + items[place:]
    follows = previous == items[place][3]  # then the next one does not
    assert rewritten(intact.path, inserted) == Fault(place + follows, "changed")


@given(st.permutations(range(N)))
def test_the_first_entry_out_of_order_is_named(intact, order):
    moved = [place for place in range(N) if order[place] != place]
    expected = Fault(moved[0], "changed") if moved else None
    items = [intact.items[place] for place in order]
    assert rewritten(intact.path, items, *intact.heads) == expected


@given(
    size=st.sampled_from(sorted({*range(N)} - {*range(ERASED + 1, TOMBSTONE + 1)})),
    more=st.integers(0, N),
)
def test_a_cut_tail_and_a_rewrite_are_named_by_heads_kept_elsewhere_alone(intact, size, more):
    items = intact.items[:size]
    x = intact.items[0][9]
    for place in range(size, size + more):
        previous = items[-1][4] if items else intact.items[0][3]
        items.append(forged(place, previous, x))
    assert rewritten(intact.path, items) is None
    heads = [head.size for head in intact.heads]
    expected = Fault(max([0, *(head for head in heads if head <= size)]), "forked")
    if size + more < min(head for head in heads if head > size):
        expected = Fault(size + more, "truncated")
    assert rewritten(intact.path, items, *intact.heads) == expected


@in_a_file
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON entries "
        "BEGIN DELETE FROM entries WHERE place = NEW.place; END",
        "DROP TABLE entries",
        "UPDATE sqlite_master SET sql = replace(sql, 'BLOB', 'ANY')",
        "UPDATE about SET about = '[9' || substr(about, 3)",
        "UPDATE entries SET x = zeroblob(5000000) WHERE place = 2",
        "UPDATE entries SET label = CAST(x'0aff' AS TEXT) WHERE place = 2",
        "UPDATE entries SET place = -5 WHERE place = 0",
    ],
)
def test_a_strangers_file_is_refused_in_one_line_that_names_it(intact, statement):
    path = shutil.copy(intact.path, intact.path.with_name("copy"))
    sql(path, ["PRAGMA writable_schema = ON"], [statement])
    with pytest.raises(InputError, match="copy .*(changed|too big|UTF-8)") as caught:
        CorrectionMemory.open(path)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "anchored, unnoticed", [(True, set()), (False, {"truncate", "snapshot_rollback"})]
)
def test_agent_memory_integrity_reports_all_edits_with_a_head_kept_elsewhere(anchored, unnoticed):
    verdicts = integrity(anchored)
    assert len(verdicts) == 9
    missed = {edit for edit, verdict in verdicts.items() if not verdict.startswith("reported: ")}
    assert missed == unnoticed
