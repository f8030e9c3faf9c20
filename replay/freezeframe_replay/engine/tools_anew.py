"""Tools that a replay runs although the recording has their results, the answers inside them, and their new results.

The steps inside a tool's recorded call answer the calls that it makes now. Not thread-safe: the session is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from freezeframe.context.current import MAX_INSIDE
from freezeframe.seams import Call
from freezeframe_replay.engine.compare import described
from freezeframe_replay.engine.lookup import Lookup
from freezeframe_replay.engine.miss import Recorded, about_step
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.engine.private_values import PrivateValues
from freezeframe_replay.engine.skipped_code import CodeIs, compare_code
from freezeframe_schemas.divergence import Divergence, DivergenceKind
from freezeframe_schemas.exchange import Exchange, Kind
from freezeframe_schemas.fixture import Fixture, Step
from freezeframe_schemas.keys import RequestKey, without_identity

_BOUNDED: Final = frozenset({Kind.DATABASE, Kind.FILE})
_RUN: Final = frozenset({Kind.TOOL, Kind.RETRIEVAL})
MakeLookup = Callable[[Fixture], Lookup]


class ToolsAnew:
    """The tools of one replay that run.

    Args:
        fixture: the recording.
        policy: names them.
        values: compares private values.
        make: makes the lookup for the steps inside a call.
    """

    def __init__(self, fixture: Fixture, policy: ReplayPolicy, values: PrivateValues, make: MakeLookup) -> None:
        self._fixture = fixture
        self._policy = policy
        self._values = values
        self._make = make
        self._inside: dict[str, tuple[Step, Lookup]] = {}
        """Span id of a recorded call whose function runs -> the call, and the lookup for calls inside it."""
        self.changed_code: dict[str, str] = {}
        """Functions called inside such a tool that changed and were not run -> their places."""
        self.queried = False
        """True if a call of a database was answered inside such a tool."""
        self.ran: dict[int, str] = {}
        """Number of a step whose function ran -> ``tool refund``."""

    def is_run(self, item: Recorded, call: Call) -> bool:
        """Return whether the call's function runs."""
        if call.kind not in _RUN or call.code is None or call.name in self._policy.skip_tools:
            return False
        if call.name in self._policy.run_tools:
            return True
        return self._policy.run_changed and compare_code(item.step.exchange.code, call.code)[0] is CodeIs.CHANGED

    def begin(self, item: Recorded) -> None:
        """Let a step's function run."""
        step = item.step
        inside = tuple(_directly_inside(step, self._fixture.steps))
        self._inside[step.exchange.span_id] = step, self._make(replace(self._fixture, steps=inside))
        self.ran[step.number] = _named(step.exchange)

    def runs(self, answer: Exchange) -> bool:
        """Return whether the function of a recorded call runs."""
        return answer.span_id in self._inside

    def lookup(self, span_id: str) -> Lookup:
        """Return the lookup for calls inside a recorded call."""
        return self._inside[span_id][1]

    def miss(self, call: Call, key: RequestKey, span_id: str) -> Divergence:
        """Return the divergence for a call inside a recorded call that no step answers."""
        lookup = self.lookup(span_id)
        miss = replace(lookup.miss(call, key), inside=self.name(span_id))
        kept = [item for item in lookup.recorded if item.step.exchange.kind in _BOUNDED]
        if call.kind not in _BOUNDED or len(kept) < MAX_INSIDE:
            return miss
        note = f"of the databases and files that a tool asks, {MAX_INSIDE} calls are recorded, and this is a later one"
        return replace(miss, kind=DivergenceKind.EXTRA_CALL, note=note)

    def name(self, span_id: str) -> str:
        """Return ``tool refund`` for a recorded call that runs."""
        return _named(self._inside[span_id][0].exchange) if span_id in self._inside else ""

    def compare(self, answer: Exchange, result: str | None, error: str | None, lookup: Lookup) -> Divergence | None:
        """Return the difference of the result from the recorded one; later requests may have the same difference."""
        step = self._inside[answer.span_id][0]
        recorded = self._outcome(answer.response.body.decode() or None, answer.error)
        live = self._outcome(result, error)
        settled = self._values.settle(recorded, live)
        settled.tree = lookup.settle_moments_of(step, recorded, settled.tree)
        if described(recorded, settled.tree) is None:
            return None
        lookup.carry(recorded, live)
        found = described(self._values.show_tree(recorded), self._values.show_tree(settled.tree)) or {}
        divergence = about_step(DivergenceKind.RESULT_CHANGED, step, self._values.note(recorded, settled))
        return replace(divergence, **found)

    def _outcome(self, result: str | None, error: str | None) -> dict[str, Any]:
        returned, raised = (None if text is None else self._comparable(text) for text in (result, error))
        exception = {"class": raised.get("class"), "text": raised.get("text")} if isinstance(raised, dict) else raised
        return {"raised": exception, "returned": returned}

    def _comparable(self, text: str) -> Any:
        marked = self._values.mark(text)
        try:
            return without_identity(json.loads(marked))
        except ValueError:
            return marked


def _named(exchange: Exchange) -> str:
    return f"{exchange.kind.value} {exchange.name}"


def _directly_inside(outer: Step, steps: Sequence[Step]) -> Iterable[Step]:
    """Yield the steps inside a step, as they are requested while its function runs: those inside a further one keep it."""
    within = [step for step in steps if step.number != outer.number and _holds(outer, step)]
    by_span = {step.exchange.span_id: step for step in within}
    for step in within:
        parent = step.exchange.parent_span_id
        around = None if parent == outer.exchange.span_id else by_span.get(parent) or _tightest(step, within)
        yield replace(step, inside=None if around is None else around.number)


def _tightest(step: Step, within: Sequence[Step]) -> Step | None:
    """Return the shortest call of a function around a step by time, if other spans lie between the two."""
    if step.inside is None:
        return None
    around = [each for each in within if each.number != step.number and _holds(each, step) and not each.exchange.request.method]
    return min(around, key=_took_ns, default=None)


def _holds(outer: Step, inner: Step) -> bool:
    """Return whether a step is inside another one: in the same outermost call, in its lane or one below, and in its time."""
    one, other = outer.exchange, inner.exchange
    if inner.inside is None or inner.inside not in (outer.number, outer.inside):
        return False
    if inner.inside == outer.number:
        return True
    return (
        other.lane[: len(one.lane)] == one.lane
        and one.sequence < other.sequence
        and one.start_time_unix_nano <= other.start_time_unix_nano <= one.end_time_unix_nano
    )


def _took_ns(step: Step) -> int:
    return step.exchange.end_time_unix_nano - step.exchange.start_time_unix_nano


def changed_inside(names: Mapping[str, str], lookup: Lookup) -> dict[str, str]:
    """Return the functions whose changed code was not run inside a tool that ran."""
    return {names[str(number)]: served.changed_code for number, served in lookup.used.items() if served.changed_code}
