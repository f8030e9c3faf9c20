"""Entry points: the first span of a run, with its input. For functions, blocks and whole processes alike."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Token
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from freezeframe._guard import guard, report
from freezeframe.context.current import PLACE, Lane, Place, RunContext, current_place, leave
from freezeframe.context.environment import recorded_settings
from freezeframe.context.program import program_file, relative_path
from freezeframe.context.silence import is_suppressed
from freezeframe.runs.entry_payload import EntryPayload, EntryPoint
from freezeframe.runs.reach import command_gaps, import_gaps
from freezeframe.seams.draws import randoms
from freezeframe.seams.draws.shared_random import SHARED
from freezeframe.seams.functions.left_behind import Changes, LeftBehind, plain_function
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.responder import Responder
from freezeframe.seams.unmarked.accesses import is_applications
from freezeframe_schemas import genai, values
from freezeframe_schemas.gaps import NOT_COMPARED, NOT_REPEATED, Gap, GapKind
from freezeframe_schemas.run import EntryKind

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from freezeframe.seams.recorder.recording import Recorder


@cache
def _later() -> ModuleType:
    """Import OpenTelemetry when the first run is recorded."""
    from freezeframe.context import later

    return later


def _sees_all(result: object) -> Iterator[str]:
    del result
    return iter(())


class EntryScope:
    """A run in progress: recorded, reported to a replay, or (inside another run) a plain child span."""

    __slots__ = ("_around", "_done", "_has_begun", "_place", "_recorder", "_responder", "look", "run")

    def __init__(self, point: EntryPoint | Callable[[], EntryPoint], run: RunContext) -> None:
        """Begin. `point` may be a function that returns the entry point, for a run that exists only if a call is made in it."""
        outer = current_place()
        self._done = self._has_begun = False
        self.look: Callable[[object], Iterator[str]] = _sees_all
        """Takes what the entry point returned; yields in words which parts of the outcome the output does not hold."""
        self._responder: Responder | None = None
        self._recorder: Recorder | None = None
        self._around: tuple[object, object, Any] = (None, None, None)
        """The context that it was last entered from, its span then, and the context inside."""
        self.run = run
        if outer.run is not None and run.session is None:  # a marked function that a request of the conversation calls
            run.session = outer.run.session
        if outer.run is not None and not outer.takes_run:
            run.share(outer.run)
            self._place = replace(outer, run=run)
        else:
            self._place = Place(lane=Lane(), run=run)
            if (responder := switch.serving()) is not None:
                self._responder = responder
                point = point() if callable(point) else point
                responder.enter(point.target, point.input)
        recorder = switch.recorder()
        if recorder is not None and not is_suppressed():
            self._recorder = recorder
            try:
                self._start(recorder, point, outer)
            except Exception as error:
                report("entry.start", error)

    def _start(self, recorder: Recorder, point: EntryPoint | Callable[[], EntryPoint], outer: Place) -> None:
        run, context = self.run, _context_of_run(recorder, outer)
        if run.is_implied and outer.takes_run:  # most requests make no call, and should cost next to nothing
            later = _later()
            context = later.get_current() if context is None else context
            # neither of these knows the run: what a request leaves should not wait for the garbage collector
            run.span = later.LaterSpan(partial(_start_span, recorder, run.named, context, time.time_ns()))
            run.begins = [partial(_begin, recorder, point)]
            SHARED.begin()
            self._has_begun = True
            return
        token = PLACE.set(self._place)  # so that the span's start sees the run's user and session
        try:
            is_agent = not callable(point) and point.operation == genai.OP_INVOKE_AGENT
            named = {genai.OPERATION_NAME: genai.OP_INVOKE_AGENT, genai.AGENT_NAME: run.name} if is_agent else None
            run.span = recorder.tracer.start_span(run.name, context=context, attributes=named)
        finally:
            PLACE.reset(token)
        if outer.takes_run and run.span.is_recording():
            SHARED.begin()
            self._has_begun = True
            SHARED.mark(run.draws)  # before the program draws
            _begin(recorder, point, run)

    def rename(self, name: str) -> None:
        """Change the run's name: a request's route is known once it is answered."""
        if self.run.span is not None and self.payload is not None:
            self.run.span.update_name(name)
            self.payload.rename(name)

    @property
    def payload(self) -> EntryPayload | None:
        """Return the payload for the run's span; None if it is not recorded."""
        return self.run.payload

    @contextmanager
    def inside(self) -> Generator[None]:
        """Make the run the current one."""
        undo = self.enter()
        try:
            yield
        finally:
            undo()

    def enter(self) -> Callable[[], None]:
        """Make the run the current one; return a function that undoes that, to be called in the same context."""
        return partial(_leave, PLACE.set(self._place), self._attach())

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function inside the run."""
        token, around = PLACE.set(self._place), self._attach()
        try:
            return function(*args)
        finally:
            PLACE.reset(token)
            if around is not None:
                _later().detach(around)

    def _attach(self) -> Any:
        """Make the run's span the current one; return a function that undoes that."""
        span = self.run.span
        if span is None:
            return None
        later, around = _later(), self._around
        outer = later.get_current()
        if around[0] is not outer or around[1] is not span:  # a run that answers in pieces is entered for each
            self._around = around = (outer, span, later.set_span_in_context(span, outer))
        return later.attach(around[2])

    def finish(
        self,
        *,
        output: str | None = None,
        result: object = None,
        error: BaseException | None = None,
        yields: list[Any] | None = None,
        failure: str = "",
    ) -> None:
        """End the run with its output (tagged JSON) or the exception that it raised. Only the first call counts.

        `result`: the value behind the output. `yields`: the items of a generator before it raised. `failure`:
        the failure that the output shows, such as an HTTP status.
        """
        if self._done:
            return
        self._done = True
        unseen: tuple[str, ...] = ()
        if self._responder is not None or self.payload is not None:
            with guard("entry.look"):
                unseen = tuple(self.look(result))
        if self._responder is not None:
            self._responder.leave(output, None if error is None else values.encode_exception(error, yields), unseen)
        if self._has_begun:
            SHARED.end(vars(self.run).get("draws"))
        span, payload = self.run.span, self.payload
        if span is None:
            return
        if self.run.is_implied and payload is None:  # it made no call, so it is not a run
            # but if there are spans below its own, that one must end, or it is never sent
            if getattr(span, "started", None) is not None and self.run.tracers:
                span.end()
            return
        with guard("entry.finish"):
            if error is not None:
                mark_failed(span, error)
            elif failure:
                _mark(span, failure)
            if payload is not None and self._recorder is not None:
                self._recorder.finish_results(self.run)
                payload.accesses.note_changes()
                payload.output = output
                for what in unseen:
                    payload.add_gap(Gap(kind=GapKind.OUTCOME_PARTLY, text=NOT_COMPARED + what))
                payload.error = None if error is None else values.encode_exception(error, yields)
                payload.exchanges = self._recorder.sink.counted(span)
                payload.note_draws()
                if (hiding := self._recorder.describe_spans) is not None:
                    shown: Any = hiding.of(payload.messages())
                    span.set_attributes(shown)
                self._recorder.sink.expect(span, payload)
        with guard("entry.end"):
            span.end()


