"""The desk of a memory's service: its addresses, and the page in a real browser."""

import json
import re
import time
from threading import Event

import pytest
from client import ANA, KEYS, TEXTS, detail, serving
from fastapi import FastAPI
from fastapi.testclient import TestClient

from corrigible import CorrectionMemory, proven
from corrigible.service.app import make_app
from corrigible.service.desk import PAGE, WORDS
from tests.browser import browser
from trials.auditor import letters
from trials.load import served

MARKUP = "<script>document.title = 'x'</script> <img src=x onerror=alert(1)> lost"
LABEL = "Größe \"unklar\" & 'anders'"


@pytest.fixture
def memory(tmp_path):
    with CorrectionMemory.open(tmp_path / "tickets.sqlite", letters) as memory:
        memory.learn(list(TEXTS), list(TEXTS.values()), by="bo")
        yield memory


@pytest.fixture
def client(memory):
    with serving(memory) as client:
        client.headers = ANA
        yield client


def asked(client):
    """Texts that the service has to be reviewed, least sure first."""
    return [one["text"] for one in client.post("/review", json={}, headers=ANA).json()["texts"]]


POSTS = {
    "review": {},
    "preview": {"text": "a", "label": "b"},
    "undo": {"entry": 0},
    "rename": {"old": "lost", "new": "gone"},
    "merge": {"labels": ["lost"], "into": "pin"},
    "verify": {"head": "a"},
    "aside": {"text": "a"},
}


def test_a_stranger_gets_the_page_and_nothing_else_of_the_desk(client, memory):
    client.headers = {}
    assert client.get("/").status_code == client.get("/desk.json").status_code == 200
    for path, sent in POSTS.items():
        assert client.post(path, json=sent).status_code == 401
    for path in ("labels", "entries", "history/0", "suspects"):
        assert client.get(path).status_code == 401
    assert len(memory) == 3


BAD = {
    "undo": [{"entry": -1}, {"entry": "a"}, {"entry": 2**70}, {"entry": True}],
    "rename": [{"old": "lost"}, {"old": "none", "new": "a"}, {"old": "lost", "new": "pin"}],
    "merge": [{"labels": [], "into": "a"}, {"labels": ["lost"], "into": " "}],
    "verify": [{"head": "a"}, {"head": "a", "keys": ["b"]}],
    "review": [{"texts": [""]}, {"texts": ["a"] * 1001}, {"n": 0}, {"n": 65}],
    "preview": [{"text": "a"}, {"text": "a", "label": "b" * 201}],
    "correct": [{"text": "a", "label": "b", "replaces": -1}],
    "aside": [{}, {"text": "a", "entry": 1}, {"entry": -1}],
}


@pytest.mark.parametrize("path", BAD)
def test_bad_requests_are_refused_in_one_line_and_change_nothing(path, client, memory):
    for sent in BAD[path]:
        reply = client.post(path, json=sent)
        assert reply.status_code == 422
        detail(reply)
    assert len(memory) == 3


def test_entries_that_are_not_there_are_refused(client):
    gone = [
        client.get("/history/3"),
        client.post("/undo", json={"entry": 3}),
        client.post("/correct", json={"text": "a", "label": "b", "replaces": 3}),
    ]
    for reply in gone:
        assert reply.status_code == 404
        detail(reply)


def test_texts_asked_by_anybody_are_reviewed_each_once_the_last_ones(memory):
    app = make_app(memory, KEYS, None, remembered=3)
    client = TestClient(app)
    for text in ["pan", "cat", "pan", "tin", "lost card", "pan"]:
        client.post("/predict", json={"text": text})
    assert sorted(asked(client)) == ["lost card", "pan", "tin"]


@pytest.mark.parametrize("how", [{"keys": KEYS, "remembered": 0}, {"keys": {}}])
def test_nothing_asked_is_kept_if_nobody_is_to_see_it(memory, how):
    kept = []
    app = make_app(memory, signer=None, **how)
    client = TestClient(app)
    client.post("/predict", json={"text": "pan"})
    if how["keys"]:
        kept = asked(client)
    assert kept == []
    assert client.post("/review", json={}).status_code in (401, 403)


