"""Forwarding: a request to the server that it means, over connections that one thread keeps. Standard library only."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from freezeframe_replay.process.loopback_http import OF_THE_CONNECTION

_PIECE_BYTES: Final = 64 * 1024
_TIMEOUT_S: Final = 600.0
_STALE: Final = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)


class Forwarder:
    """Sends requests on. It belongs to one thread, that of a client's connection."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[http.client.HTTPConnection, http.client.HTTPResponse]] = {}
        """By origin: the connection, and the response that came over it last."""

    def send(self, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes) -> http.client.HTTPResponse:
        """Return the response, whose body is yet to be read.

        Raises:
            OSError: the server cannot be reached.
            http.client.HTTPException: it does not speak HTTP.
        """
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        connection, last = self._kept.pop(origin, None) or (_connect(url), None)
        if last is not None and not last.isclosed():  # what is left of its body would be read as the next response
            connection.close()
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            response = _ask(connection, method, target, parts.netloc, headers, body)
        except _STALE:
            connection.close()
            if last is None:
                raise
            connection = _connect(url)  # the server had closed the connection that we kept
            response = _ask(connection, method, target, parts.netloc, headers, body)
        self._kept[origin] = (connection, response)
        return response

    def close(self) -> None:
        for connection, _ in self._kept.values():
            connection.close()


def pieces_of(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield the body as it arrives.

    Raises:
        OSError: the server went away.
        http.client.HTTPException: it ended the body before its announced end.
    """
    while piece := response.read1(_PIECE_BYTES):
        yield piece
    if response.length:  # read1() takes the end of the connection for the end of the body
        raise http.client.IncompleteRead(b"", response.length)
    # read1() of CPython 3.11.7 and 3.12.1 leaves a response open at its length, so that no other could come
    response.close()


def _ask(
    connection: http.client.HTTPConnection,
    method: str,
    target: str,
    host: str,
    headers: Iterable[tuple[str, str]],
    body: bytes,
) -> http.client.HTTPResponse:
    connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
    connection.putheader("Host", host.rpartition("@")[2])
    for name, value in headers:
        if name.lower() not in {*OF_THE_CONNECTION, "host"}:
            connection.putheader(name, value)
    if body or method in ("POST", "PUT", "PATCH"):
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body or None)
    return connection.getresponse()


def _connect(url: str) -> http.client.HTTPConnection:
    """Return a connection to a server, through the proxy that the environment names for it."""
    parts = urlsplit(url)
    host, secure = parts.hostname or "", parts.scheme == "https"
    proxy = None if proxy_bypass(host) else getproxies().get(parts.scheme)
    context = ssl.create_default_context() if secure else None
    if proxy is None or not secure:  # a plain one would need the whole URL in each request
        return _open(host, parts.port, context)
    through = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    connection = _open(through.hostname or "", through.port, context)
    connection.set_tunnel(host, parts.port)
    return connection


def _open(host: str, port: int | None, context: ssl.SSLContext | None) -> http.client.HTTPConnection:
    if context is None:
        return http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=context)
