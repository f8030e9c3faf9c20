"""OTLP log records that carry GenAI events -> SpanRecords.

Some instrumentations send the content of a call not on its span but in separate log records (semantic conventions 1.28 to
1.36, and ``gen_ai.client.inference.operation.details`` today). The record may come before or after the span, in another
request. So it is kept as a separate span, without duration, below the span that it belongs to; `genai.EVENT_NAME` marks it.
A verdict (`genai.EVALUATION_EVENT`) is an event of that span, as it would be on the span that was judged.
Coding agents report everything they do in log records, without spans: `sessions` makes runs of them. Every other log record is
counted and dropped: the collector does not keep logs.

Source: opentelemetry-proto v1, ``logs.proto``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

import orjson

from freezeframe_schemas import genai
from freezeframe_schemas.coding_agents import coding_agent
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.otlp.count import LOGS, refuse_too_many
from freezeframe_schemas.otlp.decode import Decoded, Limits, SpanFault, decode_value
from freezeframe_schemas.otlp.json_body import parse_json, with_note
from freezeframe_schemas.otlp.sessions import in_session, is_kept
from freezeframe_schemas.span import AttributeValue, Event, Resource, Scope, SpanRecord

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

_OLD_EVENT_NAME: Final = "event.name"
_OF_VERDICT: Final = (genai.EVALUATION_NAME.removesuffix("name"), genai.RESPONSE_ID, genai.ERROR_TYPE)
_TIME_LIMIT: Final = 1 << 63
_JSON_DETAIL: Final = "a field has a form that OTLP/JSON does not allow"
_M = TypeVar("_M", bound="Message")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Protobuf:
    """The part of protobuf that is used; importing the schemas does not import it (see `decode`)."""

    request: type[ExportLogsServiceRequest]
    record: type[LogRecord]
    decode_error: type[Exception]
    unreadable: tuple[type[Exception], ...]


@lru_cache(maxsize=1)
def _protobuf() -> _Protobuf:
    from google.protobuf.json_format import ParseError
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

    return _Protobuf(
        request=ExportLogsServiceRequest,
        record=LogRecord,
        decode_error=DecodeError,
        unreadable=(ParseError, DecodeError, ValueError, TypeError, AttributeError, RecursionError),
    )


def _read_json(given: dict[str, Any], message: _M) -> _M:
    from google.protobuf.json_format import ParseDict

    return ParseDict(given, message, ignore_unknown_fields=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedLogs:
    """A logs request: its GenAI events as spans, and the number of other records."""

    events: Decoded = field(default_factory=Decoded)
    others: int = 0


def decode_logs(body: bytes, limits: Limits) -> DecodedLogs:
    """Return the GenAI events of an ``ExportLogsServiceRequest``.

    Raises:
        WireError: the body is not a valid message of this type.
    """
    refuse_too_many(body, LOGS, "OTLP logs", limits.values)
    try:
        request = _protobuf().request.FromString(body)
    except _protobuf().decode_error as error:
        raise WireError(f"OTLP logs: the body ({len(body)} bytes) is not a valid ExportLogsServiceRequest ({error})") from None
    return _decoded(request, limits)


def decode_json_logs(body: bytes, limits: Limits) -> DecodedLogs:
    """Return the GenAI events of an ``ExportLogsServiceRequest`` in JSON; a record that cannot be read costs only itself.

    Raises:
        WireError: the body is not valid JSON of this message.
    """
    found = parse_json(body, "OTLP/JSON logs", limits.values)
    protobuf = _protobuf()
    request = protobuf.request()
    faults: list[SpanFault] = []
    try:
        for resource_json in found.content.get("resourceLogs", ()):
            resource_logs = request.resource_logs.add(schema_url=resource_json.get("schemaUrl", ""))
            resource_part, in_resource = found.restored(resource_json.get("resource", {}))
            _read_json(resource_part, resource_logs.resource)
            _bounded(resource_logs.resource)
            for scope_json in resource_json.get("scopeLogs", ()):
                scope_logs = resource_logs.scope_logs.add(schema_url=scope_json.get("schemaUrl", ""))
                scope_part, in_scope = found.restored(scope_json.get("scope", {}))
                _read_json(scope_part, scope_logs.scope)
                _bounded(scope_logs.scope)
                for record in scope_json.get("logRecords", ()):
                    try:
                        restored, mended = found.restored(record)
                        noted = with_note(restored, mended + in_resource + in_scope)
                        scope_logs.log_records.append(_read_json_record(noted))
                    except protobuf.unreadable:
                        # The parser's message quotes the value, which is content.
                        faults.append(SpanFault(reason="unreadable log record", detail=_JSON_DETAIL))
    except protobuf.unreadable:
        raise WireError(f"OTLP/JSON logs: {_JSON_DETAIL}, above its log records") from None
    decoded = _decoded(request, limits)
    decoded.events.faults.extend(faults)
    return decoded


def _read_json_record(record: dict[str, Any]) -> LogRecord:
    ids = {name: bytes.fromhex(record.get(name) or "") for name in ("traceId", "spanId")}
    rest = {name: value for name, value in record.items() if name not in ids}
    # OTLP/JSON writes these two in hex, in place of base64 as in protobuf's JSON.
    read = _read_json(rest, _protobuf().record())
    read.trace_id, read.span_id = ids["traceId"], ids["spanId"]
    return _bounded(read)


def _bounded(message: _M) -> _M:
    """Return the message as protobuf's parser reads it, because that parser reads the log: JSON may nest deeper than it allows.

    Raises:
        DecodeError: it is nested too deeply.
    """
    return type(message).FromString(message.SerializeToString())


def _decoded(request: ExportLogsServiceRequest, limits: Limits) -> DecodedLogs:
    events = Decoded()
    others = 0
    for resource_logs in request.resource_logs:
        resource = Resource(
            attributes=_attributes(resource_logs.resource.attributes),
            dropped_attributes_count=resource_logs.resource.dropped_attributes_count,
            schema_url=resource_logs.schema_url,
        )
        for scope_logs in resource_logs.scope_logs:
            scope = Scope(
                name=scope_logs.scope.name,
                version=scope_logs.scope.version,
                attributes=_attributes(scope_logs.scope.attributes),
                dropped_attributes_count=scope_logs.scope.dropped_attributes_count,
                schema_url=scope_logs.schema_url,
            )
            for record in scope_logs.log_records:
                placed = _placed(record, resource, scope, limits)
                if placed is None:
                    others += 1
                elif isinstance(placed, SpanFault):
                    events.faults.append(placed)
                else:
                    events.spans.append(placed)
    return DecodedLogs(events=events, others=others)


def _placed(record: LogRecord, resource: Resource, scope: Scope, limits: Limits) -> SpanRecord | SpanFault | None:
    """Return the record's span, what keeps it from being one, or None for a record that is not kept."""
    name = _event_name(record)
    agent = coding_agent(scope.name, name)
    if agent is None and not name.startswith(genai.EVENT_PREFIX):
        return None
    if fault := _fault(record, limits):
        return fault
    span = _span(record, name, resource, scope)
    if agent is not None:
        if not is_kept(span):
            return None
        span = in_session(span, agent)
    ids = {"trace_id": span.trace_id[:32], "span_id": span.parent_span_id[:16]}
    if len(span.trace_id) != 32 and agent is not None:
        return SpanFault(reason="event without a session", detail="the log record has no session id, and no trace id", **ids)
    needs_span = agent is None and name != genai.EVALUATION_EVENT  # a run as a whole can be judged
    if len(span.trace_id) != 32 or (len(span.parent_span_id) != 16 and needs_span):
        return SpanFault(reason="event without a span", detail="the log record has no trace id or no span id", **ids)
    return span


