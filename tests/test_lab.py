"""The desk and the explorer in a real browser, on a running JupyterLab: open, run all, and use all there is."""

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

from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.explore.damage import TITLES
from ocrrlib.explore.queries import Typed
from ocrrlib.files import ROOT
from tests import browser as chromium
from tests.test_pages import need_a_browser

TOKEN = secrets.token_hex(16)
PICTURES = ROOT / "build/lab"
# What would stand in the way of a first visit, and cells that are not drawn before they are scrolled to.
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "notebook-extension/tracker": {"windowingMode": "none"},
}
DESK = "document.querySelector('.jp-OutputArea .widget-vbox')"
NEWEST = f"+{DESK}.querySelector('input[type=number]').value"  # the ledger's last entry
SAID = '[data-mime-type="application/vnd.jupyter.{}"]'
LABEL = "lost_or_stolen_phone"
# What is said of each damage to entry 100.
FINDS = {
    "relabel": "verify: entry 100 is not what was written",
    "remove": "verify: an entry is missing just before entry 100",
    "repeat": "verify: entry 101 was put in later",
    "swap": "verify: entry 100 stands in the wrong place",
    "cut": "verify: the chain is whole in itself; but the noted head is not in the chain",
    "rewrite": "verify: the chain is whole in itself; but the noted head is not in the chain",
}


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Address, up to a notebook's name, of a JupyterLab on copies; it and its kernels are gone afterwards."""
    need_a_browser()
    home, port = tmp_path_factory.mktemp("lab"), free_port()
    (home / "work").mkdir()
    for name in ("00_tour", "12_explore"):
        shutil.copy(ROOT / f"notebooks/{name}.ipynb", home / "work")
    for name, content in SETTINGS.items():
        path = home / f"settings/@jupyterlab/{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    folders = {"JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces"}
    folders |= {"JUPYTER_RUNTIME_DIR": "runtime", "JUPYTER_CONFIG_DIR": "config", "IPYTHONDIR": "ipython"}
    environment = os.environ | {name: str(home / folder) for name, folder in folders.items()}
    environment |= {"PYTHONPATH": str(ROOT), "JUPYTER_PLATFORM_DIRS": "1", "PYTHONWARNINGS": "default"}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}"]
    command += ["--ServerApp.port_retries=0", f"--IdentityProvider.token={TOKEN}", "--expose-app-in-browser"]
    command += [
        f"--ServerApp.root_dir={home / 'work'}",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    with open(home / "log", "w+") as log:
        server = subprocess.Popen(command, env=environment, cwd=home, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_for(f"http://127.0.0.1:{port}/api?token={TOKEN}", server, home / "log")
            yield f"http://127.0.0.1:{port}/lab/workspaces/{{0}}/tree/{{0}}.ipynb?token={TOKEN}"
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def wait_for(address, server, log, seconds=300):
    end = time.monotonic() + seconds
    while True:
        try:
            return urllib.request.urlopen(address, timeout=5).close()
        except OSError:
            assert server.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.2)


class Visitor:
    """Somebody at the desk or the explorer, with mouse and keyboard."""

    def __init__(self, tab, address):
        self.tab = tab
        tab.show(width=1400, height=1300)
        tab.open(address)
        tab.until("!!window.jupyterapp && !!document.querySelector('.jp-NotebookPanel .jp-CodeCell')", 120)
        tab.until("jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'", 120)
        assert tab.run("jupyterapp.commands.execute('notebook:run-all-cells').then(() => true)") is True
        tab.until(f"!!{DESK}", 120)

    def box(self, kind, text):
        """Selector of a button with this text, or of the input with this placeholder."""
        mark = f"{kind}-{text}".replace(" ", "-")
        part = f"e.{'textContent' if kind == 'button' else 'placeholder'} === {json.dumps(text)}"
        where = "button.jupyter-button" if kind == "button" else "input"
        found = f"[...document.querySelectorAll({json.dumps(f'.jp-OutputArea {where}')})].find(e => {part})"
        self.tab.until(f"!!{found}", 60)
        self.tab.run(
            f"(async e => {{ e.id = {json.dumps(mark)}; e.scrollIntoView({{block: 'center'}});"
            f"for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame) }})({found})"
        )  # a click that comes before the scrolled page is drawn goes astray
        return f"#{mark}"

    def press(self, text):
        button = self.box("button", text)
        self.tab.until(f"!document.querySelector({json.dumps(button)}).disabled", 60)
        self.tab.click(button)

    def type(self, placeholder, *keys):
        field = self.box("input", placeholder)
        self.tab.click(field)
        self.tab.run(f"document.querySelector({json.dumps(field)}).select()")
        self.tab.press(*keys)

    def changes(self, selector, which, name, value):
        """Set the first of such controls of the desk for which ``which`` holds; the desk notices."""
        change = f"(e => {{ e.{name} = {value}; e.dispatchEvent(new Event('change', {{bubbles: true}})) }})"
        self.tab.run(f"{change}([...{DESK}.querySelectorAll({json.dumps(selector)})].find({which}))")

    def sees(self, text, seconds=60):
        self.tab.until(f"{DESK}.innerText.includes({json.dumps(text)})", seconds)

    def answers(self):
        """The table under the query: what each system says, by the name of the column."""
        return self.tab.run(
            "(t => { const names = [...t.tHead.rows[0].cells].map(c => c.textContent.trim());"
            "return Object.fromEntries([...t.tBodies[0].rows].map(r => [r.cells[0].textContent.trim(),"
            "Object.fromEntries([...r.cells].map((c, i) => [names[i], c.textContent.trim()]))])) })"
            f"({DESK}.querySelector('table'))"
        )

    def finds_all_in_its_place(self):
        """No error is said anywhere, and nothing is wider than its part of the page."""
        for kind in ("error", "stderr"):
            assert self.tab.run(f"document.querySelectorAll({json.dumps(SAID.format(kind))}).length") == 0
        assert self.tab.run("document.querySelectorAll('.widget-vbox [role=alert]').length") == 0
        wide = "[...document.querySelectorAll('.widget-vbox, .widget-vbox .jp-RenderedHTMLCommon')]"
        wide += ".filter(e => e.scrollWidth > e.clientWidth).map(e => e.innerText)"
        assert self.tab.run(wide) == []

    def picture(self, name, selector=".jp-OutputArea .widget-vbox"):
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.tab.run(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'start'}})")
        data = self.tab.call("Page.captureScreenshot")["data"]
        (PICTURES / f"{name}.png").write_bytes(base64.b64decode(data))


