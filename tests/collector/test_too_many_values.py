"""A request with too many values is refused before anything is made of it, wherever they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from freezeframe_schemas.errors import WireError
from freezeframe_schemas.otlp.decode import Limits, decode_traces
from freezeframe_schemas.otlp.logs import decode_logs

RECORDED = sorted((Path(__file__).parents[1] / "data" / "otlp").glob("*/*.pb"))
LIMITS = Limits(values=1_000)
MANY = 1_100


def _field(number: int, content: bytes) -> bytes:
    length = len(content)
    size = bytes([length]) if length < 128 else bytes([length & 127 | 128, length >> 7 & 127 | 128, length >> 14])
    return bytes([number << 3 | 2]) + size + content


IDS = _field(1, b"\1" * 16) + _field(2, b"\1" * 8)
ITEMS = _field(1, b"") * MANY


def _value(any_value: bytes) -> bytes:
    return _field(1, b"key") + _field(2, any_value)


def _request(span: bytes) -> bytes:
    return _field(1, _field(2, _field(2, IDS + span)))


TRACES = {
    "items of an array": _request(_field(9, _value(_field(5, ITEMS)))),
    "items of an array in arrays": _request(_field(9, _value(_field(5, _field(1, _field(5, _field(1, _field(5, ITEMS)))))))),
    "entries of a map": _request(_field(9, _value(_field(6, ITEMS)))),
    "attributes": _request(_field(9, b"") * MANY),
    "events": _request(_field(11, b"") * MANY),
    "attributes of an event": _request(_field(11, _field(3, b"") * MANY)),
    "links": _request(_field(13, b"") * MANY),
    "attributes of a resource": _field(1, _field(1, ITEMS)),
    "attributes of a scope": _field(1, _field(2, _field(1, _field(3, b"") * MANY))),
    "resources": ITEMS,
    "scopes": _field(1, _field(2, b"") * MANY),
    "spans": _field(1, _field(2, _field(2, b"") * MANY)),
    "lengths written in two bytes": _request(_field(9, _value(_field(5, b"\x0a\x80\x00" * MANY)))),
    "fields that OTLP does not have": _request(b"\xa2\x06\x00" * MANY),
    "behind a span that claims more than it has": _field(
        1, _field(2, _field(2, b"\x4a\x7f") + _field(2, IDS + _field(9, _value(_field(5, ITEMS)))))
    ),
    "behind a span with an endless number": _field(
        1, _field(2, _field(2, b"\x30" + b"\xff" * 20) + _field(2, IDS + _field(9, _value(_field(5, ITEMS)))))
    ),
}
LOGS = {
    "items of a body": _field(1, _field(2, _field(2, _field(5, _field(5, ITEMS))))),
    "attributes": _field(1, _field(2, _field(2, _field(6, b"") * MANY))),
    "records": _field(1, _field(2, _field(2, b"") * MANY)),
    "resources": ITEMS,
}


@pytest.mark.parametrize("name", TRACES)
def test_a_traces_request_with_too_many_values_is_refused(name: str) -> None:
    with pytest.raises(WireError, match="more than 1000 values"):
        decode_traces(TRACES[name], LIMITS)


@pytest.mark.parametrize("name", LOGS)
def test_a_logs_request_with_too_many_values_is_refused(name: str) -> None:
    with pytest.raises(WireError, match="more than 1000 values"):
        decode_logs(LOGS[name], LIMITS)


def _values(message: Message) -> int:
    """Count as the limit does, with the official classes: every message, except that an attribute and its value are one."""
    found = 0
    for field, held in message.ListFields():
        if field.message_type is not None:
            for item in held if isinstance(held, list) or field.is_repeated else [held]:
                wraps = item.DESCRIPTOR.name in ("AnyValue",) and message.DESCRIPTOR.name == "KeyValue"
                counts = item.DESCRIPTOR.name not in ("Status", "EntityRef") and not wraps
                found += counts + _values(item)
    return found


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_values_of_recorded_requests_are_counted_exactly(path: Path) -> None:
    body = path.read_bytes()
    is_logs = ".logs." in path.name
    count = _values((ExportLogsServiceRequest if is_logs else ExportTraceServiceRequest).FromString(body))
    decode: Callable[[bytes, Limits], object] = decode_logs if is_logs else decode_traces
    decode(body, Limits(values=4 * count))
    with pytest.raises(WireError, match=f"more than {count - 1} values"):
        decode(body, Limits(values=count - 1))


def test_the_sender_of_too_many_values_is_told(start_collector: Callable[..., Any]) -> None:
    collector = start_collector(limits=LIMITS)
    url = f"http://127.0.0.1:{collector.http_port}/v1/traces"
    answer = httpx.post(url, content=TRACES["items of an array"], headers={"content-type": "application/x-protobuf"})
    assert answer.status_code == 400
    assert b"the limit is limits.values_per_request" in answer.content