def mark_failed(span: Span, error: BaseException) -> None:
    """Record on a run's span the exception that ended the run, with its traceback."""
    span.record_exception(error)
    _mark(span, values.class_path(type(error)).replace(":", "."), str(error)[:500])


def _mark(span: Span, kind: str, text: str = "") -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute(genai.ERROR_TYPE, kind)
    span.set_status(Status(StatusCode.ERROR, text or None))


def _context_of_run(recorder: Recorder, outer: Place) -> Context | None:
    """Return the parent context for a span that begins at a place, None for the current one."""
    if not outer.takes_run:
        return None
    if outer.run is None:
        return recorder.root.context_for_run()
    from opentelemetry.context import Context

    return Context()


def _start_span(recorder: Recorder, named: Callable[[], Mapping[str, str | None]], context: Context, start_ns: int) -> Span:
    token = _later().attach(context)  # of the span around it: while it starts, it is not the current one itself
    try:
        return recorder.tracer.start_span(named()["name"] or "", context=context, start_time=start_ns)
    finally:
        _later().detach(token)


def _begin(recorder: Recorder, point: EntryPoint | Callable[[], EntryPoint], run: RunContext) -> None:
    """Report that a run has begun."""
    with guard("entry.announce"):
        span = run.span = getattr(run.span, "real", lambda: run.span)()  # of a `LaterSpan`
        if span is None or not span.is_recording():
            return
        for reading in (*randoms.MADE_BEFORE, *recorder.root.before):
            run.note_reading(*reading)
        run.payload = EntryPayload(
            point() if callable(point) else point,
            run.flags,
            recorded_settings(recorder.settings),
            run.readings,
            run.unrecorded,
            random_state=SHARED.mark(run.draws),
            accesses=run.accesses,
            draws=run.draws,
            answers=run.answers,
            known_texts=recorder.known_texts,
            import_gaps=partial(import_gaps, recorder.root.loaded),
        )
        if run.is_implied:
            for gap in carried_into_call():
                run.payload.add_gap(gap)
        recorder.sink.announce(span, run.payload.beginning())


