"""The replays that the service has made since it was started: how far the running one is, and what each found.

They are kept in memory only, the newest ones: a report may hold variables of the reader's own code, which no file gets.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from freezeframe_replay.engine.policy import Policy
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.web.replay import Replay
from freezeframe_schemas.divergence import Report, Served
from freezeframe_schemas.errors import FreezeframeError, ReplayError
from freezeframe_schemas.fixture import Fixture

_logger: Final = logging.getLogger(__name__)
_MOST_KEPT: Final = 30


@dataclass(slots=True, kw_only=True)
class Job(Replay):
    """A replay that can be waited for, and ended."""

    cancelled: threading.Event = field(default_factory=threading.Event)
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when something of this has changed; then another one takes its place."""


class Jobs:
    """All of them. One runs at a time: each is a process that runs the agent's code. Used in the event loop only."""

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self._number = 0
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, fixture: Fixture, folder: Path, *, origin: str = "", changed: int | None = None) -> Job:
        """Start a replay of a fixture, which is a fork if `origin` names a run, as soon as no other runs."""
        self._number += 1
        job = Job(
            number=self._number,
            run_id=origin or fixture.run_id,
            fixture=fixture,
            folder=folder,
            started=dt.datetime.now(dt.UTC),
            is_fork=bool(origin),
            changed=changed,
        )
        ended = [number for number, item in self._jobs.items() if item.has_ended]
        for number in ended[: max(len(self._jobs) - _MOST_KEPT + 1, 0)]:
            del self._jobs[number]
        self._jobs[job.number] = job
        task = asyncio.get_running_loop().create_task(self._run(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    def find(self, number: int) -> Job | None:
        """Return the replay with this number, if it is kept."""
        return self._jobs.get(number)

    def of_run(self, run_id: str) -> list[Job]:
        """Return the replays of a run and of its forks, the newest first."""
        return [job for job in reversed(self._jobs.values()) if job.run_id == run_id]

    async def close(self) -> None:
        """End what runs."""
        for job in self._jobs.values():
            job.cancelled.set()
        await asyncio.gather(*self._tasks)

    async def _run(self, job: Job) -> None:
        loop = asyncio.get_running_loop()

        def on_look(served: Mapping[int, Served]) -> None:
            if job.cancelled.is_set():
                raise ReplayError("the replay was cancelled")
            if len(served) != job.served:
                loop.call_soon_threadsafe(_move, job, len(served))

        async with self._turn:
            try:
                job.report = await asyncio.to_thread(_reenact, job, on_look)
            except FreezeframeError as error:
                job.error = error
            except Exception:
                _logger.exception("replay %d of run %s: failed", job.number, job.run_id)
                job.error = ReplayError("a fault of freezeframe; the log of the replay service has its stack")
        _move(job, job.served if job.report is None else len(job.report.served))


def _move(job: Job, served: int) -> None:
    job.served = served
    moved, job.moved = job.moved, asyncio.Event()
    moved.set()


def _reenact(job: Job, on_look: Callable[[Mapping[int, Served]], None]) -> Report:
    if job.cancelled.is_set():
        raise ReplayError("the replay was cancelled")
    return reenact(job.fixture, cwd=job.folder, policy=Policy(keep_frames=True), on_look=on_look)
