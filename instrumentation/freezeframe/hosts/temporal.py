"""Activities of Temporal: each attempt that makes a call is a run (`workers`). The activities of a workflow are one session.

Async activities are hooked in the worker's call; the others in the thread or process of its executor.
"""

from __future__ import annotations

import functools
import inspect
from types import ModuleType
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.hosts import workers
from freezeframe.seams.recorder.patching import Patches

ABOUT: Final = (
    "activity_id",
    "activity_type",
    "attempt",
    "heartbeat_details",
    "is_local",
    "namespace",
    "scheduled_time",
    "started_time",
    "task_queue",
    "workflow_id",
    "workflow_run_id",
    "workflow_type",
)
"""Recorded fields of `temporalio.activity.info()`."""


def hook(module: ModuleType, patches: Patches) -> None:
    """Patch ``temporalio.worker._activity``."""
    patches.around(module, "_execute_sync_activity", _call)
    patches.around(module._ActivityInboundImpl, "execute_activity", _await)


def _call(original: Any, info: Any, *given: Any) -> Any:
    # heartbeat, raiser, cancelled, shutdown, converter, meter, details; then the function and its arguments
    function, *args = given[7:]
    return workers.attempt(_begin(info, function, args), functools.partial(original, info, *given))


async def _await(original: Any, inbound: Any, call: Any) -> Any:
    if not inspect.iscoroutinefunction(call.fn):
        return await original(inbound, call)
    task = _begin(inbound._running_activity.info, call.fn, call.args)
    return await workers.attempt_async(task, functools.partial(original, inbound, call))


def _begin(info: Any, function: Any, args: Any) -> workers.Task | None:
    with guard("temporal.begin"):
        about = {name: getattr(info, name, None) for name in ABOUT}
        return workers.begin(
            function,
            (about, *args),
            {},
            by="temporal",
            name=info.activity_type,
            task_id=f"{info.workflow_run_id or getattr(info, 'activity_run_id', None) or ''}/{info.activity_id}",
            attempt=info.attempt - 1,
            session=info.workflow_id,
        )
    return None
