"""OTLP/JSON bodies for the pipeline: the schemas' reader, span by span where the whole is refused."""

from __future__ import annotations

from typing import Any, Final, cast

import orjson

from freezeframe_collector.otlp import Decoded, Limits, SpanFault, decode_traces, encode_traces
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
        return _through_protobuf(found, limits)
    except WireError:
        return _decode_each(found, limits)


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


def _decode_each(request: dict[str, Any], limits: Limits) -> Decoded:
    """Read each span as a request of its own; a fault above the spans is the whole request's."""
    decoded = Decoded()
    try:
        for resource_spans in request.get("resourceSpans", ()):
            for scope_spans in resource_spans.get("scopeSpans", ()):
                for span in scope_spans.get("spans", ()):
                    alone = {**resource_spans, "scopeSpans": [{**scope_spans, "spans": [span]}]}
                    try:
                        one = _through_protobuf({"resourceSpans": [alone]}, limits)
                    except WireError:
                        # The reader's message quotes what it found, which is content: it is not repeated here.
                        decoded.faults.append(SpanFault(reason="unreadable span", detail=_DETAIL))
                    else:
                        decoded.spans.extend(one.spans)
                        decoded.faults.extend(one.faults)
    except (AttributeError, TypeError):
        raise WireError(f"OTLP/JSON: {_DETAIL}, above its spans") from None
    if not decoded.spans and not decoded.faults:
        raise WireError(f"OTLP/JSON: {_DETAIL}, above its spans")
    return decoded
