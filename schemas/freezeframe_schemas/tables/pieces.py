"""Payloads as pieces that repeat: an agent resends its whole history each turn, and each message is stored once.

The pieces of a value joined are the value, byte for byte, whatever it holds: a cut is only a place, never a re-serialisation.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from freezeframe_schemas.tables.columns import PIECE_LIMIT

HASH_BYTES: Final = 12
"""96 bits: no accidental match within a run, and 2**48 hashes of work to make two pieces of one run share a name.

Hashes are a third of the stored bytes, so each byte counts.
"""
_COMPACT: Final = (b',{"', b'],"')
_SPACED: Final = (b', {"', b'], "')
"""Cut before an object that follows another in an array (a message, a tool), and at the end of an array before the next key.

The comma belongs to the piece that it introduces, so a message has the same bytes whether or not another follows. Within a JSON
string a quote is escaped, so ``,{"`` never occurs inside one."""
_STYLE_BYTES: Final = 64
_MARK_BYTES: Final = 4
_MIN_BYTES: Final = 512
"""Bytes. A shorter piece is joined to the next one: a hash and its references would weigh more than the piece."""
_WORTH_REMEMBERING: Final = 16 << 10
"""Bytes. Splitting and hashing a shorter value again takes less time than looking it up and comparing."""


def split(raw: bytes) -> list[bytes]:
    """Return the pieces of `raw` in order; joined they are `raw`."""
    return _split(raw, 0, len(raw))


@dataclass(frozen=True, slots=True)
class _Split:
    """Pieces of a split value. The value itself is the pieces joined; it is not held a second time."""

    pieces: list[bytes]
    hashes: list[bytes]
    size: int
    """Bytes of all pieces."""


class SplitMemory:
    """Last split by run and attribute: the next turn's value mostly begins, and often ends, the same way.

    Only saves work: pieces and hashes are the same without it. Not thread-safe.
    """

    def __init__(self, limit_bytes: int = 64 << 20) -> None:
        self._limit = limit_bytes
        self._size = 0
        self._last: OrderedDict[tuple[str, str], _Split] = OrderedDict()

    def split(self, trace_id: str, attribute: str, raw: bytes) -> tuple[list[bytes], list[bytes]]:
        """Return the pieces of `raw` and their hashes."""
        if len(raw) <= _MIN_BYTES:  # one piece, whatever it holds
            return [raw], [piece_hash(raw)]
        if len(raw) <= _WORTH_REMEMBERING:
            pieces = split(raw)
            return pieces, [*map(piece_hash, pieces)]
        before = self._last.pop((trace_id, attribute), None)
        if before is None:
            made = _split_anew(raw)
        else:
            self._size -= before.size
            made = _split_like(raw, before)
        self._last[trace_id, attribute] = made
        self._size += len(raw)
        while self._size > self._limit:
            _, oldest = self._last.popitem(last=False)
            self._size -= oldest.size
        return made.pieces, made.hashes


def _split_anew(raw: bytes) -> _Split:
    pieces = split(raw)
    return _Split(pieces, [*map(piece_hash, pieces)], len(raw))


def _split_like(raw: bytes, before: _Split) -> _Split:
    """Split a value that begins, and perhaps ends, like a previous one: only the part between is examined."""
    known, hashes = before.pieces, before.hashes
    # a cut is valid for both values if the bytes before it and the mark after it agree
    head = at = 0
    while head < len(known) - 1:
        end = at + len(known[head])
        following = known[head + 1][:_MARK_BYTES]
        if len(known[head]) >= PIECE_LIMIT or raw[at:end] != known[head] or raw[end : end + _MARK_BYTES] != following:
            break
        at = end
        head += 1
    if not head and raw[:_STYLE_BYTES] != known[0][:_STYLE_BYTES]:
        return _split_anew(raw)  # perhaps of the other style, which has different cuts
    tail, to = len(known), len(raw)
    while tail > head + 1 and to - len(known[tail - 1]) > at and raw.endswith(known[tail - 1], at, to):
        tail -= 1
        to -= len(known[tail])
    middle = _split(raw, at, to)
    if tail < len(known) and not (len(middle[-1]) >= _MIN_BYTES and known[tail].startswith((*_COMPACT, *_SPACED))):
        # splitting everything at once would have joined these two
        tail = len(known)
        middle = _split(raw, at, len(raw))
    pieces = [*known[:head], *middle, *known[tail:]]
    return _Split(pieces, [*hashes[:head], *map(piece_hash, middle), *hashes[tail:]], len(raw))


def piece_hash(piece: bytes) -> bytes:
    """Return the name of a piece: the first 12 bytes of its SHA-256."""
    return hashlib.sha256(piece).digest()[:HASH_BYTES]


def _split(raw: bytes, start: int, end: int) -> list[bytes]:
    pieces: list[bytes] = []
    for cut in sorted(_cuts(raw, start + _MIN_BYTES, end)):
        if cut - start >= _MIN_BYTES:
            pieces.append(raw[start:cut])
            start = cut
    pieces.append(raw[start:end])
    if max(map(len, pieces)) <= PIECE_LIMIT:
        return pieces
    return [piece[at : at + PIECE_LIMIT] for piece in pieces for at in range(0, len(piece), PIECE_LIMIT)]


def _cuts(raw: bytes, start: int, end: int) -> list[int]:
    cuts: list[int] = []
    # the start alone decides the style, so it stays the same as a history grows
    for mark in _SPACED if raw.find(b'": ', 0, _STYLE_BYTES) >= 0 else _COMPACT:
        at = raw.find(mark, start, end)
        while at >= 0:
            cuts.append(at)
            at = raw.find(mark, at + 1, end)
    return cuts
