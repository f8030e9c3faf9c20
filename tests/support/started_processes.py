"""No process outlives the test that started it, whether the test passes, fails, errs, hangs or is interrupted.

Every process inherits a variable that names the session, the test and its phase; so it is found in ``/proc`` however it was
started, even as a daemon. After each test the processes that it started are ended by their ids, and a test that passed fails if
it left any. What fixtures start may live as long as the session. Once pytest is gone, for whatever reason, a separate reaper
ends what is left. Linux only; elsewhere it does nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

VARIABLE: Final = "TEST_THAT_STARTED_THIS"
_STARTS: Final = frozenset({"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.system", "os.spawn"})
_OF_PYTHON: Final = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
"""Processes that Python keeps for itself until it ends."""
_FAILED: Final = pytest.StashKey[bool]()
_REAPER: Final = """
import os, signal, sys
mark = sys.argv[1].encode()
sys.stdin.buffer.read()  # until pytest is gone
for _ in range(2):  # once more for what was being started meanwhile
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as variables:
                if mark in variables.read() and int(name) != os.getpid():
                    os.kill(int(name), signal.SIGKILL)
        except OSError:
            pass
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A process of this session."""

    pid: int
    command: str
    phase: str
    """``setup`` or ``call``; empty if the process does not say, like a fork."""
    test: str

    def __str__(self) -> str:
        """Return what a person needs to find it."""
        return f"process {self.pid} ({self.command}), started in the {self.phase or 'course'} of {self.test}"


class StartedProcesses:
    """The plugin: it marks what tests start, and ends what they leave."""

    def __init__(self, *, ending_s: float = 20.0) -> None:
        """Make the plugin; `ending_s` is how long a process may take to end by itself before it counts as left running."""
        self._ending_s = ending_s
        self._session = uuid.uuid4().hex
        self._unseen = self._ever = False
        """True if something was started since `_running` was last asked, and at all. Without, no test pays for the question."""
        self._reaper: subprocess.Popen[bytes] | None = None
        self._forks_before: frozenset[int] = frozenset()

    def pytest_sessionstart(self) -> None:
        """Watch for starts of processes, and have a reaper stand by."""
        if sys.platform != "linux":
            return
        mark = f"{VARIABLE}={self._session}:"
        command = [sys.executable, "-I", "-S", "-c", _REAPER, mark]
        self._reaper = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        sys.addaudithook(self._watch)

    def pytest_sessionfinish(self) -> None:
        """Let the reaper end what is left, if anything is."""
        if self._reaper is not None:
            self._reaper.communicate()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Mark what fixtures start."""
        self._mark("setup", item)
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Mark what the test itself starts."""
        if self._unseen:
            self._forks_before = frozenset(one.pid for one in self._running() if not one.phase)
        self._mark("call", item)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Remember whether the test failed."""
        report = yield
        item.stash[_FAILED] = report.failed or item.stash.get(_FAILED, False)
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
        """End what the test left running; after the last one, what fixtures left, too."""
        failed = item.stash.get(_FAILED, False)
        try:
            result = yield
        except BaseException:
            failed = True
            raise
        finally:
            left = self._end_what_is_left(item, last=nextitem is None)
        if left and not failed:
            pytest.fail("left running, and now killed: " + "; ".join(map(str, left)), pytrace=False)
        return result

    def _watch(self, event: str, _: tuple[Any, ...]) -> None:
        if event in _STARTS:
            self._unseen = self._ever = True

    def _mark(self, phase: str, item: pytest.Item) -> None:
        os.environ[VARIABLE] = f"{self._session}:{phase}:{item.nodeid}"

    def _end_what_is_left(self, item: pytest.Item, *, last: bool) -> list[Started]:
        if not (self._ever if last else self._unseen):
            return []

        before = self._forks_before

        def left() -> list[Started]:
            running = self._running()
            self._forks_before = frozenset(one.pid for one in running if not one.phase)
            return running if last else [one for one in running if one.phase != "setup" and one.pid not in before]

        until = time.monotonic() + self._ending_s
        while (found := left()) and not item.stash.get(_FAILED, False) and time.monotonic() < until:
            time.sleep(0.02)
        for one in found:
            try:
                os.kill(one.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        while found and {one.pid for one in found} & {one.pid for one in left()}:
            time.sleep(0.02)
        self._unseen = False
        return found

    def _running(self) -> list[Started]:
        """Return the processes that this session started, and that have not ended."""
        found: list[Started] = []
        mark = f"{VARIABLE}={self._session}:".encode()
        ours = {os.getpid(), self._reaper.pid if self._reaper is not None else 0}
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit() or int(folder.name) in ours:
                continue
            try:
                state, parent = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[:2]
                variables = (folder / "environ").read_bytes().split(b"\0")
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            except OSError:  # it has ended, or belongs to someone else
                continue
            marks = [one for one in variables if one.startswith(mark)]
            if state in "ZX" or not (marks or int(parent) == os.getpid()) or any(name in command for name in _OF_PYTHON):
                continue
            _, phase, test = marks[0].decode(errors="replace").split(":", 2) if marks else ("", "", "a test before this")
            found.append(Started(pid=int(folder.name), command=command[:300], phase=phase, test=test))
        return found
