"""Classes that a policy defines: their detectors and their surrogates."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import orjson

from freezeframe_redaction.model import Candidate, Detector, Example
from freezeframe_redaction.policies import linear
from freezeframe_redaction.policies.policy import CustomClass, Policy
from freezeframe_redaction.prf import Prf
from freezeframe_redaction.rules import context
from freezeframe_redaction.rules.national_checks import every, passes
from freezeframe_redaction.surrogates.invented import holds_invented, invent
from freezeframe_redaction.surrogates.shapes import bare, make_identifier

WINDOW: Final = 256
"""Characters on each side of a trigger's end in which a user's pattern may match."""
_LANE = "(?#custom)"
"""Apart from the built-in lanes, so that a policy compiles only its own patterns."""
_KEYED_VALUE = re.compile(r"[\"']?\s?[:=]\s?[\"']?([^\s\"'\x1f][^\"\x1f\n]{0,200})")


def custom_detectors(policy: Policy) -> tuple[Detector, ...]:
    """Return one detector for each pattern and each set of keys."""
    out: list[Detector] = []
    for entry in policy.custom:
        if entry.pattern:
            out.append(
                Detector(
                    name=f"custom: {entry.name}",
                    class_=entry.name,
                    triggers=(_LANE + entry.pattern,),
                    find=_by_pattern(entry),
                    examples=(Example(text=entry.example, value=entry.example),),
                )
            )
        if entry.keys:
            names = "|".join(map(re.escape, entry.keys))
            out.append(
                Detector(
                    name=f"custom: {entry.name} by key",
                    class_=entry.name,
                    triggers=(rf"{_LANE}(?i)(?:^|[^A-Za-z0-9_])(?:{names})[\"']?\s?[:=]",),
                    find=_by_key(entry),
                    examples=(Example(text=f"{entry.keys[0]}: value-1", value="value-1"),),
                )
            )
    return tuple(out)


def _by_pattern(entry: CustomClass) -> Callable[[str, int, int, int], tuple[Candidate, ...]]:
    pattern = linear.InnerPattern(entry.pattern)
    check = every(orjson.loads(entry.check)) if entry.check else None
    words = tuple(word.lower() for word in entry.before)

    def find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
        span = pattern.span_ending(text, max(low, at - WINDOW), min(high, at + WINDOW), at)
        if span is None:
            return ()
        value = text[slice(*span)]
        if words and not any(word in context.before(text, low, span[0]) for word in words):
            return ()
        if check is not None and not holds_invented(value) and not passes(check, bare(value).upper()):
            return ()
        return (_candidate(entry.name, value, *span),)

    return find


def _by_key(entry: CustomClass) -> Callable[[str, int, int, int], tuple[Candidate, ...]]:
    def find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
        match = _KEYED_VALUE.match(text, at - 1, high)
        if match is None:
            return ()
        value = match.group(1).rstrip(" ,;})]")
        return (_candidate(entry.name, value, match.start(1), match.start(1) + len(value)),)

    return find


def _candidate(name: str, value: str, start: int, end: int) -> Candidate:
    return Candidate(start, end, "*" if holds_invented(value) else name)


def custom_replacement(prf: Prf, class_: str, value: str) -> str:
    """Return a surrogate of the same shape if the value has digits to carry the mark, else an invented word."""
    text = bare(value)
    if len(text) >= 5 and text.isascii() and any(char.isdigit() for char in text):
        return make_identifier(prf, class_, value)
    return invent(prf, class_, value.lower())
