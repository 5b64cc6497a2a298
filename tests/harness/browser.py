"""Headless Chromium by its DevTools protocol, over pipes: a page is looked at and used, as a person would.

    with Browser() as browser:
        page = browser.open("http://127.0.0.1:%d/" % port, width=360, dark=True)
        page.until("document.querySelectorAll('tr').length > 3")
        page.key("Tab")
"""

import base64
import json
import os
import shutil
import subprocess
import time

from .programs import short_home
from .wait import until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LIMIT = 40  # seconds for one thing to happen; only decides how soon a failure shows
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--no-proxy-server",
         "--remote-debugging-pipe"]


class Refused(Exception):
    """A call that failed, for example since the page it was for has been left."""


class Browser:
    """One process of Chromium, in a profile of its own. Its input and output of the protocol are its descriptors 3 and 4."""

    def __enter__(self):
        self._home = short_home()
        home = self._directory = self._home.__enter__()
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        words = ["bash", "-c", 'exec "$@" 3<&%d 4>&%d' % (theirs_in, theirs_out), "bash", CHROMIUM, *FLAGS, "--user-data-dir=" + home]
        with open(os.path.join(home, "stderr"), "wb") as log:
            self._process = subprocess.Popen(words, pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(os.environ, HOME=home, TMPDIR=home))
        os.close(theirs_in)
        os.close(theirs_out)
        self._out, self._in, self._number, self.events = os.fdopen(ours_out, "wb", 0), os.fdopen(ours_in, "rb"), 0, []
        return self

    def __exit__(self, *_):
        self._out.close()  # the end of its input ends it
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._in.close()
        self._home.__exit__(None, None, None)

    def _log(self):
        with open(os.path.join(self._directory, "stderr"), encoding="latin-1") as log:
            return log.read()

    def _message(self):
        text = bytearray()
        while (byte := self._in.read(1)) != b"\0":
            assert byte, "chromium has ended:\n" + self._log()
            text += byte
        return json.loads(text)

    def call(self, method, session=None, **words):
        """One call of the protocol: its result. Events that come before it are kept in `events`."""
        self._number += 1
        call = {"id": self._number, "method": method, "params": words, **({"sessionId": session} if session else {})}
        try:
            self._out.write(json.dumps(call).encode() + b"\0")
        except BrokenPipeError:
            pass  # reading says why
        while True:
            message = self._message()
            if message.get("id") == self._number:
                if "error" in message:
                    raise Refused(method, message["error"])
                return message["result"]
            self.events.append(message)

    def open(self, url, width=1200, height=900, dark=False, apart=False, beside=None):
        """A new page. What it writes to its console, errors of its policy among them, is found by `problems`. One that is apart shares cookies
        with no other, but for those that are opened beside it."""
        context = beside.context if beside else {"browserContextId": self.call("Target.createBrowserContext")["browserContextId"]} if apart else {}
        target = self.call("Target.createTarget", url="about:blank", **context)["targetId"]
        page = Page(self, self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"], context)
        for domain in ("Page", "Runtime", "Log"):
            page.call(domain + ".enable")
        page.look(width, height, dark)
        page.call("Page.navigate", url=url)
        if url != "about:blank":
            page.until("document.readyState === 'complete' && location.href !== 'about:blank'")
        return page


class Page:
    """A page that is open."""

    def __init__(self, browser, session, context):
        self.browser, self.session, self.context = browser, session, context

    def call(self, method, **words):
        return self.browser.call(method, self.session, **words)

    def look(self, width=1200, height=900, dark=False):
        """From now on on a screen of this size, with this preference."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def eval(self, script):
        """The value of an expression in the page, awaited where it is a promise."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, (script, result["exceptionDetails"])
        return result["result"].get("value")

    def value(self, script):
        """The value of an expression, or None while the page is being left for another."""
        try:
            return self.eval(script)
        except Refused:
            return None

    def go(self, url):
        """Opens another page in place of this one, and waits for it."""
        self.eval("window.isLeft = true")
        self.call("Page.navigate", url=url)
        self.settle()

    def settle(self):
        """Waits until a page is there in place of the one that is being left."""
        until(lambda: self.value("document.readyState + window.isLeft") == "completeundefined", "a page that is complete")

    def until(self, script):
        """Waits until the expression is true."""
        end = time.monotonic() + LIMIT
        while not self.eval("!!(%s)" % script):
            assert time.monotonic() < end, "%s; the page:\n%s" % (script, self.eval("document.body.innerText"))
            time.sleep(0.02)

    def key(self, key, code=0):
        """Presses a key: "Tab", "Enter", "ArrowLeft" ..."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39}
        words = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": code or codes[key], "text": {"Enter": "\r", " ": " "}.get(key, "")}
        self.call("Input.dispatchKeyEvent", type="keyDown", **words)
        self.call("Input.dispatchKeyEvent", type="keyUp", **{**words, "text": ""})

    def screenshot(self, selector=None):
        """What is to be seen, or this element alone, as bytes of a PNG."""
        words = {}
        if selector:
            box = self.eval("(() => { const box = document.querySelector(%s).getBoundingClientRect(); return [box.x + scrollX, box.y + scrollY, box.width, box.height]; })()" % json.dumps(selector))
            words = {"clip": dict(zip(("x", "y", "width", "height"), box), scale=1), "captureBeyondViewport": True}
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", **words)["data"])

    def problems(self):
        """Errors and exceptions of the page so far."""
        self.eval("0")
        found = [event for event in self.browser.events if event.get("sessionId") == self.session]
        return [event["params"] for event in found if event["method"] == "Runtime.exceptionThrown" or
                (event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error")]
