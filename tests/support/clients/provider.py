"""Providers on loopback that answer with recorded bytes, and faults of the kinds that no recording has.

Every host name leads here while a `Provider` runs, so clients ask `api.openai.com` as they do in production, and the capture
sees the address that it knows. What crossed the wire is kept, to be compared with what was captured.
"""

from __future__ import annotations

import base64
import gzip
import json
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

from loopback import LoopbackProvider, QuietHandler

DATA: Final = Path(__file__).parents[2] / "data" / "exchanges" / "exchanges.jsonl.gz"
_SEPARATORS: Final = {"text/event-stream": b"\n\n", "application/x-ndjson": b"\n"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One answer: a recorded exchange by its id, whole or cut, or an added fault."""

    recorded: str = ""
    """`id` in the recorded exchanges; none for a fault."""
    cut: bool = False
    """Half of the body, then the connection ends."""
    status: int = 0
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


def recorded(*ids: str) -> tuple[Turn, ...]:
    """Return the answers of recorded exchanges."""
    return tuple(Turn(recorded=found) for found in ids)


def cut(turn: Turn) -> Turn:
    """Return the answer with its connection ended halfway."""
    return replace(turn, cut=True)


OVERLOADED: Final = Turn(
    status=500,
    body=b'{"type": "error", "error": {"type": "api_error", "code": 500, "message": "overloaded, \xc3\xbcber"}}',
    headers=(("content-type", "application/json"), ("retry-after-ms", "1"), ("retry-after", "0")),
)
"""The 5xx that no recording holds; retried by the clients that retry."""


@dataclass(slots=True, kw_only=True)
class Crossed:
    """One request and answer, as they were on the wire."""

    path: str
    request: bytes
    status: int = 0
    sent: bytes = b""


class Provider(LoopbackProvider):
    """A server for the length of a trial."""

    def __init__(self, script: Sequence[Turn]) -> None:
        super().__init__(_Handler)
        self.crossed: list[Crossed] = []
        self.due = deque(script)
        self._look_up = socket.getaddrinfo

    @property
    def port(self) -> int:
        """Return where it listens."""
        return self._server.server_address[1]

    def __enter__(self) -> Self:
        def look_up(host: Any, *args: Any, **options: Any) -> Any:
            return self._look_up("127.0.0.1" if host is not None else host, *args, **options)

        socket.getaddrinfo = look_up
        return super().__enter__()

    def stop(self) -> None:
        socket.getaddrinfo = self._look_up
        super().stop()


class _Handler(QuietHandler):
    provider: Provider

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        crossed = Crossed(path=self.path, request=self.read_body())
        self.provider.crossed.append(crossed)
        turn = self.provider.due.popleft() if self.provider.due else Turn(status=418, body=b"the script is at its end")
        status, headers, pieces = written(turn)
        crossed.status = status
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        whole = sum(map(len, pieces))
        streamed = len(pieces) > 1
        self.send_header(*(("transfer-encoding", "chunked") if streamed else ("content-length", str(whole))))
        self.end_headers()
        left = whole // 2 if turn.cut else whole
        with suppress(OSError):  # the application stopped reading
            for piece in pieces:
                part = piece[:left]
                left -= len(part)
                crossed.sent += part
                self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part) if streamed and part else part)
            if turn.cut:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
            elif streamed:
                self.wfile.write(b"0\r\n\r\n")


def written(turn: Turn) -> tuple[int, list[tuple[str, str]], list[bytes]]:
    """Return status, headers and the pieces of the body, of which there are several if it is a stream."""
    if not turn.recorded:
        return turn.status, list(turn.headers), [turn.body]
    response = rows()[turn.recorded]["response"]
    body = base64.b64decode(response["b64"]) if "b64" in response else str(response.get("text") or "").encode()
    headers = {str(name).lower(): str(value) for name, value in response["headers"].items()}
    kind = headers.get("content-type", "").partition(";")[0].strip()
    kept = [item for item in headers.items() if item[0] not in ("content-length", "transfer-encoding", "connection")]
    if kind == "application/vnd.amazon.eventstream":
        return response["status"], kept, list(_amazon_messages(body))
    separator = _SEPARATORS.get(kind) or (None if kind else b"\n")  # ollama's recordings lack the header
    if separator is None:
        return response["status"], kept, [body]
    return response["status"], kept, [part for part in body.replace(separator, separator + b"\0").split(b"\0") if part]


def _amazon_messages(body: bytes) -> Iterator[bytes]:
    while body:
        size = int.from_bytes(body[:4], "big")
        yield body[:size]
        body = body[size:]


@cache
def rows() -> dict[str, dict[str, Any]]:
    """Return the recorded exchanges by id."""
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        return {row["id"]: row for row in map(json.loads, lines)}
