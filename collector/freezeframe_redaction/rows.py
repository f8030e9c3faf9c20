"""Detectors as rows: the few shapes that a check has, and the row that joins a check to its triggers and examples.

A check is called where a trigger ended. Most look for one pattern: right after the trigger (`after`), or around it (`around`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from freezeframe_redaction.model import CLAIM, Candidate, Detector, Example, Find

Group = int | str


def never(text: str) -> bool:
    """Whether a value of a class without a mark is a surrogate: only the list of surrogates says so."""
    return False


def row(name: str, class_: str, find: Find, *triggers: str, shows: Iterable[str], others: Iterable[str] = ()) -> Detector:
    """Return a detector.

    `shows` are its examples, each with the value in brackets (``"IFSC ⟦HDFC0001234⟧"``); a text without brackets is a near miss
    of the example before it.
    """
    examples: list[Example] = []
    for shown in shows:
        before, opened, rest = shown.partition("⟦")
        value, _, behind = rest.partition("⟧")
        if opened:
            examples.append(Example(text=before + value + behind, value=value))
        else:
            examples[-1] = Example(text=examples[-1].text, value=examples[-1].value, near_miss=shown)
    return Detector(name=name, class_=class_, triggers=triggers, find=find, examples=tuple(examples), others=frozenset(others))


def value(
    match: re.Match[str] | None,
    class_: str,
    kind: str = "",
    group: Group = 1,
    is_marked: Callable[[str], bool] = never,
) -> tuple[Candidate, ...]:
    """Return the group as a finding, or as a claim if it is a surrogate; nothing without a match."""
    if match is None:
        return ()
    return (Candidate(*match.span(group), CLAIM if is_marked(match[group]) else class_, kind),)


def reaching(
    pattern: re.Pattern[str], text: str, low: int, high: int, at: int, back: int, ahead: int, *, begun: bool = False
) -> re.Match[str] | None:
    """Return the first match around `at` that ends there or after it; with `begun` it must also begin before `at`."""
    for match in pattern.finditer(text, max(low, at - back), min(high, at + ahead)):
        if match.end() >= at and not (begun and match.start() >= at):
            return match
    return None


def after(
    pattern: re.Pattern[str],
    class_: str,
    reach: int,
    kind: str = "",
    *,
    back: int = 0,
    is_marked: Callable[[str], bool] = never,
) -> Find:
    """Return the check that the pattern matches right after the trigger, or `back` characters before that."""

    def find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
        match = pattern.match(text, at, min(high, at + reach))
        if match is None and back:
            match = pattern.match(text, at - back, min(high, at + reach))
        return value(match, class_, kind, is_marked=is_marked)

    return find


def behind_word(word: re.Pattern[str], back: int, check: Find) -> Find:
    """Return the check that holds behind a word before the trigger's end, for a trigger that ends in the value."""

    def find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
        for match in word.finditer(text, max(low, at - back), at):
            found = check(text, low, high, match.end())
            if found and found[0].end >= at:
                return found
        return ()

    return find


def has_digit(text: str) -> bool:
    """Whether the text has a digit."""
    return any(map(str.isdigit, text))


def around(
    pattern: re.Pattern[str],
    class_: str,
    back: int,
    ahead: int,
    kind: str = "",
    *,
    group: Group = 1,
    begun: bool = False,
    where: Callable[[str], bool] | None = None,
    is_marked: Callable[[str], bool] = never,
) -> Find:
    """Return the check that the pattern matches around the trigger's end, and that `where` holds for its group."""

    def find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
        match = reaching(pattern, text, low, high, at, back, ahead, begun=begun)
        if match is None or (where is not None and not is_marked(match[group]) and not where(match[group])):
            return ()
        return value(match, class_, kind, group, is_marked)

    return find
