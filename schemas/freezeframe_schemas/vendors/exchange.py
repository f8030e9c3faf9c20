"""Our own exchange spans: GenAI attributes from the recorded bytes, if the sender did not put them there.

The instrumentation writes them itself, unless that is switched off or it does not know the provider's format.
"""

from __future__ import annotations

from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.exchange import Exchange, Kind, exchange_from_span
from freezeframe_schemas.span import AttributeValue, SpanRecord
from freezeframe_schemas.vendors.dialect import Dialect
from freezeframe_schemas.wire import decode_body, find_dialect_of
from freezeframe_schemas.wire.attributes import AttributeWriter

_CONTENT: Final = frozenset({genai.INPUT_MESSAGES, genai.OUTPUT_MESSAGES})


def _fits(span: SpanRecord) -> bool:
    if span.text(genai.EXCHANGE_KIND) != Kind.MODEL.value:
        return False
    return not span.attributes.keys() >= _CONTENT


def _derive(span: SpanRecord, out: AttributeWriter) -> None:
    try:
        exchange = exchange_from_span(span)
    except WireError:
        # The replay reports contradictory exchange attributes; the span is kept as it came.
        return
    if exchange is not None:
        out.attributes.update(attributes_of(exchange))


def attributes_of(exchange: Exchange) -> dict[str, AttributeValue]:
    """Return the attributes in the bytes of an exchange; none if no wire dialect can read them."""
    request, response = exchange.request, exchange.response
    match = find_dialect_of(request)
    if match is None:
        return {}
    out = AttributeWriter()
    out.text(genai.PROVIDER_NAME, match.provider)
    out.attributes.update(match.dialect.request_attributes(_decoded(request.body, request.headers)))
    if response.status is not None:
        answer = match.dialect.response_attributes(
            _decoded(response.body, response.headers),
            content_type=_content_type(exchange),
            status=response.status,
            headers=response.headers,
        )
        out.attributes.update(answer)
    return out.attributes


def _decoded(body: bytes, headers: tuple[tuple[str, str], ...]) -> bytes:
    try:
        return decode_body(body, headers)
    except WireError:
        return b""


def _content_type(exchange: Exchange) -> str:
    return next((value for name, value in exchange.response.headers if name.lower() == "content-type"), "")


DIALECT: Final = Dialect(name="exchange", fits=_fits, derive=_derive)
