"""The law of exchange spans: an exchange written to attributes and read back is the same exchange."""

from __future__ import annotations

import pytest
from arbitrary import exchanges, text
from bare_spans import span_of
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_schemas import genai
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.exchange import (
    BASE64,
    Exchange,
    exchange_attributes,
    exchange_from_span,
    format_lane,
    parse_lane,
    with_plain_bodies,
)
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json, spans_to_otlp_json
from freezeframe_schemas.span import SpanRecord


@given(exchange=exchanges())
def test_an_exchange_survives_its_span(exchange: Exchange) -> None:
    """Every byte of every body, every chunk border, header, id and time."""
    assert exchange_from_span(span_of(exchange)) == exchange


@given(exchange=exchanges())
def test_an_exchange_survives_the_wire(exchange: Exchange) -> None:
    """The same over OTLP/JSON, where integers become text and bytes base64."""
    (span,) = spans_from_otlp_json(spans_to_otlp_json([span_of(exchange)]))
    assert exchange_from_span(span) == exchange


@given(exchange=exchanges())
def test_the_body_is_text_where_it_can_be_and_no_attribute_is_bytes(exchange: Exchange) -> None:
    """SQL and people read text; Phoenix drops a span with an attribute of bytes, MLflow keeps its Python repr."""
    attributes = exchange_attributes(exchange)
    assert not any(isinstance(value, bytes) for value in attributes.values())
    for name, body in ((genai.REQUEST_BODY, exchange.request.body), (genai.RESPONSE_BODY, exchange.response.body)):
        if f"{name}.encoding" not in attributes:
            assert str(attributes[name]).encode() == body


@given(exchange=exchanges())
def test_a_body_in_base64_becomes_its_bytes(exchange: Exchange) -> None:
    """What the collector stores: the same exchange, the body as it was, and no mention of an encoding."""
    plain = with_plain_bodies(span_of(exchange))
    assert exchange_from_span(plain) == exchange
    assert not any(name.endswith(".encoding") for name in plain.attributes)
    assert with_plain_bodies(plain) is plain


def test_base64_that_is_none_is_named(answered: Exchange) -> None:
    broken = span_of(answered, **{genai.RESPONSE_BODY: "a", genai.RESPONSE_BODY_ENCODING: BASE64})
    with pytest.raises(WireError, match=genai.RESPONSE_BODY_ENCODING):
        with_plain_bodies(broken)


@given(lane=st.lists(st.integers(0, 10**6), max_size=5).map(tuple))
def test_a_lane_survives_its_text(lane: tuple[int, ...]) -> None:
    assert parse_lane(format_lane(lane)) == lane


@given(name=text)
def test_any_other_span_is_no_exchange(name: str) -> None:
    span = SpanRecord(trace_id="ab" * 16, span_id="1" * 16, name=name, start_time_unix_nano=0, end_time_unix_nano=0)
    assert exchange_from_span(span) is None


BROKEN = {
    genai.EXCHANGE_KIND: "telepathy",
    genai.EXCHANGE_LANE: "0.x",
    genai.RESPONSE_COMPLETION: "perhaps",
    genai.RESPONSE_CHUNK_SIZES: (1, 1),
    genai.REQUEST_HEADERS: "[1]",
    genai.RESPONSE_HEADERS: "{",
}


@pytest.mark.parametrize("attribute", BROKEN)
def test_a_contradiction_is_named(attribute: str, answered: Exchange) -> None:
    """One attribute broken by hand: the error says which span and which attribute."""
    with pytest.raises(WireError) as caught:
        exchange_from_span(span_of(answered, **{attribute: BROKEN[attribute]}))
    assert attribute in str(caught.value)


@pytest.fixture
def answered() -> Exchange:
    """Return an exchange over HTTP with an answer of five bytes."""
    from handmade_runs import model_call

    return model_call("hello", "there")
