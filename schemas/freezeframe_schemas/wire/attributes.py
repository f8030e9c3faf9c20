"""AttributeWriter: stores values read from a body under attribute names, and passes only what OTLP can carry.

A value of the wrong type is left out, never converted: the exact bytes are on the exchange span, these are for searching.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue, digits_of, sound_text
from freezeframe_schemas.wire import messages
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_integer, as_list, as_object, dump, dump_canonical
from freezeframe_schemas.wire.messages import Message, Part

_INT64: Final = range(-(2**63), 2**63)
_HASH_DIGITS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCounts:
    """Keys of the token counts in a provider's usage object.

    Of several places, the first with a whole number counts. A place is a field, or the way to it: ``details.cached``.
    """

    input: Sequence[str] = ()
    output: Sequence[str] = ()
    cache_read: Sequence[str] = ()
    cache_write: Sequence[str] = ()
    reasoning: Sequence[str] = ()
    tools: Sequence[str] = ()
    """Input that came from the provider's own tools."""
    input_adds: Sequence[str] = ()
    """The counts above that the provider leaves out of its input; the conventions' total includes them."""
    output_adds: Sequence[str] = ()
    """The same for its output."""

    def find(self, usage: JsonObject, name: str) -> int | None:
        """Return one count by its name here; None if the usage does not have it."""
        places: Sequence[str] = getattr(self, name)
        for place in places:
            field, _, inner = place.partition(".")
            if (value := usage.get(field)) is not None:
                count = _count_at(as_object(value), inner) if inner else as_integer(value)
                if count is not None:
                    return count
        return None

    def total(self, usage: JsonObject, *names: str) -> int | None:
        """Return the sum of those of the counts that the usage has; None if it has none of them."""
        found = [count for name in names if (count := self.find(usage, name)) is not None]
        return sum(found) if found else None


def _count_at(usage: JsonObject, place: str) -> int | None:
    name, _, inner = place.partition(".")
    value = usage.get(name)
    if value is None:
        return None
    return _count_at(as_object(value), inner) if inner else as_integer(value)


class AttributeWriter:
    """Collects attributes. Every method skips None, so that readers need no ``if``."""

    __slots__ = ("attributes",)

    def __init__(self, operation: str | None = None) -> None:
        self.attributes: dict[str, AttributeValue] = {}
        self.text(genai.OPERATION_NAME, operation)

    def text(self, name: str, value: JsonValue) -> None:
        """Put a text; an empty one is left out."""
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
            if (value := document.get(field)) is not None:
                put(self, name, value)

    def json(self, name: str, value: JsonValue) -> None:
        """Put any value but null as JSON text."""
        if value is not None:
            self.attributes[name] = dump(value)

    def usage(self, usage: JsonObject, counts: UsageCounts) -> None:
        """Put token counts in the conventions' terms, and the usage object unchanged; an empty one is left out."""
        if usage:
            self.integer(genai.USAGE_INPUT_TOKENS, counts.total(usage, "input", *counts.input_adds))
            self.integer(genai.USAGE_OUTPUT_TOKENS, counts.total(usage, "output", *counts.output_adds))
            self.integer(genai.USAGE_CACHE_READ_TOKENS, counts.find(usage, "cache_read"))
            self.integer(genai.USAGE_CACHE_WRITE_TOKENS, counts.find(usage, "cache_write"))
            self.integer(genai.USAGE_REASONING_TOKENS, counts.find(usage, "reasoning"))
            self.json(genai.USAGE_DETAILS, usage)

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
        """Put tool definitions in the conventions' form, and the hash of the `sent` ones."""
        if sent:
            self.attributes[genai.TOOL_DEFINITIONS] = dump(definitions)
            digest = hashlib.sha256(dump_canonical(sent).encode()).hexdigest()
            self.attributes[genai.TOOL_DEFINITIONS_HASH] = digest[:_HASH_DIGITS]


Fields = Mapping[str, tuple[Callable[[AttributeWriter, str, JsonValue], None], str]]
"""Field of a document -> the method that stores it, and its attribute name."""

SAMPLING: Final[Fields] = {
    "model": (AttributeWriter.text, genai.REQUEST_MODEL),
    "stream": (AttributeWriter.flag, genai.REQUEST_STREAM),
    "temperature": (AttributeWriter.double, genai.REQUEST_TEMPERATURE),
    "top_p": (AttributeWriter.double, genai.REQUEST_TOP_P),
}
"""Parameters that most providers call by the same name."""
