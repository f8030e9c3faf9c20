"""OTLP/JSON as backends return it: in their own wrappers, with fields in snake case, nulls, and ids in base64. Pure.

Sources: the HTTP APIs of Jaeger (``/api/v3/traces/{id}``; for its own form see `jaeger`), Grafana Tempo
(``/api/traces/{id}``, ``/api/v2/traces/{id}``) and Phoenix (``/v1/projects/{project}/spans/otlpv1``).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any, Final, cast

from freezeframe_replay.sources.jaeger import is_jaeger, spans_of_jaeger
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.otlp.decode import NO_LIMITS
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json
from freezeframe_schemas.otlp.logs import decode_json_logs
from freezeframe_schemas.span import SpanRecord

_WRAPPERS: Final = ("result", "trace")
_IDS: Final = {"traceId": 32, "spanId": 16, "parentSpanId": 16}
"""Field -> hex digits."""
_UNDERSCORE: Final = re.compile(r"_([a-z])")


def spans_of_document(document: Any) -> list[SpanRecord]:
    """Return the spans of one JSON value that holds OTLP in any of the forms above.

    Raises:
        WireError: a field has a form that OTLP does not allow; the message says where.
    """
    try:
        value: Any = _plain(document)
    except RecursionError:
        raise WireError("OTLP/JSON: nested deeper than any span is") from None
    if isinstance(value, list):
        return _of_list(cast("list[Any]", value))
    for wrapper in _WRAPPERS:
        if isinstance(value, dict) and wrapper in value:
            value = cast("dict[str, Any]", value)[wrapper]
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if "batches" in fields:
            value = {"resourceSpans": fields["batches"]}
        elif "data" in fields:
            if is_jaeger(fields["data"]):
                return spans_of_jaeger(fields["data"])
            value = {"resourceSpans": [{"scopeSpans": [{"spans": fields["data"]}]}]}
    if isinstance(value, dict) and "resourceLogs" in value:
        return decode_json_logs(json.dumps(value).encode(), NO_LIMITS).events.spans
    if not isinstance(value, dict) or "resourceSpans" not in value:
        raise WireError(f"found {_described(value)}, expected OTLP/JSON: an object with resourceSpans")
    return spans_from_otlp_json(value)


def _of_list(items: list[Any]) -> list[SpanRecord]:
    """Return the spans of a list of documents, each read like a line of a file."""
    spans: list[SpanRecord] = []
    for number, item in enumerate(items, 1):
        if isinstance(item, list):
            raise WireError(f"item {number}: found a list, expected OTLP/JSON: an object with resourceSpans")
        try:
            spans += spans_of_document(item)
        except WireError as error:
            raise WireError(f"item {number}: {error}") from error
    return spans


def _described(value: Any) -> str:
    """Describe a JSON value without its content."""
    if isinstance(value, dict):
        names = sorted(map(str, cast("dict[Any, Any]", value)))
        return f"an object with {', '.join(names[:5])[:100]}" if names else "an empty object"
    return {list: "a list", str: "a string", bool: "true or false", type(None): "null"}.get(type(value), "a number")


def _plain(value: Any, name: str = "") -> Any:
    """Return the value with field names in camel case, without nulls, and ids in hex. Field names are the only keys in OTLP."""
    if isinstance(value, dict):
        fields: dict[str, Any] = {}
        for key, item in cast("dict[str, Any]", value).items():
            if item is not None:
                camel = _UNDERSCORE.sub(lambda found: found[1].upper(), key)
                fields[camel] = _plain(item, camel)
        return fields
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[Any]", value)]
    return _hex(value, _IDS[name]) if name in _IDS and isinstance(value, str) else value


def _hex(text: str, digits: int) -> str:
    """Return an id in hex; protobuf's own JSON writes it in base64, 24 or 12 characters long."""
    if len(text) == -(-digits // 6) * 4:
        try:
            return base64.b64decode(text, validate=True).hex()
        except binascii.Error:
            return text
    return text
