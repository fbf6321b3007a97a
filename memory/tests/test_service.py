"""The memory's service over HTTP: answers, keys, limits, bad input, errors, its command."""

import asyncio
import json
import logging
import signal
import socket
import sqlite3
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager, suppress

import httpx2
import pytest
from client import ANA, KEYS, TEXTS, detail, serving
from entries import corrigible
from fastapi.testclient import TestClient

from corrigible import CorrectionMemory, Head, Key, proven
from corrigible.inputs import labels_of
from corrigible.service import app, connection, wire
from corrigible.service.app import Batcher, make_app
from ocrrlib.files import InputError
from trials.auditor import letters, sql
from trials.load import CLIENTS, load, request, served


@pytest.fixture
def memory(tmp_path):
    with CorrectionMemory.open(tmp_path / "tickets.sqlite", letters) as memory:
        memory.learn(list(TEXTS), list(TEXTS.values()))
        yield memory


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Let the number of entries be the newest, however busy this machine is."""
    monkeypatch.setattr(app, "MOMENT", 60)


@pytest.fixture
def client(memory):
    with serving(memory) as client:
        yield client


def test_an_answer_that_cannot_be_promised_has_a_reason_instead(client):
    text = next(iter(TEXTS))
    asked = {"text": text, "at_least": 0.9}
    answer = client.post("/predict", json=asked, headers=ANA).json()
    assert answer["label"] is None and "0.9" in answer["reason"] and answer["promised"] == 0
    unkeyed = client.post("/predict", json=asked).json()
    assert "sure" in unkeyed["reason"] and "promised" not in unkeyed
    assert client.post("/predict", json={"text": text}).json()["label"] == TEXTS[text]
    for share in (0, 1, "most"):
        reply = client.post("/predict", json={"text": text, "at_least": share})
        assert reply.status_code == 422 and "at_least" in detail(reply)


def test_strangers_see_confidence_in_tenths_and_owners_in_full(client):
    sent = {"text": "where is my card now"}
    seen = [
        client.post("/predict", json=sent, headers=who).json()["confidence"] for who in ({}, ANA)
    ]
    assert seen[0] == round(seen[1], 1) != seen[1]


def test_a_refusal_that_names_the_file_by_chance_is_no_fault_of_the_memory(client):
    sent = {"old": "tickets.sqlite", "new": "other"}
    assert client.post("/rename", json=sent, headers=ANA).status_code == 422


def test_an_empty_secret_is_refused(memory):
    with pytest.raises(InputError, match="key is empty"):
        make_app(memory, {"eve": ""}, None)


def test_corrections_are_answered_and_proved(memory):
    key = Key.new("helpdesk")
    with serving(memory, signer=key) as client:
        sent = {"text": "my card was swallowed", "label": "swallowed"}
        assert client.post("/correct", json=sent, headers=ANA).json() == {
            "entry": 3,
            "new": True,
            "alike": [],
        }
        answer = client.post("/predict", json={"text": sent["text"]}, headers=ANA).json()
        assert answer["label"] == "swallowed"
        assert answer["neighbours"][0]["text"] == sent["text"]
        texts = list(TEXTS)
        answers = client.post("/predict", json={"texts": texts}).json()["answers"]
        assert [one["label"] for one in answers] == list(TEXTS.values())
        assert client.get("/health").json() == {"entries": 4}
        head = Head.read(client.get("/head").text)
        head.check([Key.read(key.public_text)])
        assert head.root == memory.head().root
        entry, _ = proven(client.get("/proof/3", headers=ANA).text, [key])
    assert (entry["text"], entry["label"], entry["author"]) == (*sent.values(), "ana")
    assert memory.verify(head) is None


def test_a_correction_is_stored_as_if_it_came_without_the_service(client, memory):
    text = "where is the pin of my card"
    client.post("/correct", json={"text": text, "label": "pin"}, headers=ANA)
    memory.correct(text, "pin", by="ana", again=True)
    stored, direct = memory.entry(3), memory.entry(4)
    assert stored["x"] == direct["x"]


@pytest.mark.filterwarnings("ignore:labels:UserWarning")
def test_a_correction_keeps_a_note_and_names_labels_that_a_new_one_looks_like(client, memory):
    sent = {"text": "card lost again", "label": "losst", "about": {"ticket": 4711}}
    assert client.post("/correct", json=sent, headers=ANA).json()["alike"] == ["lost"]
    assert memory.entries("losst")[0].about == {"ticket": 4711}


def test_a_stranger_sees_no_stored_text(client):
    reply = client.post("/predict", json={"text": "lost card"})
    assert reply.json()["label"] == "lost"
    assert "lost card" not in reply.text
    assert reply.json()["neighbours"] == []


SENT = {"text": "lost card", "label": "lost"}


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer secret", "secret of ana"])
def test_nobody_corrects_or_proves_without_a_key(client, memory, header):
    headers = {} if header is None else {"Authorization": header}
    assert client.post("/correct", json=SENT, headers=headers).status_code == 401
    assert client.get("/proof/0", headers=headers).status_code == 401
    assert len(memory) == 3


def test_a_key_of_other_letters_is_a_key(client, memory):
    headers = {b"Authorization": "Bearer schlüssel".encode()}
    sent = SENT | {"label": "gone"}
    assert client.post("/correct", json=sent, headers=headers).status_code == 200
    assert memory.entry(3)["author"] == "bö"


def test_without_keys_nobody_may_correct(memory):
    with serving(memory, keys={}) as client:
        assert client.post("/correct", json=SENT).status_code == 403
        assert client.post("/correct", json=SENT, headers=ANA).status_code == 401
        assert client.get("/proof/0").status_code == 403
        assert client.post("/predict", json={"text": "no pin"}).json()["label"] == "pin"


def text(value):
    return json.dumps({"text": value})


BAD = {
    "lone surrogate": r'{"text": "\ud800"}',
    "lone surrogate in a name": r'{"\ud800": "a"}',
    "lone surrogate, encoded": b'{"text": "\xed\xa0\x80"}',
    "no UTF-8": b'{"text": "\xff"}',
    "zero byte": text("a\0b"),
    "blank": text(" \n"),
    "number": text(3),
    "NaN": text(float("nan")),
    "Infinity": '{"text": -Infinity}',
    "null": text(None),
    "long number": '{"text": ' + "1" * 100_000 + "}",
    "long text": text("a" * 10_001),
    "no object": '["a"]',
    "no JSON": "text=a",
    "nothing": "",
    "cut": '{"text": "a',
    "deep": "[" * 100_000,
    "deep text": '{"text":' * 10_000 + "1" + "}" * 10_000,
    "no text": "{}",
    "text and texts": '{"text": "a", "texts": ["a"]}',
    "no texts": '{"texts": []}',
    "many texts": json.dumps({"texts": ["a"] * 65}),
    "a bad one among texts": r'{"texts": ["a", "\udfff"]}',
    "texts in texts": '{"texts": [["a"]]}',
    "unknown name": '{"text": "a", "k\\n": 3}',
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_what_cannot_be_encoded_is_refused_in_one_line(client, body):
    reply = client.post("/predict", content=body)
    assert reply.status_code == 422
    said = detail(reply)
    assert not said.startswith(":") and "Value error" not in said and "validation" not in said


BAD_CORRECTIONS = {
    "author": SENT | {"by": "bo"},
    "no label": {"text": "a"},
    "empty label": SENT | {"label": " "},
    "number": SENT | {"label": 3.5},
    "NaN": SENT | {"label": float("nan")},
    "boolean": SENT | {"label": True},
    "long label": SENT | {"label": "a" * 201},
    "zero byte": SENT | {"label": "a\0"},
    "lone surrogate": SENT | {"label": "\ud800"},
    "texts": {"texts": ["a"], "label": "b"},
}


@pytest.mark.parametrize("sent", BAD_CORRECTIONS.values(), ids=BAD_CORRECTIONS)
def test_bad_corrections_are_refused_and_change_nothing(client, memory, sent):
    head = memory.head()
    reply = client.post("/correct", content=json.dumps(sent), headers=ANA)
    assert reply.status_code == 422
    assert "Value error" not in detail(reply)
    assert memory.head().root == head.root


@pytest.mark.parametrize("number", [5, 5.0, 0, -1, 2**70])
def test_whole_numbers_are_the_labels_that_they_are_in_python(client, memory, number):
    client.post("/correct", json=SENT | {"label": number}, headers=ANA)
    assert memory.labels[-1:] == labels_of([number])


@pytest.mark.parametrize(
    "path, there",
    [
        ("/entries?author=nobody", "there are: label, by, since, like"),
        ("/entries?by=ana&labl=pin", "unknown parameter 'labl'"),
        ("/entries?a%0Ab", "unknown parameter"),
    ],
)
def test_unknown_parameters_of_an_address_are_refused(client, path, there):
    reply = client.get(path, headers=ANA)
    assert reply.status_code == 422 and there in detail(reply)
    assert client.get("/?from=mail").status_code == 200


@pytest.mark.parametrize("entry, status", [("3", 404), ("-1", 422), ("x", 422), ("1" * 5000, 422)])
def test_a_proof_of_no_entry_is_refused(client, entry, status):
    reply = client.get(f"/proof/{entry}", headers=ANA)
    assert reply.status_code == status
    detail(reply)


@pytest.mark.parametrize("size", [2**20 + 1, 10 * 2**20])
def test_a_long_body_is_refused_while_it_is_read(client, size):
    for path in ("/predict", "/correct"):
        reply = client.post(path, content=b" " * size, headers=ANA)
        assert reply.status_code == 413
        detail(reply)


def stranger_of(client):
    """A bare connection to a service."""
    return socket.create_connection((client.base_url.host, client.base_url.port))


def test_a_body_without_end_is_cut_off(client):
    with stranger_of(client) as stranger, suppress(ConnectionError):
        stranger.sendall(b"POST /predict HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            stranger.sendall(b"10000\r\n" + b" " * 2**16 + b"\r\n")
    assert client.get("/health").status_code == 200


def test_a_body_that_does_not_arrive_is_not_waited_for(client, monkeypatch):
    with monkeypatch.context() as patch, stranger_of(client) as stranger:
        patch.setattr(wire, "BODY_TIMEOUT", 0.1)
        stranger.sendall(b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{")
        assert stranger.recv(100).startswith(b"HTTP/1.1 408")
    assert client.post("/predict", json={"text": "no pin"}).status_code == 200


@contextmanager
def silent(memory):
    """Let a memory's base reply to nobody meanwhile, as if the server of it were gone."""
    lock = memory._ledger._lock
    taken = threading.Event()
    done = threading.Event()

    def hold():
        with lock:
            taken.set()
            done.wait()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(hold)
        taken.wait()
        try:
            yield
        finally:
            done.set()


