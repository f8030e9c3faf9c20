"""The span of a whole process, for calls that no run holds."""

from __future__ import annotations

import os
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from freezeframe._guard import guard
from freezeframe.context.accesses import UnrecordedAccesses
from freezeframe.context.activity import ACTIVITY
from freezeframe.context.current import MAX_READINGS, current_place
from freezeframe.context.draws import Draws
from freezeframe.context.environment import recorded_settings
from freezeframe.context.program import SERVERS, is_script
from freezeframe.runs.entry import command_entry, mark_failed
from freezeframe.runs.entry_payload import EntryPayload
from freezeframe.runs.streams import StandardStreams
from freezeframe.seams.draws.shared_random import SHARED
from freezeframe_schemas import values
from freezeframe_schemas.gaps import Gap, GapKind

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from freezeframe._config import Settings
    from freezeframe.seams.recorder.recording import Recorder

_BEFORE: Final = Gap(
    kind=GapKind.UNSEEN,
    text="the program marks its runs, so what it did outside of them before this call was not watched",
    do='mark the function that makes the call with @freezeframe.run, or set root to "always"',
)


class ProcessRoot:
    """The span of a whole process, for calls that no run holds.

    Policy `always`: open from the start and current in the main thread. `auto`: opened by the first such call, if the
    program is a script (``__main__`` is a file that is not part of an installation) and no server is loaded. `never`: each
    such call is its own trace. A run marked by `freezeframe.run` is always its own trace. A root that held nothing, in a
    process that had runs, is not sent.

    A script that marks runs, or had one, is not a run as a whole: nothing is watched outside of its runs. If it makes a call
    there nevertheless, it is a run from then on, with a gap for what came before.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._recorder: Recorder | None = None
        self._span: Span | None = None
        self._payload: EntryPayload | None = None
        self._held_calls = False
        self._waiting: list[Callable[[], None]] = []
        self._had_runs = False
        self.unrecorded: defaultdict[str, int] = defaultdict(int)
        """Host -> HTTP calls outside any run that were not recorded."""
        self._accesses = UnrecordedAccesses()
        self.loaded = UnrecordedAccesses()
        """Reads of the application's modules during their import; complete once a run has begun."""
        self.before: list[tuple[str, str]] = []
        """Readings, with their feeds, of the program's draws before its first run."""
        self.calls_before = 0
        """Number of draws before it."""
        self._readings: dict[str, list[str]] = {}
        self._readings_left = MAX_READINGS
        self._random_state: object = None
        self._draws = Draws()
        self._streams = StandardStreams()
        self._pid = os.getpid()
        self._lock = threading.RLock()  # reentrant: another processor may make calls when the span starts
        os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        self._lock = threading.RLock()

    def begin(self, recorder: Recorder) -> None:
        """Take the recorder; open the span now if the policy says so."""
        self._recorder = recorder
        self._random_state = SHARED.mark(self._draws)  # before the program draws; the span may be opened much later
        is_run = self._wanted()
        if is_run:
            self._streams.begin()
        ACTIVITY.be_run(is_run, by_default=self._settings.root == "auto")
        if self._settings.root == "always":
            from opentelemetry import context, trace

            span = self._open()
            if span is not None:
                context.attach(trace.set_span_in_context(span))

    def note_reading(self, feed: str, value: str) -> list[str] | None:
        """Keep a feed's value for a program that is a run as a whole; `MAX_READINGS` in all, since a process may be long."""
        if not self._readings_left or not ACTIVITY.is_process:
            return None
        self._readings_left -= 1
        row = self._readings.setdefault(feed, [])
        row.append(value)
        return row

    def note_prompt(self, text: str) -> None:
        """Note a prompt that Python showed on the terminal by itself: it is part of what such a program printed."""
        self._streams.note_printed(text)

    def draws(self) -> Draws | None:
        """Return the store for random draws of such a program; None if the process is not a run."""
        return self._draws if ACTIVITY.is_process else None

    def accesses(self) -> UnrecordedAccesses | None:
        """Return the store for accesses of unmarked code outside any run; None if the process is not a run as a whole."""
        return self._accesses if ACTIVITY.is_process else None

    def context_for_exchange(self, *, is_call: bool = True) -> Context | None:
        """Return the root's context for an exchange outside any run; None for the current context."""
        import opentelemetry.trace as trace

        run = current_place().run
        if run is not None and is_call:
            run.calls()
        current = trace.get_current_span()
        if current.get_span_context().is_valid:
            if current is self._span and is_call:
                self._hold()
            return None
        if run is not None or not self._wanted():
            return None
        with self._lock:  # the first calls may come from several threads at once, and belong to one run
            span = self._span or self._open()
            if span is None:
                return None
            if is_call:
                self._hold()
        return trace.set_span_in_context(span)

    def _hold(self) -> None:
        """Count a call. The first one makes the root a run, which reports that it began."""
        if self._held_calls:
            return
        self._held_calls = True
        if not ACTIVITY.is_process:
            ACTIVITY.be_run(True)
            SHARED.turn_on()
            if self._payload is not None:
                self._payload.add_gap(_BEFORE)
        with guard("root.announce"):
            if self._span is not None and self._payload is not None and self._recorder is not None:
                beginning = self._payload.beginning()
                if self._streams.read is not None:
                    beginning.add_input("stdin", self._streams.read)
                self._recorder.sink.announce(self._span, beginning)
        self._end_held_back()

    def held_back(self) -> list[Callable[[], None]] | None:
        """Return the pending ends of database calls before the first other call; None once that was made."""
        return None if self._held_calls or not self._wanted() else self._waiting

    def _end_held_back(self) -> None:
        while self._waiting:
            self._waiting.pop(0)()

    def context_for_run(self) -> Context | None:
        """Return an empty context if the root is current: a run is its own trace."""
        self._had_runs = self.loaded.full = True
        if ACTIVITY.is_process and not self._held_calls and self._settings.root == "auto":
            ACTIVITY.be_run(False)
        if self._span is None:
            return None
        from opentelemetry import trace
        from opentelemetry.context import Context

        return Context() if trace.get_current_span() is self._span else None

    def end(self) -> None:
        """End the root span; the process is about to end."""
        self._streams.end()
        ACTIVITY.be_run(False)
        if self._span is None or os.getpid() != self._pid or (self._had_runs and not self._held_calls):
            return
        self._end_held_back()
        with guard("root.end"):
            error = sys.exc_info()[1] or getattr(sys, "last_value", None)
            if self._payload is not None and self._recorder is not None:
                if isinstance(error, BaseException):
                    mark_failed(self._span, error)
                    self._payload.error = values.encode_exception(error)
                elif outcome := self._streams.outcome:
                    self._payload.output = values.encode(outcome)
                    if status := outcome.get("exit"):
                        from opentelemetry.trace import Status, StatusCode

                        self._span.set_status(Status(StatusCode.ERROR, f"exit status {status}"))
                if self._streams.read is not None:
                    self._payload.add_input("stdin", self._streams.read)
                self._accesses.note_changes()
                self._payload.exchanges = self._recorder.sink.counted(self._span)
                self._payload.note_draws()
                self._recorder.sink.expect(self._span, self._payload)
            self._span.end()
            self._span = None

    def _wanted(self) -> bool:
        if self._settings.root != "auto":
            return self._settings.root == "always"
        return is_script() and not SERVERS.intersection(sys.modules)

    def _open(self) -> Span | None:
        if self._recorder is None:
            return None
        with guard("root.open"):
            point = command_entry()
            span = self._recorder.tracer.start_span(point.name)
            environment = recorded_settings(self._settings)
            self._payload = EntryPayload(
                point,
                {},
                environment,
                self._readings,
                self.unrecorded,
                random_state=self._random_state,
                accesses=self._accesses,
                draws=self._draws,
            )
            self._span = span
        return self._span
