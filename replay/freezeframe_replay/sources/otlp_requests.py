"""The OTLP requests in a file, one by one, unread: lines of JSON, one JSON document, protobuf, or protobuf after its length.

They come from the OpenTelemetry Collector's file exporter, or are those that any exporter would send. For
forwarding, not for reading: only one line or framed message is held at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from freezeframe_replay.sources.otlp import spans_of_document
from freezeframe_replay.sources.otlp_bytes import LOGS, TRACES, documents_of, is_text, messages_of, read_message
from freezeframe_schemas.content_references import REFERENCES, ContentReader
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.otlp.decode import NO_LIMITS
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.otlp.logs import decode_json_logs
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.wire.document import JsonObject, as_objects, as_text, parse

METRICS: Final = "metrics"
JSON: Final = "application/json"
PROTOBUF: Final = "application/x-protobuf"

_FIELDS: Final = {"resourceSpans": TRACES, "resourceLogs": LOGS, "resourceMetrics": METRICS}
_MAX_SPANS: Final = 256
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
    runs: tuple[str, ...] = ()
    """Ids of the traces that its spans belong to."""
    line: int = 0
    """Its line in a file of lines."""

    @property
    def place(self) -> str:
        """Return its name for error messages."""
        return f"request {self.number}" + (f" (line {self.line})" if self.line else "")


def requests_of_file(path: Path) -> Iterator[OtlpRequest]:
    """Yield the requests of a file, in order.

    Raises:
        WireError: one is not OTLP; the message says which.
    """
    yield from _of_text(path) if is_text(path) else _of_protobuf(path)


def _of_text(path: Path) -> Iterator[OtlpRequest]:
    numbers = itertools.count(1)
    for line, body, value in documents_of(path):
        signal = next((signal for field, signal in _FIELDS.items() if isinstance(value, dict) and field in value), None)
        if signal is not None:
            runs = _runs_in(value) if signal == TRACES else _runs_of_logs(body) if signal == LOGS else ()
            yield OtlpRequest(number=next(numbers), signal=signal, content_type=JSON, body=body, runs=runs, line=line)
            continue
        try:
            spans = spans_of_document(value)  # as a backend's API returns it
        except WireError as error:
            raise WireError(f"{path}, request {next(numbers)}{f' (line {line})' if line else ''}: {error}") from error
        for request in requests_of_spans(spans):
            yield replace(request, number=next(numbers), line=line)


def _runs_in(document: JsonObject) -> tuple[str, ...]:
    """Return the trace ids in a document, without reading its spans: a document may be large."""
    scopes = (scope for part in as_objects(document.get("resourceSpans")) for scope in as_objects(part.get("scopeSpans")))
    spans = (span for scope in scopes for span in as_objects(scope.get("spans")))
    return tuple(dict.fromkeys(text.lower() for span in spans if (text := as_text(span.get("traceId")))))


def _runs_of_logs(body: bytes) -> tuple[str, ...]:
    try:
        return _runs_of(decode_json_logs(body, NO_LIMITS).events.spans)
    except WireError:
        return ()  # the collector refuses it, and says why


def _runs_of(spans: Iterable[SpanRecord]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(span.trace_id for span in spans))


def _of_protobuf(path: Path) -> Iterator[OtlpRequest]:
    for number, body in enumerate(messages_of(path), 1):
        try:
            signal, found = read_message(body)
        except WireError as error:
            raise WireError(f"{path}, request {number}: {error}") from error
        yield OtlpRequest(number=number, signal=signal, content_type=PROTOBUF, body=body, runs=_runs_of(found.spans))


def requests_of_spans(spans: Iterable[SpanRecord]) -> Iterator[OtlpRequest]:
    for number, batch in enumerate(batches_of_spans(spans), 1):
        body = encode_traces(batch)
        yield OtlpRequest(number=number, signal=TRACES, content_type=PROTOBUF, body=body, runs=_runs_of(batch))


def request_with_content(request: OtlpRequest, reader: ContentReader) -> Iterator[OtlpRequest]:
    """Yield the request with the content that its spans point to; unread and unchanged if they point to nothing.

    Raises:
        WireError: it is not OTLP.
    """
    if not any(name.encode() in request.body for name in REFERENCES):
        yield request
        return
    if request.content_type == PROTOBUF:
        _, found = read_message(request.body)
        if found.faults:  # the collector refuses some, and says why
            yield request
            return
        spans = found.spans
    else:
        spans = spans_of_document(parse(request.body))
    for part in requests_of_spans(map(reader.with_content, spans)):
        yield replace(part, number=request.number, line=request.line)


def batches_of_spans(spans: Iterable[SpanRecord]) -> Iterator[list[SpanRecord]]:
    """Yield the spans in pieces that are small enough for a request."""
    batch: list[SpanRecord] = []
    size = 0
    for span in spans:
        length = sum(len(value) for value in span.attributes.values() if isinstance(value, str | bytes))
        if batch and (len(batch) >= _MAX_SPANS or size + length > _ENOUGH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(span)
        size += length
    if batch:
        yield batch
