"""The law of OTLP/JSON: spans written and read back are the same spans; what is not OTLP is refused by name."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from arbitrary import spans
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_schemas.errors import WireError
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json, spans_to_otlp_json
from freezeframe_schemas.span import SpanRecord


@pytest.mark.proof
@pytest.mark.long
@given(batch=st.lists(spans, max_size=2))
def test_spans_survive_the_wire(batch: list[SpanRecord]) -> None:
    """Through JSON text and back, whatever resources and scopes they come from; types included (`1` is not `True`)."""
    wire = json.loads(json.dumps(spans_to_otlp_json(batch)))
    back = spans_from_otlp_json(wire)
    assert sorted(map(repr, back)) == sorted(map(repr, batch))


def test_an_attribute_in_a_resource_keeps_its_type() -> None:
    """Equal to Python, different to OTLP: two resources that differ by `1` and `True` are two resources."""
    from dataclasses import replace

    from freezeframe_schemas.span import Resource

    span = SpanRecord(trace_id="ab" * 16, span_id="1" * 16, name="", start_time_unix_nano=0, end_time_unix_nano=0)
    batch = [replace(span, resource=Resource(attributes={"n": value})) for value in (1, True, 1.0)]
    back = spans_from_otlp_json(spans_to_otlp_json(batch))
    assert [repr(item.resource.attributes["n"]) for item in back] == ["1", "True", "1.0"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_float_that_json_has_no_number_for_is_written_as_its_name(value: float) -> None:
    span = SpanRecord(trace_id="ab" * 16, span_id="1" * 16, name="", start_time_unix_nano=0, end_time_unix_nano=0)
    wire = json.dumps(spans_to_otlp_json([span.with_attributes({"n": value})]), allow_nan=False)
    (back,) = spans_from_otlp_json(json.loads(wire))
    assert repr(back.attributes["n"]) == repr(value)


@pytest.mark.parametrize(
    "request_value",
    [
        [],
        {"resourceSpans": {}},
        {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "zz", "spanId": "1" * 16}]}]}]},
        {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "a" * 32, "spanId": "1" * 16, "startTimeUnixNano": "x"}]}]}]},
        {"resourceSpans": [{"scopeSpans": [{"spans": ["span"]}]}]},
    ],
    ids=["array", "object for array", "trace id", "time", "span"],
)
def test_what_is_not_otlp_is_refused(request_value: Any) -> None:
    """Never an internal Python error, and never an invented span."""
    with pytest.raises(WireError):
        spans_from_otlp_json(request_value)
