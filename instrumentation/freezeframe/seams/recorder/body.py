"""A body while it arrives: its pieces and their times, up to a limit."""

from __future__ import annotations

import hashlib


class Body:
    """The pieces of a body as they arrived; past the limit, only size and SHA-256 are kept."""

    __slots__ = ("_hash", "comes_in_pieces", "left_out", "limit_bytes", "offsets_ns", "pieces", "size")

    def __init__(self, limit_bytes: int, whole: bytes | None = None, *, left_out: str | None = None) -> None:
        self.left_out = left_out
        """Reason why the body was never seen."""
        self.comes_in_pieces = whole is None
        self.pieces: list[bytes] = []
        self.offsets_ns: list[int] = []
        self.size = 0
        self.limit_bytes = limit_bytes
        self._hash: hashlib._Hash | None = None
        if whole:
            self.add(whole)

    def add(self, piece: bytes, offset_ns: int = 0) -> None:
        self.size += len(piece)
        if self._hash is None and self.size > self.limit_bytes:
            self._hash = hashlib.sha256(b"".join(self.pieces))
            self.pieces.clear()
            self.offsets_ns.clear()
        if self._hash is not None:
            self._hash.update(piece)
            return
        self.pieces.append(piece)
        self.offsets_ns.append(offset_ns // 1000 * 1000)  # to the microsecond: finer digits are noise, half of the stored bytes

    @property
    def omitted(self) -> str | None:
        """Return the reason for a missing body, or None."""
        return self.left_out if self._hash is None else f"over limit: {self.size} bytes, sha256 {self._hash.hexdigest()}"
