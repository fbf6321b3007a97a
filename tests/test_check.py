"""Published rows come out as published; a planted fault is named, and a change of words is none."""

import os
import shutil
import subprocess
import sys

import pytest

from ocrrlib.datasets import load_texts
from ocrrlib.files import ROOT, InputError
from ocrrlib.systems import SYSTEMS
from studies import check
from studies.check import (
    STUDIES,
    commit,
    differing,
    differing_rows,
    draw,
    repeatable_runs,
    undeclared,
)

PUBLISHED = repeatable_runs()


@pytest.mark.published
@pytest.mark.parametrize("file", sorted({one.file for one in PUBLISHED}))
def test_one_run_of_every_file_and_system_drawn_from_the_commit_comes_out_as_published(file):
    runs = [one for one in PUBLISHED if one.file == file]
    if file == "lora":  # minutes a run: its default, at the first checkpoints
        runs = [one for one in runs if one.run.system == "lora"]
        try:
            load_texts("banking77")
        except InputError as error:
            pytest.skip(f"LoRA reads texts: {error}")
    assert differing(draw(runs, commit()), jobs=1, progress=False) == []


@pytest.mark.published
@pytest.mark.parametrize("name", STUDIES)
def test_a_row_of_a_study_drawn_from_the_commit_comes_out_as_published(name):
    assert differing_rows(name, commit()) == []


def test_samples_follow_from_the_salt_and_differ_between_commits():
    assert (
        draw(PUBLISHED, "a", count=20)
        == draw(PUBLISHED, "a", count=20)
        != draw(PUBLISHED, "b", count=20)
    )
    one_each = [(one.file, one.run.system) for one in draw(PUBLISHED, "a")]
    assert len(one_each) == len({*one_each})
    assert {*one_each} == {(one.file, one.run.system) for one in PUBLISHED}


def test_every_published_row_is_of_the_declared_version_and_parameters(monkeypatch):
    assert undeclared() == []
    monkeypatch.setattr(check, "PROTOCOL", 2)
    assert any("protocol 1, not 2" in line for line in undeclared())


def test_a_new_registry_row_changes_nothing_published(monkeypatch):
    monkeypatch.setitem(SYSTEMS, "slda_again", SYSTEMS["slda"])
    assert undeclared() == [] and repeatable_runs() == PUBLISHED


@pytest.fixture
def edited(tmp_path):
    """Edits a copy of the checkout's code, then runs ``make check`` there."""
    for name in ("ocrrlib", "studies"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "data").symlink_to(ROOT / "data")

    def run(file, old, new, *settings):
        path = tmp_path / file
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
        command = [sys.executable, "-m", "studies.check", "JOBS=1", *settings]
        return subprocess.run(
            command,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
        )

    return run


@pytest.mark.published
def test_a_planted_off_by_one_is_named(edited):
    done = edited(
        "ocrrlib/rivals/discriminants.py",
        "k + 1",
        "k + 2",
        "SYSTEMS=slda,ncm",
        "SAMPLE=6",
        "SEED=1",
    )
    assert done.returncode == 1 and "differences in slda:" in done.stderr
    assert "system='slda'" in done.stdout and "system='ncm'" not in done.stdout


@pytest.mark.published
def test_renaming_and_rewording_leave_the_check_green(edited):
    done = edited(
        "ocrrlib/systems/base.py",
        "Class ids",
        "Ids of classes",
        "SYSTEMS=slda",
        "SAMPLE=2",
        "SEED=1",
    )
    assert done.returncode == 0 and "2 published runs repeated, all exact" in done.stdout


@pytest.mark.parametrize(
    "word, said",
    [
        ("SYSTEMS=sld", "unknown system 'sld'"),
        ("SAMPEL=3", "unknown parameter 'SAMPEL'"),
        ("SAMPLE=x", "give numbers"),
    ],
)
def test_settings_that_cannot_be_are_one_line(word, said, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["check", word])
    with pytest.raises(SystemExit, match=f"^error: .*{said}[^\n]*$"):
        check.main()
