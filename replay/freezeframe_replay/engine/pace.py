"""Pace: recorded answers reach concurrent tasks in the order in which they came, at full speed.

A recording that is answered at once lets the event loop decide which of several tasks goes on first, and code that races them
(``FIRST_COMPLETED``, ``as_completed``) may take another way than the run did. Here an answer is parked until the loop has
nothing else to run; then the earliest is released, with those that came before anything else was asked.

Why with those: answers reach tasks on the loop's one thread, and so does the code that goes on with them. Had that code run
between two answers, it would have asked its next question between them. Where it asked nothing, both were there when it ran
(under load, answers many milliseconds apart are).
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import weakref
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, Final

_QUIET_TURNS: Final = 3
"""Turns of the loop without anything ready, before the next answer is released."""
_THREAD_GRACE_S: Final = 0.0005
"""Pause in which executor threads can hand their results back to the loop."""


class Pace:
    """The parked answers of each event loop.

    Args:
        asked_ns: when each call of the run was made.
    """

    def __init__(self, asked_ns: Iterable[int] = ()) -> None:
        self._asked_ns = sorted(asked_ns)
        self._parked: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Parked] = weakref.WeakKeyDictionary()

    async def wait(self, recorded_ns: int) -> None:
        """Return when it is this answer's turn. `recorded_ns`: when it came in the run, by the clock of `asked_ns`."""
        loop = asyncio.get_running_loop()
        parked = self._parked.get(loop)
        if parked is None:
            parked = self._parked[loop] = _Parked()
        await parked.park(loop, bisect_right(self._asked_ns, recorded_ns), recorded_ns)


class _Parked:
    """The answers parked on one loop, and the task that releases them."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, asyncio.Future[None]]] = []
        """(calls made before it came, when it came, order of parking, its turn)"""
        self._count = itertools.count()
        self._pump: asyncio.Task[None] | None = None

    async def park(self, loop: asyncio.AbstractEventLoop, group: int, recorded_ns: int) -> None:
        turn: asyncio.Future[None] = loop.create_future()
        heapq.heappush(self._heap, (group, recorded_ns, next(self._count), turn))
        if self._pump is None or self._pump.done():
            # Made by the class itself, so that lane bookkeeping (which wraps create_task) never counts it.
            self._pump = asyncio.Task(self._release_all(loop), loop=loop)
        await turn

    async def _release_all(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._heap:
            await _quiet(loop)
            group = self._heap[0][0] if self._heap else None
            while self._heap and self._heap[0][0] == group:
                turn = heapq.heappop(self._heap)[-1]
                if not turn.done():
                    turn.set_result(None)


async def _quiet(loop: Any) -> None:
    """Return once the loop has had nothing but us to run for a few turns."""
    quiet = 0
    while quiet < _QUIET_TURNS:
        await asyncio.sleep(0)
        ready = getattr(loop, "_ready", ())  # a loop that hides it (uvloop) gets the turns without the look
        if len(ready) == 0:
            quiet += 1
            if quiet == _QUIET_TURNS - 1:
                await asyncio.sleep(_THREAD_GRACE_S)
        else:
            quiet = 0
