"""Tasks of workers: each one that makes a call is a run, without marked functions.

Celery, Dramatiq, RQ, arq, AWS Lambda, and in separate modules Temporal and Airflow.

A run's input is the task's arguments, its output the result; it begins where the worker calls the task and ends where it has
the result. An attempt is a run: those of one task have its id (`RunContext.id`). A task called inside a run is a part of it.

Each framework is a row of `FRAMEWORKS`: the hook to install once its module is imported. A replay calls the task's function
(`freezeframe_replay.process.tasks`).
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.context.current import RunContext, current_place
from freezeframe.hosts.request_runs import place_of_object
from freezeframe.runs.entry import EntryScope
from freezeframe.runs.entry_payload import EntryPoint
from freezeframe.runs.reach import Reach, input_gaps
from freezeframe.runs.run import file_of, target_of
from freezeframe.seams.functions.marked import named
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import IMPORT_HOOK, Patches
from freezeframe_schemas import values
from freezeframe_schemas.gaps import Gap, GapKind
from freezeframe_schemas.run import EntryKind


@dataclass(slots=True, kw_only=True)
class _Hooks:
    """Patches to undo, and the delivery of spans before a process ends or is frozen."""

    patches: Patches
    undo: list[Callable[[], object]]
    flush: Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One attempt at a task, while it runs."""

    scope: EntryScope
    inside: AbstractContextManager[None]


_hooks: Final = _Hooks(patches=Patches(), undo=[], flush=lambda: None)
_open: Final[dict[str, Task]] = {}
"""Id of a task -> the attempt that is in progress."""
_runs: Final[set[RunContext]] = set()
"""Those of the attempts that are in progress."""


def install(flush: Callable[[], object]) -> None:
    """Hook the frameworks: now if they are loaded, else when they are imported. `flush` delivers what is queued."""
    _hooks.flush = flush
    for module, hook in FRAMEWORKS:
        IMPORT_HOOK.when_imported(module, hook)
    for module, kind, methods in _HELD_BACK:
        IMPORT_HOOK.when_imported(module, functools.partial(_hook_held_back, kind, methods))


def uninstall() -> None:
    """Take the hooks out."""
    _hooks.patches.undo()
    while _hooks.undo:
        _hooks.undo.pop()()
    _hooks.flush = lambda: None


def begin(
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    by: str,
    name: str,
    task_id: str,
    attempt: int = 0,
    session: str | None = None,
    where: tuple[str, str | None] | None = None,
    lacks: Iterable[Gap] = (),
) -> Task | None:
    """Prepare for a run; return None if the task is part of one, or nothing is recorded.

    Args:
        function: the task's function.
        args: its arguments.
        kwargs: its arguments.
        by: the framework, for the replay.
        name: the task's name.
        task_id: the id that all attempts at it share.
        attempt: number of earlier attempts.
        session: the id that related tasks share.
        where: the target of a replay's call, and its file, if that is not the function by its name.
        lacks: parts of the arguments that are not recorded.
    """
    if current_place().run is not None or switch.recorder() is None:
        return None
    function = named(function)
    arguments = {str(number): value for number, value in enumerate(args, 1)} | kwargs
    payload = {"by": by, "args": list(args), "kwargs": kwargs, "id": task_id, "attempt": attempt}
    where = where or _place_of(function)
    target, file = where or (target_of(function), file_of(function))
    point = EntryPoint(
        kind=EntryKind.TASK,
        name=name,
        target=target,
        file=file,
        input=values.encode(payload),
        gaps=(*input_gaps(arguments), *lacks),
        reach=None if where else _reach(function).gaps,
    )
    scope = EntryScope(point, RunContext(name=name, id=task_id, session=session, is_implied=True))
    _runs.add(scope.run)
    inside = scope.inside()
    inside.__enter__()
    return Task(scope=scope, inside=inside)


def _place_of(function: Any) -> tuple[str, str | None] | None:
    """Return the place where a replay finds the method of an object that is a global, or whose class takes no arguments."""
    owner: Any = getattr(function, "__self__", None)
    if owner is None or isinstance(owner, type | ModuleType):
        return None
    target, file = place_of_object(owner)
    return (f"{target}.{function.__name__}", file) if target else None


@functools.lru_cache(maxsize=1000)
def _reach(function: Any) -> Reach:
    """Return whether another process finds the function. Its name leads to the framework's wrapper of it."""
    reach = Reach(function, takes_self="." in function.__qualname__, is_begun_outside=True)
    reach.marked = getattr(sys.modules.get(function.__module__), function.__name__, None)
    reach.look()
    return reach


