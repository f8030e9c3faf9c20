"""A page in a real browser, served from a separate origin, that tells the test what it saw."""

from __future__ import annotations

import asyncio
import base64
import http.server
import os
import queue
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import aiohttp
import httpx

Command = tuple[str, dict[str, Any]]
"""A command of Chromium's debugging protocol, with its arguments."""
Event = tuple[str, dict[str, Any]]
"""An event of that protocol, with what its arguments must hold."""
_LOADED: Event = ("Page.loadEventFired", {})
_DOWNLOADED: Event = ("Browser.downloadProgress", {"state": "completed"})
_ENTER = {"key": "Enter", "code": "Enter", "text": "\r", "windowsVirtualKeyCode": 13}
_CONTROL = 2
_SHIFT = 8
_NAMED_KEYS: dict[str, dict[str, Any]] = {
    "Enter": _ENTER,
    "Control+Enter": {**_ENTER, "modifiers": _CONTROL},
    "Shift+ArrowRight": {"key": "ArrowRight", "modifiers": _SHIFT},
    "Control+a": {"key": "a", "modifiers": _CONTROL, "commands": ["selectAll"]},
}
_TEXT = """(async () => {
    while (!document.body) await new Promise(done => setTimeout(done, 5));
    return location.pathname + '\\n' + document.body.innerText; })()
    """
CHROMIUM = shutil.which("chromium")
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--remote-debugging-port=0"),
)


def _temporary() -> tempfile.TemporaryDirectory[str]:
    """Return a folder for what a browser leaves behind. Not its profile: the path of a socket in it must be short."""
    return tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)


def _start(profile: Path, url: str, folder: str, *, stderr: int) -> subprocess.Popen[str]:
    command = [CHROMIUM or "chromium", *_FLAGS, f"--user-data-dir={profile}", url]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr, text=True, env={**os.environ, "TMPDIR": folder})


class Site:
    """A web server on its own port. Its page says what it saw by ``tell(text)``, which sends it here."""

    def __init__(self) -> None:
        self.page = b""
        self.said: queue.Queue[str] = queue.Queue()
        """Messages of the page."""
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(site.page)

            def do_POST(self) -> None:
                site.said.put(self.rfile.read(int(self.headers["content-length"])).decode())
                self._answer(b"")

            def _answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
                del code, size

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.origin = f"http://127.0.0.1:{self._server.server_address[1]}"

    def serve(self, body: str) -> None:
        """Let the page have this body."""
        script = "<script>const tell = (text) => fetch('/said', {method: 'POST', body: text});</script>"
        self.page = f"<!doctype html><title>page</title><body>{script}{body}".encode()

    def show(self, body: str, profile: Path) -> str:
        """Open a page with this body in Chromium and return what it tells. The test's timeout bounds the wait."""
        self.serve(body)
        with _temporary() as folder:
            browser = _start(profile, self.origin, folder, stderr=subprocess.DEVNULL)
            try:
                return self.said.get()
            finally:
                browser.terminate()
                browser.wait()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


