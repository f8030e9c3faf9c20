"""Spans that have nothing but what a test is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from freezeframe_schemas.exchange import Exchange, exchange_attributes
from freezeframe_schemas.span import SpanRecord

_ALWAYS: Mapping[str, Any] = {
    "trace_id": "1" * 32,
    "span_id": "2" * 16,
    "name": "call",
    "start_time_unix_nano": 1,
    "end_time_unix_nano": 2,
}


def bare_span(attributes: Mapping[str, Any], **others: Any) -> SpanRecord:
    """Return a span with these attributes, and others of its fields if they matter."""
    return SpanRecord(**{**_ALWAYS, **others}, attributes=attributes)


def span_of(exchange: Exchange, **changes: Any) -> SpanRecord:
    """Return the span that an exporter would send for `exchange`."""
    return SpanRecord(
        trace_id="ab" * 16,
        span_id=exchange.span_id,
        parent_span_id=exchange.parent_span_id,
        name=exchange.name,
        start_time_unix_nano=exchange.start_time_unix_nano,
        end_time_unix_nano=exchange.end_time_unix_nano,
        attributes={**exchange_attributes(exchange), **changes},
    )
