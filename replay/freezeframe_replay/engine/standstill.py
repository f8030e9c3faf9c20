"""Where a program is when a replay stops it: the call about to be made, and its own frames with their variables."""

from __future__ import annotations

import inspect
import linecache
import sys
import sysconfig
from pathlib import Path
from types import FrameType
from typing import Final

import freezeframe
import freezeframe_replay
import freezeframe_schemas
from freezeframe.seams import Call
from freezeframe_replay.engine.safe_repr import safe_repr
from freezeframe_schemas.divergence import StackFrame, Stopped
from freezeframe_schemas.exchange import Request
from freezeframe_schemas.fixture import Step

_FRAMES: Final = 8
MAX_KEPT: Final = 2000
"""Maximum number of calls whose frames a replay keeps."""
_MAX_LENGTH: Final = 160
_FOREIGN: Final = tuple(
    dict.fromkeys(
        [
            *(str(Path(package.__file__ or "").parent) for package in (freezeframe, freezeframe_replay, freezeframe_schemas)),
            *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
            "<",
        ]
    )
)
"""Where code is that is not part of the program: ours, installed packages, the standard library, and code without a file."""


def stop_before(step: Step, call: Call) -> Stopped:
    """Return where the program is as it makes the call that the step answers. Called within that call."""
    exchange = step.exchange
    return Stopped(
        step=step.number,
        call_kind=call.kind.value,
        name=call.name,
        request=_body(call.request),
        recorded=_body(exchange.request),
        answer=exchange.error or exchange.response.body.decode(errors="replace"),
        address=_address(call.request),
        recorded_address=_address(exchange.request),
        frames=frames_of_program(),
    )


def _body(request: Request) -> str:
    return request.body.decode(errors="replace")


def _address(request: Request) -> str:
    return f"{request.method} {request.url}" if request.method else ""


def frames_of_program() -> tuple[StackFrame, ...]:
    """Return the running thread's frames that are the program's own code."""
    found: list[StackFrame] = []
    frame: FrameType | None = sys._getframe()
    while frame is not None and len(found) < _FRAMES:
        if is_of_program(frame):
            file = frame.f_code.co_filename
            place = f"{file}:{frame.f_lineno} in {frame.f_code.co_qualname}"
            line = linecache.getline(file, frame.f_lineno, frame.f_globals).strip()[:_MAX_LENGTH]
            found.append(StackFrame(place=place, variables=_variables(frame), line=line))
        frame = frame.f_back
    return tuple(found)


def is_of_program(frame: FrameType) -> bool:
    """Return whether a frame is the program's own code."""
    return not frame.f_code.co_filename.startswith(_FOREIGN)


def _variables(frame: FrameType) -> dict[str, str]:
    found = frame.f_locals
    if type(found) is not dict and not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return {}  # of a class that keeps its body in its own mapping
    named = [(name, value) for name, value in dict(found).items() if type(name) is str and not name.startswith("__")]
    return {name: safe_repr(value, longest=_MAX_LENGTH) for name, value in named}
