"""What the value of a key is (``rules/fields.toml``): certain kinds of keys decide, and the value only has to have the form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from freezeframe_redaction.rules.read import Rules

_RULES: Final = Rules("fields")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """What the values of some keys are."""

    class_: str
    look: re.Pattern[str]
    kind: str = ""
    sure: bool = True
    """Whether the key says it alone; otherwise a second sign is needed."""


def _fields() -> Iterator[tuple[str, Field]]:
    for row in _RULES.rows("field"):
        look = re.compile(_RULES.filled(row["look"]))
        made = Field(class_=row["class"], look=look, kind=row.get("kind", ""), sure=row.get("sure", True))
        for key in row["keys"].strip("\n").replace("\n", "|").split("|"):
            yield key, made


_FIELDS: Final = dict(_fields())
_WHOSE: Final = frozenset(_RULES.text("whose").split("|"))
_JOINT: Final = re.compile(r"[ _-]+|(?<=[a-z])(?=[A-Z])")
_MAX_LENGTH: Final = 64


@lru_cache(4096)
def field_of(key: str) -> Field | None:
    """Return what the value of the key is; None if the key does not say."""
    if len(key) > _MAX_LENGTH:
        return None
    words = [word.lower() for word in _JOINT.split(key.rpartition(".")[2]) if word]
    held = _FIELDS.get(" ".join(words))
    return held or (_FIELDS.get(" ".join(words[1:])) if len(words) > 1 and words[0] in _WHOSE else None)
