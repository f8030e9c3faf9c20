"""Makes surrogates under one key, and keeps account of them: values that share one, and the original of each.

A surrogate depends only on class, value and key, so the memory does not change results.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from freezeframe_redaction.policies.actions import EVERYWHERE, Actions, replaced
from freezeframe_redaction.policies.classes import CLASSES
from freezeframe_redaction.policies.custom import custom_replacement
from freezeframe_redaction.prf import Prf
from freezeframe_redaction.surrogates.make import number_for

_ONE_FOR_MANY: Final = frozenset({"DOB"})
"""Classes whose surrogates cover many values on purpose: every day of a year becomes its first."""
_MAX_KEPT: Final = 100_000


class Maker:
    """Makes the surrogates of one redactor. Safe to share between threads."""

    def __init__(self, prf: Prf, *, keep_originals: bool = False, actions: Actions = EVERYWHERE) -> None:
        """`keep_originals` remembers the original of each surrogate, for a vault; by the `actions` some values get none."""
        self._actions = dict(actions.by_class)
        self.prf = prf
        self.collisions = 0
        """Recent values whose surrogate another value already had. Codes are the likeliest: few surrogates, many codes."""
        self._made: dict[tuple[str, str, str], str] = {}
        self._owners: dict[tuple[str, str], str] = {}
        """Class and surrogate -> the value that had it first."""
        self._late: set[tuple[str, str]] = set()
        """Class and value of counted collisions."""
        self._keep_originals = keep_originals
        self._originals: dict[str, tuple[str, str, str]] = {}
        """Surrogate -> class, original, and canonical form."""
        self._shared: set[str] = set()
        """Surrogates of several values."""

    def make(self, class_: str, kind: str, value: str) -> str:
        wanted = (class_, kind, value)
        made = self._made.get(wanted)
        if made is None:
            if (action := self._actions.get(class_)) is not None:
                return replaced(action, class_, value)
            entry = CLASSES.get(class_)
            made = entry.replace(self.prf, value, kind) if entry else custom_replacement(self.prf, class_, value)
            if len(self._made) > _MAX_KEPT:
                self._made, self._originals, self._shared = {}, {}, set()
            self._made[wanted] = made
            self._note(class_, kind, value, made)
        return made

    def make_number(self, class_: str, made: str, value: str) -> str:
        """Return digits in place of a surrogate that is not a number, for a value that is one in JSON."""
        number = number_for(self.prf, made, value)
        if class_ in self._actions:
            return number
        self._note(class_, "", value, number)
        return number

    def _note(self, class_: str, kind: str, value: str, made: str) -> None:
        """Note a new surrogate; spellings of one value (``+49 30``, ``+4930``) are one value, and the first is kept."""
        entry = CLASSES.get(class_)
        canonical = entry.canonical(value, kind) if entry else value
        if class_ not in _ONE_FOR_MANY:
            self._count(class_, canonical, made)
        if self._keep_originals and made != value:
            held = self._originals.setdefault(made, (class_, value, canonical))
            if class_ in _ONE_FOR_MANY or held[2] != canonical:
                self._shared.add(made)

    def _count(self, class_: str, canonical: str, made: str) -> None:
        if len(self._owners) + len(self._late) >= _MAX_KEPT:
            self._owners, self._late = {}, set()
        if self._owners.setdefault((class_, made), canonical) != canonical and (class_, canonical) not in self._late:
            self._late.add((class_, canonical))
            self.collisions += 1

    def originals_of(self, surrogates: Iterable[str]) -> dict[str, tuple[str, str] | None]:
        """Return surrogate -> class and original of those made recently, if originals are kept.

        None in place of an original that is one of several: revealing a wrong one would be worse.
        """
        return {
            surrogate: None if surrogate in self._shared else self._originals[surrogate][:2]
            for surrogate in surrogates
            if surrogate in self._originals
        }