def test_texts_are_ranked_least_sure_first(client):
    texts = ["lost card", "pad", "tin can", "no pin", "rat"]
    found = client.post("/review", json={"texts": texts, "n": 3}).json()["texts"]
    sure = [one["confidence"] for one in found]
    assert sure == sorted(sure) and len(sure) <= 3
    assert {one["text"] for one in found} <= set(texts)
    assert found[0]["neighbours"][0]["text"] in TEXTS


def test_texts_of_an_empty_memory_are_listed_to_be_labelled(tmp_path):
    with CorrectionMemory.open(tmp_path / "m.sqlite", letters) as memory:
        client = TestClient(make_app(memory, KEYS, None))
        found = client.post("/review", json={"texts": ["a", "b"]}, headers=ANA).json()["texts"]
    assert [(one["text"], one["label"]) for one in found] == [("a", None), ("b", None)]


def test_a_preview_names_what_would_change_and_writes_nothing(client, memory):
    client.post("/predict", json={"text": "no pins"})
    head = memory.head()
    change = client.post("/preview", json={"text": "no pins", "label": "sewing"}).json()
    (query,) = change["queries"]
    assert (query["text"], query["before"], query["after"]) == ("no pins", "pin", "sewing")
    assert memory.head().root == head.root


def test_a_wrong_entry_is_replaced_undone_and_its_history_told(client, memory):
    sent = {"text": "no pin", "label": "sewing", "replaces": 1}
    assert client.post("/correct", json=sent).json() == {"entry": 3, "new": True, "alike": []}
    told = client.get("/history/1").json()
    assert (told["text"], told["label"]) == ("no pin", None)
    assert [(one["place"], one["author"]) for one in told["events"]] == [(1, "bo"), (3, "ana")]
    assert client.post("/undo", json={"entry": 3}).json() == {"entry": 4}
    assert memory.history(1).label == "pin" and memory.entry(4)["author"] == "ana"


def test_labels_are_renamed_and_merged_by_the_owner_of_the_key(client, memory):
    assert client.post("/rename", json={"old": "pin", "new": "code"}).json() == {"entry": 3}
    sent = {"labels": ["lost", "code"], "into": "card"}
    assert client.post("/merge", json=sent).json() == {"entry": 4}
    told = {"author": "ana", "labels": ["card"], "counts": {"card": 3}}
    assert client.get("/labels").json() == told
    assert memory.entry(4)["author"] == "ana"


def test_entries_that_count_are_listed_the_newest_first(client, memory):
    memory.correct("card lost", "lost", by="ana")
    memory.undo(0)
    found = client.get("/entries", params={"like": "CARD"}).json()
    assert found["found"] == 2
    assert [(one["place"], one["author"]) for one in found["entries"]] == [(3, "ana"), (2, "bo")]
    assert client.get("/entries?label=pin&by=bo").json()["found"] == 1
    assert client.get("/entries?since=yesterday").status_code == 422


def test_a_text_set_aside_leaves_the_queue_however_often_it_is_asked(client):
    for text in ("asdf", "no pins"):
        client.post("/predict", json={"text": text})
    assert client.post("/aside", json={"text": "asdf"}).json() == {"aside": True}
    client.post("/predict", json={"text": "asdf"})
    assert asked(client) == ["no pins"]
    client.post("/aside", json={"text": "asdf", "aside": False})
    client.post("/predict", json={"text": "asdf"})
    assert sorted(asked(client)) == ["asdf", "no pins"]


def test_suspects_are_listed_with_what_contradicts_them_until_they_are_kept(client, memory):
    memory.learn(["pins"] * 2, ["sewing", "pin"], about=[{"ticket": 4711}, None])
    found = client.get("/suspects").json()["suspects"]
    (one,) = [one for one in found if one["place"] == 3]
    assert (one["text"], one["label"], one["instead"]) == ("pins", "sewing", "pin")
    assert one["about"] == {"ticket": 4711}
    assert [near["entry"] for near in one["neighbours"]][0] == 4
    assert 3 not in [near["entry"] for near in one["neighbours"]]
    assert client.post("/aside", json={"entry": 3}).json() == {"aside": True}
    assert [one["place"] for one in client.get("/suspects").json()["suspects"]] == [4]


