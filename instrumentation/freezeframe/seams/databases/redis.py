"""redis-py, sync and async: each command, and each pipeline as one call. A cluster's, too; not subscriptions, nor monitors.

A client connects with its first command, so in a replay it never does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, Final

from freezeframe.seams.databases import statements
from freezeframe.seams.recorder.patching import Patches

SYSTEM: Final = "redis"


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``redis.client`` or ``redis.asyncio.client``."""
    is_async = module.__name__ == "redis.asyncio.client"
    patches.around(module.Redis, "execute_command", _command_async if is_async else _command)
    pipeline: Any = module.Pipeline
    patches.around(pipeline, "immediate_execute_command", _command_async if is_async else _command)
    patches.around(pipeline, "execute", _pipeline_async if is_async else _pipeline)


def _asked(args: tuple[Any, ...], options: dict[str, Any]) -> Callable[[], Any]:
    del options  # how the answer is read
    return statements.asked(SYSTEM, str(args[0]) if args else "", *args[1:])


def _keep_state(client: Any, args: tuple[Any, ...]) -> None:
    """Note that a pipeline watches keys: redis-py does so as it reads the answer."""
    if statements.is_served() and args and hasattr(client, "watching"):
        client.watching = args[0] == "WATCH" or (client.watching and args[0] not in ("UNWATCH", "DISCARD"))


def _command(original: Callable[..., Any], client: Any, /, *args: Any, **options: Any) -> Any:
    _keep_state(client, args)
    return statements.run(_asked(args, options), partial(original, client, *args, **options))


async def _command_async(original: Callable[..., Any], client: Any, /, *args: Any, **options: Any) -> Any:
    _keep_state(client, args)
    return await statements.run_async(_asked(args, options), partial(original, client, *args, **options))


def _queued(pipeline: Any) -> Callable[[], Any]:
    return statements.asked(SYSTEM, "PIPELINE", *(list(_arguments(command)) for command in pipeline.command_stack))


def _arguments(command: Any) -> Any:
    return command[0] if isinstance(command, tuple) else command.args


def _pipeline(original: Callable[..., Any], pipeline: Any, /, *args: Any, **options: Any) -> Any:
    if not pipeline.command_stack:
        return original(pipeline, *args, **options)
    if not statements.is_served():
        return statements.run(_queued(pipeline), partial(original, pipeline, *args, **options))
    try:
        return statements.run(_queued(pipeline), partial(original, pipeline), nothing=[None] * len(pipeline.command_stack))
    finally:
        pipeline.reset()


async def _pipeline_async(original: Callable[..., Any], pipeline: Any, /, *args: Any, **options: Any) -> Any:
    if not pipeline.command_stack:
        return await original(pipeline, *args, **options)
    if not statements.is_served():
        return await statements.run_async(_queued(pipeline), partial(original, pipeline, *args, **options))
    nothing = [None] * len(pipeline.command_stack)
    try:
        return await statements.run_async(_queued(pipeline), partial(original, pipeline), nothing=nothing)
    finally:
        await pipeline.reset()