WAITING = [
    ("GET", "/head", None),
    ("GET", "/proof/0", None),
    ("GET", "/labels", None),
    ("GET", "/entries", None),
    ("GET", "/history/0", None),
    ("POST", "/predict", {"text": "a"}),
    ("POST", "/correct", {"text": "a", "label": "lost", "replaces": 0}),
    ("POST", "/preview", {"text": "a", "label": "lost", "replaces": 1}),
    ("POST", "/review", {"texts": ["a"]}),
    ("POST", "/undo", {"entry": 2}),
]


def test_a_base_that_does_not_reply_holds_up_no_page_and_no_sign_of_life(
    client, memory, monkeypatch
):
    n = 5 * len(WAITING)
    before = client.get("/health").json()
    with (
        ThreadPoolExecutor(n) as threads,
        httpx2.Client(
            base_url=client.base_url, timeout=60, limits=httpx2.Limits(max_connections=n)
        ) as others,
    ):
        monkeypatch.setattr(app, "MOMENT", 0)
        with silent(memory):
            asks = [
                threads.submit(others.request, method, path, json=sent, headers=ANA)
                for method, path, sent in 5 * WAITING
            ]
            for path in ("/", "/desk.json", "/health"):
                assert client.get(path, timeout=10).status_code == 200
            assert client.get("/health", timeout=10).json() == before
            assert not any(one.done() for one in asks)
        assert {one.result().status_code for one in asks} <= {200, 422}  # undone five times
    monkeypatch.setattr(app, "MOMENT", 60)
    assert client.get("/health").json() == {"entries": len(memory)}