def test_a_neighbour_has_the_ticket_that_was_noted_with_it(client, memory):
    memory.correct("no pins", "pin", about={"ticket": 4711})
    near = client.post("/predict", json={"text": "no pins"}).json()["neighbours"]
    assert [one["about"] for one in near[:2]] == [{"ticket": 4711}, {}]


def test_a_kept_head_verifies_the_file_or_names_the_fault(client, memory):
    head = client.get("/head").text
    client.post("/correct", json={"text": "a", "label": "b"})
    assert client.post("/verify", json={"head": head}).json() == {"fault": None, "covered": 3}
    forked = head.replace("\n3\n", "\n2\n")
    assert "forked" in client.post("/verify", json={"head": forked}).json()["fault"]


def test_the_page_asks_for_relative_addresses_so_that_it_can_be_mounted(memory):
    site = FastAPI()
    site.mount("/tickets", make_app(memory, KEYS, None))
    client = TestClient(site)
    assert client.get("/tickets/").text == PAGE.read_text()
    assert client.get("/tickets/desk.json").status_code == 200
    code = PAGE.read_text()
    assert re.findall(r"""(?:call|fetch|download)\(["`]/""", code) == []
    assert re.findall(r"https?://|//\w", code.replace("  // ", "")) == []


def test_each_language_has_all_words_of_the_page():
    words = json.loads(WORDS.read_text())
    code = PAGE.read_text()
    used = set(re.findall(r"""data-[thl]="(\w+)"|\b(?:t|say|button)\("(\w+)\"""", code))
    for language in words.values():
        assert {"".join(one) for one in used} <= language.keys()
        assert language.keys() == words["en"].keys()


# The page


class Person:
    """Somebody at the page, in a tab."""

    def __init__(self, tab, address):
        self.tab = tab
        tab.open(f"{address}/health")
        tab.run("sessionStorage.clear(); localStorage.clear()")
        tab.open(f"{address}/")
        self.sees("state", r"\d")

    def sees(self, id, pattern):
        """Wait until an element has a text."""
        text = f"document.getElementById({json.dumps(id)}).innerText"
        self.tab.until(f"new RegExp({json.dumps(pattern)}).test({text})")

    def enters(self, id, *texts):
        """Type into a field, and press Enter."""
        self.tab.run(f"document.getElementById({json.dumps(id)}).focus()")
        self.tab.press(*texts, "Enter")

    def logs_in(self, key):
        self.enters("key", key)
        self.tab.until("['text', 'queue'].includes(document.activeElement.id)")  # it is loaded

    def pastes(self, *lines):
        """Rank lines of one's own."""
        self.tab.run("document.querySelector('details').open = true")
        self.tab.run("document.getElementById('lines').focus()")
        self.tab.press("\n".join(lines))
        self.tab.click("#paste button")
        self.sees("queue", ".")


@pytest.fixture(scope="module")
def tickets(tmp_path_factory):
    """Path of a memory of texts, by a model."""
    path = tmp_path_factory.mktemp("desk") / "tickets.sqlite"
    texts = ["where is my new card", "my card has not come", "I forgot my PIN", "change the PIN"]
    with CorrectionMemory.open(path, "all-MiniLM-L6-v2") as memory:
        memory.learn(texts, ["arrival", "arrival", "pin", "pin"], by="import")
    return path


WHO = {"OCRR_MEMORY_KEYS": "ana:schlüssel,bö:secret"}


@pytest.fixture(scope="module")
def address(tickets):
    with served(tickets, **WHO) as (_, port):
        yield f"http://127.0.0.1:{port}"


