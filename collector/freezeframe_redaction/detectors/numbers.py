"""Numbers: one trigger, one reading of a run of digits, and the rules of each class that looks like a number, in a fixed order.

A run is digits with single separators (``4111 1111-1111``). Rules see the whole run first; if none takes it and it holds
spaces, its pieces are tried, so that two numbers side by side are not glued. An IP address or a card is never a part of another
number.
"""

from __future__ import annotations

import re

from freezeframe_redaction.detectors import national, phone, runs
from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.model import EXAMINED, Candidate
from freezeframe_redaction.rules import context
from freezeframe_redaction.rules.checksums import luhn
from freezeframe_redaction.rules.read import Rules

_RULES = Rules("numbers", {"ssn": context.SSN_SAID})
_FORMS = _RULES.forms

_CARDS = Rules("card")

_GROUPINGS = frozenset(map(tuple, _CARDS.entries("layouts")["groups"]))


def _card(run: runs.NumberRun) -> Candidate | None:
    """Take a run that is a card number."""
    length = len(run.digits)
    is_address = run.raw.count(".") == 3 and len(run.groups) == 4 and max(run.groups) < 4
    if run.international or is_address or not 12 <= length <= 19 or not luhn(run.digits) or not run.digits.strip("0"):
        return None
    named = (run.hints & context.HINT_CARD and context.CARD.search(run.before)) or (
        _CARDS.forms.behind.match(run.text, run.end, run.high) is not None
    )
    ordered = bool(run.hints & context.HINT_ORDER) and context.is_order(run.before)
    if run.bare and ordered:
        return None
    shaped = length >= 13 and _CARDS.forms.issuer.match(run.digits) and (run.bare or run.groups in _GROUPINGS)
    alone = (not run.bare and length != 13) or (length in (14, 15, 16) and not ordered)
    is_card = (shaped and (named or alone)) or (named and not ordered)
    return Candidate(run.start, run.end, "CARD", str(length)) if is_card else None


_OWN: dict[str, runs.Rule] = {"card": _card, "national": national.rule, "phone": phone.rule}
RULES = tuple(_OWN[row["rule"]] if "rule" in row else runs.rule_of(row, _RULES) for row in _RULES.rows("run"))
"""The first that accepts a run decides."""
_WINDOW = 48
_MIN_FLOAT_DIGITS = 10
_MIN_CARD, _MAX_CARD = 12, 23
"""Characters of a card: 12 to 19 digits in at most five groups."""
_RUN = re.compile(r"[+(]{0,2}[0-9]+(?:(?:[ .\-/\t]|\)[ .\-]?|[ .\-]?\(|\)\(|\)? [/-] )[0-9]+)*")
_PLAIN_NEIGHBOURS = frozenset(" \n\t\"',:;=()[]<>")


def find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """Read the run around the trigger's end and classify it, or its pieces."""
    floor = at - _WINDOW if at - _WINDOW > low else low
    start = floor + len(text[floor:at].rstrip("0123456789 .()/-+"))
    match = _RUN.search(text, start, min(high, start + 2 * _WINDOW))
    if match is None:
        return ()
    start, end = match.span()
    if end < at:
        match = _RUN.search(text, end, min(high, end + 2 * _WINDOW))
        if match is None:
            return ()
        start, end = match.span()
    for address in _FORMS.address.finditer(text, start, end):
        if at <= address.start():
            end = address.start() - 1
            break
        if at <= address.end():
            return (Candidate(*address.span(), EXAMINED),)
        start = min(address.end() + 1, end)
    examined = (Candidate(start, end, EXAMINED),)
    previous = text[start - 1] if start > low else " "
    following = text[end] if end < high else " "
    if previous not in _PLAIN_NEIGHBOURS:
        escaped = previous in "nrt" and start - 1 > low and text[start - 2] == "\\"
        if not escaped and (_joins(previous) or previous in "_%\\#$€£"):
            version = _FORMS.version.match(text, start, end)
            if version is None:
                return examined
            start, previous = version.end(), " "
    if (
        previous in "/.-"
        and text[start] not in "+("
        and start - 1 > low
        and (text[start - 2].isalnum() or text[start - 2] == "_")
    ):
        # Part of a path, a version, or an identifier with dashes.
        return examined
    if following not in _PLAIN_NEIGHBOURS and _goes_on(text, end, high):
        cut = text.rfind(" ", start, end)
        if cut - start < 7:
            named = _card_in(text, low, high, [(start, end)]) if following in "_-" else None
            return examined if named is None else (named,)
        end = cut
    raw = text[start:end]
    if raw[-2:] == ".0" and len(raw) > _MIN_FLOAT_DIGITS and raw[:-2].isdigit():
        raw, end = raw[:-2], end - 2  # a spreadsheet's number
    near = runs.context_of(text, low, start)
    if following in " ,(" and not near[1] & ~context.HINT_ORDER:
        near = runs.announced_after(text, end, high) or near
    if _is_nothing(text, end, raw, near[1]) if raw.isdigit() else _FORMS.decimal.match(raw):
        return examined
    whole = runs.run_at(text, low, high, start, end, near=near)
    verdict = classify(whole)
    spaced = len(whole.raw) > 9 and (" " in whole.raw or "\t" in whole.raw)
    if spaced and verdict is None:
        return _pieces(text, low, high, start, end) or examined
    if verdict is None:
        return examined
    return (verdict,) if verdict.end >= end else (verdict, *_pieces(text, low, high, verdict.end, end))


