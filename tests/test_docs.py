"""Every example of the documentation runs, and prints what its page says."""

import re
import sys

import pytest

from ocrrlib.files import ROOT
from tests.pages import blocks, broken_links, listed_modules, modules, run_page, run_python

# What Sphinx fills in.
SITE = "api claims figures index leaderboard live notebooks paper references tables".split()
PAGES = [path for path in sorted((ROOT / "docs").glob("*.md")) if path.stem not in SITE]
# What needs a network, a cluster or another machine; whoever adds to it says so here.
NOT_EXECUTED = {
    "getting-started": ["pip install '.[run]'"],
    "scale-out": ["dask scheduler", "make paper DASK=tcp://scheduler:8786"],
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder, and a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OCRR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)  # of another test
    return tmp_path


@pytest.mark.published
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_example_runs_and_prints_what_the_page_says(page, here):
    left = run_page(page.read_text(encoding="utf-8"))
    assert [block.splitlines()[0] for block in left] == NOT_EXECUTED.get(page.stem, [])


def test_the_example_of_the_readme_ranks_a_system_of_ten_lines_among_the_published_ones(here):
    (example,) = [
        text
        for info, text in blocks((ROOT / "README.md").read_text(encoding="utf-8"))
        if info == "python"
    ]
    printed = run_python(example, {"__name__": "page"}, 0)
    assert "NearestMean" in printed and "ledger_lda" in printed
    assert sum(map(bool, example.splitlines())) <= 10


@pytest.mark.parametrize(
    "page",
    [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"],
    ids=lambda path: path.stem,
)
def test_links_to_files_lead_somewhere(page):
    assert broken_links(page) == []


def test_the_page_of_the_library_has_every_module():
    known = modules(ROOT / "ocrrlib") | modules(ROOT / "ocrr")
    assert known <= listed_modules(ROOT / "docs/api.md")


def test_every_path_of_the_map_exists():
    text = (ROOT / "docs/map.md").read_text(encoding="utf-8")
    words = re.findall(r"`([^`\s]+)`", text)
    paths = {word for word in words if "/" in word or word.endswith((".json", ".toml"))}
    assert len(paths) > 60
    paths = {path.replace("<dataset>", "banking77") for path in paths}
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []
