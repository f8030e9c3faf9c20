"""Answer: a model's answer before it is written in a provider's format. Forks and stubs write one. Pure.

A dialect writes it in two steps: `compose` gives the synchronous answer, `disassemble` the frames of the equivalent
stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from freezeframe_schemas.errors import WireError
from freezeframe_schemas.wire.document import JsonObject, JsonValue, dump
from freezeframe_schemas.wire.frames import Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that the model asks for."""

    id: str
    name: str
    arguments: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    extra: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Fields that its provider wants back (Gemini's ``thoughtSignature``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought:
    """A piece of the model's thinking, with the fields that its provider wants back (a signature, an encrypted form)."""

    text: str
    extra: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])

    def only(self, *names: str) -> JsonObject:
        """Return the extra fields that a provider knows, without those of other providers."""
        return {name: self.extra[name] for name in names if name in self.extra}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer of a model. `pieces` joined are the text; a stream sends one per chunk."""

    pieces: Sequence[str] = ()
    tool_calls: Sequence[ToolCall] = ()
    vectors: Sequence[Sequence[float]] = ()
    """Embeddings, for a model that returns nothing else."""
    id: str = "answer"
    model: str = "stub"
    finish_reason: str | None = None
    """The conventions' word: ``stop``, ``length``, ``content_filter``, ``tool_call``. None: as the rest implies."""
    thoughts: Sequence[Thought] = ()
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def split(self, text: str) -> Sequence[str]:
        """Return the pieces that a text of the answer is streamed in."""
        return self.pieces if text == self.text else (text,)

    @property
    def thinking(self) -> str:
        """Return the thoughts as one text."""
        return "".join(thought.text for thought in self.thoughts)

    def finish(self, words: Mapping[str, str]) -> str:
        """Return a provider's word for the end of the answer, out of its `words` for the conventions' ones.

        An answer that calls tools always ends with that reason: some APIs have one word for both.
        """
        reason = self.finish_reason or "stop"
        return words.get("tool_call" if self.tool_calls and reason == "stop" else reason) or words["stop"]

    def embeddings(self) -> list[JsonValue]:
        return [list(vector) for vector in self.vectors]


Split = Callable[[str], Sequence[str]]
"""Cuts a text into the pieces that are sent one by one."""
Compose: TypeAlias = "Callable[[Answer, JsonObject], JsonObject]"
"""Answer and request -> the synchronous answer. The request has the model of the URL in it."""
Disassemble: TypeAlias = "Callable[[JsonObject, Split], Iterable[Frame]]"
"""The reverse of `assemble`: synchronous answer -> frames."""
ErrorBody: TypeAlias = "Callable[[int, str], JsonObject]"
"""Status and message -> the body of the provider's error."""


def whole(text: str) -> Sequence[str]:
    return (text,)


def in_one_piece(document: JsonObject, split: Split) -> Iterable[Frame]:
    """Return the answer as the only frame: the `disassemble` of an API that does not stream, or that we cannot read."""
    del split
    return (Frame(value=document),)


def pieces_of(text: JsonValue, split: Split) -> Sequence[str]:
    """Return the pieces of a text or, of another value, of its JSON; an empty text is one empty piece."""
    return split(text if isinstance(text, str) else dump(text)) or ("",)


def without_keys(document: JsonObject, *taken: str) -> JsonObject:
    """Return the object without some of its fields."""
    return {key: value for key, value in document.items() if key not in taken}


def not_written(answer: Answer, request: JsonObject) -> JsonObject:
    """Raise: the `compose` of a format that has no place for a text."""
    del answer, request
    raise WireError("has no known place for a text")


def error_kind(status: int) -> str:
    """Return OpenAI's and Anthropic's word for a refusal."""
    return "rate_limit_error" if status == 429 else "api_error" if status >= 500 else "invalid_request_error"


def error_object(status: int, message: str) -> JsonObject:
    """Return OpenAI's form of an error, which most others have adopted."""
    return {"error": {"type": error_kind(status), "message": message}}
