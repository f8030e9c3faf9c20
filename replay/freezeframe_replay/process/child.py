"""The replayed process: `activate` turns it into one, `main` runs the recorded entry point in it.

`activate` is called through the start-up hook that ``freezeframe run`` uses, before any of the program's own code; it reads
its task from the file that `reenact` wrote. The report is written when the process ends, however it ends, unless it is
killed.
"""

from __future__ import annotations

import _thread
import asyncio
import atexit
import inspect
import itertools
import json
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from freezeframe.context.environment import DATABASES_VARIABLE, FILES_VARIABLE
from freezeframe.seams.typed_input import SEAM as TYPED
from freezeframe_replay.process.child_task import FIRST_VARIABLE, ChildTask, is_called, key_of, own_task
from freezeframe_replay.process.entry_point import find_entry_point
from freezeframe_replay.process.tasks import call_task
from freezeframe_schemas import genai, values
from freezeframe_schemas.divergence import report_to_json
from freezeframe_schemas.errors import ReplayError, ReplayMiss
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.fixture import Fixture, load_fixture
from freezeframe_schemas.run import EntryKind
from freezeframe_schemas.whole_file import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from freezeframe.runs.streams import StandardStreams
    from freezeframe.seams import Answered
    from freezeframe_replay.engine.policy import ReplayPolicy
    from freezeframe_replay.engine.session import ReplaySession
    from freezeframe_replay.process.fences import Fences
    from freezeframe_replay.process.isolate import RecordedClock

ENTRY_MISSING: Final = 125
"""Exit status if the recorded entry point could not be run at all."""

_END: Final = object()
_LOOK_S: Final = 0.1
_QUIET_S: Final = 5
"""Time that a program may go on without a call after the last one of a run that never finished (see `threads.watch`)."""

_state: dict[str, Any] = {}


def activate() -> None:
    """Make this process answer every seam from the fixture of its task. Does nothing if it has no task."""
    if _state or (task := own_task()) is None:
        return
    import freezeframe
    from freezeframe.hosts import applications
    from freezeframe.seams import serve
    from freezeframe.seams.frameworks.framework_state import BEGINNINGS
    from freezeframe_replay.engine.policy import ReplayPolicy, policy_from_json
    from freezeframe_replay.engine.request_edit import edit_request
    from freezeframe_replay.process.isolate import fence_sockets, keep_byte_code_of_settled_sources, restore_random

    keep_byte_code_of_settled_sources()
    fixture = load_fixture(Path(task.fixture))
    policy = policy_from_json(task.policy) if task.policy else ReplayPolicy()

    if task.layer:  # before the seams, which then answer in its place
        from freezeframe_replay.process.layer import Layer

        Layer(task.layer, [*policy.allow_paths, *filter(None, [task.spans])]).install()
    first = os.environ.setdefault(FIRST_VARIABLE, str(os.getpid())) == str(os.getpid())
    # A Python that the program starts is also in the replay, and not on the network.
    os.environ.update(freezeframe.injected_environment(f"{__name__}:activate"))
    session, fences, clock = _open_session(fixture, policy, task)
    BEGINNINGS.put(fixture.begin)
    _record(fixture, task.spans, is_first=first)

    def begin() -> None:
        # A function's is restored on entry. A program was recorded from its start on, or from its call of `instrument()` on.
        if fixture.entry.kind is EntryKind.COMMAND and not session.report().made:
            restore_random(fixture.entry)

    serve(
        session,
        edit=lambda request: edit_request(request, policy.edits) if policy.edits else None,
        real_time=policy.real_time,
        is_recorded=bool(task.spans),
        on_instrument=begin,
        databases=_where_answered(fixture, DATABASES_VARIABLE, Kind.DATABASE),
        files=_where_answered(fixture, FILES_VARIABLE, Kind.FILE),
        typed=_where_typed(fixture),
    )
    freezeframe.instrument()
    if fixture.entry.kind is EntryKind.REQUEST:
        applications.install()
    fence_sockets(lambda address: _refusal(session, address), session.is_open)
    clock.start()
    _quiet_misses()
    atexit.register(write_report)
    if first and fixture.entry.unfinished and not (policy.real_time or policy.goes_live):
        _thread.start_new_thread(_end_after_the_recording, (session,))  # as in `Pace`: it is not the program's
    begin()
    fences.raise_fences()
    fences.up = not is_called(fixture) or not first


def _where_answered(fixture: Fixture, variable: str, kind: Kind) -> Answered:
    """Return the scope in which calls of this kind are answered: none unless the run recorded them (`variable`)."""
    recorded: Any = json.loads(fixture.entry.environment or "{}")
    if variable not in recorded and not any(step.exchange.kind is kind for step in fixture.steps):
        return "as they are"
    return "in runs" if is_called(fixture) else "everywhere"


def _where_typed(fixture: Fixture) -> Answered:
    if not any(step.exchange.seam == TYPED for step in fixture.steps):
        return "as they are"
    return "in runs" if is_called(fixture) else "everywhere"