def finish(task: Task | None, *, result: object = None, error: BaseException | None = None) -> None:
    if task is None:
        return
    with guard("task.leave"):
        task.inside.__exit__(None, None, None)
    _runs.discard(task.scope.run)
    is_run = task.scope.payload is not None
    task.scope.finish(output=values.encode(result) if is_run and error is None else None, error=error)


def attempt(task: Task | None, call: Callable[[], Any], *, end: Callable[..., None] = finish) -> Any:
    """Make an attempt that was begun, and end it."""
    try:
        result = call()
    except BaseException as error:
        end(task, error=error)
        raise
    end(task, result=result)
    return result


async def attempt_async(task: Task | None, call: Callable[[], Awaitable[Any]]) -> Any:
    """Like `attempt`, for an awaited task."""
    try:
        result = await call()
    except BaseException as error:
        finish(task, error=error)
        raise
    finish(task, result=result)
    return result


# -- Celery --------------------------------------------------------------------------------------------------------------


def _hook_celery(signals: ModuleType) -> None:
    def began(task_id: str, task: Any, args: Any, kwargs: Any, **_: Any) -> None:
        with guard("celery.begin"):
            begun = begin(
                task.run,
                tuple(args),
                dict(kwargs),
                by="celery",
                name=task.name,
                task_id=task_id,
                attempt=task.request.retries or 0,
            )
            if begun is not None:
                _open[task_id] = begun

    def ended(task_id: str, retval: Any, state: str | None, **_: Any) -> None:
        with guard("celery.end"):
            failed = retval if state != "SUCCESS" and isinstance(retval, BaseException) else None
            finish(_open.pop(task_id, None), result=retval, error=failed)

    def last(**_: Any) -> None:  # a forked worker exits by os._exit
        with guard("celery.exit"):
            _hooks.flush()

    receivers = {"task_prerun": began, "task_postrun": ended, "worker_process_shutdown": last}
    for name, receiver in receivers.items():
        signal = getattr(signals, name)
        signal.connect(receiver, weak=False)
        _hooks.undo.append(functools.partial(signal.disconnect, receiver))


# -- Dramatiq ------------------------------------------------------------------------------------------------------------


def _hook_dramatiq(module: ModuleType) -> None:
    def before(original: Any, broker: Any, signal: str, *args: Any, **options: Any) -> Any:
        done = original(broker, signal, *args, **options)
        if signal == "process_message":
            with guard("dramatiq.begin"):
                _begin_message(broker, args[0])
        return done

    def after(original: Any, broker: Any, signal: str, *args: Any, **options: Any) -> Any:
        if signal == "process_message":
            with guard("dramatiq.end"):
                task = _open.pop(args[0].message_id, None)
                finish(task, result=options.get("result"), error=options.get("exception"))
        return original(broker, signal, *args, **options)

    _hooks.patches.around(module.Broker, "emit_before", before)
    _hooks.patches.around(module.Broker, "emit_after", after)


def _begin_message(broker: Any, message: Any) -> None:
    actor = broker.get_actor(message.actor_name)
    task = begin(
        actor.fn,
        tuple(message.args),
        dict(message.kwargs),
        by="dramatiq",
        name=message.actor_name,
        task_id=message.message_id,
        attempt=message.options.get("retries", 0),
    )
    if task is not None:
        _open[message.message_id] = task


# -- AWS Lambda ----------------------------------------------------------------------------------------------------------

LAMBDA_CONTEXT: Final = (
    "function_name",
    "function_version",
    "invoked_function_arn",
    "memory_limit_in_mb",
    "aws_request_id",
    "log_group_name",
    "log_stream_name",
)
"""Attributes of the second argument of a handler that are recorded. It also holds objects of the runtime."""


def _hook_lambda(module: ModuleType) -> None:
    def around(original: Any, client: Any, handler: Any, *args: Any, **options: Any) -> Any:
        return original(client, functools.partial(_handle, handler), *args, **options)

    _hooks.patches.around(module, "handle_event_request", around)


def _handle(handler: Any, event: Any, context: Any) -> Any:
    task = None
    with guard("lambda.begin"):
        about = {name: getattr(context, name, None) for name in LAMBDA_CONTEXT}
        name = about["function_name"] or handler.__name__
        task = begin(handler, (event, about), {}, by="lambda", name=name, task_id=str(about["aws_request_id"]))
    return attempt(task, functools.partial(handler, event, context), end=_handled)


def _handled(task: Task | None, *, result: object = None, error: BaseException | None = None) -> None:
    with guard("task.end"):
        finish(task, result=result, error=error)
        if task is not None and task.scope.payload is not None:
            _hooks.flush()  # the process is frozen as soon as it has answered


# -- RQ ------------------------------------------------------------------------------------------------------------------


