"""Lookup: which recorded step answers a call. Keeps what was used; decides nothing else. Not safe for threads: the session is.

By (lane, request key, how many equal requests this lane has issued) a call is found exactly. Failing that, it is the same
request anywhere in the run that is not used yet, or what stands next in the lane where only the clock's times differ
(`moments`), or names (`names`): relaxed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from typing import Any, Final

from freezeframe.seams import Call
from freezeframe_replay.engine.compare import first_difference
from freezeframe_replay.engine.freeze import Alias, exchange_key, transient_fields
from freezeframe_replay.engine.miss import Recorded, describe_miss
from freezeframe_replay.engine.moments import Moments, Slack
from freezeframe_replay.engine.names import same_but_for_names
from freezeframe_schemas.divergence import Divergence, Relaxed, Served
from freezeframe_schemas.exchange import Exchange, Lane
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.keys import SEMANTIC_HEADERS, RequestKey, comparable_body, request_key

CLOCK_SLACK_S: Final = 2.0


class Lookup:
    """The steps of one replay.

    Args:
        fixture: whose steps answer, those that can be asked for.
        ignore: components of the request key that do not decide.
        alias: applied to every text before it is compared.
    """

    def __init__(self, fixture: Fixture, *, ignore: tuple[str, ...], alias: Alias) -> None:
        self._fixture = fixture
        self._ignore = ignore
        self._alias = alias
        self._moments = Moments()
        self.first_ignored: dict[str, int] = {}
        """Ignored component of the key -> the first step that was found though it differed there."""
        self.recorded = [
            Recorded(step=step, key=exchange_key(step.exchange, alias=alias, ignore=ignore)) for step in fixture.askable
        ]
        self.used: dict[int, Served] = {}
        """Number of a step that answered a call -> how it was found."""
        self._by_bytes = {_fingerprint(item.step.exchange): item.key for item in self.recorded}
        self._by_place: dict[tuple[Lane, str, int], Recorded] = {}
        self._by_digest: dict[str, list[Recorded]] = defaultdict(list)
        self._issued: Counter[tuple[Lane, str]] = Counter()
        seen: Counter[tuple[Lane, str]] = Counter()
        for item in self.recorded:
            place = (item.step.exchange.lane, item.key.digest)
            self._by_place[(*place, seen[place])] = item
            self._by_digest[item.key.digest].append(item)
            seen[place] += 1

    def key_of(self, call: Call) -> RequestKey:
        """Return the call's key. Most requests of a replay have the very bytes of a recorded one, and so its key."""
        known = self._by_bytes.get(_fingerprint(call))
        return self._key(call, self._ignore) if known is None else known

    def find(self, call: Call, key: RequestKey) -> tuple[Recorded | None, tuple[Relaxed, ...]]:
        """Return the step that answers the call and what was relaxed to find it; None where there is none.

        Counts the call as issued.
        """
        ordinal = self._issued[call.lane, key.digest]
        self._issued[call.lane, key.digest] += 1
        found = self._by_place.get((call.lane, key.digest, ordinal))
        if found is not None and found.step.number not in self.used:
            return found, ()
        for candidate in self._by_digest.get(key.digest, ()):
            if candidate.step.number not in self.used:
                return candidate, (Relaxed.PLACE,)
        following = self._next_in_lane(call)
        relaxed = () if following is None else self._relaxed_to(following, call, key)
        return (following, relaxed) if relaxed else (None, ())

    def miss(self, call: Call, key: RequestKey) -> Divergence:
        """Return what is to be said of a call that no step answers."""
        return describe_miss(call, key, recorded=self.recorded, used=self.used, alias=self._alias, settle=self._settle)

    def settle_outcome(self, recorded: Any, live: Any) -> Any:
        """Return what the program came to with the moments of its clock as recorded (see `moments`)."""
        slack = self._slack(len(self._fixture.steps) + 1, self._fixture.entry.end_time_unix_nano)
        return self._moments.settle(recorded, live, slack)

    def unused(self) -> list[Recorded]:
        """Return the steps that answered no call yet."""
        return [item for item in self.recorded if item.step.number not in self.used]

    def use(self, found: Recorded, call: Call, relaxed: tuple[Relaxed, ...]) -> Served:
        """Take the step as used by the call, and return how."""
        number = found.step.number
        ignored: set[str] = set()
        if self._ignore:
            differing = exchange_key(found.step.exchange, alias=self._alias).differing(self._key(call, ()))
            ignored = set(differing) & set(self._ignore)
            for name in ignored:
                self.first_ignored.setdefault(name, number)
        served = Served(step=number, how="relaxed" if relaxed else "exact", relaxed=(*relaxed, *sorted(ignored)))
        self.used[number] = served
        return served

    def _key(self, call: Call, ignore: tuple[str, ...]) -> RequestKey:
        transient = transient_fields(call.request.method, call.request.url)
        return request_key(call.kind, call.name, call.request, transient=transient, ignore=ignore, alias=self._alias)

    def _next_in_lane(self, call: Call) -> Recorded | None:
        return next(
            (
                item
                for item in self.recorded
                if item.step.exchange.lane == call.lane
                and item.step.number not in self.used
                and item.step.exchange.kind is call.kind
                and (bool(call.request.method) or item.step.exchange.name == call.name)
            ),
            None,
        )

    def _relaxed_to(self, following: Recorded, call: Call, key: RequestKey) -> tuple[Relaxed, ...]:
        """Return what must be relaxed so that the call is the one of the step: times, names, or nothing that may be."""
        if not all(name.startswith(("body", "args", "kwargs")) for name in following.key.differing(key)):
            return ()
        transient = transient_fields(call.request.method, call.request.url)
        recorded = comparable_body(following.step.exchange.request, transient=transient, alias=self._alias)
        live = comparable_body(call.request, transient=transient, alias=self._alias)
        settled = self._settle(following, recorded, live)
        by_names = first_difference(recorded, settled) is not None  # not !=: to Python 1, 1.0 and True are equal
        if by_names and not same_but_for_names(recorded, settled):
            return ()
        return tuple(which for which, is_so in ((Relaxed.CLOCK, settled != live), (Relaxed.NAMES, by_names)) if is_so)

    def _settle(self, item: Recorded, recorded: Any, live: Any) -> Any:
        return self._moments.settle(recorded, live, self._slack(item.step.number, item.step.exchange.start_time_unix_nano))

    def _slack(self, number: int, now_ns: int) -> Slack:
        """Return what the clock may be off at a step: what the recorded code took since anything was answered, and a little."""
        ends = [
            step.exchange.end_time_unix_nano
            for step in self._fixture.askable
            if step.number < number and step.exchange.end_time_unix_nano <= now_ns
        ]
        since_ns = now_ns - max(ends, default=self._fixture.entry.start_time_unix_nano)
        return Slack(
            within_s=CLOCK_SLACK_S + max(since_ns, 0) / 1e9, is_content=partial(self._was_given, number), now_s=now_ns / 1e9
        )

    def _was_given(self, number: int, text: str) -> bool:
        """Tell whether the run's input, or an answer before a step, holds the text."""
        sought = text.encode()
        before = (step.exchange.response.body for step in self._fixture.askable if step.number < number)
        return text in (self._fixture.entry.input or "") or any(sought in body for body in before)


def _fingerprint(asked: Exchange | Call) -> tuple[object, ...]:
    """Return all that a request's key is made of, as it came."""
    request = asked.request
    headers = tuple([pair for pair in request.headers if pair[0].lower() in SEMANTIC_HEADERS])
    return asked.kind, asked.name, request.method, request.url, headers, request.body, request.omitted