def _goes_on(text: str, end: int, high: int) -> bool:
    """Return whether the digits that end here are the beginning of a word or an identifier."""
    following, next_ = text[end], text[end + 1 : min(high, end + 2)]
    if following == "-":
        return next_.isalpha() and not phone.is_labelled_behind(text, end, high)
    extension = following in "xX" and next_.isdigit()
    return not extension and (_joins(following) or following == "_")


def _joins(char: str) -> bool:
    """Return whether the character makes one word with digits; East Asian text has no spaces around its numbers."""
    return char < "\u0250" and char.isalnum()


def _is_nothing(text: str, end: int, raw: str, hints: int) -> bool:
    """Return whether bare digits can be dismissed quickly: no word for any class is near, and they are not a card.

    Most runs are ids, counters and times; this check costs a tenth of a full reading.
    """
    length = len(raw)
    if length > 19 or (text[end : end + 1] == " " and text[end + 1 : end + 2] in "(-–ofmchwdpFOMCHWDP" and length < 16):
        return length > 19
    if hints & ~context.HINT_ORDER:
        return False
    return (length < 12 and raw[:2] != "00") or (length > 11 and not luhn(raw) and raw[:2] != "00" and length != 15)


def _pieces(text: str, low: int, high: int, start: int, end: int) -> tuple[Candidate, ...]:
    """Return the findings in the pieces of a run between spaces: a card first, then the longest at each start."""
    spans = _spans(text, start, end)
    a_card = _card_in(text, low, high, spans)
    if a_card is not None:
        left = _pieces(text, low, high, start, a_card.start - 1)
        return (*left, a_card, *_pieces(text, low, high, a_card.end + 1, end))
    found: list[Candidate] = []
    reached = start
    for span in spans:
        if span[0] >= reached and (taken := classify(runs.run_at(text, low, high, *span))) is not None:
            found.append(taken)
            reached = span[1]
    return tuple(found)


def _spans(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return the places of the pieces between spaces, longest first at each start; at most eight spaces are examined."""
    spaces = [i for i in range(start, end) if text[i] in " \t"][:8]
    ends = [*spaces, end]
    return [
        (first, last)
        for index, first in enumerate([start, *(i + 1 for i in spaces)])
        for last in reversed(ends[index:])
        if last - first >= 7 and text[first] in "+(0123456789"
    ]


def _card_in(text: str, low: int, high: int, spans: list[tuple[int, int]]) -> Candidate | None:
    """Return the first span that is a card, or the surrogate of one."""
    for start, end in spans:
        if _MIN_CARD <= end - start <= _MAX_CARD:
            run = runs.run_at(text, low, high, start, end)
            if _card(run) is not None:
                return classify(run)
    return None


def classify(run: runs.NumberRun) -> Candidate | None:
    """Return the class of the run, by the first rule that accepts it."""
    length = len(run.digits)
    if length > 20 or length < 7:
        return None
    if _FORMS.timestamp.match(run.raw):
        # A Swedish number in its long form begins like a date.
        return national.rule(run) if length == 12 and run.hints & context.HINT_NATIONAL else None
    for rule in RULES:
        verdict = rule(run)
        if verdict is not None:
            return verdict
    return None


def _find_before_word(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The trigger ended on a word after the number (``22 498317 office``)."""
    digit = _FORMS.digit_before.search(text, max(low, at - 16), at)
    return find(text, low, high, digit.end()) if digit else ()


DETECTORS = (*made_of(_RULES, find, _find_before_word), *national.of_digits(find, _RULES.text("run")))
_READ = frozenset(detector.name for detector in DETECTORS if detector.find is find)
_NAMES = {detector.class_: detector.name for detector in reversed(DETECTORS) if detector.find is find}


def kind_of(candidate: Candidate, detector: str) -> str:
    """Return the detector of a finding: numbers share one reading, so the engine knows only one detector for all."""
    if detector not in _READ:
        return detector
    return f"national id: {candidate.kind}" if candidate.class_ == national.CLASS else _NAMES.get(candidate.class_, detector)