def _hook_rq(module: ModuleType) -> None:
    def perform(original: Any, job: Any) -> Any:
        task = None
        with guard("rq.begin"):
            tried = job.number_of_retries or 0
            arguments = (tuple(job.args or ()), dict(job.kwargs or {}))
            task = begin(job.func, *arguments, by="rq", name=job.func_name, task_id=job.id, attempt=tried)
        return attempt(task, functools.partial(original, job), end=_handled)  # a work horse exits by os._exit

    _hooks.patches.around(module.Job, "perform", perform)


# -- arq -----------------------------------------------------------------------------------------------------------------

ARQ_CONTEXT: Final = ("job_id", "job_try", "enqueue_time", "score")
"""Recorded items of a task's first argument. It also holds connections, and additions of `on_startup`."""


def _hook_arq(module: ModuleType) -> None:
    def made(original: Any, worker: Any, *args: Any, **options: Any) -> None:
        original(worker, *args, **options)
        with guard("arq.functions"):
            for name, function in worker.functions.items():
                worker.functions[name] = dataclasses.replace(function, coroutine=_recorded(function.coroutine, name))

    _hooks.patches.around(module.Worker, "__init__", made)


def _recorded(coroutine: Any, name: str) -> Any:
    @functools.wraps(coroutine)
    async def called(context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        task = None
        with guard("arq.begin"):
            about = {key: context.get(key) for key in ARQ_CONTEXT}
            tried = (about["job_try"] or 1) - 1
            task_id = str(about["job_id"])
            lacks = _made_at_startup(coroutine, context)
            task = begin(coroutine, (about, *args), kwargs, by="arq", name=name, task_id=task_id, attempt=tried, lacks=lacks)
        return await attempt_async(task, functools.partial(coroutine, context, *args, **kwargs))

    return called


def _made_at_startup(coroutine: Any, context: dict[str, Any]) -> list[Gap]:
    """Return a gap for each part of the context that the task's own code names, if a replay lacks it."""
    code = getattr(coroutine, "__code__", None)
    named = set(getattr(code, "co_consts", ())) & context.keys() - {*ARQ_CONTEXT, "redis"}
    return [
        Gap(
            kind=GapKind.INPUT_OPAQUE,
            text=f"the task uses {key} of its context, which a replay does not have",
            do="make it in the task, or a global of the module",
        )
        for key in sorted(named)
    ]


# -- messages and results ------------------------------------------------------------------------------------------------

_HELD_BACK: Final = (
    ("celery.app.base", "Celery", ("send_task", "_get_backend")),
    ("celery.backends.base", "Backend", ("mark_as_done", "mark_as_failure", "mark_as_retry", "store_result")),
    ("dramatiq.brokers.redis", "RedisBroker", ("enqueue",)),
    ("rq.queue", "Queue", ("enqueue_job",)),
    ("arq.connections", "ArqRedis", ("enqueue_job",)),
)
"""Functions by which a task sends a message to its broker, and the framework keeps the result.

A replay calls neither, so their statements to a database are neither steps nor gaps of the task's run.
"""


def _hook_held_back(kind: str, methods: tuple[str, ...], module: ModuleType) -> None:
    from freezeframe.seams.databases import statements

    def outside_recording(original: Any, *args: Any, **options: Any) -> Any:
        return (
            statements.outside_recording(original, *args, **options)
            if current_place().run in _runs
            else original(*args, **options)
        )

    async def outside_recording_async(original: Any, *args: Any, **options: Any) -> Any:
        if current_place().run not in _runs:
            return await original(*args, **options)
        return await statements.outside_recording_async(original, *args, **options)

    owner = getattr(module, kind)
    for method in methods:
        is_async = inspect.iscoroutinefunction(getattr(owner, method))
        _hooks.patches.around(owner, method, outside_recording_async if is_async else outside_recording)


# -- in separate modules -----------------------------------------------------------------------------------------------


def _hook_by(name: str) -> Callable[[ModuleType], None]:
    def hook(module: ModuleType) -> None:
        importlib.import_module(f"freezeframe.hosts.{name}").hook(module, _hooks.patches)

    return hook


FRAMEWORKS: Final[tuple[tuple[str, Callable[[ModuleType], None]], ...]] = (
    ("celery.signals", _hook_celery),
    ("dramatiq.broker", _hook_dramatiq),
    ("awslambdaric.bootstrap", _hook_lambda),
    ("rq.job", _hook_rq),
    ("arq.worker", _hook_arq),
    ("temporalio.worker._activity", _hook_by("temporal")),
    ("airflow.providers.standard.operators.python", _hook_by("airflow")),
)
"""Module -> function that hooks it."""
