"""The scanner: what in a text a policy calls a finding. It needs no key, so that redaction and aliases share it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

from freezeframe_redaction import detectors, encoded, linear, prose
from freezeframe_redaction.classes import CLASSES
from freezeframe_redaction.custom import custom_detectors
from freezeframe_redaction.deadline import NEVER, Deadline
from freezeframe_redaction.detectors.people.names import MARKS
from freezeframe_redaction.engine import Engine, settle
from freezeframe_redaction.key_context import KeyContexts
from freezeframe_redaction.known import Known
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.policy import Policy
from freezeframe_redaction.view import View, may_differ, view_of

_PRIORITY = {name: entry.priority for name, entry in CLASSES.items()} | {encoded.CLASS: 10}
_KNOWN = "**"
"""Class of a known surrogate: it blocks whatever overlaps it, as a claim does, and can be reported."""
_NAME_WORD = re.compile(rf"[^\W\d_](?:[^\W\d_]|[{MARKS}]|['-](?=[^\W\d_]))*")
_KEPT_IN_NAMES = frozenset(
    "de van von der den la di da dos das do del della le bin ibn al el ter ten zu zur af av y e jr sr ii iii".split()
)


@lru_cache(maxsize=16)
def engine_of(policy: Policy) -> Engine:
    """Return the compiled engine of a policy (compiling takes a second; engines are shared between redactors and threads)."""
    classes = policy.classes | {encoded.CLASS}
    wanted = [detector for detector in detectors.ALL if detector.class_ in classes or not classes.isdisjoint(detector.others)]
    # Detectors of numbers share one reading, whose rules know all classes; what the policy leaves out is dropped afterwards.
    return Engine([*wanted, *custom_detectors(policy)])


class Scanner:
    """Finds what a policy calls a finding."""

    def __init__(self, policy: Policy, known: Mapping[str, str], *, hot: bool = False) -> None:
        """`hot` leaves the policy's model tier out."""
        self.policy = policy
        self._prose = prose.load_model() if policy.model_tier and policy.redacts and not hot else None
        self._engine = engine_of(policy) if policy.redacts else None
        telling = (*policy.custom, *(CLASSES[name] for name in policy.classes))
        self.keys = KeyContexts(frozenset(key for entry in telling for key in entry.keys))
        self._classes = policy.classes | {encoded.CLASS} | {entry.name for entry in policy.custom}
        self._allow = policy.allow
        self._allow_patterns = linear.Whole(policy.allow_patterns) if policy.allow_patterns else None
        self.known = dict(known)
        self._known = Known(known)

    def scan(
        self, leaves: Sequence[tuple[str, str]], *, report_known: bool = False, deadline: Deadline = NEVER
    ) -> dict[int, tuple[View, list[tuple[Candidate, str]]]]:
        """Return, for each (text, prefix) in which something was found, its view and the findings.

        Findings are in order, without overlap, in offsets of the view. Known surrogates block other findings; with
        `report_known` they are returned too, under their class.
        """
        out: dict[int, tuple[View, list[tuple[Candidate, str]]]] = {}
        if self._engine is None or not leaves:
            return out
        parts = [prefix + text if prefix else text for text, prefix in leaves]
        batch = "\x1f".join(parts)
        views: dict[int, View] = {}
        if may_differ(batch):
            for index, (text, prefix) in enumerate(leaves):
                if may_differ(text):
                    views[index] = view = view_of(text)
                    parts[index] = prefix + view.text
            batch = "\x1f".join(parts)
        ends = list(accumulate(len(part) + 1 for part in parts))
        found = self._engine.find(batch, ends, deadline)
        if self._prose is not None:
            starts = [0, *ends]
            for index, (text, prefix) in enumerate(leaves):
                view = views[index].text if index in views else text
                low = starts[index] + len(prefix)
                read = [one._replace(start=one.start + low, end=one.end + low) for one in self._prose.find(view)]
                if read:
                    found.setdefault(index, []).extend((one, prose.NAME) for one in read)
        for index in range(len(leaves)) if report_known else found:
            text, prefix = leaves[index]
            high = ends[index] - 1
            floor = high - len(parts[index]) + len(prefix)
            candidates = [*found.get(index, ()), *self._known_in(batch, floor, high)]
            kept = settle(candidates, _PRIORITY, floor, _KNOWN if report_known else "", deadline)
            moved = [self._moved(batch, candidate, name, floor) for candidate, name in kept]
            held = [item for item in moved if item is not None]
            if held:
                out[index] = (views.get(index) or View(text, None), held)
        return out

    def _moved(self, batch: str, candidate: Candidate, name: str, floor: int) -> tuple[Candidate, str] | None:
        """Return the candidate in offsets of its leaf, or None if the policy lets it through."""
        value = batch[candidate.start : candidate.end]
        class_ = self.known.get(value, "") if candidate.class_ == _KNOWN else candidate.class_
        if class_ not in self._classes or self._allowed(value):
            return None
        shown = candidate.shown
        if shown is not None:
            shown = (max(0, shown[0] - floor), shown[1] - floor)
        return Candidate(candidate.start - floor, candidate.end - floor, class_, candidate.kind, shown), name

    def _known_in(self, batch: str, low: int, high: int) -> list[tuple[Candidate, str]]:
        return [(Candidate(start, end, _KNOWN), "known surrogate") for start, end in self._known.spans(batch, low, high)]

    def _allowed(self, value: str) -> bool:
        if self._allow and value.lower() in self._allow:
            return True
        return self._allow_patterns is not None and self._allow_patterns.match(value)


def parts_of(candidate: Candidate, text: str) -> list[tuple[int, int]]:
    """Return the spans of the view that are replaced one by one: the words of a name, else the whole value."""
    if candidate.class_ != "PERSON":
        return [(candidate.start, candidate.end)]
    out: list[tuple[int, int]] = []
    for match in _NAME_WORD.finditer(text, candidate.start, candidate.end):
        word = match.group()
        if (len(word) > 1 and word.lower() not in _KEPT_IN_NAMES) or (len(word) == 1 and not word.isascii()):
            out.append(match.span())
    return out or [(candidate.start, candidate.end)]
