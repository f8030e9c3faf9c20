"""Earlier results, up to a bound: two generations, the older of which is forgotten when the younger is full.

Plain dict operations are atomic, so threads share one; at worst they compute a result twice.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_ENTRY: Final = 100
"""Size of an entry besides its characters."""


class Memory(Generic[K, V]):
    """Key -> value, bounded by the declared characters of the entries."""

    __slots__ = ("_half", "_held", "_old", "_young")

    def __init__(self, characters: int) -> None:
        self._half = characters // 2
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}
        self._held = 0

    def get(self, key: K) -> V | None:
        """Return the remembered value of the key."""
        held = self._young.get(key)
        return held if held is not None else self._old.get(key)

    def put(self, entries: Mapping[K, V], characters: int) -> None:
        """Remember the entries; `characters` is the size of all, keys included."""
        size = characters + _ENTRY * len(entries)
        if self._held + size > self._half:
            self._old, self._young, self._held = self._young, {}, 0
        self._young.update(entries)
        self._held += size
