"""A headless Chromium for tests, driven over a pipe by its DevTools protocol: no driver, no port, no package."""

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run"
KEYS = {"Enter": (13, "\r"), "Tab": (9, ""), "ArrowDown": (40, ""), "ArrowRight": (39, "")}


def find():
    """Path of a browser, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One tab. What pages ask for and complain about is collected in ``requests`` and ``errors``."""

    def __init__(self, send, receive):
        self._send, self._receive, self._buffer, self._last = send, receive, b"", 0
        self.requests, self.errors, self._loaded, self.session = [], [], set(), None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def call(self, method, **params):
        """Ask the browser for something and wait for the answer."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._last:
            self._note(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _next(self, seconds=30):
        end = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            if not select.select([self._receive], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"the browser said nothing for {seconds} s")
            part = os.read(self._receive, 1 << 16)
            if not part:
                raise ConnectionError("the browser is gone")
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)

    def _note(self, event):
        params = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Network.loadingFailed":
                self.errors.append(f"not loaded: {params['errorText']}")
            case "Log.entryAdded":
                self.errors.append(params["entry"]["text"])
            case "Runtime.exceptionThrown":
                self.errors.append(params["exceptionDetails"]["text"])
            case "Runtime.consoleAPICalled":
                self.errors.append(str(params["args"]))
            case "Page.lifecycleEvent" if params["name"] == "load":
                self._loaded.add(params["loaderId"])

    def open(self, url):
        """Load a page anew, and wait until all of it is there."""
        for address in ("about:blank", url):  # from one anchor to another of a page it would not be loaded
            self.requests.clear()
            self.errors.clear()
            loader = self.call("Page.navigate", url=address)["loaderId"]
            while loader not in self._loaded:
                self._note(self._next())

    def run(self, code):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def until(self, code, seconds=30):
        """Wait until an expression in the page is true."""
        end = time.monotonic() + seconds
        while not self.run(code):
            if time.monotonic() > end:
                raise TimeoutError(f"not true within {seconds} s: {code}")
            time.sleep(0.02)

    def show(self, width=1280, height=900, dark=False, media="screen", script=True):
        """Set the size of the window and what the reader prefers."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.call("Emulation.setScriptExecutionDisabled", value=not script)

    def press(self, *keys):
        """Press keys one after the other; a text that is no key's name is typed."""
        for key in keys:
            if key not in KEYS:
                self.call("Input.insertText", text=key)
                continue
            code, text = KEYS[key]
            about = dict(key=key, code=key, windowsVirtualKeyCode=code)
            self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
            self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def click(self, selector):
        """Click in the middle of an element, wherever it is on the page."""
        x, y = self.run(
            f"(e => {{ e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect();"
            f"return [r.x + r.width / 2, r.y + r.height / 2] }})(document.querySelector({json.dumps(selector)}))"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def follow(self, selector):
        """Click on a link and wait until all of the page that it leads to is there."""
        before = len(self._loaded)
        self.click(selector)
        while len(self._loaded) == before:
            self._note(self._next())


@contextmanager
def browser():
    """A browser that is gone afterwards, with all that it wrote."""
    (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [find(), *FLAGS.split(), f"--user-data-dir={folder}", "--remote-debugging-pipe"]
        program = "import os, sys; a = sys.argv; os.dup2(int(a[1]), 3); os.dup2(int(a[2]), 4); os.execv(a[3], a[3:])"
        process = subprocess.Popen(
            [sys.executable, "-IS", "-c", program, str(theirs_in), str(theirs_out), *command],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            yield Browser(ours_out, ours_in)
        finally:
            os.close(ours_out)  # the browser ends when its pipe does
            os.close(ours_in)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
