"""An HTTP server on loopback whose handler reads whole requests and writes answers chunk by chunk. Standard library only.

Loopback is shared by all users of a machine, so each server has a token. The path of its URL begins with it, since a base URL
is all that many clients take; a client that uses us as its proxy sends it as its password.
"""

from __future__ import annotations

import base64
import json
import secrets
import socket
import sys
import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, cast
from urllib.parse import urlsplit

from freezeframe_replay.process.session_authority import TRUST, SessionAuthority
from freezeframe_schemas.local_tokens import is_same
from freezeframe_schemas.same_origin import ANSWER_HEADERS, LOOPBACK_NAMES, why_foreign

LOOPBACK: Final = "127.0.0.1"
OF_THE_CONNECTION: Final = frozenset(
    {"content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "proxy-authorization"}
)
"""Headers that applied to another connection than this one."""
TO_PREFIX: Final = "/-/to/"
"""The rest of the path is the intended URL."""
KEY_PREFIX: Final = "/-/key/"
"""Followed by the server's token and the intended path."""
_HELLO: Final = b"\x16"
"""The first byte of a TLS connection. Node's fetch tunnels plain HTTP, too."""
_USER: Final = "freezeframe"
"""Of a proxy's URL; the token is the password."""


def proxy_variables(url: str, authority: SessionAuthority) -> dict[str, str]:
    """Return the variables that make the server at `url` the proxy of a program, for http and https."""
    parts = urlsplit(url)
    token = parts.path.removeprefix(KEY_PREFIX)
    proxy = f"http://{_USER}:{token}@{parts.netloc}" if token else f"http://{parts.netloc}"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
    trust = dict.fromkeys(TRUST, str(authority.bundle))
    around = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
    return {**dict.fromkeys(names, proxy), "NODE_USE_ENV_PROXY": "1", **trust, **around}


class LoopbackHandler(BaseHTTPRequestHandler):
    """Reads a request of any method and hands it to `handle_request`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    """Head and body of a short answer leave together; the base class flushes after each request."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Log nothing: the report lists the requests."""

    def handle_any(self) -> None:
        """Answer a request of any method, unless a page in a browser sent it."""
        body = self._read_body()
        foreign = why_foreign(cast("Mapping[str, str]", self.headers), names=None if self.is_proxied else LOOPBACK_NAMES)
        if foreign is not None:
            self.send_json(403, {"error": {"message": f"refused: {foreign}"}})
        elif not self.has_token:
            self.refuse_stranger()
        else:
            self.handle_request(body)

    def do_CONNECT(self) -> None:
        """Speak for the server that a client wants to reach through us."""
        host, _, port = self._named.rpartition(":")
        host = host.strip("[]").lower()
        authority = self._loopback.authority
        if not self.has_token:
            return self.refuse_stranger()
        if authority is None or not host:
            return self.send_json(501, {"error": {"message": "https through this proxy requires --proxy"}})
        self.send_response_only(200, "Connection established")
        self.end_headers()
        self.wfile.flush()
        is_secure = self.connection.recv(1, socket.MSG_PEEK) == _HELLO
        if is_secure:
            try:
                self.connection = authority.context_for(host).wrap_socket(self.connection, server_side=True)
            except OSError as error:
                print(f"freezeframe: {host}: no TLS; is the session's certificate not trusted? {error}", file=sys.stderr)
                self.close_connection = True
                return None
            self.rfile = self.connection.makefile("rb", self.rbufsize)
            self.wfile = self.connection.makefile("wb", self.wbufsize)
        name = f"[{host}]" if ":" in host else host
        own_port = "" if port == ("443" if is_secure else "80") else f":{port}"
        self._tunnel = f"{'https' if is_secure else 'http'}://{name}{own_port}"
        self.close_connection = False
        return None

    _tunnel = ""
    """The origin of the server that the client believes to speak to; empty if it knows that it speaks to us."""

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = handle_any  # noqa: N815 - the base class's names

    def finish(self) -> None:
        """End a connection; the base class closes the socket that it was opened with, which a tunnel has taken over."""
        super().finish()
        if self._tunnel:
            self.connection.close()

    def handle_request(self, body: bytes) -> None:
        raise NotImplementedError

    @property
    def is_proxied(self) -> bool:
        """Return whether the client uses us as its proxy. Host then names the other server, and no page can send this."""
        return bool(self._tunnel) or self.command == "CONNECT" or self._named.startswith("http://")

    @property
    def has_token(self) -> bool:
        """Return whether the request has the server's token."""
        expected, given = self._loopback.place, self._named[: len(self._loopback.place)]
        if self._tunnel or not expected:
            return True
        if self.is_proxied:
            expected, given = self._loopback.credentials, self.headers.get("proxy-authorization", "")
        return is_same(given, expected)

    def refuse_stranger(self) -> None:
        """Answer a request without the token."""
        refusal = {
            "error": {"message": "refused: the URL lacks this server's token; take the whole URL that the command printed"}
        }
        if self.is_proxied:
            self.send_json(407, refusal, ("proxy-authenticate", 'Basic realm="freezeframe"'))
        else:
            self.send_json(401, refusal)

    @property
    def target(self) -> str:
        """Return the target of the request line, without the token."""
        if self.is_proxied:
            return self._tunnel + self._named
        return self._named[len(self._loopback.place) :] or "/"

    @property
    def _named(self) -> str:
        """Return the target of the request line. The base class reduces several slashes at its beginning to one."""
        return self.requestline.split()[1]

    @property
    def _loopback(self) -> LoopbackServer:
        assert isinstance(self.server, LoopbackServer)
        return self.server

    def url_of(self, target: str) -> str:
        """Return the URL that a request's target means: another server's if it names one, else ours."""
        if target.startswith(("http://", "https://")):
            return target
        if target.startswith((f"{TO_PREFIX}http://", f"{TO_PREFIX}https://")):
            return target.removeprefix(TO_PREFIX)
        return f"http://{self.headers.get('host', LOOPBACK)}{target}"

    def _read_body(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", "").lower():
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        pieces: list[bytes] = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            """Skip trailers."""
        return b"".join(pieces)

    def send_head(self, status: int, reason: str | None, headers: Iterable[tuple[str, str]]) -> None:
        """Write status line and headers, without those of another connection."""
        self.send_response_only(status, reason)
        for name, value in headers:
            if name.lower() not in OF_THE_CONNECTION:
                self.send_header(name, value)

    def send_whole(self, status: int, body: bytes, headers: Iterable[tuple[str, str]], reason: str | None = None) -> None:
        """Write an answer in one piece."""
        self.send_head(status, reason, headers)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_json(self, status: int, value: object, *headers: tuple[str, str]) -> None:
        """Write a JSON document."""
        body = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")
        self.send_whole(status, body, (("content-type", "application/json"), *ANSWER_HEADERS.items(), *headers))

    def begin_chunks(self) -> None:
        """End the head of an answer that comes in pieces."""
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def send_chunk(self, data: bytes) -> None:
        """Write one piece."""
        if data:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
            self.wfile.flush()

    def end_chunks(self) -> None:
        """End an answer that came in pieces."""
        self.wfile.write(b"0\r\n\r\n")

    def hang_up(self) -> None:
        """Cut the connection in the middle of the answer."""
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)


class LoopbackServer(ThreadingHTTPServer):
    """Serves each connection on a separate thread, to those who have its token."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        port: int,
        handler: type[LoopbackHandler],
        *,
        is_open: bool = False,
        authority: SessionAuthority | None = None,
    ) -> None:
        super().__init__((LOOPBACK, port), handler)
        self.authority = authority
        """Certificate authority that makes this a proxy for https, too."""
        token = "" if is_open else secrets.token_urlsafe(16)
        host = f"{LOOPBACK}:{self.server_address[1]}"
        self.place = f"{KEY_PREFIX}{token}" if token else ""
        """Prefix of each path; empty if everyone on this machine is answered."""
        self.credentials = f"Basic {base64.b64encode(f'{_USER}:{token}'.encode()).decode()}" if token else ""
        """Credentials of a client that uses us as its proxy."""
        self.url = f"http://{host}{self.place}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that left; print any other fault, which is ours."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def listening(server: LoopbackServer, name: str) -> Generator[str]:
    """Run a server while the block runs; yields its URL, with the token."""
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True, name=name)
    thread.start()
    try:
        yield server.url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
