"""ReplaySession: answers a program's calls from a fixture and keeps track of where it left the recording.

A call that no recorded step answers (see `lookup`) is a miss: the first divergence, raised as `ReplayMiss`,
with the nearest recorded request, the agreeing parts of the key, and that request's answer. It makes no calls
itself. If its policy allows a live call, it answers None and the seam makes the call; by default it allows
none. It does not know HTTP libraries: the seams of the instrumentation turn answers into responses.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies

from freezeframe.context.current import current_place
from freezeframe.seams import Call
from freezeframe.seams.http import adapter
from freezeframe.seams.recorder.responder import Feed
from freezeframe_replay.engine import tools_in_requests
from freezeframe_replay.engine.ends import Ends
from freezeframe_replay.engine.lookup import FoundStep, Lookup
from freezeframe_replay.engine.mcp_answers import server_of
from freezeframe_replay.engine.miss import Recorded, about_step, miss_message, with_reason
from freezeframe_replay.engine.moments import Measured
from freezeframe_replay.engine.pace import Turns, still_waited
from freezeframe_replay.engine.pairs import Pair, Settled
from freezeframe_replay.engine.policy import Fence, ReplayPolicy
from freezeframe_replay.engine.private_values import PrivateValues
from freezeframe_replay.engine.speak import about_the_run, in_meaning, not_requested, spoken
from freezeframe_replay.engine.standstill import MAX_KEPT, frames_of_program, stop_before
from freezeframe_replay.engine.tools_anew import ToolsAnew
from freezeframe_schemas.divergence import (
    Divergence,
    DivergenceKind,
    LiveCall,
    Made,
    Report,
    Served,
    StackFrame,
    Stopped,
)
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import Chunk, Completion, Exchange, Kind, Lane, Response, format_lane
from freezeframe_schemas.fixture import Fixture, Step
from freezeframe_schemas.keys import RequestKey
from freezeframe_schemas.lane_names import lane_names


class Claims(Protocol):
    """Shared by the processes of one replay: no step is used twice, and no private value is paired with two surrogates."""

    def turn(self) -> AbstractContextManager[Mapping[int, Served]]:
        """Keep the other processes from answering; yield the steps that they have used, and the way each was found."""
        ...

    def claim(self, served: Served) -> None:
        """Report to the others that a step is used."""
        ...

    def assume(self, pair: Pair) -> None:
        """Report to the others which surrogate a private value has."""
        ...

    def assumed(self) -> Sequence[Pair]:
        """Return the pairs that the others reported since the last call."""
        ...


class Alone:
    """The claims of a replay in one process."""

    def turn(self) -> AbstractContextManager[Mapping[int, Served]]:
        """Yield nothing."""
        return nullcontext({})

    def claim(self, served: Served) -> None:
        """Do nothing: there are no other processes."""

    def assume(self, pair: Pair) -> None:
        """Do nothing: there are no other processes."""

    def assumed(self) -> Sequence[Pair]:
        """Return nothing."""
        return ()


if TYPE_CHECKING:
    from freezeframe_redaction.keyring.keys import TenantKey

_STRICT: Final = ReplayPolicy()


class ReplaySession:
    """One replay of one fixture. Safe to call from any thread.

    Args:
        fixture: the recording to answer from.
        policy: relaxations, and calls that may be made for real.
        on_time: called with the time of the run whenever it advances (moves the clock).
        measured: see `Measured`.
        on_enter: called when the program has reached its entry point.
        on_leave: called when it is about to leave it.
        on_divergence: called when the program has left the recording, before it is reported.
        claims: state shared with other processes of the replay.
        key: the key of the recording's surrogates; without it, the program's own private values are paired and not compared.
    """

    def __init__(
        self,
        fixture: Fixture,
        *,
        policy: ReplayPolicy = _STRICT,
        on_time: Callable[[int], None] = lambda _: None,
        measured: Measured = lambda _, __: None,
        on_enter: Callable[[], None] | None = None,
        on_leave: Callable[[], None] | None = None,
        on_divergence: Callable[[], None] | None = None,
        claims: Claims | None = None,
        key: TenantKey | None = None,
    ) -> None:
        self._fixture = fixture
        self._is_reconstructed = fixture.reconstructed  # looks at every step
        self._server = server_of(fixture) if self._is_reconstructed else None
        self._policy = policy
        self._on_enter, self._on_leave, self._on_divergence = on_enter, on_leave, on_divergence
        self._claims = claims or Alone()
        self._values = PrivateValues(fixture.redaction, key)
        self._turns = Turns(
            fixture, real_time=policy.real_time, is_live=policy.goes_live, on_time=on_time, on_standstill=self._waits_in_vain
        )
        self.stay_open, self.loop_time, self.reach = self._turns.stay_open, self._turns.loop_time, self._turns.reach
        self._lock = threading.Lock()
        self._lookup = Lookup(fixture, ignore=policy.ignore, values=self._values, measured=measured)
        self._anew = ToolsAnew(
            fixture,
            policy,
            self._values,
            partial(Lookup, ignore=policy.ignore, values=self._values, measured=measured),
        )
        self._made: list[Made] = []
        self._live: list[LiveCall] = []
        self._asked_anew: set[int] = set()
        self._open_hosts: set[str] = set()
        self._stopped: Stopped | None = None
        self._order = Order()
        self._flags = {key: json.dumps(value) for key, value in json.loads(fixture.entry.flags or "{}").items()}
        readings: dict[str, list[str]] = json.loads(fixture.entry.clock_readings or "{}")
        self._readings = {feed: deque(row) for feed, row in readings.items()}
        self._divergences: list[Divergence] = []
        self._beyond: list[str] = []
        self._ends = Ends(fixture.entry, values=self._values, settle=self._lookup.settle_outcome, gaps=fixture.gaps)
        self._missed = self._left = False
        self._unserved: dict[str, None] = {}
        self._entered = fixture.entry.kind is None or not fixture.entry.kind.is_called
        self._outcome: str | None = None
        self._sockets_tried = 0
        self.loading = self._ends.loading

    # -- called by the seams ----------------------------------------------------------------------------------------------

    def respond(self, call: Call) -> Exchange | None:
        """Return the recorded exchange that answers the call, or None if the policy allows a live call.

        Raises:
            ReplayMiss: the request is not in the recording, or was used already, or the replay must stop here.
        """
        place = current_place()
        if place.is_real:  # a tool runs for real, and so does everything it calls
            return None
        if self._server is not None and (answer := about_the_run(call, self._server)) is not None:
            return answer
        known = len(self._divergences)
        try:
            found = self._answer_inside(call, place.call_span_id) if place.run_anew else self._answer(call)
        finally:
            if self._on_divergence is not None and len(self._divergences) > known:
                self._on_divergence()
        if found is None:
            return None
        answer = found.step.exchange if isinstance(found, Recorded) else found
        if isinstance(found, Recorded) and self._is_reconstructed:
            answer = spoken(answer, call)
        value = self._fixed_value(call)
        return answer if value is None else fixed_answer(answer, value)

    def _fixed_value(self, call: Call) -> str | None:
        return self._policy.fixed_tools.get(call.name) if can_be_fixed(call) else None

    def _answer(self, call: Call) -> Recorded | Exchange | None:
        request = in_meaning(call) if self._is_reconstructed else call
        key = self._lookup.key_of(request)
        keeps = self._policy.keep_frames and len(self._made) < MAX_KEPT
        frames = frames_of_program() if keeps else ()
        with self._lock, self._claims.turn() as taken:
            self._hear(taken)
            found = self._lookup.find(request, key, goes_live=self._policy.may_go_live(call.kind, call.name))
            outlived = None if found is None else self._lookup.outlived(found, request)
            self._note(call, None if outlived else found, frames)
            if found is None and self._is_beyond(call):
                return self._go_beyond(call)
            if found is None or outlived is not None:
                divergence = outlived or self._lookup.miss(request, key)
                value = self._fixed_value(call)
                if value is None:
                    return self._leave_recording(call, divergence)
                self._leave_for_good(divergence)
                return made_up_answer(call, value, self._fixture)
            item = found.item
            if item.step.number == self._policy.stop_before:
                raise self._stop(item, request)
            if self._asks_anew(item, call):
                self._asked_anew.add(item.step.number)
                return self._go_live(call, item.step.number)
            runs = self._anew.is_run(item, call)
            if runs:
                self._anew.begin(item)
            self._claims.claim(self._use(found, request, key, runs=runs))
            return item

    def _answer_inside(self, call: Call, around: str) -> Recorded | None:
        """Answer a call inside a tool that runs by request, from the steps recorded inside the tool's call."""
        lookup = self._anew.lookup(around)
        key = lookup.key_of(call)
        with self._lock:
            found = lookup.find(call, key, goes_live=self._policy.may_go_live(call.kind, call.name))
            if found is None:
                return self._leave_recording(call, self._anew.miss(call, key, around))
            runs = self._anew.is_run(found.item, call)
            if runs:
                self._anew.begin(found.item)
            served = lookup.use(found, call, key, runs=runs)
            if served.changed_code:
                self._anew.changed_code[f"{call.kind.value} {call.name}"] = served.changed_code
            self._assume(found.settled, step=served.step)
            self._anew.queried |= call.kind is Kind.DATABASE
            return found.item

    def runs(self, answer: Exchange) -> bool:
        """Return whether the function of a recorded call runs, by request."""
        return self._anew.runs(answer)

    def ran(self, answer: Exchange, result_json: str | None, error_json: str | None) -> None:
        """Compare such a function's result or exception."""
        place = current_place()
        with self._lock:
            lookup = self._anew.lookup(place.call_span_id) if place.run_anew else self._lookup
            changed = self._anew.compare(answer, result_json, error_json, lookup)
            if changed is not None:
                self._divergences.append(replace(changed, inside=self._anew.name(place.call_span_id) if place.run_anew else ""))
        if changed is not None and self._on_divergence is not None:
            self._on_divergence()

    def unserved(self, what: str) -> None:
        """Note what a tool that runs gets from elsewhere, once."""
        self._unserved.setdefault(f"{self._anew.name(current_place().call_span_id)} {what}")

    async def turn(self, answer: Exchange) -> None:
        """Wait in a task until the answer is due; inside a tool that runs, answers come at once."""
        if not current_place().run_anew:
            await self._turns.wait(answer)

    def turn_in_thread(self, answer: Exchange) -> None:
        """Like `turn`, in a thread."""
        if not current_place().run_anew:
            self._turns.wait_in_thread(answer)

    def _hear(self, taken: Mapping[int, Served]) -> None:
        """Count the steps that other processes used as used and their calls as made, and adopt their assumptions."""
        self._values.learn(self._claims.assumed())
        for item in self._lookup.unused() if taken else ():
            if item.step.number in taken:
                served = taken[item.step.number]
                self._lookup.used[item.step.number] = served
                self._made.append(_made(item.step.exchange, served.how, item.step.number))

    def recall(self, feed: Feed, key: str) -> str | None:
        """Return the next recorded reading, or the recorded value of a flag, or None."""
        if feed is Feed.FLAG:
            return self._flags.get(key)
        with self._lock:
            return left.popleft() if (left := self._readings.get(key)) else None

    def _waits_in_vain(self, answer: Exchange) -> BaseException:
        """Return the exception of a call that the run abandoned and this program does not."""
        recorded = adapter.recorded_error(answer)
        if recorded is not None and self._ends.was_cut_off():
            return recorded  # the caller that ended the run also ended this call
        known = self._missed or self._left  # leftovers of a finished run are not part of it
        divergence = still_waited(self._fixture, answer)
        return ReplayMiss(miss_message(divergence)) if known else self._cut_short(divergence)

    def enter(self, target: str, input_json: str) -> None:
        """Note that the program reached its entry point, and compare its input."""
        with self._lock, self._claims.turn() as taken:
            self._hear(taken)
            settled, changed = self._ends.compare_input(target, input_json)
            self._entered = True
            if changed is not None:
                self._divergences.append(changed)
            else:
                self._assume(settled, is_input=True)
        self._turns.begin()
        if self._on_enter is not None:
            self._on_enter()

    def leave(self, output_json: str | None, error_json: str | None, unseen: Sequence[str] = ()) -> None:
        """Note the entry point's result or exception, and compare it unless a miss cut the run short."""
        if self._on_leave is not None:
            self._on_leave()
        with self._lock, self._claims.turn() as taken:
            self._hear(taken)
            if self._left:
                return
            self._left = True
            self._outcome = output_json if error_json is None else error_json
            if not self._missed:
                self._assume(self._ends.compare_outcome(output_json, error_json, unseen))

    def network_tried(self, address: str) -> ReplayMiss:
        """Note that a client that no seam covers tried to connect; return the exception for the fence to raise."""
        with self._lock:
            self._sockets_tried += 1
        note = "a client that no seam covers tried to reach the network"
        return self._cut_short(Divergence(kind=DivergenceKind.NETWORK, name=address, note=note), f"connection {address}")

    def between_ns(self) -> tuple[int, int]:
        """Return `Lookup.between_ns` of the caller's lane; unknown if calls take their own time."""
        follows = self._entered and not (self._policy.real_time or self._policy.goes_live)
        return self._lookup.between_ns(current_place().lane.path) if follows else (0, 0)

    def fence_tried(self, fence: Fence, what: str) -> ReplayMiss:
        """Note that a fence on processes or files stopped the program; return the exception for the fence to raise."""
        lane = format_lane(current_place().lane.path)
        fenced = Divergence(kind=DivergenceKind.FENCED, call_kind=fence.value, name=what, lane=lane)
        return self._cut_short(fenced, f"{fence.value} {what}")

    def _cut_short(self, divergence: Divergence, tried: str = "") -> ReplayMiss:
        """Note why the program cannot go on. Attempts after the last step of an unfinished run are beyond the recording."""
        place = current_place()
        divergence = replace(divergence, inside=self._anew.name(place.call_span_id) if place.run_anew else "")
        is_beyond = bool(tried) and self._fixture.entry.unfinished and self.calls_at_the_end() is not None
        with self._lock:
            self._missed = True
            if is_beyond:
                return self._ends_here(tried)
            self._divergences.append(divergence)
        if self._on_divergence is not None:
            self._on_divergence()
        return ReplayMiss(miss_message(divergence))

    def after_fork(self) -> None:
        """Make a session usable in a newly forked process: another thread may have held the lock."""
        self._lock = threading.Lock()
        self._order.after_fork()
        self._turns.after_fork()

    def calls_at_the_end(self) -> int | None:
        """Return the number of calls made; None if a recorded step is still to be requested or answered."""
        with self._lock, self._claims.turn() as taken:
            self._hear(taken)
            is_left = not self._entered or self._lookup.unused() or self._turns.is_awaited()
            return None if is_left else len(self._made)

    # -- the account ------------------------------------------------------------------------------------------------------

    def report(self, warnings: tuple[str, ...] = ()) -> Report:
        """Return the report so far. Steps never requested are divergences unless something cut the run short before them."""
        with self._lock, self._claims.turn() as taken:
            self._hear(taken)
            divergences = list(self._divergences)
            from_history, own = not_requested(self._lookup.recorded if self._is_reconstructed else (), self._lookup.used)
            if self._entered and not self._missed and not self._ends.raised_instead:
                divergences += [
                    about_step(DivergenceKind.MISSING_CALL, item.step, "recorded, but never requested in the replay")
                    for item in self._lookup.unused()
                    if item.step.number not in {*self._asked_anew, *from_history, *own}
                ]
            if self._ends.outcome_changed is not None:
                divergences.append(self._ends.outcome_changed)
            return Report(
                run_id=self._fixture.run_id,
                steps=len(self._lookup.recorded) - len(own),
                inside=len(self._fixture.steps) - len(self._lookup.recorded),
                served=(*self._lookup.used.values(), *from_history.values()),
                divergences=with_reason(
                    divergences,
                    self._fixture.gaps,
                    self._lookup.moments.apart,
                    recorded={step.exchange.name for step in self._fixture.steps},
                    made=[made.name for made in self._made if made.how != "missed"],
                ),
                outcome=self._outcome,
                entered=self._entered,
                sockets_tried=self._sockets_tried,
                warnings=(*warnings, *self._lookup.ignored_too_much(divergences)),
                names={str(item.step.number): _step_name(item.step) for item in self._lookup.recorded},
                lanes=lane_names(step.exchange for step in self._fixture.steps),
                made=tuple(self._made),
                live=tuple(self._live),
                stopped=self._stopped,
                begun_inside=bool(self._fixture.begin),
                input_check=self._ends.input_check,
                outcome_check=self._ends.outcome_check,
                input_relaxed=self._ends.input_relaxed,
                outcome_relaxed=self._ends.outcome_relaxed,
                unheard=self._ends.unheard,
                unfinished=self._fixture.entry.unfinished,
                beyond=tuple(self._beyond),
                uncompared=self._values.uncompared,
                requires_values=self._policy.require_values,
                ambiguous=tuple(self._lookup.ambiguous),
                changed_inside=dict(self._anew.changed_code),
                unserved=tuple(self._unserved),
                queried_inside=self._anew.queried,
                reconstructed=self._is_reconstructed,
            )

    # -- leaving the recording --------------------------------------------------------------------------------------------

    def _leave_recording(self, call: Call, divergence: Divergence) -> None:
        """Allow a live call if the policy does; the first such call is a divergence. Otherwise raise the miss."""
        if self._policy.may_go_live(call.kind, call.name):
            self._leave_for_good(divergence)
            return self._go_live(call, divergence.step)
        if self._policy.goes_live and call.kind is Kind.TOOL:
            divergence = replace(divergence, note=f"{divergence.note} (--allow-tool {call.name} lets it run)".strip())
        self._divergences.append(divergence)
        self._missed = True
        raise ReplayMiss(miss_message(divergence))

    def _leave_for_good(self, divergence: Divergence) -> None:
        """Note that the program goes on beside the recording; only the first such call is a divergence."""
        if not self._missed:
            self._divergences.append(divergence)
        self._missed = True

    def _is_beyond(self, call: Call) -> bool:
        """Return whether the recording ends here: the run never finished, and this lane has answered all its steps.

        The run's next call was in progress when it ended, so the recording cannot show whether this is the same.
        """
        return self._fixture.entry.unfinished and all(item.step.exchange.lane != call.lane for item in self._lookup.unused())

    def _go_beyond(self, call: Call) -> None:
        """Allow a live call if the policy does. Otherwise end the program, since nothing after this can be compared."""
        self._missed = True
        miss = self._ends_here(f"{call.kind.value} {call.name}")
        if self._policy.may_go_live(call.kind, call.name):
            return self._go_live(call, None)
        raise miss

    def _ends_here(self, tried: str) -> ReplayMiss:
        self._beyond.append(tried)
        return ReplayMiss(f"the recording ends here, before {tried}: the run never finished")

    def _note(self, call: Call, found: FoundStep | None, frames: tuple[StackFrame, ...]) -> None:
        if found is None and self._fixed_value(call) is not None:
            how = "fixed"
        elif found is None:
            how = "live" if self._policy.may_go_live(call.kind, call.name) else "missed"
        elif found.item.step.number == self._policy.stop_before:
            how = "stopped"
        else:
            how = "live" if self._asks_anew(found.item, call) else found.how
        made = _made(call, how, None if found is None else found.item.step.number)
        self._made.append(replace(made, frames=frames) if frames else made)

    def _asks_anew(self, found: Recorded, call: Call) -> bool:
        begun = bool(self._asked_anew) or self._policy.starts_live(found.step.number)
        return call.kind is not Kind.TOOL and call.kind in self._policy.live and begun

    def _go_live(self, call: Call, step: int | None) -> None:
        self._live.append(LiveCall(call_kind=call.kind.value, name=call.name, step=step))
        if call.request.method:
            self._open_hosts |= {urlsplit(url).hostname or "" for url in (call.request.url, *getproxies().values())}

    def is_open(self, host: str) -> bool:
        """Return whether the fence lets connections to a host through: a host called live, or any inside a live tool."""
        return host in self._open_hosts or current_place().is_real

    def _stop(self, found: Recorded, call: Call) -> ReplayMiss:
        self._stopped = stop_before(found.step, call)
        self._missed = True
        return ReplayMiss(f"stopped before step {found.step.number} ({call.kind.value} {call.name}), as asked")

    def _use(self, found: FoundStep, call: Call, key: RequestKey, *, runs: bool) -> Served:
        step = found.item.step
        served = self._lookup.use(found, call, key, runs=runs)
        self._assume(found.settled, step=step.number)
        # What a reconstructed call says holds all that came before it, and nothing shows what ran next to it.
        is_ordered = not self._is_reconstructed and step.exchange.seam != tools_in_requests.SEAM
        before = self._order.broken_by(step.number, step.exchange.lane, call.lane) if is_ordered else 0
        if before:
            note = f"requested after step {before}; it was recorded before it"
            self._divergences.append(about_step(DivergenceKind.ORDER_CHANGED, step, note))
        return served

    def _assume(self, settled: Settled | None, *, step: int | None = None, is_input: bool = False) -> None:
        """Adopt the assumptions of a comparison, here and in the other processes of the replay."""
        for pair in self._values.assume(settled, step=step, is_input=is_input) if settled is not None else ():
            self._claims.assume(pair)


