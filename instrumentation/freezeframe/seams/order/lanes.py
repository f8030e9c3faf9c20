"""Lanes: tasks, threads and forked processes carry the run, the current span and their own lane, assigned in the parent.

Tasks of `asyncio` and `trio` copy the context of their parent, so only the lane is added. Threads and executors start from an
empty context: they get our context and OTel's, and nothing else of the application's.
"""

from __future__ import annotations

import contextvars
import functools
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import CodeType, FrameType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from freezeframe._guard import guard, report
from freezeframe.context.activity import ACTIVITY
from freezeframe.context.current import PLACE, WORK, Lane, Place, current_place
from freezeframe.seams.order.races import set_lane
from freezeframe.seams.recorder.patching import IMPORT_HOOK, Patches
from freezeframe.seams.recorder.recording import outside_lane

if TYPE_CHECKING:
    from opentelemetry.context import Context


async def _no_items() -> AsyncGenerator[None]:
    yield


def _type_of_closing() -> type[object]:
    closing = _no_items().aclose()
    closing.close()  # Python 3.13 warns about one that was never awaited
    return type(closing)


_CLOSES_GENERATOR: Final = _type_of_closing()
"""The coroutine with which the loop closes an abandoned asynchronous generator.

That happens at garbage collection, at any point of the program, and also for generators of the real network.
Such a task is not the application's work.
"""
_WORKERS_OF_ANYIO: Final = "anyio._backends._asyncio"
"""Module of the threads in which anyio runs functions, each in the context of its caller, so with its lane."""
_FINALIZER: Final = "__del__"
_FINALIZER_WITHIN: Final = 8
"""Number of frames above a task's creation to search for a finalizer, which creates the task itself or closes its creator."""


def install(patches: Patches) -> None:
    """Patch task creation, thread start and executors."""
    IMPORT_HOOK.when_imported("threading", lambda module: patches.replace(module.Thread, "start", _start))
    IMPORT_HOOK.when_imported(
        "concurrent.futures.thread", lambda module: patches.replace(module.ThreadPoolExecutor, "submit", _submit)
    )
    IMPORT_HOOK.when_imported("asyncio", functools.partial(_install_asyncio, patches))
    IMPORT_HOOK.when_imported("uvloop", functools.partial(_install_uvloop, patches))
    IMPORT_HOOK.when_imported("trio", functools.partial(_install_trio, patches))


def _install_asyncio(patches: Patches, module: ModuleType) -> None:
    step = getattr(module.events.Handle._run, "__code__", None)
    patches.replace(module.BaseEventLoop, "create_task", functools.partial(_create_task, step))


def _install_uvloop(patches: Patches, module: ModuleType) -> None:
    patches.replace(module.Loop, "create_task", functools.partial(_create_task, None))


def _install_trio(patches: Patches, module: Any) -> None:
    """Trio runs tasks that are ready in random order. It has no public function through which all of them start."""
    patches.around(module._core._run.Runner, "spawn_impl", _spawn)


def _spawn(original: Callable[..., Any], runner: Any, *args: Any, **options: Any) -> Any:
    with guard("lanes.spawn"):
        if not options.get("system_task"):
            context: contextvars.Context = options.get("context") or contextvars.copy_context()
            if _set_place(context, child_place()):
                options["context"] = context
    return original(runner, *args, **options)


def _before_fork() -> None:
    """Assign a lane to the process that is about to be forked; only in a run, because servers fork outside any run."""
    with guard("lanes.fork"):
        place = PLACE.get(None)
        _FORKED.place = None if place is None or place.run is None else child_place()


def _after_fork_in_child() -> None:
    with guard("lanes.forked"):
        if _FORKED.place is not None:
            PLACE.set(_FORKED.place)


class _Forked(threading.local):
    """State that the forking thread passes to the forked process."""

    place: Place | None = None


_FORKED: Final = _Forked()
os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)


def child_place() -> Place:
    """Return the place of the next task or thread started here."""
    place = current_place()
    return Place(  # `replace` takes three times as long
        lane=place.lane.child(),
        run=place.run,
        inside_call=place.inside_call,
        inside=place.inside,
        call_span_id=place.call_span_id,
        run_anew=place.run_anew,
    )


