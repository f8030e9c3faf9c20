"""Names after words for relatives: ``my wife Ana``, ``his brother-in-law, Joaquim``, ``ma sœur Apolline``."""

from __future__ import annotations

from freezeframe_redaction.detectors.lexicon import phrases
from freezeframe_redaction.detectors.people import announced, names
from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules

_ENGLISH = phrases("kin.english")
_ENGLISH_WORDS = frozenset(_ENGLISH)
_RULES = Rules(
    "people_kin",
    {
        "english": announced.as_alternatives([*_ENGLISH, "in-law"]),
        "others": announced.as_alternatives(phrases("kin.others")),
        "english_in_order": "|".join(_ENGLISH),
    },
)
_FORMS = _RULES.forms


def _kin(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """After ``my wife`` a word is a name if it looks like one; after ``wife`` alone, if a list has it."""
    start = at - 1
    word = names.WORD.match(text, start, min(high, start + 30))
    if word is not None and (
        word.group().lower() in _ENGLISH_WORDS or (word.group().isupper() and names.is_ordinary(word.group()))
    ):
        return ()  # "Father Son and Holy Ghost", "LANDLORD IN THE PROPERTY"
    if _FORMS.before.search(text, max(low, start - 48), start) is not None:
        tokens = names.tokens_at(text, start, high)
        words = [text[a:b] for a, b in tokens]
        if words and words[0].lower() not in names.NOT_NAMES and (names.may_be_name(words[0]) or names.is_given(words[0])):
            return names.accept(text, tokens if all(map(names.may_be_name, words)) else tokens[:1], "kin")
    return announced.find(text, low, high, at)


DETECTORS = made_of(_RULES, _kin)
