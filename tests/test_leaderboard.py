"""The leaderboard follows from published rows; contributed rows are checked and ranked."""

import pandas as pd
import pytest

from ocrr.evaluation import PUBLISHED, Evaluation, finals, published_runs
from ocrr.evaluator import evaluate
from ocrrlib.files import ROOT, InputError
from ocrrlib.runs import published
from paper.leaderboard import contributed, leaderboard, main, markdown


@pytest.fixture(scope="module")
def curve():
    """Published checkpoints of one cell."""
    return published("beyond").query("dataset == 'banking77' and policy == 'oracle'")


@pytest.fixture
def ncm(curve, banking, tmp_path, monkeypatch):
    """The published evaluation of `ncm`, under another name, as a contribution in ``ada.csv``.

    Of what is published, the leaderboard has this cell alone.
    """
    ours = published_runs().query("dataset == 'banking77' and policy == 'oracle'")
    monkeypatch.setattr("paper.leaderboard.published_runs", lambda: ours)
    curve = curve[curve["system"] == "ncm"].assign(system="their_ncm")
    runs = finals(curve).assign(fingerprint=banking.fingerprint, held_out=10, every=50)
    found = Evaluation("their_ncm", curve, runs)
    found.to_csv(tmp_path / "ada.csv", "Ada, Example University", "2026-01-31")
    return found


@pytest.mark.published
def test_the_committed_leaderboard_is_that_of_the_committed_rows(tmp_path):
    main(target=tmp_path)
    for name in ("leaderboard.csv", "leaderboard.md"):
        assert (ROOT / "figures" / name).read_bytes() == (tmp_path / name).read_bytes(), (
            "`make leaderboard` and commit"
        )


def test_a_contributed_system_stands_in_its_cell_with_its_source(ncm, tiny, tmp_path):
    evaluate("ncm", tiny, [0], progress=False).to_csv(
        tmp_path / "tiny.csv", "https://example.org/a"
    )
    (tmp_path / ".ada.csv.killed.csv").write_text("half")
    table = leaderboard(tmp_path)
    cell = table[(table["dataset"] == "banking77") & (table["policy"] == "oracle")].set_index(
        "system"
    )
    theirs = cell.loc["their_ncm"]
    ours = cell.loc["ncm"]
    assert theirs["rank"] == ours["rank"] and theirs["seeds"] == 20
    same = ["novel", "original low", "starts at", "lost high", "hm", "corrections"]
    assert theirs[same].tolist() == pytest.approx(ours[same].tolist(), abs=1e-9)
    assert (table["dataset"] == "tiny").sum() == 1
    text = markdown(table)
    cells = table[["dataset", "policy"]].drop_duplicates()
    assert (
        text.count("\n## ") == len(cells)
        and "Ada, Example University" in text
        and "nan" not in text
        and "<NA>" not in text
    )


def test_systems_rank_by_both_accuracies_and_only_over_twenty_seeds(ncm, tmp_path):
    rows = contributed(tmp_path / "ada.csv").assign(novel=1.0, original=1.0)
    fewer = rows.query("seed < 19").assign(system="lucky")
    fewer.to_csv(tmp_path / "lucky.csv", index=False)
    rows.assign(system="forgetful", original=0.0).to_csv(tmp_path / "forgetful.csv", index=False)
    rows.assign(system="perfect").to_csv(tmp_path / "perfect.csv", index=False)
    table = leaderboard(tmp_path).query("dataset == 'banking77' and policy == 'oracle'")
    assert table["system"].iloc[0] == "perfect" and table["rank"].iloc[0] == 1
    assert table["system"].iloc[-1] == "lucky" and pd.isna(table["rank"].iloc[-1])
    ranks = table.set_index("system")["rank"]
    assert ranks["forgetful"] == ranks["static_linear"] == ranks.max()


def test_readers_see_what_was_lost_of_what_a_system_starts_at():
    table = pd.read_csv(ROOT / "figures/leaderboard.csv")
    forgetting = table.set_index(["dataset", "policy", "system"])["lost"]
    assert forgetting["clinc150", "oracle", "substrate"] == pytest.approx(0.0022, abs=1e-4)
    assert forgetting["hwu64", "oracle", "pa"] > 0.3
    pd.testing.assert_series_equal(
        table["starts at"] - table["lost"], table["original"], check_names=False, atol=2e-6
    )


@pytest.mark.parametrize("source", ["<script>alert(1)</script>", "Ada\x1b[31m", "a|b", "", 3])
def test_a_source_with_html_or_control_characters_is_refused(ncm, source, tmp_path):
    with pytest.raises(InputError, match="source"):
        ncm.to_csv(tmp_path / "bad.csv", source)
    assert not (tmp_path / "bad.csv").exists()


@pytest.mark.parametrize(
    "change, clue",
    [
        (dict(novel=1.2), "accuracies above 1"),
        (dict(corrections=-1), "negative"),
        (dict(system="<b>ncm</b>"), "<b>ncm</b>"),
        (dict(source=PUBLISHED), "source"),
        (dict(seed=0), "seed"),
        (dict(original=None), "no rows"),
        (dict(date=None), "nan"),
        (dict(seed=[0.5, *range(1, 20)]), "whole"),
        (dict(held_out=10.5), "whole"),
        (dict(corrections=float("inf")), "infinite"),
        (dict(novel=True), "True"),
        (dict(fingerprint="f" * 64), "not the published banking77"),
    ],
)
def test_rows_that_are_not_such_are_refused_by_file(ncm, change, clue, tmp_path):
    contributed(tmp_path / "ada.csv").assign(**change).to_csv(tmp_path / "bad.csv", index=False)
    with pytest.raises(InputError, match=f"bad.csv.*{clue}"):
        leaderboard(tmp_path)


@pytest.mark.parametrize("change", [{}, dict(novel=1.0), dict(source="Another")])
def test_a_seed_of_a_system_is_in_one_file_only(ncm, change, tmp_path):
    contributed(tmp_path / "ada.csv").assign(**change).to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(InputError, match="ada.csv and .*b.csv both have their_ncm"):
        leaderboard(tmp_path)


@pytest.mark.parametrize("name", ["NA", "nan", "None"])
def test_a_name_that_looks_like_a_missing_value_is_one(ncm, name, tmp_path):
    contributed(tmp_path / "ada.csv").assign(system=name).to_csv(tmp_path / "ada.csv", index=False)
    assert name in set(leaderboard(tmp_path)["system"])


def test_a_file_without_the_columns_is_refused(tmp_path):
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="bad.csv"):
        contributed(tmp_path / "bad.csv")
