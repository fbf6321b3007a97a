"""The leaderboard follows from published rows; contributed rows are checked and ranked."""

import pandas as pd
import pytest

from ocrrlib.files import ROOT, InputError
from ocrrlib.own.evaluate import evaluate
from ocrrlib.own.evaluation import PUBLISHED, Evaluation, finals
from paper.leaderboard import contributed, leaderboard, main, markdown


@pytest.fixture
def ncm(banking, tmp_path):
    """The published evaluation of `ncm`, under another name, as a contribution in ``ada.csv``."""
    curve = pd.read_parquet(ROOT / "data/results/beyond.parquet")
    curve = curve.query("dataset == 'banking77' and policy == 'oracle' and system == 'ncm'").assign(
        system="their_ncm"
    )
    runs = finals(curve).assign(fingerprint=banking.fingerprint, held_out=10, every=50)
    found = Evaluation("their_ncm", curve, runs)
    found.to_csv(tmp_path / "ada.csv", "Ada, Example University", "2026-01-31")
    return found


def test_the_committed_leaderboard_is_that_of_the_committed_rows(tmp_path):
    main(target=tmp_path)
    for name in ("leaderboard.csv", "leaderboard.md"):
        assert (ROOT / "figures" / name).read_bytes() == (tmp_path / name).read_bytes(), (
            "`make leaderboard` and commit"
        )


def test_a_contributed_system_stands_in_its_cell_with_its_source(ncm, tiny, tmp_path):
    evaluate("ncm", tiny, [0], progress=False, resume=False).to_csv(
        tmp_path / "tiny.csv", "https://example.org/a"
    )
    (tmp_path / ".ada.csv.killed.csv").write_text("half")
    table = leaderboard(tmp_path)
    cell = table[(table["dataset"] == "banking77") & (table["policy"] == "oracle")].set_index(
        "system"
    )
    theirs = cell.loc["their_ncm"]
    ours = cell.loc["ncm"]
    assert theirs["rank"] == ours["rank"] and theirs["collapsed"] and theirs["seeds"] == 20
    same = ["novel", "original low", "anytime novel high", "corrections"]
    assert theirs[same].tolist() == pytest.approx(ours[same].tolist(), abs=1e-9)
    alone = table[table["dataset"] == "tiny"]
    assert alone["rank"].tolist() == [1] and not alone["collapsed"].any()
    text = markdown(table)
    cells = table[["dataset", "policy"]].drop_duplicates()
    assert (
        text.count("\n## ") == len(cells)
        and "Ada, Example University" in text
        and "nan" not in text
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
    ],
)
def test_rows_that_are_not_such_are_refused_by_file(ncm, change, clue, tmp_path):
    contributed(tmp_path / "ada.csv").assign(**change).to_csv(tmp_path / "bad.csv", index=False)
    with pytest.raises(InputError, match=f"bad.csv.*{clue}"):
        leaderboard(tmp_path)


def test_a_file_without_the_columns_is_refused(tmp_path):
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="bad.csv"):
        contributed(tmp_path / "bad.csv")