def test_the_page_shows_markup_as_text_and_runs_nothing_but_itself(memory, tab):
    memory.correct(MARKUP, LABEL, by="<b>bo</b>")
    with serving(memory, {"ana": "secret"}) as client:
        ana = Person(tab, str(client.base_url).rstrip("/"))
        ana.logs_in("secret")
        ana.enters("text", MARKUP)
        ana.sees("work", re.escape(MARKUP))
        ana.sees("choices", re.escape(LABEL))
        ana.sees("entries", "<b>bo</b>")
        assert tab.run("document.querySelectorAll('img, main script').length") == 0
        assert tab.run("document.title") == "Correction desk" and tab.errors == []
        assert all(url.startswith((str(client.base_url), "data:")) for url in tab.requests)


@pytest.fixture
def ana(memory, tab):
    """Ana at the page of a memory of three entries."""
    with serving(memory, {"ana": "secret"}) as client:
        ana = Person(tab, str(client.base_url).rstrip("/"))
        ana.logs_in("secret")
        yield ana
    assert tab.errors == []


CHOSEN = "document.querySelector('#choices :checked')?.value ?? null"
FOCUS = "document.activeElement.id"


def test_a_label_is_chosen_for_those_the_memory_is_sure_of_alone(ana, memory, monkeypatch, tab):
    sure = {"lost": 0.5, "pin": 0.49}
    predict = memory.predict

    def told(X, share):
        return [one._replace(confidence=sure[one.label]) for one in predict(X, share)]

    monkeypatch.setattr(memory, "predict", told)
    ana.enters("text", "lost a card")
    ana.sees("current", "lost a card")
    assert tab.run(CHOSEN) == "lost"
    ana.enters("text", "no pins")
    ana.sees("current", "no pins")
    ana.sees("choices", "None is chosen")
    assert tab.run(CHOSEN) is None
    tab.press("Enter")
    ana.sees("status", "Nothing is stored")
    assert len(memory) == 3
    tab.strike("1")
    tab.press("Enter")
    ana.sees("log", "no pins is pin")
    assert memory.entry(3)["label"] == "pin"


def test_a_text_is_skipped_gets_a_new_label_or_is_set_aside_by_one_key(ana, memory, tab):
    for text in ("pans", "tins", "mops"):  # the last one asked stands first
        ana.enters("text", text)
        ana.sees("current", text)
    tab.strike("s")
    ana.sees("current", "tins")
    ana.sees("queue", "tins[^]*pans[^]*mops")
    tab.strike("n")
    assert (tab.run(FOCUS), tab.run(CHOSEN)) == ("label", None)
    tab.press("kitchen", "Enter")
    ana.sees("log", "tins is kitchen")
    ana.sees("current", "pans")
    tab.strike("x")
    ana.sees("log", "pans set aside")
    ana.sees("current", "mops")
    assert "pans" not in tab.run("document.getElementById('queue').innerText")
    tab.strike("u")
    ana.sees("current", "pans")
    assert memory.entry(3)["label"] == "kitchen" and len(memory) == 4


def test_answers_that_come_after_a_skip_stay_with_their_texts(ana, memory, monkeypatch, tab):
    for text in ("no pins", "lost a card", "tins"):
        ana.enters("text", text)
        ana.sees("current", text)
    predict = memory.predict
    asked = Event()
    skipped = Event()

    def late(*given):
        asked.set()
        assert skipped.wait(60)
        return predict(*given)

    monkeypatch.setattr(memory, "predict", late)
    memory.correct("qqq", "kitchen")  # the page sees it, and asks all texts again
    assert asked.wait(60)
    tab.strike("s")
    skipped.set()
    answers = {"lost a card": "lost", "no pins": "pin", "tins": "kitchen"}
    ana.sees("queue", "[^]*".join(rf"{text}\s+(perhaps )?{answers[text]}," for text in answers))


def test_enter_held_down_or_struck_again_stores_a_text_once(ana, memory, tab):
    ana.enters("text", "tins")
    ana.sees("current", "tins")
    tab.strike("l")
    tab.press("kitchen")
    tab.hold("Enter", 12)
    ana.sees("queue", "✓ kitchen")
    assert tab.run(FOCUS) == "queue"
    tab.press(*12 * ["Enter"])
    ana.sees("status", "stored as kitchen already, entry 3")
    assert len(memory) == 4


