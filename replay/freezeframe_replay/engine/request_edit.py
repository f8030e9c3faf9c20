"""RequestEdit: one thing changed in every model request that the program makes, before it is looked up or sent. Pure.

It lets you try another model, system prompt or parameter without touching the agent's code. The edited request is not the
recorded one, so it is the first divergence offline; with a live model, it is the request that is sent.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from freezeframe_schemas.errors import ConfigError, ReplayError
from freezeframe_schemas.exchange import Request
from freezeframe_schemas.wire import find_dialect_of
from freezeframe_schemas.wire.dialect import WireDialect


class Part(StrEnum):
    """The part of a model request that is edited."""

    MODEL = "model"
    """The model's name."""
    SYSTEM = "system"
    """The whole system prompt."""
    TEXT = "text"
    """A passage, wherever it occurs in a text of the request."""
    PARAMETER = "parameter"
    """A parameter by the provider's name for it, such as ``temperature``, wherever it is in the body."""


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


def edit_request(request: Request, edits: Sequence[RequestEdit]) -> bytes | None:
    """Return the body with the edits in it, or None if the request is not a model call or stays unchanged.

    Raises:
        ReplayError: a model call whose wire format does not have the edited part in a JSON body.
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
        changed = _edited(changed, edit, match.dialect)
    return None if changed == body else json.dumps(changed, ensure_ascii=False, separators=(",", ":")).encode()


def _edited(body: dict[str, Any], edit: RequestEdit, dialect: WireDialect) -> dict[str, Any]:
    changed: dict[str, Any] | None = None
    match edit.part:
        case Part.TEXT:
            changed = {key: _with_text(value, edit.name, str(edit.value)) for key, value in body.items()}
        case Part.PARAMETER:
            changed = dialect.set_parameter(body, edit.name, edit.value)
        case Part.SYSTEM:
            changed = dialect.set_system(body, edit.value)
        case Part.MODEL if "model" in body:
            changed = {**body, "model": edit.value}
        case Part.MODEL:
            pass
    if changed is None:
        raise ReplayError(
            f"the {edit.part.value} of a {dialect.name} request is not in a field of its body that is known here",
            do="change it in the agent's code",
        )
    return changed


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
        ConfigError: the text does not have this form.
    """
    name, equals, value = text.partition("=")
    try:
        if equals and name:
            return RequestEdit(part=Part.PARAMETER, name=name, value=json.loads(value))
    except ValueError:
        pass
    raise ConfigError(f"--set: found {text!r}, expected NAME=JSON, for example temperature=0")
