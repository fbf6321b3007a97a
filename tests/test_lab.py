"""The desk and the explorer in a real browser, on a running JupyterLab."""

import base64
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from ocrrlib.files import ROOT
from tests import browser as chromium

pytestmark = [pytest.mark.slow, pytest.mark.skipif(chromium.find() is None, reason="no browser is installed")]
TOKEN = secrets.token_hex(16)
PICTURES = ROOT / "build/lab"
# Without news and dialogues at a first visit, and with all cells drawn.
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "notebook-extension/tracker": {"windowingMode": "none"},
}
DESK = "document.querySelector('.jp-OutputArea .widget-vbox')"
LABEL = "lost_or_stolen_phone"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Address, up to a notebook's name, of a JupyterLab on copies; it and its kernels end with the tests."""
    home = tmp_path_factory.mktemp("lab")
    for name in ("00_tour", "12_explore"):
        (home / "work").mkdir(exist_ok=True)
        shutil.copy(ROOT / f"notebooks/{name}.ipynb", home / "work")
    for name, content in SETTINGS.items():
        path = home / f"settings/@jupyterlab/{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folders = {"JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces"}
    folders |= {"JUPYTER_RUNTIME_DIR": "runtime", "JUPYTER_CONFIG_DIR": "config", "IPYTHONDIR": "ipython"}
    environment = os.environ | {name: str(home / folder) for name, folder in folders.items()}
    environment |= {"PYTHONPATH": str(ROOT), "JUPYTER_PLATFORM_DIRS": "1"}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}"]
    command += ["--ServerApp.port_retries=0", f"--IdentityProvider.token={TOKEN}", "--expose-app-in-browser"]
    command += [f"--ServerApp.root_dir={home / 'work'}"]
    command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    with open(home / "log", "w+") as log:
        server = subprocess.Popen(command, env=environment, cwd=home, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_for(f"http://127.0.0.1:{port}/api?token={TOKEN}", server, home / "log")
            yield f"http://127.0.0.1:{port}/lab/workspaces/{{0}}/tree/{{0}}.ipynb?token={TOKEN}"
        finally:
            server.terminate()
            server.wait(60)


def wait_for(address, server, log, seconds=300):
    end = time.monotonic() + seconds
    while True:
        try:
            return urllib.request.urlopen(address, timeout=5).close()
        except OSError:
            assert server.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.2)


class Visitor:
    """A person with mouse and keyboard, at a notebook of which all cells have run."""

    def __init__(self, tab, address):
        self.tab = tab
        tab.show(width=1300, height=1300)
        tab.open(address)
        tab.until("!!window.jupyterapp && !!document.querySelector('.jp-NotebookPanel .jp-CodeCell')", 120)
        tab.until("jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'", 120)
        assert tab.run("jupyterapp.commands.execute('notebook:run-all-cells').then(() => true)") is True

    def click(self, what, text):
        """Click the element with this text or placeholder, once it may be used and stands still."""
        found = f"[...document.querySelectorAll('.jp-OutputArea {what}')]"
        found += f".find(e => !e.disabled && [e.textContent, e.placeholder].includes({json.dumps(text)}))"
        self.tab.until(f"!!{found}", 60)
        self.tab.run(
            "(async e => { document.querySelector('#target')?.removeAttribute('id'); e.id = 'target';"
            "e.scrollIntoView({block: 'center'}); for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame)"
            f" }})({found})"
        )
        self.tab.click("#target")

    def type(self, placeholder, *keys):
        self.click("input", placeholder)
        self.tab.run("document.querySelector('#target').select()")
        self.tab.press(*keys)

    def sees(self, text, seconds=60):
        self.tab.until(f"{DESK}?.innerText.includes({json.dumps(text)})", seconds)

    def picture(self, name, selector=".jp-OutputArea .widget-vbox"):
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.tab.run(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'start'}})")
        data = self.tab.call("Page.captureScreenshot")["data"]
        (PICTURES / f"{name}.png").write_bytes(base64.b64decode(data))

    def finds_no_error(self):
        for kind in ("error", "stderr"):
            assert self.tab.run(f"document.querySelectorAll('[data-mime-type$=\"jupyter.{kind}\"]').length") == 0


def test_a_visitor_asks_corrects_and_finds_the_damage(lab):
    with chromium.browser() as tab:
        visitor = Visitor(tab, lab.format("00_tour"))
        visitor.sees("Accuracy on test rows", 120)
        visitor.type("type a sentence", "my phone has been stolen", "Enter")
        visitor.sees("runner-up")
        visitor.picture("asked")
        visitor.type("the right class", LABEL, "Tab")
        visitor.click("button", "Correct")
        tab.until(f"[...{DESK}.querySelectorAll('table')].at(-1).innerText.includes('{LABEL}')", 30)
        visitor.click("button", "Ask again")
        visitor.sees("before")
        rows = f"[...{DESK}.querySelector('table').tBodies[0].rows]"
        rows += ".map(row => [...row.cells].map(cell => cell.textContent.trim()))"
        before = {name: answers for name, *answers in tab.run(rows)}
        assert before["substrate"][:2] == ["lost_or_stolen_card", LABEL]
        visitor.picture("asked_again")

        newest = f"+{DESK}.querySelector('input[type=number]').value"
        entry = tab.run(newest)
        visitor.click("button", "Stream 50")
        tab.until(f"{newest} > {entry}", 60)
        visitor.click("button", "Damage a copy")
        visitor.sees("A copy, damaged")
        visitor.click("button", "Verify")
        visitor.sees(f"verify: entry {tab.run(newest)} is not what was written")
        visitor.sees(f"▶ {tab.run(newest)}")
        visitor.picture("verified")
        visitor.finds_no_error()

        unnamed = f"[...{DESK}.querySelectorAll('select, input')]"
        unnamed += ".filter(e => !e.labels[0]?.innerText && !e.placeholder)"
        assert tab.run(f"{unnamed}.map(e => e.outerHTML)") == []
        tab.run("jupyterapp.commands.execute('application:toggle-left-area').then(() => true)")
        for width in (1300, 400):
            tab.show(width=width, height=1300)
            visitor.picture(f"desk_{width}")
            assert tab.run(f"{DESK}.scrollWidth - {DESK}.clientWidth") <= 0


def test_a_visitor_chooses_another_policy(lab):
    with chromium.browser() as tab:
        visitor = Visitor(tab, lab.format("12_explore"))
        tab.until("document.querySelectorAll('.widget-interact img').length === 4", 120)
        shown = "document.querySelector('.widget-interact img').src"
        tab.run(f"window.before = {shown}")
        policy = "[...document.querySelectorAll('.widget-interact select')]"
        policy += ".find(e => e.labels[0].innerText === 'policy')"
        tab.run(f"(e => {{ e.selectedIndex = 2; e.dispatchEvent(new Event('change', {{bubbles: true}})) }})({policy})")
        tab.until(f"{shown} !== window.before", 60)
        tab.until("!!document.querySelector('.widget-interact table')", 60)
        visitor.picture("explorer", ".widget-interact")
        visitor.finds_no_error()
