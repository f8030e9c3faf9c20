"""SpanRecord: one OpenTelemetry span as a frozen value, with everything that OTLP carries.

Between receivers, processors, tables and replay, a span is always this value. Conversions live next to the other format
(`otlp` for the wire, `tables` for rows). Nothing here interprets attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from operator import attrgetter
from typing import Final

AttributeValue = str | bool | int | float | bytes | None | Sequence["AttributeValue"] | Mapping[str, "AttributeValue"]
"""OTLP AnyValue: scalars, ``tuple`` for arrays, ``dict`` for kvlists. Arrays are tuples, so that equal content is equal."""

Attributes = Mapping[str, AttributeValue]


def sound_text(text: str) -> str:
    """Return the text with lone surrogates escaped: OTLP strings are UTF-8, and one surrogate loses a whole batch."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def digits_of(number: int) -> str:
    """Return an integer that OTLP's 64 bits cannot hold as text: decimal, or hexadecimal if Python refuses that."""
    try:
        return str(number)
    except ValueError:  # over sys.get_int_max_str_digits()
        return hex(number)


def no_attributes() -> Attributes:
    """Return an empty attribute set (the default of each field below)."""
    return {}


class SpanKind(IntEnum):
    """OTLP ``Span.SpanKind``."""

    UNSPECIFIED = 0
    INTERNAL = 1
    SERVER = 2
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


class StatusCode(IntEnum):
    """OTLP ``Status.StatusCode``."""

    UNSET = 0
    OK = 1
    ERROR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """OTLP ``Span.Event``."""

    time_unix_nano: int
    name: str
    attributes: Attributes = field(default_factory=no_attributes)
    dropped_attributes_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """OTLP ``Span.Link``; ids as lower-case hex."""

    trace_id: str
    span_id: str
    trace_state: str = ""
    attributes: Attributes = field(default_factory=no_attributes)
    dropped_attributes_count: int = 0
    flags: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """OTLP ``InstrumentationScope`` with its schema URL."""

    name: str = ""
    version: str = ""
    attributes: Attributes = field(default_factory=no_attributes)
    dropped_attributes_count: int = 0
    schema_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """OTLP ``Resource`` with its schema URL."""

    attributes: Attributes = field(default_factory=no_attributes)
    dropped_attributes_count: int = 0
    schema_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRecord:
    """One span. Ids are lower-case hex (32 and 16 digits); `parent_span_id` is empty for a root.

    Source: opentelemetry-proto ``trace/v1/trace.proto``; field names as there.
    """

    trace_id: str
    span_id: str
    name: str
    start_time_unix_nano: int
    end_time_unix_nano: int
    parent_span_id: str = ""
    kind: SpanKind = SpanKind.INTERNAL
    trace_state: str = ""
    flags: int = 0
    attributes: Attributes = field(default_factory=no_attributes)
    status_code: StatusCode = StatusCode.UNSET
    status_message: str = ""
    events: tuple[Event, ...] = ()
    links: tuple[Link, ...] = ()
    resource: Resource = field(default_factory=Resource)
    scope: Scope = field(default_factory=Scope)
    dropped_attributes_count: int = 0
    dropped_events_count: int = 0
    dropped_links_count: int = 0

    def with_attributes(self, changes: Attributes) -> SpanRecord:
        """Return the span with `changes` applied to its attributes."""
        # Copy the slots: `dataclasses.replace` takes twice as long, and this runs for each span on its way to the store.
        copy = object.__new__(SpanRecord)
        for set_field, value in zip(_SET_OTHERS, _GET_OTHERS(self), strict=True):
            set_field(copy, value)
        _SET_ATTRIBUTES(copy, {**self.attributes, **changes})
        return copy

    def text(self, name: str) -> str | None:
        """Return the attribute if it is text, else None."""
        value = self.attributes.get(name)
        return value if isinstance(value, str) else None

    def integer(self, name: str) -> int | None:
        """Return the attribute if it is a whole number, else None."""
        value = self.attributes.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


_OTHERS: Final = [field.name for field in fields(SpanRecord) if field.name != "attributes"]
_GET_OTHERS: Final = attrgetter(*_OTHERS)
_SET_OTHERS: Final = [getattr(SpanRecord, name).__set__ for name in _OTHERS]
_SET_ATTRIBUTES: Final = SpanRecord.__dict__["attributes"].__set__
