"""The scanner: the findings of a policy in a text. It needs no key, so that redaction and aliases share it."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from operator import itemgetter
from typing import Final, Self

from freezeframe_redaction import detectors
from freezeframe_redaction.deadline import NEVER, Deadline
from freezeframe_redaction.detectors import encoded, fields, line_breaks, numbers, phone
from freezeframe_redaction.detectors.people import alone, evidence, namesakes
from freezeframe_redaction.detectors.people.names import CLASS, MARKS
from freezeframe_redaction.leaves.key_context import KeyContexts
from freezeframe_redaction.model import CLAIM, Candidate
from freezeframe_redaction.model_tier import prose
from freezeframe_redaction.policies import linear
from freezeframe_redaction.policies.actions import EVERYWHERE, KEEP, Actions
from freezeframe_redaction.policies.classes import CLASSES
from freezeframe_redaction.policies.custom import custom_detectors
from freezeframe_redaction.policies.plugins import DetectorFailedError, FindAll, is_remote, load_detector
from freezeframe_redaction.policies.policy import CustomClass, Policy
from freezeframe_redaction.surrogates.known import Known
from freezeframe_redaction.surrogates.shapes import bare
from freezeframe_redaction.triggers.engine import TriggerEngine, resolve_overlaps
from freezeframe_redaction.triggers.view import View, may_differ, view_of

_PRIORITY = {name: entry.priority for name, entry in CLASSES.items()} | {encoded.CLASS: 10}
_KNOWN = "**"
"""Class of a known surrogate: it blocks whatever overlaps it, as a claim does, and can be reported.

Over a line break its kind is the class of the value.
"""
_MIN_REWRITTEN_LENGTH: Final = 7
"""Letters and digits of the shortest surrogate that is recognised in another layout too: shorter ones may occur anywhere."""
_NAME_WORD = re.compile(rf"[^\W\d_](?:[^\W\d_]|[{MARKS}]|['-](?=[^\W\d_]))*")
_KEPT_IN_NAMES = frozenset(
    "de van von der den la di da dos das do del della le bin ibn al el ter ten zu zur af av y e jr sr ii iii".split()
)


@lru_cache(maxsize=16)
def engine_of(policy: Policy) -> TriggerEngine:
    """Return the compiled engine of a policy (compiling takes a second; engines are shared between redactors and threads)."""
    classes = policy.classes | {encoded.CLASS}
    wanted = [detector for detector in detectors.ALL if detector.class_ in classes or not classes.isdisjoint(detector.others)]
    # Detectors of numbers share one reading, whose rules know all classes; what the policy leaves out is dropped afterwards.
    return TriggerEngine([*wanted, *custom_detectors(policy)])


def _detector_of(entry: CustomClass) -> FindAll:
    if not is_remote(entry.detector):
        return load_detector(entry.detector)
    from freezeframe_redaction.policies.remote import remote_detector  # only a policy that names one pays for HTTP

    return remote_detector(entry.detector, entry.timeout_s, entry.on_error)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """Findings in a batch of leaves, in offsets of the batch."""

    text: str
    bounds: Sequence[evidence.Span]
    """Start and end of each leaf's text, without its key."""
    views: Mapping[int, View]
    """Views of leaves that differ from their text."""
    found: dict[int, list[evidence.Item]]


