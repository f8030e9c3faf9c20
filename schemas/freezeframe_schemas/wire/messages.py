"""Messages of the GenAI conventions as values, and as the JSON text that the attributes hold.

What no part has a field for (another key, another type) is kept: in `extra`, or as a `GenericPart`.

Source: semantic-conventions docs/gen-ai/gen-ai-{input-messages,output-messages,system-instructions}.json. One departure:
an output message without a finish reason (a stream that was cut) leaves the key out, although the schema requires some string,
because any string would be invented.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import ClassVar, Final, get_args

from freezeframe_schemas.wire.document import JsonObject, JsonValue, dump

Extra = Mapping[str, JsonValue]


def no_extra() -> Extra:
    """Return an empty mapping (the default of each field below)."""
    return _NO_EXTRA


_NO_EXTRA: Final[Extra] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Fields common to all parts. A part's own fields are written as JSON in the order in which its class lists them."""

    extra: Extra = field(default_factory=no_extra)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPart(_Part):
    type: ClassVar[str] = "text"
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningPart(_Part):
    """Thinking of the model."""

    type: ClassVar[str] = "reasoning"
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallPart(_Part):
    """A tool call that the model asks for; `arguments` as the model wrote them: text if it wrote text, else JSON."""

    type: ClassVar[str] = "tool_call"
    id: str | None = None
    name: str
    arguments: JsonValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallResponsePart(_Part):
    type: ClassVar[str] = "tool_call_response"
    id: str | None = None
    response: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerToolCallPart(_Part):
    """A tool call that the provider carries out itself; `server_tool_call` is ``{"type": ..., ...}``."""

    type: ClassVar[str] = "server_tool_call"
    id: str | None = None
    name: str
    server_tool_call: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerToolCallResponsePart(_Part):
    """Answer of the provider's own tool; `server_tool_call_response` is ``{"type": ..., ...}``."""

    type: ClassVar[str] = "server_tool_call_response"
    id: str | None = None
    server_tool_call_response: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobPart(_Part):
    """Inline bytes; `content` is base64."""

    type: ClassVar[str] = "blob"
    mime_type: str | None = None
    modality: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart(_Part):
    """A file that was uploaded to the provider before."""

    type: ClassVar[str] = "file"
    mime_type: str | None = None
    modality: str
    file_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UriPart(_Part):
    type: ClassVar[str] = "uri"
    mime_type: str | None = None
    modality: str
    uri: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GenericPart(_Part):
    """Any other part, verbatim; `type` is the provider's own."""

    type: str


Part = (
    TextPart
    | ReasoningPart
    | ToolCallPart
    | ToolCallResponsePart
    | ServerToolCallPart
    | ServerToolCallResponsePart
    | BlobPart
    | FilePart
    | UriPart
    | GenericPart
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message. `finish_reason` is for output messages: ``stop, length, content_filter, tool_call, error`` or other."""

    role: str
    parts: tuple[Part, ...] = ()
    name: str | None = None
    finish_reason: str | None = None
    extra: Extra = field(default_factory=no_extra)


def to_json(messages: Sequence[Message]) -> str:
    """Return the JSON text of input or output messages."""
    return dump([_message_value(message) for message in messages])


def parts_to_json(parts: Sequence[Part]) -> str:
    """Return the JSON text of system instructions (an array of parts)."""
    return dump([_part_value(part) for part in parts])


def texts(value: JsonValue) -> list[Part]:
    """Return a text as parts: one, or none if it is empty or no text."""
    return [TextPart(content=value)] if isinstance(value, str) and value else []


def answer_of(text: JsonValue, reason: str | None) -> Message:
    return Message(role="assistant", parts=tuple(texts(text)), finish_reason=finish_reason_of(reason))


def finish_reason_with(parts: Sequence[Part], reason: str | None) -> str | None:
    """Return the word for the finish reason of an API that has only one for the end of an answer and for a call of a tool."""
    word, calls = finish_reason_of(reason), any(isinstance(part, ToolCallPart) for part in parts)
    return "tool_call" if word == "stop" and calls else word


def finish_reason_of(reason: str | None) -> str | None:
    """Return the conventions' word for a provider's finish reason (``end_turn``, ``MAX_TOKENS``, ...); others stay unchanged.

    Only for messages: the attribute ``gen_ai.response.finish_reasons`` keeps the provider's own word.
    """
    return _FINISH_REASONS.get(reason.lower(), reason) if reason else None


def modality_of(mime_type: str | None) -> str:
    """Return the conventions' modality of a MIME type; anything but image, audio or video is a ``document``."""
    family = (mime_type or "").partition("/")[0]
    return family if family in ("image", "audio", "video") else "document"


def _message_value(message: Message) -> JsonObject:
    value: JsonObject = {"role": message.role, "parts": [_part_value(part) for part in message.parts]}
    if message.name is not None:
        value["name"] = message.name
    if message.finish_reason is not None:
        value["finish_reason"] = message.finish_reason
    for key, item in message.extra.items():
        value.setdefault(key, item)
    return value


# The providers' words do not collide, so one table serves them all.
_FINISH_REASONS: Final[Mapping[str, str]] = {
    word: conventional
    for conventional, words in {
        "stop": "stop end_turn stop_sequence stop_sequences complete completed finish finished eos endoftext done",
        "length": "length max_tokens max_output_tokens max_completion_tokens model_length model_context_window_exceeded",
        "tool_call": "tool_call tool_calls tool_use function_call",
        "content_filter": "content_filter content_filtered refusal safety recitation blocklist prohibited_content spii "
        "image_safety guardrail_intervened error_toxic",
        "error": "error failed error_limit malformed_function_call malformed_tool_use malformed_model_output",
    }.items()
    for word in words.split()
}

_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    part.type: tuple(own.name for own in fields(part) if own.name != "extra")
    for part in get_args(Part)
    if part is not GenericPart
}
_OPTIONAL: Final = frozenset({"id", "mime_type", "arguments"})
"""Left out if None."""


def _part_value(part: Part) -> JsonObject:
    if isinstance(part, TextPart) and not part.extra:  # nine parts of ten
        return {"type": "text", "content": part.content}
    value: JsonObject = {"type": part.type}
    if not isinstance(part, GenericPart):
        for name in _FIELDS[part.type]:
            item: JsonValue = getattr(part, name)
            if item is not None or name not in _OPTIONAL:
                value[name] = item
    for key, item in part.extra.items():
        value.setdefault(key, item)
    return value