def test_a_suspect_is_replaced_or_kept_by_one_key(ana, memory, tab):
    memory.learn(["pins"] * 2, ["sewing", "pin"], about=[{"ticket": 4711}, None])
    tab.press("Escape")
    tab.strike("t")
    ana.sees("answer", "stored as (sewing; others say pin|pin; others say sewing)")
    if "sewing;" not in tab.run("document.getElementById('answer').innerText"):
        tab.strike("j")
    ana.sees("answer", "stored as sewing; others say pin[^]* · ticket 4711")
    tab.strike("1")
    tab.press("Enter")
    ana.sees("log", "pins is pin")
    ana.sees("answer", "stored as pin; others say sewing")
    tab.strike("x")
    ana.sees("log", "entry 4 stays pin")
    assert memory.history(3).label is None and memory.history(4).label == "pin"


def test_labels_to_be_merged_have_counts_and_stand_beside_those_that_look_alike(ana, memory, tab):
    labels = ["Delivery", "card", "delivery", "Delivry", "delivery", "edelivery"]
    with pytest.warns(UserWarning, match="look alike"):
        memory.learn([f"text {n}" for n, _ in enumerate(labels)], labels, about=[{"ticket": 7}] * 6)
    ana.sees("entries", "delivery · ticket 7")
    shown = tab.run("[...document.getElementById('several').options].map(one => one.text)")
    alike = ["Delivery (1)", "delivery (2)", "Delivry (1)", "edelivery (1)"]
    assert shown == ["card (1)", *alike, "lost (2)", "pin (1)"]


slow = pytest.mark.slow


@slow
def test_two_people_see_each_other_correct(address, tab):
    with browser() as other:
        ana = Person(tab, address)
        bo = Person(other, address)
        ana.logs_in("schlüssel")
        bo.logs_in("secret")
        bo.enters("text", "an ATM ate my card")
        ana.enters("text", "an ATM ate my card")
        ana.sees("work", "arrival")
        ana.enters("label", "swallowed")
        bo.sees("queue", "✓ swallowed")
        bo.sees("entries", "swallowed[^]*ana")
        assert other.run("document.getElementById('current').innerText") == "an ATM ate my card"
        bo.enters("label", "swallowed by an ATM")
        ana.sees("entries", "swallowed by an ATM[^]*bö")
        assert tab.errors == other.errors == []


@slow
def test_all_is_done_by_keyboard(address, tickets, tab):
    bo = Person(tab, address)
    tab.press("Tab", "Tab", "secret", "Enter")
    tab.until("document.activeElement.id === 'text'")
    tab.press("my PIN is gone", "Enter")
    bo.sees("current", "my PIN is gone")
    tab.strike("a")
    tab.press("when will my card come", "Enter")
    bo.sees("current", "when will my card come")
    tab.press("ArrowDown")
    bo.sees("current", "my PIN is gone")
    tab.strike("kj?")
    assert tab.run("document.getElementById('help').open")
    tab.press("Escape")
    second = tab.run("document.querySelectorAll('#choices input')[1].value")
    tab.strike("2")
    bo.sees("preview", ".")
    tab.press("Enter")
    bo.sees("log", f"my PIN is gone is {second}")
    tab.strike("u")
    bo.sees("log", "undone")
    tab.strike("l")
    assert tab.run("document.activeElement.id") == "label"
    tab.press("Escape")
    assert tab.run("document.activeElement.id") == "queue"
    with CorrectionMemory.open(tickets) as memory:
        assert [one for one in memory.entries() if one.text == "my PIN is gone"] == []


def downloaded(folder, name):
    """Text of a file, once it is there."""
    end = time.monotonic() + 60
    while not [*folder.glob(name)]:
        assert time.monotonic() < end, f"no {name}"
        time.sleep(0.02)
    (file,) = folder.glob(name)
    return file.read_text()


