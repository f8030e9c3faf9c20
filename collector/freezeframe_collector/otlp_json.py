"""OTLP/JSON bodies for the pipeline: the schemas' reader, span by span when it refuses the whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, cast

from freezeframe_collector.json_body import JsonBody, parse_json, with_note
from freezeframe_collector.otlp import Decoded, Limits, SpanFault, decode_traces, encode_traces
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.otlp_json import spans_from_otlp_json
from freezeframe_schemas.span import SpanRecord

_DETAIL: Final = "a field has a form that OTLP/JSON does not allow, or is nested too deeply"
_CARRIER: Final = {"traceId": "1" * 32, "spanId": "1" * 16}
"""A span that carries a resource or a scope through the reader."""


def decode_json_traces(body: bytes, limits: Limits) -> Decoded:
    """Return the spans of an ``ExportTraceServiceRequest`` in JSON.

    Raises:
        WireError: the body is not such JSON.
    """
    found = parse_json(body, "OTLP/JSON", limits.values)
    count = sum(1 for _ in _each(found.content))
    if count > limits.spans:
        raise WireError(f"the request has {count} spans, the limit is {limits.spans}")
    if not found.mark:
        try:
            return _through_protobuf(found.content, limits)
        except WireError:
            pass  # one span of it may be at fault
    return _decode_each(found, limits)


def _each(request: dict[str, Any]) -> Iterator[Any]:
    """Yield each span.

    Raises:
        WireError: what holds the spans has no such form.
    """
    try:
        for resource_spans in request.get("resourceSpans") or ():
            for scope_spans in resource_spans.get("scopeSpans") or ():
                yield from scope_spans.get("spans") or ()
    except (AttributeError, TypeError):
        raise WireError(f"OTLP/JSON: {_DETAIL}, above its spans") from None


def _through_protobuf(request: dict[str, Any], limits: Limits) -> Decoded:
    """Read the request and send it through the other form's gate: nothing is accepted that the log could not give back.

    Raises:
        WireError: some span of it cannot be read.
    """
    try:
        body = encode_traces(spans_from_otlp_json(request))
    except RecursionError:
        raise WireError("OTLP/JSON: nested too deeply") from None
    return decode_traces(body, limits)


def _decode_each(found: JsonBody, limits: Limits) -> Decoded:
    """Read each span by itself, and each resource and scope once, however many spans it has."""
    decoded = Decoded()
    for resource_spans in found.content.get("resourceSpans") or ():
        spans_of = {name: value for name, value in resource_spans.items() if name != "scopeSpans"}
        of_resource = _carried(found, {**spans_of, "scopeSpans": [{"spans": [_CARRIER]}]}, limits)
        for scope_spans in resource_spans.get("scopeSpans") or ():
            spans = cast("list[Any]", scope_spans.get("spans") or [])
            of_scope = _carried(found, {"scopeSpans": [{**scope_spans, "spans": [_CARRIER]}]}, limits)
            if of_resource is None or of_scope is None:
                decoded.faults.extend([SpanFault(reason="unreadable resource or scope", detail=_DETAIL)] * len(spans))
                continue
            for span in spans:
                try:
                    restored, mended = found.restored(span)
                    noted = with_note(restored, mended + of_resource[1] + of_scope[1])
                    one = _through_protobuf({"resourceSpans": [{"scopeSpans": [{"spans": [noted]}]}]}, limits)
                except (WireError, AttributeError, TypeError):
                    # The reader's message quotes what it found, which is content: it is not repeated here.
                    decoded.faults.append(SpanFault(reason="unreadable span", detail=_DETAIL))
                    continue
                decoded.spans.extend(replace(s, resource=of_resource[0].resource, scope=of_scope[0].scope) for s in one.spans)
                decoded.faults.extend(one.faults)
    if not decoded.spans and not decoded.faults:
        if not found.content.get("resourceSpans"):
            return decoded
        raise WireError(f"OTLP/JSON: {_DETAIL}, above its spans")
    return decoded


def _carried(found: JsonBody, resource_spans: dict[str, Any], limits: Limits) -> tuple[SpanRecord, int] | None:
    """Return a span with this resource or scope, and how many of its texts were mended; None when it cannot be read."""
    restored, mended = found.restored(resource_spans)
    try:
        return _through_protobuf({"resourceSpans": [restored]}, limits).spans[0], mended
    except (WireError, IndexError):
        return None
