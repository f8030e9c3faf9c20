"""A recorded exchange -> the attributes of its span: the exchange itself, and the GenAI attributes read from its bytes.

Runs where spans are exported, off the application's path. A body that no dialect can read only costs the GenAI attributes:
the exchange is exact in any case.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

from freezeframe._guard import guard
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Completion, Exchange, Headers, Kind, exchange_attributes
from freezeframe_schemas.span import Attributes, AttributeValue
from freezeframe_schemas.wire import decode_body, find_dialect_of
from freezeframe_schemas.wire.registry import region_of

_NS_PER_S: Final = 1_000_000_000
_FIRST_ERROR_STATUS: Final = 400
_NOT_MODIFIED: Final = 304


class Named:
    """Headers by name, read once: half a dozen of an exchange's are needed."""

    __slots__ = ("first", "headers")

    def __init__(self, headers: Headers) -> None:
        self.headers = headers
        self.first = {name.lower(): value for name, value in reversed(headers)}
        """Name in small letters -> the first value."""

    def unpacked(self, body: bytes) -> bytes:
        """Return the body as `decode_body` does."""
        return decode_body(body, self.headers) if "content-encoding" in self.first else body


def describe_exchange(own: Attributes, exchange: Exchange, provider: str | None) -> tuple[str, Attributes]:
    """Return a span's name and attributes: its `own` and those of the exchange."""
    attributes: dict[str, AttributeValue] = {}
    answered = Named(exchange.response.headers)
    with guard("enrich.genai"):
        attributes = genai_attributes(exchange, provider, answered)
    with guard("enrich.completion"):
        exchange = _settled(exchange, answered, streamed=attributes.get(genai.REQUEST_STREAM) is True)
    attributes = {**own, **attributes, **exchange_attributes(exchange)}
    return span_name(exchange, attributes), attributes


def _settled(exchange: Exchange, answered: Named, *, streamed: bool) -> Exchange:
    """Return the exchange with the completion that its protocols indicate, the model's before HTTP's.

    A seam knows only whether the HTTP body was read to its end. SDKs stop reading after the last event of a stream, and a body
    may end properly although the answer in it was cut.
    """
    response = exchange.response
    if response.omitted is not None or response.completion not in (Completion.COMPLETE, Completion.CLOSED_EARLY):
        return exchange
    whole = _is_whole_answer(exchange, answered, streamed=streamed)
    if whole is None:
        whole = _has_announced_length(exchange, answered)
    completion = response.completion
    if whole is True:
        completion = Completion.COMPLETE
    elif whole is False and completion is Completion.COMPLETE:
        completion = Completion.BROKEN
    return (
        exchange if completion is response.completion else replace(exchange, response=replace(response, completion=completion))
    )


def _is_whole_answer(exchange: Exchange, answered: Named, *, streamed: bool) -> bool | None:
    response = exchange.response
    if exchange.kind is not Kind.MODEL or response.status is None or response.status >= _FIRST_ERROR_STATUS:
        return None
    match = find_dialect_of(exchange.request)
    if match is None:
        return None
    content_type = answered.first.get("content-type", "")
    return match.dialect.is_whole(answered.unpacked(response.body), content_type=content_type, streamed=streamed)


def _has_announced_length(exchange: Exchange, answered: Named) -> bool | None:
    """Return whether the body has the length that its head announced, None if it announced none."""
    response = exchange.response
    announced = answered.first.get("content-length")
    if (
        announced is None
        or not announced.isdigit()
        or exchange.request.method.upper() == "HEAD"
        or response.status == _NOT_MODIFIED
    ):
        return None
    return sum(len(chunk.data) for chunk in response.chunks) == int(announced)


