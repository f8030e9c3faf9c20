"""Python imports this at its start, if `command_costs` starts it: at the end, it writes what this process cost.

Calls of functions or, with ``COUNT_INSTRUCTIONS``, bytecode instructions, those of the functions that only wait for another
process left out. The file is opened at once, since a replay answers later openings itself.
"""

from __future__ import annotations

import atexit
import cProfile
import gc
import json
import os
import sys
from itertools import count

TYPE_CHECKING = False  # a counted process does not import typing for it
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

_FOLDER = os.environ.get("COUNT_PROCESSES_INTO", "")
_WAITING = frozenset({"_wait_until_it_answers"})


def _write(profile: cProfile.Profile, descriptor: int) -> None:
    profile.disable()
    modules = list(sys.modules)  # what follows may import more
    entries = profile.getstats()
    builtins = [entry for entry in entries if isinstance(entry.code, str)]
    found = {
        "command": sys.orig_argv,
        "modules": len(modules),
        "calls": sum(entry.callcount for entry in entries),
        "sleeps": sum(entry.callcount for entry in builtins if entry.code == "<built-in method time.sleep>"),
        "statements": sum(
            entry.callcount
            for entry in entries
            if not isinstance(entry.code, str) and entry.code.co_qualname == "HTTPConnection.putrequest"
        ),
        "names": modules,
    }
    os.write(descriptor, json.dumps(found).encode())


def _count_instructions(descriptor: int, *, at_once: bool) -> None:
    steps = count()
    waiting: list[CodeType] = []

    def stepped(_frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "opcode":
            next(steps)
        return stepped

    def waited(_frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "return":
            waiting.clear()
        return waited

    def called(frame: FrameType, _event: str, _argument: Any) -> Any:
        if waiting:
            return None
        frame.f_trace_lines = False
        if frame.f_code.co_name in _WAITING:
            waiting.append(frame.f_code)
            return waited
        frame.f_trace_opcodes = True
        return stepped

    def write() -> None:
        sys.settrace(None)
        os.write(descriptor, json.dumps({"instructions": next(steps)}).encode())

    atexit.register(write)
    if at_once:
        sys.settrace(called)
    else:
        sys.count_from_here = lambda: sys.settrace(called)  # pyright: ignore[reportAttributeAccessIssue]  # `start_costs` calls it


if _FOLDER:
    gc.disable()  # when it runs depends on what was freed, and it calls finalizers
    _descriptor = os.open(f"{_FOLDER}/{os.getpid()}.json", os.O_WRONLY | os.O_CREAT, 0o600)
    if how := os.environ.get("COUNT_INSTRUCTIONS"):
        if how != "everywhere":  # not in the processes that it starts, which outlive it
            del os.environ["COUNT_INSTRUCTIONS"], os.environ["COUNT_PROCESSES_INTO"]
        _count_instructions(_descriptor, at_once=how != "marked")
    else:
        _profile = cProfile.Profile()
        atexit.register(_write, _profile, _descriptor)
        _profile.enable()
