"""Seeds of an evaluation are kept when they are done, and not run again when it goes on."""

import json
from dataclasses import replace

import pandas as pd
import pytest
from conftest import Means

from ocrrlib import cards
from ocrrlib.errors import InputError
from ocrrlib.evaluation import evaluate as evaluating
from ocrrlib.evaluation import one_seed
from ocrrlib.evaluation.evaluate import evaluate
from ocrrlib.evaluation.kept import files_of
from ocrrlib.policies import POLICIES, Policy

OPTIONS = dict(every=4, progress=False)


@pytest.fixture
def ran(monkeypatch):
    """Seeds that are run, in this process."""
    seeds, run = [], one_seed.run_seed
    monkeypatch.setattr(evaluating, "run_seed", lambda *given: [seeds.append(given[2]), run(*given)][1])
    return seeds


class StopsAt(Means):
    """Is stopped, as with Ctrl-C, at one seed."""

    stop = 2

    def __init__(self, seed):
        super().__init__()
        if seed == StopsAt.stop:
            raise KeyboardInterrupt


def test_what_a_stop_leaves_is_done_when_it_goes_on_with_the_bytes_of_a_whole_run(tiny, tmp_path, ran, monkeypatch):
    monkeypatch.setattr(StopsAt, "stop", None)
    whole = evaluate(StopsAt, tiny, range(4), keep=tmp_path / "whole", **OPTIONS)
    monkeypatch.setattr(StopsAt, "stop", 2)
    with pytest.raises(KeyboardInterrupt):
        evaluate(StopsAt, tiny, range(4), keep=tmp_path / "parts", **OPTIONS)
    assert pd.read_csv(tmp_path / "parts.csv")["seed"].unique().tolist() == [0, 1]
    monkeypatch.setattr(StopsAt, "stop", None)
    ran.clear()
    found = evaluate(StopsAt, tiny, range(4), keep=tmp_path / "parts", **OPTIONS)
    assert ran == [2, 3]
    pd.testing.assert_frame_equal(found.curve, whole.curve)
    assert found.about == whole.about and found.card() == whole.card()
    for one, other in zip(files_of(tmp_path / "parts"), files_of(tmp_path / "whole")):
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("jobs", [1, 2])
def test_files_are_in_the_order_of_the_seeds_whatever_the_number_of_processes(tiny, tmp_path, jobs):
    found = evaluate("ncm", tiny, [3, 0, 2], keep=tmp_path / "a", jobs=jobs, **OPTIONS)
    assert pd.read_csv(tmp_path / "a.csv")["seed"].unique().tolist() == [3, 0, 2]
    assert cards.read_card(tmp_path / "a.json") == json.loads(json.dumps(found.card()))


def test_kept_seeds_that_are_not_asked_for_stay(tiny, tmp_path, ran):
    evaluate("ncm", tiny, [4, 5], keep=tmp_path / "a", **OPTIONS)
    found = evaluate("ncm", tiny, [0, 5], keep=tmp_path / "a", **OPTIONS)
    assert ran == [4, 5, 0] and found.curve["seed"].unique().tolist() == [0, 5, 4]
    assert evaluate("ncm", tiny, [4], keep=tmp_path / "a", **OPTIONS).runs["seed"].tolist() == [4, 0, 5]
    assert ran == [4, 5, 0]


def test_without_resume_all_seeds_are_run_anew(tiny, tmp_path, ran):
    for _ in range(2):
        evaluate("ncm", tiny, [0, 1], keep=tmp_path / "a", resume=False, **OPTIONS)
    assert ran == [0, 1, 0, 1]


class Other(Means):
    """Has another source."""


@pytest.mark.parametrize(
    "change, told",
    [
        (dict(system=Other), "another system"),
        (dict(name="mine"), "another system"),
        (dict(policy="random10"), "another policy"),
        (dict(held_out=1), "another held_out"),
        (dict(every=5), "another every"),
        (dict(dataset=True), "another data"),
    ],
)
def test_what_something_else_made_is_refused_and_stays(tiny, tmp_path, change, told):
    asked = dict(system=Means, dataset=tiny, seeds=[0], keep=tmp_path / "a") | OPTIONS
    evaluate(**asked)
    before = [path.read_bytes() for path in files_of(tmp_path / "a")]
    if "dataset" in change:
        change = dict(dataset=replace(tiny, X_train=tiny.X_train[::-1].copy()))
    with pytest.raises(InputError, match=f"a.json was made with {told}.*remove .*a.csv and a.json"):
        evaluate(**asked | change)
    assert [path.read_bytes() for path in files_of(tmp_path / "a")] == before


def test_other_code_or_libraries_are_refused_too(tiny, tmp_path):
    evaluate("ncm", tiny, [0], keep=tmp_path / "a", **OPTIONS)
    card = json.loads((tmp_path / "a.json").read_text())
    card["made_with"]["libraries"]["numpy"] = "1.0"
    (tmp_path / "a.json").write_text(json.dumps(card))
    with pytest.raises(InputError, match="made with another version of the code"):
        evaluate("ncm", tiny, [0], keep=tmp_path / "a", **OPTIONS)


@pytest.mark.parametrize(
    "damage, told",
    [
        (lambda curve, card: curve.unlink(), "a.csv is missing or damaged"),
        (lambda curve, card: curve.write_text(""), "a.csv is missing or damaged"),
        (lambda curve, card: curve.write_text("seed\n0\n"), "a.csv is missing or damaged"),
        (
            lambda curve, card: curve.write_text(curve.read_text().replace("ncm,0,0,", "ncm,0,x,")),
            "is missing or damag",
        ),
        (lambda curve, card: curve.write_text(curve.read_text().replace(",1.0,", ",0.5,")), "not of the same seeds"),
        (lambda curve, card: card.unlink(), "a.json cannot be read"),
        (lambda curve, card: card.write_text("{}"), "a.json"),
    ],
)
def test_damaged_files_are_refused_by_name(tiny, tmp_path, damage, told):
    evaluate("ncm", tiny, [0, 1], keep=tmp_path / "a", **OPTIONS)
    damage(*files_of(tmp_path / "a"))
    with pytest.raises(InputError, match=told):
        evaluate("ncm", tiny, [0, 1, 2], keep=tmp_path / "a", **OPTIONS)


def test_a_stop_between_the_two_files_loses_a_seed_and_no_more(tiny, tmp_path, ran):
    evaluate("ncm", tiny, [0], keep=tmp_path / "a", **OPTIONS)
    card = (tmp_path / "a.json").read_bytes()
    evaluate("ncm", tiny, [0, 1], keep=tmp_path / "a", **OPTIONS)
    (tmp_path / "a.json").write_bytes(card)
    found = evaluate("ncm", tiny, [0, 1], keep=tmp_path / "a", **OPTIONS)
    assert ran == [0, 1, 1] and found.runs["seed"].tolist() == [0, 1]


def test_nothing_is_kept_of_a_policy_that_no_card_can_name(tiny, tmp_path):
    own = Policy(**vars(POLICIES["random10"]) | {"name": "mine"})
    with pytest.raises(InputError, match="policy 'mine' is known to this run only: nothing can be kept"):
        evaluate("ncm", tiny, [0], own, keep=tmp_path / "a", **OPTIONS)
    assert not list(tmp_path.iterdir())
