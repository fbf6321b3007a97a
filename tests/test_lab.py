"""Notebooks run by hand; the correction desk in a real browser, on a running JupyterLab."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import notebooks.run  # noqa: F401 - with its nbclient, which cannot wait forever
from ocrrlib.files import ROOT, cache_folder

pytestmark = pytest.mark.slow
# Without news and dialogues at a first visit, and with all cells drawn.
SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
}
SERVER = {
    "Application": {"log_level": "CRITICAL"},
    "ServerApp": {"allow_root": True, "open_browser": False, "port": 0},
    "LabApp": {
        "expose_app_in_browser": True,
        "check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
    },
}
DESK = "document.querySelector('.jp-OutputArea .widget-vbox')"
LABEL = "lost_or_stolen_phone"


def git(folder, *words):
    """What git prints."""
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True).stdout


def copy_of_checkout(tmp_path_factory):
    """A folder with a space in its path, with all files of the checkout, committed."""
    folder = tmp_path_factory.mktemp("check out")
    for name in git(ROOT, "ls-files", "-z").decode().split("\0")[:-1]:
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "all")
    return folder


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return copy_of_checkout(tmp_path_factory)


BY_HAND = [(path.stem, {}) for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))]
BY_HAND += [("02_full_sweep", {"SEEDS": '"0"'}), ("05_vote_ablation", {"OUT": '"."'})]


@pytest.mark.parametrize("stem, changed", BY_HAND)
def test_a_notebook_run_by_hand_leaves_published_files_and_says_where_it_writes(
    stem, changed, checkout, monkeypatch
):
    monkeypatch.setenv("OCRR_CACHE_DIR", str(cache_folder().absolute()))  # of runs, as far as made
    monkeypatch.setenv("PYTHONPATH", str(checkout))
    shutil.rmtree(checkout / "build/lab", ignore_errors=True)
    notebook = nbformat.read(checkout / f"notebooks/{stem}.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for name, value in changed.items():
        cells[0].source, places = re.subn(f"(?m)^{name} = .*", f"{name} = {value}", cells[0].source)
        assert places == 1
    where = {"metadata": {"path": checkout / "notebooks"}}  # as JupyterLab does
    NotebookClient(notebook, resources=where, timeout=600).execute()
    first = next(output for cell in cells for output in cell.outputs)
    assert "writes " in first.text
    assert git(checkout, "status", "--porcelain").decode() == ""
    if "OUT" in cells[0].source:
        assert "build/lab" in first.text
        assert [path for path in (checkout / "build/lab").rglob("*") if path.is_file()]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Address of the JupyterLab of `make lab` in a copy of the checkout; it ends with the tests."""
    home = tmp_path_factory.mktemp("lab")
    config = home / "JUPYTER_CONFIG_DIR"
    (config / "labconfig").mkdir(parents=True)
    (config / "labconfig/default_setting_overrides.json").write_text(json.dumps(SETTINGS))
    (config / "jupyter_server_config.json").write_text(json.dumps(SERVER))
    folders = (
        "JUPYTERLAB_SETTINGS_DIR",
        "JUPYTERLAB_WORKSPACES_DIR",
        "JUPYTER_RUNTIME_DIR",
        "JUPYTER_CONFIG_DIR",
        "IPYTHONDIR",
    )
    settings = {name: str(home / name) for name in folders}
    settings |= {"JUPYTER_PLATFORM_DIRS": "1", "NB_PYTHON_PREFIX": "active"}
    settings["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    server = subprocess.Popen(
        ["make", "lab"],
        env=os.environ | settings,
        cwd=copy_of_checkout(tmp_path_factory),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield next(line for line in server.stderr if "http://127.0.0.1" in line).strip()
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.communicate()


class Visitor:
    """A person with mouse and keyboard, at the tour, of which all cells have run."""

    def __init__(self, tab, lab):
        self.tab = tab
        tab.show(width=1300, height=1300)
        tab.open(lab.replace("/lab?", "/lab/workspaces/00_tour/tree/notebooks/00_tour.ipynb?"))
        tab.until(
            "!!window.jupyterapp && !!document.querySelector('.jp-NotebookPanel .jp-CodeCell')", 120
        )
        tab.until(
            "jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'",
            120,
        )
        assert (
            tab.run("jupyterapp.commands.execute('notebook:run-all-cells').then(() => true)")
            is True
        )

    def click(self, what, text):
        """Click the element with this text or placeholder, once it may be used and stands still."""
        found = f"[...document.querySelectorAll('.jp-OutputArea {what}')]"
        found += ".find(e => !e.disabled && "
        found += f"[e.textContent, e.placeholder].includes({json.dumps(text)}))"
        self.tab.until(f"!!{found}")
        self.tab.run(
            "(async e => { document.querySelector('#target')?.removeAttribute('id'); "
            "e.id = 'target'; "
            "e.scrollIntoView({block: 'center'}); "
            "for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame)"
            f" }})({found})"
        )
        self.tab.click("#target")

    def type(self, placeholder, *keys):
        self.click("input", placeholder)
        self.tab.run("document.querySelector('#target').select()")
        self.tab.press(*keys)

    def sees(self, text):
        self.tab.until(f"{DESK}?.innerText.includes({json.dumps(text)})", 120)


def test_a_visitor_asks_corrects_and_asks_again_on_any_screen(lab, tab):
    visitor = Visitor(tab, lab)
    visitor.sees("Accuracy on test rows")
    visitor.type("type a sentence", "my phone has been stolen", "Enter")
    visitor.sees("runner-up")
    visitor.type("the right class, or a new name", LABEL, "Tab")
    visitor.click("button", "Correct")
    tab.until(f"[...{DESK}.querySelectorAll('table')].at(-1).innerText.includes('{LABEL}')")
    visitor.click("button", "Ask again")
    visitor.sees("before")
    rows = f"[...{DESK}.querySelector('table').tBodies[0].rows]"
    rows += ".map(row => [...row.cells].map(cell => cell.textContent.trim()))"
    assert tab.run(rows)[0][:3] == ["substrate", "lost_or_stolen_card", LABEL]

    errors = '[data-mime-type$="jupyter.error"], [data-mime-type$="jupyter.stderr"]'
    assert tab.run(f"document.querySelectorAll('{errors}').length") == 0

    inputs = f"[...{DESK}.querySelectorAll('select, input')]"
    unnamed = f"{inputs}.filter(e => !e.labels[0]?.innerText && !e.placeholder)"
    assert tab.run(f"{unnamed}.map(e => e.outerHTML)") == []
    tab.run("jupyterapp.commands.execute('application:toggle-left-area').then(() => true)")
    for width in (1300, 400):
        tab.show(width=width, height=1300)
        assert tab.run(f"{DESK}.scrollWidth - {DESK}.clientWidth") <= 0
    # Else a dialog keeps the page open.
    tab.run("jupyterapp.commands.execute('docmanager:save').then(() => true)")
