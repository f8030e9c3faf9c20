"""A page in a real browser, served from an origin of its own, that tells the test what it saw."""

from __future__ import annotations

import http.server
import queue
import shutil
import subprocess
import threading
from pathlib import Path

CHROMIUM = shutil.which("chromium")
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--remote-debugging-port=0"),
)


class Site:
    """A web server on a port of its own. Its page says what it saw by ``tell(text)``, which sends it here."""

    def __init__(self) -> None:
        self._page = b""
        self._said: queue.Queue[str] = queue.Queue()
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(site._page)

            def do_POST(self) -> None:
                site._said.put(self.rfile.read(int(self.headers["content-length"])).decode())
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

    def show(self, body: str, profile: Path) -> str:
        """Open a page with this body in Chromium and return what it tells. The test's timeout bounds the wait."""
        told = "<script>const tell = (text) => fetch('/said', {method: 'POST', body: text});</script>"
        self._page = f"<!doctype html><title>page</title><body>{told}{body}".encode()
        browser = subprocess.Popen(
            [CHROMIUM or "chromium", *_FLAGS, f"--user-data-dir={profile}", self.origin],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            return self._said.get()
        finally:
            browser.terminate()
            browser.wait()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
