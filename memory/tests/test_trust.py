"""Signatures by ML-DSA-44, and the front door of Agent Memory Integrity."""

import base64
import itertools
import re
import struct

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PublicKey
from hypothesis import assume, given
from hypothesis import strategies as st

from corrigible import (
    COSIGNATURE,
    ML_DSA_44,
    CorrectionMemory,
    Head,
    Key,
    proven,
    verify,
    witness,
)
from ocrrlib.files import InputError
from trials import MEMORY
from trials.auditor import letters, write
from trials.front_door import front_door

HEAD = Head("log", 70, bytes(range(32)), "2026-11-25T10:00:00Z")
LOG = Key.new("log", seed=bytes(32))
LOG_44 = Key.new("log", ML_DSA_44, bytes(32))
WITNESS = Key.new("witness", COSIGNATURE, bytes(32))
WITNESS_44 = Key.new("witness", ML_DSA_44, bytes([1] * 32))


# ML-DSA-44


def test_a_seed_gives_the_key_that_another_implementation_makes_of_it():
    # Of the tests of filippo.io/torchwood: cmd/litewitness/testdata/mldsa.txt
    seed = bytes.fromhex("2886adc2b0eabfce67c0472939127998bf886cf256bfee8ba76a253fce1146e0")
    key = Key.new("example.com/mldsa-log", ML_DSA_44, seed)
    assert key.public_text.startswith("example.com/mldsa-log+b5df45c5+BuhtcL97l3dcitjZ8Y9J54gm")
    assert Key.read(key.public_text) == key._replace(private=b"")
    assert Key.read(key.private_text) == key


def test_a_signature_is_of_the_message_that_the_specification_lays_out():
    line = HEAD.signed(LOG_44).signatures[0]
    assert line.startswith("— log ")
    id, time, signature = struct.unpack(">4s8s2420s", base64.b64decode(line[6:]))
    message = b"subtree/v1\n\0" + b"\3log" + time + b"\3log" + struct.pack(">QQ", 0, 70) + HEAD.root
    assert id == LOG_44.id
    assert int.from_bytes(time) > 1_790_000_000
    MLDSA44PublicKey.from_public_bytes(LOG_44.public).verify(signature, message)


@given(at=st.integers(0, 10**4), letter=st.characters(codec="utf-8"))
def test_an_altered_head_is_refused(at, letter):
    head = HEAD.signed(LOG_44)
    at %= len(head.body)
    assume(head.body[at] != letter)
    altered = head.body[:at] + letter + head.body[at + 1 :] + str(head)[len(head.body) :]
    with pytest.raises(InputError, match="no head|not signed"):
        Head.read(altered).check([LOG_44])


def test_a_time_that_no_key_signed_is_refused():
    head = HEAD.signed(LOG_44)
    assert Head.read(str(head)) == head
    head.check([LOG_44])
    added = str(head).replace("\n\n", "\ntime 2020-01-01T00:00:00Z\n\n")
    both = HEAD.signed(LOG).signed(LOG_44)
    for shown in (Head.read(added), both):
        with pytest.raises(InputError, match="time .* not signed"):
            shown.check([LOG_44])


@pytest.mark.parametrize("order", [*itertools.permutations([LOG, LOG_44, WITNESS])])
def test_a_head_holds_signatures_of_both_kinds_in_any_order(order):
    head = HEAD
    for key in order:
        head = head.signed(key)
    Head.read(str(head)).check(order)
    for key in order:
        with pytest.raises(InputError, match="not signed"):
            head.check([*order, Key.new(key.name, key.kind)])


@pytest.mark.parametrize("log", [LOG, LOG_44], ids=["ed25519", "ml-dsa-44"])
@pytest.mark.parametrize("key", [WITNESS, WITNESS_44], ids=["ed25519", "ml-dsa-44"])
def test_a_witness_of_either_kind_cosigns_what_a_log_of_either_kind_signed(tmp_path, log, key):
    path = tmp_path / "log"
    state = tmp_path / "state"
    first = write(path, "abc", log)
    with CorrectionMemory.open(path) as memory:
        seen = witness(memory.prove_extension(first, log), state, key, [log])
        memory.correct(np.ones(8), "d")
        cosigned = witness(memory.prove_extension(seen, log), state, key, [log])
        proof = memory.prove_entry(3, head=cosigned)
    assert verify(path, cosigned, keys=[log, key]) is None
    assert proven(proof, [log, key])[0]["label"] == "d"


def test_a_name_or_an_origin_that_cannot_be_signed_is_refused(tmp_path):
    with pytest.raises(InputError, match="too long"):
        Key.new("a" * 256, ML_DSA_44)
    long = HEAD._replace(origin="é" * 128)
    with pytest.raises(InputError, match="too long"):
        long.signed(LOG_44)
    with pytest.raises(InputError, match="not signed"):
        long.signed(LOG).check([LOG_44])
    with pytest.raises(InputError, match="too long"):
        witness(f"old 0\n\n{long}", tmp_path / "state", WITNESS_44)
    assert not (tmp_path / "state").exists()
    with pytest.raises(InputError, match="kind"):
        Key.new("log", 5)


# Agent Memory Integrity


@pytest.mark.slow
def test_whoever_may_write_by_the_front_door_is_served_as_anybody():
    found = {}
    for attack, verdict in front_door().items():
        found[attack] = {verdict.partition(":")[0], *re.findall("[0-9] of 5", verdict)}
    assert found == {
        "memory_injection": {"surfaced", "5 of 5"},
        "cross_session_bleed": {"n/a"},
        "retrieval_hijack": {"surfaced", "4 of 5"},
        "indirect_prompt_injection": {"surfaced", "5 of 5"},
        "update_poisoning": {"surfaced", "5 of 5"},
        "metadata_poisoning": {"n/a"},
    }


# The page


def test_asking_writes_nothing(tmp_path):
    write(tmp_path / "log", "abc", None)
    with CorrectionMemory.open(tmp_path / "log", letters) as memory:
        before = memory.head()._replace(time="")
        memory.predict(["a", "d"])
        assert memory.head()._replace(time="") == before


def test_tests_that_the_page_names_are_there():
    tests = "".join(path.read_text() for path in (MEMORY / "tests").glob("test_*.py"))
    duties = (MEMORY / "docs/trust.md").read_text().split("\n## Duties")[1]
    rows = [line.split("|") for line in duties.splitlines() if line.startswith("| ")]
    named = {cells[-2].strip() for cells in rows} - {"test", ""}
    assert len(named) > 10
    missing = [name for name in named if f"def test_{name.replace(' ', '_')}(" not in tests]
    assert missing == []
