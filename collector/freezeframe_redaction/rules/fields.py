"""Class of a key's value (``rules/fields.toml``): telling keys decide, and the value only has to have the form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from freezeframe_redaction.rules.read import Rules

_RULES: Final = Rules("fields")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Class of the values of some keys."""

    class_: str
    look: re.Pattern[str]
    kind: str = ""
    sure: bool = True
    """True if the key shows it alone; otherwise a second sign is needed."""


def _fields() -> Iterator[tuple[str, Field]]:
    for row in _RULES.rows("field"):
        look = re.compile(_RULES.filled(row["look"]))
        for certainty in ("sure", "unsure"):
            made = Field(class_=row["class"], look=look, kind=row.get("kind", ""), sure=certainty == "sure")
            for keys in row.get(certainty, {}).values():
                for key in keys.strip("\n").replace("\n", "|").split("|"):
                    yield key, made


_FIELDS: Final = dict(_fields())
_WHOSE: Final = frozenset(_RULES.text("whose").split("|"))
_VALUE: Final = frozenset(_RULES.text("value").split("|"))
_JOINT: Final = re.compile(r"[ _:*#-]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|['’]")
_NUMBER: Final = frozenset(["numero", "número", "numer", "nummer", "nomor", "číslo", "номер"])
"""First words that mean only a number."""
_OF: Final = frozenset(["of", "de", "du", "do", "del", "der", "des", "van"])
_OF_THINGS: Final = frozenset(["PERSON", "ADDRESS"])
"""Classes that things have as well: ``product_full_name``."""
_MAX_LENGTH: Final = 64


@lru_cache(4096)
def field_of(key: str) -> Field | None:
    """Return the class of the key's value; None if the key does not determine it."""
    if len(key) > _MAX_LENGTH:
        return None
    around, _, last = key.rstrip(". ").rpartition(".")
    if last in _VALUE:
        last = f"{around.rpartition('.')[2]} {last}"  # bankAccount.number
    words = [word.lower() for word in _JOINT.split(last) if word]
    held = _field_of(words)
    if held is None and len(words) > 1 and words[0] in _NUMBER:
        held = _field_of(words[1:])
    if held is None and len(words) > 2 and words[-2] in _OF:
        held = _field_of(words[:-2])  # birthDateOfPatient
    return held


def _field_of(words: Sequence[str]) -> Field | None:
    for first in range(min(len(words), 3)):
        is_whose = not first or words[first - 1] in _WHOSE
        for last in range(len(words), max(first, len(words) - 3), -1):
            if last < len(words) and words[last] not in _VALUE and words[last] not in _WHOSE:
                break
            held = _FIELDS.get(" ".join(words[first:last]))
            if held is not None and (is_whose or (first == 1 and last - first > 1 and held.class_ not in _OF_THINGS)):
                return held
        if not is_whose:
            break
    return None
