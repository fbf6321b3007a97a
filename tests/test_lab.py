"""The correction desk in a real browser, on a running JupyterLab."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.fixture(scope="module")
def lab(tmp_path_factory, checkout):
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
        cwd=checkout,
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
        run = "jupyterapp.commands.execute('notebook:run-all-cells')"
        tab.run(f"void {run}.then(() => window.haveRun = true)")
        tab.until("window.haveRun", 600)

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
