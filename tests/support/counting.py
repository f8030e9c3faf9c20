"""Counts of work that no load of the machine changes: functions called, bytecode instructions, passes over texts.

`Count` counts while it is on, in one thread or in those that start later, too. With `own`, it counts the work of code in
these folders, and of the standard library for it: a foreign library that it calls, or that calls it, is left out.
A coroutine that waits is resumed as often as the network has it, so resuming is not counted.
"""

from __future__ import annotations

import dis
import gc
import inspect
import sys
import sysconfig
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, Final

FIGURES: Final = ("calls", "instructions", "passes", "sleeps")
_STANDARD: Final = (sysconfig.get_path("stdlib"), "<frozen", "<string>")
_FOREIGN: Final = ("/site-packages/", "/asyncio/")
_PASSES: Final = frozenset(
    "loads dumps raw_decode iterencode encode decode search match fullmatch finditer findall sub subn split splitlines "
    "compress decompress update sha256 blake2b translate replace join scan crc32".split()
)
"""Functions that go over a whole text. A second reading of a body is one call among thousands, but one of few of these."""
_OF_WAITING: Final = frozenset(
    dis.opmap[name]
    for name in ("YIELD_VALUE", "RESUME", "SEND", "JUMP_BACKWARD_NO_INTERRUPT", "ASYNC_GEN_WRAP", "RETURN_GENERATOR")
    if name in dis.opmap
)
_RESUMABLE: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Count:
    """Figures of what happened while it was on; see the module."""

    def __init__(self, own: tuple[str, ...] = ()) -> None:
        self._own = own
        self._owners: dict[CodeType, bool | None] = {}
        self._mode = ""
        self._calls: Counter[str] = Counter()
        self._instructions = 0
        self._state = threading.local()

    def _owner(self, code: CodeType) -> bool | None:
        """Return whether a function counts; None if it does when its caller does."""
        try:
            return self._owners[code]
        except KeyError:
            pass
        file = code.co_filename
        found: bool | None = False
        if not self._own or any(folder in file for folder in self._own):
            found = True
        elif file.startswith(_STANDARD) and not any(part in file for part in _FOREIGN):
            found = None
        self._owners[code] = found
        return found

    def _stack(self) -> list[bool]:
        try:
            return self._state.stack
        except AttributeError:
            self._state.stack = stack = [not self._own]
            return stack

    def _profiled(self, frame: FrameType, event: str, argument: Any) -> None:
        if self._mode != "calls":
            return
        stack = self._stack()
        if event == "call":
            owner = self._owner(frame.f_code)
            stack.append(stack[-1] if owner is None else owner)
            is_resumed = frame.f_code.co_flags & _RESUMABLE and frame.f_lasti > 0
            if stack[-1] and not is_resumed:
                self._calls[frame.f_code.co_qualname] += 1
        elif event == "return":
            if len(stack) > 1:
                stack.pop()
        elif event == "c_call" and stack[-1]:
            self._calls[getattr(argument, "__name__", "?")] += 1

    def _traced(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if self._mode != "instructions" or event != "call":
            return None
        owner = self._owner(frame.f_code)
        back = frame
        while owner is None and back.f_back is not None:
            back = back.f_back
            owner = self._owner(back.f_code)
        if not (not self._own if owner is None else owner):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._stepped

    def _stepped(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "opcode" and self._mode == "instructions" and frame.f_code.co_code[frame.f_lasti] not in _OF_WAITING:
            self._instructions += 1
        return self._stepped

    def watch_new_threads(self) -> None:
        """Count in threads that start from here on, too."""
        threading.setprofile(self._profiled)
        threading.settrace(self._traced)

    @contextmanager
    def on(self, mode: str, *, here: bool = True) -> Generator[None]:
        """Count ``calls`` or ``instructions`` in this block, in this thread unless not `here`."""
        if here:
            (sys.setprofile if mode == "calls" else sys.settrace)(self._profiled if mode == "calls" else self._traced)
        self._mode = mode
        try:
            yield
        finally:
            self._mode = ""
            if here:
                sys.setprofile(None)
                sys.settrace(None)

    def take(self) -> dict[str, int]:
        """Return the figures so far, and begin again."""
        calls, self._calls = self._calls, Counter()
        instructions, self._instructions = self._instructions, 0
        self.last = calls
        return {
            "calls": sum(calls.values()),
            "instructions": instructions,
            "passes": sum(number for name, number in calls.items() if name.rpartition(".")[2] in _PASSES),
            "sleeps": calls["sleep"],
        }


def least(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    """Return the smaller of each figure: a cache that fills, or a buffer that splits, only ever adds."""
    return {name: min(number, other[name]) for name, number in one.items()}


def counted(act: Callable[[], object], *, own: tuple[str, ...] = (), rounds: int = 2, per: int = 1) -> dict[str, int]:
    """Return the figures of an act, for each of the `per` things that it does."""
    count = Count(own)
    found: dict[str, int] = {}
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for mode in ("calls", "instructions"):
                with count.on(mode):
                    act()
            figures = count.take()
            found = least(found, figures) if found else figures
    finally:
        gc.enable()
    return {name: round(number / per) for name, number in found.items()}
