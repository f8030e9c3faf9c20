"""OTLP protobuf and SpanRecord: nothing is lost either way, and the official classes read what we write."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from arbitrary import spans_of
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from freezeframe_collector.batch import encode_spans
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.otlp.decode import Decoded, Limits, decode_traces, decode_value
from freezeframe_schemas.otlp.encode import delimited, encode_traces, request_parts
from freezeframe_schemas.otlp.json_body import decode_json_traces
from freezeframe_schemas.otlp.json_form import spans_to_otlp_json
from freezeframe_schemas.otlp.logs import decode_json_logs, decode_logs
from freezeframe_schemas.span import AttributeValue, SpanRecord

RECORDED = Path(__file__).parents[1] / "data" / "otlp"

_TEXTS = st.text(st.characters(codec="utf-8"), max_size=150)  # over 127 bytes, a length takes two
_SPANS = spans_of(_TEXTS, times=st.integers(0, 2**63 - 1), leaves=6)


@pytest.mark.proof
@pytest.mark.long
@given(spans=st.lists(_SPANS, max_size=4))
def test_a_span_survives_the_wire(spans: list[SpanRecord]) -> None:
    """Encode, decode: the same spans (grouped by resource and scope, so in any order); keys are equal for equal spans."""
    body = encode_traces(spans)
    decoded = decode_traces(body)
    assert decoded.faults == []
    assert len(decoded.spans) == len(spans)
    assert all(span in decoded.spans for span in spans)
    assert {span.key for span in encode_spans(decoded.spans)} == {span.key for span in encode_spans(spans)}
    # What the official classes read and write again means the same.
    official = ExportTraceServiceRequest.FromString(body)
    assert decode_traces(official.SerializeToString()).spans == decoded.spans


@pytest.mark.proof
@pytest.mark.long
@given(span=_SPANS)
def test_the_official_classes_agree_on_attributes(span: SpanRecord) -> None:
    """Each attribute decodes to the same value by the raw schema and by the official one."""
    request = ExportTraceServiceRequest.FromString(encode_traces([span]))
    found = request.resource_spans[0].scope_spans[0].spans[0]
    assert {pair.key: decode_value(pair.value) for pair in found.attributes} == span.attributes
    assert (found.name, found.trace_id.hex(), found.kind) == (span.name, span.trace_id, span.kind)


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*/*.traces.pb")), ids=lambda path: f"{path.parent.name}-{path.name[:3]}")
def test_recorded_requests_survive_the_wire(path: Path) -> None:
    """Real instrumentations' requests decode without a fault, and to the same after encoding."""
    decoded = decode_traces(path.read_bytes())
    assert decoded.faults == []
    assert decode_traces(encode_traces(decoded.spans)) == decoded


def test_numbers_keep_their_type() -> None:
    """1, 1.0 and True are three values; so are 0.0 and -0.0, and not-a-number survives."""
    values: dict[str, AttributeValue] = {"int": 1, "float": 1.0, "bool": True, "minus": -0.0, "nan": math.nan}
    span = SpanRecord(
        trace_id="1" * 32, span_id="1" * 16, name="n", start_time_unix_nano=1, end_time_unix_nano=2, attributes=values
    )
    found = decode_traces(encode_traces([span])).spans[0].attributes
    assert [type(value) for value in found.values()] == [int, float, bool, float, float]
    minus, nan = found["minus"], found["nan"]
    assert isinstance(minus, float)
    assert math.copysign(1, minus) == -1
    assert isinstance(nan, float)
    assert math.isnan(nan)


@pytest.mark.parametrize("value", ["lone \ud800 surrogate", 2**64])
def test_what_has_no_form_is_an_error(value: AttributeValue) -> None:
    """The error names the span and not the value."""
    span = SpanRecord(
        trace_id="1" * 32, span_id="1" * 16, name="n", start_time_unix_nano=1, end_time_unix_nano=2, attributes={"k": value}
    )
    with pytest.raises(WireError, match="span 1111111111111111: a value has no OTLP form"):
        encode_traces([span])


