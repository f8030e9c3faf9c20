"""Calls a worker's task with its recorded arguments, in process: no worker, no broker.

Messages of the task to a broker are held back: another task that it starts, and its own retry.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any
from uuid import uuid4

from freezeframe.context.current import RunContext
from freezeframe.hosts.airflow import INSTANCES
from freezeframe.runs.entry import EntryScope
from freezeframe.runs.entry_payload import EntryPoint
from freezeframe_schemas import values
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.run import Entry, EntryKind


def call_task(task: Any, entry: Entry, given: Mapping[str, Any]) -> None:
    """Call the task as its worker did; its exceptions propagate.

    Args:
        task: the object under the task's name: a function, or the framework's object around it.
        entry: the recorded entry point.
        given: its input, as `freezeframe.hosts.workers` recorded it.
    """
    point = EntryPoint(
        kind=EntryKind.TASK, name=entry.name, target=entry.target, file=entry.file, input=values.encode(dict(given))
    )
    scope = EntryScope(point, RunContext(name=entry.name, id=given["id"]))
    try:
        with scope.inside():
            result = _CALLS[given["by"]](task, given)
            if inspect.isawaitable(result):
                result = asyncio.run(_result_of(result))
    except BaseException as error:
        scope.finish(error=error)
        raise
    scope.finish(output=values.encode(result))


async def _result_of(awaitable: Any) -> Any:
    return await awaitable


def _call_celery(task: Any, given: Mapping[str, Any]) -> Any:
    """Call a task of Celery with the hooks of its class and signals. Like an eager one, its retry sends nothing."""
    from celery.app.trace import build_tracer
    from celery.backends.base import DisabledBackend

    app, nowhere = task.app, DisabledBackend(app=task.app)

    def held_back(*_: Any, task_id: str | None = None, **__: Any) -> Any:
        return app.AsyncResult(task_id or str(uuid4()), backend=nowhere)  # the real one makes its tables

    app.send_task, task.backend = held_back, nowhere
    request = {"id": given["id"], "retries": given["attempt"], "is_eager": True, "delivery_info": {"is_eager": True}}
    traced = build_tracer(task.name, task, app=app)(given["id"], given["args"], given["kwargs"], request)
    if traced.info is not None:  # it failed, or is to be tried again
        raise traced.info.retval
    return traced.retval


def _call_dramatiq(actor: Any, given: Mapping[str, Any]) -> Any:
    def held_back(message: Any, **_: Any) -> Any:
        return message

    actor.broker.enqueue = held_back
    awaited = getattr(actor.fn, "__wrapped__", None)  # of an asynchronous actor, which a loop of the worker's would await
    function = awaited if inspect.iscoroutinefunction(awaited) else actor
    return function(*given["args"], **given["kwargs"])


def _call_lambda(handler: Any, given: Mapping[str, Any]) -> Any:
    event, about = given["args"]
    context = SimpleNamespace(**about, client_context=None, identity=None, get_remaining_time_in_millis=lambda: 60_000)
    return handler(event, context)


def _call_rq(function: Any, given: Mapping[str, Any]) -> Any:
    from rq import Queue

    def held_back(_queue: Any, job: Any, *_: Any, **__: Any) -> Any:
        return job

    queue: Any = Queue
    queue.enqueue_job = held_back
    return function(*given["args"], **given["kwargs"])


class _NoQueue:
    """Replacement for the connection of an arq task: enqueuing has no effect."""

    async def enqueue_job(self, *_: Any, **__: Any) -> None:
        pass


def _call_arq(function: Any, given: Mapping[str, Any]) -> Any:
    about, *args = given["args"]
    return function({**about, "redis": _NoQueue()}, *args, **given["kwargs"])


def _call_temporal(function: Any, given: Mapping[str, Any]) -> Any:
    """Call an activity in Temporal's own environment for tests: it has its `info()`, and its heartbeats go nowhere."""
    from temporalio.testing import ActivityEnvironment  # pyright: ignore[reportMissingImports]

    about, *args = given["args"]
    environment: Any = ActivityEnvironment()
    environment.info = replace(environment.info, **about)
    return environment.run(function, *args, **given["kwargs"])


def _call_airflow(function: Any, given: Mapping[str, Any]) -> Any:
    about, *args = given["args"]
    instance = SimpleNamespace(**about)
    keywords = dict.fromkeys(INSTANCES.intersection(inspect.signature(function).parameters), instance)
    return function(*args, **given["kwargs"], **keywords)


DAGS = "DAG"
"""In a target, instead of a function that returns a task's function: ``shop_dag:DAG('shop', 'answer')``."""


def dags_of(load: Callable[[], ModuleType]) -> Callable[[str, str], Any]:
    """Import a module of Airflow; return a function that finds the function of a task of its DAGs, None if it is missing.

    Raises:
        ReplayError: Airflow is not installed.
    """
    try:
        from airflow.sdk import DAG  # pyright: ignore[reportMissingImports]
        from airflow.sdk.definitions._internal.contextmanager import (  # pyright: ignore[reportMissingImports]
            DagContext,
        )
    except ImportError as error:
        raise ReplayError(
            f"the entry point is a task of Airflow, which cannot be imported: {error}",
            do="run the replay where the agent's packages are installed",
        ) from None

    kind: Any = DAG
    context: Any = DagContext
    context.current_autoregister_module_name = __name__  # so that it notes the DAGs that no global holds
    module = load()
    dags: list[Any] = [
        *(dag for dag, _ in context.autoregistered_dags),
        *(found for found in vars(module).values() if isinstance(found, kind)),
    ]

    def find(dag_id: str, task_id: str) -> Any:
        for dag in dags:
            if getattr(dag, "dag_id", None) == dag_id and task_id in getattr(dag, "task_dict", ()):
                task = dag.task_dict[task_id]
                return getattr(task, "python_callable", None) or getattr(task, "partial_kwargs", {}).get("python_callable")
        return None

    return find


_CALLS = {
    "celery": _call_celery,
    "dramatiq": _call_dramatiq,
    "lambda": _call_lambda,
    "rq": _call_rq,
    "arq": _call_arq,
    "temporal": _call_temporal,
    "airflow": _call_airflow,
}
"""Framework -> function that calls a task."""
