"""What a call reports of itself: a model call in the words of the GenAI conventions, any other as texts. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from freezeframe_replay.report.tagged import error_text
from freezeframe_schemas import genai
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.exchange import Exchange
from freezeframe_schemas.span import AttributeValue, SpanRecord, StatusCode
from freezeframe_schemas.wire import decode_body, find_dialect_of


def reported(span: SpanRecord, exchange: Exchange | None) -> Mapping[str, AttributeValue]:
    """Return a model call in the words of the GenAI conventions; read from its bytes if its span has none of them."""
    if exchange is None or genai.INPUT_MESSAGES in span.attributes:
        return span.attributes
    match = find_dialect_of(exchange.request)
    if match is None:
        return span.attributes
    try:
        request = decode_body(exchange.request.body, exchange.request.headers)
        body = decode_body(exchange.response.body, exchange.response.headers)
    except WireError:
        return span.attributes
    headers = {name.lower(): value for name, value in exchange.response.headers}
    answer = match.dialect.response_attributes(
        body,
        content_type=headers.get("content-type", ""),
        status=exchange.response.status or 0,
        headers=exchange.response.headers,
    )
    return {**match.dialect.request_attributes(request), **(answer if body else {}), **span.attributes}


def call_texts(span: SpanRecord, exchange: Exchange | None) -> tuple[str, str, str]:
    """Return what was asked, what was answered, and the error."""
    if exchange is None:
        attribute_names = (genai.TOOL_CALL_ARGUMENTS, genai.RETRIEVAL_QUERY)
        answered = (genai.TOOL_CALL_RESULT, genai.RETRIEVAL_DOCUMENTS)
        request, answer = (
            next((text for name in names if (text := span.text(name))), "") for names in (attribute_names, answered)
        )
        return request, answer, error_of(span, None, span.attributes)
    request = exchange.request.body.decode(errors="replace")
    answer = f"<not kept: {exchange.response.omitted}>" if exchange.response.omitted else readable_body(exchange)
    return request, answer, error_of(span, exchange, span.attributes)


def readable_body(exchange: Exchange) -> str:
    """Return a response's body as text, as much of it as came."""
    try:
        return decode_body(exchange.response.body, exchange.response.headers).decode(errors="replace")
    except WireError:
        return f"<{len(exchange.response.body)} bytes that cannot be decoded>"


def error_of(span: SpanRecord, exchange: Exchange | None, said: Mapping[str, AttributeValue]) -> str:
    """Return what the client raised and what the provider reported, a line each."""
    raised = error_text(exchange.error) if exchange is not None and exchange.error else ""
    reported = text_of(said, genai.RESPONSE_ERROR)
    failed = span.status_code is StatusCode.ERROR
    kept = [raised, reported, (span.status_message or text_of(said, genai.ERROR_TYPE)) if failed and not raised else ""]
    return "\n".join(dict.fromkeys(text for text in kept if text))


def first_chunk_ms(exchange: Exchange | None) -> float | None:
    """Return when the first chunk of a stream came, after the start of the call; None if there is no stream."""
    if exchange is None or len(exchange.response.chunks) < 2:
        return None
    return exchange.response.chunks[0].offset_ns / 1e6


def text_of(said: Mapping[str, AttributeValue], name: str) -> str:
    """Return an attribute if it is text, else an empty text."""
    value = said.get(name)
    return value if isinstance(value, str) else ""
