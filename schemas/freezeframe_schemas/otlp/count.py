"""Count the values of an OTLP request in protobuf before any object is made: ten million empty ones fit into 20 MB.

Only lengths are read. The parser reports anything that is not protobuf.

Source: protobuf, "Encoding"; opentelemetry-proto v1.
"""

from __future__ import annotations

from typing import Final

from freezeframe_schemas.errors import WireError

_FIELDS_PER_VALUE: Final = 4
"""An attribute has a key, a value and the value's content; a span has eight more fields."""
_LONG_TAG: Final = 3
"""A field with a number above 15 takes as long to skip as four others, and OTLP has one of them, the flags of a span."""
_DEPTH: Final = 120
"""The parser goes no deeper: 100 levels, and as many again below each attribute, which has five above it."""
_CONTROLS: Final = bytes(range(0x20))
"""The length of every text or message under 32 bytes is one of these."""

_Fields = dict[int, tuple[int, "_Fields"]]
"""Tag of a field that holds a message -> how many values it counts for, and its fields."""


def _field(number: int, fields: _Fields, values: int = 1) -> _Fields:
    return {number << 3 | 2: (values, fields)}


_ANY: Final[_Fields] = {}
_KEY_VALUE: Final = _field(2, _ANY, 0)
_ANY.update(_field(5, _field(1, _ANY)) | _field(6, _field(1, _KEY_VALUE)))
_EVENT: Final = _field(3, _KEY_VALUE)
_LINK: Final = _field(4, _KEY_VALUE)
_SPAN: Final = _field(9, _KEY_VALUE) | _field(11, _EVENT) | _field(13, _LINK)
_RECORD: Final = _field(5, _ANY) | _field(6, _KEY_VALUE)
_RESOURCE: Final = _field(1, _KEY_VALUE)
_SCOPE: Final = _field(3, _KEY_VALUE)


def _request(item: _Fields) -> _Fields:
    return _field(1, _field(1, _RESOURCE) | _field(2, _field(1, _SCOPE) | _field(2, item)))


TRACES: Final = _request(_SPAN)
LOGS: Final = _request(_RECORD)


def refuse_too_many(body: bytes, request: _Fields, what: str, most_values: int) -> None:
    """Check a request, `TRACES` or `LOGS`; `what` names its kind in errors.

    Raises:
        WireError: it has more than `most_values` attributes, items of arrays and maps, events, links, spans and their parents,
            or more than four times as many fields.
    """
    # There are at most as many small values as such bytes, and few large ones. Most requests need no closer look.
    if len(body) - len(body.translate(None, _CONTROLS)) > most_values:
        _count(body, request, what, most_values)


def _count(body: bytes, fields: _Fields, what: str, most_values: int) -> None:
    left, fields_left = most_values, most_values * _FIELDS_PER_VALUE
    outer: list[tuple[int, _Fields]] = []
    """The end of each message around this one, and its fields."""
    at, end = 0, len(body)
    try:
        while True:
            while at < end:
                fields_left -= 1
                if left < 0 or fields_left < 0:
                    raise WireError(f"{what}: more than {most_values} values, the limit is limits.values_per_request")
                tag = body[at]
                at += 1
                if tag >= 0x80:
                    fields_left -= _LONG_TAG
                    tag, at = _varint(body, at - 1)
                kind = tag & 7
                if kind == 2:
                    size = body[at]
                    at += 1
                    if size >= 0x80:
                        size, at = _varint(body, at - 1)
                    held = fields.get(tag)
                    if held is not None:
                        left -= held[0]
                        if size and len(outer) < _DEPTH:
                            outer.append((end, fields))
                            end, fields = min(at + size, end), held[1]
                            continue
                    at += size
                elif kind == 0:
                    at = at + 1 if body[at] < 0x80 else _varint(body, at)[1]
                elif kind == 1:
                    at += 8
                elif kind == 5:
                    at += 4
                if tag < 8:  # protobuf has no field 0: the parser refuses this message
                    at = end
                # A group begins or ends: its content is counted like the rest.
            if not outer:
                return
            # A message may claim to be longer than the one around it. Only that message is refused, so what follows counts.
            at = end
            end, fields = outer.pop()
    except IndexError:
        return


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """Return the number at `at` and the position after it; the end if no valid number is there."""
    value = 0
    for shift in range(0, 70, 7):
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    return 0, len(body)
