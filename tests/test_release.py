"""A release declares one version and date everywhere, and refuses to begin what it cannot end."""

import re
import shutil
import subprocess
import sys

import pytest
import yaml

from ocrrlib.files import ROOT, InputError
from paper import release
from paper.release import DECLARED, DEFAULTS, by_hand, changes, declare

CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.fixture
def sources(tmp_path):
    """A folder with the files that declare the version."""
    for name in DECLARED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_version_and_date_are_declared_everywhere_and_again_in_the_next_release(sources):
    for version, day in (("1.0.0", "2026-12-01"), ("1.1.0", "2027-02-03")):
        declare(sources, version, day)
        cited = yaml.safe_load((sources / "CITATION.cff").read_text(encoding="utf-8"))
        assert cited["version"] == version and str(cited["date-released"]) == day
        for name in ("ocrrlib/__init__.py", "memory/corrigible/__init__.py"):
            text = (sources / name).read_text(encoding="utf-8")
            assert re.findall(r'__version__ = "(.*)"', text) == [version]


def test_a_file_that_declares_its_version_twice_is_refused(sources):
    with open(sources / "CITATION.cff", "a", encoding="utf-8") as file:
        file.write("version: 2.0.0\n")
    with pytest.raises(InputError, match="2 times"):
        declare(sources, "1.0.0", "2026-12-01")


def test_the_changelog_tells_of_the_next_release_and_not_of_another_one():
    assert "first release" in changes(DEFAULTS["VERSION"], CHANGELOG)
    with pytest.raises(InputError, match="no section ## 7.0.0"):
        changes("7.0.0", CHANGELOG)


def test_what_only_a_person_can_do_is_listed_while_it_is_not_done(tmp_path):
    wheels = [tmp_path / "ocrrlib-1.0.0.whl", tmp_path / "corrigible-1.0.0.whl"]
    archive = tmp_path / "a.tar.gz"
    before = by_hand("1.0.0", archive, wheels, None, False)
    after = by_hand("1.0.0", archive, wheels, "https://example.org/ocrr", True)
    for step in ("repository-code", "OCRR_BOARD_KEY"):
        assert step in before and step not in after
    assert "v1.0.0" in after and "ocrrlib-1.0.0.whl and corrigible-1.0.0.whl" in after


@pytest.mark.parametrize(
    "settings, said",
    [
        (["VERSION=one"], "VERSION=one is no version"),
        (["VERSON=1.0.0"], "VERSON"),
        (["VERSION=1.0.0"], "there is something uncommitted"),
    ],
)
def test_a_release_that_cannot_be_made_is_refused_in_one_line(settings, said, tmp_path):
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", ROOT.as_uri(), clone], check=True)
    (clone / "left.txt").write_text("not committed")
    shutil.copy(release.__file__, clone / "paper")
    command = [sys.executable, "-m", "paper.release", *settings]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert said in done.stderr and not (clone / "build").exists()
