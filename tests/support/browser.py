"""A page in a real browser, served from a separate origin, that tells the test what it saw."""

from __future__ import annotations

import asyncio
import http.server
import queue
import shutil
import subprocess
import threading
from pathlib import Path

import aiohttp
import httpx

CHROMIUM = shutil.which("chromium")
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--remote-debugging-port=0"),
)


class Site:
    """A web server on its own port. Its page says what it saw by ``tell(text)``, which sends it here."""

    def __init__(self) -> None:
        self.page = b""
        self.said: queue.Queue[str] = queue.Queue()
        """What the page tells."""
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
        told = "<script>const tell = (text) => fetch('/said', {method: 'POST', body: text});</script>"
        self.page = f"<!doctype html><title>page</title><body>{told}{body}".encode()

    def show(self, body: str, profile: Path) -> str:
        """Open a page with this body in Chromium and return what it tells. The test's timeout bounds the wait."""
        self.serve(body)
        browser = subprocess.Popen(
            [CHROMIUM or "chromium", *_FLAGS, f"--user-data-dir={profile}", self.origin],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
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
        self._process = subprocess.Popen(
            [CHROMIUM or "chromium", *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        line = next(line for line in self._process.stderr if "DevTools listening on" in line)
        port = line.rpartition("127.0.0.1:")[2].partition("/")[0]
        tabs = httpx.get(f"http://127.0.0.1:{port}/json/list", timeout=400).json()
        self._tab: str = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")

    def visit(self, url: str) -> str:
        """Open a page in the tab and return its text once it has loaded."""
        return asyncio.run(self._visit(url))

    async def _visit(self, url: str) -> str:
        async with aiohttp.ClientSession() as session, session.ws_connect(self._tab, max_msg_size=0) as tab:
            await tab.send_json({"id": 1, "method": "Page.enable"})
            while (await tab.receive_json()).get("id") != 1:  # until then it may load without an event
                pass
            await tab.send_json({"id": 2, "method": "Page.navigate", "params": {"url": url}})
            while (await tab.receive_json()).get("method") != "Page.loadEventFired":
                pass
            expression = {"expression": "location.pathname + '\\n' + document.body.innerText"}
            await tab.send_json({"id": 3, "method": "Runtime.evaluate", "params": expression})
            while (answer := await tab.receive_json()).get("id") != 3:
                pass
            return str(answer["result"]["result"]["value"])

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait()
        assert self._process.stderr is not None
        self._process.stderr.close()
