"""What corrections came to, from the ledger alone: the same under a head, whatever is appended."""

from datetime import UTC, date, datetime

import numpy as np
import pytest
from entries import D, X, clusters, corrigible, in_a_file, refused

from corrigible import CorrectionMemory, verify
from corrigible.ledger.copies import copy
from corrigible.stores.location import located

MONDAY = datetime(2026, 1, 5, 8, tzinfo=UTC)
WEEK = 7 * 24 * 3600


@pytest.fixture
def clock(monkeypatch):
    """Sets how many seconds after a Monday in January entries are written."""

    def at(seconds):
        now = int((MONDAY.timestamp() + seconds) * 1e9)
        monkeypatch.setattr("corrigible.ledger.ledger.time.time_ns", lambda: now)

    at(0)
    return at


def counts(report):
    return [tuple(week) for week in report.weeks]


def test_corrections_that_hold_repeats_and_new_labels_are_counted_by_weeks(path, clock):
    E = np.eye(9)
    with CorrectionMemory.open(path) as memory:
        memory.learn(E[:6], [*"aabbcc"])  # an import is no correction
        clock(1)
        memory.correct(E[6], "new")
        memory.correct(E[6] + 0.1 * E[0], "a")  # a label that a near entry has
        clock(WEEK * 3 - 8 * 3600 - 1)  # Sunday night
        wrong = memory.correct(E[7], "c")
        clock(WEEK * 3)
        memory.correct(E[7], "other", replaces=wrong)
        memory.rename("new", "renamed")
        undone = memory.correct(E[8], "typo")
        memory.undo(undone)
        report = memory.report()
    assert counts(report) == [
        (date(2026, 1, 5), 2, 2, 1, 1),
        (date(2026, 1, 19), 1, 0, 1, 0),
        (date(2026, 1, 26), 2, 1, 0, 1),
    ]
    assert tuple(report.total) == (date(2026, 1, 5), 5, 3, 2, 2)
    assert (report.entries, report.labels) == (9, 5)
    assert report.lack and report.coverage == 0


def test_a_label_is_near_if_one_of_the_five_nearest_entries_that_counted_had_it(path):
    E = np.eye(9)
    near = [E[0] + 0.1 * one for one in E[1:7]]
    with CorrectionMemory.open(path) as memory:
        memory.learn([*near, E[8]], ["x"] * 6 + ["far"])
        memory.correct(E[0], "far")
        memory.undo(0)
        memory.undo(1)
        memory.correct(E[0] + 0.01 * E[7], "far")  # five nearest: four of x, and the first
        assert memory.report().total[3] == 1
        memory.undo(7)
        memory.correct(E[0] + 0.02 * E[7], "gone")
        assert memory.report().total[3] == 1


@in_a_file
def test_a_report_is_the_same_under_its_head_from_any_copy_whatever_is_appended(memory, tmp_path):
    more, y = clusters(6, 3, D, seed=1)
    for x, label in zip(more, y):
        memory.correct(x, f"class {label}")
    then = memory.report()
    memory.correct(more[0], "class 9")
    memory.undo(len(memory) - 2)
    memory.merge(["class 1", "class 2"], "class 2")
    assert memory.report() != then and memory.at(then.head).report() == then
    copy(located(memory.path), located(tmp_path / "copy.sqlite"))
    assert verify(tmp_path / "copy.sqlite", then.head) is None
    with CorrectionMemory.open(tmp_path / "copy.sqlite") as other:
        assert other.at(str(then.head)).report() == then


def test_coverage_is_the_share_of_answers_that_are_promised(path):
    rows, y = clusters(8, 60, D, seed=2, spread=0.3)
    asked, _ = clusters(8, 60, D, seed=3, spread=0.3)
    with CorrectionMemory.open(path) as memory:
        memory.learn(rows, y)
        shares = [memory.report(at_least).coverage for at_least in (0.5, 0.8, 0.99)]
        answered = [one.label is not None for one in memory.predict(asked, at_least=0.8)]
        assert shares == sorted(shares, reverse=True) and shares[0] > shares[2]
        assert abs(shares[1] - 0.9 * np.mean(answered)) < 0.15  # a tenth is of unknown labels
        with refused("share"):
            memory.report(2)


def test_a_memory_without_entries_reports_none(path):
    with CorrectionMemory.open(path) as memory:
        memory.correct(X[0], "a")
        memory.undo(0)
        report = memory.report()
        assert (report.entries, report.total[1:], report.coverage) == (0, (1, 0, 0, 0), 0)


def test_the_command_prints_weeks_and_the_head_that_shows_what_of(path, clock):
    with CorrectionMemory.open(path) as memory:
        memory.correct(X[0], "a")
    status, out, _ = corrigible("report", path)
    assert status == 0
    assert "2026-01-05            1     1        0           1" in out
    head = path.with_name("head")
    head.write_text(out.partition("\n\n")[2])
    with CorrectionMemory.open(path) as memory:
        memory.correct(X[1], "b")
    assert corrigible("verify", path, "--head", head)[0] == 0
    assert corrigible("report", path, "--at", head)[1] == out
