"""Lookup: finds the recorded step that answers a call, and keeps the used steps. Nothing else. Not thread-safe: the session is.

A call is found exactly by (lane, request key, equal requests in the lane before it). In a redacted run, the next step of
the lane comes first if only private values keep it from being that request (`private_values`): requests that were equal
may be stored as different ones, and then only the order distinguishes them. Failing that, it is the same request anywhere in
the run that is not used yet, or the next in the lane if only the clock's times differ (`moments`), or names: relaxed.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import itemgetter
from typing import Any, Final

from freezeframe.seams import Call
from freezeframe_replay.engine.carried import Carried
from freezeframe_replay.engine.compare import first_difference
from freezeframe_replay.engine.freeze import Alias, exchange_key, transient_fields
from freezeframe_replay.engine.miss import Recorded, describe_miss
from freezeframe_replay.engine.moments import Measured, Moments, Slack, holds
from freezeframe_replay.engine.pairs import Settled
from freezeframe_replay.engine.private_values import PrivateValues
from freezeframe_replay.engine.skipped_code import CodeIs, compare_code
from freezeframe_schemas.divergence import Ambiguous, Divergence, DivergenceKind, Relaxed, Served, Why
from freezeframe_schemas.exchange import Exchange, Kind, Lane, Request, format_lane
from freezeframe_schemas.fixture import Fixture, Step
from freezeframe_schemas.keys import SEMANTIC_HEADERS, RequestKey, request_key
from freezeframe_schemas.values import is_opaque
from freezeframe_schemas.wire.document import as_object, as_text, parse

COMPONENT: Final = "timeout"
"""Its name among the components of a request, for `--ignore`."""
_OF_CLIENTS: Final = frozenset({"httpx", "httpx2", "httpcore", "requests", "urllib3", "aiohttp", "botocore", "http", "ssl"})
_NOT_OF_CALLS: Final = frozenset({"builtins:KeyboardInterrupt", "builtins:SystemExit"})
_GIVEN_UP: Final = "asyncio.exceptions:CancelledError"
"""The program's own doing, which a replay waits for (`pace.Turns`)."""
_EARLY: Final = 0.99
_EARLY_S: Final = 0.05
"""A limit may end a call this much early: two clocks measure it, and the client's starts before ours."""
_LATER: Final = 1.05
"""A limit may be this much longer: a program may compute it again from the time that is left."""


def what_ended(recorded: Exchange, live: Request, divergence: Divergence) -> Divergence | Relaxed | None:
    """Return a report about the end of the call that a step answers: None if the program's call ends the same way.

    Args:
        recorded: the step.
        live: the program's request.
        divergence: names the step; returned with the difference, if the program's call would last longer.
    """
    if recorded.error is None or not recorded.request.method:
        return None
    path = as_text(as_object(parse(recorded.error)).get("class")) or ""
    module, _, name = path.partition(":")
    if "Timeout" not in name:
        of_the_call = path == _GIVEN_UP or (
            module.partition(".")[0] in {"builtins", *_OF_CLIENTS} and path not in _NOT_OF_CALLS
        )
        return None if of_the_call else Relaxed.ENDED
    if recorded.request.timeouts is None:
        return Relaxed.TIMEOUT
    waited_s = _waited_s(recorded)
    limits, live_limits = dict(recorded.request.timeouts), dict(live.timeouts or ())
    set_limits = ((phase, limits.get(phase)) for phase in _phases(recorded, name))
    passed = {phase: limit for phase, limit in set_limits if limit and min(limit * _EARLY, limit - _EARLY_S) <= waited_s}
    if not passed:
        return Relaxed.ENDED
    phase, was = max(passed.items(), key=itemgetter(1))
    now = live_limits.get(phase)
    if live.timeouts is None or (now is not None and was < now <= was * _LATER):
        return Relaxed.TIMEOUT
    if now is not None and now <= was:
        return None
    longer = "there is no timeout now" if now is None else f"the timeout is {now:g} s now"
    return replace(
        divergence,
        path=f"$.{COMPONENT}",
        recorded=f"{was:g}",
        live="none" if now is None else f"{now:g}",
        differed=(COMPONENT,),
        note=f"the call timed out after {was:g} s when recorded; {longer}, and what would have been answered is not recorded",
    )


def _phases(recorded: Exchange, error: str) -> tuple[str, ...]:
    """Return the limits that an exception of this name may report."""
    if error == "TimeoutError" and recorded.seam == "aiohttp":
        return "connect", "total"
    return (next((phase for phase in ("connect", "write", "pool") if phase in error.lower()), "read"),)


