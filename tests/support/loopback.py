"""An HTTP server on loopback for the providers that tests make up: it logs nothing, and sends each write at once."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class QuietServer(ThreadingHTTPServer):
    """A server whose clients may leave, which does not wait for them when it is closed."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: a client that closes its connection is not an error here."""


class QuietHandler(BaseHTTPRequestHandler):
    """Keeps connections open, as providers do."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""


def send_json(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    """Answer with a JSON document."""
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)
