"""Find the system prompt of a request: the `set_system` functions of dialects. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_list

SetSystem: TypeAlias = "Callable[[JsonObject, str], JsonObject | None]"
"""Returns the request with another system prompt, None if the format has no known place for one."""


def _itself(text: str) -> JsonValue:
    return text


def field(name: str, form: Callable[[str], JsonValue] = _itself) -> SetSystem:
    """Return the setter for a system prompt that is a top-level field."""
    return lambda request, text: {**request, name: form(text)}


def message(request: JsonObject, text: str) -> JsonObject | None:
    """Replace the first system message, or put one in front."""
    if not isinstance(request.get("messages"), list):
        return None
    messages = as_list(request["messages"])
    for index, item in enumerate(messages):
        if isinstance(item, dict) and item.get("role") in ("system", "developer"):
            return {**request, "messages": [*messages[:index], {**item, "content": text}, *messages[index + 1 :]]}
    return {**request, "messages": [{"role": "system", "content": text}, *messages]}


def without(request: JsonObject, text: str) -> JsonObject:
    """Leave the request unchanged: an embedding has no system prompt."""
    del text
    return request


def unknown(request: JsonObject, text: str) -> None:
    """Refuse: the format has no system prompt, or we do not know where it is."""
    del request, text