def _create_task(step: CodeType | None, original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the method of a loop that makes tasks. `step`: the code that runs each step of the loop."""
    activity, copy_context, frame_of = ACTIVITY, contextvars.copy_context, sys._getframe

    @functools.wraps(original)
    def create_task(loop: Any, coro: Any, **options: Any) -> Any:
        if not activity.on:
            return original(loop, coro, **options) if options else original(loop, coro)
        lane = context = None
        try:
            if type(coro) is not _CLOSES_GENERATOR and not _is_finalizing(frame_of(1), step):
                task_context = copy_context() if not options else options.get("context") or copy_context()
                place = child_place()
                if _set_place(task_context, place):
                    context, lane = task_context, place.lane.path
        except Exception as error:
            report("lanes.create_task", error)
        if not options and context is not None:
            task = original(loop, coro, context=context)
        else:
            task = original(loop, coro, **options if context is None else {**options, "context": context})
        if lane is not None:
            try:
                set_lane(task, lane)
            except Exception as error:
                report("lanes.task", error)
        return task

    return create_task


def _is_finalizing(frame: FrameType | None, step: CodeType | None) -> bool:
    """Return whether the frame is part of a finalizer, like `_CLOSES_GENERATOR`:

    SDKs close their clients in such a task. The search ends at a step of the loop.
    """
    for _ in range(_FINALIZER_WITHIN):
        if frame is None or (code := frame.f_code) is step:
            return False
        if code.co_name == _FINALIZER:
            return True
        frame = frame.f_back
    return False


def _set_place(context: contextvars.Context, place: Place) -> bool:
    try:
        context.run(PLACE.set, place)
    except RuntimeError:  # the context is entered already, by this task itself: it keeps its lane
        return False
    return True


def _start(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def start(thread: threading.Thread) -> None:
        if type(thread).__module__ == _WORKERS_OF_ANYIO:  # as in `submit`: a warm server has its workers already
            with outside_lane():
                return original(thread)
        with guard("lanes.start"):
            _carry(thread, child_place(), _otel_context())
        return original(thread)

    return start


def _carry(thread: threading.Thread, place: Place, context: Context | None) -> None:
    """Wrap the thread's `run` in its place.

    On the instance: a subclass that overrides it (Timer, and many in applications) is covered, too. It is a method if it
    was one, because other tools (Sentry) take its ``__func__`` and call that with the thread.
    """
    own, run = vars(thread).get("run"), thread.run
    is_method = getattr(run, "__self__", None) is thread

    @functools.wraps(run.__func__ if is_method else run)  # pyright: ignore[reportFunctionMemberAccess] - of a method
    def carried(*_: Any) -> None:
        with guard("lanes.run"):
            if vars(thread).get("run") is ours:
                vars(thread).update(run=own) if own is not None else vars(thread).pop("run")
            PLACE.set(place)
            if context is not None:
                from opentelemetry import context as otel

                otel.attach(context)
        run()

    ours = vars(thread)["run"] = MethodType(carried, thread) if is_method else carried


def _submit(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def submit(executor: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        work, lane = fn, None
        with guard("lanes.submit"):
            outer, place = current_place(), child_place()
            context = _context_of(fn)
            if context is not None:
                _set_place(context, place)
            work, lane = _Carried(fn, (outer.lane, *WORK.handed_over_by), place, _otel_context()), place.lane.path
        # The worker thread that this may start is not the application's work: it takes no ordinal.
        with outside_lane():
            future = original(executor, work, *args, **kwargs)
        if lane is not None:
            with guard("lanes.future"):
                set_lane(future, lane)
        return future

    return submit


def _context_of(fn: Any) -> contextvars.Context | None:
    """Return the context that `fn` runs in if it brings its own: ``ctx.run``, as `asyncio.to_thread` and LangChain do."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    owner = getattr(fn, "__self__", None)
    return owner if isinstance(owner, contextvars.Context) and getattr(fn, "__name__", "") == "run" else None


@dataclass(frozen=True, slots=True)
class _Carried:
    """A work item with its place. The worker thread's own place is restored."""

    fn: Callable[..., Any]
    handed_over_by: tuple[Lane, ...]
    place: Place
    context: Context | None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from opentelemetry import context

        token = PLACE.set(self.place)
        before = WORK.handed_over_by, WORK.place
        WORK.handed_over_by, WORK.place = self.handed_over_by, self.place
        otel_token = None if self.context is None else context.attach(self.context)
        try:
            return self.fn(*args, **kwargs)
        finally:
            WORK.handed_over_by, WORK.place = before
            PLACE.reset(token)
            if otel_token is not None:
                context.detach(otel_token)


def _otel_context() -> Context | None:
    from opentelemetry import context

    current = context.get_current()
    return current or None
