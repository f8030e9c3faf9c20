"""An HTTP server on loopback for the providers that tests make up: it logs nothing, and sends each write at once."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


class QuietServer(ThreadingHTTPServer):
    """A server whose clients may leave, which does not wait for them when it is closed."""

    daemon_threads = True
    request_queue_size = 128  # fifty calls at once are one test

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: a client that closes its connection is not an error here."""


class LoopbackProvider:
    """A server as long as the block. Its handler finds it as `provider`."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = QuietServer(("127.0.0.1", 0), type("Handler", (handler,), {"provider": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self.url = self._server.url

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Refuse every later connection."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Generator[str]:
    """Serve as long as the block; yield the URL."""
    with LoopbackProvider(handler) as provider:
        yield provider.url


class QuietHandler(BaseHTTPRequestHandler):
    """Keeps connections open, as providers do."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""

    def read_body(self) -> bytes:
        """Return what was sent, whole or in chunks."""
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body


def send_json(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    """Answer with a JSON document."""
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)
