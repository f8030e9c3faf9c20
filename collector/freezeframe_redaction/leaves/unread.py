"""Replace texts that could not be read in time with a keyed hash, the same for the same text and key.

The longest texts go first, so that a span's short ones stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from freezeframe_redaction.deadline import Allowance
from freezeframe_redaction.prf import BASE32, Prf
from freezeframe_schemas.span import Attributes, AttributeValue, Resource, Scope, SpanRecord

CLASS: Final = "UNREAD"
"""The class of these hashes among the surrogates."""
_SPAN_TOO_SLOW: Final = "redaction took too long (redaction.span_cpu_s)"
REQUEST_TOO_SLOW: Final = "redaction of its request took too long (redaction.request_cpu_s)"
_MAX_NAME_LENGTH: Final = 64
"""Length up to which an attribute's name always stays."""
_T = TypeVar("_T", SpanRecord, Resource, Scope)
_Visit = Callable[[AttributeValue], AttributeValue]
_IsKept = Callable[[str, AttributeValue], bool]


def why_unread(allowance: Allowance) -> str:
    """Return the reason why a span is not read: the time of its request is over, or else its own will be."""
    return REQUEST_TOO_SLOW if allowance.to_read.has_passed() else _SPAN_TOO_SLOW


def hash_of(prf: Prf, value: AttributeValue) -> str:
    """Return the keyed hash of a value, with the mark by which every surrogate is recognised under any key."""
    text = value if isinstance(value, str) else value.decode("latin-1") if isinstance(value, bytes) else repr(value)
    return f"unread:rDxrDx{prf.letters(CLASS, text, BASE32, 24)}"


def shorten(item: _T, most: int, prf: Prf, is_kept: _IsKept) -> tuple[_T, dict[str, str]]:
    """Return the item with its longest texts as keyed hashes, and the hashes; the others have at most `most` characters.

    `is_kept` selects the attributes (name, value) that the redactor does not read: they stay, however long.
    """
    lengths: list[int] = []
    hashes: dict[str, str] = {}

    def measure(value: AttributeValue) -> AttributeValue:
        lengths.append(_length(value))
        return value

    def exchange(value: AttributeValue) -> AttributeValue:
        if _length(value) <= longest:
            return value
        made = hash_of(prf, value)
        hashes[made] = CLASS
        return made

    _visited(item, measure, is_kept)
    longest = _longest_that_fits(lengths, most)
    return _visited(item, exchange, is_kept), hashes


def _visited(item: _T, visit: _Visit, is_kept: _IsKept) -> _T:
    def text(value: str) -> str:
        return str(visit(value))

    def attributes(held: Attributes) -> Attributes:
        return {
            name if len(name) <= _MAX_NAME_LENGTH else text(name): value if is_kept(name, value) else visit(value)
            for name, value in held.items()
        }

    made = replace(item, attributes=attributes(item.attributes))
    if isinstance(made, Scope):
        return replace(made, name=text(made.name), version=text(made.version))
    if isinstance(made, SpanRecord):
        return replace(
            made,
            name=text(made.name),
            status_message=text(made.status_message),
            trace_state=text(made.trace_state),
            events=tuple(replace(one, name=text(one.name), attributes=attributes(one.attributes)) for one in made.events),
            links=tuple(
                replace(one, trace_state=text(one.trace_state), attributes=attributes(one.attributes)) for one in made.links
            ),
        )
    return made


def _longest_that_fits(lengths: Sequence[int], most: int) -> int:
    """Return the length up to which texts may stay if they are to have `most` characters together."""
    total = 0
    for length in sorted(lengths):
        total += length
        if total > most:
            return length - 1
    return max(lengths, default=0)


def _length(value: AttributeValue) -> int:
    """Return the number of characters to read; numbers do not count."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(name) + _length(item) for name, item in value.items())
    if isinstance(value, Sequence):
        return sum(_length(item) + 1 for item in value)
    return 0
