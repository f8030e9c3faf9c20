"""Compare spans before and after a redaction: which values went, under which keys. Tries a policy before it is switched on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple, cast

import orjson

from freezeframe_redaction.redacting.work import OWN
from freezeframe_redaction.surrogates.known import Known, surrogates_of
from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue, SpanRecord

UNNAMED: Final = "OTHER"
"""Class of a change whose surrogate is not listed, or is inside encoded text: a code of few digits, base64, a body left out."""
_AROUND: Final = 16
"""Characters shown on each side of a value."""
_MAX_DEPTH: Final = 40
_NO_VALUES: Final = OWN | {genai.RESPONSE_CHUNK_SIZES, genai.RESPONSE_CHUNK_OFFSETS_NS}
_JSON: Final = re.compile(r"\s*[\[{\"]")


class Change(NamedTuple):
    """One value that a redaction replaced. Holds the value: it is shown to whoever may read the store, and never kept."""

    class_: str
    key: str
    """The attribute and the keys in it, joined by dots."""
    before: str
    after: str
    context: str
    """The text around the value before."""


def changes(before: SpanRecord, after: SpanRecord) -> Iterator[Change]:
    """Yield what the redaction that made `after` of `before` replaced, beyond what was replaced already."""
    fresh = surrogates_of([after])
    for surrogate in surrogates_of([before]):
        fresh.pop(surrogate, None)
    find = _Comparison(fresh)
    for key, one, other in _pairs(before, after):
        yield from find.changes(key, one, other)


def _pairs(before: SpanRecord, after: SpanRecord) -> Iterator[tuple[str, Any, Any]]:
    """Yield each text or attribute that differs, with its name, its value before, and its value after."""
    for name in ("name", "status_message", "trace_state"):
        yield name, getattr(before, name), getattr(after, name)
    parts = chain(
        [(before, after), (before.resource, after.resource), (before.scope, after.scope)],
        zip(before.events, after.events, strict=True),
        zip(before.links, after.links, strict=True),
    )
    for one, other in parts:
        names = [name for name in one.attributes if name not in _NO_VALUES]
        made = [name for name in other.attributes if name not in _NO_VALUES]
        # A body that is left out has no counterpart; else only names differ, in the same order.
        for name, new in zip(names, made, strict=True) if len(names) == len(made) else zip(names, names, strict=True):
            yield "names of attributes", name, new
            yield name, one.attributes[name], other.attributes.get(new)


class _Comparison:
    def __init__(self, fresh: Mapping[str, str]) -> None:
        self._fresh = fresh
        self._known = Known(fresh)

    def changes(self, key: str, one: Any, other: Any, depth: int = 0) -> Iterator[Change]:
        """Yield what differs between two values of one shape."""
        if one == other and type(one) is type(other):
            return
        if isinstance(one, str) and isinstance(other, str):
            yield from self._texts(key, one, other, depth)
        elif isinstance(one, Mapping) and isinstance(other, Mapping) and len(one) == len(cast("dict[str, Any]", other)):
            held = zip(cast("dict[str, Any]", one).items(), cast("dict[str, Any]", other).items(), strict=True)
            for (name, value), (new, made) in held:
                yield from self.changes(f"{key} (key)", name, new, depth + 1)
                yield from self.changes(f"{key}.{name}", value, made, depth + 1)
        elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
            for value, made in zip(cast("list[Any]", one), cast("list[Any]", other), strict=False):
                yield from self.changes(key, value, made, depth + 1)
        else:
            yield from self._leaf(key, _text_of(one), _text_of(other))

    def _texts(self, key: str, one: str, other: str, depth: int) -> Iterator[Change]:
        if depth < _MAX_DEPTH and _JSON.match(one) and _JSON.match(other):
            try:
                yield from self.changes(key, orjson.loads(one), orjson.loads(other), depth + 1)
            except ValueError:
                yield from self._leaf(key, one, other)
            return
        yield from self._leaf(key, one, other)

    def _leaf(self, key: str, one: str, other: str) -> Iterator[Change]:
        """Yield the values between the texts that both have in common."""
        spans = list(self._known.spans(other, 0, len(other)))
        at = 0  # in the text before
        past = 0
        for number, (start, end) in enumerate(spans):
            at += start - past
            following = other[end : spans[number + 1][0] if number + 1 < len(spans) else len(other)]
            is_last = number + 1 == len(spans)
            stop = len(one) - len(following) if is_last else one.find(following, at + 1) if following else at + end - start
            if stop <= at:
                break
            value = one[at:stop]
            context = one[max(0, at - _AROUND) : stop + _AROUND]
            yield Change(self._fresh[other[start:end]], key, value, other[start:end], context)
            at, past = stop, end
        if not spans:
            yield Change(UNNAMED, key, one, other, one)


def _text_of(value: AttributeValue) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)
