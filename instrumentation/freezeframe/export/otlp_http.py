"""OTLP over HTTP, with the standard library's client: neither our seams nor other instrumentations see it."""

from __future__ import annotations

import os
import socket
from typing import Any, Final

from freezeframe._config import TRACES_PATH
from freezeframe._guard import guard, log_once, logger
from freezeframe.export.delivery import Destination, Refused, TooLarge, TryAgain, Unreachable, show_token
from freezeframe_schemas.lifecycle import COLLECTOR_HEADER

_RETRYABLE: Final = frozenset({429, 502, 503, 504})
_TOO_LARGE: Final = 413
_UNAUTHORIZED: Final = 401
_CONNECT_TIMEOUT_S: Final = 0.8
"""Maximum time for a connection. It is retried, except at the end of a process whose batch can wait on the disk."""
HOW_TO_GET_IN: Final = (
    ": the token is missing or unknown; set FREEZEFRAME_DATA to the collector's data directory, or send the token stored"
    ' there: OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20$(cat .freezeframe/sender-token)"'
)
_BATCH_IS_WRONG: Final = frozenset({400, 415, 422})
"""Statuses that concern this batch; any other (401, 404, 500) concerns the collector."""


class HttpWire:
    """One connection, kept open."""

    def __init__(self, to: Destination) -> None:
        from urllib.parse import urlsplit

        parts = urlsplit(to.endpoint)
        self._secure = parts.scheme == "https"
        self._tls = to.tls
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port or (443 if self._secure else 4318 if self._host == "127.0.0.1" else 80)
        path = parts.path or TRACES_PATH
        self._path = f"{path}?{parts.query}" if parts.query else path
        self.target = f"{self._host}:{self._port}{path}"
        self.is_collector: bool | None = None
        self._headers = {"Content-Type": "application/x-protobuf", "User-Agent": "freezeframe", **dict(to.headers)}
        self._own = to.own
        self._is_given = any(name.lower() == "authorization" for name in self._headers)
        if to.encoding != "none":
            self._headers["Content-Encoding"] = to.encoding
        self._connection: Any = None
        self._made_by = _maker()

    def send(self, body: bytes, timeout_s: float) -> int:
        """Post one request."""
        import http.client

        from freezeframe.seams.recorder.recording import while_sending

        with while_sending():
            # Looked up for each batch: the collector may have started after this process.
            token = {} if self._is_given else show_token(self._host, self._port, self._own)
        headers = {**self._headers, **token}
        try:
            connection = self._connect(timeout_s)
        except OSError as error:
            self.close()
            raise TryAgain(f"{type(error).__name__}: {error}", is_down=True) from error
        try:
            with while_sending():  # none of our own calls is recorded, or answered from a recording
                connection.request("POST", self._path, body=body, headers=headers)
                response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise TryAgain(f"{type(error).__name__}: {error}") from error
        if response.status < 300:
            self.is_collector = response.getheader(COLLECTOR_HEADER) is not None
            return _rejected_spans(answer, response.getheader("Content-Type") or "")
        self.close()
        reason = f"answered {response.status}{HOW_TO_GET_IN if response.status == _UNAUTHORIZED else ''}"
        if response.status in _RETRYABLE:
            raise TryAgain(reason, _seconds(response.getheader("Retry-After") or ""))
        if response.status == _TOO_LARGE:
            raise TooLarge(f"{self.target}: {reason}, {len(body)} bytes")
        raise (Refused if response.status in _BATCH_IS_WRONG else Unreachable)(reason)

    def _connect(self, timeout_s: float) -> Any:
        import http.client

        if self._made_by != _maker():
            self._connection, self._made_by = None, _maker()
        if self._connection is None:
            if self._secure:
                self._connection = http.client.HTTPSConnection(
                    self._host, self._port, timeout=timeout_s, context=self._tls.context()
                )
            else:
                self._connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        _open(self._connection, timeout_s)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _open(connection: Any, timeout_s: float) -> None:
    """Connect unless connected, and limit the time of the request."""
    from freezeframe.seams.recorder.recording import while_sending

    if not connection.sock:
        connection.timeout = min(timeout_s, _CONNECT_TIMEOUT_S)
        with while_sending():
            connection.connect()
    connection.sock.settimeout(timeout_s)


def _maker() -> tuple[int, type]:
    """Return the owner of a connection, which only its owner may use.

    Two processes would corrupt each other's requests; a connection from before gevent or eventlet replaced the
    sockets would block every greenlet.
    """
    return os.getpid(), socket.socket


def _seconds(retry_after: str) -> float | None:
    """Read Retry-After: seconds, or a date.

    Source: RFC 9110, 10.2.3.
    """
    if retry_after.isdigit():
        return float(retry_after)
    if not retry_after:
        return None
    import datetime as dt
    from email.utils import parsedate_to_datetime

    try:
        until = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max(0.0, (until - dt.datetime.now(dt.UTC)).total_seconds()) if until.tzinfo else None


def _rejected_spans(answer: bytes, content_type: str) -> int:
    """Return how many spans the collector set aside, and log why."""
    if not answer or "protobuf" not in content_type:
        return 0
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    with guard("delivery.partial_success"):
        return rejected_spans(ExportTraceServiceResponse.FromString(answer))
    return 0


def rejected_spans(response: Any) -> int:
    """Return how many spans an ``ExportTraceServiceResponse`` sets aside, and log its reason or remark."""
    partial = response.partial_success
    if partial.rejected_spans > 0:
        logger.warning("freezeframe: the collector rejected %d spans: %s", partial.rejected_spans, partial.error_message)
    elif partial.error_message:
        log_once("delivery.remark", "freezeframe: the collector remarks: %s", partial.error_message)
    return max(0, partial.rejected_spans)