def _event_name(record: LogRecord) -> str:
    """Return the event's name. Codex writes the place in its source where today's conventions have the name."""
    old = next((pair.value.string_value for pair in record.attributes if pair.key == _OLD_EVENT_NAME), "")
    return old if old and not record.event_name.startswith(genai.EVENT_PREFIX) else record.event_name


def _fault(record: LogRecord, limits: Limits) -> SpanFault | None:
    ids = {"trace_id": record.trace_id.hex()[:32], "span_id": record.span_id.hex()[:16]}
    counts = (("bytes", record.ByteSize(), limits.span_bytes), ("attributes", len(record.attributes), limits.attributes))
    for what, found, limit in counts:
        if found > limit:
            return SpanFault(reason="over limit", detail=f"the log record has {found} {what}, the limit is {limit}", **ids)
    if _time(record) >= _TIME_LIMIT:
        return SpanFault(reason="invalid time", detail="a time lies after the year 2262", **ids)
    return None


def _time(record: LogRecord) -> int:
    return record.time_unix_nano or record.observed_time_unix_nano


def _span(record: LogRecord, name: str, resource: Resource, scope: Scope) -> SpanRecord:
    attributes = _attributes(record.attributes)
    attributes[genai.EVENT_NAME] = name
    if record.body.WhichOneof("value"):
        attributes[genai.EVENT_BODY] = _text(decode_value(record.body))
    events: tuple[Event, ...] = ()
    if name == genai.EVALUATION_EVENT:
        verdict = {key: attributes.pop(key) for key in [*attributes] if key.startswith(_OF_VERDICT)}
        events = (Event(time_unix_nano=_time(record), name=name, attributes=verdict),)
    # From the content: a record that is sent again gets the same id, so that it is recognised as a duplicate.
    span_id = hashlib.blake2b(record.SerializeToString(deterministic=True), digest_size=8).hexdigest()
    return SpanRecord(
        trace_id=record.trace_id.hex(),
        span_id=span_id if span_id.strip("0") else "1".zfill(16),
        parent_span_id=record.span_id.hex(),
        name=name,
        start_time_unix_nano=_time(record),
        end_time_unix_nano=_time(record),
        flags=record.flags,
        attributes=attributes,
        events=events,
        dropped_attributes_count=record.dropped_attributes_count,
        resource=resource,
        scope=scope,
    )


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {}
    for pair in pairs:
        value = decode_value(pair.value)
        # Structured values are JSON text on spans; so are the messages of an event.
        found[pair.key] = _text(value) if isinstance(value, Mapping | tuple) and _is_structured(value) else value
    return found


def _is_structured(value: AttributeValue) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, tuple) and any(isinstance(item, Mapping) for item in value))


def _text(value: AttributeValue) -> str:
    if isinstance(value, str):
        return value
    return orjson.dumps(value, default=_readable).decode()


def _readable(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
