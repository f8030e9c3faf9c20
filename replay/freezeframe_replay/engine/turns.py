"""Turns: when each recorded answer is due according to the recording, and which ones never come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from freezeframe.seams.http.adapter import recorded_error
from freezeframe_replay.engine.pace import Pace
from freezeframe_schemas.divergence import Divergence, DivergenceKind
from freezeframe_schemas.exchange import Completion, Exchange, Kind, format_lane
from freezeframe_schemas.fixture import Fixture


class Turns:
    """The turns of one replay.

    Args:
        fixture: the recording to answer from.
        real_time: keep the recorded times.
        is_live: some calls are made for real, and take their own time.
        on_time: called with the time of the run whenever it advances.
        on_standstill: returns what a call that the run abandoned raises, if the program waits for it and for nothing else.
    """

    def __init__(
        self,
        fixture: Fixture,
        *,
        real_time: bool,
        is_live: bool,
        on_time: Callable[[int], None],
        on_standstill: Callable[[Exchange], BaseException],
    ) -> None:
        self._start_ns = fixture.entry.start_time_unix_nano
        self._real_time = real_time
        self._on_time = on_time
        self._on_standstill = on_standstill
        start_times = (step.exchange.start_time_unix_nano for step in fixture.askable)
        self._pace = Pace(start_times, start_ns=self._start_ns, on_time=on_time, skips=not (real_time or is_live))
        self.loop_time, self.is_awaited = self._pace.loop_time, self._pace.is_awaited
        self.after_fork = self._pace.after_fork

    def begin(self) -> None:
        """Set the time to the start of the run."""
        self._pace.begin(self._start_ns)

    async def wait(self, answer: Exchange) -> None:
        """Return in a task when the answer is due."""
        if _was_abandoned(answer):
            await self.stay_open(answer)
        elif self._real_time:
            if not answer.request.method:
                await asyncio.sleep((answer.end_time_unix_nano - answer.start_time_unix_nano) / 1e9)
            self._on_time(answer.end_time_unix_nano)
        else:
            await self._pace.wait(_came_ns(answer), answer.start_time_unix_nano)

    def wait_in_thread(self, answer: Exchange) -> None:
        """Return in a thread when the answer is due."""
        if _was_abandoned(answer):
            self._pace.wait_in_thread_for_good(answer.end_time_unix_nano, self._in_vain(answer), answer.start_time_unix_nano)
        elif self._real_time:
            self._on_time(answer.end_time_unix_nano)
        else:
            self._pace.wait_in_thread(_came_ns(answer), answer.start_time_unix_nano)

    def reach(self, now_ns: int) -> None:
        """Note that a piece of an answer is read that came at this time."""
        if self._real_time:
            self._on_time(now_ns)
        else:
            self._pace.reach(now_ns)

    async def stay_open(self, answer: Exchange) -> None:
        """Wait in a task until it is cancelled."""
        await self._pace.wait_for_good(answer.end_time_unix_nano, self._in_vain(answer), answer.start_time_unix_nano)

    def _in_vain(self, answer: Exchange) -> Callable[[], BaseException]:
        return lambda: self._on_standstill(answer)


def still_waited(fixture: Fixture, answer: Exchange) -> Divergence:
    """Describe a call that the run abandoned before it was answered, and the program does not."""
    return Divergence(
        kind=DivergenceKind.STILL_WAITED,
        step=next((step.number for step in fixture.steps if step.exchange.span_id == answer.span_id), None),
        lane=format_lane(answer.lane),
        call_kind=answer.kind.value,
        name=answer.name,
        note="the run abandoned this call before it was answered; the program waits for it, and nothing else can happen",
    )


def _came_ns(answer: Exchange) -> int:
    """Return when an answer came: its first piece if that is known, for HTTP and for databases, whose rows are read later."""
    chunks = answer.response.chunks
    comes_in_pieces = answer.request.method or answer.kind is Kind.DATABASE
    offset_ns = chunks[0].offset_ns if comes_in_pieces and chunks else 0
    return answer.start_time_unix_nano + offset_ns if offset_ns else answer.end_time_unix_nano


def _was_abandoned(answer: Exchange) -> bool:
    """Return whether the run stopped waiting before there was an answer: its task was cancelled, or its process ended."""
    if answer.response.completion is not Completion.NONE:
        return False
    return answer.error is None or isinstance(recorded_error(answer), asyncio.CancelledError)
