"""Two words that need not be on any list: the words next to them show a person, or a party to a contract or a case."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.lexicon import COUNTRIES, SURNAMES
from freezeframe_redaction.detectors.people import names
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rows import row

_DESCRIBED = re.compile(
    rf"(?<!\w)({names.TOKEN}) ({names.TOKEN}),? (?:is|was|will be|has been) (?:my|our|his|her|their|the|a|an|your) (?:\w+ )?(?:boss|wife|husband|son"
    rf"|daughter|mother|father|brother|sister|manager"
    r"|colleague|friend|neighbou?r|doctor|physician|nurse|lawyer|patient|customer|client|tenant|landlord|teacher|partner|assistant|uncle|aunt|cousin"
    r"|employee|contact|accountant|applicant)"
)

_LED_A_LIFE = re.compile(
    rf"(?<![\w.])({names.TOKEN}) ({names.TOKEN}),? (?:holds an? (?:[BM]Sc|BA|MA|MBA|PhD|degree|bachelor|master|doctorate|diploma)|(?:lives|lived|grew up"
    rf"|studied|worked) (?:in|at)\b|was born\b|graduated from\b)"
)
_PARTY = re.compile(rf"(?<![\w.])({names.TOKEN}) ({names.TOKEN}),? \((?:hereinafter|the [\"“']|[\"“'](?:the )?[A-Z])")
"""What only people do, and how a contract names its parties: the names need not be on any list."""


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
_VERSUS = re.compile(rf"(?<![\w.])({names.TOKEN}),? (?:v|vs)\.? ({names.TOKEN})(?!\w)")


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


DETECTORS = (
    row("name: described", names.CLASS, _described,
        rf"{names.START}{names.CAPITAL}{names.SMALL}+ {names.CAPITAL}{names.SMALL}+,? (?:is|was) (?:my|our|his|her|their|the|a|an|your) [a-z]{{3}}",
        rf"{names.START}{names.CAPITAL}{names.SMALL}+ {names.CAPITAL}{names.SMALL}+,? (?:holds an? |lived? |lives |grew up |studied |worked |was born"
        rf"|graduated |\((?:hereinafter|the [\"']|[\"'](?:the )?[A-Z]))",
        shows=("⟦May June⟧ is my boss", "Data Lake is the answer")),
    row("name: versus", names.CLASS, _versus,
        rf"(?:{names.CAPITAL}{names.SMALL}+|\bR),? vs?\.? {names.CAPITAL}{names.SMALL}{{2}}",
        shows=("in ⟦Ostrowski⟧ v. Pemberton the court", "Python vs Rust; Kafka vs. Pulsar")),
)  # fmt: skip