def _leave(token: Token[Place], around: Any) -> None:
    leave(token)
    if around is not None:
        _later().detach(around)


def command_entry(input_json: str | None = None, name: str | None = None) -> EntryPoint:
    """Return this process as an entry point, by its command line. Its arguments are input, not part of the target."""
    argv = ["python", *(relative_path(part) for part in sys.orig_argv[1:])]
    payload: dict[str, Any] = {"argv": argv}
    if input_json is not None:
        payload["input"] = values.decode(input_json)
    main = program_file()
    file = relative_path(main) if main else None
    return EntryPoint(
        kind=EntryKind.COMMAND,
        name=name or (Path(main).name if main else "python"),
        target=file or "python",
        file=file,
        input=values.encode(payload),
        reach=command_gaps,
    )


# -- Find state that a process carries over from one run to the next ---------------------------------------------------
# A replay runs one of them alone, and begins like the first.
# The values that a run's code names are examined when the process runs it for the first time, and again in each
# later run (see `LeftBehind`). For a marked function that is at the beginning of its run; for a request or a task
# at the run's first call, in the functions on the stack. Changes before that first time, in runs of other code,
# are not seen.


_MAX_FUNCTIONS: Final = 8
"""Number of functions on the stack that are examined: the innermost."""
_MAX_SEEN: Final = 1_000
_HOSTS: Final = "freezeframe.hosts"
_FIRST: Final[WeakKeyDictionary[FunctionType | CodeType, Changes]] = WeakKeyDictionary()
"""A function, or the code of one on the stack -> a function that lists changes of its surroundings since its first run.

A function created anew for each run has no earlier run, but its code has.
"""


def carried_into(function: Any) -> Iterator[Gap]:
    """Yield the gap, if any, of a run that begins with a call of this function."""
    plain = plain_function(function)
    return _gaps({} if plain is None else {plain: plain})


def carried_into_call() -> Iterator[Gap]:
    """Yield the gap, if any, of a run that makes its first call."""
    return _gaps({function.__code__: function for function in _functions_on_the_stack()})


def _gaps(functions: Mapping[FunctionType | CodeType, FunctionType]) -> Iterator[Gap]:
    names: dict[str, None] = {}
    with guard("run.carried_over"):  # another thread may change what is looked at
        for key, function in functions.items():
            changes = _FIRST.get(key)
            if changes is not None:
                names |= dict.fromkeys(name for _, name in changes(None))
            elif len(_FIRST) < _MAX_SEEN:
                _FIRST[key] = LeftBehind(function, for_run=True).before(None)
    if names:
        yield Gap(
            kind=GapKind.CARRIED_OVER,
            text=f"{', '.join(names)} changed since the process first ran this code, {NOT_REPEATED}",
            do="pass it as an argument, or read it in a function marked with @freezeframe.tool",
        )


def _functions_on_the_stack() -> Iterator[FunctionType]:
    """Yield the application's functions that are running between the call and the server of the request or task.

    A frame has no function, but its code and globals have the names. Values of its variables are not examined.
    """
    frame, left = sys._getframe(1), _MAX_FUNCTIONS
    while frame is not None and left:
        code, module = frame.f_code, frame.f_globals.get("__name__") or ""
        if module.startswith(_HOSTS):
            return
        if code.co_name != "<module>" and is_applications(code.co_filename, module):
            left -= 1
            yield FunctionType(code, frame.f_globals, closure=tuple(CellType() for _ in code.co_freevars))
        frame = frame.f_back