class Scanner:
    """Finds the values that a policy redacts."""

    def __init__(self, policy: Policy, known: Mapping[str, str], *, hot: bool = False, actions: Actions = EVERYWHERE) -> None:
        """`hot` leaves the policy's model tier out; `actions`: which classes stay, or are looked for, and under which keys."""
        self.policy = policy
        self._kept = frozenset(name for name, action in actions.by_class if action == KEEP)
        self._kept_under = frozenset((name, f"{key}: ") for name, key in actions.under)
        self._only_under = {class_: {f"{key}: " for name, key in actions.only if name == class_} for class_, _ in actions.only}
        self._least = actions.least
        self._own = [(entry, _detector_of(entry)) for entry in policy.custom if entry.detector]
        self._prose = prose.load_model() if policy.model_tier and policy.redacts and not hot else None
        self._engine = engine_of(policy) if policy.redacts else None
        self._evidence = evidence.load_evidence()
        telling = (*policy.custom, *(CLASSES[name] for name in policy.classes))
        named = (key for entry in telling for key in entry.keys)
        self.keys = KeyContexts(frozenset((*named, *(key for rule in policy.rules for key in rule.under))))
        self._classes = policy.classes | {encoded.CLASS} | {entry.name for entry in policy.custom}
        self._allow = policy.allow
        self._allow_patterns = linear.Whole(policy.allow_patterns) if policy.allow_patterns else None
        self._know(known)

    def _know(self, known: Mapping[str, str]) -> None:
        self.known = dict(known)
        self._known = Known(known)
        self._rewritten = frozenset(form for text, class_ in known.items() for form in _forms_of(text, class_))
        """Known surrogates in any layout: programs write a number in other groups."""

    def with_known_surrogates(self, known: Mapping[str, str]) -> Self:
        """Return a scanner that knows these surrogates as well: itself, if it knows them all."""
        if known.keys() <= self.known.keys():
            return self
        made = copy.copy(self)
        made._know({**self.known, **known})
        return made

    def without(self, failed: DetectorFailedError) -> Self:
        """Return a scanner without a detector that failed; without all behind HTTP, if its texts are to be replaced."""
        made = copy.copy(self)
        made._own = [
            (entry, find)
            for entry, find in self._own
            if ((entry.detector, entry.on_error) != failed.detector if failed.keeps else not is_remote(entry.detector))
        ]
        return made

    def scan(
        self, leaves: Sequence[tuple[str, str]], *, report_known: bool = False, deadline: Deadline = NEVER
    ) -> dict[int, tuple[View, list[evidence.Item]]]:
        """Return, for each (text, prefix) with findings, its view and the findings.

        Findings are in order, without overlap, in offsets of the view. Known surrogates block other findings; with
        `report_known` they are returned too, under their class.
        """
        if self._engine is None or not leaves:
            return {}
        read = self._read(self._engine, leaves, deadline)
        self._join_lines(self._engine, read, deadline)
        return self._held(leaves, read, deadline, report_known=report_known)

    def _held(
        self,
        leaves: Sequence[tuple[str, str]],
        read: _Read,
        deadline: Deadline,
        *,
        report_known: bool = False,
        report_claims: bool = False,
    ) -> dict[int, tuple[View, list[evidence.Item]]]:
        """Return the valid ones among all findings.

        With `report_claims` known surrogates in another layout are returned, too, as claims.
        """
        out: dict[int, tuple[View, list[evidence.Item]]] = {}
        batch = read.text
        for index in range(len(leaves)) if report_known else read.found:
            floor, high = read.bounds[index]
            found = read.found.get(index, ())
            if self._kept or self._kept_under or self._only_under:
                found = [one for one in found if not self._stays(one[0].class_, leaves[index][1])]
            if self._rewritten:
                found = [(self._claimed(batch, candidate), name) for candidate, name in found]
            candidates = [
                *found,
                *((Candidate(*span, _KNOWN), "known surrogate") for span in self._known.spans(batch, floor, high)),
            ]
            kept = resolve_overlaps(candidates, _PRIORITY, deadline)
            judged = self.judged(batch, kept, leaves[index][1], floor, high)
            doubted = {one.item for one in judged if not one.is_name or (self._least and one.score < self._least)}
            named = {one.item: one.named for one in judged if one.item not in doubted}
            if doubted:
                # A proposal that was not judged is none.
                gone = doubted | ({one for one in candidates if one[1] == evidence.PROPOSED} - {*kept})
                kept = resolve_overlaps([item for item in candidates if item not in gone], _PRIORITY, deadline)
            held: list[evidence.Item] = []
            for item in kept:
                candidate, name = named.get(item, item[0]), item[1]
                if candidate.start >= floor and (candidate.class_[0] != CLAIM or (report_known and candidate.class_ == _KNOWN)):
                    moved = self._moved(batch, candidate, floor)
                    if moved is not None:
                        held.append((moved, numbers.kind_of(moved, name)))
                elif report_claims and not self._rewritten.isdisjoint(_forms_of(batch[candidate.start : candidate.end], "")):
                    held.append((Candidate(candidate.start - floor, candidate.end - floor, CLAIM), name))
            if held:
                out[index] = (read.views.get(index) or View(leaves[index][0], None), held)
        return out

    def _join_lines(self, engine: TriggerEngine, read: _Read, deadline: Deadline) -> None:
        """Add the values that a line break cuts in two."""
        pieces = list(line_breaks.pieces_of(read.text, read.bounds))
        if not pieces:
            return
        leaves = [(piece.text, "") for _, piece in pieces]
        lines = self._held(leaves, self._read(engine, leaves, deadline), deadline, report_claims=True)
        others = {
            index: sorted((one for one, _ in read.found.get(index, ())), key=itemgetter(0, 1, 2))
            for index in {at for at, _ in pieces}
        }
        for number, (view, items) in lines.items():
            index, piece = pieces[number]
            for one, name in items if view.origin is None else ():
                if line_breaks.holds(piece, one, line_breaks.near(others[index], piece.joint)):
                    class_ = self.known.get(view.text[one.start : one.end], CLASS) if one.class_ == CLAIM else CLASS
                    if class_ != CLASS:
                        one = one._replace(class_=_KNOWN, kind=class_)
                    placed = [(part, line_breaks.NAME if one.class_ == CLASS else name) for part in piece.placed(one)]
                    read.found.setdefault(index, []).extend(placed)

    def _read(self, engine: TriggerEngine, leaves: Sequence[tuple[str, str]], deadline: Deadline = NEVER) -> _Read:
        """Return the findings of the detectors and the model tier in the leaves."""
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
        bounds = [
            (end - 1 - len(part) + len(prefix), end - 1) for end, part, (_, prefix) in zip(ends, parts, leaves, strict=True)
        ]
        found = engine.find(batch, ends, deadline)
        for index, item in fields.find(batch, bounds, [prefix for _, prefix in leaves]):
            found.setdefault(index, []).append(item)
        if CLASS in self._classes:
            for index, item in alone.propose(batch, bounds):
                if not self.keys.is_field_of_things(batch, item[0].start, item[0].end):
                    found.setdefault(index, []).append(item)
        if self._prose is not None:
            for index, (low, high) in enumerate(bounds):
                model = self._prose.find(batch[low:high])
                moved = [one._replace(start=one.start + low, end=one.end + low) for one in model]
                if moved:
                    found.setdefault(index, []).extend((one, prose.NAME) for one in moved)
        for entry, find in self._own:
            for index, places in enumerate(find([batch[slice(*own)] for own in bounds], deadline)):
                low = bounds[index][0]
                for start, end in places:
                    item = Candidate(low + start, low + end, entry.name), f"custom: {entry.name} by detector"
                    found.setdefault(index, []).append(item)
        for index, items in found.items():
            nobodys = {item for item in items if namesakes.is_nobodys(batch, *bounds[index], item[0])}
            if nobodys:
                # A name marked as a person's once is a person's everywhere in the leaf.
                confirmed = {batch[one.start : one.end] for one, name in items if (one, name) not in nobodys}
                found[index] = [one for one in items if one not in nobodys or batch[one[0].start : one[0].end] in confirmed]
        return _Read(text=batch, bounds=bounds, views=views, found=found)

    def before_evidence(self, leaves: Sequence[tuple[str, str]]) -> Iterator[tuple[str, list[evidence.Item]]]:
        """Yield each leaf's view and its valid findings by the rules alone, surrogates included, in offsets of the view."""
        if self._engine is None or not leaves:
            return
        read = self._read(self._engine, leaves)
        for index, (low, high) in enumerate(read.bounds):
            kept = resolve_overlaps([one for one in read.found.get(index, []) if one[1] != evidence.PROPOSED], _PRIORITY)
            moved = [(one._replace(start=one.start - low, end=one.end - low), name) for one, name in kept if one.start >= low]
            yield read.text[low:high], moved

    def judged(
        self, text: str, kept: Sequence[evidence.Item], prefix: str, low: int, high: int
    ) -> Sequence[evidence.NameJudgement]:
        """Return the second opinion on the judged names of the leaf ``text[low:high]``."""
        if not any(name in evidence.JUDGED for _, name in kept):
            return ()
        around = self.surroundings(text, kept, low, high)
        judged = (self._evidence.judge(around, evidence.key_of(prefix), item) for item in kept if item[0].start >= low)
        return [one for one in judged if one is not None]

    def surroundings(self, text: str, kept: Sequence[evidence.Item], low: int, high: int) -> evidence.Surroundings:
        """Return the surroundings of the names of a leaf with the findings `kept`."""
        return evidence.Surroundings(
            text, low, high, [(one.start, one.end, self._is_name(text, one, name)) for one, name in kept]
        )

    def _is_name(self, text: str, candidate: Candidate, name: str) -> bool:
        """Return whether the candidate is a name or a name's surrogate."""
        if candidate.class_ == _KNOWN:
            return self.known.get(text[candidate.start : candidate.end]) == CLASS
        return candidate.class_ == CLASS or (candidate.class_ == CLAIM and name.startswith("name: "))

    def _moved(self, batch: str, candidate: Candidate, floor: int) -> Candidate | None:
        """Return the candidate in offsets of its leaf, or None if the policy lets it through."""
        value = batch[candidate.start : candidate.end]
        class_, kind = candidate.class_, candidate.kind
        if class_ == _KNOWN:
            class_, kind = kind or self.known.get(value, ""), ""
        if class_ not in self._classes or self._allowed(value):
            return None
        shown = candidate.shown
        if shown is not None:
            shown = (max(0, shown[0] - floor), shown[1] - floor)
        joint = candidate.joint and (candidate.joint[0] - floor, candidate.joint[1] - floor)
        return Candidate(candidate.start - floor, candidate.end - floor, class_, kind, shown, joint)

    def _stays(self, class_: str, prefix: str) -> bool:
        """Return whether the policy keeps values of a class where they are."""
        if class_ in self._only_under and prefix not in self._only_under[class_]:
            return True
        return class_ in self._kept or (class_, prefix) in self._kept_under

    def _claimed(self, batch: str, candidate: Candidate) -> Candidate:
        """Return the candidate, as a claim if it is a known surrogate in another layout."""
        if candidate.class_ == _KNOWN:
            return candidate
        forms = _forms_of(batch[candidate.start : candidate.end], candidate.class_, candidate.kind)
        return candidate if self._rewritten.isdisjoint(forms) else candidate._replace(class_=CLAIM)

    def known_in(self, text: str) -> list[tuple[int, int]]:
        """Return the places of known surrogates in the text."""
        return list(self._known.spans(text, 0, len(text)))

    def lets_columns_decide(self, value: str) -> bool:
        """Return whether a value need not be read if its column has a class: the policy has no rules for single values."""
        return not (self.known or self.policy.custom or self.policy.rules or self._allowed(value))

    def _allowed(self, value: str) -> bool:
        if self._allow and value.lower() in self._allow:
            return True
        return self._allow_patterns is not None and self._allow_patterns.match(value)


def _forms_of(text: str, class_: str, kind: str = "") -> Iterator[str]:
    """Return the forms that a value shares with its other layouts: letters and digits; of a phone number, the dialled ones."""
    forms = (bare(text), CLASSES[class_].canonical(text, kind)) if class_ == phone.CLASS else (bare(text),)
    return (form for form in forms if len(form) >= _MIN_REWRITTEN_LENGTH)


def parts_of(candidate: Candidate, text: str) -> list[tuple[int, int]]:
    """Return the spans of the view that are replaced one by one: the words of a name, else the whole value."""
    if candidate.class_ != CLASS or text[candidate.start] == "[":  # removed
        return [(candidate.start, candidate.end)]
    out: list[tuple[int, int]] = []
    for match in _NAME_WORD.finditer(text, candidate.start, candidate.end):
        word = match.group()
        if (len(word) > 1 and word.lower() not in _KEPT_IN_NAMES) or (len(word) == 1 and not word.isascii()):
            out.append(match.span())
    return out or [(candidate.start, candidate.end)]