def _waited_s(recorded: Exchange) -> float:
    """Return the waiting time of the call at its end, from its start or from the last piece of its answer."""
    last_ns = recorded.response.chunks[-1].offset_ns if recorded.response.chunks else 0
    return (recorded.end_time_unix_nano - recorded.start_time_unix_nano - last_ns) / 1e9


CLOCK_SLACK_S: Final = 2.0
_CONTENT: Final = ("body", "args", "kwargs", "settings")
"""Components in which times and names may differ."""
_BECAME_DIFFERENT: Final = (
    "the program asks the same at both, and redaction saw a private value in one of them only: "
    "only their order shows which answer belongs to which"
)
_BECAME_EQUAL: Final = (
    "the program asks different things, which are equal after redaction since their values share a surrogate: "
    "only their order shows which answer belongs to which"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundStep:
    item: Recorded
    relaxed: tuple[Relaxed, ...] = ()
    settled: Settled | None = None
    """Assumptions of the comparison; None if the request was recorded in exactly this form."""

    @property
    def how(self) -> str:
        """Return ``exact`` or ``relaxed``."""
        return "relaxed" if self.relaxed else "exact"


class Lookup:
    """The steps of one replay.

    Args:
        fixture: its askable steps answer.
        ignore: ignored components of the request key, besides those that the fixture names.
        values: compares private values.
        measured: see `Measured`.
    """

    def __init__(self, fixture: Fixture, *, ignore: tuple[str, ...], values: PrivateValues, measured: Measured) -> None:
        self._fixture = fixture
        self._ignore = (*fixture.ignore, *ignore)
        self._values = values
        self.moments = Moments(lambda number: measured(number, self._took_ns()))
        self._first_ignored: dict[str, int] = {}
        """Ignored component of the key -> the first step that was found although it differed there."""
        self.recorded = [Recorded(step=step, key=exchange_key(step.exchange, ignore=self._ignore)) for step in fixture.askable]
        self.used: dict[int, Served] = {}
        """Number of a step that answered a call -> how it was found."""
        self.ambiguous: list[Ambiguous] = []
        self._carried: list[Carried] = []
        """New results of tools that ran, in place of the recorded ones."""
        self._by_bytes = {_fingerprint(item.step.exchange): item.key for item in self.recorded}
        self._by_place: dict[tuple[Lane, str, int], Recorded] = {}
        self._by_digest: dict[str, list[Recorded]] = defaultdict(list)
        self._rows: dict[tuple[Lane, Kind, str], deque[Recorded]] = defaultdict(deque)
        """Steps of one lane and kind (and function), in order; used ones at the beginning are removed."""
        self._lanes: dict[Lane, list[Recorded]] = defaultdict(list)
        self._behind: dict[Lane, int] = {}
        """Number of used steps at the beginning of a lane, when last counted."""
        self._issued: Counter[tuple[Lane, str]] = Counter()
        self._answered_by: dict[str, Recorded] = {}
        """Digest of a live request -> the step that answered it last."""
        self._answer_to: dict[str, tuple[str, int]] = {}
        """Digest of a recorded request -> digest of the live one that it answered last, and the step's number."""
        self._trees: dict[int, dict[str, Any]] = {}
        seen: Counter[tuple[Lane, str]] = Counter()
        for item in self.recorded:
            place = (item.step.exchange.lane, item.key.digest)
            self._by_place[(*place, seen[place])] = item
            self._by_digest[item.key.digest].append(item)
            self._rows[_row(item.step.exchange)].append(item)
            self._lanes[item.step.exchange.lane].append(item)
            seen[place] += 1

    def key_of(self, call: Call) -> RequestKey:
        """Return the call's key. Most requests of a replay have exactly the bytes of a recorded one, and so its key."""
        known = self._by_bytes.get(_fingerprint(call))
        return _key(call, self._ignore) if known is None else known

    def find(self, call: Call, key: RequestKey, *, goes_live: bool = False) -> FoundStep | None:
        """Return the step that answers the call and how it was found, or None. Counts the call as issued.

        `goes_live`: the model is asked anew if a tool's new result differs from the recording.
        """
        ordinal = self._issued[call.lane, key.digest]
        self._issued[call.lane, key.digest] += 1
        following = self._next_in_lane(call)
        placed = self._by_place.get((call.lane, key.digest, ordinal))
        if placed is not None and placed.step.number in self.used:
            placed = None
        if placed is not None and placed is following:
            return FoundStep(item=placed)
        live = _Lazily(partial(self._tree, call)) if self._values.are_redacted else None
        if live is not None and following is not None:
            found = self._but_for_values(following, live.tree)
            if found is not None:
                return found
        if placed is not None:
            return FoundStep(item=placed)
        for candidate in self._by_digest.get(key.digest, ()):
            if candidate.step.number not in self.used:
                return FoundStep(item=candidate, relaxed=(Relaxed.PLACE,))
        if live is not None:
            shape = self._shape_key(call).digest
            for candidate in self._by_shape.get(shape, ()):
                if candidate.step.number not in self.used:
                    found = self._but_for_values(candidate, live.tree)
                    if found is not None:
                        return replace(found, relaxed=(Relaxed.PLACE, *found.relaxed))
        if following is None:
            return None
        found = self._but_for_values_and_moments(following, call)
        if found is None and live is not None:
            found = self._but_for_values(following, live.tree, with_computed=True)
        if found is None and self._carried and not (goes_live and call.kind is Kind.MODEL):
            found = self._but_for_results(following, call)
        return found

    def carry(self, recorded: Any, live: Any) -> None:
        """Expect a tool's new result in later requests, in place of the recorded one."""
        self._carried.append(Carried.of(recorded, live))

    def _but_for_results(self, following: Recorded, call: Call) -> FoundStep | None:
        recorded = self._recorded_tree(following)
        settled = self._values.settle(recorded, self._tree(call))
        settled.tree = self._settle_moments(following, recorded, settled.tree)
        if any(each.explains(recorded, settled.tree) for each in (*self._carried, _joined(self._carried))):
            return FoundStep(item=following, relaxed=(Relaxed.CARRIED,))
        return None

    def use(self, found: FoundStep, call: Call, key: RequestKey, *, runs: bool = False) -> Served:
        """Mark the step as used by the call, and return how."""
        item = found.item
        number, request = item.step.number, item.step.exchange.request
        ignored = self._ignored(item.step.exchange, call)
        for name in ignored & set(self._ignore):
            self._first_ignored.setdefault(name, number)
        if self._values.are_redacted:
            self._look_for_mistakes(found, key)
        has_objects = not request.method and is_opaque(request.body.decode(errors="replace"))
        objects = (Relaxed.OBJECTS,) if has_objects else ()
        ended = self._ended(item, call)
        ends = () if ended is None else (ended if isinstance(ended, Relaxed) else COMPONENT,)
        code, place = (CodeIs.SAME, "") if runs else compare_code(item.step.exchange.code, call.code)
        unread = (Relaxed.CODE,) if code is CodeIs.UNKNOWN else ()
        served = Served(
            step=number,
            how=found.how,
            relaxed=(*found.relaxed, *objects, *ends, *unread, *sorted(ignored)),
            changed_code=place if code is CodeIs.CHANGED else "",
            ran=runs,
        )
        self.used[number] = served
        return served

    def outlived(self, found: FoundStep, call: Call) -> Divergence | None:
        """Return the divergence for a call that would still wait at the time when the step's timed out."""
        ended = self._ended(found.item, call)
        return ended if isinstance(ended, Divergence) and COMPONENT not in self._ignore else None

    def _ended(self, item: Recorded, call: Call) -> Divergence | Relaxed | None:
        recorded = item.step.exchange
        named = Divergence(
            kind=DivergenceKind.REQUEST_CHANGED,
            step=item.step.number,
            lane=format_lane(call.lane),
            call_kind=recorded.kind.value,
            name=recorded.name,
        )
        return what_ended(recorded, call.request, named)

    def _ignored(self, recorded: Exchange, call: Call) -> set[str]:
        """Return the tolerated components in which the call differs from the step: ignored or transient ones."""
        transient = {f"body.{name}" for name in transient_fields(call.request)}
        if not (transient or self._ignore) or _fingerprint(recorded) == _fingerprint(call):
            return set()
        shape = self._values.shape
        was, now = (request_key(asked.kind, asked.name, asked.request, alias=shape) for asked in (recorded, call))
        return set(was.differing(now)) & {*transient, *self._ignore}

    def _look_for_mistakes(self, found: FoundStep, key: RequestKey) -> None:
        """Note the step whose answer may be mixed up with this one's, because redaction changed which requests are equal."""
        item = found.item
        number, digest = item.step.number, item.key.digest
        earlier = self._answered_by.get(key.digest)
        if earlier is not None and earlier.key.digest != digest and self._but_for_values(earlier, self._recorded_tree(item)):
            self.ambiguous.append(Ambiguous(steps=(earlier.step.number, number), why=_BECAME_DIFFERENT))
        self._answered_by[key.digest] = item
        asked, before = self._answer_to.get(digest, (key.digest, 0))
        shares = found.settled is not None and any(pair.why is Why.SHARED for pair in found.settled.pairs)
        if asked != key.digest and shares:
            self.ambiguous.append(Ambiguous(steps=(before, number), why=_BECAME_EQUAL))
        self._answer_to[digest] = key.digest, number

    def miss(self, call: Call, key: RequestKey) -> Divergence:
        """Return the divergence for a call that no step answers."""
        return describe_miss(
            call,
            key,
            recorded=self.recorded,
            used=self.used,
            same=self._used_for_the_same(call, key),
            values=self._values,
            settle=self._settle,
            components=partial(self._components, call),
        )

    def _components(self, call: Call, item: Recorded) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the components in which a call differs from a step, and those in which it agrees."""
        recorded = self._recorded_tree(item)
        live = self._values.settle(recorded, self._tree(call)).tree
        names = [*recorded, *(name for name in live if name not in recorded)]
        differing = [
            name
            for name in names
            if name not in recorded or name not in live or first_difference(recorded[name], live[name]) is not None
        ]
        return tuple(differing), tuple(name for name in names if name not in differing)

    def settle_outcome(self, recorded: Any, live: Any) -> Any:
        """Return the program's result with its clock's moments replaced by the recorded ones (see `moments`)."""
        slack = self._slack(len(self._fixture.steps) + 1, self._fixture.entry.end_time_unix_nano)
        return self.moments.settle(recorded, live, slack)

    def settle_moments_of(self, step: Step, recorded: Any, live: Any) -> Any:
        """Return a tool's result with its clock's moments replaced by the recorded ones."""
        return self.moments.settle(recorded, live, self._slack(step.number, step.exchange.end_time_unix_nano))

    def _took_ns(self) -> list[int]:
        """Return the durations of the used steps, in whole microseconds as in `response.elapsed`."""
        used = [item.step.exchange for item in self.recorded if item.step.number in self.used]
        return [(each.end_time_unix_nano - each.start_time_unix_nano) // 1000 * 1000 for each in used if each.request.method]

    def unused(self) -> list[Recorded]:
        """Return the steps that have not answered a call yet."""
        return [item for item in self.recorded if item.step.number not in self.used]

    def ignored_too_much(self, divergences: Sequence[Divergence]) -> Iterator[str]:
        """Yield a warning for each ignored component that may matter: it differed, and then the program did, too."""
        if not divergences:
            return
        left_at = divergences[0].step
        for name, step in sorted(self._first_ignored.items()):
            if left_at is None or step < left_at:
                yield f"{name} is ignored and differed from step {step} on, and then the run diverged: it may matter now"

    def between_ns(self, lane: Lane) -> tuple[int, int]:
        """Return the end of the lane's last used step, and the start of its next one in the run, in ns since 1970.

        Before a lane's first step, the former is the start of the run. After the last one, the latter is the
        end of the run if this is its first lane, else 0. It needs no lock: the program may read its clock
        anywhere.
        """
        steps, position = self._lanes.get(lane, []), self._behind.get(lane, 0)
        while position < len(steps) and steps[position].step.number in self.used:
            position += 1
        self._behind[lane] = position
        entry = self._fixture.entry
        since_ns = steps[position - 1].step.exchange.end_time_unix_nano if position else entry.start_time_unix_nano
        if position < len(steps):
            return since_ns, steps[position].step.exchange.start_time_unix_nano
        return since_ns, 0 if lane else entry.end_time_unix_nano

    def _next_in_lane(self, call: Call) -> Recorded | None:
        row = self._rows.get(_row(call))
        while row and row[0].step.number in self.used:
            row.popleft()
        return row[0] if row else None

    def _used_for_the_same(self, call: Call, key: RequestKey) -> list[Recorded]:
        """Return the used steps with the same request."""
        same = [item for item in self._by_digest.get(key.digest, ()) if item.step.number in self.used]
        if same or not self._values.are_redacted:
            return same
        live = self._tree(call)
        alike = self._by_shape.get(self._shape_key(call).digest, ())
        return [item for item in alike if item.step.number in self.used and self._but_for_values(item, live) is not None]

    # -- except for values and times -------------------------------------------------------------------------------------

    @cached_property
    def _by_shape(self) -> Mapping[str, list[Recorded]]:
        """The steps by their requests without the private values."""
        made: dict[str, list[Recorded]] = defaultdict(list)
        for item in self.recorded:
            made[self._shape_key(item.step.exchange).digest].append(item)
        return made

    def _shape_key(self, asked: Exchange | Call) -> RequestKey:
        return _key(asked, self._ignore, self._values.shape)

    def _tree(self, asked: Exchange | Call) -> dict[str, Any]:
        """Return the components of the key as one marked JSON value."""
        return dict(_parsed(_key(asked, self._ignore, self._values.mark)))

    def _recorded_tree(self, item: Recorded) -> dict[str, Any]:
        made = self._trees.get(item.step.number)
        if made is None:
            made = self._trees[item.step.number] = self._tree(item.step.exchange)
        return made

    def _but_for_values(self, item: Recorded, live: dict[str, Any], *, with_computed: bool = False) -> FoundStep | None:
        settled = self._values.settle(self._recorded_tree(item), live, with_computed=with_computed)
        if not settled.agrees:
            return None
        return FoundStep(item=item, relaxed=(Relaxed.NAMES,) if settled.has_words else (), settled=settled)

    def _but_for_values_and_moments(self, following: Recorded, call: Call) -> FoundStep | None:
        recorded = self._recorded_tree(following)
        settled = self._values.settle(recorded, self._tree(call))
        names = {*recorded, *settled.tree}
        if any(recorded.get(name) != settled.tree.get(name) for name in names if not name.startswith(_CONTENT)):
            return None
        if settled.conflict or first_difference(recorded, self._settle_moments(following, recorded, settled.tree)) is not None:
            return None
        by_names = (Relaxed.NAMES,) if settled.has_words else ()
        return FoundStep(item=following, relaxed=(Relaxed.CLOCK, *by_names), settled=settled)

    def _settle(self, item: Recorded, recorded: Any, live: Any) -> Settled:
        """Return the comparison of two marked bodies, with the moments of the live one settled, too."""
        settled = self._values.settle(recorded, live)
        settled.tree = self._settle_moments(item, recorded, settled.tree)
        return settled

    def _settle_moments(self, item: Recorded, recorded: Any, live: Any) -> Any:
        return self.moments.settle(recorded, live, self._slack(item.step.number, item.step.exchange.start_time_unix_nano))

    def _slack(self, number: int, now_ns: int) -> Slack:
        """Return the possible error of the clock at a step: the recorded code's time since the last answer, plus a little."""
        ends = [
            step.exchange.end_time_unix_nano
            for step in self._fixture.askable
            if step.number < number and step.exchange.end_time_unix_nano <= now_ns
        ]
        since_ns = now_ns - max(ends, default=self._fixture.entry.start_time_unix_nano)
        return Slack(
            within_s=CLOCK_SLACK_S + max(since_ns, 0) / 1e9, is_content=partial(self._was_used, number), now_s=now_ns / 1e9
        )

    def _was_used(self, number: int, text: str) -> bool:
        """Return whether the run's input, or an answer before a step, contains the text."""
        before = (step.exchange.response.body for step in self._fixture.askable if step.number < number)
        return any(holds(given, text) for given in itertools.chain([(self._fixture.entry.input or "").encode()], before))


def _fingerprint(asked: Exchange | Call) -> tuple[object, ...]:
    """Return everything that a request's key is made of, unchanged."""
    request = asked.request
    headers = tuple([pair for pair in request.headers if pair[0].lower() in SEMANTIC_HEADERS])
    return asked.kind, asked.name, request.method, request.url, headers, request.body, request.omitted


def _row(asked: Exchange | Call) -> tuple[Lane, Kind, str]:
    return asked.lane, asked.kind, "" if asked.request.method else asked.name


def _key(asked: Exchange | Call, ignore: tuple[str, ...], alias: Alias = str) -> RequestKey:
    request = asked.request
    transient = transient_fields(request)
    return request_key(asked.kind, asked.name, request, transient=transient, ignore=ignore, alias=alias)


def _parsed(key: RequestKey) -> Iterator[tuple[str, Any]]:
    for name, text in key.components:
        yield name, json.loads(text) if name.startswith(_CONTENT) else text


def _joined(carried: Sequence[Carried]) -> Carried:
    """Return the changes that a request with the results of several tools may contain."""
    return Carried(
        was=frozenset().union(*(each.was for each in carried)),
        now=frozenset().union(*(each.now for each in carried)),
        was_error=any(each.was_error for each in carried),
    )


class _Lazily:
    """A tree that is built when it is needed."""

    def __init__(self, make: Callable[[], dict[str, Any]]) -> None:
        self._make = make

    @cached_property
    def tree(self) -> dict[str, Any]:
        return self._make()
