"""OTLP/JSON bodies for the pipeline: the schemas' reader, span by span where the whole is refused."""

from __future__ import annotations

from typing import Any, Final, cast

import orjson

from freezeframe_collector.otlp import Decoded, Limits, SpanFault
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.otlp_json import spans_from_otlp_json

_DETAIL: Final = "a field has a form that OTLP/JSON does not allow"


def decode_json_traces(body: bytes, limits: Limits) -> Decoded:
    """Return the spans of an ``ExportTraceServiceRequest`` in JSON.

    Raises:
        WireError: the body is no such JSON.
    """
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise WireError(f"OTLP/JSON: {len(body)} bytes that are no JSON: {error.msg} at {error.pos}") from None
    if not isinstance(request, dict):
        raise WireError('OTLP/JSON: found no object, expected {"resourceSpans": [...]}')
    found = cast("dict[str, Any]", request)
    try:
        return _checked(Decoded(spans=spans_from_otlp_json(found)), limits)
    except WireError:
        return _checked(_decode_each(found), limits)


def _decode_each(request: dict[str, Any]) -> Decoded:
    """Read each span as a request of its own; a fault above the spans is the whole request's."""
    decoded = Decoded()
    try:
        for resource_spans in request.get("resourceSpans", ()):
            for scope_spans in resource_spans.get("scopeSpans", ()):
                for span in scope_spans.get("spans", ()):
                    alone = {**resource_spans, "scopeSpans": [{**scope_spans, "spans": [span]}]}
                    try:
                        decoded.spans.extend(spans_from_otlp_json({"resourceSpans": [alone]}))
                    except WireError:
                        # The reader's message quotes what it found, which is content: it is not repeated here.
                        decoded.faults.append(SpanFault(reason="unreadable span", detail=_DETAIL))
    except (AttributeError, TypeError):
        raise WireError(f"OTLP/JSON: {_DETAIL}, above its spans") from None
    if not decoded.spans and not decoded.faults:
        raise WireError(f"OTLP/JSON: {_DETAIL}, above its spans")
    return decoded


def _checked(decoded: Decoded, limits: Limits) -> Decoded:
    """Move the spans over a limit to the faults."""
    kept = Decoded(faults=decoded.faults)
    for span in decoded.spans:
        counts = (
            ("attributes", len(span.attributes), limits.attributes),
            ("events", len(span.events), limits.events),
            ("links", len(span.links), limits.links),
        )
        over = [f"{found} {what}, the limit is {limit}" for what, found, limit in counts if found > limit]
        times = (span.start_time_unix_nano, span.end_time_unix_nano)
        if over:
            detail = f"the span has {over[0]}"
            kept.faults.append(SpanFault(reason="over limit", detail=detail, trace_id=span.trace_id, span_id=span.span_id))
        elif not span.trace_id.strip("0") or not span.span_id.strip("0"):
            kept.faults.append(SpanFault(reason="invalid id", detail="found all zeros", trace_id=span.trace_id))
        elif not all(0 <= time < 1 << 63 for time in times):
            detail = "a time lies before 1970 or after the year 2262"
            kept.faults.append(SpanFault(reason="invalid time", detail=detail, trace_id=span.trace_id, span_id=span.span_id))
        else:
            kept.spans.append(span)
    return kept