def genai_attributes(exchange: Exchange, provider: str | None, answered: Named | None = None) -> dict[str, AttributeValue]:
    """Return the GenAI attributes that the exchange's bytes provide; `answered` are the headers of its response."""
    answered = answered or Named(exchange.response.headers)
    match exchange.kind:
        case Kind.MODEL:
            return {**_server_attributes(exchange, answered), **_model_attributes(exchange, provider, answered)}
        case Kind.TOOL:
            return _tool_attributes(exchange)
        case Kind.RETRIEVAL:
            return _retrieval_attributes(exchange)
        case Kind.MCP:
            return _mcp_attributes(exchange)
        case Kind.DATABASE:
            return {genai.DB_SYSTEM_NAME: exchange.name.partition(" ")[0]}
        case _:
            return _server_attributes(exchange, answered)


def span_name(exchange: Exchange, attributes: dict[str, AttributeValue]) -> str:
    """Return the name that the conventions require, ``chat gpt-4o``, ``execute_tool get_order``, ``tools/call get_order``."""
    operation = attributes.get(genai.OPERATION_NAME)
    if exchange.kind is Kind.MCP:
        target = attributes.get(genai.TOOL_NAME)
        return f"{exchange.name} {target}" if target else exchange.name
    if exchange.kind is Kind.MODEL:
        model = attributes.get(genai.REQUEST_MODEL)
        return f"{operation} {model}" if operation and model else exchange.name
    return f"{operation} {exchange.name}" if operation else exchange.name


def _server_attributes(exchange: Exchange, answered: Named) -> dict[str, AttributeValue]:
    parts = urlsplit(exchange.request.url)
    attributes: dict[str, AttributeValue] = {}
    host = parts.hostname or ""
    if host:
        attributes[genai.SERVER_ADDRESS] = host
        attributes[genai.SERVER_PORT] = parts.port or (443 if parts.scheme == "https" else 80)
    if region := region_of(host, answered.first):
        attributes[genai.PROVIDER_REGION] = region
    attempts = next((value for name, value in exchange.request.headers if name.lower() == "x-stainless-retry-count"), "0")
    if attempts.isdigit() and attempts != "0":
        attributes[genai.HTTP_REQUEST_RESEND_COUNT] = int(attempts)
    return attributes


def _model_attributes(exchange: Exchange, provider: str | None, answered: Named) -> dict[str, AttributeValue]:
    match = find_dialect_of(exchange.request)
    if match is None:
        return {}
    response = exchange.response
    attributes: dict[str, AttributeValue] = {genai.PROVIDER_NAME: provider or match.provider}
    attributes |= match.dialect.request_attributes(decode_body(exchange.request.body, exchange.request.headers))
    if response.status is not None:
        attributes |= match.dialect.response_attributes(
            answered.unpacked(response.body),
            content_type=answered.first.get("content-type", ""),
            status=response.status,
            headers=response.headers,
        )
    if attributes.get(genai.REQUEST_STREAM) is True and response.chunks:
        attributes[genai.RESPONSE_TIME_TO_FIRST_CHUNK] = response.chunks[0].offset_ns / _NS_PER_S
    return attributes


def _tool_attributes(exchange: Exchange) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        genai.OPERATION_NAME: genai.OP_EXECUTE_TOOL,
        genai.TOOL_NAME: exchange.name,
        genai.TOOL_TYPE: "function",
        genai.TOOL_CALL_ARGUMENTS: _arguments_text(exchange.request.body),
    }
    if exchange.error is None and exchange.response.chunks:
        attributes[genai.TOOL_CALL_RESULT] = exchange.response.body.decode(errors="replace")
    return attributes


def _mcp_attributes(exchange: Exchange) -> dict[str, AttributeValue]:
    """Return the attributes of a tool call if the request is one."""
    if exchange.name != "tools/call":
        return {}
    params: Any = json.loads(exchange.request.body).get("kwargs", {})
    attributes: dict[str, AttributeValue] = {genai.OPERATION_NAME: genai.OP_EXECUTE_TOOL}
    if isinstance(params.get("name"), str):
        attributes[genai.TOOL_NAME] = params["name"]
    attributes[genai.TOOL_CALL_ARGUMENTS] = json.dumps(params.get("arguments") or {}, ensure_ascii=False)
    if exchange.error is None and exchange.response.chunks:
        attributes[genai.TOOL_CALL_RESULT] = exchange.response.body.decode(errors="replace")
        if b'"isError": true' in exchange.response.body and json.loads(exchange.response.body).get("isError") is True:
            attributes[genai.ERROR_TYPE] = genai.MCP_TOOL_ERROR
    return attributes


