"""Tables of the site: the first page's systems, the leaderboard and the claims, in HTML."""

import json

import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup

from ocrrlib.files import ROOT
from ocrrlib.metrics import final
from ocrrlib.runs import published
from paper import pages


@pytest.fixture
def ranked():
    return pd.read_csv(ROOT / "figures/leaderboard.csv")


@pytest.fixture
def claims():
    return json.loads((ROOT / "paper/claims.json").read_text(encoding="utf-8"))


def parsed(html):
    return BeautifulSoup(html, "html.parser")


def test_the_leaderboard_has_a_tab_for_each_cell_with_intervals_and_seeds(ranked):
    html = parsed(pages.leaderboard(ranked))
    tabs = html.select("input[type=radio] + label + section")
    assert len(tabs) == len(html.select("input")) == 9
    for tab in tabs:
        header = [cell.text for cell in tab.select("thead th")]
        assert header[:6] == ["Rank", "System", "Novel", "Original", "Area", "Holds"]
        best = dict(zip(header, (cell.text for cell in tab.select("tbody tr")[0].children)))
        assert best["Rank"] == "1" and best["Seeds"] == "20"
        assert all("±" in best[name] for name in ("Novel", "Original", "Area", "Holds", "HM"))


def test_a_system_without_a_rank_or_a_measure_shows_a_dash(ranked):
    some = ranked.head(2).assign(rank=[1, None], holds=[1.0, None])
    last = parsed(pages.leaderboard(some)).select("tbody tr")[1]
    assert last.select_one("[data-title=Rank]").text == "–"
    assert last.select_one("[data-title=Holds]").text.startswith("–")


def test_six_systems_have_the_numbers_of_the_leaderboard(ranked):
    html = parsed(pages.systems(ranked, "clinc150", "random10"))
    cell = ranked.query("dataset == 'clinc150' and policy == 'random10'").set_index("system")
    rows = html.select("tbody tr")
    assert len(rows) == 6 and "20 seeds" in html.p.text
    for row in rows:
        name = row.th.contents[0]
        shown = [float(row.select_one(f"[data-title={one}]").contents[0]) for one in ("Area", "HM")]
        assert shown == pytest.approx(cell.loc[name, ["ausuc", "hm"]].tolist(), abs=5e-4)
        assert row.select_one("[data-title=Novel] span").text.startswith(" ± ")


def test_the_slider_moves_published_means_along_corrections():
    cell = published("beyond").query("dataset == 'clinc150' and policy == 'oracle'")
    html = pages.slider(cell)
    data = json.loads(parsed(html).script.text)
    ends = final(cell).groupby("system")[["novel_acc", "original_acc"]].mean()
    starts = cell[cell["step"] == 0].groupby("system")[["novel_acc", "original_acc"]].mean()
    last = np.flatnonzero(np.array(data["grid"]) > final(cell)["corrections"].max())
    for name, axes in data["systems"].items():
        assert [axis[0] for axis in axes] == pytest.approx(starts.loc[name].tolist(), abs=1e-3)
        assert all(len(axis) == len(data["grid"]) for axis in axes)
        if len(last):
            assert [axis[-1] for axis in axes] == pytest.approx(ends.loc[name].tolist(), abs=1e-3)
    assert len(html) < 40_000


def test_every_claim_stands_on_its_page_with_verdict_and_numbers(claims):
    html = parsed(pages.claims(claims))
    for one in claims:
        row = html.find(id=f"claim-{one['id']}")
        assert one["verdict"] in row.select_one("[data-title=Verdict]").text
        assert one["printed"] in row.text and one["note"] in row.text
        assert all(check["found"] in row.text for check in one["checks"].values())


def test_the_ten_claims_that_carry_the_original_stand_apart_and_are_not_named_twice(claims):
    html = parsed(pages.central(claims))
    told = [row.select_one("[data-title=Claim]").contents[0] for row in html.select("tbody tr")]
    assert told == [one["claim"] for one in claims if one["central"]]
    assert len(told) == 10 and not html.select("[id], form")


def test_text_of_contributors_is_not_read_as_html(ranked):
    named = ranked.head(1).assign(source="a<b>", system="c&d")
    shown = parsed(pages.leaderboard(named))
    assert shown.select_one("[data-title=Source]").text == "a<b>"
    assert shown.select_one("[data-title=System]").text == "c&d"
