"""The activity of this process's threads: whether any of them runs, and whether one waits for time to pass.

Seen from outside, because a thread that runs in C or waits for a lock reports nothing. On Linux the system says whether each
thread sleeps and how much CPU time it has used; elsewhere a thread rests if its frame stands still.
"""

from __future__ import annotations

import concurrent.futures.thread as pools
import contextlib
import multiprocessing
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping
from enum import Enum, auto
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from freezeframe.seams.order import waits
from freezeframe_replay.engine.standstill import is_of_program

_TASKS: Final = Path("/proc/self/task")
_KNOWS_STATES: Final = sys.platform == "linux" and _TASKS.is_dir()
LOOK_S: Final = 0.0003 if _KNOWS_STATES else 0.02
"""Interval between two checks of a program that may be idle."""
_READY: Final = "R"
_ASLEEP: Final = "SI"
"""The system's state letters of a thread that runs or waits for a processor, and of one that waits for an event.

Others wait for a disk or are stopped: they do not rest, and get no processor either.
"""
_CPU_CLOCK_OF_THREAD: Final = 6
"""The low bits of the id of a thread's CPU clock (``CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED`` in Linux's posix-timers.h)."""

_WAITS: Final[Mapping[CodeType, str]] = {
    code: name
    for code, name in (
        (threading.Condition.wait.__code__, "timeout"),
        (threading.Thread.join.__code__, "timeout"),
        (getattr(getattr(threading.Thread, "_wait_for_tstate_lock", None), "__code__", None), "timeout"),
    )
    if code is not None
}
"""Functions in which a thread waits for another -> their local variable with the timeout."""
_WORKER: Final[CodeType] = pools._worker.__code__  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue] - what an idle worker runs
_OTHER_PROCESSES: Final = (subprocess.__file__, str(Path(multiprocessing.__file__).parent))

Look = Mapping[int, object]
"""Thread -> values that change when it runs."""


def look(apart_from: Collection[int]) -> Look:
    """Return the state of the threads, except for those with these idents."""
    return {thread: _progress(thread) for thread in _native_ids(apart_from)} if _KNOWS_STATES else _frames(apart_from)


class Activity(Enum):
    """Activity of the threads since the last look."""

    RESTED = auto()
    """No thread has run or is about to."""
    PAUSED = auto()
    """A thread has run, and now all of them wait; or the system does not show their state."""
    RAN = auto()
    """A thread runs, or is ready to and waits for a processor."""


def activity_since(seen: Look, apart_from: Collection[int]) -> Activity:
    """Return the activity of the threads since a look."""
    # First whether they sleep, then how far they came: one that ran between the two has moved on. (Reading a file releases the
    # GIL. A thread that was about to run may run then, and sleep again until it gets the GIL back.)
    states = set(map(_state, seen)) if _KNOWS_STATES else set[str]()
    if _READY in states:
        return Activity.RAN
    now = look(apart_from)
    beginning = threading._limbo  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue] - it has no other name
    awake = any(state not in _ASLEEP for state in states)
    if awake or beginning or now.keys() != seen.keys() or any(now[thread] != seen[thread] for thread in now):
        return Activity.PAUSED
    return Activity.RESTED


def watch(pause_s: float, apart_from: Collection[int] = ()) -> tuple[Activity, int]:
    """Return the activity of the threads in a pause, and the part of it that counts, in nanoseconds.

    Their processor time counts, and a pause in which all of them wait, but not the time in which a busy machine
    gives them no processor.
    """
    seen, used_ns = look(apart_from), _used_ns()
    waits.real_sleep(pause_s)
    activity = activity_since(seen, apart_from)
    return activity, _used_ns() - used_ns if activity is Activity.RAN else int(pause_s * 1e9)


def waiting_for_time() -> frozenset[threading.Thread]:
    """Return the threads that wait for something other than answers and threads: a timeout, a process."""
    frames = sys._current_frames()
    return frozenset(thread for ident, thread in _active().items() if ident in frames and _waits_for_time(frames[ident]))


def processes() -> frozenset[int]:
    """Return the processes that this one started and has not waited for; -1 for any if the system does not list them."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (ChildProcessError, AttributeError):
        return frozenset()
    found: set[int] = set()
    for path in _TASKS.glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has just ended
            found.update(map(int, path.read_bytes().split()))
    return frozenset(found or {-1})


def is_selecting(ident: int | None) -> bool:
    """Return whether a thread waits for files in a selector, as an event loop with nothing to run does."""
    frame = sys._current_frames().get(ident or 0)
    return frame is not None and frame.f_code.co_filename == selectors.__file__


def _active() -> dict[int, threading.Thread]:
    known: Any = threading
    return dict(known._active)  # without the lock, which the program may hold


def _used_ns() -> int:
    """Return the processor time of all threads except this one."""
    return time.process_time_ns() - time.thread_time_ns()


def _native_ids(apart_from: Collection[int]) -> list[int]:
    main = threading.main_thread()  # whose `native_id` is still the parent's in a forked process
    threads = [thread for ident, thread in _active().items() if ident not in apart_from]
    natives = [os.getpid() if thread is main else thread.native_id for thread in threads]
    # Python keeps threads that it did not start when they have ended. Others get their ids, even the one that looks.
    own = threading.get_native_id()
    return [native for native in natives if native and native != own]


def _progress(thread: int) -> object:
    try:
        return time.clock_gettime_ns((~thread << 3) | _CPU_CLOCK_OF_THREAD)
    except OSError:  # it has just ended
        return None


def _state(thread: int) -> str:
    try:
        stat = (_TASKS / str(thread) / "stat").read_bytes()
    except OSError:  # it has ended
        return _ASLEEP[0]
    return chr(stat[stat.rindex(b")") + 2])


def _frames(apart_from: Collection[int]) -> Look:
    frames = sys._current_frames()
    return {
        ident: (id(frames[ident]), frames[ident].f_lasti) for ident in _active() if ident in frames and ident not in apart_from
    }


def _waits_for_time(top: FrameType) -> bool:
    waits_untimed = top.f_code in _WAITS and top.f_locals.get(_WAITS[top.f_code]) in (None, -1)
    if waits_untimed or top.f_code is _WORKER or top.f_code.co_filename == selectors.__file__:
        return False
    # A timed wait, a sleep or another process; in the program's code, or submitted by it.
    if not (top.f_code in _WAITS or top.f_code is waits.SLEEP or _stands_in(top, _OTHER_PROCESSES)):
        return False
    frame: FrameType | None = top
    while frame is not None:
        if frame.f_code is _WORKER or is_of_program(frame):
            return True
        frame = frame.f_back
    return False


def _stands_in(frame: FrameType | None, files: tuple[str, ...]) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith(files):
            return True
        frame = frame.f_back
    return False
