"""RequestEdit: one thing changed in every model request that the program makes, before it is looked up or sent. Pure.

This is how another model, system prompt or parameter is tried without touching the agent's code. The edited request is not the
recorded one, so that offline it is the first divergence; with a live model it is what the model is asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from freezeframe_schemas.errors import ConfigError, ReplayError
from freezeframe_schemas.exchange import Request
from freezeframe_schemas.wire import find_dialect_of


class Part(StrEnum):
    """What of a model request is edited."""

    MODEL = "model"
    """The model's name."""
    SYSTEM = "system"
    """The whole system prompt."""
    TEXT = "text"
    """A passage, wherever it occurs in a text of the request."""
    PARAMETER = "parameter"
    """A top-level field of the body, such as ``temperature``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEdit:
    """One change. `name` is the field for `PARAMETER` and the passage to replace for `TEXT`."""

    part: Part
    value: Any
    name: str = ""

    def __str__(self) -> str:
        shown = json.dumps(self.value, ensure_ascii=False)
        match self.part:
            case Part.TEXT:
                return f"text {json.dumps(self.name, ensure_ascii=False)} > {shown}"
            case Part.PARAMETER:
                return f"{self.name} = {shown}"
            case _:
                return f"{self.part.value} = {shown}"


_SYSTEM_AMONG_MESSAGES: Final = frozenset({"openai.chat", "ollama.chat", "cohere.chat"})
"""Dialects in which the system prompt is the first message."""

_SYSTEM_FIELD: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "anthropic.messages": ("system", str),
    "openai.responses": ("instructions", str),
    "bedrock.converse": ("system", lambda text: [{"text": text}]),
    "gemini.generate_content": ("systemInstruction", lambda text: {"parts": [{"text": text}]}),
}
"""Dialect -> the field that is the system prompt, and its form."""


def edits_to_json(edits: Sequence[RequestEdit]) -> list[dict[str, Any]]:
    """Return the edits as JSON values."""
    return [{"part": edit.part.value, "value": edit.value, "name": edit.name} for edit in edits]


def edits_from_json(items: Sequence[dict[str, Any]]) -> tuple[RequestEdit, ...]:
    """Return the edits that `edits_to_json` wrote."""
    return tuple(RequestEdit(part=Part(item["part"]), value=item["value"], name=item["name"]) for item in items)


def edit_request(request: Request, edits: Sequence[RequestEdit]) -> bytes | None:
    """Return the body with the edits in it, or None if the request is not a model call or stays as it is.

    Raises:
        ReplayError: a model call in whose wire format the edited part stands elsewhere than in a JSON body.
    """
    match = find_dialect_of(request) if edits and request.method else None
    if match is None:
        return None
    try:
        body: Any = json.loads(request.body)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise ReplayError(f"{request.method} {request.url}: its body is not a JSON object, so nothing in it can be edited")
    changed = body
    for edit in edits:
        changed = _edited(changed, edit, match.dialect.name)
    return None if changed == body else json.dumps(changed, ensure_ascii=False, separators=(",", ":")).encode()


def _edited(body: dict[str, Any], edit: RequestEdit, dialect: str) -> dict[str, Any]:
    match edit.part:
        case Part.TEXT:
            return {key: _with_text(value, edit.name, str(edit.value)) for key, value in body.items()}
        case Part.PARAMETER:
            return {**body, edit.name: edit.value}
        case Part.MODEL if "model" in body:
            return {**body, "model": edit.value}
        case Part.SYSTEM if dialect in _SYSTEM_AMONG_MESSAGES and isinstance(body.get("messages"), list):
            return {**body, "messages": _with_system_message(body["messages"], edit.value)}
        case Part.SYSTEM if dialect in _SYSTEM_FIELD:
            name, make = _SYSTEM_FIELD[dialect]
            return {**body, name: make(edit.value)}
        case Part.SYSTEM if dialect == "bedrock.invoke" and "anthropic_version" in body:
            return {**body, "system": edit.value}
        case Part.SYSTEM if dialect.endswith(("embeddings", ".embed")):
            return body
        case _:
            raise ReplayError(
                f"the {edit.part.value} of a {dialect} request is not in a field of its body that is known here",
                do="change it in the agent's code",
            )


def _with_system_message(messages: list[Any], text: str) -> list[Any]:
    """Replace the first system message, or put one in front."""
    for index, message in enumerate(messages):
        if isinstance(message, dict) and message.get("role") in ("system", "developer"):
            return [*messages[:index], {**message, "content": text}, *messages[index + 1 :]]
    return [{"role": "system", "content": text}, *messages]


def _with_text(value: Any, old: str, new: str) -> Any:
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, list):
        return [_with_text(item, old, new) for item in value]
    if isinstance(value, dict):
        return {key: _with_text(item, old, new) for key, item in value.items()}
    return value


def parse_parameter(text: str) -> RequestEdit:
    """Read ``temperature=0``.

    Raises:
        ConfigError: no such form.
    """
    name, equals, value = text.partition("=")
    try:
        if equals and name:
            return RequestEdit(part=Part.PARAMETER, name=name, value=json.loads(value))
    except ValueError:
        pass
    raise ConfigError(f"--set: found {text!r}, expected NAME=JSON, for example temperature=0")
