"""Runs of digits as the rules of number classes see them: the digits, their layout, and the words before them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules import context
from freezeframe_redaction.rules.national_checks import every
from freezeframe_redaction.rules.read import Rules

_SEPARATORS = str.maketrans(".()/-+\t", "       ")
_BARE = str.maketrans("", "", " .()/-+\t")


@dataclass(slots=True, kw_only=True)
class NumberRun:
    """One number as the rules see it."""

    text: str
    low: int
    high: int
    start: int
    end: int
    raw: str
    digits: str
    groups: tuple[int, ...]
    """Lengths of the groups of digits."""
    before: str
    """Lower-cased text before the run, in its leaf."""
    hints: int
    """Families that `before` may name (`context.hints`)."""
    international: bool
    """Begins with ``+``."""

    @property
    def bare(self) -> bool:
        """True if it is digits only, without separators."""
        return len(self.groups) == 1 and not self.international


def run_at(text: str, low: int, high: int, start: int, end: int, *, near: tuple[str, int] | None = None) -> NumberRun:
    """Return the run at ``text[start:end]`` of the leaf ``text[low:high]``; `near` saves reading its context again."""
    raw = text[start:end]
    before, hints = near or context_of(text, low, start)
    plain = raw.isdigit()
    return NumberRun(
        text=text,
        low=low,
        high=high,
        start=start,
        end=end,
        raw=raw,
        digits=raw if plain else raw.translate(_BARE),
        groups=(end - start,) if plain else tuple(map(len, raw.translate(_SEPARATORS).split())),
        before=before,
        hints=hints,
        international=raw[0] == "+" or raw[:2] == "(+",
    )


def context_of(text: str, low: int, start: int) -> tuple[str, int]:
    """Return the text before a number at `start` that may reveal its class, and its hints."""
    before = context.before(text, low, start)
    return before, context.hints(before)


def announced_after(text: str, end: int, high: int) -> tuple[str, int] | None:
    """Return the same for words after a number: ``4417882031 is my account number``, ``4417882031 (PESEL)``."""
    match = _SAID_BEHIND.match(text, end, min(high, end + REACH_BEHIND))
    if match is None:
        return None
    words = f"{match.group(1) or match.group(2)}: ".lower()
    return words, context.hints(words)


REACH_BEHIND = 56
_SAID_BEHIND = re.compile(
    r",? (?:is|was|ist|es|est|è|é|to|jest|är|er|adalah)(?: also)? ((?:(?!not\b|in\b|at\b|on\b)[^\W\d_][^\W\d]*[ -]?){1,5})"
    r"|,? ?[(\[]((?:[^\W\d_][^\W\d]*[ .-]{0,2}){1,4})[)\]]"
)


Rule = Callable[[NumberRun], "Candidate | None"]


def rule_of(row: Mapping[str, Any], rules: Rules) -> Rule:
    """Return the rule of a row of ``rules/numbers.toml``; the table explains each entry."""
    least, most = row["digits"]
    groups, begins = frozenset(map(tuple, row.get("groups", ()))), tuple(row.get("begins", ()))
    form, raw = (re.compile(rules.filled(row.get(name, ""))) for name in ("form", "raw"))
    words, not_words = (re.compile(rules.filled(row[name])) if name in row else None for name in _WORDS)
    hint, no_hint = (context.HINTS.get(row.get(name, ""), 0) for name in ("hint", "no_hint"))
    within, abroad = row.get("within", context.REACH), row.get("international", False)
    check = every(row.get("check", ()))

    def rule(run: NumberRun) -> Candidate | None:
        digits = run.digits
        if (
            not least <= len(digits) <= most
            or (hint and not run.hints & hint)
            or (groups and run.groups not in groups)
            or (run.international and not abroad)
            or run.hints & no_hint
            or run.groups[: len(begins)] != begins
            or form.match(digits) is None
            or raw.match(run.raw) is None
        ):
            return None
        near = run.before[-within:]
        if words and (words.search(near) is None or (not_words and not_words.search(near))):
            return None
        return Candidate(run.start, run.end, row["class"], row.get("kind", "")) if check(digits) else None

    return rule


_WORDS = ("words", "not_words")