def _made(asked: Call | Exchange, how: str, step: int | None) -> Made:
    return Made(
        call_kind=asked.kind.value,
        name=asked.name,
        how=how,
        step=step,
        arguments=None if asked.request.method else asked.request.body.decode(errors="replace"),
        lane=format_lane(asked.lane),
    )


def _step_name(step: Step) -> str:
    exchange = step.exchange
    what = f"{step.provider or exchange.dialect or ''} {step.model or ''}".strip() if exchange.kind is Kind.MODEL else ""
    return f"{exchange.kind.value} {what or exchange.name}".strip()


# -- Check whether recorded steps are requested in the order in which they were recorded -------------------------------


class Order:
    """The requested steps, lane by lane."""

    def __init__(self) -> None:
        self._last: dict[Lane, int] = {}
        self._forked = False

    def after_fork(self) -> None:
        """Stop checking: the tasks of forked workers have no order, because any free worker takes the next one."""
        self._forked = True

    def broken_by(self, step: int, lane: Lane, requested_in: Lane) -> int:
        """Note a requested step of a lane; return the later one that was requested before it, or 0.

        A step requested in another lane has no order: if workers share a queue, any free one takes the next task.
        """
        if requested_in != lane or self._forked:
            return 0
        before = self._last.get(lane, 0)
        self._last[lane] = max(before, step)
        return before if step < before else 0


