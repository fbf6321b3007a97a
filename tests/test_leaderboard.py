"""The leaderboard follows from published rows; contributed rows are checked, and rank if re-run.

``tests/test_board.py`` has what a cheat would try.
"""

import json
import re
import shutil

import pandas as pd
import pytest

from ocrr.board.rows import contributed
from ocrr.evaluation import PUBLISHED, Evaluation, finals, published_runs
from ocrr.evaluator import evaluate
from ocrr.submission import hashes
from ocrrlib.files import ROOT, InputError
from ocrrlib.runs import published
from ocrrlib.systems import SYSTEMS
from paper.leaderboard import (
    AUTHORS,
    AUTOGRAD,
    CHECKED,
    FORMULA,
    LIBRARY,
    NOTHING,
    checked_against,
    leaderboard,
    main,
    markdown,
)


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


def run_again(rows, folder):
    """Write rows as a contribution whose report says that the system was run again."""
    own = folder / rows["system"].iloc[0]
    own.mkdir()
    rows.to_csv(own / "rows.csv", index=False)
    (own / "system.py").touch()
    (own / "report.json").write_text(json.dumps({"kind": "re-run", "files": hashes(own)}))


def test_every_system_is_checked_against_something_that_a_test_compares_it_with():
    systems = [name for _, _, names in CHECKED for name in names.split()]
    assert {*systems} <= {*SYSTEMS}
    assert {kind for kind, *_ in CHECKED} == {AUTHORS, AUTOGRAD, FORMULA, LIBRARY}
    for kind, file, names in CHECKED:
        text = (ROOT / f"tests/test_{file}.py").read_text(encoding="utf-8")
        if kind == AUTHORS:
            compared = {*pd.read_csv(ROOT / "tests/parity.csv")["system"]}
            assert {*names.split()} == compared - {"river_logreg"}  # in its final means alone
        elif file not in ("voting", "lora"):  # about the rule; about the only class of its file
            for cls in {SYSTEMS[name].cls for name in names.split()}:
                own = [name for name in names.split() if SYSTEMS[name].cls == cls]
                assert re.search(rf"\b({'|'.join([cls, *own])})\b", text), cls
    assert [name for name in SYSTEMS if checked_against(name) == NOTHING] == [
        "substrate_hnsw",
        "blind",
    ]


@pytest.mark.published
def test_the_committed_leaderboard_is_that_of_the_committed_rows(tmp_path):
    names = [f"leaderboard{end}" for end in (".csv", ".md", "_log.csv", ".head")]
    for name in names[2:]:
        shutil.copy(ROOT / "figures" / name, tmp_path)
    main(target=tmp_path)
    for name in names:
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
    assert theirs["kind"] == "reported" and pd.isna(theirs["rank"]) and theirs["seeds"] == 20
    assert ours["kind"] == "re-run" and ours["rank"] > 0
    assert (ours["checked against"], theirs["checked against"]) == ("formula", "nothing")
    same = ["novel", "original low", "starts at", "lost high", "hm", "corrections"]
    assert theirs[same].tolist() == pytest.approx(ours[same].tolist(), abs=1e-9)
    assert (table["dataset"] == "tiny").sum() == 1
    text = markdown(table)
    cells = table[["dataset", "policy"]].drop_duplicates()
    shown_apart = text.partition("### Not ranked")[2]
    assert (
        text.count("\n## ") == len(cells)
        and "Ada, Example University" in shown_apart
        and "nan" not in text
        and "<NA>" not in text
    )


def test_systems_rank_by_both_accuracies_and_only_over_the_published_seeds(ncm, tmp_path):
    rows = contributed(tmp_path / "ada.csv").assign(novel=1.0, original=1.0)
    run_again(rows.query("seed < 19").assign(system="lucky"), tmp_path)
    run_again(rows.assign(system="picked", seed=rows["seed"] + 1), tmp_path)
    run_again(rows.assign(system="forgetful", original=0.0), tmp_path)
    run_again(rows.assign(system="perfect"), tmp_path)
    rows.assign(system="told").to_csv(tmp_path / "told.csv", index=False)
    table = leaderboard(tmp_path).query("dataset == 'banking77' and policy == 'oracle'")
    assert table["system"].iloc[0] == "perfect" and table["rank"].iloc[0] == 1
    apart = table[table["rank"].isna()]
    assert {*apart["system"]} == {"lucky", "picked", "told", "their_ncm"}
    assert apart.index.tolist() == table.index[-4:].tolist()
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
        (dict(source=PUBLISHED.replace("p", "\uff50")), "source"),
        (dict(source=f"{PUBLISHED.title()} "), "single spaces"),
        (dict(source=PUBLISHED.replace(" ", "  ")), "single spaces"),
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
