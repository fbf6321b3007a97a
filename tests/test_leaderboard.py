"""The leaderboard: what is committed follows from the published rows; contributed rows are checked and ranked."""

import pandas as pd
import pytest

from ocrrlib.evaluation import CELL, PUBLISHED, Evaluation
from ocrrlib.files import ROOT, InputError
from ocrrlib.own import evaluate
from paper.leaderboard import COLUMNS, contributed, leaderboard, main, markdown


@pytest.fixture(scope="module")
def ncm(banking):
    """The published evaluation of `ncm`, under another name."""
    curve = pd.read_parquet(ROOT / "data/results/beyond.parquet")
    curve = curve.query("dataset == 'banking77' and policy == 'oracle' and system == 'ncm'").assign(system="their_ncm")
    cell = dict(zip(CELL, ("banking77", banking.fingerprint, "all-MiniLM-L6-v2", "oracle", 10, 50)))
    return Evaluation("their_ncm", curve, cell)


@pytest.fixture
def rows(ncm):
    return ncm.rows("Ada, Example University", "2026-01-31")


def test_the_committed_leaderboard_is_that_of_the_committed_rows(tmp_path, capsys):
    main(target=tmp_path)
    for name in ("leaderboard.csv", "leaderboard.md"):
        assert (ROOT / "figures" / name).read_bytes() == (tmp_path / name).read_bytes(), "`make leaderboard` and commit"


def test_a_contributed_system_stands_in_its_cell_with_its_source(ncm, tiny, tmp_path):
    ncm.to_csv(tmp_path / "ada.csv", "Ada, Example University", "2026-01-31")
    evaluate("ncm", tiny, [0], progress=False, resume=False).to_csv(tmp_path / "tiny.csv", "https://example.org/a")
    (tmp_path / ".ada.csv.killed.csv").write_text("half")
    table = leaderboard(tmp_path)
    cell = table[(table["dataset"] == "banking77") & (table["policy"] == "oracle")].set_index("system")
    theirs, ours = cell.loc["their_ncm"], cell.loc["ncm"]
    assert theirs["rank"] == ours["rank"] and theirs["collapsed"] and theirs["seeds"] == 20
    same = ["novel", "original low", "anytime novel high", "corrections"]
    assert theirs[same].tolist() == pytest.approx(ours[same].tolist(), abs=1e-9)
    alone = table[table["dataset"] == "tiny"]
    assert alone["rank"].tolist() == [1] and not alone["collapsed"].any()
    text = markdown(table)
    assert text.count("\n## ") == 7 and "Ada, Example University" in text and "nan" not in text


def test_rows_read_back_as_written(ncm, rows, tmp_path):
    ncm.to_csv(tmp_path / "ada.csv", "Ada, Example University", "2026-01-31")
    pd.testing.assert_frame_equal(contributed(tmp_path / "ada.csv"), rows, check_dtype=False)
    assert list(rows) == COLUMNS


def test_a_source_with_html_or_control_characters_is_refused(ncm):
    for source in ("<script>alert(1)</script>", "Ada\x1b[31m", "a|b", "", 3):
        with pytest.raises(InputError, match="source"):
            ncm.rows(source)


@pytest.mark.parametrize(
    "change, clue",
    [
        (dict(novel=1.2), "accuracies above 1"),
        (dict(corrections=-1), "negative"),
        (dict(novel="much"), "much"),
        (dict(system="<b>ncm</b>"), "<b>ncm</b>"),
        (dict(source=PUBLISHED), "source"),
        (dict(seed=0), "seed"),
        (dict(original=None), "no rows"),
        (dict(date=None), "nan"),
    ],
)
def test_rows_that_are_not_such_are_refused_by_file(rows, change, clue, tmp_path):
    rows.assign(**change).to_csv(tmp_path / "bad.csv", index=False)
    with pytest.raises(InputError, match=f"bad.csv.*{clue}"):
        leaderboard(tmp_path)


def test_a_file_that_is_no_table_is_refused(tmp_path):
    for content in (b"", b"\xff\xfe\x00", b"a,b\n1,2\n"):
        (tmp_path / "bad.csv").write_bytes(content)
        with pytest.raises(InputError, match="bad.csv"):
            contributed(tmp_path / "bad.csv")
