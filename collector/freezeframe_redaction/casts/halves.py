"""Find the names whose words are values of two keys: a first name and a last name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from freezeframe_redaction.casts.book import Cast
from freezeframe_redaction.leaves.tree import Leaf

_FIRST: Final = re.compile(r"(?i)(?:.*[^a-z])?(?:(?:first|given|fore)(?:[_ -]?name)?|vorname|pr[eé]nom|nombre): ")
_LAST: Final = re.compile(r"(?i)(?:.*[^a-z])?(?:(?:last|family|sur)(?:[_ -]?name)?|nachname|nom|apellidos?): ")
_CAMEL: Final = re.compile("(?<=[a-z])(?=[A-Z])")
_NEAR: Final = 8
"""Strings between the values of two keys of one object, at most."""


@lru_cache(maxsize=4096)
def _is_first(prefix: str) -> bool | None:
    """Return whether the key is one of first names, or of last names; None if of neither."""
    key = _CAMEL.sub("_", prefix)
    return True if _FIRST.fullmatch(key) else False if _LAST.fullmatch(key) else None


def halves(leaves: Sequence[Leaf]) -> Iterator[Cast]:
    """Yield the names whose words are values of keys: ``"first_name": "Maria", "last_name": "Keller"``."""
    before: tuple[Leaf, bool] | None = None
    for leaf in leaves:
        if not (leaf.prefix and leaf.edits):
            continue
        is_first = _is_first(leaf.prefix)
        if is_first is None:
            continue
        if before is not None and before[1] != is_first and 0 < leaf.ordinal - before[0].ordinal <= _NEAR:
            first, last = (leaf, before[0]) if is_first else (before[0], leaf)
            words = (*first.text.split(), *last.text.split())
            if {one.text[start:end] for one in (first, last) for start, end, _ in one.edits}.issuperset(words):
                yield Cast(pairs=(words,))
            before = None
        else:
            before = leaf, is_first
