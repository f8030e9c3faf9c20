"""The engine of the tables of rules: the few shapes that a check has, and the detectors that rows make of them.

A check is called where a trigger ended. Most look for one pattern: right after the trigger (`after`), or around it (`around`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from freezeframe_redaction.detectors.checks import NAMED, Take, value
from freezeframe_redaction.model import Candidate, Detector, Example, Find
from freezeframe_redaction.rules import context
from freezeframe_redaction.rules.national_checks import every, passes
from freezeframe_redaction.rules.read import Rule, Rules
from freezeframe_redaction.surrogates.marks import is_marked


def examples(shows: Iterable[str]) -> tuple[Example, ...]:
    """Return examples, each with its value in brackets; a text without brackets is a near miss of the one before it."""
    made: list[Example] = []
    for shown in shows:
        before, opened, rest = shown.partition("⟦")
        value, _, behind = rest.partition("⟧")
        if opened:
            made.append(Example(text=before + value + behind, value=value))
        else:
            made[-1] = replace(made[-1], near_miss=shown)
    return tuple(made)


def reaching(
    pattern: re.Pattern[str], text: str, low: int, high: int, at: int, back: int, ahead: int, *, begun: bool = False
) -> re.Match[str] | None:
    """Return the first match around `at` that ends there or after it; with `begun` it must also begin before `at`."""
    for match in pattern.finditer(text, max(low, at - back), min(high, at + ahead)):
        if match.end() >= at and not (begun and match.start() >= at):
            return match
    return None


def made_of(rules: Rules, *checks: Callable[..., Any]) -> tuple[Detector, ...]:
    """Return the detectors of a family's table; `checks` are those that no grammar expresses.

    Rows refer to them by name, without the underscore, in `find`, `take` and `where`. `by_words` among them
    makes the check of rows that test words.
    """
    named = {**NAMED, **{check.__name__.strip("_"): check for check in checks}}
    made: dict[str, Find] = {}
    out: list[Detector] = []
    for rule in rules.rules():
        # Rows that differ in their triggers only share a check, so that a value is looked at once.
        same = repr(replace(rule, name="", row="", triggers=(), shows=()))
        if same not in made:
            made[same] = _near_words(rule, named[rule.find] if rule.find else _by_grammar(rule, named))
        out.append(
            Detector(
                name=rule.name,
                class_=rule.class_,
                triggers=rule.triggers,
                find=made[same],
                examples=examples(rule.shows),
                others=frozenset(rule.others),
                row=rule.row,
            )
        )
    return tuple(out)


def _where(where: str | Sequence[Any], named: Mapping[str, Callable[..., Any]]) -> Callable[[str], bool]:
    if not where:
        return lambda value: True
    if isinstance(where, str):
        return named[where]
    check = every(where)
    return lambda value: passes(check, value.upper())


def _taking(rule: Rule, where: Callable[[str], bool]) -> Take:
    """Return a function that takes the group of a match as a finding, if it meets `where`."""

    def take(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
        group = rule.group if rule.group >= 0 else match.lastindex or 0
        return (
            value(match, rule.class_, rule.kind, group) if is_marked(rule.class_, match[group]) or where(match[group]) else ()
        )

    return take


def _by_grammar(rule: Rule, named: Mapping[str, Callable[..., Any]]) -> Find:
    """Return the check that the row's pattern matches right after the trigger, up to `back` characters before that, or in the answer
    to a question that it is in; or around it.
    """
    take: Take = (
        named["by_words"](rule) if rule.words else named[rule.take] if rule.take else _taking(rule, _where(rule.where, named))
    )
    form, (back, ahead) = rule.after or rule.around, rule.reach
    assert form is not None, rule.name

    def find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
        match = form.match(text, at, min(high, at + ahead))
        if match is None and back:
            match = form.match(text, at - back, min(high, at + ahead))
        found = take(match, low, high) if match is not None else ()
        if not found and (answer := context.answer(text, at - back, high)):
            match = form.match(text, answer, min(high, answer + ahead))
            return take(match, low, high) if match is not None else ()
        return found

    def find_around(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
        match = reaching(form, text, low, high, at, back, ahead, begun=rule.begun)
        return take(match, low, high) if match is not None else ()

    return find if rule.after is not None else find_around


def _near_words(rule: Rule, check: Find) -> Find:
    """Return the check that also looks at the words before the value, or before the trigger's end, if the row names any."""
    before, unless, behind, within = rule.before, rule.unless, rule.behind, rule.within

    def find_behind(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
        assert behind is not None
        for match in behind.finditer(text, max(low, at - within), at):
            found = check(text, low, high, match.end())
            if found and found[0].end >= at:
                return found
        return ()

    if behind is not None:
        return find_behind
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
