"""Cohere chat (v2) and embed.

Source: https://docs.cohere.com/reference/chat, /embed, and /docs/streaming
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.wire import prompts
from freezeframe_schemas.wire.answer import Answer, Split, pieces_of, without_keys
from freezeframe_schemas.wire.attributes import AttributeWriter, Fields, UsageCounts
from freezeframe_schemas.wire.dialect import Documents, Streams, WireDialect, ended_by_event
from freezeframe_schemas.wire.document import (
    JsonObject,
    JsonValue,
    as_integer,
    as_list,
    as_object,
    as_objects,
    as_text,
)
from freezeframe_schemas.wire.frames import DecodedBody, Frame
from freezeframe_schemas.wire.openai_content import read_message, read_tool, write_call

SAMPLED: Final[Fields] = {
    "model": (AttributeWriter.text, genai.REQUEST_MODEL),
    "stream": (AttributeWriter.flag, genai.REQUEST_STREAM),
    "seed": (AttributeWriter.integer, genai.REQUEST_SEED),
    "temperature": (AttributeWriter.double, genai.REQUEST_TEMPERATURE),
    "p": (AttributeWriter.double, genai.REQUEST_TOP_P),
    "k": (AttributeWriter.double, genai.REQUEST_TOP_K),
    "max_tokens": (AttributeWriter.integer, genai.REQUEST_MAX_TOKENS),
    "stop_sequences": (AttributeWriter.texts, genai.REQUEST_STOP_SEQUENCES),
    "frequency_penalty": (AttributeWriter.double, genai.REQUEST_FREQUENCY_PENALTY),
    "presence_penalty": (AttributeWriter.double, genai.REQUEST_PRESENCE_PENALTY),
    "num_generations": (AttributeWriter.integer, genai.REQUEST_CHOICE_COUNT),
}
SAMPLING_FIELDS: Final = frozenset({*SAMPLED, "tools"})
_V2_FIELDS: Final = SAMPLING_FIELDS | {"messages"}


def read_sampling(document: JsonObject, out: AttributeWriter) -> None:
    """Write the parameters that both versions of chat share."""
    out.fields(document, SAMPLED)
    form = as_text(as_object(document.get("response_format")).get("type"))
    if form is not None:
        out.text(genai.OUTPUT_TYPE, {"json_object": "json"}.get(form, form))


COUNTS: Final = UsageCounts(
    input=("tokens.input_tokens", "billed_units.input_tokens"),
    output=("tokens.output_tokens", "billed_units.output_tokens"),
    cache_read=("cached_tokens",),
)
"""Tokens that the model saw (``tokens``) if given, else those billed."""


# -- chat v2 ------------------------------------------------------------------------------------------------------------
def read_request(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a v2 chat request; its messages are OpenAI's."""
    read_sampling(document, out)
    out.messages(genai.INPUT_MESSAGES, [read_message(m) for m in as_objects(document.get("messages"))])
    out.tools(document.get("tools"), [read_tool(tool) for tool in as_objects(document.get("tools"))])
    out.rest(document, _V2_FIELDS)


