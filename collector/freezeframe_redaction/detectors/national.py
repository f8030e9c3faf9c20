"""National identity, tax and social insurance numbers of seventy countries, as ``rules/national.toml`` has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from freezeframe_redaction.detectors import runs
from freezeframe_redaction.detectors.rows import examples, reaching
from freezeframe_redaction.model import Candidate, Detector, Find
from freezeframe_redaction.rules import context
from freezeframe_redaction.rules.national_checks import LETTERED, NUMBERS, Check, always, passes
from freezeframe_redaction.rules.read import Rules

CLASS = "NATID"
_RULES = Rules("national")
_ANY = context.words(_RULES.text("any"))


class _Number(NamedTuple):
    """A number of digits alone."""

    country: str
    words: re.Pattern[str] | None
    """The words for it; None: the check alone is strong enough."""
    valid: Check
    lengths: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    """Groupings that need no word before them."""


_ROWS = tuple(_RULES.table("numbers"))
_NUMBERS = tuple(
    _Number(
        row["country"],
        context.words(row["words"]) if row["words"] else None,
        NUMBERS[row["country"]][1],
        tuple(row["digits"]),
        tuple(map(tuple, row.get("shapes", ()))),
    )
    for row in _ROWS
)
_BY_LENGTH = {length: tuple(number for number in _NUMBERS if length in number.lengths) for length in range(8, 19)}
_WORDS = {
    length: context.words(*(row["words"] for row in _ROWS if length in row["digits"]), _RULES.text("any"))
    for length, numbers in _BY_LENGTH.items()
    if numbers
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
        cue = number.words and number.words.search(run.before)
        shaped = run.groups in number.shapes and " " not in run.raw[:4]
        mistyped = certain and number.words and number.words.search(certain.group())
        if mistyped or ((cue or ((shaped or anyhow) and number.valid is not always)) and number.valid(run.digits)):
            return Candidate(run.start, run.end, CLASS, number.country)
    return None


def _finder(row: Mapping[str, Any]) -> Find:
    """Return the check of a number with letters, or with special separators."""
    country, words = row["country"], re.compile(row["words"]) if row["words"] else None
    form = re.compile(rf"(?<![0-9A-Za-z]){row['form']}(?![0-9A-Za-z])", re.IGNORECASE)
    valid = LETTERED[country][1] if row["bare"] else always

    def find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
        match = reaching(form, text, low, high, at, 26, 4)
        if match is None or text[max(low, match.start() - 1) : match.start()] in ("_", "/", "-", "+"):
            return ()
        found, before = match.group(), context.before(text, low, match.start())
        named = words is None or words.search(before) or _ANY.search(before)
        if not named and not (country == "CL RUT" and found.count(".") == 2):
            return ()
        good = passes(valid, re.sub(r"[^0-9A-ZÑ&]", "", found.upper())) or _UNMISTAKABLE.search(before) is not None
        return (Candidate(*match.span(), CLASS, country),) if good else ()

    return find


def of_digits(find: Find, run: str) -> tuple[Detector, ...]:
    """Return the detectors of numbers of digits alone, which all runs of digits (`run`) trigger."""
    return tuple(_detector(row, row["country"], row.get("trigger") or run, find) for row in _ROWS)


def _detector(row: Mapping[str, Any], name: str, trigger: str, find: Find) -> Detector:
    return Detector(
        name=f"national id: {name}",
        class_=CLASS,
        triggers=(trigger,),
        find=find,
        row=_RULES.describe(row),
        examples=examples([f"{row['example']} on file"]),
    )


DETECTORS = tuple(
    _detector(row, f"{row['country']}, with letters", row["trigger"], _finder(row)) for row in _RULES.table("lettered")
)