def test_a_visitor_asks_corrects_and_sees_it_learnt_and_the_damage_found(lab):
    with chromium.browser() as tab:
        visitor = Visitor(tab, lab.format("00_tour"))
        visitor.sees("Accuracy on test rows")
        tab.until("document.querySelector('.jp-Notebook').innerText.includes('note this elsewhere:')", 60)

        typed = not Typed(DEFAULT_ENCODER).missing
        if typed:
            visitor.type("type a sentence", "my phone has been stolen", "Enter")
        else:
            visitor.press("Take a test row")
        tab.until("!!document.querySelector('.widget-vbox img[alt^=Nearest]')", 60)
        first = visitor.answers()
        visitor.picture("asked")
        visitor.type("the right class", LABEL, "Tab")
        visitor.press("Correct")
        tab.until(f"[...{DESK}.querySelectorAll('table')].at(-1).innerText.includes('{LABEL}')", 30)
        visitor.press("Ask again")
        tab.until(f"{DESK}.querySelector('table').innerText.includes('before')", 30)
        again = visitor.answers()
        visitor.picture("asked_again")
        visitor.finds_all_in_its_place()
        assert first["substrate"]["answer"] != LABEL == again["substrate"]["answer"]
        assert again["substrate"]["before"] == first["substrate"]["answer"]

        newest = tab.run(NEWEST)
        visitor.press("Stream 50")
        tab.until(f"{NEWEST} > {newest}", 30)
        visitor.press("Damage a copy")
        visitor.sees("A copy, damaged")
        visitor.press("Verify")
        visitor.sees("is not what was written")
        visitor.sees(f"▶ {tab.run(NEWEST[1:])}")
        visitor.picture("verified")
        for kind, title in TITLES.items():
            visitor.press("Restore")
            tab.until(f"!{DESK}.innerText.includes('verify:')", 30)
            visitor.changes("input[type=number]", "e => true", "value", 100)
            of_kinds = f"e => [...e.options].some(o => o.text.replace(/\\xa0/g, ' ') === {json.dumps(title)})"
            visitor.changes("select", of_kinds, "selectedIndex", list(TITLES).index(kind))
            visitor.press("Damage a copy")
            visitor.sees("A copy, damaged", 30)
            visitor.press("Verify")
            visitor.sees(FINDS[kind], 30)
        asked = tab.run(f"{DESK}.querySelector('b').innerText")
        visitor.press("Take a test row")
        tab.until(f"{DESK}.querySelector('b').innerText !== {json.dumps(asked)}", 30)
        assert set(visitor.answers()) == {"substrate", "ledger_plda", "online_linear"}
        assert tab.run(f"document.querySelectorAll({json.dumps(SAID.format('stdout'))}).length") > 0
        visitor.finds_all_in_its_place()


