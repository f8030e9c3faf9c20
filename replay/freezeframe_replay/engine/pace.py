"""Pace: recorded answers reach the program's tasks and threads in their recorded order, at full speed.

If all answers came at once, the scheduler would decide which of several tasks or threads continues first, and code that races
them (``FIRST_COMPLETED``, ``as_completed``, a queue) might not take the path that it took in the run. Here an
answer is parked until the program rests: nothing runs, every thread waits. Then the next event is due: the next
answer of the run, or
the next timer of an event loop (a timeout, a sleep), whichever is earlier. Time stands still in between, for event loops and
for the wall clock. So a timeout of a minute takes no time, and still fires before the answers that came after it. While a
thread waits for time itself (a timeout, a sleep, a process), time passes as it does outside.

A call that the run abandoned was never answered. It is parked until the program abandons it again. If nothing else can
happen, it fails instead of hanging.

Answers to tasks of one loop are released together if no request was made between them: answers reach tasks on the loop's one
thread, and so does the code that continues with them. Had that code run between two answers, it would have made its next
request between them. If it made none, both were there when it ran (under load, answers many milliseconds apart are).
Threads run in parallel, so they get their answers one by one.
"""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import heapq
import itertools
import threading
import time
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from freezeframe.seams.http.adapter import recorded_error
from freezeframe_replay.engine import threads
from freezeframe_schemas.divergence import Divergence, DivergenceKind
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import Completion, Exchange, Kind, format_lane
from freezeframe_schemas.fixture import Fixture

_MAX_LOOK_INTERVAL_S: Final = 0.005
"""Interval between two checks of the threads of a busy program."""
_BUSY_NS: Final = 1_000_000_000
"""After this much time without rest (as `threads.watch` counts it), time passes by itself, and due answers arrive: for code
that spins or polls.
"""
_RESTLESS_NS: Final = 5_000_000_000
"""After this much time without rest, the next event is due anyway."""
_PATIENCE_NS: Final = 5_000_000_000
"""Time that a program may wait for something other than answers, if only calls that the run abandoned are left."""
_GIVE_UP_WITHIN_NS: Final = 3600 * 1_000_000_000
"""Maximum delay, by the replay's time, of the abandonment of a call."""


@dataclass(slots=True, order=True, kw_only=True)
class _Event:
    """A parked answer until it is due, or a call that was never answered (`due_ns`: when it was abandoned)."""

    due_ns: int
    number: int
    loop: Any = field(compare=False)
    """The event loop of the task that waits; None if a thread does."""
    resume: Callable[[], None] = field(compare=False)
    """Resumes it; called on the loop's own thread, if there is a loop."""
    in_vain: Callable[[], BaseException] | None = field(default=None, compare=False)
    """Returns the exception to raise if nothing else can happen."""
    failed: BaseException | None = field(default=None, compare=False)
    left: bool = field(default=False, compare=False)
    """Nothing waits for it any longer."""


