"""OpenInference's attributes in addition to the conventions' ones, for Phoenix, LangSmith and Langfuse. Pure.

The reader is `freezeframe_schemas.vendors.openinference`; it restores values written here unchanged.

Source: https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from freezeframe_replay.sources.exports.chat import answered, input_messages, tools_offered
from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue, SpanRecord
from freezeframe_schemas.wire.document import JsonObject, as_object, as_objects, as_text, dump, parse

_KIND: Final = "openinference.span.kind"
_TOKENS: Final = "llm.token_count."
_KINDS: Final = {
    genai.OP_CHAT: "LLM",
    genai.OP_TEXT_COMPLETION: "LLM",
    genai.OP_GENERATE_CONTENT: "LLM",
    genai.OP_EXECUTE_TOOL: "TOOL",
    genai.OP_INVOKE_AGENT: "AGENT",
    genai.OP_RETRIEVAL: "RETRIEVER",
    genai.OP_EMBEDDINGS: "EMBEDDING",
}
_RENAMED: Final = {
    genai.PROVIDER_NAME: "llm.provider",
    genai.USAGE_INPUT_TOKENS: "llm.token_count.prompt",
    genai.USAGE_OUTPUT_TOKENS: "llm.token_count.completion",
    genai.CONVERSATION_ID: "session.id",
    genai.AGENT_NAME: "agent.name",
}
_PARAMETERS: Final = {
    "model": genai.REQUEST_MODEL,
    "temperature": genai.REQUEST_TEMPERATURE,
    "top_p": genai.REQUEST_TOP_P,
    "max_tokens": genai.REQUEST_MAX_TOKENS,
    "seed": genai.REQUEST_SEED,
}


def reported_again(spans: Iterable[SpanRecord]) -> frozenset[str]:
    """Return the spans in which instrumentors report model calls whose tokens we counted.

    Our span of the call is below theirs, or a sibling within its time.
    """
    spans = list(spans)
    counted: dict[str, list[SpanRecord]] = defaultdict(list)
    for span in spans:
        if genai.EXCHANGE_KIND in span.attributes and genai.USAGE_INPUT_TOKENS in span.attributes:
            counted[span.parent_span_id].append(span)
    return frozenset(
        span.span_id
        for span in spans
        if span.attributes.get(_KIND) == "LLM"
        and any(
            span.start_time_unix_nano <= call.start_time_unix_nano <= span.end_time_unix_nano
            for call in (*counted[span.span_id], *counted[span.parent_span_id])
        )
    )


def in_openinference(span: SpanRecord, again: Container[str] = ()) -> SpanRecord:
    """Return the span with OpenInference's attributes added; one that has them unchanged, or without tokens if in `again`."""
    if _KIND in span.attributes:
        if span.span_id not in again:
            return span
        kept = {name: value for name, value in span.attributes.items() if not name.startswith(_TOKENS)}
        return replace(span, attributes=kept)
    kind = _KINDS.get(span.text(genai.OPERATION_NAME) or "", "CHAIN")
    found = {_KIND: kind, **dict(_plain(span, kind)), **dict(_of_kind(span, kind))}
    return span.with_attributes({name: value for name, value in found.items() if value is not None})


def _plain(span: SpanRecord, kind: str) -> Iterator[tuple[str, AttributeValue]]:
    for name, names in _RENAMED.items():
        yield names, span.attributes.get(name)
    for name, names, body in (
        ("input.value", (genai.ENTRY_INPUT, genai.TOOL_CALL_ARGUMENTS, genai.RETRIEVAL_QUERY), genai.REQUEST_BODY),
        ("output.value", (genai.ENTRY_OUTPUT, genai.TOOL_CALL_RESULT), genai.RESPONSE_BODY),
    ):
        value = next((text for attribute in names if (text := span.text(attribute)) is not None), None)
        if value is None and kind != "LLM" and genai.RESPONSE_BODY_ENCODING not in span.attributes:
            value = span.text(body)
        yield name, value


def _of_kind(span: SpanRecord, kind: str) -> Iterator[tuple[str, AttributeValue]]:
    match kind:
        case "LLM":
            yield from _model_call(span.attributes)
        case "TOOL":
            yield "tool.name", span.attributes.get(genai.TOOL_NAME)
            yield "tool.id", span.attributes.get(genai.TOOL_CALL_ID)
            yield "tool.description", span.attributes.get(genai.TOOL_DESCRIPTION)
        case "EMBEDDING":
            yield "embedding.model_name", span.attributes.get(genai.REQUEST_MODEL)
        case "RETRIEVER":
            documents = as_objects(parse(span.text(genai.RETRIEVAL_DOCUMENTS) or ""))
            for number, document in enumerate(documents):
                for name in ("id", "content", "score"):
                    held = document.get(name)
                    text = held if isinstance(held, str | int | float) else None if held is None else dump(held)
                    yield f"retrieval.documents.{number}.document.{name}", text
        case _:
            return


def _model_call(attributes: Mapping[str, AttributeValue]) -> Iterator[tuple[str, AttributeValue]]:
    yield "llm.model_name", attributes.get(genai.RESPONSE_MODEL) or attributes.get(genai.REQUEST_MODEL)
    parameters: JsonObject = {}
    for name, attribute in _PARAMETERS.items():
        value = attributes.get(attribute)
        if isinstance(value, str | int | float):
            parameters[name] = value
    yield "llm.invocation_parameters", dump(parameters)
    reasons = attributes.get(genai.RESPONSE_FINISH_REASONS)
    yield "llm.finish_reason", reasons[0] if isinstance(reasons, tuple) and reasons else None
    messages, answer = input_messages(attributes), answered(attributes)
    for number, message in enumerate(messages):
        yield from _message(f"llm.input_messages.{number}.message", message)
    if answer is not None:
        yield from _message("llm.output_messages.0.message", answer)
    for number, tool in enumerate(tools_offered(attributes)):
        yield f"llm.tools.{number}.tool.json_schema", dump(tool)
    if messages:
        yield "input.value", dump({"messages": [*messages]})
        yield "input.mime_type", "application/json"
    if answer is not None:
        content = answer.get("content")
        yield "output.value", content if isinstance(content, str) else dump(answer)
        yield "output.mime_type", "text/plain" if isinstance(content, str) else "application/json"


def _message(prefix: str, message: JsonObject) -> Iterator[tuple[str, AttributeValue]]:
    for name in ("role", "name", "tool_call_id"):
        yield f"{prefix}.{name}", as_text(message.get(name))
    content = message.get("content")
    if isinstance(content, str):
        yield f"{prefix}.content", content
    for number, block in enumerate(as_objects(content)):
        place = f"{prefix}.contents.{number}.message_content"
        yield f"{place}.type", "image" if block.get("type") == "image_url" else as_text(block.get("type"))
        yield f"{place}.text", as_text(block.get("text"))
        yield f"{place}.image.image.url", as_text(as_object(block.get("image_url")).get("url"))
    for number, call in enumerate(as_objects(message.get("tool_calls"))):
        place = f"{prefix}.tool_calls.{number}.tool_call"
        function = as_object(call.get("function"))
        yield f"{place}.id", as_text(call.get("id"))
        yield f"{place}.function.name", as_text(function.get("name"))
        yield f"{place}.function.arguments", as_text(function.get("arguments"))