def _open_session(fixture: Fixture, policy: ReplayPolicy, task: ChildTask) -> tuple[ReplaySession, Fences, RecordedClock]:
    """Create the session that answers for the world, for as long as the process lives."""
    from freezeframe_replay.engine.session import ReplaySession
    from freezeframe_replay.process.fences import Fences
    from freezeframe_replay.process.isolate import RecordedClock, restore_random
    from freezeframe_replay.process.layer import copies_of
    from freezeframe_replay.process.peers import Peers, peers_file

    clock = RecordedClock(fixture.entry)

    def enter() -> None:
        clock.restart()
        restore_random(fixture.entry)
        fences.up = True

    def leave() -> None:
        fences.up = False

    peers = Peers(peers_file(Path(task.report)))
    session = ReplaySession(
        fixture,
        policy=policy,
        on_time=clock.reach,
        measured=clock.measured,
        on_enter=enter,
        on_leave=leave,
        on_divergence=_report_first,
        claims=peers,
        key=key_of(fixture, Path(task.keys)) if task.keys else None,
    )
    clock.between_ns = session.between_ns
    os.register_at_fork(after_in_child=session.after_fork)
    os.register_at_fork(after_in_child=peers.after_fork)
    fences = Fences(
        policy.fences,
        session.fence_tried,
        allow_paths=[Path(path) for path in policy.allow_paths],
        allow_programs=policy.allow_programs,
        around_tools=session.unserved if policy.runs_tools else None,
        copies=copies_of(task.layer) if task.layer else "",
    )
    _state.update(report=Path(task.report), fixture=fixture, session=session, fences=fences, peers=peers)
    return session, fences, clock


def _record(fixture: Fixture, spans: str, *, is_first: bool) -> None:
    """Watch the program's output, for its outcome; record the replay, if it is to be kept."""
    from freezeframe._instrument import record_replay
    from freezeframe.runs.streams import StandardStreams

    if fixture.entry.kind is EntryKind.COMMAND and is_first:
        _state["streams"] = streams = StandardStreams()
        streams.begin()
    if spans:  # before the seams are installed: its own thread has no place among the program's
        record_replay(
            spans,
            service_name=fixture.environment.get(genai.SERVICE_NAME, ""),
            root="never" if is_called(fixture) else "always",
        )


def _is_first() -> bool:
    return os.environ.get(FIRST_VARIABLE) == str(os.getpid())


def _report_first() -> None:
    """Note the place where this process left the recording; it may end without another chance."""
    if not _is_first():
        _state["peers"].report_left(_state["session"].report())


def _refusal(session: ReplaySession, address: str) -> BaseException:
    """Return the exception of a stopped connection. A telemetry exporter is not part of the run: it is only refused."""
    from opentelemetry import context

    if context.get_value("suppress_instrumentation") or context.get_value("suppress_http_instrumentation"):
        return ConnectionRefusedError(f"{address}: a replay has no network")
    return session.network_tried(address)


def main() -> int:
    """Run the recorded entry point with the recorded input; return the exit status."""
    try:
        activate()
        fixture: Fixture = _state["fixture"]
        entry_point = find_entry_point(fixture, _state["session"].loading)
        if is_entered():
            return 0  # a script without a main guard has called it already, and a second call would repeat all its requests
        arguments = arguments_of(fixture)
    except ReplayMiss:
        return 3  # as below, if such a script left the recording
    except ReplayError as error:
        print(f"freezeframe: {error}", file=sys.stderr)
        return ENTRY_MISSING
    try:
        if fixture.entry.kind is EntryKind.REQUEST:
            from freezeframe_replay.process.requests import answer_request

            answer_request(entry_point, arguments, fixture.entry.output)
        elif fixture.entry.kind is EntryKind.TASK:
            call_task(entry_point, fixture.entry, arguments)
        else:
            call(entry_point, arguments, fixture)
    except BaseException as error:
        if _is_miss(error):
            return 3
        if not isinstance(error, Exception):
            raise
        # The run decorator has passed the exception to the session, which compares it with the recorded one.
        print(f"freezeframe: the entry point raised {type(error).__name__}: {error}", file=sys.stderr)
    return 0


def is_entered() -> bool:
    """Return whether the program has reached its entry point."""
    return _state["session"].report().entered


def _is_miss(error: BaseException) -> bool:
    """Return whether an exception is a miss, or a task group's with one in it."""
    return isinstance(error, ReplayMiss) or (isinstance(error, BaseExceptionGroup) and error.subgroup(ReplayMiss) is not None)