def _arguments_text(body: bytes) -> str:
    """Return the arguments as the conventions require: by name if all have one."""
    text = body.decode(errors="replace")
    call: Any = json.loads(text)
    if isinstance(call, dict) and set(call) - {"defaults", "settings"} == {"args", "kwargs"} and not call["args"]:
        return json.dumps(call["kwargs"], ensure_ascii=False)
    return text


def _retrieval_attributes(exchange: Exchange) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        genai.OPERATION_NAME: genai.OP_RETRIEVAL,
        genai.DATA_SOURCE_ID: exchange.name,
    }
    query = _query_of(json.loads(exchange.request.body or b"null"))
    if query is not None:
        attributes[genai.RETRIEVAL_QUERY] = query
    if exchange.response.chunks and exchange.error is None:
        documents = _documents_of(json.loads(exchange.response.body))
        if documents:
            attributes[genai.RETRIEVAL_DOCUMENTS] = json.dumps(documents, ensure_ascii=False)
    return attributes


def _query_of(call: Any) -> str | None:
    """Return the query's text: the argument named so, else the first that is text."""
    if isinstance(call, str):
        return call
    if not isinstance(call, dict):
        return None
    named: dict[str, Any] = call.get("kwargs") or {}
    for name in ("query", "input", "question", "text", "q", "str_or_query_bundle"):
        if isinstance(named.get(name), str):
            return named[name]
    texts = [item for item in [*(call.get("args") or []), *named.values()] if isinstance(item, str)]
    return texts[0] if texts else None


def _documents_of(result: Any) -> list[dict[str, Any]]:
    """Return ``[{"id", "score", "content"}]`` for a recorded result in which documents can be recognised."""
    result = _untag(result)
    if isinstance(result, dict):
        result = next((item for item in result.values() if isinstance(item, list)), [])
    found = (_document_of(item) for item in result) if isinstance(result, list) else ()
    return [document for document in found if document]


def _document_of(item: Any) -> dict[str, Any] | None:
    score: Any = None
    if isinstance(item, list) and len(item) == 2 and isinstance(item[1], int | float):  # (document, score)
        item, score = item
    if isinstance(item, str):
        return {"content": item} if score is None else {"content": item, "score": score}
    if not isinstance(item, dict):
        return None
    if isinstance(item.get("node"), dict):  # LlamaIndex: NodeWithScore
        item = {**item["node"], "score": item.get("score")}
    metadata: dict[str, Any] = item["metadata"] if isinstance(item.get("metadata"), dict) else {}
    document = {
        "id": _first(item, "id", "id_", "chunk_id", "doc_id", "document_id") or _first(metadata, "id", "chunk_id", "source"),
        "score": score if score is not None else _first(item, "score", "relevance_score", "similarity", "distance"),
        "content": _first(item, "content", "page_content", "text", "chunk", "body"),
    }
    kept = {name: value for name, value in document.items() if value is not None}
    return kept if "content" in kept or "id" in kept else None


def _first(item: dict[str, Any], *names: str) -> Any:
    return next((item[name] for name in names if item.get(name) is not None), None)


def _untag(value: Any) -> Any:
    """Return tagged JSON without its tags: models and dataclasses as objects, tuples as lists."""
    if isinstance(value, list):
        return [_untag(item) for item in value]
    if isinstance(value, dict):
        if "$type" in value:
            return _untag(value.get("value"))
        return {key: _untag(item) for key, item in value.items()}
    return value
