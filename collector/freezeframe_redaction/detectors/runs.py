"""Runs of digits as the rules of number classes see them: the digits, their layout, and the words before them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from freezeframe_redaction.model import Candidate, Example
from freezeframe_redaction.rules import context

TRIGGERS = (r"(?#digits)[0-9](?:[ .()/\-\t]{0,2}[0-9]){8}",)
"""Nine digits in a row, with single separators. `numbers.find` judges what may come before them."""

_SEPARATORS = str.maketrans(".()/-+\t", "       ")
_BARE = str.maketrans("", "", " .()/-+\t")


@dataclass(slots=True, kw_only=True)
class Run:
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
    """Which families `before` may name (`context.hints`)."""
    international: bool
    """Begins with ``+``."""

    @property
    def bare(self) -> bool:
        """Whether it is digits only, without separators."""
        return len(self.groups) == 1 and not self.international


def run_at(text: str, low: int, high: int, start: int, end: int, *, near: tuple[str, int] | None = None) -> Run:
    """Return the run at ``text[start:end]`` of the leaf ``text[low:high]``; `near` saves reading its context again."""
    raw = text[start:end]
    before, hints = near or context_of(text, low, start)
    plain = raw.isdigit()
    return Run(
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
    """Return the text that may say what a number at `start` is, and its hints."""
    before = context.before(text, low, start)
    return before, context.hints(before)


def said_behind(text: str, end: int, high: int) -> tuple[str, int] | None:
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


Rule = Callable[[Run], "Candidate | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberKind:
    """What a rule finds; `numbers.DETECTORS` has one detector for each."""

    name: str
    class_: str
    examples: tuple[Example, ...]
    row: str = ""
    triggers: tuple[str, ...] = TRIGGERS
