"""National identity, tax and social insurance numbers of seventy countries, as ``rules/national.toml`` has them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from freezeframe_redaction.detectors import runs
from freezeframe_redaction.detectors.rows import reaching
from freezeframe_redaction.model import Candidate, Detector, Example, Find
from freezeframe_redaction.rules import context
from freezeframe_redaction.rules.national_checks import LETTERED, Check, always, passes
from freezeframe_redaction.rules.national_checks import NUMBERS as ISSUED
from freezeframe_redaction.rules.read import Rules

CLASS = "NATID"
_RULES = Rules("national")
_ANY = context.words(_RULES.text("any"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """One row of the table."""

    country: str
    word: re.Pattern[str] | None
    """The words for it; None: the check alone is strong enough."""
    valid: Check
    trigger: str
    """Its own, if it has letters, or is shorter than nine digits."""
    form: re.Pattern[str]
    example: str
    row: str
    lengths: tuple[int, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    """Groupings that need no word before them."""


def _kind(row: Mapping[str, Any], issued: Mapping[str, tuple[Any, Check]], words: Callable[[str], re.Pattern[str]]) -> _Kind:
    return _Kind(
        country=row["country"],
        word=words(row["words"]) if row["words"] else None,
        valid=issued[row["country"]][1] if row["country"] in issued else always,
        trigger=row.get("trigger", ""),
        form=re.compile(rf"(?<![0-9A-Za-z]){row.get('form', '')}(?![0-9A-Za-z])", re.IGNORECASE),
        example=row["example"],
        row=_RULES.told(row),
        lengths=tuple(row.get("digits", ())),
        shapes=tuple(map(tuple, row.get("shapes", ()))),
    )


_NUMBERS = tuple(_kind(row, ISSUED, context.words) for row in _RULES.table("numbers"))
_IDENTIFIERS = tuple(_kind(row, LETTERED, re.compile) for row in _RULES.table("lettered"))
_BY_LENGTH: dict[int, tuple[_Kind, ...]] = {
    length: tuple(number for number in _NUMBERS if length in number.lengths) for length in range(8, 19)
}
_SAID = {row["country"]: row["words"] for row in _RULES.table("numbers")}
_WORDS: dict[int, re.Pattern[str]] = {
    length: context.words(*(_SAID[number.country] for number in rows), _RULES.text("any"))
    for length, rows in _BY_LENGTH.items()
    if rows
}
_SHAPES = frozenset(shape for number in _NUMBERS for shape in number.shapes)
_UNMISTAKABLE = re.compile(rf"(?:{_RULES.text('unmistakable')})[^0-9\n\x1f;,]{{0,18}}$")


def rule(run: runs.NumberRun) -> Candidate | None:
    """Take a run that is a national number."""
    length = len(run.digits)
    rows = _BY_LENGTH.get(length)
    if run.international or not rows:
        return None
    announced = bool(run.hints & context.HINT_NATIONAL) and _WORDS[length].search(run.before) is not None
    if not announced and run.groups not in _SHAPES:
        return None
    anyhow = announced and _ANY.search(run.before) is not None
    certain = _UNMISTAKABLE.search(run.before) if announced else None
    for number in rows:
        said = number.word and number.word.search(run.before)
        shaped = run.groups in number.shapes and " " not in run.raw[:4]
        mistyped = certain and number.word and number.word.search(certain.group())
        if mistyped or ((said or ((shaped or anyhow) and number.valid is not always)) and number.valid(run.digits)):
            return Candidate(run.start, run.end, CLASS, number.country)
    return None


def _finder(identifier: _Kind) -> Find:
    def find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
        match = reaching(identifier.form, text, low, high, at, 26, 4)
        if match is None:
            return ()
        start, end = match.span()
        if start > low and text[start - 1] in "_/-+":
            return ()
        found = match.group()
        before = context.before(text, low, start)
        named = identifier.word is None or identifier.word.search(before) or _ANY.search(before)
        if not named and not (identifier.country == "CL RUT" and found.count(".") == 2):
            return ()
        good = passes(identifier.valid, re.sub(r"[^0-9A-ZÑ&]", "", found.upper())) or _UNMISTAKABLE.search(before) is not None
        return (Candidate(start, end, CLASS, identifier.country),) if good else ()

    return find


def _value(example: str, country: str) -> str:
    for identifier in _IDENTIFIERS:
        if identifier.country == country:
            match = identifier.form.search(example)
            if match:
                return match.group()
    match = re.search(r"[0-9][0-9 ./-]{6,}[0-9Xx]", example)
    return match.group() if match else ""


def of_digits(find: Find, run: str) -> tuple[Detector, ...]:
    """Return the detectors of numbers of digits alone, which all runs of digits (`run`) trigger."""
    return tuple(_detector(number.country, number.trigger or run, find, number) for number in _NUMBERS)


def _detector(name: str, trigger: str, find: Find, of: _Kind) -> Detector:
    return Detector(
        name=f"national id: {name}",
        class_=CLASS,
        triggers=(trigger,),
        find=find,
        row=of.row,
        examples=(Example(text=f"{of.example} on file", value=_value(of.example, of.country)),),
    )


DETECTORS = tuple(_detector(f"{one.country}, with letters", one.trigger, _finder(one), one) for one in _IDENTIFIERS)
