"""A headless Chromium for tests, driven by its DevTools protocol."""

import json
import shutil
import subprocess
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path

from websocket import create_connection

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-port=0",
)
LONGEST = 120  # seconds of waiting for the browser
KEYS = {
    "Enter": (13, "\r"),
    "Tab": (9, ""),
    "Escape": (27, ""),
    "ArrowDown": (40, ""),
    "ArrowUp": (38, ""),
}
EVENTS = {  # what of an event is noted where
    "Network.requestWillBeSent": ("requests", lambda event: event["request"]["url"]),
    "Network.loadingFailed": ("errors", lambda event: f"not loaded: {event['errorText']}"),
    "Log.entryAdded": ("errors", lambda event: event["entry"]["text"]),
    "Runtime.exceptionThrown": ("errors", lambda event: event["exceptionDetails"]["text"]),
    "Runtime.consoleAPICalled": ("errors", lambda event: str(event["args"])),
    "Page.lifecycleEvent": ("events", lambda event: (event["name"], event["loaderId"])),
}


def find():
    """Path of a browser, or None."""
    return next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )


class Tab:
    """One tab; ``requests`` has the addresses that its page asks for, ``errors`` its complaints."""

    def __init__(self, socket):
        self._socket = socket
        self._last = 0
        self._session = {}
        self.requests = []
        self.errors = []
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def call(self, method, **params):
        """Ask the browser for something and wait for the answer."""
        self._last += 1
        self._socket.send(
            json.dumps({"id": self._last, "method": method, "params": params} | self._session)
        )
        end = time.monotonic() + LONGEST
        answer = self._next()
        while answer.get("id") != self._last:
            assert time.monotonic() < end, f"{method}: no answer"
            answer = self._next()
        assert "error" not in answer, f"{method}: {answer}"
        return answer["result"]

    def _next(self):
        message = json.loads(self._socket.recv())
        if message.get("method") in EVENTS:
            kept, read = EVENTS[message["method"]]
            getattr(self, kept).append(read(message["params"]))
        return message

    def open(self, url):
        """Load a page anew, and wait until all of it is there."""
        # From one anchor to another of a page it would not be loaded.
        for address in (
            "about:blank",
            url,
        ):
            self.requests.clear()
            self.errors.clear()
            loaded = "load", self.call("Page.navigate", url=address)["loaderId"]
            end = time.monotonic() + LONGEST
            while loaded not in self.events:
                self._next()
                assert time.monotonic() < end, f"not loaded: {address}"

    def run(self, code):
        """The value of an expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, code, seconds=60):
        """Wait until an expression in the page is true."""
        end = time.monotonic() + seconds
        while not self.run(code):
            assert time.monotonic() < end, f"not true within {seconds} s: {code}"
            time.sleep(0.02)

    def show(self, width=1280, height=900):
        """Set the size of the window."""
        look = dict(width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setDeviceMetricsOverride", **look)

    def press(self, *keys):
        """Press keys one after the other; a text that is no key's name is typed."""
        for key in keys:
            if key not in KEYS:
                self.call("Input.insertText", text=key)
                continue
            self._strike(key, *KEYS[key])

    def strike(self, letters):
        """Strike a key for each letter, as shortcuts want it."""
        for letter in letters:
            self._strike(letter, ord(letter.upper()), letter)

    def hold(self, key, n):
        """Hold a key down until it has come ``n`` times."""
        code, text = KEYS[key]
        for turn in range(n):
            self._send("keyDown", key, code, text, autoRepeat=turn > 0)
        self._send("keyUp", key, code, "")

    def _strike(self, key, code, text):
        self._send("keyDown", key, code, text)
        self._send("keyUp", key, code, "")

    def _send(self, kind, key, code, text, **how):
        event = dict(type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=text)
        self.call("Input.dispatchKeyEvent", **event, **how)

    def click(self, selector):
        """Click in the middle of an element, wherever it is on the page."""
        x, y = self.run(
            "(e => { e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2] })"
            f"(document.querySelector({json.dumps(selector)}))"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


@contextmanager
def browser(*flags):
    """A tab of a browser that is gone afterwards, with all that it wrote."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [find(), *FLAGS, *flags, f"--user-data-dir={folder}"]
        port = Path(folder) / "DevToolsActivePort"
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        start = time.monotonic()
        try:
            while not port.exists() or port.read_text().count("\n") < 1:
                assert process.poll() is None and time.monotonic() < start + LONGEST, (
                    "the browser does not start"
                )
                time.sleep(0.02)
            address = "ws://127.0.0.1:{}{}".format(*port.read_text().split())
            with closing(
                create_connection(address, timeout=LONGEST, suppress_origin=True)
            ) as socket:
                yield Tab(socket)
        finally:
            process.kill()
            process.wait()
