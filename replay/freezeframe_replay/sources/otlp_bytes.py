"""OTLP as protobuf, in a file: one ``ExportTraceServiceRequest`` (or ``TracesData``, which has the same form), or several, each
after its length in four bytes, as the file exporter of the OpenTelemetry Collector writes them (``format: proto``). Pure.

The same of logs: instrumentations that keep content off the span send it in log records, which become spans below theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from freezeframe_schemas.errors import WireError
from freezeframe_schemas.otlp.decode import NO_LIMITS, Decoded, decode_traces
from freezeframe_schemas.otlp.logs import decode_logs
from freezeframe_schemas.span import SpanRecord

_LENGTH: Final = 4


def spans_of_bytes(body: bytes) -> list[SpanRecord]:
    """Return the spans of OTLP protobuf.

    Raises:
        WireError: the bytes are not OTLP, or hold no span, or an unreadable one.
    """
    for read in (_traces, _logs):
        for pieces in ([body], _framed(body)):
            try:
                requests = [read(piece) for piece in pieces or ()]
            except WireError:
                continue
            if spans := [span for request in requests for span in request.spans]:
                for fault in (fault for request in requests for fault in request.faults):
                    raise WireError(f"span {fault.span_id or '(no id)'} of the file: {fault.reason}: {fault.detail}")
                return spans
    raise WireError(f"{len(body):,} bytes that are not OTLP protobuf with spans in it")


def _traces(body: bytes) -> Decoded:
    return decode_traces(body, NO_LIMITS)


def _logs(body: bytes) -> Decoded:
    return decode_logs(body, NO_LIMITS).events


def _framed(body: bytes) -> list[bytes] | None:
    """Return the messages of a file in which each follows its length; None if it is not such a file."""
    pieces: list[bytes] = []
    try:
        pieces.extend(_pieces(body))
    except ValueError:
        return None
    return pieces


def _pieces(body: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(body):
        end = start + _LENGTH + int.from_bytes(body[start : start + _LENGTH], "big")
        if end > len(body) or end <= start + _LENGTH:
            raise ValueError
        yield body[start + _LENGTH : end]
        start = end
