"""What many spans share, as one object: a resource, a scope. It is redacted once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from freezeframe_redaction.deadline import Allowance

T = TypeVar("T")


class Shared(Generic[T]):
    """Redacts once by identity. Holds each original, so that its id stays its own."""

    __slots__ = ("_held", "_redact", "_says")

    def __init__(self, redact: Callable[[T, Allowance], tuple[T, Mapping[str, str]]], says: Callable[[T], object]) -> None:
        """`says` returns whether there is anything in a value."""
        self._redact = redact
        self._says = says
        self._held: dict[int, tuple[T, T, Mapping[str, str]]] = {}

    def get(self, value: T, allowance: Allowance) -> tuple[T, Mapping[str, str]]:
        """Return the redacted value and its surrogates."""
        if not self._says(value):
            return value, {}
        held = self._held.get(id(value))
        if held is None or held[0] is not value:
            if allowance.to_read.has_passed():
                return self._redact(value, allowance)  # unread, so not for other requests
            if len(self._held) > 256:
                self._held = {}
            held = self._held[id(value)] = (value, *self._redact(value, allowance))
        return held[1], held[2]
