"""Initials and a surname: ``J.R. Haversham``, ``T. S. Oyelaran``, ``K. Whitcombe``."""

from __future__ import annotations

from freezeframe_redaction.detectors.lexicon import COMMON, SURNAMES, phrases
from freezeframe_redaction.detectors.people import names
from freezeframe_redaction.detectors.people.classes import by_words
from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules

_RULES = Rules("people_initials")
_FORMS = _RULES.forms
_NOT_INITIALS = frozenset(phrases("initials.not_initials"))
_BEFORE_A_PERSON = frozenset(phrases("initials.before_a_person"))


def _initials(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``J.R. Haversham``: initials, and a surname by its form, by the lists or by the word before."""
    for match in _FORMS.initials.finditer(text, max(low, at - 14), min(high, at + 24)):
        if match.end() < at:
            continue
        surname = match.group(3).removesuffix("'s")
        letters = "".join(filter(str.isalpha, text[match.start() : match.start(3)])).lower()
        if (
            letters in _NOT_INITIALS
            or surname.lower() in COMMON
            or not surname[0].isupper()
            or len(surname) < 4
            or not surname[1:].islower()
        ):
            return ()
        before = text[max(low, match.start() - 16) : match.start()].rstrip(" ").rpartition(" ")[2].strip("(\"'*,:;>#-").lower()
        if text.startswith((" & ", ", I", " In", " Lt", ", L", " and Co"), match.end()):
            return ()  # a company
        if not match.group(2) and _FORMS.is_option.search(text, max(low, match.start() - 2), match.start() + 1):
            return ()
        if surname.lower() in SURNAMES or names.has_form_of_surname(surname) or before in _BEFORE_A_PERSON:
            return names.accept(text, [match.span(3)], "initials")
        return ()
    return ()


DETECTORS = made_of(_RULES, _initials, by_words)
