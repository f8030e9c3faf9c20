"""The values of keys that say what they are: ``{"cognome": "Kowalczyk"}``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from freezeframe_redaction.detectors.people import names
from freezeframe_redaction.detectors.people.classes import test_of
from freezeframe_redaction.model import CLAIM, Candidate
from freezeframe_redaction.rules.fields import field_of
from freezeframe_redaction.surrogates.invented import holds_invented
from freezeframe_redaction.surrogates.marks import is_marked

NAME: Final = "key that says what its value is"
_SECOND_SIGN: Final = test_of("capital !common surname | capital !common given | capital !common surname_form")
_NOBODY: Final = names.NOT_NAMES | names.OFFICES


def find(text: str, bounds: Sequence[tuple[int, int]], prefixes: Sequence[str]) -> Iterator[tuple[int, tuple[Candidate, str]]]:
    """Yield the leaves that are values of such keys, each with its number; `bounds` are where the leaves' own texts are."""
    for index, prefix in enumerate(prefixes):
        held = field_of(prefix[:-2]) if prefix.endswith(": ") else None
        if held is None:
            continue
        low, high = bounds[index]
        value = text[low:high]
        start = low + len(value) - len(value.lstrip())
        value = value.strip()
        if not held.look.fullmatch(value):
            continue
        if held.class_ == names.CLASS:
            words = names.WORD.findall(value)
            if any(word.lower() in _NOBODY for word in words) or not (held.sure or any(map(_SECOND_SIGN, words))):
                continue
        marked = is_marked(held.class_, value) or holds_invented(value)
        yield index, (Candidate(start, start + len(value), CLAIM if marked else held.class_, held.kind), NAME)
