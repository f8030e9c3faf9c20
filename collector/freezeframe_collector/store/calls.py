"""Join the spans and log records of other instrumentations that report the same model call, so that each call counts once.

1. Within a run, a span and the one directly above it, or a log record and its span, report one call; unless two of one
   instrumentation are below the same span: then each is a call, and that span reports none. Of two with the same
   response id, or with the same question and no answer, one of which begins and ends within the other, the other counts
   as above it.
2. Two reports of a service are one call, too, if they overlap in time, are of different instrumentations, and
have the same response id; or, if one of them has none, the same tokens (if neither has any: the same requested
model). The first of one goes with the first of the other, the second with the second.
3. Across runs, the run with the most values of a call shows it.
4. The log records of a coding agent's session are below no span. There an answer belongs to the request that
was made when the answer began; without that time, to the last one before it that has no answer yet. A prompt is
the question of the next call, and a text is the answer with the same response id.

Pure: the same answer for the same spans, in whatever order they came. `call_rows` reads and stores them.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

_OF_SPANS_ABOVE: Final = frozenset(
    {
        "operation",
        "provider",
        "agent_name",
        "run_id",
        "service",
        "commit",
        "user_id",
        "tools_hash",
        "request_model",
        "response_model",
        "temperature",
        "top_p",
        "seed",
        "max_tokens",
        "stream",
    }
)
"""A call takes these even from a span above several calls; such a span's other values are about all its calls together."""
_OF_THE_LEAD: Final = frozenset({"tenant", "trace_id", "span_id", "parent_span_id", "start_time", "ms", "status", "name"})
_SPAN: Final = 8
_ANSWER: Final = 4
_QUESTION: Final = 2
_BELOW: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReport:
    """One span or log record that reports a model call, or carries a message of one."""

    values: Mapping[str, Any]
    """By column of `columns.REPORTED_COLUMNS`."""
    scope: str
    is_event: bool
    reports_call: bool
    """False for a log record of a message alone: it belongs to its span."""
    started_ns: int
    ended_ns: int

    @property
    def span_id(self) -> str:
        return self.values["span_id"]

    @property
    def parent(self) -> str:
        """Return the id of the span above it; empty for a root."""
        return self.values["parent_span_id"]

    @property
    def reporter(self) -> str:
        """Return the instrumentation, its log records apart from its spans."""
        return f"{self.scope} event" if self.is_event else self.scope

    @property
    def rank(self) -> int:
        """Return its number of reported values."""
        values = self.values
        return (
            _SPAN * (not self.is_event) + _ANSWER * bool(values["output_preview"]) + _QUESTION * bool(values["input_preview"])
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOfRun:
    """A model call as one run reports it."""

    tenant: str
    trace_id: str
    span_id: str
    """Id of the span with the most values."""
    service: str
    response_id: str
    reported_by: str
    started_ns: int
    ended_ns: int
    rank: int
    keys: Sequence[int]
    """Hashes by which other instrumentations' calls are found: of the tokens, then of the response id if there is one."""
    shown: bool = True
    """As it was last stored; see `hidden`."""

    @property
    def place(self) -> tuple[str, str, str]:
        return self.tenant, self.trace_id, self.span_id


@dataclass(slots=True, kw_only=True)
class _Group:
    """The reports of one call, with the span above if that has several."""

    members: list[CallReport]
    outer: CallReport | None
    top: CallReport


def calls_of_run(reports: Sequence[CallReport]) -> list[tuple[CallOfRun, Mapping[str, Any]]]:
    """Return the calls that one run reports, each with its values by column."""
    reports = _sessions_joined(reports)
    groups = {(call := _call(group)).place: (call, group) for group in _groups([one for one in reports if one.reports_call])}
    for same in _joined([call for call, _ in groups.values()]):
        parts = sorted(
            (groups.pop(call.place)[1] for call in same), key=lambda group: (group.top.started_ns, group.top.span_id)
        )
        joined = _Group(
            members=[one for part in parts for one in part.members],
            outer=next((part.outer for part in parts if part.outer), None),
            top=parts[0].top,
        )
        call = _call(joined)
        groups[call.place] = call, joined
    messages: dict[str, list[CallReport]] = defaultdict(list)
    for one in reports:
        if not one.reports_call:
            messages[one.parent].append(one)
    return [(call, _values(group, messages)) for call, group in groups.values()]


def _sessions_joined(reports: Sequence[CallReport]) -> list[CallReport]:
    """Return the reports, each call of a coding agent's session with the values of its other records (rule 4)."""
    messages = [one for one in reports if one.is_event and not one.reports_call and not one.parent]
    if not messages:
        return list(reports)
    requests = sorted((one for one in messages if one.values["request_model"]), key=_moment, reverse=True)
    model_prompts = (one for one in messages if one.values["input_preview"] and not one.values["request_model"])
    prompts = sorted(model_prompts, key=_moment, reverse=True)
    texts = {one.values["response_id"]: one for one in messages if one.values["response_id"]}
    calls: list[CallReport] = []
    unanswered: list[CallReport] = []
    for call in sorted((one for one in reports if one.reports_call and not one.parent), key=_moment):
        while requests and requests[-1].started_ns <= call.ended_ns:
            unanswered.append(requests.pop())
        del unanswered[:-_AT_ONCE]
        since = call.started_ns - _APART_NS if call.ended_ns > call.started_ns else 0
        candidates = [one for one in unanswered if one.started_ns >= since and one.values["name"] != call.values["name"]]
        request = min(candidates, key=lambda one, call=call: (abs(call.started_ns - one.started_ns), one.span_id), default=None)
        if request is not None:
            unanswered.remove(request)
        calls.append(_filled(call, request, texts.get(call.values["response_id"])))
    found = [one for one in reports if one.parent]
    for call in sorted(calls, key=lambda one: (one.started_ns, one.span_id)):
        prompt = None
        while prompts and prompts[-1].started_ns <= call.started_ns:
            prompt = prompts.pop()
        found.append(_filled(call, prompt))
    return found


_AT_ONCE: Final = 100
"""Requests of one session that may wait for an answer. An older one was interrupted."""
_APART_NS: Final = 100_000_000
"""Maximum time between a request and the recorded beginning of its answer: two clock readings around the request."""


def _filled(call: CallReport, *others: CallReport | None) -> CallReport:
    """Return the call, completed by values of the others. It begins with its request, and is named after that."""
    values, started_ns = dict(call.values), call.started_ns
    for other in others:
        if other is None:
            continue
        values |= {name: other.values[name] for name, value in values.items() if value in _NOTHING and name not in _OF_THE_LEAD}
        if other.values["request_model"]:
            started_ns = min(started_ns, other.started_ns)
            values |= {"name": other.values["name"], "start_time": started_ns, "ms": (call.ended_ns - started_ns) / 1e6}
    return replace(call, values=values, started_ns=started_ns)


def _moment(one: CallReport) -> tuple[int, int, str]:
    """Return the sort key of a session's records: the time of writing. A request is written when its answer begins."""
    return one.ended_ns, one.started_ns, one.span_id


def hidden(calls: Iterable[CallOfRun]) -> set[tuple[str, str, str]]:
    """Return the places of the calls that are not shown, because another run has more values of the same call."""
    return {
        call.place
        for same in _joined(calls)
        for first in [min(same, key=_fullest)]
        for call in same
        if call.trace_id != first.trace_id
    }


def _groups(reports: Sequence[CallReport]) -> Iterator[_Group]:
    """Yield the reports of each call, as far as parents show it (rule 1)."""
    by_id = {one.span_id: one for one in reports}
    parents = _parents(by_id.values())
    seen: set[tuple[str, str]] = set()
    several: set[str] = set()
    for one in by_id.values():
        place = parents[one.span_id], one.reporter
        (several.add(place[0]) if place in seen else seen.add(place))
    below: dict[str, list[CallReport]] = defaultdict(list)
    for one in by_id.values():
        top, passed = one, {one.span_id}
        while (above := by_id.get(parent := parents[top.span_id])) and parent not in several and parent not in passed:
            top = above
            passed.add(top.span_id)
        below[min(passed) if parent in passed else top.span_id].append(one)
    for top_id, members in below.items():
        if not any(one.span_id in several for one in members):
            top = by_id[top_id]
            yield _Group(members=members, outer=by_id.get(top.parent) if top.parent in several else None, top=top)


def _parents(reports: Iterable[CallReport]) -> dict[str, str]:
    """Return the id of the span above each report; that of its sibling around it, if this reports the same answer."""
    around: dict[tuple[str, ...], CallReport] = {}
    parents: dict[str, str] = {}
    for one in sorted(reports, key=lambda one: (one.started_ns, -one.ended_ns, one.span_id)):
        outer, values = one, one.values
        failed = not values["output_preview"] and values["output_tokens"] is None
        question = values["input_preview"] if failed else ""
        if one.parent and (values["response_id"] or question):
            outer = around.setdefault((one.parent, one.reporter, values["response_id"], question), one)
        parents[one.span_id] = outer.span_id if outer is not one and one.ended_ns <= outer.ended_ns else one.parent
    return parents


def _call(group: _Group) -> CallOfRun:
    lead = max(group.members, key=_weight)
    values = lead.values
    tokens = [max((one.values[name] for one in group.members if one.values[name] is not None), default=-1) for name in _TOKENS]
    service = max(one.values["service"] for one in group.members)
    response_id = max(one.values["response_id"] for one in group.members)
    alike = [group.top.values["request_model"]] if max(tokens) < 0 else tokens
    keys = [_key(values["tenant"], service, "tokens", *alike)]
    if response_id:
        keys.append(_key(values["tenant"], service, "response", response_id))
    return CallOfRun(
        tenant=values["tenant"],
        trace_id=values["trace_id"],
        span_id=lead.span_id,
        service=service,
        response_id=response_id,
        reported_by=", ".join(sorted({one.reporter for one in group.members})),
        started_ns=min(one.started_ns for one in group.members),
        ended_ns=max(one.ended_ns for one in group.members),
        rank=lead.rank + _BELOW * bool(group.top.parent),
        keys=tuple(keys),
    )


_TOKENS: Final = ("input_tokens", "output_tokens")


def _key(*parts: object) -> int:
    text = "\0".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def _weight(one: CallReport) -> tuple[int, int, str]:
    return one.rank, one.started_ns, one.span_id


def _fullest(call: CallOfRun) -> tuple[Hashable, ...]:
    return -call.rank, call.started_ns, call.place


def _joined(calls: Iterable[CallOfRun]) -> list[list[CallOfRun]]:
    """Return the sets of two or more that are one call (rule 2)."""
    root: dict[tuple[str, str, str], CallOfRun] = {}

    def root_of(call: CallOfRun) -> CallOfRun:
        while (above := root.get(call.place)) is not None:
            call = above
        return call

    every = list(calls)
    if len({call.reported_by for call in every}) < 2:
        return []
    every.sort(key=lambda call: (call.started_ns, call.place))
    for same in (*_alike(every, lambda call: call.keys[1:]), *_alike(every, lambda call: call.keys[:1])):
        if len({call.response_id for call in same if call.response_id}) < 2:
            first = root_of(same[0])
            for other in same[1:]:
                if (found := root_of(other)) is not first:
                    root[found.place] = first
    sets: dict[tuple[str, str, str], list[CallOfRun]] = defaultdict(list)
    for call in every:
        sets[root_of(call).place].append(call)
    return [same for same in sets.values() if len(same) > 1]


def _alike(calls: Sequence[CallOfRun], keys: Callable[[CallOfRun], Sequence[int]]) -> Iterator[list[CallOfRun]]:
    """Yield the reports with equal keys that overlap in time: the first of each instrumentation, the second of each, ..."""
    by_key: dict[int, list[CallOfRun]] = defaultdict(list)
    for call in calls:
        for key in keys(call):
            by_key[key].append(call)
    for alike in by_key.values():
        reached, nth, number = alike[0].started_ns, defaultdict[str, int](int), 0
        rows: dict[tuple[int, int], list[CallOfRun]] = defaultdict(list)
        for call in alike:
            if call.started_ns > reached:
                nth, number = defaultdict(int), number + 1
            reached = max(reached, call.ended_ns)
            rows[number, nth[call.reported_by]].append(call)
            nth[call.reported_by] += 1
        yield from (row for row in rows.values() if len(row) > 1)


def _values(group: _Group, messages: Mapping[str, Sequence[CallReport]]) -> Mapping[str, Any]:
    """Return the combined values of the call: of conflicting ones, that of the report with the most values."""
    lead = max(group.members, key=_weight)
    members = [*group.members, *(message for one in group.members for message in messages.get(one.span_id, ()))]
    if len(members) == 1 and group.outer is None:
        return lead.values
    members.sort(key=_weight, reverse=True)
    above = [] if group.outer is None else [group.outer, *messages.get(group.outer.span_id, ())]
    values: dict[str, Any] = {}
    for name in lead.values:
        if name in _OF_THE_LEAD:
            values[name] = lead.values[name]
            continue
        sources = [*members, *above] if name in _OF_SPANS_ABOVE else members
        values[name] = next((one.values[name] for one in sources if one.values[name] not in _NOTHING), lead.values[name])
    with_input = [one for one in members if one.values["input_preview"]]
    if with_input:  # of the messages of a prompt, the last one
        values["input_preview"] = max(with_input, key=lambda one: (one.started_ns, _weight(one))).values["input_preview"]
    return values


_NOTHING: Final[tuple[Any, ...]] = (None, "", [])
