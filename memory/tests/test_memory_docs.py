"""Every example of the memory's pages runs, and prints what its page says."""

import os

import pytest
import yaml

from tests.pages import broken_links, listed_modules, modules, run_page, run_shell
from trials import MEMORY

PAGES = [path for path in sorted((MEMORY / "docs").glob("*.md")) if path.stem != "api"]
# What needs a network or another machine; whoever adds to it says so here.
NOT_EXECUTED = {
    "language-model": ["{"],
    "service": [
        "$ corrigible new tickets.sqlite",
        '$ curl localhost:8000/predict --json \'{"text": "my PIN is gone"}\'',
        "$ corrigible serve tickets.sqlite --allow-host desk.example",
    ],
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder, and a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OCRR_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def desk(postgres, monkeypatch):
    """An empty base ``desk``, which programs find without being told of a server."""
    monkeypatch.setenv("PGHOST", str(postgres.socket.parent))
    monkeypatch.setenv("PGUSER", "postgres")
    monkeypatch.setenv("PATH", f"{postgres.programs}{os.pathsep}{os.environ['PATH']}")
    run_shell('createdb desk\npsql --quiet --command="CREATE EXTENSION vector" desk')


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=[pytest.mark.slow] * (page.stem == "postgresql"))
        for page in PAGES
    ],
)
def test_every_example_runs_and_prints_what_the_page_says(page, here, request):
    text = page.read_text(encoding="utf-8")
    if page.stem == "postgresql":
        request.getfixturevalue("desk")
    left = run_page(text)
    assert [block.splitlines()[0] for block in left] == NOT_EXECUTED.get(page.stem, [])


def test_the_five_lines_of_the_readme_run(here):
    left = run_page((MEMORY / "README.md").read_text(encoding="utf-8"))
    assert [block.strip() for block in left] == ["pip install . ./memory"]


def test_commands_of_the_compose_file_are_those_of_corrigible():
    services = yaml.safe_load((MEMORY / "docs/examples/compose.yml").read_text())["services"]
    for name in ("one", "two"):
        assert "70000 is no port" in run_shell(f"{services[name]['command']} --port 70000")


@pytest.mark.parametrize(
    "page", [*sorted((MEMORY / "docs").glob("*.md")), MEMORY / "README.md"], ids=lambda p: p.stem
)
def test_links_to_files_lead_somewhere(page):
    assert broken_links(page) == []


def test_the_page_of_the_library_has_every_module():
    assert modules(MEMORY / "corrigible") <= listed_modules(MEMORY / "docs/api.md")
