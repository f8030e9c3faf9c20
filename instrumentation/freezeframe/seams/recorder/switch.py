"""The switch behind every seam: off, recording, or serving a replay.

There is one per process on purpose. A context variable would vanish in threads, and a seam that finds no replay
would go live. A seam checks `serving()` first, then `recorder()`; if both are None, it does nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from freezeframe.context.activity import ACTIVITY
from freezeframe.context.current import current_place
from freezeframe.seams.recorder.recording import Recorder
from freezeframe.seams.recorder.responder import Call, EditRequest, Responder
from freezeframe_schemas.exchange import Exchange, Request

STAND_IN_PROGRAM: Final[tuple[str, ...]] = (sys.executable, "-c", "import sys; sys.stdin.buffer.read()")
"""A program that only waits for the end of its input: a replay starts it in place of a stdio server."""


Answered = Literal["as they are", "in runs", "everywhere"]
"""Scope in which a replay answers calls of databases, reads of files, or `input()`.

None, since the run did not record them; its entry point; or the whole program, which is the run.
"""


@dataclass(slots=True)
class _Switch:
    """The process's one piece of state."""

    recorder: Recorder | None = None
    responder: Responder | None = None
    edit: EditRequest | None = None
    real_time: bool = False
    is_recorded: bool = False
    on_instrument: Callable[[], None] | None = None
    databases: Answered = "as they are"
    files: Answered = "as they are"
    typed: Answered = "as they are"


_switch: Final = _Switch()


def start_serving(
    responder: Responder,
    *,
    edit: EditRequest | None,
    real_time: bool,
    is_recorded: bool,
    on_instrument: Callable[[], None] | None,
    databases: Answered,
    files: Answered,
    typed: Answered,
) -> None:
    """Answer the seams from `responder` (see `freezeframe.seams.serve`)."""
    _switch.databases, _switch.files, _switch.typed = databases, files, typed
    _switch.responder, _switch.edit, _switch.real_time, _switch.is_recorded = responder, edit, real_time, is_recorded
    _switch.on_instrument = on_instrument
    ACTIVITY.serve(True)


def stop_serving() -> None:
    """End the replay: the seams record again, or do nothing."""
    _switch.responder = _switch.edit = _switch.on_instrument = None
    _switch.is_recorded = False
    _switch.databases = _switch.files = _switch.typed = "as they are"
    ACTIVITY.serve(False)


def databases() -> Answered:
    """Return the scope in which the current replay answers calls of databases."""
    return _switch.databases


def files() -> Answered:
    """Return the scope in which the current replay answers reads of files."""
    return _switch.files


def typed() -> Answered:
    """Return the scope in which the current replay answers `input()`."""
    return _switch.typed


def edited(request: Request) -> bytes | None:
    """Return the body that replaces the request's, or None if it stays."""
    return None if _switch.edit is None else _switch.edit(request)


def time_to_take_s(answer: Exchange) -> float:
    """Return the seconds that a function takes before it answers: 0 unless the replay keeps the recorded times."""
    return max(answer.end_time_unix_nano - answer.start_time_unix_nano, 0) / 1e9 if _switch.real_time else 0.0


def is_real_time() -> bool:
    """Return whether the replay keeps the recorded times."""
    return _switch.real_time


async def take_turn(responder: Responder, answer: Exchange) -> None:
    """Let the responder order concurrent answers; it cannot order those of an event loop that is not asyncio's."""
    import asyncio

    if asyncio._get_running_loop() is not None:
        await responder.turn(answer)
    else:
        responder.turn_in_thread(answer)


def instrumented() -> None:
    """Report to a replay that the program turned capture on."""
    if _switch.on_instrument is not None:
        _switch.on_instrument()


def serving() -> Responder | None:
    """Return the responder that answers the seams, or None if no replay is on."""
    return _switch.responder


def recorder() -> Recorder | None:
    """Return the recorder, or None if recording is off (a replay is on and not kept, or `instrument()` was not called)."""
    return None if _switch.responder is not None and not _switch.is_recorded else _switch.recorder


def respond(responder: Responder, call: Call) -> Exchange | None:
    """Return the recorded answer to a call, None if it must be made for real. A recorded replay keeps both.

    Raises:
        ReplayMiss: the recording has no answer.
    """
    answer = responder.respond(call)
    kept_by = None if current_place().run_anew else recorder()
    if answer is not None and kept_by is not None and not responder.runs(answer):
        kept_by.keep(call, answer)
    return answer


def set_recorder(recorder: Recorder | None) -> None:
    """Turn recording on or off."""
    _switch.recorder = recorder
