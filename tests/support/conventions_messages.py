"""Messages of the GenAI conventions, read back from the JSON text of an attribute: the reverse of `wire.messages.to_json`."""

from __future__ import annotations

from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_text, parse
from freezeframe_schemas.wire.messages import (
    BlobPart,
    Extra,
    FilePart,
    GenericPart,
    Message,
    Part,
    ReasoningPart,
    ServerToolCallPart,
    ServerToolCallResponsePart,
    TextPart,
    ToolCallPart,
    ToolCallResponsePart,
    UriPart,
)


def from_json(text: str | bytes) -> tuple[Message, ...]:
    """Read input or output messages.

    Raises:
        ValueError: `text` is not JSON array of message objects with a role and parts.
    """
    return tuple(_read_message(item) for item in _objects(text, "messages"))


def parts_from_json(text: str | bytes) -> tuple[Part, ...]:
    """Read system instructions.

    Raises:
        ValueError: `text` is not JSON array of objects with a type.
    """
    return tuple(_read_part(item) for item in _objects(text, "parts"))


def _objects(text: str | bytes, what: str) -> list[JsonObject]:
    value = parse(text)
    if not isinstance(value, list):
        raise ValueError(f"{what}: expected a JSON array, found {type(value).__name__}")
    objects = [item for item in value if isinstance(item, dict)]
    if len(objects) != len(value):
        raise ValueError(f"{what}: expected an array of JSON objects, found other values among them")
    return objects


def _read_message(value: JsonObject) -> Message:
    role, parts = value.get("role"), value.get("parts")
    if not isinstance(role, str) or not isinstance(parts, list):
        raise ValueError(f"messages: a message needs a text `role` and an array `parts`, found keys {sorted(value)}")
    name, finish_reason = value.get("name"), value.get("finish_reason")
    known_keys = {"role", "parts"} | {key for key in ("name", "finish_reason") if isinstance(value.get(key, ""), str)}
    return Message(
        role=role,
        parts=tuple(_read_part(part) for part in parts),
        name=as_text(name),
        finish_reason=as_text(finish_reason),
        extra={key: item for key, item in value.items() if key not in known_keys},
    )


def _read_part(value: JsonValue) -> Part:
    if not isinstance(value, dict) or not isinstance(kind := value.get("type"), str):
        raise ValueError("messages: a part needs a text `type`")

    def extra(*fields: str) -> Extra:
        return {key: item for key, item in value.items() if key != "type" and key not in fields}

    # A part of a known type whose fields have other types than the schema's is kept verbatim, as a generic one.
    match value:
        case {"type": "text", "content": str(content)}:
            return TextPart(content=content, extra=extra("content"))
        case {"type": "reasoning", "content": str(content)}:
            return ReasoningPart(content=content, extra=extra("content"))
        case {"type": "tool_call", "name": str(name)} if _text_or_absent(value, "id"):
            return ToolCallPart(
                id=as_text(value.get("id")),
                name=name,
                arguments=value.get("arguments"),
                extra=extra("id", "name", "arguments"),
            )
        case {"type": "tool_call_response", "response": response} if _text_or_absent(value, "id"):
            return ToolCallResponsePart(id=as_text(value.get("id")), response=response, extra=extra("id", "response"))
        case {"type": "server_tool_call", "name": str(name), "server_tool_call": call} if _text_or_absent(value, "id"):
            return ServerToolCallPart(
                id=as_text(value.get("id")),
                name=name,
                server_tool_call=call,
                extra=extra("id", "name", "server_tool_call"),
            )
        case {
            "type": "server_tool_call_response",
            "server_tool_call_response": response,
        } if _text_or_absent(value, "id"):
            return ServerToolCallResponsePart(
                id=as_text(value.get("id")),
                server_tool_call_response=response,
                extra=extra("id", "server_tool_call_response"),
            )
        case {"type": "blob", "modality": str(modality), "content": str(content)} if _text_or_absent(value, "mime_type"):
            return BlobPart(
                mime_type=as_text(value.get("mime_type")),
                modality=modality,
                content=content,
                extra=extra("mime_type", "modality", "content"),
            )
        case {"type": "file", "modality": str(modality), "file_id": str(file_id)} if _text_or_absent(value, "mime_type"):
            return FilePart(
                mime_type=as_text(value.get("mime_type")),
                modality=modality,
                file_id=file_id,
                extra=extra("mime_type", "modality", "file_id"),
            )
        case {"type": "uri", "modality": str(modality), "uri": str(uri)} if _text_or_absent(value, "mime_type"):
            return UriPart(
                mime_type=as_text(value.get("mime_type")),
                modality=modality,
                uri=uri,
                extra=extra("mime_type", "modality", "uri"),
            )
        case _:
            return GenericPart(type=kind, extra=extra())


def _text_or_absent(value: JsonObject, key: str) -> bool:
    return value.get(key) is None or isinstance(value[key], str)
