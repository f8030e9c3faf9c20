"""Haystack's messages, which OpenInference records whole only as Python's texts of them: ``ChatMessage(_role=..., ...)``. Pure.

Its attributes lack the result of a tool, the id of a call, and the reason why an answer ended; the texts have all three.

Source: https://github.com/deepset-ai/haystack, haystack/dataclasses/chat_message.py
"""

from __future__ import annotations

import ast
import re
from typing import Final

from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_list, as_object, as_objects, as_text, dump

_HEAD: Final = re.compile(r"ChatMessage\(_role=<ChatRole\.\w+: '(\w+)'>, ")
_MAX_CHARS: Final = 1_000_000


def read_texts(items: JsonValue) -> list[tuple[JsonObject, str | None]]:
    """Return the messages in a list of texts, in OpenAI's form, each with its finish reason; nothing if one cannot be read."""
    found = [_message_of(item) for item in as_list(items) if isinstance(item, str) and item.startswith("ChatMessage(_role=")]
    messages = [message for message in found if message is not None]
    return messages if len(messages) == len(as_list(items)) else []


def _message_of(text: str) -> tuple[JsonObject, str | None] | None:
    head = _HEAD.match(text)
    if head is None or len(text) > _MAX_CHARS:
        return None
    try:
        call = ast.parse(f"ChatMessage({text[head.end() :]}", mode="eval").body
        fields = as_object(_value_of(call))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    parts = as_objects(fields.get("_content"))
    texts = [part["text"] for part in parts if "text" in part]
    message: JsonObject = {
        "role": head[1],
        "content": "".join(text for text in texts if isinstance(text, str)) if texts else None,
    }
    for part in parts:
        if "result" in part:
            message |= {"content": part["result"], "tool_call_id": as_object(part.get("origin")).get("id")}
    calls: list[JsonValue] = [
        {
            "type": "function",
            "id": part.get("id"),
            "function": {"name": part["tool_name"], "arguments": dump(part.get("arguments"))},
        }
        for part in parts
        if "tool_name" in part
    ]
    if calls:
        message["tool_calls"] = calls
    return message, as_text(as_object(fields.get("_meta")).get("finish_reason"))


def _value_of(node: ast.expr) -> JsonValue:
    """Return a literal; of a call, the arguments by name.

    Raises:
        ValueError: it is anything else, such as an object with an address.
    """
    if isinstance(node, ast.Call):
        return {keyword.arg: _value_of(keyword.value) for keyword in node.keywords if keyword.arg}
    if isinstance(node, ast.List):
        return [_value_of(item) for item in node.elts]
    value: JsonValue = ast.literal_eval(node)
    return value
