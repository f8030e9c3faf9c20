"""Makes surrogates under one key, and keeps account of them: which values share one, and what each stands for.

A surrogate depends on class, value and key only, so what is remembered changes no result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from freezeframe_redaction.collisions import Collisions
from freezeframe_redaction.originals import Originals
from freezeframe_redaction.policies.classes import CLASSES
from freezeframe_redaction.policies.custom import custom_replacement
from freezeframe_redaction.prf import Prf
from freezeframe_redaction.surrogates.make import number_for

_MOST_KEPT: Final = 100_000


class Maker:
    """Makes the surrogates of one redactor. Safe to share between threads."""

    def __init__(self, prf: Prf, *, keep_originals: bool = False) -> None:
        """`keep_originals` remembers what each surrogate stands for, for a vault."""
        self.prf = prf
        self.collisions = Collisions()
        self._made: dict[tuple[str, str, str], str] = {}
        self._originals = Originals() if keep_originals else None

    def make(self, class_: str, kind: str, value: str) -> str:
        """Return the surrogate of a value."""
        wanted = (class_, kind, value)
        made = self._made.get(wanted)
        if made is None:
            entry = CLASSES.get(class_)
            made = entry.replace(self.prf, value, kind) if entry else custom_replacement(self.prf, class_, value)
            if len(self._made) > _MOST_KEPT:
                self._made = {}
                self._originals = None if self._originals is None else Originals()
            self._made[wanted] = made
            self._note(class_, kind, value, made)
        return made

    def make_number(self, class_: str, made: str, value: str) -> str:
        """Return digits in place of a surrogate that is not a number, for a value that is one in JSON."""
        number = number_for(self.prf, made, value)
        self._note(class_, "", value, number)
        return number

    def _note(self, class_: str, kind: str, value: str, made: str) -> None:
        self.collisions.note(class_, kind, value, made)
        if self._originals is not None and made != value:
            self._originals.note(class_, kind, value, made)

    def originals_of(self, surrogates: Iterable[str]) -> dict[str, tuple[str, str] | None]:
        """Return surrogate -> class and original of those made recently (see `Originals.of`); none unless they are kept."""
        return {} if self._originals is None else self._originals.of(surrogates)
