"""The ledger: chain, tree, proofs, heads, witnesses, and a file whose every fault is named with its place and kind."""

import hashlib
import shutil
import struct
from contextlib import suppress
from functools import partial
from math import ceil, log2
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import rows
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import assume, given
from hypothesis import strategies as st
from tlog_scales.signing import NoteSignature, Vkey

from ocrrlib import CorrectionMemory
from ocrrlib.chain import Fault, Ledger
from ocrrlib.files import InputError
from ocrrlib.memory import COSIGNATURE, Head, Key, proven, request, witness
from ocrrlib.memory.database import FIELDS
from ocrrlib.memory.tree import Tree
from tests.auditor import (
    ALL,
    corrupted,
    extended,
    forged,
    included,
    integrity,
    rewritten,
    sql,
    trees,
    write,
)

D, N, ERASED, SAYS = 6, 9, 1, 4  # N entries in the file: entry 4 says that entry 1 was erased
LOG, WITNESS, OTHER = (
    Key.new(*name, seed=bytes(32)) for name in (["log"], ["witness", COSIGNATURE], ["other"])
)
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
places, hashes = st.integers(0, 10**6), st.binary(min_size=32, max_size=32)


def test_an_entry_is_hashed_with_the_one_before_in_a_canonical_encoding():
    X, y = rows(5, D, 0), np.array([2, 0, 13, 1, 0])
    ledger, previous = Ledger(X[:3], y[:3]), bytes(32)
    for x, label in zip(X[3:], y[3:].tolist()):
        ledger.append(x, label)
    for place, (x, label) in enumerate(zip(X, y.tolist())):
        content = hashlib.sha256(struct.pack(f"<I{D}f", 4 * D, *x) + f"{label}\0".encode()).digest()
        previous = hashlib.sha256(
            b"\0OCRR2 " + struct.pack("<Qq", place, 0) + content + previous
        ).digest()
        assert ledger.hashes[place] == previous
    assert ledger.nbytes == 5 * (4 * D + 3 * 8 + 2 * 32)


def test_roots_are_those_of_certificate_transparency():
    tree = Tree()
    for leaf in INPUTS:  # one at a time
        tree.extend([hashlib.sha256(b"\0" + bytes.fromhex(leaf)).digest()])
    assert [tree.root(size).hex() for size in range(1, 9)] == ROOTS.split()


@given(n=st.integers(1, 99), place=places, old=places, rng=st.randoms(use_true_random=False))
def test_proofs_are_short_and_hold_for_other_implementations_and_corrupted_ones_for_none(
    n, place, old, rng
):
    ours, theirs, leaves = trees(n + 3, rng)
    leaf, place, old, root = leaves[place % n], place % n, 1 + old % n, ours.root(n)
    inclusion, consistency = ours.inclusion_proof(place, n), ours.consistency_proof(old, n)
    assert max(len(inclusion), len(consistency)) <= ceil(log2(n)) + 1
    assert included(theirs, leaf, place, n, inclusion, root) == (True, True)
    assert extended((old, ours.root(old)), (n, root), consistency) == (True, True)
    other, wrong = rng.randbytes(32), (corrupted(inclusion, rng), corrupted(consistency, rng))
    for start, path, end in (
        (leaf, wrong[0], root),
        (other, inclusion, root),
        (leaf, inclusion, other),
    ):
        assert included(theirs, start, place, n, path, end) == (False, False)
    for start, path, end in (
        (ours.root(old), wrong[1], root),
        (other, consistency, root),
        (root, consistency, other),
    ):
        assert extended((old, start), (n, end), path) == (False, False)


@pytest.mark.parametrize("key", [LOG, WITNESS], ids=["signature", "cosignature"])
def test_heads_and_keys_are_c2sp_notes_that_other_implementations_read(key):
    head = Head("log", 7, bytes(range(32)), "2026-11-25T10:00:00Z").signed(OTHER).signed(key)
    assert Head.read(str(head)) == head and str(head).startswith(head.body + "\n— other ")
    assert Key.read(key.private_text) == key and Key.read(key.public_text) == key._replace(
        private=b""
    )
    theirs, line = Vkey.from_string(key.public_text), NoteSignature.from_line(head.signatures[1])
    id = hashlib.sha256(f"{key.name}\n".encode() + bytes([key.kind]) + key.public).digest()[:4]
    assert theirs.match(line) and key.id == id == line.key_id.to_bytes(4)
    theirs.get_verifier().verify(line.payload, SimpleNamespace(serialize_body=lambda: head.body))
    if key is LOG:
        Ed25519PublicKey.from_public_bytes(key.public).verify(line.payload, head.body.encode())
    head.check([key, OTHER])
    for text in (
        "",
        "log",
        "log+00000000+AQ==",
        key.public_text.replace("+", "s+", 1),
        "PRIVATE+KEY+",
    ):
        with pytest.raises(InputError, match="no Ed25519 key"):
            Key.read(text)


@given(at=places, letter=st.characters(codec="utf-8"), key=st.sampled_from([LOG, WITNESS]))
def test_an_altered_head_or_another_key_is_refused(at, letter, key):
    head = Head("log", 70, bytes(range(32)), "2026-11-25T10:00:00Z").signed(key)
    at %= len(head.body)
    assume(head.body[at] != letter)
    altered = head.body[:at] + letter + head.body[at + 1 :] + str(head)[len(head.body) :]
    with pytest.raises(InputError, match="no head|not signed"):
        Head.read(altered).check([key])
    for other in (
        Key.new(key.name, key.kind),
        key._replace(name="other"),
        key._replace(kind=5 - key.kind),
    ):
        with pytest.raises(InputError, match="not signed"):
            head.check([other])