# -- fixed tools ---------------------------------------------------------------------------------------------------------
# Tools that answer one value, whatever their arguments, because the policy says so. Pure.


_FIXED = frozenset({Kind.TOOL, Kind.RETRIEVAL})
_YIELDS = b'{"yields": ['


def can_be_fixed(call: Call) -> bool:
    """Return whether the call is one of the application's functions."""
    return call.kind in _FIXED and not call.request.method


def fixed_answer(recorded: Exchange, value: str) -> Exchange:
    """Return a recorded call of a function with another result, as JSON; a generator yields it, item by item."""
    if recorded.response.body.startswith(_YIELDS):
        value = f'{{"yields": {value if value.lstrip().startswith("[") else f"[{value}]"}, "return": null}}'
    chunks = (Chunk(data=value.encode(), offset_ns=0),)
    response = replace(recorded.response, chunks=chunks, completion=Completion.COMPLETE, omitted=None)
    return replace(recorded, response=response, error=None)


def made_up_answer(call: Call, value: str, fixture: Fixture) -> Exchange:
    """Return the answer to a call that is not in the recording; it is due at once."""
    alike = next((step.exchange for step in fixture.steps if step.exchange.name == call.name), None)
    plain = Exchange(kind=call.kind, name=call.name, seam=call.seam, request=call.request)
    response = Response(completion=Completion.COMPLETE) if alike is None else alike.response
    return fixed_answer(replace(plain, response=response, lane=call.lane, sequence=call.sequence), value)
