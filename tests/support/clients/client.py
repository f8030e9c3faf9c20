"""A row of the client table: a client library, and one trial for each thing that applications do with it.

A new client is one module in `clients.libraries` with a `CLIENT`. Its functions take a `World` and return what the application
gets; they know nothing of freezeframe (except `World.tool` for libraries without their own tools), and import their library
inside, so that the table can be listed even if the library is not installed.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Any, Final

from clients.provider import OVERLOADED, Turn, cut

import freezeframe
from freezeframe_schemas.gaps import GapKind

CORE: Final = "core"
"""The environment that the tests have anyway; `make test-clients` makes every other one."""


NO_TEAM: Final = "no team was tried"
MARKED: Final = "no seam sees its tools: they are marked with `@freezeframe.tool`"
"""Note of a framework."""
TRACEBACK: Final = "the model is sent the traceback of a tool that fails, which is another one in a replay"


class Column(StrEnum):
    """Uses of a client by applications."""

    SYNC = "sync"
    ASYNC = "async"
    STREAM = "stream"
    TOOLS = "tools"
    ERRORS = "errors"
    RETRY = "retry"
    ABANDONED = "abandoned stream"


class OutOfOrder(Exception):
    """Exception of the application that the failing tool raises."""


class World:
    """Input of a trial: the providers' addresses, and a tool with an effect."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.server = ""
        """Address of the trial's own server, if it has one."""
        self.effects: list[str] = []
        """One line for each time that a tool did its work. A replay adds none."""
        self.out_of_order = False
        """The tool fails."""
        self._kept: list[Any] = []

    def url(self, host: str) -> str:
        """Return the address of a provider. Its name stays in it; the name leads to this machine."""
        return f"http://{host}:{self._port}"

    def keep(self, thing: object) -> None:
        """Hold on to an object until the trial is over."""
        self._kept.append(thing)

    def weather(self, location: str) -> str:
        """Get weather information for a location.

        Args:
            location: the city
        """
        self.effects.append(location)
        if self.out_of_order:
            raise OutOfOrder("the thermometer of", location, {"since": "noon, ünï"})
        return "40 C"

    def tool(self, name: str) -> Callable[..., str]:
        """Return a plain function marked as a tool, as in applications without a framework."""

        def work(**arguments: Any) -> str:
            self.effects.append(f"{name}({arguments})")
            return "40 C"

        return freezeframe.tool(name=name)(work)


def marked(world: World) -> Callable[..., str]:
    """Return the world's weather as a marked tool, for frameworks whose tools no seam sees."""

    @freezeframe.tool
    def weather(location: str) -> str:
        """Get weather information for a location.

        Args:
            location: the city
        """
        return world.weather(location)

    return weather


Use = Callable[[World], Any]
Server = Callable[[World], AbstractContextManager[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One use of a client, and what the provider answers to it."""

    use: Use
    """Gives what the application got; may be a coroutine function."""
    script: tuple[Turn, ...] = ()
    """The provider's answers, in order."""
    server: Server | None = None
    """Runs as long as the use, and gives its address; a replay does without."""
    gaps: frozenset[GapKind] = frozenset()
    """Gaps that every run with this library has; the note of its row names them."""

    @property
    def name(self) -> str:
        """Return the function's name."""
        return self.use.__name__


def trial(use: Use, *script: Turn, server: Server | None = None, gaps: frozenset[GapKind] = frozenset()) -> Trial:
    """Return a trial."""
    return Trial(use=use, script=script, server=server, gaps=gaps)


Trials = Mapping[Column, tuple[Trial, ...] | str]
"""For each column what is tried, or why it cannot be."""


@dataclass(frozen=True, slots=True)
class Client:
    """One row of the table."""

    name: str
    distribution: str
    """The distribution whose version the table names."""
    environment: str = CORE
    requires: tuple[str, ...] = ()
    """Distributions that the environment installs for it."""
    _: KW_ONLY
    trials: Trials
    structure: str = ""
    """Why no team of its agents was tried; empty for a client without agents, or with a team in `clients.teams`."""
    note: str = ""
    """Note for readers of the table."""


def load(module: str) -> Any:
    """Import a client library; its types are not checked here."""
    return importlib.import_module(module)


def with_broken_tool(use: Use) -> Use:
    """Return the same use with a tool that raises; the application catches what the framework lets through."""

    @functools.wraps(use)
    def use_broken(world: World) -> Any:
        world.out_of_order = True
        return outcome_of(lambda: use(world))

    @functools.wraps(use)
    async def use_broken_async(world: World) -> Any:
        world.out_of_order = True
        try:
            return await use(world)
        except Exception as error:
            return [type(error).__name__, str(error)]

    return use_broken_async if inspect.iscoroutinefunction(use) else use_broken


def converse(world: World, messages: list[Any], ask: Callable[[list[Any]], Any]) -> list[Any]:
    """Ask until no tool is asked for, as applications do; return all messages.

    `ask` gives the assistant's message, with `tool_calls` as OpenAI's API has them.
    """
    while True:
        answer = ask(messages)
        messages.append(answer.model_dump(exclude_none=True))
        for call in answer.tool_calls or ():
            found = world.tool(call.function.name)(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": found})
        if not answer.tool_calls:
            return messages


def or_fail(use: Use) -> Use:
    """Return the same use by an application that catches what is raised."""

    @functools.wraps(use)
    def caught(world: World) -> Any:
        return outcome_of(lambda: use(world))

    @functools.wraps(use)
    async def caught_async(world: World) -> Any:
        try:
            return await use(world)
        except Exception as error:
            return [type(error).__name__, str(error)]

    made = caught_async if inspect.iscoroutinefunction(use) else caught
    made.__name__ = f"{use.__name__}_or_fail"
    return made


def failures(complete: Trial, streamed: Trial, refusal: Turn) -> tuple[Trial, ...]:
    """Return the trials of a call that the provider refuses, and of an answer and a stream that are cut."""
    use, stream = or_fail(complete.use), or_fail(streamed.use)
    return trial(use, refusal), trial(use, cut(*complete.script)), trial(stream, cut(*streamed.script))


def usual_trials(
    calls: tuple[Use, Use],
    streams: tuple[Use, ...],
    others: tuple[Use | str, Use],
    recordings: tuple[Turn, Turn, Turn],
    *tools: Trial,
) -> Trials:
    """Return the trials of a provider's own SDK, or of a framework over one.

    Args:
        calls: sync, async.
        streams: sync, async, or the one that there is.
        others: one that retries (or why none does), one that abandons a stream.
        recordings: a simple answer, a stream, a refusal.
        tools: the trials with a tool.
    """
    retry, abandon = others
    simple, stream, refusal = recordings
    return {
        Column.SYNC: (trial(calls[0], simple),),
        Column.ASYNC: (trial(calls[1], simple),),
        Column.STREAM: tuple(trial(use, stream) for use in streams),
        Column.TOOLS: tools,
        Column.ERRORS: failures(trial(calls[0], simple), trial(streams[0], stream), refusal),
        Column.RETRY: retry if isinstance(retry, str) else (trial(retry, OVERLOADED, simple),),
        Column.ABANDONED: (trial(abandon, stream),),
    }


def function_tool(name: str, description: str, parameter: str = "location") -> dict[str, Any]:
    """Return a function of one text in the form of OpenAI's API, which other APIs share."""
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": {parameter: {"type": "string"}}, "required": [parameter]},
        },
    }


def outcome_of(call: Callable[[], Any]) -> Any:
    """Return what a call gives, or class and text of what it raises: the application catches it."""
    try:
        return call()
    except Exception as error:
        return [type(error).__name__, str(error)]
