"""redis-py, sync and async: each command, and each pipeline as one call. Also of a cluster; no subscriptions or monitors.

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
    form = module.__name__ == "redis.asyncio.client"
    command, pipeline = statements.both(_command)[form], statements.both(_pipeline)[form]
    patches.around(module.Redis, "execute_command", command)
    patches.around(module.Pipeline, "immediate_execute_command", command)
    patches.around(module.Pipeline, "execute", pipeline)


def _describe(args: tuple[Any, ...], options: dict[str, Any]) -> Callable[[], Any]:
    del options  # how the answer is read
    return statements.describe_statement(SYSTEM, str(args[0]) if args else "", *args[1:])


def _keep_state(client: Any, args: tuple[Any, ...]) -> None:
    """Note that a pipeline watches keys: redis-py does so as it reads the answer."""
    if statements.is_served() and args and hasattr(client, "watching"):
        client.watching = args[0] == "WATCH" or (client.watching and args[0] not in ("UNWATCH", "DISCARD"))


async def _command(run: Any, original: Callable[..., Any], client: Any, /, *args: Any, **options: Any) -> Any:
    _keep_state(client, args)
    return await run(_describe(args, options), partial(original, client, *args, **options))


def _queued(pipeline: Any) -> Callable[[], Any]:
    return statements.describe_statement(SYSTEM, "PIPELINE", *(list(_arguments(command)) for command in pipeline.command_stack))


def _arguments(command: Any) -> Any:
    return command[0] if isinstance(command, tuple) else command.args


async def _pipeline(run: Any, original: Callable[..., Any], pipeline: Any, /, *args: Any, **options: Any) -> Any:
    if not pipeline.command_stack:
        return await original(pipeline, *args, **options)
    if not statements.is_served():
        return await run(_queued(pipeline), partial(original, pipeline, *args, **options))
    try:
        return await run(_queued(pipeline), partial(original, pipeline), nothing=[None] * len(pipeline.command_stack))
    finally:
        if (resetting := pipeline.reset()) is not None:
            await resetting