def test_a_visitor_chooses_what_is_drawn_and_looks_inside_a_run(lab):
    with chromium.browser() as tab:
        visitor = Visitor(tab, lab.format("12_explore"))
        visitor.sees("Several systems")
        shown, note = f"{DESK}.querySelector('img').src", "window.before = {}"

        def redrawn(act, *how):
            tab.run(note.format(shown))
            act(*how)
            tab.until(f"{shown} !== window.before", 60)

        visitor.picture("explorer")
        cells = f"[...{DESK}.querySelectorAll('table tbody tr:first-child > *')]"
        sides = tab.run(f"{cells}.map(e => getComputedStyle(e).textAlign)")
        assert sides == ["left", "right", "right", "right", "left", "left"]  # name, three numbers, two signs
        redrawn(visitor.press, "CLINC150")
        redrawn(visitor.press, "random-10")
        seeds = "document.querySelector('.widget-vbox select:not([multiple])')"
        tab.until(f"!{seeds}.disabled", 60)  # the picture comes before the controls can be used again
        redrawn(tab.click, "select[multiple] option:nth-child(6)")
        tab.until(f"!{seeds}.disabled", 60)
        redrawn(
            tab.run,
            f"(e => {{ e.selectedIndex = 1; e.dispatchEvent(new Event('change', {{bubbles: true}})) }})({seeds})",
        )
        visitor.picture("explorer_one_seed")
        visitor.press("Look inside")
        visitor.sees(", seed 0:", 120)
        for at, name in enumerate(("Classes", "Confusion", "Corrected rows"), 1):
            tab.click(f".widget-vbox .lm-TabBar-tab:nth-child({at})")
            panel = f"[...{DESK}.querySelectorAll('.widget-tab-contents > *')].find(e => e.offsetParent)"
            tab.until(f"{DESK}.querySelector('.lm-mod-current').textContent.includes('{name}')", 30)
            tab.until(f"!!{panel}?.querySelector('img')", 30)
            visitor.picture(f"explorer_{at}", ".widget-vbox .lm-TabBar")
        visitor.finds_all_in_its_place()


def test_make_opens_the_desk():
    run = subprocess.run([shutil.which("make"), "--dry-run", "lab"], cwd=ROOT, capture_output=True, text=True)
    assert "-m jupyterlab notebooks/00_tour.ipynb" in run.stdout