def test_nesting_beyond_the_parser_costs_the_span() -> None:
    """A value nested deeper than protobuf allows is a fault of its span, not a crash."""
    value = AnyValue(string_value="deep").SerializeToString()
    for _ in range(400):
        array = delimited(b"\x0a", value)
        value = delimited(b"\x2a", array)
    pair = delimited(b"\x0a\x01k\x12", value)
    good = SpanRecord(trace_id="1" * 32, span_id="1" * 16, name="n", start_time_unix_nano=1, end_time_unix_nano=2)
    [encoded] = encode_spans([good])
    bad = encoded.span + delimited(b"\x4a", pair)
    body = b"".join(request_parts([encoded.parts])) + b"\x0a" + _wrapped(bad)
    decoded = decode_traces(body)
    assert (len(decoded.spans), len(decoded.faults)) == (1, 1)


def _wrapped(span: bytes) -> bytes:
    scope_spans = delimited(b"\x12", span)
    resource_spans = delimited(b"\x12", scope_spans)
    return delimited(b"", resource_spans)


def test_a_parent_of_zeros_is_no_parent_in_either_form() -> None:
    span = SpanRecord(
        trace_id="1" * 32, span_id="1" * 16, name="n", start_time_unix_nano=1, end_time_unix_nano=2, parent_span_id="0" * 16
    )
    as_json = json.dumps(spans_to_otlp_json([span])).encode()
    for decoded in (decode_traces(encode_traces([span])), decode_json_traces(as_json, Limits())):
        assert [found.parent_span_id for found in decoded.spans] == [""]


def test_a_bad_byte_behind_a_backslash_is_refused_whatever_the_mark_is() -> None:
    """The replacement of the byte is random, and must not become part of an escape."""
    body = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"\\\xff"}]}]}]}'
    for _ in range(64):
        with pytest.raises(WireError, match="not valid JSON"):
            decode_json_traces(body, Limits())


_SEEDS = [path.read_bytes() for path in sorted(RECORDED.glob("*/*.pb"))]


@given(data=st.data())
def test_no_bytes_break_the_readers(data: st.DataObject) -> None:
    """Cut, spliced and flipped requests give spans, faults or a WireError, from every reader, and nothing else."""
    seed = bytearray(data.draw(st.sampled_from(_SEEDS)))
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.integers(0, len(seed) - 1))
        seed[at] ^= data.draw(st.integers(1, 255))
    body = bytes(seed[: data.draw(st.integers(0, len(seed)))]) + data.draw(st.binary(max_size=20))
    for read in (decode_traces, decode_json_traces, _decode_events, _decode_json_events):
        try:
            decoded = read(body, Limits())
        except WireError:
            continue
        encode_spans(decoded.spans)


def _decode_events(body: bytes, limits: Limits) -> Decoded:
    return decode_logs(body, limits).events


def _decode_json_events(body: bytes, limits: Limits) -> Decoded:
    return decode_json_logs(body, limits).events


@pytest.mark.parametrize("levels", [1, 40, 50, 60, 90])
@pytest.mark.parametrize("kind", ["array", "map"])
def test_a_value_that_nests_too_deeply_is_refused_for_its_depth(levels: int, kind: str) -> None:
    """The parser reads 100 messages inside one another; the answer names depth, not damage."""
    value = AnyValue(string_value="x").SerializeToString()
    for _ in range(levels):
        inner = _field(1, value) if kind == "array" else _field(1, _field(1, b"k") + _field(2, value))
        value = _field(5 if kind == "array" else 6, inner)
    span = _field(1, b"1" * 16) + _field(2, b"2" * 8) + _field(9, _field(1, b"k") + _field(2, value))
    decoded = decode_traces(_field(1, _field(2, _field(2, span))))
    if decoded.faults:
        assert levels > 30
        assert "nested too deeply" in decoded.faults[0].detail
    else:
        assert levels < 50
        assert decoded.spans[0].attributes


def _field(number: int, content: bytes) -> bytes:
    size, length = len(content), bytearray()
    while size >= 0x80:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([number << 3 | 2, *length, size]) + content
