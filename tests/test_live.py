"""The benchmark in the reader's browser: what its page is given, and what it comes to."""

import base64
import re

import numpy as np
import pandas as pd
import pytest

from ocrrlib.embeddings import widen
from ocrrlib.files import ROOT
from ocrrlib.policies import POLICIES
from ocrrlib.rivals.discriminants import REINVERT_AT
from ocrrlib.scenario import make_scenario
from paper import live

SLOW = pytest.mark.slow
AXES = ["corrections", "novel_acc", "original_acc"]
PAGE = "document.querySelector('#live')"


@pytest.fixture(scope="module")
def content():
    return live.content()


@pytest.fixture(scope="module")
def page(tmp_path_factory, tab):
    """The page without the site around it, opened from a folder."""
    folder = tmp_path_factory.mktemp("page")
    for name in ("live.js", "site.css"):
        (folder / "_static").mkdir(exist_ok=True)
        (folder / "_static" / name).write_text((ROOT / "docs/_static" / name).read_text("utf-8"))
    live.write(folder / "_static/live-data.js")
    html = re.search(
        r"```{raw} html\n(.*?)```", (ROOT / "docs/live.md").read_text("utf-8"), re.DOTALL
    )
    style = '<link rel="stylesheet" href="_static/site.css">'
    (folder / "live.html").write_text(f"<!doctype html><meta charset=utf-8>{style}{html[1]}")
    tab.open((folder / "live.html").as_uri())
    return tab


def start(page, **settings):
    """Choose settings and begin a run."""
    for name, value in settings.items():
        page.run(f"document.querySelector('#live [name={name}]').value = '{value}'")
    page.run("document.querySelector('#live form').dispatchEvent(new Event('change'))")
    page.run(f"delete {PAGE}.run")
    page.click("#live button")
    page.until(f"{PAGE}.run")


def finish(page):
    """Checkpoints (k, 3 systems, 3) of a run that was begun."""
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
    for key, tests in (("0/10/all", None), ("7/5/capped", 400), ("9/2/all", None)):
        seed, held_out, _ = key.split("/")
        drawn = make_scenario(banking, int(seed), cap=tests, held_out=int(held_out))
        given = content["scenarios"][key]
        assert given["held"] == drawn.held_out.tolist()
        assert (X[given["rows"]] == drawn.queries).all()
        assert (given["n"], given["novel"]) == (len(drawn.y_stream), len(drawn.y_novel))


def test_coins_are_those_of_the_policies_for_a_stream_of_any_length(content):
    for name, policy in POLICIES.items():
        for seed in (0, 9):
            for n in (600, 1195):
                coins = [coin == "1" for coin in content["coins"][name][seed][:n]]
                assert coins == policy.draws(seed, n).tolist()


def test_axes_are_orthonormal(content):
    axes = np.frombuffer(base64.b64decode(content["axes"]), "<f4").reshape(live.DIRECTIONS, -1)
    assert axes @ axes.T == pytest.approx(np.eye(live.DIRECTIONS), abs=1e-6)


def test_no_stream_is_so_long_that_slda_would_invert_its_matrix_again(content):
    for one in content["scenarios"].values():
        assert content["train"] < REINVERT_AT * (content["train"] - one["n"])


def test_texts_are_not_given_away(content):
    known = {"classes", "labels", "train", "scenarios", "coins", "axes", "embeddings"}
    assert set(content) == known


@SLOW
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", (0, 1, 2))
@pytest.mark.parametrize(
    "tests, results, systems",
    [("all", "beyond", ["substrate", "ncm", "slda"]), ("capped", "full_sweep", ["substrate"])],
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
    page.until(f"{PAGE}.run.points.length > 3")
    page.click("#live button")
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
def test_a_query_shows_its_neighbours_and_their_vote_by_click_and_by_key(page):
    start(page, seed=0, held=5, policy="oracle", tests="capped")
    finish(page)
    item = page.run(f"{PAGE}.run.items[40]")
    page.click("#live .cells i:nth-child(41)")
    cells = "[...document.querySelectorAll('#live .{} tr')].map(row => row.cells[{}].textContent)"
    classes = page.run("ocrr.classes")
    near = [classes[entry["label"]] for entry in item["near"]]
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
        assert page.run(drawn) is None
        finish(page)
        page.until(f"{drawn} !== null")
    finally:
        page.call("Emulation.setEmulatedMedia", features=[])
