"""The running and past replays of the service: progress and findings.

The newest ones are in memory. Ended ones are also in the data directory (`history`), to survive a restart.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.experiments.fork import Edit
from freezeframe_replay.local.administration import note_replay
from freezeframe_replay.process.kept import kept_run, live_run, live_steps
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.process.surroundings import compare_commits
from freezeframe_replay.report.spent import spent_on
from freezeframe_replay.service.history import MAX_KEPT, History
from freezeframe_replay.service.job import NO_TOOLS, Job, RunTools
from freezeframe_replay.web.replay import Noted
from freezeframe_schemas.divergence import Report, Served
from freezeframe_schemas.errors import FixtureError, FreezeframeError, ReplayError, StoreError
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import Run
from freezeframe_schemas.verdict import Verdict, verdict

_logger: Final = logging.getLogger(__name__)


class Jobs:
    """All of them. One runs at a time: each is a process that runs the agent's code. Used in the event loop only."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._noted = {noted.number: noted for noted in history.noted()}
        self._jobs: dict[int, Job] = {}
        self._number = max(self._noted, default=0)
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(
        self,
        fixture: Fixture,
        folder: Path,
        *,
        origin: Fixture | None = None,
        edit: Edit | None = None,
        live: bool = False,
        runs_tools: RunTools = NO_TOOLS,
    ) -> Job:
        """Start a replay as soon as no other runs: of a run, or of the fork that `edit` made of the run `origin`.

        If `live`, model calls without a recorded answer are made for real. The tools `runs_tools` run on the
        recorded calls.
        """
        origin = origin or fixture
        self._number += 1
        job = Job(
            number=self._number,
            run_id=origin.run_id,
            origin=origin,
            fixture=fixture,
            folder=folder,
            started=dt.datetime.now(dt.UTC),
            is_fork=edit is not None,
            edit=edit,
            changed=None if edit is None else edit.step,
            live=live,
            runs_tools=runs_tools,
        )
        self._put(job)
        task = asyncio.get_running_loop().create_task(self._run(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    async def find(self, number: int, load: Callable[[str], Run]) -> Job | None:
        """Return the replay with this number, if it is kept; `load` reads the run of one from before the last restart.

        Raises:
            RunError: its run was deleted, or has changed since.
            FreezeframeError: it cannot be read.
        """
        noted = self._noted.get(number)
        if noted is not None and not self._history.holds(noted):
            self._jobs.pop(number, None)
            del self._noted[number]
        elif noted is not None and number not in self._jobs:
            self._put(await asyncio.to_thread(self._history.open, noted, load))
        return self._jobs.get(number)

    def of_run(self, run_id: str) -> list[Noted]:
        """Return the replays of a run and of its forks, the newest first."""
        found = {**self._noted, **{job.number: job.noted for job in self._jobs.values() if job.number not in self._noted}}
        own = [noted for noted in found.values() if noted.run_id == run_id]
        there = [noted for noted in own if noted.number not in self._noted or self._history.holds(noted)]
        return sorted(there, key=lambda noted: -noted.number)

    async def close(self) -> None:
        """End what runs."""
        for job in self._jobs.values():
            job.cancelled.set()
        await asyncio.gather(*self._tasks)

    def _put(self, job: Job) -> None:
        """Keep a replay in memory, instead of the oldest one."""
        ended = [number for number, item in self._jobs.items() if item.has_ended]
        for number in ended[: max(len(self._jobs) - MAX_KEPT + 1, 0)]:
            del self._jobs[number]
        self._jobs[job.number] = job

    async def _run(self, job: Job) -> None:
        loop = asyncio.get_running_loop()

        def on_look(served: Mapping[int, Served]) -> None:
            if job.cancelled.is_set():
                raise ReplayError("the replay was cancelled")
            if len(served) != job.served:
                loop.call_soon_threadsafe(_move, job, len(served))

        async with self._turn:
            try:
                await asyncio.to_thread(_reenact, job, self._history.keys, on_look)
            except FreezeframeError as error:
                job.error = error
            except Exception:
                _logger.exception("replay %d of run %s: failed", job.number, job.run_id)
                job.error = ReplayError("a fault of freezeframe; the log of the replay service has its stack")
        _move(job, job.served if job.report is None else len(job.report.served))
        if not job.cancelled.is_set():
            await self._keep(job)

    async def _keep(self, job: Job) -> None:
        try:
            await asyncio.to_thread(self._history.keep, job)
        except (OSError, FreezeframeError) as error:
            _logger.error("replay %d of run %s: not kept: %s", job.number, job.run_id, error)
            return
        self._noted[job.number] = job.noted
        if (
            job.report is not None
            and job.edit is None
            and not (job.live or job.runs_tools)
            and verdict(job.report) is Verdict.IDENTICAL
        ):
            try:
                await asyncio.to_thread(note_replay, self._history.home, job.run_id)
            except StoreError as error:
                _logger.error("replay %d of run %s: not noted in the store: %s", job.number, job.run_id, error)


def _move(job: Job, served: int) -> None:
    job.served = served
    moved, job.moved = job.moved, asyncio.Event()
    moved.set()


def _reenact(job: Job, keys: Path, on_look: Callable[[Mapping[int, Served]], None]) -> None:
    """Replay, and note the findings, and the live calls."""
    if job.cancelled.is_set():
        raise ReplayError("the replay was cancelled")
    job.code, _ = compare_commits(job.fixture.environment, job.folder)
    live = frozenset({Kind.MODEL} if job.live else ())
    tools = job.runs_tools
    policy = ReplayPolicy(keep_frames=True, live=live, run_tools=tools.names, run_changed=tools.changed)
    with tempfile.TemporaryDirectory(prefix="freezeframe-") as scratch:
        spans = Path(scratch, "spans.jsonl") if job.live else None
        report = reenact(job.fixture, cwd=job.folder, policy=policy, on_look=on_look, keys=keys, spans=spans)
        if spans is not None and report.live:
            _note_live(job, report, spans, keys)
    job.report = report


def _note_live(job: Job, report: Report, spans: Path, keys: Path) -> None:
    """Note answers and costs of the live calls, and the resulting run if the replay finished."""
    run = live_run(job.fixture, spans)
    made = None if run is None else live_steps(run, report)
    job.made_live = made or {}
    job.spent = None if made is None else spent_on(made.values())
    try:
        job.kept = kept_run(job.fixture, spans, report, keys=keys)
    except FixtureError as error:
        job.not_kept = error.message
