"""Meaning: the content of a model call, whatever recorded it, so that a recorded call and a live one can be compared. Pure.

Both sides come here as GenAI attributes: the recorded one from another instrumentation's span, the live one from its wire
dialect. A request's meaning is its system text and its messages in order, with roles; parsed arguments and
results count, ids do not. Model, sampling and offered tools are reported, not compared.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue
from freezeframe_schemas.wire.document import (
    JsonObject,
    JsonValue,
    as_list,
    as_object,
    as_objects,
    as_text,
    dump_canonical,
    parse,
)

REPORTED: Final = ("model", "sampling", "parameters", "tools")
"""Fields of a request's meaning that do not decide which answer belongs to it."""

_SAMPLING: Final = {
    "temperature": genai.REQUEST_TEMPERATURE,
    "top_p": genai.REQUEST_TOP_P,
    "top_k": genai.REQUEST_TOP_K,
    "max_tokens": genai.REQUEST_MAX_TOKENS,
    "seed": genai.REQUEST_SEED,
    "stop_sequences": genai.REQUEST_STOP_SEQUENCES,
    "frequency_penalty": genai.REQUEST_FREQUENCY_PENALTY,
    "presence_penalty": genai.REQUEST_PRESENCE_PENALTY,
}
_OF_THE_STREAM: Final = frozenset({"stream", "stream_options"})
_ROLES: Final = {
    "developer": "system",
    "model": "assistant",
    "ai": "assistant",
    "tool-call": "assistant",
    "human": "user",
    "tool-response": "user",  # of smolagents, which sends it as that
}
"""Words of frameworks -> the conventions' word."""
_COPIES: Final = frozenset({"tool_use", "function_call"})
"""A provider's own item, which some writers keep next to the `tool_call` part that they made of it."""


def request_meaning(attributes: Mapping[str, AttributeValue]) -> JsonObject:
    """Return a request's meaning.

    **Shape**: ``{"system": "...", "messages": [{"role": "user", "text": "..."}, {"call": "add", "arguments": {"a": 2}},
    {"result": "5"}], "model": "gpt-4o", "sampling": {...}, "tools": ["add"]}``
    """
    instructions: list[JsonValue] = [
        part if isinstance(part, dict) else {"type": "text", "content": part} for part in _system_parts(attributes)
    ]
    messages = list(_contents_of([{"role": "system", "parts": instructions}, *messages_of(attributes, genai.INPUT_MESSAGES)]))
    sampling: JsonObject = {}
    for name, attribute in _SAMPLING.items():
        value = attributes.get(attribute)
        if isinstance(value, str | int | float):
            sampling[name] = _number(value)
        elif isinstance(value, tuple):
            sampling[name] = [str(item) for item in value]
    model = attributes.get(genai.REQUEST_MODEL)
    return {
        "system": "\n".join(str(item["text"]) for item in messages if item.get("role") == "system" and "text" in item),
        "messages": [item for item in messages if item.get("role") != "system"],
        "model": model if isinstance(model, str) else "",
        "sampling": sampling,
        "parameters": _parameters(attributes),
        "tools": [*sorted(_tool_names(attributes))],
    }


def answer_parts(attributes: Mapping[str, AttributeValue]) -> list[JsonObject]:
    """Return the parts of an answer, in order.

    Several messages are items of one answer, unless the request asked for several answers.
    """
    messages = messages_of(attributes, genai.OUTPUT_MESSAGES)
    choices = attributes.get(genai.REQUEST_CHOICE_COUNT)
    several = isinstance(choices, int) and choices > 1
    parts = [part for message in messages[: 1 if several else None] for part in as_objects(message.get("parts"))]
    return parts or list(_calls_beside(attributes))


def _calls_beside(attributes: Mapping[str, AttributeValue]) -> Iterator[JsonObject]:
    """Yield the calls that LiteLLM reports next to an answer without parts, by number."""
    for number in itertools.count():
        place = f"{genai.PAST_COMPLETION}.{number}.function_call"
        name, arguments = (attributes.get(f"{place}.{field}") for field in ("name", "arguments"))
        if not isinstance(name, str):
            return
        yield {"type": "tool_call", "name": name, "arguments": arguments if isinstance(arguments, str) else None}


