"""Payloads as pieces that repeat: an agent resends its whole history each turn, and each message is stored once.

The pieces of a value joined are the value, byte for byte, whatever it holds: a cut is only a place, never a re-serialisation.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

from freezeframe_schemas.tables.columns import PIECE_LIMIT

HASH_BYTES: Final = 12
"""96 bits: no accident within a run, and 2**48 hashes of work to make two pieces of one run that share a name. Hashes are a
third of what is stored, so each byte counts."""
_COMPACT: Final = (b',{"', b'],"')
_SPACED: Final = (b', {"', b'], "')
"""Cut before an object that follows another in an array (a message, a tool), and where an array ends before the next key.

The comma belongs to the piece that it introduces, so a message has the same bytes whether or not another follows. Within a JSON
string a quote is escaped, so ``,{"`` never lies inside one."""
_STYLE_BYTES: Final = 64
_MARK_BYTES: Final = 4
_LEAST: Final = 160
"""Bytes. A shorter piece is joined to the next one: a hash and its references would weigh more than the piece."""


def split(raw: bytes, start: int = 0) -> list[bytes]:
    """Return the pieces of `raw` from a cut on, in order; joined they are the bytes from there."""
    pieces: list[bytes] = []
    for cut in sorted(_cuts(raw, start)):
        if cut - start >= _LEAST:
            pieces.append(raw[start:cut])
            start = cut
    pieces.append(raw[start:])
    if max(map(len, pieces)) <= PIECE_LIMIT:
        return pieces
    return [piece[at : at + PIECE_LIMIT] for piece in pieces for at in range(0, len(piece), PIECE_LIMIT)]


class SplitMemory:
    """What was split last, by run and attribute: the next turn's value begins with nearly all of it.

    Only a saving: pieces and hashes are the very same without it. Not thread-safe.
    """

    def __init__(self, limit_bytes: int = 128 << 20) -> None:
        self._limit = limit_bytes
        self._size = 0
        self._last: OrderedDict[tuple[str, str], tuple[bytes, list[bytes], list[bytes]]] = OrderedDict()

    def split(self, trace_id: str, attribute: str, raw: bytes) -> tuple[list[bytes], list[bytes]]:
        """Return the pieces of `raw` and their hashes."""
        before = self._last.pop((trace_id, attribute), None)
        same = 0
        at = 0
        if before is not None:
            self._size -= len(before[0])
            # a cut holds for both values where the bytes before it agree, and the mark that follows it
            for piece, following in zip(before[1], before[1][1:], strict=False):
                end = at + len(piece)
                if raw[at:end] != piece or raw[end : end + _MARK_BYTES] != following[:_MARK_BYTES]:
                    break
                at = end
                same += 1
        rest = split(raw, at)
        pieces = [*before[1][:same], *rest] if before else rest
        hashes = [*(before[2][:same] if before else ()), *map(piece_hash, rest)]
        self._last[trace_id, attribute] = (raw, pieces, hashes)
        self._size += len(raw)
        while self._size > self._limit:
            _, (oldest, _, _) = self._last.popitem(last=False)
            self._size -= len(oldest)
        return pieces, hashes


def join(hashes: Iterable[str], bodies: Mapping[str, bytes]) -> bytes:
    """Return the value whose pieces have `hashes` (hex).

    Raises:
        KeyError: a piece is not among `bodies`; the argument is its hash.
    """
    return b"".join([bodies[digest] for digest in hashes])


def piece_hash(piece: bytes) -> bytes:
    """Return the name of a piece: the first 12 bytes of its SHA-256."""
    return hashlib.sha256(piece).digest()[:HASH_BYTES]


def _cuts(raw: bytes, start: int) -> list[int]:
    cuts: list[int] = []
    # the style is told by the start alone, so that it stays the same as a history grows
    for mark in _SPACED if raw.find(b'": ', 0, _STYLE_BYTES) >= 0 else _COMPACT:
        at = raw.find(mark, start + 1)
        while at >= 0:
            cuts.append(at)
            at = raw.find(mark, at + 1)
    return cuts
