"""Streamed answers with their events folded: parts common to nearly all events are kept once, and their contents are joined.

    data: {"id":"c1","delta":{"content":"Hel"}}␊␊data: {"id":"c1","delta":{"content":"lo"}}␊␊data: [DONE]␊␊

is folded into the constant parts of such an event, the text between events, and for each varying part its
lengths and its joined text, here ``Hello``::

    ␂data: {"id":"c1","delta":{"content":"␃"}}␊␊␂␃␃data: [DONE]␊␊␂$#␂Hello

`unfold` returns the same bytes: folding is only a place for each byte, and nothing is parsed. The joined text is what the next
request and the attributes of the conventions quote, so it is mostly stored already (`templates`). The views do in SQL what
`unfold` does: `unfolded_sql`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Final, NamedTuple

FOLDED: Final = b"\2"
"""A folded stream begins with it, and it separates the fields."""
_PART: Final = b"\3"
MARKS: Final = (b"\0", b"\1", FOLDED, _PART)
_END: Final = b"\n\n"
"""The end of an event."""
_EVENTS: Final = (b"data:", b"event:", b"id:", b":")
"""Possible starts of a stream of server-sent events."""
_SAMPLES: Final = 5
_MIN_EVENTS: Final = 6
_MAX_EVENT_BYTES: Final = 90
"""Bytes of all parts of one event that differ. Each one's length has to be one printable character."""
_ZERO: Final = 33
"""A length is one printable character, this one for 0."""
_LENGTHS: Final = bytes(min(length + _ZERO, 255) for length in range(256))
_KEY: Final = b'":'
_VALUE: Final = re.compile(rb'":( ?"[^"\\]*+(?:\\.[^"\\]*+)*+|\d+)')
_NOISE: Final = (b'"obfuscation":"', b'"obfuscation": "', b'"p":"')
"""Before a part that only pads: it never comes again."""


class Folded(NamedTuple):
    """A stream taken apart: a frame and a text in turn, joined, are the folded stream."""

    frames: list[bytes]
    texts: list[bytes]
    """The contents of the events, one text for each varying part."""
    is_noise: list[bool]
    """Of each text, whether it only pads."""


def is_stream(raw: bytes) -> bool:
    """Return whether the value begins as server-sent events do."""
    return raw.startswith(_EVENTS)


def fold(raw: bytes) -> Folded | None:
    """Return the stream folded, or None if its events have too little in common; it must not hold one of `MARKS`."""
    constants = _constants(raw)
    if constants is None:
        return None
    first, *inner, last = constants
    start, least = len(first), sum(map(len, constants)) - len(_END)
    last = last.removesuffix(_END)
    *events, tail = raw.split(_END)
    between, said = [b""], list[bytes]()
    for event in events:
        if least <= len(event) <= least + _MAX_EVENT_BYTES and event.startswith(first) and event.endswith(last):
            said.append(event[start : len(event) - len(last)])
            between.append(b"")
        else:
            between[-1] += event + _END
    between[-1] += tail
    if len(said) < _MIN_EVENTS:
        return None
    columns: list[Sequence[bytes]] = [said]
    for constant in inner:
        column, met, rest = zip(*[text.partition(constant) for text in columns.pop()], strict=True)
        if not all(met):
            return None
        columns += (column, rest)
    frames = [FOLDED + bytes(map(len, column)).translate(_LENGTHS) + FOLDED for column in columns]
    frames[0] = FOLDED + _PART.join(constants) + FOLDED + _PART.join(between) + frames[0]
    return Folded(frames, [b"".join(column) for column in columns], [constant.endswith(_NOISE) for constant in constants[:-1]])


def unfold(folded: bytes) -> bytes:
    """Return the stream of `fold`."""
    _, constants, between, *fields = folded.split(FOLDED)
    *before, tail = between.split(_PART)
    columns = [before]
    for constant, lengths, text in zip(constants.split(_PART), fields[::2], fields[1::2], strict=False):
        ends = [*accumulate(length - _ZERO for length in lengths)]
        columns += [constant] * len(ends), [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    columns.append([constants[constants.rfind(_PART) + 1 :]] * len(before))
    return b"".join(chain.from_iterable(zip(*columns, strict=True))) + tail


def unfolded_sql(value: str) -> str:
    """Return SQL for what `unfold` returns of a stored text, `value`.

    Each lambda takes what it reads as an argument: what it captures is copied for each event.
    """
    lengths = f"arrayMap(texts -> arrayMap(text -> toInt64(reinterpretAsUInt8(text)) - {_ZERO}, splitByString('', texts)), %s)"
    text_sql = (
        f"arrayMap((lengths, text) -> arrayMap((length, end) -> substring(text, end - length + 1, length), lengths,"
        f" arrayCumSum(lengths)), {lengths % '[f[4], f[6], f[8]]'}, [f[5], f[7], f[9]])"
    )
    columns = ", ".join(f"arrayResize(said[{at}], length(between) - 1, '')" for at in (1, 2, 3))
    events = f"arrayMap((b, x, y, z) -> concat(b, c[1], x, c[2], y, c[3], z, c[4]), arrayPopBack(between), {columns})"
    return (
        f"arrayMap(f -> arrayMap((c, between, said) -> concat(arrayStringConcat({events}), between[-1]),"
        f" [splitByChar('\\x03', f[2])], [splitByChar('\\x03', f[3])], [{text_sql}])[1], [splitByChar('\\x02', {value})])[1]"
    )


def _constants(raw: bytes) -> list[bytes] | None:
    """Return the constant parts of most events in the middle of the stream: before, between and after the varying ones."""
    shapes: defaultdict[tuple[bytes, ...], list[list[bytes]]] = defaultdict(list)
    at = raw.find(_END, len(raw) // 2) + len(_END)
    for _ in range(_SAMPLES):
        end = raw.find(_END, at) + len(_END)
        if end < len(_END):
            break
        parts = _VALUE.split(raw[at:end])
        shapes[tuple(parts[::2])].append(parts)
        at = end
    alike = max(shapes.values(), key=len, default=[])
    if len(alike) < 2:
        return None
    constants = [b""]
    for at, values in enumerate(zip(*alike, strict=True)):
        if at % 2 == 0:
            constants[-1] += values[0]
        elif len(set(values)) == 1:
            constants[-1] += _KEY + values[0]
        else:
            constants[-1] += _KEY + values[0][: values[0].find(b'"') + 1]
            constants.append(b"")
    return constants if 2 <= len(constants) <= 4 and all(constants) else None  # `unfolded_sql` knows three parts
