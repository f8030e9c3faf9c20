"""Dialect: one vendor's attribute convention, as a test for it and a function to the GenAI conventions.

A dialect derives attributes; it removes and overwrites none. Both functions are pure and look at one span only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, cast

from freezeframe_schemas import genai
from freezeframe_schemas.span import Attributes, AttributeValue, SpanRecord
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.document import JsonObject, JsonValue, parse

_MAX_DEPTH: Final = 16
"""Levels of a dotted name that are read; senders use up to eight."""
_OPERATIONS: Final = {
    "llm": genai.OP_CHAT,
    "chat_model": genai.OP_CHAT,
    "generation": genai.OP_CHAT,
    "tool": genai.OP_EXECUTE_TOOL,
    "agent": genai.OP_INVOKE_AGENT,
    "workflow": genai.OP_INVOKE_WORKFLOW,
    "embedding": genai.OP_EMBEDDINGS,
    "retriever": genai.OP_RETRIEVAL,
}
"""Vendors' words for the kind of a span, in lower case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A vendor's convention."""

    name: str
    fits: Callable[[SpanRecord], bool]
    """Returns whether the span is this vendor's, by its scope and by evidence."""
    derive: Callable[[SpanRecord, AttributeWriter], None]


def operation_of(kind: str | None) -> str | None:
    """Return ``gen_ai.operation.name`` for a vendor's kind of span (``LLM``, ``tool``); None if it has none."""
    return _OPERATIONS.get((kind or "").lower())


def indexed(attributes: Attributes, prefix: str) -> list[JsonObject]:
    """Return the objects that an indexed run of attributes represents, in order of their index.

    **Shape**: ``{"p.0.role": "user", "p.0.parts.0.text": "hi"}`` with prefix ``p`` gives ``[{"role": "user", "parts":
    {"0": {"text": "hi"}}}]``; an inner run stays an object with indices as keys, for `in_order`.
    """
    root: JsonObject = {}
    start = f"{prefix}."
    for name, value in attributes.items():
        if name.startswith(start):
            _plant(root, name[len(start) :].split("."), plain(value))
    return in_order(root)


def in_order(branch: JsonValue) -> list[JsonObject]:
    """Return the objects under numeric keys, by number."""
    if not isinstance(branch, dict):
        return []
    numbered = ((int(key), item) for key, item in branch.items() if key.isdecimal() and isinstance(item, dict))
    # By the number alone: "0" and "00" are one number.
    return [cast("JsonObject", item) for _, item in sorted(numbered, key=itemgetter(0))]


def _plant(root: JsonObject, path: list[str], value: JsonValue) -> None:
    if len(path) > _MAX_DEPTH or any(step.isdecimal() and len(step) > 9 for step in path):
        return
    branch = root
    for step in path[:-1]:
        inner = branch.get(step)
        if not isinstance(inner, dict):
            inner = branch[step] = {}
        branch = inner
    branch.setdefault(path[-1], value)


def plain(value: AttributeValue) -> JsonValue:
    """Return an attribute's value as JSON; bytes as hex digits."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, str | bool | int | float) or value is None:
        return value
    return [plain(item) for item in value]


def json_of(span: SpanRecord, name: str) -> JsonValue:
    """Return the JSON that the attribute's text holds, its plain value if it is not text, or None."""
    value = span.attributes.get(name)
    return parse(value) if isinstance(value, str) else plain(value)


def text_or_json(value: JsonValue) -> JsonValue:
    """Return the JSON that a text holds if that is an object or an array, else the value unchanged."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        found = parse(value)
        return value if found is None else found
    return value
