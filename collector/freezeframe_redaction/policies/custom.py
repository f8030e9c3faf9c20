"""Classes that a policy defines: their detectors and their surrogates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

import orjson

from freezeframe_redaction.detectors import tables
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
_LATIN_1: Final = 0xFF
_LANE = "(?#custom)"
"""A lane apart from the built-in ones, so that a policy compiles only its own patterns."""
_HAS_DIGIT = re.compile("[0-9]")
_KEYED_VALUE = re.compile(
    r">(?P<element>[^<>\x1f\n]{1,200})</|(?P<sign>[:=])(?:[ \t](?![^\W\d][\w.-]{0,40}(?:=|:\s)))?"
    r"(?:(?P<quote>[\"'])(?P<quoted>(?:(?!(?P=quote))[^\x1f\n]){1,200})(?P=quote)"
    r"|(?P<open>[\"']?)(?:(?<==)(?P<word>[^\s\"'\x1f,;&|<>)\]}]{1,200})"
    r"|(?<!=)(?P<line>[^\s\"'\x1f=][^\"\x1f\n\t|;]{0,200}?)"
    r"(?=,?\s+[\"']?[^\W\d][\w.-]{0,40}[\"']?\s?[:=](?!//)|[\"\x1f\n\t|;]|(?:(?<=\d)|(?<=[^\W\d_]{3}))[.!?]\s|\s{2}|$)))"
)
"""A value after the separator of its key: to the closing quote, a word after ``=``, up to the next field; or in an element."""


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
            names = "|".join(map(_in_any_case, entry.keys))
            out.append(
                Detector(
                    name=f"custom: {entry.name} by key",
                    class_=entry.name,
                    triggers=(
                        rf"{_LANE}(?i)(?:^|[^A-Za-z0-9_])(?:{names})[\"']?\s?[:=]",
                        rf"{_LANE}(?i)<(?:{names})>",
                    ),
                    find=_by_key(entry),
                    examples=(Example(text=f"{entry.keys[0]}: value-1", value="value-1"),),
                )
            )
            out.append(
                Detector(
                    name=f"custom: {entry.name} by heading",
                    class_=entry.name,
                    triggers=(rf"{_LANE}(?i)(?:^|[^A-Za-z0-9_])(?:{names})[\"'`*]? ?[,;\t|\n]",),
                    find=_by_heading(entry),
                    examples=(Example(text=f"{entry.keys[0]},_\nvalue-1,_", value="value-1"),),
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


def _in_any_case(key: str) -> str:
    """Return a trigger for a key; the engine folds the case of ASCII only, and reads all letters beyond Latin-1 alike."""
    return "".join(re.escape(char) if char.isascii() else f"[{''.join(_cases(char))}]" for char in key)


def _cases(char: str) -> Iterator[str]:
    yield from {one for one in (char, char.lower(), char.upper()) if len(one) == 1}
    if ord(char) > _LATIN_1:
        yield from "\xc9\xe9" if char.isalpha() else "\xb7"


def _by_key(entry: CustomClass) -> Callable[[str, int, int, int], tuple[Candidate, ...]]:
    names = "|".join(map(re.escape, entry.keys))
    key = re.compile(rf"(?i)(?:(?<![^\W_])(?<!_)(?:{names})[\"']?\s?[:=]|<(?:{names})>)\Z")
    reach = max(map(len, entry.keys)) + len("'' =")

    def find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
        if key.search(text, max(low, at - reach), at) is None:
            return ()
        match = _KEYED_VALUE.match(text, at - 1, high)
        if match is None:
            return ()
        start, end = match.span(match.lastgroup or "line")
        end = start + len(text[start:end].rstrip(" ,;})]."))
        return (_candidate(entry.name, text[start:end], start, end),)

    return find


def _by_heading(entry: CustomClass) -> Callable[[str, int, int, int], tuple[Candidate, ...]]:
    column = tables.TableColumn(class_=entry.name, words="", look=re.compile(r"(?=[^\W_]|.*[^\W_])[^\x1f]{1,200}"))
    keys = frozenset(map(str.lower, entry.keys))

    def column_of(names: list[str], place: int) -> tables.TableColumn | None:
        """Return the class's column; a key beside one value with digits is no line of headings."""
        if names[place].lower() not in keys or (len(names) == 2 and _HAS_DIGIT.search(names[1 - place])):
            return None
        return column

    def find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
        found = tables.read_table(text, low, high, at, column_of)
        return tuple(_candidate(one.class_, text[one.start : one.end], *one[:2]) if one.class_ else one for one in found)

    return find


def _candidate(name: str, value: str, start: int, end: int) -> Candidate:
    return Candidate(start, end, "*" if holds_invented(value) else name)


def custom_replacement(prf: Prf, class_: str, value: str) -> str:
    """Return a surrogate of the same shape if the value has digits to carry the mark, else an invented word."""
    text = bare(value)
    if len(text) >= 5 and text.isascii() and any(char.isdigit() for char in text):
        return make_identifier(prf, class_, value)
    return invent(prf, class_, value.lower())
