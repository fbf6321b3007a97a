"""The how-tos and the README: every example runs as it stands there, and prints what it says."""

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys

import pytest
import yaml

from ocrr.cli import main
from ocrrlib.files import ROOT

# What Sphinx fills in.
SITE = "api claims figures index leaderboard live notebooks paper references tables".split()
PAGES = [path for path in sorted((ROOT / "docs").glob("*.md")) if path.stem not in SITE]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
BASE = "postgresql://desk@db.example/base"  # which is that of the tests, when they run
# What needs a network, a cluster or another machine; whoever adds to it says so here.
NOT_EXECUTED = {
    "service": [
        "$ corrigible new tickets.sqlite",
        '$ curl localhost:8000/predict -d \'{"text": "my PIN is gone"}\'',
    ],
    "getting-started": ["pip install ."],
    "scale-out": ["dask scheduler", "make paper DASK=tcp://scheduler:8786"],
}

SERVER_TOOLS = ("createdb", "pg_dump", "pg_restore", "psql")
SHOWN = {"check": True, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}


def blocks(text):
    """Fenced blocks of a page, in order: what follows the opening fence, and the text."""
    return [(match["info"].strip(), match["text"]) for match in FENCE.finditer(text)]


def run_python(text, names, place):
    """What a block prints; ``names`` are those of the whole page."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile("\n" * place + text, "<page>", "exec"), names)
    return out.getvalue()


def run_shell(text):
    """What the commands of a block print, errors included, with an exit status other than 0."""
    said = ""
    progress = r"[^\n]*\d%\|[^\n]*\n|[.]{3} [^\n]* s\n"  # differs from run to run
    for line in text.replace("\\\n", " ").splitlines():
        program, *arguments = shlex.split(line, comments=True)
        if program in SERVER_TOOLS:
            said += subprocess.run([program, *arguments], **SHOWN).stdout
            continue
        assert program == "ocrr", f"{line}: only ocrr can be run here"
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            with pytest.raises(SystemExit) as ended:
                main(arguments)
        said += out.getvalue() + re.sub(progress, "", err.getvalue())
        said += f"exit status {ended.value.code}\n" if ended.value.code else ""
    return said


def run_page(text):
    """Run the blocks of a page, one after the other.

    A block of text is the output of the one before it; ``...`` in it stands for anything.

    Returns
    -------
    list of str
        Blocks that are marked as not executed.
    """
    names = {"__name__": "page"}
    printed = None
    left = []
    for info, block in blocks(text):
        if info.endswith("not executed"):
            left.append(block)
            printed = None
        elif info == "python":
            printed = run_python(block, names, text[: text.index(block)].count("\n"))
        elif info == "sh":
            printed = run_shell(block)
        elif info == "text":
            assert printed is not None, f"nothing was run before this: {block}"
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            same = doctest.OutputChecker().check_output(block, printed, flags)
            assert same, f"expected:\n{block}\nprinted:\n{printed}"
        else:
            raise AssertionError(
                f"a block of {info or 'nothing'}: mark it python, sh, text, or '... not executed'"
            )
    return left


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder, and a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OCRR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)  # of another test
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
        pytest.param(page, id=page.stem, marks=[pytest.mark.slow] * (page.stem == "scale-out"))
        for page in PAGES
    ],
)
def test_every_example_runs_and_prints_what_the_page_says(page, here, request):
    text = page.read_text(encoding="utf-8")
    if page.stem == "scale-out":
        request.getfixturevalue("desk")
    if BASE in text:
        text = text.replace(BASE, request.getfixturevalue("server"))
    left = run_page(text)
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


def test_commands_of_the_compose_file_are_those_of_ocrr():
    services = yaml.safe_load((ROOT / "docs/examples/compose.yml").read_text())["services"]
    for name in ("one", "two"):
        assert "70000 is no port" in run_shell(f"{services[name]['command']} --port 70000")


@pytest.mark.parametrize(
    "page",
    [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"],
    ids=lambda path: path.stem,
)
def test_links_to_files_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#]+)", re.sub(FENCE, "", page.read_text(encoding="utf-8"))):
        # The site's build copies the notebooks beside its pages.
        folder = ROOT if link.startswith("notebooks/") else page.parent
        assert link.startswith("https://") or (folder / link).exists(), link


def test_the_page_of_the_library_has_every_module():
    page = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    for path in (ROOT / "ocrrlib").rglob("[!_]*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        assert f".. automodule:: {module}\n" in page, module
