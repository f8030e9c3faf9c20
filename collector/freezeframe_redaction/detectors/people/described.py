"""Two words that need not be on any list: the words next to them show a person, or a party to a contract or a case."""

from __future__ import annotations

from freezeframe_redaction.detectors.lexicon import COUNTRIES, SURNAMES
from freezeframe_redaction.detectors.people import names
from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules

_RULES = Rules("people_described")
_PARTY, _VERSUS = map(_RULES.form, ("party", "versus"))
_DESCRIBED, _LED_A_LIFE = map(_RULES.form, ("described", "led_a_life"))


def _described(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``May June is my boss``."""
    for match in _DESCRIBED.finditer(text, max(low, at - 90), min(high, at + 14)):
        if match.end() < at - 1:
            continue
        first, last = match.group(1), match.group(2)
        if (
            first[0].isupper()
            and last[0].isupper()
            and first.lower() not in names.NOT_NAMES
            and first.lower() not in ("the", "this", "that", "my", "our")
        ):
            return names.accept(text, [match.span(1), match.span(2)], "described")
    for pattern in (_LED_A_LIFE, _PARTY):
        for match in pattern.finditer(text, max(low, at - 90), min(high, at + 14)):
            if match.end() >= at - 1 and _may_be_both(*match.groups()):
                return names.accept(text, [match.span(1), match.span(2)], "described")
    return ()


def _may_be_both(first: str, last: str) -> bool:
    """Whether two words may be a given name and a surname, though no list has them: neither is a place or an ordinary word."""
    return (
        names.may_be_name(first)
        and names.may_be_name(last)
        and first.lower() not in names.NEVER_FIRST
        and not names.is_brand([first, last])
        and last.lower() not in COUNTRIES
        and first[1:].islower()
    )


_THE_PUBLIC = frozenset(["People", "State", "Commonwealth", "Regina", "States"])
_CROWN = _THE_PUBLIC | {"R"}


def _versus(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``Ostrowski v. Pemberton``: two surnames."""
    for match in _VERSUS.finditer(text, max(low, at - 44), min(high, at + 30)):
        words = match.groups()
        if match.end() >= at and all(
            word in _CROWN or (names.may_be_name(word) and (word.lower() in SURNAMES or not _THE_PUBLIC.isdisjoint(words)))
            for word in words
        ):
            return tuple(
                one
                for group in (1, 2)
                if match[group] not in _CROWN
                for one in names.accept(text, [match.span(group)], "versus")
            )
    return ()


DETECTORS = made_of(_RULES, {"described": _described, "versus": _versus})
