"""The messages of a model call in the form of OpenAI's chat messages, which most other tools read. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from freezeframe_schemas import genai
from freezeframe_schemas.meaning import answer_parts, messages_of
from freezeframe_schemas.span import AttributeValue
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_list, as_object, as_objects, as_text, dump, parse


def input_messages(attributes: Mapping[str, AttributeValue]) -> list[JsonObject]:
    """Return the messages of the request, the system prompt first."""
    text = attributes.get(genai.SYSTEM_INSTRUCTIONS)
    instructions = as_list(parse(text) if isinstance(text, str) else None)
    messages: list[JsonObject] = [{"role": "system", "parts": instructions}] if instructions else []
    return [said for message in [*messages, *messages_of(attributes, genai.INPUT_MESSAGES)] for said in _chat(message)]


def answered(attributes: Mapping[str, AttributeValue]) -> JsonObject | None:
    """Return the answer as a message; None if it was not recorded."""
    parts = answer_parts(attributes)
    return next(_chat({"role": "assistant", "parts": [*parts]}), None) if parts else None


def tools_offered(attributes: Mapping[str, AttributeValue]) -> list[JsonValue]:
    """Return the definitions of functions that the request offers, as OpenAI's chat API takes them."""
    text = attributes.get(genai.TOOL_DEFINITIONS)
    found = as_objects(parse(text) if isinstance(text, str) else None)
    fields = ("name", "description", "parameters", "strict")
    return [
        {"type": "function", "function": {name: tool[name] for name in fields if name in tool}}
        for tool in found
        if tool.get("type", "function") == "function"
    ]


def _chat(message: JsonObject) -> Iterator[JsonObject]:
    """Yield a message of the conventions; each result of a tool is a separate one."""
    role = as_text(message.get("role")) or "user"
    parts = as_objects(message.get("parts"))
    results = [part for part in parts if part.get("type") == "tool_call_response"]
    for part in results:
        response = part.get("response", part.get("result"))
        yield {
            "role": "tool",
            "tool_call_id": part.get("id"),
            "content": response if isinstance(response, str) else dump(response),
        }
    others = [part for part in parts if part not in results]
    if not others and results:
        return
    calls: list[JsonValue] = [_call(part) for part in others if part.get("type") == "tool_call"]
    kept: JsonObject = {"role": role, "content": _content([part for part in others if part.get("type") != "tool_call"])}
    if name := message.get("name"):
        kept["name"] = name
    if calls:
        kept["tool_calls"] = calls
    yield kept


def _content(parts: Sequence[JsonObject]) -> JsonValue:
    """Return the content: one text if all is text. Thinking is not part of a message that is sent."""
    blocks = [_block(part) for part in parts if part.get("type") != "reasoning"]
    texts = [block.get("text") for block in blocks if block.get("type") == "text"]
    if len(texts) < len(blocks):
        return [*blocks]
    return "".join(str(text) for text in texts) if texts else None


def _block(part: JsonObject) -> JsonObject:
    content = part.get("content")
    match part.get("type"):
        case "text":
            return {"type": "text", "text": content if isinstance(content, str) else dump(content)}
        case "uri" if part.get("modality") == "image":
            return {"type": "image_url", "image_url": {"url": part.get("uri")}}
        case "blob" if part.get("modality") == "image":
            return {"type": "image_url", "image_url": {"url": f"data:{part.get('mime_type')};base64,{content}"}}
        case _:
            return part


def _call(part: JsonObject) -> JsonObject:
    arguments = part.get("arguments")
    written = arguments if isinstance(arguments, str) else dump({} if arguments is None else as_object(arguments) or arguments)
    return {"id": part.get("id"), "type": "function", "function": {"name": part.get("name"), "arguments": written}}