def arguments_of(fixture: Fixture) -> dict[str, Any]:
    """Return the recorded input of the entry point.

    Raises:
        ReplayError: it is missing, or it cannot be rebuilt.
    """
    text = fixture.entry.input
    if text is None:
        raise ReplayError(f"run {fixture.run_id}: the input of its entry point was not recorded")
    if values.is_opaque(text):
        raise ReplayError(
            f"run {fixture.run_id}: its input holds an object that cannot be rebuilt",
            do="name a command that builds it: freezeframe replay RUN -- CMD",
        )
    arguments = values.decode(text)
    if values.class_path(values.Opaque) in values.encode(arguments):
        raise ReplayError(
            f"run {fixture.run_id}: its input holds an object of a class that the module of the entry point does not have",
            do="import the class there, or name a command that builds the input: freezeframe replay RUN -- CMD",
        )
    return arguments


def taken(fixture: Fixture) -> int | None:
    """Return how many items the caller took from a generator before it closed it; None if it took all of them."""
    output: Any = values.decode(fixture.entry.output) if fixture.entry.output else None
    is_left = isinstance(output, dict) and isinstance(output.get("yields"), list) and "return" not in output
    return len(output["yields"]) if is_left else None


def call(entry_point: Any, arguments: dict[str, Any], fixture: Fixture) -> None:
    """Run the entry point to its end; run a generator that was closed early as far as it went."""
    most = taken(fixture)
    result = entry_point(*arguments.get("args", []), **arguments.get("kwargs", {}))
    if inspect.isasyncgen(result):
        _run(fixture, _drain, result, most)
    elif inspect.isawaitable(result):
        _run(fixture, _wait, result)
    elif inspect.isgenerator(result):
        for _ in itertools.islice(result, most):
            pass
        result.close()


def _run(fixture: Fixture, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
    if genai.TRIO_FEED in json.loads(fixture.entry.clock_readings or "{}"):
        import trio

        trio.run(function, *args)
    else:
        asyncio.run(function(*args))


async def _wait(awaitable: Any) -> None:
    await awaitable


async def _drain(stream: Any, taken: int | None) -> None:
    left = itertools.count() if taken is None else range(taken)
    for _ in left:
        if await anext(stream, _END) is _END:
            break
    await stream.aclose()


def _quiet_misses() -> None:
    """Print no traceback of a miss: the report has it, and a stack through SDKs and event loops helps no one."""
    print_exception, print_thread_exception = sys.excepthook, threading.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if _is_miss(error):
            print(f"freezeframe: {error}", file=sys.stderr)
        else:
            print_exception(kind, error, trace)

    def thread_excepthook(args: threading.ExceptHookArgs) -> None:
        if not issubclass(args.exc_type, ReplayMiss):
            print_thread_exception(args)

    sys.excepthook, threading.excepthook = excepthook, thread_excepthook


def _compare_outcome() -> None:
    """Report the output of a whole process, or its fatal exception, if the recording has the same."""
    fixture: Fixture = _state["fixture"]
    streams: StandardStreams | None = _state.get("streams")
    if streams is None:
        return
    error = getattr(sys, "last_value", None)
    if isinstance(error, BaseException) and not _is_miss(error):
        _state["session"].leave(None, values.encode_exception(error))
        return
    recorded: Any = values.decode(fixture.entry.output) if fixture.entry.output else None
    recorded_outcome = recorded if isinstance(recorded, dict) else {}
    came_to = streams.outcome
    if "stdout" not in recorded_outcome and fixture.entry.error is None:
        came_to.pop("stdout", None)
    unheard = tuple(
        part for part in {**recorded_outcome, **came_to} if None in (recorded_outcome.get(part, 0), came_to.get(part, 0))
    )
    _state["unheard"] = unheard  # the verdict says that it was not compared
    came_to = {part: came_to[part] for part in came_to if part not in unheard}
    came_to |= {part: recorded_outcome[part] for part in unheard if part in recorded_outcome}
    if came_to and (recorded_outcome or fixture.entry.error is not None):
        _state["session"].leave(values.encode(came_to), None)


def write_report() -> None:
    """Write the report of this process, if it is the first one of the replay."""
    if not _state or not _is_first():
        return
    _state["fences"].up = False
    _compare_outcome()
    report = _state["peers"].joined(_state["session"].report())
    report = replace(report, unheard=(*report.unheard, *_state.get("unheard", ()), *_state.get("ended", ())))
    replace_file(_state["report"], report_to_json(report))


def _end_after_the_recording(session: ReplaySession) -> None:
    """End the program when it has made every recorded call and then none for a while: it hangs where the recorded run hung."""
    from freezeframe_replay.engine import threads

    quiet_ns, made = 0, None
    while quiet_ns < _QUIET_S * 1e9:
        _, passed_ns = threads.watch(_LOOK_S)
        before, made = made, session.calls_at_the_end()
        quiet_ns = 0 if made is None or made != before else quiet_ns + passed_ns
    _state["ended"] = (f"the rest of the program (no call for {_QUIET_S} s, so the replay ended it)",)
    write_report()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(0)


if __name__ == "__main__":
    # Run under the importable name, so that there is one such state, not one per name of this module.
    from freezeframe_replay.process import child

    sys.exit(child.main())
