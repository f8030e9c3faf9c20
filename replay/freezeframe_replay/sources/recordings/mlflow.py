"""Traces of MLflow: its SQL store (SQLite), and the JSON of ``Trace.to_json()`` and ``get-trace-artifact``.

MLflow keeps each attribute as a JSON text. A text that is an object, an array or a quoted text in JSON stays as it is, and any
other is quoted; so only a text in quotes may have been either. What the attribute holds decides, and the size of a body.

Source: https://github.com/mlflow/mlflow, ``mlflow/entities/span.py``, ``mlflow/tracing/otel/translation/__init__.py``
"""

from __future__ import annotations

import base64
import binascii
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from freezeframe_replay.sources.recordings.http_calls import Origin
from freezeframe_replay.sources.recordings.json_items import each, items_of, placed
from freezeframe_replay.sources.retyped import retyped
from freezeframe_schemas import genai
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.span import AttributeValue, Event, Resource, SpanRecord, StatusCode
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_objects, as_text, dump, parse

_OWN: Final = "mlflow."
"""MLflow's own attributes stay the JSON texts that they are."""
_HEAD: Final = b"SQLite format 3\x00"
_FIRST_NAME: Final = re.compile(rb'\s*\{\s*"(\w+)"')
_HOLDS_JSON: Final = frozenset({genai.ENTRY_INPUT, genai.ENTRY_OUTPUT, genai.ERROR_CHAIN})
_STATUS: Final = {"STATUS_CODE_ERROR": StatusCode.ERROR, "STATUS_CODE_OK": StatusCode.OK}
_SELECT: Final = "SELECT trace_id, content FROM spans ORDER BY trace_id, start_time_unix_nano, span_id"
_SELECT_TAGS: Final = 'SELECT "key", value FROM trace_tags WHERE request_id = ?'


def read_mlflow(path: Path, origin: Origin) -> Iterator[SpanRecord]:
    """Yield the spans of every trace in a store, or of the trace in a JSON document, under the ids that they had.

    Raises:
        WireError: the file is neither, or a span does not follow the format; the message says which.
    """
    del origin
    with path.open("rb") as file:
        head = file.read(4096)
    if head.startswith(_HEAD):
        yield from _of_store(path)
        return
    first = _FIRST_NAME.match(head)
    names = ("spans",) if first is not None and first[1] == b"spans" else ("data", "spans")
    yield from each(path, "span", items_of(path, *names), mlflow_span)


def _of_store(path: Path) -> Iterator[SpanRecord]:
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as store:
            resources: dict[str, Resource] = {}
            for number, (trace, content) in enumerate(store.execute(_SELECT), 1):
                if trace not in resources:
                    resources = {trace: mlflow_resource(dict(store.execute(_SELECT_TAGS, (trace,))))}
                with placed(path, f"span {number}"):
                    span = mlflow_span(as_object(parse(content)), resources[trace])
                yield span
    except sqlite3.Error as error:
        raise WireError(f"{path}: not a readable store of MLflow: {error}") from None


def mlflow_resource(tags: Mapping[str, JsonValue]) -> Resource:
    """Return the resource that a trace's tags hold: MLflow puts its attributes there."""
    resource = {name: value for name, value in tags.items() if isinstance(value, str) and not name.startswith(_OWN)}
    return Resource(attributes=retyped(resource))


def mlflow_span(item: JsonObject, resource: Resource | None = None) -> SpanRecord:
    """Return a span.

    Raises:
        ValueError: it does not follow the format.
    """
    start, end = item.get("start_time_unix_nano"), item.get("end_time_unix_nano")
    if not isinstance(start, int) or start < 0:
        raise ValueError("start_time_unix_nano: expected a number")
    texts = as_object(item.get("attributes"))
    attributes = {name: held for name, value in texts.items() if (held := _attribute(name, value)) is not None}
    status = as_object(item.get("status"))
    parent = item.get("parent_span_id")
    return SpanRecord(
        trace_id=_id(item.get("trace_id"), 16, "trace_id"),
        span_id=_id(item.get("span_id"), 8, "span_id"),
        parent_span_id=_id(parent, 8, "parent_span_id") if parent else "",
        name=as_text(item.get("name")) or "span",
        start_time_unix_nano=start,
        end_time_unix_nano=end if isinstance(end, int) and end >= start else start,
        attributes=attributes | _quoted_body(attributes, texts),
        status_code=_STATUS.get(as_text(status.get("code")) or "", StatusCode.UNSET),
        status_message=as_text(status.get("message")) or "",
        events=tuple(map(_event, as_objects(item.get("events")))),
        resource=resource or Resource(),
    )


def _attribute(name: str, value: JsonValue) -> AttributeValue:
    if not isinstance(value, str):
        return dump(value) if isinstance(value, dict | list) else value
    if name.startswith(_OWN):
        return value
    found = parse(value)
    if isinstance(found, str):
        return value if name in _HOLDS_JSON else found
    return found if isinstance(found, bool | int | float) else retyped({name: value})[name]


def _quoted_body(attributes: Mapping[str, AttributeValue], texts: JsonObject) -> dict[str, AttributeValue]:
    """Return the body of an answer with its quotes, if these are part of its size: a function returned a text."""
    body, kept = attributes.get(genai.RESPONSE_BODY), texts.get(genai.RESPONSE_BODY)
    sizes = attributes.get(genai.RESPONSE_CHUNK_SIZES)
    if not isinstance(body, str) or not isinstance(kept, str) or not isinstance(sizes, tuple) or body == kept:
        return {}
    size = sum(item for item in sizes if isinstance(item, int))
    return {genai.RESPONSE_BODY: kept} if len(body.encode()) != size == len(kept.encode()) else {}


def _event(item: JsonObject) -> Event:
    moment = item.get("time_unix_nano", item.get("timestamp"))
    event_attributes = as_object(item.get("attributes"))
    attributes = {name: _attribute(name, value) for name, value in event_attributes.items()}
    return Event(
        time_unix_nano=moment if isinstance(moment, int) and moment >= 0 else 0,
        name=as_text(item.get("name")) or "event",
        attributes=attributes,
    )


def _id(value: JsonValue, size: int, name: str) -> str:
    """Return an id in hex digits, which is in base64 or, with ``0x`` or without, in hex."""
    text = value.removeprefix("0x").removeprefix("tr-") if isinstance(value, str) else ""
    try:
        found = bytes.fromhex(text) if len(text) == 2 * size else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        found = b""
    if len(found) != size or not any(found):
        raise ValueError(f"{name}: expected an id of {size} bytes")
    return found.hex()