@slow
def test_labels_are_changed_and_what_was_downloaded_is_verified(address, tab, tmp_path):
    bo = Person(tab, address)
    bo.logs_in("secret")
    tab.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    bo.enters("proved", "0")
    tab.click("#head")
    entry, _ = proven(downloaded(tmp_path, "proof-0.txt"))
    assert entry["text"] == "where is my new card"
    tab.run("document.getElementById('kept').focus()")
    tab.press(downloaded(tmp_path, "head-*.txt"))
    tab.click("#verify button")
    bo.sees("verified", "All is as it was written")
    bo.enters("text", "please close my account")
    bo.sees("current", "close")
    bo.enters("label", "closing")
    bo.sees("log", "closing")
    tab.run("document.getElementById('old').value = 'closing'")
    bo.enters("new", LABEL)
    bo.sees("entries", re.escape(LABEL))
    bo.enters("place", "0")
    bo.sees("events", "written as arrival")
    tab.click("#log li:last-child button")
    bo.sees("log", r"undone[^]*closing is called")


@slow
@pytest.mark.parametrize("language", ["de", "en"])
@pytest.mark.parametrize("width", [400, 1300])
def test_the_page_fits_its_window_in_the_language_of_the_browser(address, language, width, tab):
    tab.show(width, 900)
    agent = tab.run("navigator.userAgent")
    tab.call("Network.setUserAgentOverride", userAgent=agent, acceptLanguage=f"{language}-AT")
    bo = Person(tab, address)
    words = json.loads(WORDS.read_text())
    assert tab.run("document.documentElement.lang") == language
    bo.logs_in("secret")
    bo.pastes(f"{language}{width}" * 50, "where " * width, MARKUP)
    tab.run("document.querySelector('#choices input').click()")
    bo.sees("preview", words[language]["noChange"].split()[0])
    bo.enters("label", "l" * 200)
    bo.sees("log", "l" * 200)
    assert tab.run("document.documentElement.scrollWidth") <= width
    nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
    roles = {"textbox", "searchbox", "spinbutton", "button", "combobox", "listbox", "radio"}
    roles |= {"dialog", "region", "option"}
    named = [
        (node["role"]["value"], node.get("name", {}).get("value"))
        for node in nodes
        if node.get("role", {}).get("value") in roles and not node["ignored"]
    ]
    assert len(named) > 20 and [one for one in named if not one[1]] == []
    other = {"de": "en", "en": "de"}[language]
    tab.run(f"document.getElementById('language').value = '{other}'")
    tab.run("document.getElementById('language').onchange()")
    bo.sees("h-queue", words[other]["queue"])
    assert tab.errors == []


TOPICS = "account limit theft salary airport passport cash holiday name child refund house".split()


@slow
def test_no_acknowledged_correction_is_lost_when_the_service_is_killed(tickets, tab):
    confirming = """(async () => {
        const $ = id => document.getElementById(id);
        while ($("away").hidden) {
            $("label").value = "topic";
            $("confirm").click();
            await new Promise(next => setTimeout(next, 5));
        }
    })() && 0"""
    with served(tickets, **WHO) as (process, port):
        ana = Person(tab, f"http://127.0.0.1:{port}")
        ana.logs_in("schlüssel")
        ana.pastes(*(f"what about the {topic}" for topic in TOPICS))
        tab.run(confirming)
        ana.sees("log", "[^]*".join(4 * ["what about"]))
        process.kill()
        tab.until("!document.getElementById('away').hidden")
    done = tab.run("[...document.querySelectorAll('#log .said')].map(one => one.innerText)")
    with served(tickets, port, **WHO):
        tab.until("document.getElementById('away').hidden")
        ana.enters("label", "after all")
        ana.sees("log", "after all")
    with CorrectionMemory.open(tickets) as memory:
        stored = {f"{one.text} is {one.label}" for one in memory.entries(by="ana")}
        assert len(done) >= 4 and set(done) <= stored and memory.verify() is None
