"""Payloads as pieces that repeat: an agent resends its whole history each turn, and each message is stored once.

The pieces of a value joined are the value, byte for byte, whatever it holds: a cut is only a place, never a re-serialisation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

from freezeframe_schemas.tables.columns import PIECE_LIMIT

HASH_BYTES: Final = 16
_CUTS: Final = (b',{"', b', {"', b'],"', b'], "')
"""Cut before an object that follows another in an array (a message, a tool), and where an array ends before the next key.

The comma belongs to the piece that it introduces, so a message has the same bytes whether or not another follows. Within a JSON
string a quote is escaped, so ``,{"`` never lies inside one."""
_LEAST: Final = 64
"""Bytes. A shorter piece is joined to the next one: a hash and its references would weigh more than the piece."""


def split(raw: bytes) -> list[bytes]:
    """Return the pieces of `raw`, in order; `join` of them is `raw`."""
    if len(raw) < 2 * _LEAST:
        return [raw]
    pieces: list[bytes] = []
    start = 0
    for cut in sorted(_cuts(raw)):
        if cut - start >= _LEAST:
            pieces.append(raw[start:cut])
            start = cut
    pieces.append(raw[start:])
    if max(map(len, pieces)) <= PIECE_LIMIT:
        return pieces
    return [piece[at : at + PIECE_LIMIT] for piece in pieces for at in range(0, len(piece), PIECE_LIMIT)]


def join(hashes: Iterable[str], bodies: Mapping[str, bytes]) -> bytes:
    """Return the value whose pieces have `hashes` (hex).

    Raises:
        KeyError: a piece is not among `bodies`; the argument is its hash.
    """
    return b"".join([bodies[digest] for digest in hashes])


def piece_hash(piece: bytes) -> bytes:
    """Return the name of a piece: the first 16 bytes of its SHA-256."""
    return hashlib.sha256(piece).digest()[:HASH_BYTES]


def _cuts(raw: bytes) -> list[int]:
    cuts: list[int] = []
    for mark in _CUTS:
        at = raw.find(mark, 1)
        while at >= 0:
            # "],": the bracket closes what came before; the next piece begins with it, which keeps a last message clean
            cuts.append(at)
            at = raw.find(mark, at + 1)
    return cuts
