"""Runs of digits: one trigger, one reading, and the rules of each class that looks like a number, in a fixed order.

A run is digits with single separators (``4111 1111-1111``). Rules see the whole run first; where none takes it and it holds spaces,
its pieces are tried, so that two numbers side by side are not glued. Surrogates are recognised before any rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from freezeframe_redaction.checksums import luhn
from freezeframe_redaction.detectors import context
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.shapes import is_marked_number, is_marked_subscriber

CLAIM = "*"
"""Class of a span that is a surrogate: it blocks every other candidate."""
EXAMINED = ""
"""Class of a span that holds nothing: the trigger need not look at it again."""

_WINDOW = 48
_RUN = re.compile(r"[+(]{0,2}[0-9]+(?:(?:[ .\-/\t]|\)[ .\-]?|[ .\-]?\(|\)\()[0-9]+)*")
_SEPARATORS = str.maketrans(".()/-+\t", "       ")
_BARE = str.maketrans("", "", " .()/-+\t")
_TIMESTAMP = re.compile(
    r"(?:19|20)[0-9]{2}(?:[-/.](?:0?[1-9]|1[0-2])[-/.](?:0?[1-9]|[12][0-9]|3[01])(?:[ ][0-2][0-9])?|(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])(?:[ -][0-9]{4,6})?)$"
    r"|(?:0?[1-9]|[12][0-9]|3[01])[-/.](?:0?[1-9]|[12][0-9]|3[01])[-/.](?:19|20)[0-9]{2}(?: [0-2]?[0-9])?$"
    r"|[0-9]{1,4}\.[0-9]{5,}$"
    r"|(?:19|20)[0-9]{2}-[0-9]{4}-[0-9]{4}$"
)


@dataclass(slots=True)
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
    international: bool
    """Begins with ``+``."""
    hints: int
    """Which families `before` may name (`context.hints`)."""

    @property
    def bare(self) -> bool:
        """Whether it is digits only, without separators."""
        return len(self.groups) == 1 and not self.international


Rule = Callable[[Run], "Candidate | None"]

_rules: list[Rule] = []


def rules() -> tuple[Rule, ...]:
    """Return the rules of all classes in their order (loaded late: the rules' modules import this one)."""
    if not _rules:
        from freezeframe_redaction.detectors import bank, card, medical, national, phone, ssn

        _rules.extend((card.rule, ssn.rule, national.rule, medical.rule, phone.rule, bank.rule))
    return tuple(_rules)


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
    examined = (Candidate(start, end, EXAMINED),)
    previous = text[start - 1] if start > low else " "
    following = text[end] if end < high else " "
    if previous not in _PLAIN_NEIGHBOURS:
        encoded = text[max(low, start - 3) : start].upper() == "%2B"
        escaped = previous in "nrt" and start - 1 > low and text[start - 2] == "\\"
        if not encoded and not escaped and (_joins(previous) or previous in "_%\\#$€£"):
            return examined
    if previous in "/.-" and start - 1 > low and (text[start - 2].isalnum() or text[start - 2] == "_"):
        # Part of a path, a version, or an identifier with dashes.
        return examined
    if following not in _PLAIN_NEIGHBOURS:
        extension = following in "xX" and end + 1 < high and text[end + 1].isdigit()
        if not extension and (_joins(following) or following == "_"):
            cut = text.rfind(" ", start, end)
            if cut - start < 7:
                return examined
            end = cut
    if (
        following == "-"
        and end + 1 < high
        and text[end + 1].isalpha()
        and end == match.end()
        and not _is_phone_label(text, end, high)
    ):
        return examined
    raw = text[start:end]
    if _is_nothing(text, low, start, end, raw) if raw.isdigit() else _DECIMAL.match(raw):
        return examined
    whole = _run(text, low, high, start, end)
    taken = classify(whole)
    if taken is not None:
        return (taken,) if taken.end >= end else (taken, *_pieces(text, low, high, taken.end, end))
    pieces = _pieces(text, low, high, start, end) if " " in whole.raw and len(whole.raw) > 9 else ()
    return pieces or examined


_DECIMAL = re.compile(r"[0-9]{1,4}\.[0-9]{5,}$")
"""A measurement; no class of value is written so."""
_PLAIN_NEIGHBOURS = frozenset(" \n\t\"',:;=()[]<>")


def _is_phone_label(text: str, end: int, high: int) -> bool:
    from freezeframe_redaction.detectors import phone

    return phone.is_labelled_behind(text, end, high)


def _joins(char: str) -> bool:
    """Whether the character makes one word with digits; East Asian text has no spaces around its numbers."""
    return char < "\u0250" and char.isalnum()


def _is_nothing(text: str, low: int, start: int, end: int, raw: str) -> bool:
    """Whether bare digits can be dismissed at a glance: no word for any class stands near, and they are no card.

    Most runs are ids, counters and times; this look costs a tenth of the whole reading.
    """
    length = len(raw)
    if length > 19 or (text[end : end + 1] == " " and text[end + 1 : end + 2] in "(-–ofmchwdpFOMCHWDP" and length < 16):
        return length > 19
    if context.hints(context.before(text, low, start)) & ~context.HINT_ORDER:
        return False
    return (length < 12 and raw[:2] != "00") or (
        length > 11 and not luhn(raw) and raw[0] != "9" and raw[:2] != "00" and length != 15
    )


def _run(text: str, low: int, high: int, start: int, end: int) -> Run:
    raw = text[start:end]
    before = context.before(text, low, start)
    return Run(
        text=text,
        low=low,
        high=high,
        start=start,
        end=end,
        raw=raw,
        digits=raw.translate(_BARE),
        groups=tuple(map(len, raw.translate(_SEPARATORS).split())),
        before=before,
        hints=context.hints(before),
        international=raw[0] == "+" or raw[:2] == "(+" or text[max(low, start - 3) : start].upper() == "%2B",
    )


def _pieces(text: str, low: int, high: int, start: int, end: int) -> tuple[Candidate, ...]:
    """Try the run's pieces between spaces, longest first at each start; at most eight pieces are looked at."""
    spaces = [i for i in range(start, end) if text[i] in " \t"][:8]
    starts = [start, *(i + 1 for i in spaces)]
    ends = [*spaces, end]
    found: list[Candidate] = []
    index = 0
    while index < len(starts):
        step = 1
        for last in range(len(ends) - 1, index - 1, -1):
            piece_start, piece_end = starts[index], ends[last]
            if (
                piece_end - piece_start < 7
                or (piece_start, piece_end) == (start, end)
                or text[piece_start] not in "+(0123456789"
            ):
                continue
            taken = classify(_run(text, low, high, piece_start, piece_end))
            if taken is not None:
                found.append(taken)
                step = last - index + 1
                break
        index += step
    return tuple(found)


def classify(run: Run) -> Candidate | None:
    """Return what the run is, by the first rule that takes it."""
    length = len(run.digits)
    if length > 20 or length < 7:
        return None
    if is_marked_number(run.digits, run.groups) or _is_marked_phone(run):
        return Candidate(run.start, run.end, CLAIM)
    if _TIMESTAMP.match(run.raw):
        # A Swedish number in its long form begins like a date.
        return rules()[2](run) if length == 12 and run.hints & context.HINT_NATIONAL else None
    for rule in rules():
        taken = rule(run)
        if taken is not None:
            return taken
    return None


def _is_marked_phone(run: Run) -> bool:
    """Whether the run is the surrogate of a phone number.

    The mark has three digits, so it counts only where a phone number would: behind a ``+`` or ``00``, or next to a word for a phone.
    """
    if not is_marked_subscriber(run.digits, international=run.international):
        return False
    from freezeframe_redaction.detectors import phone

    return run.international or run.digits[:2] == "00" or phone.is_announced(run)


TRIGGERS = (r"(?:^|[^0-9A-Za-z._%\-]|[^0-9A-Za-z][._\-]|\\[nrt]|%2[bB])[+(]{0,2}[0-9](?:[ .()/\-\t]{0,2}[0-9]){8}",)
