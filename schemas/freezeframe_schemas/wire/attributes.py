"""AttributeWriter: stores values read from a body under attribute names, and passes only what OTLP can carry.

A value of the wrong type is left out, never converted: the exact bytes are on the exchange span, these are for searching.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue, digits_of, sound_text
from freezeframe_schemas.wire import messages
from freezeframe_schemas.wire.document import (
    JsonObject,
    JsonValue,
    as_integer,
    as_list,
    dump,
    dump_canonical,
)
from freezeframe_schemas.wire.messages import Message, Part

_INT64: Final = range(-(2**63), 2**63)
_HASH_DIGITS: Final = 16


class AttributeWriter:
    """Collects attributes. Every method skips None, so that readers need no ``if``."""

    __slots__ = ("attributes",)

    def __init__(self, operation: str | None = None) -> None:
        self.attributes: dict[str, AttributeValue] = {}
        self.text(genai.OPERATION_NAME, operation)

    def text(self, name: str, value: JsonValue) -> None:
        """Put a text; an empty one says nothing and is left out."""
        if isinstance(value, str) and value:
            self.attributes[name] = sound_text(value)

    def texts(self, name: str, value: JsonValue) -> None:
        """Put one text or an array of them as an array."""
        items = [value] if isinstance(value, str) else as_list(value)
        texts = tuple(sound_text(item) for item in items if isinstance(item, str))
        if texts:
            self.attributes[name] = texts

    def flag(self, name: str, value: JsonValue) -> None:
        """Put a boolean."""
        if isinstance(value, bool):
            self.attributes[name] = value

    def integer(self, name: str, value: JsonValue) -> None:
        """Put a whole number; one beyond int64 as its digits."""
        number = as_integer(value)
        if number is not None:
            self.attributes[name] = number if number in _INT64 else digits_of(number)

    def double(self, name: str, value: JsonValue) -> None:
        """Put a number as a double, so that a column has one type whether the caller wrote 1 or 1.0."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        try:
            self.attributes[name] = float(value)
        except OverflowError:
            self.attributes[name] = digits_of(int(value))

    def fields(self, document: JsonObject, fields: Fields) -> None:
        """Put the fields of a document that are attributes unchanged."""
        for field, (put, name) in fields.items():
            put(self, name, document.get(field))

    def json(self, name: str, value: JsonValue) -> None:
        """Put any value but null as JSON text."""
        if value is not None:
            self.attributes[name] = dump(value)

    def rest(self, document: JsonObject, known: Collection[str], name: str = genai.REQUEST_PARAMETERS) -> None:
        """Put the fields that no other attribute holds."""
        rest: JsonObject = {key: value for key, value in document.items() if key not in known and value is not None}
        if rest:
            self.attributes[name] = dump(rest)

    def messages(self, name: str, value: Sequence[Message]) -> None:
        """Put messages of the conventions as JSON text."""
        if value:
            self.attributes[name] = messages.to_json(value)

    def parts(self, name: str, value: Sequence[Part]) -> None:
        """Put message parts (system instructions) as JSON text."""
        if value:
            self.attributes[name] = messages.parts_to_json(value)

    def tools(self, sent: JsonValue, definitions: list[JsonValue]) -> None:
        """Put tool definitions in the conventions' form, and the hash of what was `sent`."""
        if sent:
            self.attributes[genai.TOOL_DEFINITIONS] = dump(definitions)
            digest = hashlib.sha256(dump_canonical(sent).encode()).hexdigest()
            self.attributes[genai.TOOL_DEFINITIONS_HASH] = digest[:_HASH_DIGITS]


Fields = Mapping[str, tuple[Callable[[AttributeWriter, str, JsonValue], None], str]]
"""Field of a document -> how it is stored, and under which name."""

SAMPLING: Final[Fields] = {
    "model": (AttributeWriter.text, genai.REQUEST_MODEL),
    "stream": (AttributeWriter.flag, genai.REQUEST_STREAM),
    "temperature": (AttributeWriter.double, genai.REQUEST_TEMPERATURE),
    "top_p": (AttributeWriter.double, genai.REQUEST_TOP_P),
}
"""Parameters that most providers call by the same name."""
