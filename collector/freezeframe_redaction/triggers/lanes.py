"""How triggers are given to the trigger engine so that it is fast: which are looked for together, and each word by itself.

Vectorscan finds words of three letters and more at hardly any cost, however many, and small automata at a nanosecond per byte;
but it merges automata, and an alternation of many words is an automaton itself. Hence two rules, both measured
(docs/decisions/0020): an alternation is taken apart into an expression for each word, and triggers without a word in
them are kept in separate lanes, each a database, with those that they merge well with.
"""

from __future__ import annotations

import re
from typing import Final

_LANE: Final = re.compile(r"\(\?#([a-z0-9]+)\)")
WORDS: Final = "words"
"""The lane of triggers that do not name one."""
_MIN_BRANCHES: Final = 5
"""Alternations of fewer are left unchanged."""


def lane_of(trigger: str) -> tuple[str, str]:
    """Return the lane that a trigger names in a comment at its beginning (``(?#digits)``), and its expression."""
    match = _LANE.match(trigger)
    return (match[1], trigger[match.end() :]) if match else (WORDS, trigger)


def one_by_one(expression: str) -> list[str]:
    """Return expressions that together match what this one does, each without its longest alternation.

    ``\\b(?:mon|tues|wednes|thurs|fri)day`` becomes five. Groups within the alternatives are taken apart too; other groups are
    not, since they would multiply into thousands, nor are expressions of a kind that detectors do not use but a policy may
    (flags in the middle, quotations).
    """
    if expression.startswith("(?i)"):
        return ["(?i)" + one for one in one_by_one(expression[4:])]
    if _UNREAD.search(expression):
        return [expression]
    groups, bars = _outline(expression)
    if bars:
        return [one for part in _cut(expression, -1, bars, len(expression)) for one in one_by_one(part)]
    long = [group for group in groups if len(group[2]) + 1 >= _MIN_BRANCHES and not _REPEATED.match(expression, group[1] + 1)]
    if not long:
        return [expression]
    start, end, bars = max(long, key=lambda group: len(group[2]))
    words = [one for part in _cut(expression, start, bars, end) for one in one_by_one(part)]
    return [f"{expression[: start + 1]}{word}{expression[end:]}" for word in words]


def _cut(text: str, before: int, bars: list[int], end: int) -> list[str]:
    """Return what is between the bars."""
    return [text[first + 1 : last] for first, last in zip([before, *bars], [*bars, end], strict=True)]


_Group = tuple[int, int, list[int]]
"""Where the opening of a group ends, where its closing begins, and the bars between them."""
_TOKEN: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?[i-]*:)?|[)|]", re.DOTALL)
_REPEATED: Final = re.compile(r"[?*+{]")
_UNREAD: Final = re.compile(r"\\Q|\(\?(?![i-]*:)")


def _outline(expression: str) -> tuple[list[_Group], list[int]]:
    """Return the outermost groups of an expression, and the bars outside them."""
    groups: list[_Group] = []
    outside: list[int] = []
    bars: list[int] = []
    depth = start = 0
    for token in _TOKEN.finditer(expression):
        match token.group()[0]:
            case "(":
                depth += 1
                if depth == 1:
                    start, bars = token.end() - 1, []
            case ")":
                depth -= 1
                if depth == 0:
                    groups.append((start, token.start(), bars))
            case "|" if depth < 2:
                (bars if depth else outside).append(token.start())
            case _:
                pass
    return groups, outside
