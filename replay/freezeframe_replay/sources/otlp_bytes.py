"""OTLP as protobuf, in a file: one ``ExportTraceServiceRequest`` (or ``TracesData``, which has the same form), or several, each
behind its length in four bytes, as the file exporter of the OpenTelemetry Collector writes them (``format: proto``). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from freezeframe_replay.sources.otlp import spans_of_document
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.span import SpanRecord

_LENGTH: Final = 4


def spans_of_bytes(body: bytes) -> list[SpanRecord]:
    """Return the spans of OTLP protobuf.

    Raises:
        WireError: the bytes are not OTLP, or hold no span.
    """
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    for pieces in ([body], _framed(body)):
        spans: list[SpanRecord] = []
        try:
            for piece in pieces or ():
                message = ExportTraceServiceRequest.FromString(piece)
                document: Any = MessageToDict(message, use_integers_for_enums=True)
                spans += spans_of_document(document)
        except (DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if spans:
            return spans
    raise WireError(f"{len(body):,} bytes that are not OTLP protobuf with spans in it")


def _framed(body: bytes) -> list[bytes] | None:
    """Return the messages of a file in which each stands behind its length; None if it is not such a file."""
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
