"""WireServer: a recorded run's provider as a real HTTP server, for programs in any language. Serves, never forwards.

Its base URL points an SDK here. Model calls are answered with the recorded bytes, chunk borders and ends; the program's tools
run for real. Which task asked cannot be seen from outside, so equal requests are answered in the order in which they come; a
client that knows better says so in the header ``x-freezeframe-lane``.

A miss is answered with status 424 and ``x-should-retry: false``: SDKs retry after 409, 429 and 5xx.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

from freezeframe._cleaning import clean_headers, clean_url
from freezeframe.seams import Call, http
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas.errors import ReplayMiss, WireError
from freezeframe_schemas.exchange import Completion, Exchange, Kind, Request, parse_lane
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.wire.answer import error_object
from freezeframe_schemas.wire.registry import PROVIDERS, dialect_named

SEAM: Final = "wire"
LANE_HEADER: Final = "x-freezeframe-lane"
MISS_STATUS: Final = 424
_HOP_HEADERS: Final = frozenset({b"content-length", b"transfer-encoding", b"connection", b"keep-alive"})
"""Headers that applied to the recorded connection, not to this one."""


def servable(fixture: Fixture) -> Fixture:
    """Return the part of a run that a server can answer: its HTTP, including the model calls of its tools.

    The tools of a program in another process run, and so do their calls; only their model calls come here.
    """
    steps = [step for step in fixture.steps if step.exchange.kind is Kind.MODEL]
    steps += [step for step in fixture.askable if step.exchange.request.method and step.exchange.kind is not Kind.MODEL]
    steps.sort(key=lambda step: step.number)
    entry = replace(fixture.entry, kind=None, input=None, output=None, error=None)
    return replace(fixture, entry=entry, steps=tuple(replace(step, inside=None) for step in steps))


def environment_for(url: str, fixture: Fixture) -> dict[str, str]:
    """Return the variables that point a program's SDKs to the server at `url`, with placeholder keys."""
    recorded = dict(base for step in reversed(fixture.steps) if (base := _recorded_base(step.exchange)) is not None)
    keys = {name: "replay" for row in PROVIDERS for name in row.credentials}
    bases = {name: f"{url}{recorded.get(row.name, path)}" for row in PROVIDERS for name, path in row.bases}
    return {**keys, **bases, "NO_PROXY": "127.0.0.1,localhost"}


def _recorded_base(exchange: Exchange) -> tuple[str, str] | None:
    """Return the provider of a request's dialect and the path before the call, if SDKs can be configured with it."""
    dialect = dialect_named(exchange.dialect)
    path = urlsplit(exchange.request.url).path
    if dialect is None or not dialect.call_path or not path.endswith(dialect.call_path):
        return None
    return dialect.provider, path.removesuffix(dialect.call_path)


@contextmanager
def serve_wire(session: ReplaySession, port: int = 0) -> Generator[str]:
    """Serve the session on loopback while the block runs; yields the server's URL.

    Raises:
        OSError: the port is taken.
    """
    server = _Server(("127.0.0.1", port), _Handler)
    server.session = session
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True, name="freezeframe-wire")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    session: ReplaySession


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Log nothing: the report says what was asked."""

    def handle_any(self) -> None:
        """Answer a request of any method."""
        server = self.server
        assert isinstance(server, _Server)
        try:
            call = self._call(self._body())
        except WireError as error:
            return self._refuse(str(error))
        try:
            exchange = server.session.respond(call)
        except (ReplayMiss, WireError) as miss:
            return self._refuse(str(miss), call.dialect)
        if exchange is None:  # a policy that lets calls go out is not offered here
            return self._refuse("the replay would make this call for real, which a server does not do", call.dialect)
        self._answer(exchange)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = handle_any  # noqa: N815 - the base class's names

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", "").lower():
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        pieces: list[bytes] = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            """Skip trailers."""
        return b"".join(pieces)

    def _call(self, body: bytes) -> Call:
        url = clean_url(f"http://{self.headers.get('host', 'localhost')}{self.path}")
        headers = clean_headers(self.headers.items())
        request = Request(method=self.command, url=url, headers=headers, body=body)
        subject = http.subject_of(request, body)
        return Call(
            kind=subject.kind,
            name=http.name_of(self.command, url),
            seam=SEAM,
            request=request,
            dialect=subject.dialect,
            provider=subject.provider,
            lane=parse_lane(self.headers.get(LANE_HEADER, "")),
        )

    def _refuse(self, message: str, dialect: str | None = None) -> None:
        """Refuse in the form that the client's provider gives its errors, else in the common one."""
        form = dialect_named(dialect)
        write = error_object if form is None else form.error_body
        body = json.dumps(write(MISS_STATUS, message)).encode()
        self.send_response_only(MISS_STATUS)
        for name, value in (("content-type", "application/json"), ("x-should-retry", "false"), ("content-length", len(body))):
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def _answer(self, exchange: Exchange) -> None:
        response = exchange.response
        if response.completion is Completion.NONE:  # the run got no answer: neither does this client
            return self._hang_up()
        self.send_response_only(response.status or 200, http.served_reason(exchange))
        for name, value in http.served_headers(exchange):
            if name.lower() not in _HOP_HEADERS:
                self.send_header(name.decode("latin-1"), value.decode("latin-1"))
        ended = http.end_of_stream(exchange) is None  # the HTTP body did, whatever happened to the answer in it
        if ended and len(response.chunks) <= 1:
            self.send_header("content-length", str(len(response.body)))
            self.end_headers()
            self.wfile.write(response.body)
            return None
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for chunk in response.chunks:
            if chunk.data:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk.data), chunk.data))
        if not ended:
            return self._hang_up()
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)