def contents_of(parts: Iterable[JsonObject]) -> list[JsonObject]:
    """Return an answer as it appears in the next request's messages."""
    return list(_contents_of([{"role": "assistant", "parts": list(parts)}]))


def messages_of(attributes: Mapping[str, AttributeValue], name: str) -> list[JsonObject]:
    """Return the messages that an attribute holds, with one form of each part."""
    text = attributes.get(name)
    found = parse(text) if isinstance(text, str) else None
    return [{**message, "parts": list(_sound_parts(message))} for message in as_objects(found)]


def same(value: JsonValue) -> str:
    """Return the text that is equal for values that mean the same."""
    return dump_canonical(value)


def has_result(part: JsonObject) -> bool:
    """Return whether a tool's response holds a result, if only null: some senders lose it."""
    return not part.keys().isdisjoint({"response", "result"})


def result_value(value: JsonValue) -> JsonValue:
    """Return what a tool's result holds: JSON out of its text, a text out of its wrappers; a bare value as its text."""
    if isinstance(value, str):
        text = value.strip()
        found = parse(text) if text[:1] in ("{", "[", '"') else None
        return text if found is None else result_value(found)
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value).lower()
    if isinstance(value, int | float):
        return str(_number(value))
    if isinstance(value, list):
        items = [_inner(item) for item in value]
        is_text = len(items) == 1 and isinstance(value[0], dict) and isinstance(items[0], str)
        return result_value(items[0]) if is_text else items
    unwrapped = _inner(value)
    return unwrapped if isinstance(unwrapped, dict) else result_value(unwrapped)


def arguments_of(value: JsonValue) -> JsonValue:
    """Return a call's arguments as JSON, from the text that the model wrote or from its value."""
    found = parse(value) if isinstance(value, str) else value
    if found is None:
        return {} if value in (None, "") else value
    return _exact(found)


def _inner(value: JsonValue) -> JsonValue:
    """Return the value in the wrappers of SDKs (``{"type": "text", "text": ...}``, ``{"result": ...}``, ...)."""
    if not isinstance(value, dict):
        return _exact(value)
    if value.get("type") == "text":
        text = value.get("text", value.get("content"))
        if isinstance(text, str):
            return text
    for names in ({"type", "value"}, {"result"}, {"text"}):
        if value.keys() == names:
            return _inner(next(item for key, item in value.items() if key != "type"))
    return _exact(value)


def _exact(value: JsonValue) -> JsonValue:
    """Return the value with 2.0 as 2, which JSON does not distinguish."""
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_exact(item) for item in value]
    return _number(value)


def _number(value: JsonValue) -> JsonValue:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _parameters(attributes: Mapping[str, AttributeValue]) -> JsonObject:
    """Return the other parameters of the request (a format, a choice of tools), without those of transport."""
    text = attributes.get(genai.REQUEST_PARAMETERS)
    found = as_object(parse(text) if isinstance(text, str) else None)
    return {name: item for name, item in found.items() if name not in _OF_THE_STREAM}


def _system_parts(attributes: Mapping[str, AttributeValue]) -> list[JsonValue]:
    text = attributes.get(genai.SYSTEM_INSTRUCTIONS)
    if not isinstance(text, str):
        return []
    found = parse(text)
    return found if isinstance(found, list) else [text if found is None else found]


def _tool_names(attributes: Mapping[str, AttributeValue]) -> set[str]:
    text = attributes.get(genai.TOOL_DEFINITIONS)
    found = parse(text) if isinstance(text, str) else None
    names: set[str] = set()
    for item in as_list(found):
        tool = as_object(parse(item) if isinstance(item, str) else item)
        name = as_object(tool.get("function")).get("name") or tool.get("name")
        names |= {name} if isinstance(name, str) else set()
    return names


def _sound_parts(message: JsonObject) -> Iterator[JsonObject]:
    """Yield the parts of a message, without copies of calls; Google's untyped ones get their type.

    LiteLLM writes OpenAI's calls and results around the parts.
    """
    parts = [_typed(part) for part in as_list(message.get("parts"))]
    if "tool_call_id" in message:
        texts = [str(part.get("content")) for part in parts if part.get("type") == "text"]
        parts = [{"type": "tool_call_response", "id": message["tool_call_id"], "response": "".join(texts)}]
    for call in as_objects(message.get("tool_calls")):
        parts.append({"type": "tool_call", "id": call.get("id"), **as_object(call.get("function"))})
    calls = {str(part.get("id")) for part in parts if part.get("type") == "tool_call"}
    for part in parts:
        is_copy = part.get("type") in _COPIES and (bool(calls) or part.keys() == {"type"})
        if not is_copy and not _is_copied_text(part, calls):
            yield part