class Chromium:
    """A browser with one tab, driven over its own debugging protocol, so that its cookies last from page to page."""

    def __init__(self, profile: Path) -> None:
        self._folder = _temporary()
        self._process = _start(profile, "about:blank", self._folder.name, stderr=subprocess.PIPE)
        assert self._process.stderr is not None
        line = next(line for line in self._process.stderr if "DevTools listening on" in line)
        port = line.rpartition("127.0.0.1:")[2].partition("/")[0]
        tabs = httpx.get(f"http://127.0.0.1:{port}/json/list", timeout=400).json()
        self._shown: tuple[Command, ...] = ()
        self._tab: str = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")

    def visit(self, url: str) -> str:
        """Open a page in the tab and return its text once it has loaded."""
        return str(self.do(("Page.navigate", {"url": url}), run=_TEXT, until=_LOADED))

    def click(self, selector: str, *, loads: bool = True) -> str:
        """Click the first element of this kind, which leads to another page unless not, and return the text of that."""
        left, top = self.run(f"""(() => {{
            const found = document.querySelector({selector!r}); found.scrollIntoView({{block: "center"}});
            const at = found.getBoundingClientRect(); return [at.x + at.width / 2, at.y + at.height / 2]; }})()""")
        spot = {"x": left, "y": top, "button": "left", "clickCount": 1}
        pressed = [("Input.dispatchMouseEvent", {"type": f"mouse{what}", **spot}) for what in ("Pressed", "Released")]
        return str(self.do(*pressed, run=_TEXT, until=_LOADED if loads else None))

    def press(self, *keys: str, loads: bool = False) -> str:
        """Press keys one after the other, after which another page is loaded if it `loads`, and return the page's text."""
        return str(self.do(*_presses(keys), run=_TEXT, until=_LOADED if loads else None))

    def download(self, key: str, folder: Path) -> Path:
        """Press a key that downloads a file into the folder, and return the file once it is complete."""
        behaviour = {"behavior": "allow", "downloadPath": str(folder), "eventsEnabled": True}
        self.do(("Browser.setDownloadBehavior", behaviour), *_presses([key]), until=_DOWNLOADED)
        (file,) = folder.iterdir()
        return file

    def run(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page, whatever the page's own policy says."""
        return self.do(run=expression)

    def show_as(self, *, width: int, height: int = 800, dark: bool = False) -> None:
        """Give the tab this size, in CSS pixels, and this colour scheme, for as long as it is open."""
        self._shown = (
            (
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
            ),
            (
                "Emulation.setEmulatedMedia",
                {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]},
            ),
        )

    def picture(self) -> bytes:
        """Return the page as it is shown, as PNG."""
        return base64.b64decode(self.do(("Page.captureScreenshot", {"captureBeyondViewport": False}))["data"])

    def do(self, *commands: Command, run: str = "", until: Event | None = None) -> Any:
        """Give commands of the debugging protocol, then run an expression, after this event if one is named.

        Return what the expression gives, else what the last command answers.
        """
        return asyncio.run(self._do([*self._shown, *commands], run, until))

    async def _do(self, commands: list[Command], run: str, until: Event | None) -> Any:
        async with aiohttp.ClientSession() as session, session.ws_connect(self._tab, max_msg_size=0) as tab:
            met = until is None

            def is_met(reply: dict[str, Any]) -> bool:
                return until is not None and reply.get("method") == until[0] and until[1].items() <= reply["params"].items()

            async def give(name: str, arguments: dict[str, Any]) -> Any:
                answer = await ask(name, arguments)
                assert "error" not in answer, answer
                return answer["result"]

            async def ask(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
                nonlocal met
                await tab.send_json({"id": 1, "method": name, "params": arguments})
                while (answer := await tab.receive_json()).get("id") != 1:
                    met = met or is_met(answer)
                return answer

            await give("Page.enable", {})  # until then a page may load without an event
            await give("Emulation.setFocusEmulationEnabled", {"enabled": True})  # else another window may have the focus
            result: Any = None
            for name, arguments in commands:
                result = await give(name, arguments)
            while not met:
                met = is_met(await tab.receive_json())
            if not run:
                return result
            expression = {"expression": run, "awaitPromise": True, "returnByValue": True}
            while "error" in (answer := await ask("Runtime.evaluate", expression)):
                # a page that leads on by itself takes what runs in it along: run it in the next one
                assert "navigated" in answer["error"]["message"] or "context" in answer["error"]["message"], answer
            reply = answer["result"]
            assert "exceptionDetails" not in reply, reply
            return reply["result"].get("value")

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait()
        assert self._process.stderr is not None
        self._process.stderr.close()
        self._folder.cleanup()


def _presses(keys: Iterable[str]) -> list[Command]:
    """Return the commands that press keys, each named as a script sees it: ``j``, ``Enter``, ``Escape``."""
    events = [_NAMED_KEYS.get(key, {"key": key, "text": key if len(key) == 1 else ""}) for key in keys]
    return [("Input.dispatchKeyEvent", {"type": what, **event}) for event in events for what in ("keyDown", "keyUp")]
