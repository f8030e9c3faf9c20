"""What surrogates stand for, of those that one redactor made recently: for a vault. Kept only if there is one."""

from __future__ import annotations

from collections.abc import Iterable

from freezeframe_redaction.collisions import ONE_FOR_MANY
from freezeframe_redaction.policies.classes import CLASSES


class Originals:
    """Surrogate -> class and original. One that several values share has no original: revealing a wrong one is worse."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[str, str, str]] = {}
        self._shared: set[str] = set()

    def note(self, class_: str, kind: str, value: str, surrogate: str) -> None:
        """Note a new surrogate; spellings of one value are one value, and the first is kept."""
        entry = CLASSES.get(class_)
        canonical = entry.canonical(value, kind) if entry else value
        held = self._held.setdefault(surrogate, (class_, value, canonical))
        if class_ in ONE_FOR_MANY or held[2] != canonical:
            self._shared.add(surrogate)

    def of(self, surrogates: Iterable[str]) -> dict[str, tuple[str, str] | None]:
        """Return surrogate -> class and original, None if it is shared; those that were not made recently are left out."""
        return {
            surrogate: None if surrogate in self._shared else self._held[surrogate][:2]
            for surrogate in surrogates
            if surrogate in self._held
        }
