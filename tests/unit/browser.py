"""A real browser for tests: Debian's chromium, spoken to over two pipes in its own protocol. No driver has to be installed."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

#: seconds for one answer of the browser: a busy machine starts it slowly
PATIENCE = 60

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "/": 191}


class Browser:
    """A browser with one page; ``complaints`` are errors and lines of the console, ``requests`` every address that it asked for."""

    def __init__(self):
        self.home = Path(tempfile.mkdtemp(prefix="paralign-browser-"))
        ours, theirs = os.pipe(), os.pipe()

        def handed():  # the browser reads from 3 and writes to 4
            given, taken = os.dup(ours[0]), os.dup(theirs[1])
            high = os.dup2(given, 60), os.dup2(taken, 61)
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        words = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
            f"--user-data-dir={self.home}",
        ]
        self.process = subprocess.Popen(  # between fork and exec two pipes are moved, nothing else
            [CHROMIUM, *words, "about:blank"],
            pass_fds=(3, 4),
            preexec_fn=handed,  # noqa: PLW1509
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(ours[0])
        os.close(theirs[1])
        self._to, self._from, self._read = ours[1], theirs[0], b""
        self.number, self.session, self.events = 0, None, []
        page = next(each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        self.process.terminate()
        self.process.wait(PATIENCE)
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self.home, ignore_errors=True)

    def call(self, method, **given):
        self.number += 1
        message = {"id": self.number, "method": method, "params": given}
        message |= {"sessionId": self.session} if self.session else {}
        left = json.dumps(message).encode() + b"\0"
        while left:
            left = left[os.write(self._to, left) :]
        while True:
            answer = self._next()
            if answer.get("id") != self.number:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            else:
                return answer["result"]

    def _next(self):
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._from], [], [], PATIENCE)
            piece = os.read(self._from, 1 << 16) if ready else b""
            if not piece:
                raise RuntimeError("the browser does not answer")
            self._read += piece
        message, _, self._read = self._read.partition(b"\0")
        return json.loads(message)

    def run(self, script):
        """What an expression gives in the page; promises are waited for."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True)
        if "exceptionDetails" in done:
            raise RuntimeError(str(done["exceptionDetails"].get("exception", done["exceptionDetails"])))
        return done["result"].get("value")

    def until(self, condition):
        """Wait until a condition of the page holds."""
        end = time.monotonic() + PATIENCE / 4
        while not self.run(condition):
            if time.monotonic() > end:
                raise AssertionError(f"it never held: {condition}")
            time.sleep(0.02)

    def open(self, page, width=1200, height=900):
        self.events.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=page)
        self.until("document.readyState === 'complete' && typeof say === 'function'")

    def press(self, *keys):
        for key in keys:
            told = {"key": key, "windowsVirtualKeyCode": KEYS.get(key, ord(key.upper()) if len(key) == 1 and key.isalnum() else 0)}
            text = {"Enter": "\r", " ": " "}.get(key, key if len(key) == 1 else "")
            self.call("Input.dispatchKeyEvent", type="keyDown", **told, **({"text": text} if text else {}))
            self.call("Input.dispatchKeyEvent", type="keyUp", **told)

    @property
    def complaints(self):
        wrong = {"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Page.javascriptDialogOpening"}
        return [event for event in self.events if event.get("method") in wrong]

    @property
    def requests(self):
        sent = [event["params"]["request"]["url"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith(("data:", "about:"))]
