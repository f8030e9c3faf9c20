"""The OTLP requests in a file, one by one, unread: lines of JSON, one JSON document, protobuf, or protobuf after its length.

What the OpenTelemetry Collector's file exporter writes, and what any exporter would send. For handing them on, not for reading:
a line or a framed message is all that is held at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.sources.span_file import is_text
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.otlp.decode import NO_LIMITS, decode_traces
from freezeframe_schemas.otlp.logs import decode_logs
from freezeframe_schemas.span import SpanRecord

TRACES: Final = "traces"
LOGS: Final = "logs"
METRICS: Final = "metrics"
JSON: Final = "application/json"
PROTOBUF: Final = "application/x-protobuf"

_FIELDS: Final = {"resourceSpans": TRACES, "resourceLogs": LOGS, "resourceMetrics": METRICS}
_LENGTH: Final = 4
_MOST_SPANS: Final = 256
_ENOUGH_BYTES: Final = 4 * 1024 * 1024
"""Of the long attributes of a request's spans. A larger one is sent alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpRequest:
    """One request, as it would be sent."""

    number: int
    """From 1, in the file."""
    signal: str
    content_type: str
    body: bytes


def requests_of_file(path: Path) -> Iterator[OtlpRequest]:
    """Yield the requests of a file, in order.

    Raises:
        WireError: one is not OTLP; the message says which.
    """
    yield from _of_text(path) if is_text(path) else _of_protobuf(path)


def _of_text(path: Path) -> Iterator[OtlpRequest]:
    with path.open("rb") as lines:
        number = 0
        for line in lines:
            if not line.strip():
                continue
            number += 1
            signal = _signal_of(line)
            if signal is None and number == 1:
                yield _document(path)
                return
            if signal is None:
                raise WireError(f"{path}, request {number}: not OTLP/JSON, expected an object with {', '.join(_FIELDS)}")
            yield OtlpRequest(number=number, signal=signal, content_type=JSON, body=line)


def _document(path: Path) -> OtlpRequest:
    body = path.read_bytes()
    signal = _signal_of(body)
    if signal is None:
        raise WireError(f"{path}: not OTLP/JSON, expected an object with {', '.join(_FIELDS)}")
    return OtlpRequest(number=1, signal=signal, content_type=JSON, body=body)


def _signal_of(body: bytes) -> str | None:
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return next((signal for field, signal in _FIELDS.items() if isinstance(found, dict) and field in found), None)


def _of_protobuf(path: Path) -> Iterator[OtlpRequest]:
    for number, body in enumerate(_messages(path), 1):
        yield OtlpRequest(number=number, signal=_signal_of_bytes(path, number, body), content_type=PROTOBUF, body=body)


def _messages(path: Path) -> Iterator[bytes]:
    """Yield the messages: each after its length, unless the file as a whole is one."""
    left = path.stat().st_size
    with path.open("rb") as file:
        while left > 0:
            head = file.read(_LENGTH)
            size = int.from_bytes(head, "big")
            if size == 0 or size > left - _LENGTH:
                if left != path.stat().st_size:
                    raise WireError(
                        f"{path}: the last message is cut: {size:,} bytes are announced, {left - _LENGTH:,} are there"
                    )
                yield head + file.read()  # no lengths: the file is one message, and these were its first bytes
                return
            yield file.read(size)
            left -= _LENGTH + size


def _signal_of_bytes(path: Path, number: int, body: bytes) -> str:
    """Return what a message holds. The signals' messages look alike: only the spans or records in them tell."""
    try:
        traces = decode_traces(body, NO_LIMITS)
        if traces.spans:
            return TRACES
        logs = decode_logs(body, NO_LIMITS)
        if logs.events.spans or logs.others:
            return LOGS
    except WireError as error:
        raise WireError(f"{path}, request {number}: {error}") from error
    raise WireError(f"{path}, request {number}: {len(body):,} bytes that are not OTLP protobuf with spans or log records in it")


def batches_of_spans(spans: Iterable[SpanRecord]) -> Iterator[list[SpanRecord]]:
    """Yield the spans in pieces that are small enough for a request."""
    batch: list[SpanRecord] = []
    size = 0
    for span in spans:
        length = sum(len(value) for value in span.attributes.values() if isinstance(value, str | bytes))
        if batch and (len(batch) >= _MOST_SPANS or size + length > _ENOUGH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(span)
        size += length
    if batch:
        yield batch