def read_response(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a v2 chat answer."""
    out.text(genai.RESPONSE_ID, document.get("id"))
    reason = as_text(document.get("finish_reason"))
    out.texts(genai.RESPONSE_FINISH_REASONS, reason)
    out.usage(as_object(document.get("usage")), COUNTS)
    message = document.get("message")
    if isinstance(message, dict):
        out.messages(genai.OUTPUT_MESSAGES, [read_message(message, reason)])


def assemble(frames: Sequence[Frame]) -> JsonObject:
    """Return the v2 answer that the events add up to."""
    document: JsonObject = {}
    message: JsonObject = {}
    blocks: dict[int, JsonObject] = {}
    calls: dict[int, JsonObject] = {}
    citations: list[JsonValue] = []
    for frame in frames:
        event = as_object(frame.value)
        delta = as_object(event.get("delta"))
        piece = as_object(delta.get("message"))
        index = as_integer(event.get("index")) or 0
        match event.get("type"):
            case "message-start":
                document["id"] = event.get("id")
                message["role"] = piece.get("role")
            case "content-start":
                blocks[index] = dict(as_object(piece.get("content")))
            case "content-delta":
                _extend(blocks.setdefault(index, {"type": "text"}), as_object(piece.get("content")))
            case "tool-plan-delta":
                _extend(message, piece)
            case "tool-call-start":
                calls[index] = dict(as_object(piece.get("tool_calls")))
            case "tool-call-delta":
                call = calls.setdefault(index, {"type": "function"})
                function = dict(as_object(call.get("function")))
                _extend(function, as_object(as_object(piece.get("tool_calls")).get("function")))
                call["function"] = function
            case "citation-start":
                citations.append(piece.get("citations"))
            case "message-end":
                document.update(delta)
            case _:
                pass
    if blocks:
        message["content"] = [blocks[index] for index in sorted(blocks)]
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    if citations:
        message["citations"] = citations
    if message:
        document["message"] = message
    return document


def _extend(target: JsonObject, delta: JsonObject) -> None:
    for key, value in delta.items():
        before = target.get(key)
        target[key] = before + value if isinstance(before, str) and isinstance(value, str) else value


def compose(answer: Answer, request: JsonObject) -> JsonObject:
    del request
    message: JsonObject = {"role": "assistant"}
    if answer.pieces:
        message["content"] = [{"type": "text", "text": answer.text}]
    if answer.tool_calls:
        message["tool_calls"] = [write_call(call) for call in answer.tool_calls]
    reason = answer.finish({"stop": "COMPLETE", "tool_call": "TOOL_CALL", "length": "MAX_TOKENS"})
    return {"id": answer.id, "finish_reason": reason, "message": message, "usage": write_usage(answer)}


def write_usage(answer: Answer) -> JsonObject:
    counts: JsonObject = {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens}
    return {"billed_units": dict(counts), "tokens": counts}


def disassemble(document: JsonObject, split: Split) -> Iterator[Frame]:
    """Yield the events of a v2 answer."""
    message = document.get("message")
    events: list[JsonObject] = []
    if isinstance(message, dict):
        events = [{"type": "message-start", "id": document.get("id"), **_about(role=message.get("role"))}]
        events += _text_events("tool-plan-delta", message.get("tool_plan"), split, lambda piece: _about(tool_plan=piece))
        for index, block in enumerate(as_objects(message.get("content"))):
            key = as_text(block.get("type")) or "text"
            events.append({"type": "content-start", "index": index, **_about(content={**block, key: ""})})
            events += [{**event, "index": index} for event in _content(block, key, split)]
            events.append({"type": "content-end", "index": index})
        for index, call in enumerate(as_objects(message.get("tool_calls"))):
            function = as_object(call.get("function"))
            hollow: JsonObject = {**call, "function": {**function, "arguments": ""}}
            events.append({"type": "tool-call-start", "index": index, **_about(tool_calls=hollow)})
            events += [{**event, "index": index} for event in _arguments(function, split)]
            events.append({"type": "tool-call-end", "index": index})
        for citation in as_list(message.get("citations")):
            events.append({"type": "citation-start", **_about(citations=citation)})
    end = without_keys(document, "id", "message", "error")
    if end:
        events.append({"type": "message-end", "delta": end})
    yield from (Frame(event=as_text(event["type"]), value=event) for event in events)


def _about(**content: JsonValue) -> JsonObject:
    return {"delta": {"message": content}}


def _content(block: JsonObject, key: str, split: Split) -> list[JsonObject]:
    return _text_events("content-delta", block.get(key), split, lambda piece: _about(content={key: piece}))


def _arguments(function: JsonObject, split: Split) -> list[JsonObject]:
    text = function.get("arguments")
    return _text_events("tool-call-delta", text, split, lambda piece: _about(tool_calls={"function": {"arguments": piece}}))


def _text_events(kind: str, text: JsonValue, split: Split, about: Callable[[str], JsonObject]) -> list[JsonObject]:
    return [{"type": kind, **about(piece)} for piece in pieces_of(text, split)] if isinstance(text, str) and text else []


def error_body(status: int, message: str) -> JsonObject:
    """Return Cohere's form of an error."""
    del status
    return {"message": message}


# -- embed --------------------------------------------------------------------------------------------------------------
def read_embed_request(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of an embed request."""
    out.text(genai.REQUEST_MODEL, document.get("model"))
    out.texts(genai.REQUEST_ENCODING_FORMATS, document.get("embedding_types"))
    out.integer(genai.EMBEDDINGS_DIMENSION_COUNT, document.get("output_dimension"))
    out.rest(document, {"model", "texts", "images", "inputs", "embedding_types", "output_dimension"})


def read_embed_response(document: JsonObject, out: AttributeWriter) -> None:
    """Write the length of the first vector of a whole-number or float type, and the tokens billed."""
    out.text(genai.RESPONSE_ID, document.get("id"))
    embeddings = document.get("embeddings")
    by_type = embeddings if isinstance(embeddings, dict) else {"float": embeddings}
    for kind, vectors in by_type.items():
        first = next(iter(as_list(vectors)), None)
        if isinstance(first, list) and kind in ("float", "int8", "uint8"):  # the binary types pack eight to a byte
            out.integer(genai.EMBEDDINGS_DIMENSION_COUNT, len(first))
    out.usage(as_object(document.get("meta")), COUNTS)


def compose_embed(answer: Answer, request: JsonObject) -> JsonObject:
    """Return the vectors, by type if the request names types."""
    document: JsonObject = {"id": answer.id, "meta": {"billed_units": {"input_tokens": 0}}}
    if "embedding_types" in request:
        return {**document, "response_type": "embeddings_by_type", "embeddings": {"float": answer.embeddings()}}
    return {**document, "response_type": "embeddings_floats", "embeddings": answer.embeddings()}


def has_ended(body: DecodedBody) -> bool | None:
    """Return whether ``message-end`` came."""
    return body.done or ended_by_event("type", "message-end")(body)


DIALECT: Final = WireDialect(
    name="cohere.chat",
    operation=genai.OP_CHAT,
    provider="cohere",
    documents=Documents(read_request, read_response, compose),
    streams=Streams(assemble, has_ended, disassemble),
    error_body=error_body,
    set_system=prompts.message,
)

EMBED: Final = WireDialect(
    name="cohere.embed",
    operation=genai.OP_EMBEDDINGS,
    provider="cohere",
    documents=Documents(read_embed_request, read_embed_response, compose_embed),
    error_body=error_body,
    set_system=prompts.without,
)