class Pace:
    """The events of one replay. Safe to use from any thread.

    Args:
        asked_ns: times at which the run made its calls.
        start_ns: when the run began, by the same clock.
        on_time: called with the time whenever it advances.
        skips: skip times without events. False if calls are made for real.
    """

    def __init__(
        self,
        asked_ns: Iterable[int] = (),
        *,
        start_ns: int = 0,
        on_time: Callable[[int], None] = lambda _: None,
        skips: bool = True,
    ) -> None:
        self._asked_ns = sorted(asked_ns)
        self._on_time = on_time
        self._skips = skips
        self._numbers = itertools.count()
        self._loops: weakref.WeakSet[Any] = weakref.WeakSet()
        self._processes = threads.processes()
        """Processes that the program did not start: they existed before."""
        self._bystanders = threads.waiting_for_time()
        """Threads that waited for time before the run."""
        self._now_ns = start_ns
        self._passes_since_ns: int | None = None
        """Monotonic time at which time began to pass by itself; None while it stands still."""
        self._origin_ns = time.monotonic_ns() - start_ns
        """Lead of the event loops' time."""
        self.after_fork()

    def begin(self, start_ns: int) -> None:
        """Set the time to the start of the run: the program enters it now."""
        with self._lock:
            self._origin_ns += self._now() - start_ns
            self._now_ns, self._passes_since_ns = start_ns, None

    def after_fork(self) -> None:
        """Make it usable in a newly forked process: waiting tasks and threads are the parent's."""
        self._lock = threading.RLock()
        self._answers: list[_Event] = []
        self._unanswered: list[_Event] = []
        self._waiting_threads: set[int] = set()
        self._pumps = False

    # -- what waits ------------------------------------------------------------------------------------------------------

    async def wait(self, came_ns: int, asked_ns: int = 0) -> None:
        """Block a task until it is this answer's turn.

        Args:
            came_ns: time of its arrival in the run.
            asked_ns: when it was requested.
        """
        self.reach(asked_ns)
        await self._wait_in_task(self._answers, came_ns)

    async def wait_for_good(self, given_up_ns: int, in_vain: Callable[[], BaseException], asked_ns: int = 0) -> None:
        """Never return: the task is cancelled, or this raises what `in_vain` returns because nothing else can happen.

        Args:
            given_up_ns: when it was cancelled in the run.
            in_vain: called at most once.
            asked_ns: when the call was made in the run.
        """
        self.reach(asked_ns)
        await self._wait_in_task(self._unanswered, given_up_ns, in_vain)

    def wait_in_thread(self, came_ns: int, asked_ns: int = 0) -> None:
        """Like `wait`, for a call that blocks its thread."""
        self.reach(asked_ns)
        if threading.active_count() == 1 and not self._answers:  # nothing to race with
            self._move(came_ns)
        else:
            self._wait_in_thread(self._answers, came_ns)

    def wait_in_thread_for_good(self, given_up_ns: int, in_vain: Callable[[], BaseException], asked_ns: int = 0) -> None:
        """Like `wait_for_good`, for a call that blocks its thread."""
        self.reach(asked_ns)
        self._wait_in_thread(self._unanswered, given_up_ns, in_vain)

    async def _wait_in_task(
        self, events: list[_Event], due_ns: int, in_vain: Callable[[], BaseException] | None = None
    ) -> None:
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()

        def resume() -> None:
            if not turn.done():
                turn.set_result(None)

        event = self._park(events, _Event(due_ns=due_ns, number=next(self._numbers), loop=loop, resume=resume, in_vain=in_vain))
        try:
            await turn
        finally:
            event.left = True
        if event.failed is not None:
            raise event.failed

    def _wait_in_thread(self, events: list[_Event], due_ns: int, in_vain: Callable[[], BaseException] | None = None) -> None:
        turn = _thread.allocate_lock()
        turn.acquire()
        ident = threading.get_ident()
        self._waiting_threads.add(ident)
        number = next(self._numbers)

        def resume() -> None:
            self._waiting_threads.discard(ident)  # now: it is about to run, though the system may take a while
            turn.release()

        event = self._park(events, _Event(due_ns=due_ns, number=number, loop=None, resume=resume, in_vain=in_vain))
        try:
            turn.acquire()
        finally:
            event.left = True
            self._waiting_threads.discard(ident)
        if event.failed is not None:
            raise event.failed

    def _park(self, events: list[_Event], event: _Event) -> _Event:
        with self._lock:
            if self._passes_since_ns is not None:  # what has passed stays passed, even if the answer is overdue
                self._now_ns, self._passes_since_ns = self._now(), time.monotonic_ns()
            heapq.heappush(events, event)
            self._start_pump()
        return event

    # -- time ------------------------------------------------------------------------------------------------------------

    def loop_time(self, loop: Any) -> float | None:
        """Return the time of an event loop in seconds; None for its own."""
        if not self._skips:
            return None
        if loop not in self._loops:
            self._loops.add(loop)
        if not self._pumps and loop.is_running():
            with self._lock:
                self._start_pump()
        return (self._origin_ns + self._now()) / 1e9

    def _now(self) -> int:
        """Return the time. If it passes by itself, it waits for the next answer: no later timer fires before that."""
        since_ns = self._passes_since_ns
        if since_ns is None:
            return self._now_ns
        now_ns = self._now_ns + time.monotonic_ns() - since_ns
        due_ns = [event.due_ns for event in self._answers[:1] if not event.left]
        return max(self._now_ns, min([now_ns, *due_ns]))

    def _is_answer_due(self) -> bool:
        with self._lock:
            answer = _first(self._answers)
        return answer is not None and self._now() >= answer.due_ns

    def _move(self, to_ns: int) -> None:
        """Stop time at a moment, or at the present one if that is later."""
        with self._lock:
            now_ns = self._now()
            self._now_ns, self._passes_since_ns = max(to_ns, now_ns), None
        if to_ns > now_ns:
            self._on_time(to_ns)

    def reach(self, then_ns: int) -> None:
        """Add the time up to a call or to a piece of an answer; events that are due in the meantime still happen."""
        with self._lock:
            due_ns = self._answers[0].due_ns if self._answers else then_ns
        if min(then_ns, due_ns) > self._now():
            self._move(min(then_ns, due_ns))

    def _let_pass(self) -> None:
        with self._lock:
            if self._passes_since_ns is None:
                self._passes_since_ns = time.monotonic_ns()

    # -- what happens next -----------------------------------------------------------------------------------------------

    def _start_pump(self) -> None:
        if not self._pumps:
            self._pumps = True
            _thread.start_new_thread(self._pump, ())  # not by `threading`: it is not the program's thread and takes no lane

    def is_awaited(self) -> bool:
        """Return whether a call of the program waits for its turn, or to be abandoned."""
        with self._lock:
            return any(not event.left for event in (*self._answers, *self._unanswered))

    def _is_wanted(self) -> bool:
        return bool(self._answers or self._unanswered) or any(loop.is_running() for loop in list(self._loops))

    def _pump(self) -> None:
        try:
            self._let_things_happen()
        except BaseException as error:  # nothing will be answered from here on, so tell everything that waits
            with self._lock:
                self._pumps = False
                failed, self._answers, self._unanswered = [*self._answers, *self._unanswered], [], []
            for event in failed:
                event.failed = ReplayMiss(f"the pace of the replay broke: {type(error).__name__}: {error}")
                _let_go([event])
            raise

    def _let_things_happen(self) -> None:
        pause_s, happened_ns, restless_ns = threads.LOOK_S, time.monotonic_ns(), 0
        while True:
            with self._lock:
                if not self._is_wanted():
                    self._pumps, self._passes_since_ns = False, None
                    return
            activity, passed_ns = threads.watch(pause_s, self._waiting_threads)
            rests = activity is threads.Activity.RESTED
            if not rests:
                restless_ns += passed_ns
                if restless_ns > _BUSY_NS:
                    self._let_pass()
            patience_ns = _BUSY_NS if self._is_answer_due() else _RESTLESS_NS
            if (rests or restless_ns > patience_ns) and self._happen(time.monotonic_ns() - happened_ns):
                pause_s, happened_ns, restless_ns = threads.LOOK_S, time.monotonic_ns(), 0
            else:
                pause_s = min(pause_s * 2, max(_MAX_LOOK_INTERVAL_S, threads.LOOK_S))

    def _happen(self, idle_ns: int) -> bool:
        """Let the next event happen; return False if none is due."""
        with self._lock:
            answer, unanswered = _first(self._answers), _first(self._unanswered)
        timer_ns, loop = self._next_timer()
        waits_for_time = any(
            thread.ident not in self._waiting_threads for thread in threads.waiting_for_time() - self._bystanders
        )
        if answer is not None and (loop is None or answer.due_ns <= timer_ns):
            if waits_for_time and self._skips and self._now() < answer.due_ns:
                self._let_pass()
                return False
            self._move(answer.due_ns)
            self._release(answer)
            return True
        is_held = waits_for_time or bool(threads.processes() - self._processes) or any(map(_waits_for_files, list(self._loops)))
        if loop is not None and (unanswered is None or timer_ns < unanswered.due_ns + _GIVE_UP_WITHIN_NS):
            if is_held:
                self._let_pass()
                return False
            self._move(timer_ns)
            _wake(loop)
            return True
        if unanswered is not None and self._skips and (not is_held or idle_ns > _PATIENCE_NS):
            self._fail(unanswered)
            return True
        return False

    def _next_timer(self) -> tuple[int, Any]:
        """Return when the next timer of an event loop is due, and the loop, or None."""
        found: tuple[int, Any] = (0, None)
        now_ns = self._now()
        for loop in list(self._loops) if self._skips else ():
            timers: list[Any] = list(getattr(loop, "_scheduled", ())) if loop.is_running() else []
            # Rounded up, plus the microsecond by which a float of this size may be off.
            due = [int(timer.when() * 1e9) - self._origin_ns + 1000 for timer in timers if not timer.cancelled()]
            # An overdue timer fires once its loop runs. A loop that waits in its selector may have begun to wait before time
            # moved on, so it has to be woken. One whose thread is blocked by the program's code cannot be.
            if not threads.is_selecting(getattr(loop, "_thread_id", None)):
                due = [due_ns for due_ns in due if due_ns > now_ns]
            if due and (found[1] is None or min(due) < found[0]):
                found = (min(due), loop)
        return found

    def _release(self, first: _Event) -> None:
        """Release an answer, with those that reached tasks of its loop before the next request."""
        group = bisect_right(self._asked_ns, first.due_ns)
        with self._lock:
            released = [heapq.heappop(self._answers)]
            while (
                first.loop is not None
                and (following := _first(self._answers)) is not None
                and following.loop is first.loop
                and bisect_right(self._asked_ns, following.due_ns) == group
            ):
                released.append(heapq.heappop(self._answers))
        _let_go(released)

    def _fail(self, event: _Event) -> None:
        """Make a call fail that can never be answered."""
        event.failed = None if event.in_vain is None else event.in_vain()
        with self._lock:
            self._unanswered.remove(event)
            heapq.heapify(self._unanswered)
        _let_go([event])


