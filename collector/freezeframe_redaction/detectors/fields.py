"""Values of telling keys: ``{"cognome": "Kowalczyk"}``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from freezeframe_redaction.detectors import phone
from freezeframe_redaction.detectors.people import names
from freezeframe_redaction.detectors.people.classes import test_of
from freezeframe_redaction.model import CLAIM, Candidate
from freezeframe_redaction.rules.fields import field_of
from freezeframe_redaction.surrogates.invented import holds_invented
from freezeframe_redaction.surrogates.marks import is_marked

NAME: Final = "key that says what its value is"
_SECOND_SIGN: Final = test_of("capital !common surname | capital !common given | capital !common surname_form")
_IS_PROSE: Final = test_of("common !known")
_NOBODY: Final = names.NOT_NAMES | names.OFFICES


def find(text: str, bounds: Sequence[tuple[int, int]], prefixes: Sequence[str]) -> Iterator[tuple[int, tuple[Candidate, str]]]:
    """Yield the leaves that are values of such keys, each with its number; `bounds` are the places of the leaves' own texts."""
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
        kind = held.kind
        if held.class_ == names.CLASS:
            spans = [span.span() for span in names.WORD.finditer(value)]
            while len(spans) > 1 and names.is_title(value[slice(*spans[0])]):
                spans = spans[1:]
            words = [value[slice(*span)] for span in spans]
            if not words or not _may_be_person(words) or not (held.sure or any(map(_SECOND_SIGN, words))):
                continue
            start, value = start + spans[0][0], value[spans[0][0] :]
        elif held.class_ == phone.CLASS:
            kind = phone.kind_of(value)
        marked = is_marked(held.class_, value) or holds_invented(value)
        yield index, (Candidate(start, start + len(value), CLAIM if marked else held.class_, kind), NAME)


def _may_be_person(words: Sequence[str]) -> bool:
    """Return whether the words may be a name: not a placeholder, an office or prose (``First name of the guest``)."""
    small = [word for word in words if word.islower() and word not in names.PARTICLES]
    return (
        not any(word.lower() in _NOBODY for word in words)
        and not all(map(_IS_PROSE, words))
        and not (len(words) > 1 and any(map(_IS_PROSE, small)))
    )
