"""An OTLP/JSON body -> SpanRecord, so that one bad text or one deep value costs only its span and not the request.

Values are counted before any object is made. A body that the parser refuses is repaired and parsed again: half a surrogate pair
(what ``JSON.stringify`` makes of a cut emoji) and bytes that are not UTF-8 become U+FFFD, and a value nested too deeply
becomes null. `restored` notes on the span how many texts were repaired. A span with such a deep value is rejected later, since
protobuf allows only half of `_DEPTH`.

Source: RFC 8259, section 8.2, "Unicode Characters"; opentelemetry-proto, "JSON Protobuf Encoding".
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import orjson

from freezeframe_schemas import genai
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.otlp.decode import Decoded, Limits, SpanFault, decode_traces
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json
from freezeframe_schemas.span import SpanRecord

_DEPTH: Final = 200
"""Levels of JSON. One level of an attribute's value takes three or four of them, and two or three of protobuf's 100."""
_TOKEN: Final = re.compile(rb'"(?>[^"\\]+|\\.?)*+(?:"|\Z)|[\[{,]|[\]}]', re.DOTALL)
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_NOT_UTF8: Final = re.compile("[\udc80-\udcff]+")
_DETAIL: Final = "a field has a form that OTLP/JSON does not allow, or is nested too deeply"
_CARRIER: Final = {"traceId": "1" * 32, "spanId": "1" * 16}
"""A span that carries a resource or a scope through the reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonBody:
    content: dict[str, Any]
    mark: str
    """Marks the repaired places of a text until `restored`; empty without repairs. It is random, so no sender can write it."""

    def restored(self, item: Any) -> tuple[Any, int]:
        """Return a part of the content with U+FFFD in place of the marks, and how many there were."""
        if not self.mark:
            return item, 0
        text = orjson.dumps(item).decode()
        count = text.count(self.mark)
        return (orjson.loads(text.replace(self.mark, "\ufffd")), count) if count else (item, 0)


def parse_json(body: bytes, what: str, most_values: int) -> JsonBody:
    """Return the JSON object in `body`; `what` names the kind of request in errors.

    Raises:
        WireError: the body is not a JSON object, or holds more than `most_values` values.
    """
    # Commas and brackets inside texts count here too, so most requests need no closer look.
    if body.count(b",") + body.count(b"[") + body.count(b"{") > most_values:
        _count_values(body, what, most_values)
    mark = ""
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        mark = f"x{secrets.token_hex(12)}"  # an x after a backslash is not a valid escape, so none can swallow the mark
        mended = _pruned(_without_half_pairs(_as_utf8(body, mark), mark.encode()), what, most_values)
        try:
            content = orjson.loads(mended)
        except orjson.JSONDecodeError:
            raise WireError(f"{what}: {len(body)} bytes that are not valid JSON: {error.msg} at {error.pos}") from None
    if not isinstance(content, dict):
        raise WireError(f"{what}: found {type(content).__name__}, expected an object")
    return JsonBody(content=cast("dict[str, Any]", content), mark=mark)


def with_note(span: dict[str, Any], mended: int) -> dict[str, Any]:
    """Return a span or log record in JSON with an attribute that says how many of its texts were repaired."""
    if not mended:
        return span
    attributes = span.get("attributes")
    held = cast("list[Any]", attributes) if isinstance(attributes, list) else []
    return {**span, "attributes": [*held, {"key": genai.MENDED_TEXTS, "value": {"intValue": str(mended)}}]}


def _tokens(body: bytes, what: str, most_values: int) -> Iterator[tuple[int, bytes]]:
    """Yield position and first byte of each bracket, comma and text, up to the limit of values."""
    left = most_values
    for token in _TOKEN.finditer(body):
        sign = body[token.start() : token.start() + 1]
        if sign in b"[{,":
            left -= 1
            if left < 0:
                raise WireError(f"{what}: more than {most_values} values, the limit is limits.values_per_request")
        yield token.start(), sign


