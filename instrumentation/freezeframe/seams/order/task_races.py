"""Races of tasks: `asyncio.wait` and `asyncio.as_completed`, see `races`.

It is imported once the program has imported asyncio.
"""

from __future__ import annotations

import asyncio
import asyncio.tasks
import functools
import inspect
import itertools
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from freezeframe.seams.order.races import Found, Race, caller, is_off, split
from freezeframe.seams.recorder.patching import Patches
from freezeframe_schemas.errors import ReplayMiss


def install(patches: Patches) -> None:
    """Replace the two functions, wherever they were imported to."""
    module = asyncio.tasks
    ours = {"wait": _wrap_wait(module.wait), "as_completed": _wrap_as_completed(module.as_completed)}
    patches.everywhere(module, ours)


def _wrap_wait(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def wait(fs: Any, *, timeout: float | None = None, return_when: str = asyncio.ALL_COMPLETED) -> Found:
        decided = timeout is None and return_when == asyncio.ALL_COMPLETED
        if decided or is_off() or not isinstance(fs, (list, tuple, set, frozenset)):
            return await original(fs, timeout=timeout, return_when=return_when)
        race = Race(list(fs), ordered=isinstance(fs, (list, tuple)), caller=caller())
        done, pending = await original(fs, timeout=timeout, return_when=return_when)
        # After a miss the program has left the recording, and what else was found may never come.
        if race.recorded is not None and not any(_is_missed(task) for task in done):
            late = set(race.recorded) - done
            if late:
                await original(late)
            done, pending = split(race, race.recorded)
        race.note(done)
        return done, pending

    return wait


def _is_missed(task: Any) -> bool:
    return task.done() and not task.cancelled() and isinstance(task.exception(), ReplayMiss)


def _wrap_as_completed(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def as_completed(fs: Any, *, timeout: float | None = None) -> Any:
        if asyncio._get_running_loop() is None or is_off() or inspect.isawaitable(fs):
            return original(fs, timeout=timeout)
        return _AsCompleted(original, fs, timeout, caller())

    return as_completed


class _AsCompleted:
    """Result of `asyncio.as_completed`: coroutines, or from Python 3.13 on in ``async for`` the tasks themselves."""

    def __init__(self, original: Callable[..., Any], fs: Any, timeout: float | None, caller: str) -> None:
        self._original = original
        self._fs = fs
        self._timeout = timeout
        self._caller = caller
        self._race: Race | None = None
        if sys.version_info >= (3, 13):
            self._begin()  # earlier versions were a generator that began with its first item

    def _begin(self) -> Race:
        if self._race is not None:
            return self._race
        loop = asyncio.get_running_loop()
        # Make tasks in the program's order: the original uses the order of their addresses.
        tasks = [asyncio.ensure_future(item, loop=loop) for item in self._fs]
        race = self._race = Race(tasks, ordered=isinstance(self._fs, (list, tuple)), caller=self._caller)
        self._loop = loop
        self._ends_at = None if self._timeout is None else loop.time() + self._timeout
        self._first = deque(race.recorded or ())
        self._rest: Any = None if self._first else self._begin_rest(race.members)
        return race

    def _begin_rest(self, members: Sequence[Any]) -> Any:
        rest = self._original(members, timeout=self._left_s())
        if sys.version_info < (3, 13) and members:
            rest = itertools.chain([next(rest)], rest)  # it adds its callbacks now
        if self._race is not None and self._race.recorded is None:
            # Our callbacks come after the original's, in its order, which is that of a set built from a set.
            for task in {task for task in set(members)}:  # noqa: C416 - built again, it may have another order
                task.add_done_callback(self._note)
        return rest

    def _note(self, task: Any) -> None:
        if self._race is not None and (self._ends_at is None or self._loop.time() < self._ends_at):
            self._race.note((task,))

    def _left_s(self) -> float | None:
        return None if self._ends_at is None else max(self._ends_at - self._loop.time(), 0)

    def _recorded(self) -> Any:
        """Return the task that the run found next; None once all of them have been returned."""
        race = self._begin()
        if self._first:
            task = self._first.popleft()
            race.note((task,))
            return task
        if self._rest is None:
            self._rest = self._begin_rest([task for task in race.members if task not in (race.recorded or ())])
        return None

    def __iter__(self) -> _AsCompleted:
        return self

    def __next__(self) -> Any:
        task = self._recorded()
        return next(self._rest) if task is None else self._result_of(task)

    if sys.version_info >= (3, 13):

        def __aiter__(self) -> _AsCompleted:
            return self

        async def __anext__(self) -> Any:
            task = self._recorded()
            if task is None:
                return await anext(self._rest)
            return await self._until_done(task)

    async def _result_of(self, task: Any) -> Any:
        return (await self._until_done(task)).result()

    async def _until_done(self, task: Any) -> Any:
        if not task.done():
            wait = asyncio.tasks._wait  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue] - as asyncio does
            await wait((task,), self._left_s(), asyncio.ALL_COMPLETED, self._loop)
        if not task.done():
            raise TimeoutError
        return task
