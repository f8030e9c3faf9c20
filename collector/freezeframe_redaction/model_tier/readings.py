"""Combine the model's labels into whole words, whole names, whole addresses.

The model reads lower case only, so a word's spelling and its presence on a list are further evidence: the more
of it, the less sure the model has to be. Pure functions; the model itself is in `prose`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from freezeframe_redaction.detectors.lexicon import COMMON, COUNTRIES
from freezeframe_redaction.detectors.people import names
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.surrogates.invented import holds_invented

PERSON: Final = frozenset({"GIVEN_NAME", "SURNAME"})
ADDRESS: Final = frozenset({"BUILDING_NUMBER", "STREET_NAME", "SECONDARY_ADDRESS", "CITY", "STATE", "ZIP_CODE"})
_TOWN: Final = frozenset({"CITY", "ZIP_CODE"})
MIN_CHANCE: Final = 0.02
"""The least chance of a token that is considered: enough if the word looks like a name, and its position agrees."""
_MIN_ADDRESS_CHANCE: Final = 0.6
_BETWEEN_NAMES = re.compile(r"[ \t]?(?:[^\W\d_]\.? |['’.-] ?|(?:de|van|von|der|den|la|di|da|dos|del|bin|al) ){0,3}[ \t]?$")
_BETWEEN_PARTS = re.compile(r"[\s,.>?-]{0,12}$")
_SENTENCE = re.compile(r"(?:\A|[.!?:;\n\"“(>*|-])[ \t\"'“(]*\Z")
_NEXT_WORD = re.compile(r"(,?)[ ]([^\W\d_]+)")
_NAMED_THING = re.compile(r"(?:'s)?(?:[ -]| & )([^\W\d_]+(?:'s)?)")
_CAMEL = re.compile(r"(?!Mc|Mac|De|La|Le|Van|Fitz)[^\W\d_]*?[a-z][A-Z]|[A-Z]{2,}[a-z]")
_BEFORE_CODE: Final = frozenset("./\\_")
_BEHIND_CODE: Final = frozenset("(_[/")
_NEVER: Final = 2.0
_FORMS = frozenset("ltd inc llc corp gmbh plc corporation incorporated company orchestra holdings agency associates".split())
"""Words that mark firms in any position; `OFFICES` only if they are written as names."""


class Token(NamedTuple):
    """A piece of a word, with the model's label and certainty (0 to 1)."""

    start: int
    end: int
    label: str
    chance: float


class _Group(NamedTuple):
    start: int
    end: int
    class_: str
    labels: frozenset[str]


def combine(window: str, tokens: Sequence[Token]) -> list[Candidate]:
    """Return whole names and addresses from the labelled pieces of words."""
    groups: list[_Group] = []
    for word in _words(window, tokens):
        start, end, label, chance = word
        class_ = "PERSON" if label in PERSON else "ADDRESS"
        last = groups[-1] if groups else None
        goes_on = last is not None and class_ == last.class_ == "PERSON" and _goes_on(window, last.end, word)
        if chance < (MIN_CHANCE if goes_on else _wanted(window, word)):
            continue
        joins = _BETWEEN_NAMES if class_ == "PERSON" else _BETWEEN_PARTS
        if last is not None and last.class_ == class_ and joins.match(window[last.end : start]):
            groups[-1] = _Group(last.start, end, class_, last.labels | {label})
        else:
            groups.append(_Group(start, end, class_, frozenset({label})))
    return [Candidate(group.start, group.end, group.class_, "model") for group in groups if _is_worth(window, group)]


def _words(window: str, tokens: Sequence[Token]) -> list[Token]:
    """Return whole words, each with the label and the chance of its surest piece."""
    out: list[Token] = []
    for token in tokens:
        if not any(map(str.isalnum, window[token.start : token.end])):
            continue
        start, end = _whole_word(window, token.start, token.end)
        if out and start < out[-1].end:
            if token.chance > out[-1].chance:
                out[-1] = Token(out[-1].start, out[-1].end, token.label, token.chance)
            continue
        out.append(Token(start, end, token.label, token.chance))
    return out


def _goes_on(window: str, end: int, word: Token) -> bool:
    """Return whether the word may be the rest of a name that ended at `end`: right after it, and not an ordinary word."""
    text = window[word.start : word.end]
    return window[end : word.start] == " " and (text[0].isupper() or text.lower() not in COMMON)


def _wanted(window: str, word: Token) -> float:
    """Return the certainty that the model needs for a word."""
    if word.label in ADDRESS:
        return _MIN_ADDRESS_CHANCE
    text = window[word.start : word.end]
    known, common = names.is_known(text), text.lower() in COMMON
    if not known and (
        _CAMEL.match(text)
        or window[word.start - 1 : word.start] in _BEFORE_CODE
        or window[word.end : word.end + 1] in _BEHIND_CODE
    ):
        return _NEVER
    if not text[0].isupper():
        # Documentation, too, has words that no list knows: only what the model is quite sure of.
        return 0.4 if known and not common else 0.97
    if common:
        return 0.8
    if text.lower() in names.TECHNICAL:
        return 0.97
    if text.isupper() and len(text) > 1 and not known:
        return 0.97
    begins = _SENTENCE.search(window, max(0, word.start - 16), word.start)
    if not begins and text[1:].islower() and (names.is_plain_given_name(text) or names.has_form_of_surname(text)):
        return MIN_CHANCE
    return 0.2 if known else 0.6


def _is_worth(window: str, group: _Group) -> bool:
    value = window[group.start : group.end]
    if holds_invented(value) or len(value) < 2 or value.lower() in COUNTRIES:
        return False
    if group.class_ == "PERSON":
        return not (_is_firm(window, group) or _is_named_after(window, group))
    # Many people live in a town or a country, "room 7" and "port 5432" identify no one, and digits alone are a list.
    has_letters, has_digits = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    return has_letters and has_digits and ("STREET_NAME" in group.labels or len(group.labels) > 2 or group.labels >= _TOWN)


def _is_named_after(window: str, group: _Group) -> bool:
    """Return whether the words name a product or a method: ``Charles Schwab``, ``Kalman Filter``."""
    words = [*window[max(0, group.start - 12) : group.start].split()[-1:], *window[group.start : group.end].split()]
    behind = _NAMED_THING.match(window, group.end)
    if behind is not None:
        if behind[1].lower() in names.NAMED_AFTER_NOUNS:
            return True
        words.append(behind[1])
    return names.is_brand([word.strip("\"'(),.;:").removesuffix("'s") for word in words])


def _is_firm(window: str, group: _Group) -> bool:
    """Return whether the words are a firm's or an organisation's: ``Mitchell Ltd``, ``Golden Helix Orchestra``."""
    own = window[group.start : group.end].split()[-1]
    comma, following = match.groups() if (match := _NEXT_WORD.match(window, group.end)) else ("", "")
    if own.lower() in _FORMS or following.lower() in _FORMS:
        return True
    # "Jane Keller, Marketing" is a person.
    return _is_office(own) or (not comma and _is_office(following))


def _is_office(word: str) -> bool:
    return word[:1].isupper() and word.lower() in names.OFFICES


def _whole_word(window: str, start: int, end: int) -> tuple[int, int]:
    while start > 0 and window[start - 1].isalnum() and window[start].isalnum():
        start -= 1
    while end < len(window) and window[end].isalnum() and window[end - 1].isalnum():
        end += 1
    return start, end