def test_a_broken_memory_has_no_number_of_entries(client, memory):
    assert client.get("/health").status_code == 200
    sql(memory.path, ["DELETE FROM entries WHERE place = 2"])
    reply = client.get("/health")
    assert reply.status_code == 503 and "entry 2" in detail(reply)


BEGUN = b"POST /predict HTTP/1.1\r\nHost: a\r\n"
ANSWERED = b"GET /health HTTP/1.1\r\nHost: a\r\n"
SLOW = {
    "nothing": [b""],
    "headers without end": [BEGUN],
    "a second request's": [ANSWERED + b"\r\n", BEGUN],
    "a body that nobody reads": [ANSWERED + b"Content-Length: 9\r\n\r\n", b"{"],
}


@pytest.mark.parametrize("sent", SLOW.values(), ids=SLOW)
def test_a_client_that_sends_no_whole_headers_is_cut_off(client, monkeypatch, sent):
    monkeypatch.setattr(connection, "HEADERS_TIMEOUT", 1)
    *before, last = sent
    with stranger_of(client) as stranger:
        stranger.settimeout(20)
        for part in before:
            stranger.sendall(part)
            reply = stranger.recv(1000)
            while not reply.endswith(b"}"):
                more = stranger.recv(1000)
                assert more, "cut off before it is answered"
                reply += more
            assert reply.startswith(b"HTTP/1.1 200")
        stranger.sendall(last)
        reply = b"".join(iter(lambda: stranger.recv(1000), b""))  # until the connection ends
    assert reply.startswith(b"HTTP/1.1 408") == (last == BEGUN)