def _typed(part: JsonValue) -> JsonObject:
    if not isinstance(part, dict):
        return {"type": "text", "content": part if isinstance(part, str) else json.dumps(part)}
    if "type" in part:
        return part
    if part.get("thought"):
        return {"type": "reasoning", "content": part.get("text")}
    call = as_object(part.get("functionCall") or part.get("function_call"))
    answer = as_object(part.get("functionResponse") or part.get("function_response"))
    if call:
        return {"type": "tool_call", "id": call.get("id"), "name": call.get("name"), "arguments": call.get("args")}
    if answer:
        return {"type": "tool_call_response", "id": answer.get("id"), "response": answer.get("response")}
    return {"type": "text", "content": part["text"]} if isinstance(part.get("text"), str) else {**part, "type": "unknown"}


def _is_copied_text(part: JsonObject, calls: set[str]) -> bool:
    """Return whether a text is the JSON of one of the calls: OpenLLMetry on LangChain writes Anthropic's calls that way."""
    text = part.get("content")
    if part.get("type") != "text" or not isinstance(text, str) or not text.startswith("{"):
        return False
    found = as_object(parse(text)).get("id")
    return isinstance(found, str) and found in calls


def _contents_of(messages: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Yield the messages by role: adjacent texts of one role joined, no ids, no empty texts, no reasoning.

    Results of parallel calls come in any order: they are put in the order of their calls, if their ids show it.
    """
    calls: dict[str, int] = {}
    results: list[tuple[JsonValue, JsonObject]] = []
    text: JsonObject = {}
    for role, part in _spoken(messages):
        item = _item(role, part)
        if text and item.get("role") == text["role"] and "text" in item:
            text["text"] = f"{text['text']}\n{item['text']}"
            continue
        if text:
            yield text
            text = {}
        if "result" in item:
            results.append((part.get("id"), item))
            continue
        yield from _in_order(results, calls)
        results = []
        if "text" in item:
            text = item
            continue
        if "call" in item and isinstance(call_id := part.get("id"), str):
            calls[call_id] = len(calls)
        yield item
    if text:
        yield text
    yield from _in_order(results, calls)


def _spoken(messages: Iterable[JsonObject]) -> Iterator[tuple[str, JsonObject]]:
    """Yield the spoken parts with their role."""
    for message in messages:
        role = as_text(message.get("role")) or "user"
        for part in as_objects(message.get("parts")):
            is_empty = part.get("type") == "text" and isinstance(part.get("content"), str) and not str(part["content"]).strip()
            if part.get("type") not in ("reasoning", "thinking") and not is_empty:
                yield _ROLES.get(role, role), part


def _item(role: str, part: JsonObject) -> JsonObject:
    match part.get("type"):
        case "text":
            content = part.get("content")
            return {"role": role, "text": content.strip() if isinstance(content, str) else dump_canonical(content)}
        case "tool_call":
            return {"call": part.get("name"), "arguments": arguments_of(part.get("arguments"))}
        case "tool_call_response":
            return {"result": result_value(part.get("response", part.get("result"))) if has_result(part) else None}
        case kind:
            rest: JsonObject = {key: value for key, value in part.items() if key not in ("type", "id")}
            return {"role": role, "kind": kind, "content": rest}


def _in_order(results: list[tuple[JsonValue, JsonObject]], asked: Mapping[str, int]) -> Iterator[JsonObject]:
    """Yield results in the order of their calls; in their own order if an id names no call, or several name one."""
    ids = [call_id for call_id, _ in results]
    places = [asked[call_id] for call_id in ids if isinstance(call_id, str) and call_id in asked]
    if len(set(places)) == len(results):
        results = [pair for _, pair in sorted(zip(places, results, strict=True), key=lambda found: found[0])]
    yield from (item for _, item in results)
