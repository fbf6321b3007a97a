"""The leaderboard: what is committed follows from the cards; a broken card is named."""

import copy
import json

import pandas as pd
import pytest

from notebooks import build
from notebooks.run import artefacts
from ocrrlib.cards import published_cards, read_cards
from ocrrlib.errors import InputError
from ocrrlib.experiments import EXPERIMENTS
from ocrrlib.files import ROOT
from ocrrlib.report.leaderboard import markdown, rank, write

FOLDER = ROOT / "data/results/cards"


@pytest.fixture
def another():
    """Somebody's card with one of the published cells and one of their own, in which one seed ran."""
    card = copy.deepcopy(next(card for card in published_cards() if card["system"]["name"] == "slda"))
    card["source"], card["system"]["name"] = "Ada, Example University", "ours_too"
    own = copy.deepcopy(card["cells"][0])
    own["dataset"]["name"], own["cap"] = "tickets", 400
    own["finals"] = {name: values[:1] for name, values in own["finals"].items()}
    own["seeds"] = own["seeds"][:1]
    own["summary"] = {
        name: {"mean": values[0], "sd": None, "low": None, "high": None} for name, values in own["finals"].items()
    }
    return card | {"cells": [card["cells"][0], own]}


def test_the_committed_leaderboard_is_that_of_the_committed_cards(tmp_path):
    for path in write(rank(read_cards(FOLDER).values()), tmp_path):
        assert (ROOT / "figures" / path.name).read_bytes() == path.read_bytes(), "`make leaderboard` and commit"


def test_every_cell_has_a_block_sorted_by_anytime_novel_accuracy_with_collapsed_systems_last():
    table = rank(published_cards())
    blocks = [block for _, block in table.groupby(["dataset", "policy"], sort=False)]
    assert len(blocks) == 6 and len(table) == 6 * len(EXPERIMENTS["beyond"].systems)
    for block in blocks:
        assert block["collapsed"].is_monotonic_increasing and block["rank"].is_monotonic_increasing
        for _, part in block.groupby("collapsed"):
            assert part["anytime novel"].is_monotonic_decreasing
        floor = block.loc[block["system"] == "static_linear", "original"].item()
        assert ((block["original"] < floor - 0.05) == block["collapsed"]).all()
        assert block.set_index("system").loc[["pa", "river_logreg"], "collapsed"].all()
    text = markdown(table)
    assert "5 points below that of static_linear" in text and text.count("| collapsed ") == table["collapsed"].sum()
    assert text.count("\n## ") == 6 and set(table["source"]) == {"published here"}


def test_cards_of_others_stand_among_the_published_ones_with_their_source(another, tmp_path):
    table = rank([*published_cards(), another])
    theirs = table[table["source"] == "Ada, Example University"]
    assert theirs["dataset"].tolist() == ["banking77", "tickets"]
    twin = table[(table["system"] == "slda") & (table["dataset"] == "banking77") & (table["policy"] == "oracle")]
    assert theirs["rank"].iloc[0] == twin["rank"].item() and theirs["seeds"].tolist() == [20, 1]
    assert not theirs["collapsed"].any(), "of the cell without a card of static_linear, nothing can be said"
    text = markdown(table)
    assert "## tickets, oracle\n\nall-MiniLM-L6-v2, 10 classes held out, at most 400 test rows per axis" in text
    assert "Ada, Example University" in text and "nan" not in text
    csv, _ = write(table, tmp_path)
    pd.testing.assert_frame_equal(pd.read_csv(csv, dtype={"cap": "Int64"}), table.round(6), check_dtype=False)


def test_who_has_collapsed_is_measured_by_the_published_floor_where_there_is_one(another):
    floor = copy.deepcopy(next(card for card in published_cards() if card["system"]["name"] == "static_linear"))
    floor["source"] = "Ada, Example University"
    for cell in floor["cells"]:
        cell["finals"]["original"] = [1.0] * len(cell["seeds"])
        cell["summary"]["original"] = {"mean": 1.0, "sd": 0.0, "low": 1.0, "high": 1.0}
    plain, beside = (rank([*published_cards(), *more]).set_index(["dataset", "policy"]) for more in ((), (floor,)))
    ours = beside[beside["source"] == "published here"]
    assert ours["collapsed"].tolist() == plain["collapsed"].tolist()
    alone = rank([floor, another])
    assert alone.loc[(alone["system"] == "ours_too") & (alone["dataset"] == "banking77"), "collapsed"].all()


def run(tmp_path, monkeypatch):
    """The command, in a checkout with these cards."""
    monkeypatch.setattr(build, "ROOT", tmp_path)
    (tmp_path / "data/results").mkdir(parents=True, exist_ok=True)
    build.leaderboard(None)


def test_the_command_writes_our_cards_and_both_tables_and_keeps_the_cards_of_others(
    another, tmp_path, monkeypatch, capsys
):
    theirs = tmp_path / "data/results/cards/ours_too.json"
    theirs.parent.mkdir(parents=True)
    theirs.write_text(json.dumps(another))
    run(tmp_path, monkeypatch)
    assert f"{1 + len(published_cards())} cards: figures/leaderboard.md" in capsys.readouterr().out
    assert json.loads(theirs.read_text()) == another
    assert "ours_too" in (tmp_path / "figures/leaderboard.md").read_text()
    assert "Ada" in (tmp_path / "figures/leaderboard.csv").read_text()


@pytest.mark.parametrize("harm", ["", "<<<<<<<"], ids=["whole", "damaged"])
def test_somebodys_card_with_the_name_of_one_of_ours_is_not_overwritten(another, harm, tmp_path, monkeypatch):
    theirs = tmp_path / "data/results/cards/ncm.json"
    theirs.parent.mkdir(parents=True)
    theirs.write_text(harm + json.dumps(another))
    with pytest.raises(InputError, match="cards/ncm.json is somebody's card.*rename it, to reader-ncm.json"):
        run(tmp_path, monkeypatch)
    assert theirs.read_text() == harm + json.dumps(another)
    assert [path.name for path in theirs.parent.iterdir()] == ["ncm.json"]
    theirs.rename(theirs.with_name("reader-ncm.json"))
    if not harm:
        run(tmp_path, monkeypatch)
        assert {"ncm.json", "reader-ncm.json"} <= {path.name for path in theirs.parent.iterdir()}


def test_a_broken_card_stops_the_command_and_is_named(another, tmp_path, monkeypatch):
    another["cells"][0]["finals"]["novel"][5] = 7
    path = tmp_path / "data/results/cards/broken.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(another))
    with pytest.raises(InputError, match="broken.json: cells/0/finals/novel/5: 7 is greater"):
        run(tmp_path, monkeypatch)
    assert not (tmp_path / "figures").exists()


def test_what_anyone_may_add_to_is_not_among_the_artefacts_of_notebooks():
    listed = {path.relative_to(ROOT).as_posix() for path in artefacts(ROOT)}
    assert not any("cards/" in name or "leaderboard" in name for name in listed)
    assert "data/results/beyond.parquet" in listed and "figures/claims.png" in listed