def test_the_time_for_headers_does_not_limit_the_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "HEADERS_TIMEOUT", 1)

    def slow(texts):
        time.sleep(1.2)
        return letters(texts)

    with CorrectionMemory.open(tmp_path / "m.sqlite", slow) as memory:
        memory.learn(["a"], ["b"])
        with serving(memory) as client:
            assert client.post("/predict", json={"text": "a"}).json()["label"] == "b"


def test_corrections_that_wait_are_written_together_and_wrong_ones_refused(client, memory):
    n = 60
    memory.learn(["tin can"], ["old"])
    memory.retire("old")
    wrong = {0: {"label": "old"}, 1: {"replaces": 4}, 2: {"replaces": 99}}
    sent = [{"text": f"card {i}", "label": "lost"} | wrong.get(i, {}) for i in range(n)]
    with (
        ThreadPoolExecutor(n) as threads,
        httpx2.Client(
            base_url=client.base_url,
            headers=ANA,
            limits=httpx2.Limits(max_connections=n),
            timeout=120,
        ) as others,
    ):
        with closing(sqlite3.connect(memory.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # another program writes
            asks = [threads.submit(others.post, "/correct", json=one) for one in sent]
            end = time.monotonic() + 60
            while len(memory._ledger._waiting) < n - 1:  # the last one's entry is not there
                assert time.monotonic() < end, "not all wait to be written"
                time.sleep(0.01)
            other.execute("ROLLBACK")
        replies = [one.result() for one in asks]
    assert [reply.status_code for reply in replies] == [422, 422, 404] + [200] * (n - 3)
    stored = {memory.entry(reply.json()["entry"])["text"] for reply in replies[3:]}
    assert stored == {one["text"] for one in sent[3:]}
    assert memory.verify() is None


def test_a_page_of_another_origin_is_refused(client, memory):
    host = f"{client.base_url.host}:{client.base_url.port}"
    for origin in ("https://evil.example", "http://localhost:3000", "null", f"http://evil.{host}"):
        for path, sent in (("/predict", {"text": "a"}), ("/correct", SENT)):
            reply = client.post(path, json=sent, headers=ANA | {"Origin": origin})
            assert reply.status_code == 403 and origin in detail(reply)
    assert len(memory) == 3
    own = {"Origin": f"http://{host}"}
    assert client.post("/predict", json={"text": "a"}, headers=own).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_what_a_form_could_send_is_refused(client, kind):
    reply = client.post("/predict", content=text("a"), headers={"Content-Type": kind})
    assert reply.status_code == 415 and "application/json" in detail(reply)
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert client.post("/predict", content=text("a"), headers=headers).status_code == 200


LOCAL = ["localhost:8000", "LOCALHOST", "127.0.0.1:1", "[::1]:8000", "192.168.1.7", "memory:80"]


def test_a_host_that_is_not_allowed_is_refused(memory):
    client = TestClient(make_app(memory, KEYS, hosts=["Desk.example"]))
    for host in [*LOCAL, "desk.example", "desk.example:8443"]:
        assert client.get("/health", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "desk.example.evil.example", "localhost.evil.example:8000"):
        for path in ("/health", "/"):
            reply = client.get(path, headers={"Host": host})
            assert reply.status_code == 403 and host in detail(reply)


def test_a_page_behind_a_proxy_may_ask_if_its_host_is_allowed(memory):
    client = TestClient(make_app(memory, KEYS, hosts=["127.0.0.1:8000", "desk.example"]))
    statuses = {"https://desk.example": 200, "http://127.0.0.1:3000": 403, "https://a.example": 403}
    for origin, status in statuses.items():
        headers = {"Host": "127.0.0.1:8000", "Origin": origin}
        reply = client.post("/predict", json={"text": "a"}, headers=headers)
        assert reply.status_code == status


@pytest.mark.parametrize("host", ["https://desk.example", ""])
def test_what_is_no_name_of_a_host_is_refused(memory, host):
    with pytest.raises(InputError, match="desk.example"):
        make_app(memory, KEYS, hosts=[host])


def test_a_memory_alone_makes_a_service(memory):
    assert TestClient(make_app(memory)).post("/correct", json=SENT).status_code == 403
    client = TestClient(make_app(memory, keys=KEYS))
    sent = SENT | {"label": "gone"}
    assert client.post("/correct", json=sent, headers=ANA).json() == {
        "entry": 3,
        "new": True,
        "alike": [],
    }
    assert client.post("/correct", json=sent, headers=ANA).json() == {
        "entry": 3,
        "new": False,
        "alike": [],
    }
    assert Head.read(client.get("/head").text).size == 4


def test_too_many_waiting_texts_are_refused_and_the_others_answered(tmp_path):
    go = threading.Event()
    go.set()

    def slow(texts):
        go.wait()
        return letters(texts)

    go.set()
    with CorrectionMemory.open(tmp_path / "m.sqlite", slow) as memory:
        memory.learn(["a"], ["b"])
        go.clear()
        with serving(memory) as client, ThreadPoolExecutor(9) as threads:
            ask = lambda: client.post("/predict", json={"texts": ["a"] * 64})  # noqa: E731
            replies = as_completed([threads.submit(ask) for _ in range(9)])
            first = next(replies).result()
            go.set()
            others = [reply.result() for reply in replies]
    assert first.status_code == 503 and int(first.headers["Retry-After"]) > 0
    assert [other.status_code for other in others] == [200] * 8


async def asked(batcher, *requests):
    return await asyncio.gather(*map(batcher, requests), return_exceptions=True)


def test_texts_that_wait_are_encoded_together_the_shortest_first():
    calls = []

    def lengths(texts):
        calls.append(texts)
        return map(len, texts)

    requests = [["a" * (1 + 7 * i % 40)] for i in range(40)]
    found = asyncio.run(asked(Batcher(lengths), *requests))
    assert found == [[len(text)] for (text,) in requests]
    assert [len(call) for call in calls] == [32, 8]
    assert sum(calls, []) == sorted(sum(calls, []), key=len)


def test_texts_are_encoded_while_the_service_answers_others():
    numbers = []
    over = threading.Event()

    def lengths(texts):
        numbers.append(len(texts))
        if sum(numbers) == 96:
            over.set()
        return map(len, texts)

    async def ask():
        asked = asyncio.gather(*map(Batcher(lengths), [["a"]] * 96))
        while not numbers:
            await asyncio.sleep(0)
        assert over.wait(10)  # nothing else of the service runs meanwhile
        return await asked

    assert asyncio.run(ask()) == [[1]] * 96
    assert numbers == [32, 32, 32]


def test_a_text_that_cannot_be_encoded_leaves_the_others_their_answers():
    def numbers(texts):
        return [int(text) for text in texts]

    one, bad, three = asyncio.run(asked(Batcher(numbers), ["1"], ["2", "x"], ["3", "4"]))
    assert (one, three) == ([1], [3, 4])
    assert isinstance(bad, ValueError)


def test_an_error_inside_is_one_line_in_the_log_and_not_told(tmp_path, caplog):
    def failing(texts):
        if "bad" in texts:
            raise RuntimeError("in\nsecret.py")
        return letters(texts)

    with CorrectionMemory.open(tmp_path / "m.sqlite", failing) as memory:
        memory.learn(["a"], ["b"])
        with serving(memory) as client, caplog.at_level(logging.WARNING):
            reply = client.post("/predict", json={"text": "bad"})
            assert client.post("/predict", json={"text": "good"}).status_code == 200
    assert reply.status_code == 500 and "secret" not in reply.text
    (record,) = caplog.records
    assert "secret" in record.getMessage() and len(caplog.text.splitlines()) == 1


def test_what_waits_when_the_service_ends_gets_503_and_one_line_in_the_log(tmp_path, caplog):
    go = threading.Event()
    go.set()
    waits = threading.Event()

    def slow(texts):
        waits.set()
        go.wait()
        return letters(texts)

    with CorrectionMemory.open(tmp_path / "m.sqlite", slow) as memory:
        go.clear()
        waits.clear()
        with serving(memory, patience=0) as client, caplog.at_level(logging.WARNING):
            stranger = stranger_of(client)
            stranger.sendall(request("a"))
            waits.wait()
        go.set()
    with stranger:
        assert stranger.recv(100).startswith(b"HTTP/1.1 503")
    assert len(caplog.text.splitlines()) == 1


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/head/", "/proof/0/"])
def test_no_address_is_served_but_those_that_are_documented(client, path):
    reply = client.get(path, headers={"Host": "elsewhere"})
    assert reply.status_code == 404 and "location" not in reply.headers
    detail(reply)


def test_a_broken_file_is_unavailable_and_its_path_is_not_told(client, memory):
    sql(memory.path, ["DELETE FROM entries WHERE place = 2"])
    for reply in (client.post("/predict", json={"text": "a"}), client.get("/head")):
        assert reply.status_code == 503
        assert "entry 2" in detail(reply) and str(memory.path.parent) not in reply.text


def test_an_empty_memory_says_so_and_can_be_taught(tmp_path):
    with CorrectionMemory.open(tmp_path / "m.sqlite", letters) as memory:
        with serving(memory) as client:
            reply = client.post("/predict", json={"text": "a"})
            assert reply.status_code == 503 and "no entry" in detail(reply)
            assert client.post("/correct", json=SENT, headers=ANA).json()["entry"] == 0
            assert client.post("/predict", json={"text": "a"}).json()["label"] == "lost"


# The command


def refused(*arguments):
    """What `corrigible serve` says when it is refused."""
    status, _, said = corrigible("serve", *arguments)
    assert status == 2 and len(said.splitlines()) == 1
    return said


def test_the_command_refuses_what_it_cannot_serve(memory, tmp_path, monkeypatch):
    assert "no memory" in refused(tmp_path / "none.sqlite")
    with CorrectionMemory.open(tmp_path / "vectors.sqlite") as vectors:
        assert "without an encoder" in refused(vectors.path, "--port", 0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert str(port) in refused(memory.path, "--port", port)
    assert "no port" in refused(memory.path, "--port", 10**6)
    assert "no.such.host" in refused(memory.path, "--host", "no.such.host.invalid")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "corrigible[serve]" in refused(memory.path)


@pytest.mark.parametrize("keys", ["ana", "ana:", ":secret", "ana:same,bo:same", "ana:a,ana:b"])
def test_unclear_keys_are_refused(memory, monkeypatch, keys):
    monkeypatch.setenv("OCRR_MEMORY_KEYS", keys)
    assert "OCRR_MEMORY_KEYS" in refused(memory.path)


@pytest.mark.parametrize("key", ["junk", Key.new("desk").public_text], ids=["junk", "public"])
def test_a_key_that_cannot_sign_is_refused_by_the_name_of_its_variable(memory, monkeypatch, key):
    monkeypatch.setenv("MEMORY_KEY", key)
    assert refused(memory.path).startswith("error: MEMORY_KEY: ")


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_all_of_many_clients_are_answered_and_the_rest_when_it_ends(tmp_path, end):
    path = tmp_path / "tickets.sqlite"
    with CorrectionMemory.open(path, "all-MiniLM-L6-v2") as memory:
        memory.learn(["where is my card", "I forgot my PIN"], ["arrival", "pin"])
    texts = [f"my PIN number {i} is gone" for i in range(2 * CLIENTS)]
    with served(path, OCRR_MEMORY_KEYS="ana:secret") as (process, port):
        figures = asyncio.run(load(port, texts))
        assert figures["answers_per_s"] > 0 and figures["failed"] == 0
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            headers = {"Authorization": "Bearer secret"}
            sent = {"text": "it was swallowed", "label": "swallowed"}
            assert client.post("/correct", json=sent, headers=headers).json()["entry"] == 2
            with stranger_of(client) as last:
                last.sendall(request(texts[0]))
                assert client.get("/health").status_code == 200  # read after that
                process.send_signal(end)
                assert last.recv(100).startswith(b"HTTP/1.1 200")
        assert process.wait() == 0
    assert not path.with_name("tickets.sqlite-wal").exists()  # the file was closed
    with CorrectionMemory.open(path) as memory:
        assert memory.verify() is None and memory.entry(2)["author"] == "ana"