def _first(events: list[_Event]) -> _Event | None:
    """Return the event that is due first, among those with a waiting task or thread."""
    while events and events[0].left:
        heapq.heappop(events)
    return events[0] if events else None


def _let_go(events: list[_Event]) -> None:
    """Resume the waiters of one thread, or of tasks of one loop: all of them at once."""

    def resume_all() -> None:
        for event in events:
            event.resume()

    if events[0].loop is None:
        resume_all()
    else:
        _wake(events[0].loop, resume_all)


def _wake(loop: Any, callback: Callable[[], None] = lambda: None) -> None:
    with contextlib.suppress(RuntimeError):  # it has just been closed
        loop.call_soon_threadsafe(callback)


def _waits_for_files(loop: Any) -> bool:
    """Return whether a loop waits for a pipe or a socket, besides the one that wakes it."""
    selector = getattr(loop, "_selector", None)
    files = None if selector is None or not loop.is_running() else selector.get_map()
    return files is not None and len(files) > 1


# -- Turns: when each recorded answer is due according to the recording, and which ones never come ---------------------


class Turns:
    """The turns of one replay.

    Args:
        fixture: the recording to answer from.
        real_time: keep the recorded times.
        is_live: some calls are made for real, and take their own time.
        on_time: called with the time of the run whenever it advances.
        on_standstill: returns the exception for a call that the run abandoned, if the program waits only for it.
    """

    def __init__(
        self,
        fixture: Fixture,
        *,
        real_time: bool,
        is_live: bool,
        on_time: Callable[[int], None],
        on_standstill: Callable[[Exchange], BaseException],
    ) -> None:
        self._start_ns = fixture.entry.start_time_unix_nano
        self._real_time = real_time
        self._on_time = on_time
        self._on_standstill = on_standstill
        start_times = (step.exchange.start_time_unix_nano for step in fixture.askable)
        self._pace = Pace(start_times, start_ns=self._start_ns, on_time=on_time, skips=not (real_time or is_live))
        self.loop_time, self.is_awaited = self._pace.loop_time, self._pace.is_awaited
        self.after_fork = self._pace.after_fork

    def begin(self) -> None:
        """Set the time to the start of the run."""
        self._pace.begin(self._start_ns)

    async def wait(self, answer: Exchange) -> None:
        """Block a task until the answer is due."""
        if _was_abandoned(answer):
            await self.stay_open(answer)
        elif self._real_time:
            if not answer.request.method:
                await asyncio.sleep((answer.end_time_unix_nano - answer.start_time_unix_nano) / 1e9)
            self._on_time(answer.end_time_unix_nano)
        else:
            await self._pace.wait(_came_ns(answer), answer.start_time_unix_nano)

    def wait_in_thread(self, answer: Exchange) -> None:
        """Block a thread until the answer is due."""
        if _was_abandoned(answer):
            self._pace.wait_in_thread_for_good(answer.end_time_unix_nano, self._in_vain(answer), answer.start_time_unix_nano)
        elif self._real_time:
            self._on_time(answer.end_time_unix_nano)
        else:
            self._pace.wait_in_thread(_came_ns(answer), answer.start_time_unix_nano)

    def reach(self, now_ns: int) -> None:
        """Note the reading of a piece of an answer that came at this time."""
        if self._real_time:
            self._on_time(now_ns)
        else:
            self._pace.reach(now_ns)

    async def stay_open(self, answer: Exchange) -> None:
        """Block a task until it is cancelled."""
        await self._pace.wait_for_good(answer.end_time_unix_nano, self._in_vain(answer), answer.start_time_unix_nano)

    def _in_vain(self, answer: Exchange) -> Callable[[], BaseException]:
        return lambda: self._on_standstill(answer)


def still_waited(fixture: Fixture, answer: Exchange) -> Divergence:
    """Describe a call that the run abandoned before it was answered, and the program does not."""
    return Divergence(
        kind=DivergenceKind.STILL_WAITED,
        step=next((step.number for step in fixture.steps if step.exchange.span_id == answer.span_id), None),
        lane=format_lane(answer.lane),
        call_kind=answer.kind.value,
        name=answer.name,
        note="the run abandoned this call before it was answered; the program waits for it, and nothing else can happen",
    )


def _came_ns(answer: Exchange) -> int:
    """Return the time of an answer: of its first piece if known, for HTTP and for databases, whose rows are read later."""
    chunks = answer.response.chunks
    comes_in_pieces = answer.request.method or answer.kind is Kind.DATABASE
    offset_ns = chunks[0].offset_ns if comes_in_pieces and chunks else 0
    return answer.start_time_unix_nano + offset_ns if offset_ns else answer.end_time_unix_nano


def _was_abandoned(answer: Exchange) -> bool:
    """Return whether the run stopped waiting before the answer came: its task was cancelled, or its process ended."""
    if answer.response.completion is not Completion.NONE:
        return False
    return answer.error is None or isinstance(recorded_error(answer), asyncio.CancelledError)
