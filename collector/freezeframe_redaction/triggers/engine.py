"""The trigger engine: a Vectorscan pass per lane over the scan bytes of a batch; then each hit is checked by its detector.

Databases are made once per set of detectors and shared between threads; scratch space is per thread, as Vectorscan requires.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, Final

import hyperscan

from freezeframe_redaction.deadline import EVERY, NEVER, Deadline, OutOfTimeError
from freezeframe_redaction.model import Candidate, Detector, Find
from freezeframe_redaction.triggers.compiled import load_or_compile
from freezeframe_redaction.triggers.view import scan_bytes

_LANE: Final = re.compile(r"\(\?#([a-z0-9]+)\)")
WORDS: Final = "words"
"""The lane of triggers that do not name one."""
_MIN_BRANCHES: Final = 5
"""Minimum alternatives of an alternation that is split."""


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
    """Return the texts between the bars."""
    return [text[first + 1 : last] for first, last in zip([before, *bars], [*bars, end], strict=True)]


_Group = tuple[int, int, list[int]]
"""End of a group's opening, start of its closing, and the bars between them."""
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


_BORDER = b"\x1f"
"""Surrounds the scanned text, and separates leaves, so that a trigger needs no case for the beginning of a text."""
_NUMBERS: Final = 12
"""Bits of a detector's number. A hit is one integer, its end and its detector: texts may have a hit at every byte."""
_DETECTOR: Final = (1 << _NUMBERS) - 1
_HITS_UNCHECKED: Final = (1 << 14) - 1
_CUSTOM_PRIORITY = 3
"""Priority of a user's class over built-in ones: after credentials and cards, before the rest."""


class TriggerEngine:
    """Finds candidates in a batch of leaves."""

    def __init__(self, detectors: Sequence[Detector]) -> None:
        self._finds: list[Find] = []
        self._names: list[str] = []
        lanes: dict[str, list[tuple[bytes, int]]] = {}
        known: set[tuple[str, Find]] = set()
        for detector in detectors:
            # Detectors of one family may share a trigger and its check (all digit runs do).
            own = [trigger for trigger in detector.triggers if (trigger, detector.find) not in known]
            if not own:
                continue
            known.update((trigger, detector.find) for trigger in own)
            for trigger in own:
                lane, expression = lane_of(trigger)
                number = len(self._finds)
                scanned = dict.fromkeys(map(scan_bytes, one_by_one(expression)))
                lanes.setdefault(lane, []).extend((one, number) for one in scanned)
            self._finds.append(detector.find)
            self._names.append(detector.name)
        self._lanes: list[Any] = [load_or_compile(lane) for lane in lanes.values()]
        self._local = threading.local()

    def _scan(self, data: bytes, deadline: Deadline) -> list[int]:
        """Return every trigger in order, as its end and, in the last bits, its detector."""
        hits: list[int] = []
        append = hits.append

        def hit(detector: int, start: int, end: int, flags: int, context: object) -> bool:
            append(end << _NUMBERS | detector)
            return not len(hits) & _HITS_UNCHECKED and deadline.has_passed()

        scratches = getattr(self._local, "scratches", None)
        if scratches is None:
            scratches = self._local.scratches = [hyperscan.Scratch(lane) for lane in self._lanes]
        for lane, scratch in zip(self._lanes, scratches, strict=True):
            try:
                lane.scan(data, match_event_handler=hit, scratch=scratch)
            except hyperscan.ScanTerminated:
                raise OutOfTimeError from None
        deadline.check_for(len(data))
        hits.sort()
        return hits

    def find(self, text: str, ends: Sequence[int], deadline: Deadline = NEVER) -> dict[int, list[tuple[Candidate, str]]]:
        """Return leaf index -> candidates with their detector's name.

        `text` is the batch as one view: leaves with one separator after each. `ends` are the offsets after the separators.
        """
        found: dict[int, list[tuple[Candidate, str]]] = {}
        if not text:
            return found
        examined: dict[Find, int] = {}
        finds, names = self._finds, self._names
        index = 0
        low, high = 0, ends[0] - 1
        last = len(ends) - 1
        for count, hit in enumerate(self._scan(_BORDER + scan_bytes(text) + _BORDER, deadline)):
            if not count % EVERY:
                deadline.check()
            end, detector = (hit >> _NUMBERS) - 1, hit & _DETECTOR
            while end > high and index < last:
                low = ends[index]
                index += 1
                high = ends[index] - 1
            if end > high or end <= low:
                continue
            find = finds[detector]
            if examined.get(find, -1) >= end:
                continue
            for candidate in find(text, low, high, end):
                if candidate[1] > examined.get(find, -1):
                    examined[find] = candidate[1]
                if candidate[2]:
                    found.setdefault(index, []).append((candidate, names[detector]))
        return found


def _rank(class_: str, priority: Mapping[str, int]) -> int:
    return -len(class_) if class_[0] == "*" else priority.get(class_, _CUSTOM_PRIORITY)


def resolve_overlaps(
    candidates: list[tuple[Candidate, str]],
    priority: Mapping[str, int],
    deadline: Deadline = NEVER,
) -> list[tuple[Candidate, str]]:
    """Return the candidates that win: claims first, then by priority and length, without overlap, in order of start.

    Claims (classes without a priority) block overlapping candidates. Only candidates that overlap one another,
    which are few, are compared: a text of 16 MB has half a million candidates.
    """
    kept: list[tuple[Candidate, str]] = []
    group: list[tuple[Candidate, str]] = []
    reached = 0
    for count, item in enumerate(sorted(candidates, key=lambda item: item[0].start)):
        if not count % EVERY:
            deadline.check()
        if item[0].start >= item[0].end:
            continue
        if group and item[0].start >= reached:
            kept += _settled(group, priority) if len(group) > 1 else group
            group = []
        group.append(item)
        reached = max(reached, item[0].end)
    return kept + _settled(group, priority)


def _settled(group: list[tuple[Candidate, str]], priority: Mapping[str, int]) -> list[tuple[Candidate, str]]:
    """Return the winners among overlapping candidates, in order of start."""
    # A surrogate known by its text wins over one known by its form; both win over every class (priorities are >= 0).
    ordered = sorted(group, key=lambda item: (_rank(item[0].class_, priority), item[0].start - item[0].end, item[0].start))
    starts: list[int] = []
    kept: list[tuple[Candidate, str]] = []
    for item in ordered:
        start, end = item[0].start, item[0].end
        place = bisect_left(starts, start)
        if (place and kept[place - 1][0].end > start) or (place < len(starts) and starts[place] < end):
            continue
        starts.insert(place, start)
        kept.insert(place, item)
    return kept
