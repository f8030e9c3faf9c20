"""A flag that is true while anything is recorded: a run is open in some thread, or the process as a whole is one.

Functions called a million times outside of runs check only `ACTIVITY.on`. They may also replace themselves with
the original until the next run: `put_aside`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Final


class ProcessActivity:
    """State of recording in this process, and the work that waits for it."""

    __slots__ = ("_is_by_default", "_lock", "_open", "_resting", "is_process", "is_replay", "marks_runs", "on")

    def __init__(self) -> None:
        self.on = False
        self._open = 0
        """Runs in progress."""
        self.is_process = False
        """The process as a whole is a run."""
        self._is_by_default = False
        self.is_replay = False
        self.marks_runs = False
        """The program marks entry points, so the process as a whole is not a run, unless `root` requires one."""
        self._resting: list[Callable[[], None]] = []
        self._lock = threading.RLock()  # reentrant: a garbage collection may end a run meanwhile

    def after_fork(self) -> None:
        """Make it usable in a newly forked process."""
        self._lock = threading.RLock()

    def begin(self) -> None:
        """A run begins."""
        with self._lock:
            self._open += 1
            self._set()

    def end(self) -> None:
        """Note the end of a run."""
        with self._lock:
            self._open -= 1
            self._set()

    def be_run(self, is_process: bool, *, by_default: bool = False) -> None:
        """Note whether the process as a whole is a run; `by_default`: unless it marks runs."""
        is_process = is_process and not (by_default and self.marks_runs)
        with self._lock:
            self.is_process, self._is_by_default = is_process, by_default
            self._set()

    def serve(self, is_replay: bool) -> None:
        """Note whether a replay is on."""
        with self._lock:
            self.is_replay = is_replay
            self._set()

    def mark(self) -> None:
        """Note that the program marks an entry point."""
        self.marks_runs = True
        if self._is_by_default:
            self.be_run(False)

    def put_aside(self, owner: object, name: str, ours: object, original: object, *, most: int = 0) -> None:
        """Put an original back until the next run begins, unless another library has patched ours.

        Do nothing if more than `most` runs are open: 1 for a function that needs no more data about the present run.
        """
        with self._lock:
            if self._open + self.is_process + self.is_replay <= most and vars(owner).get(name) is ours:
                setattr(owner, name, original)
                self._resting.append(partial(_put_back, owner, name, ours, original))

    def forget(self) -> None:
        """Put nothing back any more."""
        with self._lock:
            self._resting.clear()

    def _set(self) -> None:
        self.on = self._open > 0 or self.is_process or self.is_replay
        while self.on and self._resting:
            self._resting.pop()()


def _put_back(owner: object, name: str, ours: object, original: object) -> None:
    if vars(owner).get(name) is original:
        setattr(owner, name, ours)


ACTIVITY: Final = ProcessActivity()
os.register_at_fork(after_in_child=ACTIVITY.after_fork)
