"""A span that has nothing but what a test is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