def _count_values(body: bytes, what: str, most_values: int) -> None:
    for _ in _tokens(body, what, most_values):
        pass


def _pruned(body: bytes, what: str, most_values: int) -> bytes:
    """Return the body with null in place of every value below `_DEPTH`."""
    parts: list[bytes] = []
    depth = kept = cut = 0
    for at, sign in _tokens(body, what, most_values):
        if sign in b"[{":
            depth += 1
            if depth == _DEPTH + 1:
                cut = at
        elif sign in b"]}":
            if depth == _DEPTH + 1:
                parts += (body[kept:cut], b"null")
                kept = at + 1
            depth -= 1
    return b"".join((*parts, body[kept:])) if parts else body


def _without_half_pairs(body: bytes, mark: bytes) -> bytes:
    """Return the body with the mark in place of every escaped surrogate that has no partner."""
    parts: list[bytes] = []
    kept = 0
    high = -1
    for found in _SURROGATE.finditer(body):
        at = found.start()
        if at < kept or _is_escaped(body, at):
            continue
        is_high = body[at + 3 : at + 4] in b"89abAB"
        if high >= 0:
            if not is_high and at == high + 6:
                high = -1
                continue
            parts += (body[kept:high], mark)
            kept, high = high + 6, -1
        if is_high:
            high = at
        else:
            parts += (body[kept:at], mark)
            kept = at + 6
    if high >= 0:
        parts += (body[kept:high], mark)
        kept = high + 6
    return b"".join((*parts, body[kept:])) if parts else body


def _is_escaped(body: bytes, at: int) -> bool:
    """Return whether the backslash at `at` is itself escaped: an odd number of them precedes it."""
    start = at
    while start and body[start - 1] == 0x5C:
        start -= 1
    return (at - start) % 2 == 1


def _as_utf8(body: bytes, mark: str) -> bytes:
    try:
        body.decode()
    except UnicodeDecodeError:
        return _NOT_UTF8.sub(mark, body.decode("utf-8", "surrogateescape")).encode()
    return body


# -- traces ----------------------------------------------------------------------------------------------------------------


def decode_json_traces(body: bytes, limits: Limits) -> Decoded:
    """Return the spans of an ``ExportTraceServiceRequest`` in JSON.

    Raises:
        WireError: the body is not valid OTLP/JSON.
    """
    found = parse_json(body, "OTLP/JSON", limits.values)
    count = sum(1 for _ in _each(found.content))
    if count > limits.spans:
        raise WireError(f"the request has {count} spans, the limit is {limits.spans}")
    if not found.mark:
        try:
            return _through_protobuf(found.content, limits)
        except WireError:
            pass  # one span in it may be at fault
    return _decode_each(found, limits)


def _each(request: dict[str, Any]) -> Iterator[Any]:
    """Yield each span.

    Raises:
        WireError: the resources and scopes around the spans do not have the right form.
    """
    try:
        for resource_spans in request.get("resourceSpans") or ():
            for scope_spans in resource_spans.get("scopeSpans") or ():
                yield from scope_spans.get("spans") or ()
    except (AttributeError, TypeError):
        raise WireError(f"OTLP/JSON: {_DETAIL}, above its spans") from None


def _through_protobuf(request: dict[str, Any], limits: Limits) -> Decoded:
    """Read the request and pass it through the protobuf checks: nothing is accepted that the log could not return.

    Raises:
        WireError: a span in it cannot be read.
    """
    try:
        body = encode_traces(spans_from_otlp_json(request))
    except RecursionError:
        raise WireError("OTLP/JSON: nested too deeply") from None
    return decode_traces(body, limits)


def _decode_each(found: JsonBody, limits: Limits) -> Decoded:
    """Read each span separately, and each resource and scope once, however many spans it has."""
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
    """Return a span with this resource or scope, and how many of its texts were repaired; None if it cannot be read."""
    restored, mended = found.restored(resource_spans)
    try:
        return _through_protobuf({"resourceSpans": [restored]}, limits).spans[0], mended
    except (WireError, IndexError):
        return None
