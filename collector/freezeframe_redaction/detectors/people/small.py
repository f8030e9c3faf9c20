"""Names in small letters, after words that announce one."""

from __future__ import annotations

from freezeframe_redaction.detectors.lexicon import COMMON, GIVEN, SURNAMES
from freezeframe_redaction.detectors.people import announced, names
from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules

_RULES = Rules("people_small")
_FORMS = _RULES.forms


def _small(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``my name is anna kowalska``: written in small letters, so the words themselves must be names."""
    start = at - 1
    word = names.WORD.match(text, start, min(high, start + 24))
    if word is None or ((plain := word.group().removesuffix("'s")) not in GIVEN and plain not in SURNAMES):
        return ()
    reach = _FORMS.small_words.match(text, start, min(high, start + 60))
    if reach is None:
        return ()
    spans = [one.span() for one in names.WORD.finditer(text, start, reach.end())]
    words = [text[a:b] for a, b in spans]
    if not words or not words[0].islower():
        return ()
    first = words[0].removesuffix("'s")
    pair = len(words) > 1 and words[-1].islower()
    surname = words[-1].removesuffix("'s") if pair else ""
    if text[max(low, start - 4) : start].lower() == "its " and not _FORMS.calls.match(text, spans[0][1]):
        return ()
    strong = text[max(low, start - 24) : start].rstrip(" \n").lower().endswith(announced.STRONG)
    titled = names.title_start(text, low, start) < start
    if (
        pair
        and first in GIVEN
        and len(first) > 2
        and surname not in COMMON
        and (surname in SURNAMES or names.SURNAME_ENDING.search(surname) or (strong and len(surname) > 3))
        and first not in names.SHORT_WORDS
    ):
        return names.accept(text, spans, "small")
    if first in names.ORDINARY_NAMES and not strong and not titled:
        return ()  # "Dad joke"
    if len(first) > 2 and (names.is_plainly_given(first) or (titled and first in SURNAMES and first not in COMMON)):
        return names.accept(text, spans[:1], "small")
    return ()


DETECTORS = made_of(_RULES, _small)
