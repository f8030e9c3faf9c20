"""Gathering: the small requests of one event loop go into the log together.

While the log syncs one group, the requests that come meanwhile become the next: one record, one hand-over to the log's thread
and one back serve all of them. Handing each over by itself costs more than all other work on a request of one span.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import chain
from typing import Final

from freezeframe_collector.batch import Appended, Batch, LogWriter

_GROUP: Final = 1_000
"""The most requests that go together: some 16 MB."""
_Member = tuple[Batch, asyncio.Future[int]]


class Gathering:
    """Takes batches in an event loop, always the same one, and gives each its answer when the log has its group."""

    def __init__(self, log: LogWriter) -> None:
        self._log = log
        self._waiting: list[_Member] = []
        self._is_busy = False

    async def append(self, batch: Batch) -> int:
        """Wait until the batch is on the disk; return the duplicates of its whole group, to the first of the group alone.

        Raises:
            BusyError: the log did not take the group; nothing of it was kept.
        """
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        self._waiting.append((batch, answer))
        if not self._is_busy:
            self._is_busy = True
            loop.call_soon(self._send, loop)  # what the other connections have sent already comes along
        return await answer

    def _send(self, loop: asyncio.AbstractEventLoop) -> None:
        group, self._waiting = self._waiting[:_GROUP], self._waiting[_GROUP:]
        try:
            appended = self._log.submit(_merged([batch for batch, _ in group]))
        except Exception as error:  # each member of the group gets it, as if it had asked alone
            self._answer(loop, group, error)
        else:
            appended.add_done_callback(lambda done: self._call_back(loop, group, done))

    def _call_back(self, loop: asyncio.AbstractEventLoop, group: Sequence[_Member], done: Future[Appended]) -> None:
        """Bring the answer from the log's thread into the loop's."""
        if not loop.is_closed():  # at the end of a service no one is left to receive it
            loop.call_soon_threadsafe(self._answer, loop, group, done.exception() or done.result().duplicate)

    def _answer(self, loop: asyncio.AbstractEventLoop, group: Sequence[_Member], result: int | BaseException) -> None:
        for index, (_, answer) in enumerate(group):
            if answer.done():  # its connection is gone
                continue
            if isinstance(result, int):
                answer.set_result(0 if index else result)
            else:
                answer.set_exception(result)
        self._is_busy = bool(self._waiting)
        if self._is_busy:
            self._send(loop)


def _merged(batches: Sequence[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    return Batch(
        encoded=[*chain.from_iterable(batch.encoded for batch in batches)],
        # all or none: a part of the spans would be taken for all of them
        spans=None if any(batch.spans is None for batch in batches) else [s for batch in batches for s in batch.spans or ()],
        rejected=tuple(chain.from_iterable(batch.rejected for batch in batches)),
        found=tuple(chain.from_iterable(batch.found for batch in batches)),
    )
