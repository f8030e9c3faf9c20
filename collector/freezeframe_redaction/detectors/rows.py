"""The engine of the tables of rules: the few shapes that a check has, and the detectors that rows make of them.

A check is called where a trigger ended. Most look for one pattern: right after the trigger (`after`), or around it (`around`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from freezeframe_redaction.detectors import checks
from freezeframe_redaction.model import CLAIM, Candidate, Detector, Example, Find
from freezeframe_redaction.rules import context
from freezeframe_redaction.rules.national_checks import every, passes
from freezeframe_redaction.rules.read import Rule, Rules
from freezeframe_redaction.surrogates.marks import is_marked

Is = Callable[[str], bool]
Take = Callable[[re.Match[str]], tuple[Candidate, ...]]


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
    group: int = 1,
) -> tuple[Candidate, ...]:
    """Return the group as a finding, or as a claim if it is a surrogate; nothing without a match."""
    if match is None:
        return ()
    return (Candidate(*match.span(group), CLAIM if is_marked(class_, match[group]) else class_, kind),)


def reaching(
    pattern: re.Pattern[str], text: str, low: int, high: int, at: int, back: int, ahead: int, *, begun: bool = False
) -> re.Match[str] | None:
    """Return the first match around `at` that ends there or after it; with `begun` it must also begin before `at`."""
    for match in pattern.finditer(text, max(low, at - back), min(high, at + ahead)):
        if match.end() >= at and not (begun and match.start() >= at):
            return match
    return None


def after(pattern: re.Pattern[str], reach: int, take: Take, *, back: int = 0) -> Find:
    """Return the check that the pattern matches right after the trigger, or `back` characters before that."""

    def find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
        match = pattern.match(text, at, min(high, at + reach))
        if match is None and back:
            match = pattern.match(text, at - back, min(high, at + reach))
        return take(match) if match is not None else ()

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


def around(pattern: re.Pattern[str], back: int, ahead: int, take: Take, *, begun: bool = False) -> Find:
    """Return the check that the pattern matches around the trigger's end."""

    def find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
        match = reaching(pattern, text, low, high, at, back, ahead, begun=begun)
        return take(match) if match is not None else ()

    return find


_NO_FINDS: Final[Mapping[str, Find]] = MappingProxyType({})
_NO_CHECKS: Final[Mapping[str, Is]] = MappingProxyType({})
_NO_TAKES: Final[Mapping[str, Take]] = MappingProxyType({})


def by_name(*finds: Find) -> dict[str, Find]:
    """Return checks by their names, as tables call them: without the underscore."""
    return {find.__name__.strip("_"): find for find in finds}


def made_of(
    rules: Rules,
    finds: Mapping[str, Find] = _NO_FINDS,
    where: Mapping[str, Is] = _NO_CHECKS,
    takes: Mapping[str, Take] = _NO_TAKES,
    *,
    by_words: Callable[[Rule], Take] | None = None,
) -> tuple[Detector, ...]:
    """Return the detectors of a family's table; `finds`, `where` and `takes` are its checks that no grammar says, by name.

    `by_words` makes the check of a row that tests words.
    """
    named, takes = {**checks.WHERE, **where}, {**checks.TAKES, **takes}
    made: dict[str, Find] = {}
    out: list[Detector] = []
    for rule in rules.rules():
        # Rows that differ in their triggers only share a check, so that a value is looked at once.
        same = repr(replace(rule, name="", row="", triggers=(), shows=()))
        if same not in made:
            is_one = _named_or_steps(rule.where, named) if rule.where else None
            take = takes[rule.take] if rule.take else _taking(rule, is_one)
            if rule.words and by_words is not None:
                take = by_words(rule)
            made[same] = _beside_words(rule, finds[rule.find] if rule.find else _by_grammar(rule, take))
        detector = row(rule.name, rule.class_, made[same], *rule.triggers, shows=rule.shows, others=rule.others)
        out.append(replace(detector, row=rule.row))
    return tuple(out)


def _named_or_steps(where: str | Sequence[Any], named: Mapping[str, Is]) -> Is:
    if isinstance(where, str):
        return named[where]
    check = every(where)
    return lambda value: passes(check, value.upper())


def _taking(rule: Rule, where: Is | None) -> Take:
    """Return what takes the group of a match as a finding, if `where` holds for it."""

    def take(match: re.Match[str]) -> tuple[Candidate, ...]:
        group = rule.group if rule.group >= 0 else match.lastindex or 0
        if where is not None and not is_marked(rule.class_, match[group]) and not where(match[group]):
            return ()
        return value(match, rule.class_, rule.kind, group)

    return take


def _by_grammar(rule: Rule, take: Take) -> Find:
    back, ahead = rule.reach
    if rule.after is not None:
        return after(rule.after, ahead, take, back=back)
    assert rule.around is not None, rule.name
    return around(rule.around, back, ahead, take, begun=rule.begun)


def _beside_words(rule: Rule, check: Find) -> Find:
    """Return the check that also looks at the words before the value, or before the trigger's end, if the row names any."""
    before, unless, within = rule.before, rule.unless, rule.within
    if rule.behind is not None:
        return behind_word(rule.behind, within, check)
    if before is None and unless is None:
        return check

    def find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
        if unless is not None and unless.search(text, max(low, at - within), at):
            return ()
        found = check(text, low, high, at)
        if found and before is not None and not before.search(context.before(text, low, found[0].start, within)):
            return ()
        return found

    return find