def test_a_witness_cosigns_what_extends_the_last_head_seen_and_names_a_fork(tmp_path):
    state, *files = (tmp_path / name for name in ("state", "log", "fork", "foreign"))
    empty, old = write(files[0], "", LOG), write(files[0], "abc", LOG)
    write(files[1], "abcde", LOG, about=sql(files[0], ["SELECT about FROM about"])[0][0])
    write(files[2], "abcde", LOG)
    ask = partial(witness, state=state, key=WITNESS, keys=[LOG])
    memory, fork, foreign = map(CorrectionMemory.open, files)
    with memory, fork, foreign:
        ask(memory.prove_extension(empty, LOG)).check([LOG, WITNESS])
        assert Head.read(state.read_text()).root == old.root
        memory.forget(0)
        assert (
            ask(memory.prove_extension(old, LOG)).size
            == Head.read(noted := state.read_text()).size
            == 4
        )
        stale, unsigned = memory.prove_extension(old, LOG), memory.prove_extension(noted)
        for text in (
            "",
            f"old x\n\n{noted}",
            stale,
            unsigned,
            foreign.prove_extension(foreign.head(), LOG),
        ):
            with pytest.raises(
                InputError, match="no head|no request|last head seen|not signed|is about"
            ):
                ask(text)
        assert (
            ask(request(4, [], fork.head(LOG))) == Fault(4, "forked") and state.read_text() == noted
        )
        with pytest.raises(InputError, match="does not extend"):
            fork.prove_extension(noted)


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    path = tmp_path_factory.mktemp("ledger") / "intact"
    heads = [write(path, ["abc", "bcd", "add", "fee"], LOG)]
    with CorrectionMemory.open(path) as memory:
        memory.forget(ERASED, by="ana")
        heads.append(memory.head())
    heads.append(write(path, ["cab", "dad", "fab", "bee"], LOG))
    return SimpleNamespace(path=path, heads=heads, items=sql(path, [ALL]))


@given(place=st.integers(0, N - 1), at=places, letter=st.sampled_from("0aZ+/=\n, {}—"))
def test_a_proof_shows_an_entry_erased_or_not_and_nothing_once_altered(intact, place, at, letter):
    with CorrectionMemory.open(intact.path) as memory:
        text, entry = memory.prove_entry(place, LOG), memory.entry(place)
    found, head = proven(text, [LOG])
    assert found == entry and ("label" in entry) == (place != ERASED)
    with suppress(InputError):  # or it says the same, or less
        again, other = proven(text[: at % len(text)] + letter + text[at % len(text) + 1 :], [LOG])
        assert again.items() <= entry.items() and other.body == head.body


@given(place=st.integers(0, N - 1), column=st.integers(1, 9), data=st.data())
def test_a_changed_value_or_an_erasure_that_no_entry_tells_of_is_named(intact, place, column, data):
    values = {"time": st.integers(-(2**63), 2**63 - 1)} | dict.fromkeys(
        ("label", "author", "text"), st.text(max_size=9)
    )
    values = values.get(FIELDS.split(", ")[column], hashes | st.binary(max_size=24))
    value = data.draw(
        st.none() | values if column > 4 else values
    )  # what may be erased may be NULL
    assume(value != intact.items[place][column])
    items = [list(item) for item in intact.items]
    items[place][column] = value
    assert rewritten(intact.path, items) == Fault(place, "changed")
    items[place][:5], items[place][5:] = intact.items[place][:5], [None] * 5
    assert place in (ERASED, SAYS) or rewritten(intact.path, items) == Fault(place, "changed")


@given(place=st.integers(0, N - 2), count=st.integers(1, N), kind=st.sampled_from([list, tuple]))
def test_removed_entries_are_named_their_numbers_closed_up_or_not(intact, place, count, kind):
    items = [kind(item) for item in intact.items]
    assert rewritten(intact.path, items[:place] + items[min(place + count, N - 1) :]) == Fault(
        place, "removed"
    )


@given(place=st.integers(0, N - 1), other=st.integers(0, N - 1), link=hashes, how=st.integers(0, 3))
def test_an_inserted_entry_is_named_copied_or_hashed_anew_with_any_link(
    intact, place, other, link, how
):
    items = intact.items
    new = (
        items[other]
        if how > 2
        else forged(place, [link, items[other][4], items[place][3]][how], items[0][9])
    )
    expected = Fault(
        place + (how > 2 and place == other), "inserted"
    )  # of two equal ones the second
    assert rewritten(intact.path, items[:place] + [new] + items[place:]) == expected


@given(st.permutations(range(N)))
def test_the_first_entry_out_of_order_is_named(intact, order):
    first = next((place for place in range(N) if order[place] != place), None)
    expected = None if first is None else Fault(first, "reordered")
    assert (
        rewritten(intact.path, [intact.items[place] for place in order], *intact.heads) == expected
    )


@given(
    size=st.sampled_from(sorted({*range(N)} - {*range(ERASED + 1, SAYS + 1)})),
    more=st.integers(0, N),
)
def test_a_cut_tail_and_a_rewrite_are_named_by_heads_kept_elsewhere_alone(intact, size, more):
    items, heads = intact.items[:size], [head.size for head in intact.heads]
    for place in range(size, size + more):
        items.append(
            forged(place, items[-1][4] if items else intact.items[0][3], intact.items[0][9])
        )
    rewrite = Fault(max([0, *(head for head in heads if head <= size)]), "forked")
    cut = size + more < min(head for head in heads if head > size)
    assert rewritten(intact.path, items) is None
    assert rewritten(intact.path, items, *intact.heads) == (
        Fault(size + more, "truncated") if cut else rewrite
    )


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE place = NEW.place; END",
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
    assert {
        edit for edit, verdict in verdicts.items() if not verdict.startswith("reported: ")
    } == unnoticed
