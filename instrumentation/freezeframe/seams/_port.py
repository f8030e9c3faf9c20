"""The switch behind every seam: off, recording, or serving a replay.

It is one per process on purpose. A context variable would vanish in threads, and a seam that finds nothing would go live.
A seam asks `serving()` first, then `recorder()`; if both are None it is not there.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

from freezeframe_schemas import exchange
from freezeframe_schemas.exchange import Exchange, Kind, Request

if TYPE_CHECKING:
    from freezeframe.seams.recording import Recorder


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request that the application makes at a seam while a replay is served."""

    kind: Kind
    name: str
    """Tool, retriever or MCP method; ``POST /v1/chat/completions`` for HTTP."""
    seam: str
    request: Request
    dialect: str | None = None
    provider: str | None = None
    lane: exchange.Lane = ()
    sequence: int = 0
    call_id: str | None = None


class Feed(StrEnum):
    """What a program takes from its surroundings besides calls."""

    READING = "reading"
    """The next of a row of readings, such as the UUIDs of one lane and file."""
    FLAG = "flag"
    """The value of a feature flag, as tagged JSON, by its key."""


class Responder(Protocol):
    """What answers for the world in a replay. Called from any thread."""

    def respond(self, call: Call) -> Exchange | None:
        """Return the recorded exchange that answers `call`, or None if it is to be made for real.

        Raises:
            ReplayMiss: the recording holds no answer.
        """
        ...

    def recall(self, feed: Feed, key: str) -> str | None:
        """Return what the run was given there, or None if nothing was recorded (any more)."""
        ...

    async def turn(self, answer: Exchange) -> None:
        """Wait in a task until it is this answer's turn; for good, if the run gave the call up before it was answered."""
        ...

    def turn_in_thread(self, answer: Exchange) -> None:
        """Wait for the same in a seam that blocks its thread."""
        ...

    async def stay_open(self, answer: Exchange) -> None:
        """Wait in a task that has read all of a stream which the run gave up, until it gives it up again."""
        ...

    def loop_time(self, loop: Any) -> float | None:
        """Return the time of an event loop in seconds, None for its own."""
        ...

    def enter(self, target: str, input_json: str) -> None:
        """Hear that an entry point starts, with its input as tagged JSON."""
        ...

    def leave(self, output_json: str | None, error_json: str | None) -> None:
        """Hear that it ended, with its output or its exception as tagged JSON."""
        ...


EditRequest = Callable[[Request], bytes | None]
"""Gives the body that goes out in place of a request's, or None if it stays."""


STAND_IN_PROGRAM: Final[tuple[str, ...]] = (sys.executable, "-c", "import sys; sys.stdin.buffer.read()")
"""What a replay starts where the run started a server to talk to over stdio: a program that only waits for its input's end."""


class _Switch:
    """The process's one piece of state."""

    __slots__ = ("edit", "is_recorded", "on_instrument", "real_time", "recorder", "responder")

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.responder: Responder | None = None
        self.edit: EditRequest | None = None
        self.real_time = False
        self.is_recorded = False
        self.on_instrument: Callable[[], None] | None = None


_switch: Final = _Switch()


def serve(
    responder: Responder,
    *,
    edit: EditRequest | None = None,
    real_time: bool = False,
    is_recorded: bool = False,
    on_instrument: Callable[[], None] | None = None,
) -> None:
    """Answer every seam of this process from `responder`, from now on. Installs the seams where they are not.

    `edit` changes HTTP requests before they are looked up or sent. With `real_time` functions take as long as they took, and
    chunks of httpx come when they came, counted from the call. A replay that `is_recorded` is its own run: each call is
    recorded with what it was served, or with what a live one came to. `on_instrument` is called where the program itself turns
    capture on: there its recording began.
    """
    from freezeframe import seams

    _switch.responder, _switch.edit, _switch.real_time, _switch.is_recorded = responder, edit, real_time, is_recorded
    _switch.on_instrument = on_instrument
    seams.install()
    seams.install_waits()


def stop_serving() -> None:
    """End the replay: the seams record again, or do nothing."""
    _switch.responder = _switch.edit = _switch.on_instrument = None
    _switch.is_recorded = False


def edited(request: Request) -> bytes | None:
    """Return the body that goes out in place of the request's, or None if it stays."""
    return None if _switch.edit is None else _switch.edit(request)


def time_to_take_s(answer: Exchange) -> float:
    """Return the seconds that a function takes before it answers: none, unless the replay keeps the recorded times."""
    return max(answer.end_time_unix_nano - answer.start_time_unix_nano, 0) / 1e9 if _switch.real_time else 0.0


def is_real_time() -> bool:
    """Return whether the replay keeps the recorded times."""
    return _switch.real_time


async def take_turn(responder: Responder, answer: Exchange) -> None:
    """Let the responder order concurrent answers; it cannot order those of an event loop that is not asyncio's."""
    if asyncio._get_running_loop() is not None:
        await responder.turn(answer)
    else:
        responder.turn_in_thread(answer)


def instrumented() -> None:
    """Tell a replay that the program turned capture on."""
    if _switch.on_instrument is not None:
        _switch.on_instrument()


def serving() -> Responder | None:
    """Return what answers the seams, or None if no replay is on."""
    return _switch.responder


def recorder() -> Recorder | None:
    """Return what records, or None if nothing does (a replay is on that no one keeps, or `instrument()` was not called)."""
    return None if _switch.responder is not None and not _switch.is_recorded else _switch.recorder


def respond(responder: Responder, call: Call) -> Exchange | None:
    """Return the recorded answer to a call, None if it is to be made for real. A replay that is recorded keeps both.

    Raises:
        ReplayMiss: there is none.
    """
    answer = responder.respond(call)
    kept_by = recorder()
    if answer is not None and kept_by is not None:
        kept_by.keep(call, answer)
    return answer


def set_recorder(recorder: Recorder | None) -> None:
    """Turn recording on or off."""
    _switch.recorder = recorder
