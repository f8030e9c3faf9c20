"""Races: which tasks and futures a program found done, and in what order; a replay finds the same.

`wait` and `as_completed`, of asyncio and of `concurrent.futures`, show a program what has ended by the time they look. That
depends on how many turns of the loop or slices of the scheduler an SDK takes after its answer came, and for futures on their
addresses in memory. So what these four functions returned is noted, and a replay waits for exactly that.

Readings are kept as for `uuids`: ``race LANE FILE`` holds, for each call, the marks of what was done: for a task or future, the
lane that it works in, else its position.
"""

from __future__ import annotations

import asyncio
import asyncio.tasks
import concurrent.futures
import functools
import inspect
import itertools
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary

from freezeframe._context import Place, current_place
from freezeframe._guard import guard
from freezeframe.seams import _port
from freezeframe.seams.patching import Patches, importers
from freezeframe.seams.readings import feed_of, note, recall
from freezeframe_schemas.exchange import Lane, format_lane

LANES: Final[WeakKeyDictionary[Any, Lane]] = WeakKeyDictionary()
"""Task or future -> the lane that it works in."""

_Found = tuple[set[Any], set[Any]]


def install(patches: Patches) -> None:
    """Replace the four functions, wherever they were imported to."""
    modules: list[tuple[ModuleType, ModuleType, Mapping[str, Callable[[Any], Any]]]] = [
        (asyncio, asyncio.tasks, {"wait": _wrap_wait_in_task, "as_completed": _wrap_as_completed_in_task}),
        (concurrent.futures, concurrent.futures._base, {"wait": _wrap_wait, "as_completed": _wrap_as_completed}),
    ]
    for public, private, wraps in modules:
        originals = {name: getattr(private, name) for name in wraps if hasattr(public, name)}
        ours = {name: wraps[name](original) for name, original in originals.items()}
        for importer, alias, name in list(importers(originals)):
            patches.replace(importer, alias, lambda _, mine=ours[name]: mine)


class _Race:
    """One call of one of the functions: what the run found, and what is noted of this call."""

    __slots__ = ("_found", "_marks", "_row", "_row_at", "members", "recorded")

    def __init__(self, members: Sequence[Any], *, ordered: bool, caller: str) -> None:
        self.members = list(dict.fromkeys(members))
        self.recorded: list[Any] | None = None
        """What the run found, in its order; None if nothing is known."""
        self._found: list[str] = []
        self._row: list[str] | None = None
        self._row_at = 0
        self._marks: dict[Any, str] = {}
        place = current_place()
        if place.inside_call or place.sending:
            return
        with guard("races.begin"):
            self._mark(ordered)
            if self._marks:
                self._begin(place, caller)

    def _mark(self, ordered: bool) -> None:
        lanes = [LANES.get(member) for member in self.members]
        if ordered or None not in lanes:
            self._marks = {
                member: f"#{number}" if lane is None else format_lane(lane)
                for number, (member, lane) in enumerate(zip(self.members, lanes, strict=True))
            }

    def _begin(self, place: Place, file: str) -> None:
        feed = feed_of("race", place, file)
        told = recall(feed)
        if told is not None:
            by_mark = {mark: member for member, mark in self._marks.items()}
            marks = told.split()
            if all(mark in by_mark for mark in marks):  # otherwise the program races different ones than recorded
                self.recorded = [by_mark[mark] for mark in marks]
        self._row = note(place, feed, "")
        self._row_at = len(self._row or ()) - 1

    def note(self, found: Iterable[Any]) -> None:
        """Note that the program found these done, after the previous ones."""
        row = self._row
        if row is not None:
            with guard("races.note"):
                self._found += sorted(self._marks[member] for member in found)
                row[self._row_at] = " ".join(self._found)


def _is_off() -> bool:
    return _port.serving() is None and _port.recorder() is None


def _split(race: _Race, recorded: Iterable[Any]) -> _Found:
    done = set(recorded)
    return done, set(race.members) - done


def _caller() -> str:
    """Return the file that calls one of the functions below."""
    return sys._getframe(2).f_code.co_filename


# -- tasks --------------------------------------------------------------------------------------------------------------


def _wrap_wait_in_task(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def wait(fs: Any, *, timeout: float | None = None, return_when: str = asyncio.ALL_COMPLETED) -> _Found:
        decided = timeout is None and return_when == asyncio.ALL_COMPLETED
        if decided or _is_off() or not isinstance(fs, (list, tuple, set, frozenset)):
            return await original(fs, timeout=timeout, return_when=return_when)
        race = _Race(list(fs), ordered=isinstance(fs, (list, tuple)), caller=_caller())
        done, pending = await original(fs, timeout=timeout, return_when=return_when)
        if race.recorded is not None:
            late = set(race.recorded) - done
            if late:
                await original(late)
            done, pending = _split(race, race.recorded)
        race.note(done)
        return done, pending

    return wait


def _wrap_as_completed_in_task(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def as_completed(fs: Any, *, timeout: float | None = None) -> Any:
        if asyncio._get_running_loop() is None or _is_off() or inspect.isawaitable(fs):
            return original(fs, timeout=timeout)
        return _AsCompleted(original, fs, timeout, _caller())

    return as_completed


class _AsCompleted:
    """What `asyncio.as_completed` returns: coroutines, or from Python 3.13 on in ``async for`` the tasks themselves."""

    def __init__(self, original: Callable[..., Any], fs: Any, timeout: float | None, caller: str) -> None:
        self._original = original
        self._fs = fs
        self._timeout = timeout
        self._caller = caller
        self._race: _Race | None = None
        if sys.version_info >= (3, 13):
            self._begin()  # earlier versions were a generator that began with its first item

    def _begin(self) -> _Race:
        if self._race is not None:
            return self._race
        loop = asyncio.get_running_loop()
        # Make tasks in the program's order: the original uses the order of their addresses.
        tasks = [asyncio.ensure_future(item, loop=loop) for item in self._fs]
        race = self._race = _Race(tasks, ordered=isinstance(self._fs, (list, tuple)), caller=self._caller)
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


# -- threads ------------------------------------------------------------------------------------------------------------


def _wrap_wait(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def wait(fs: Any, timeout: float | None = None, return_when: str = concurrent.futures.ALL_COMPLETED) -> Any:
        decided = timeout is None and return_when == concurrent.futures.ALL_COMPLETED
        if decided or _is_off() or not isinstance(fs, (list, tuple, set, frozenset)):
            return original(fs, timeout, return_when)
        race = _Race(list(fs), ordered=isinstance(fs, (list, tuple)), caller=_caller())
        found = original(fs, timeout, return_when)
        if race.recorded is not None:
            late = set(race.recorded) - found.done
            if late:
                original(late)
            found = type(found)(*_split(race, race.recorded))
        race.note(found.done)
        return found

    return wait


def _wrap_as_completed(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def as_completed(fs: Any, timeout: float | None = None) -> Generator[Any]:
        if _is_off():
            yield from original(fs, timeout)
            return
        ends_at = None if timeout is None else time.monotonic() + timeout
        futures = list(fs)
        race = _Race(futures, ordered=isinstance(fs, (list, tuple)), caller=_caller())
        first = race.recorded or []
        for future in first:
            left_s = None if ends_at is None else max(ends_at - time.monotonic(), 0)
            next(original((future,), left_s))
            race.note((future,))
            yield future
        left = [future for future in race.members if future not in first]
        for future in original(left, None if ends_at is None else max(ends_at - time.monotonic(), 0)):
            race.note((future,))
            yield future

    return as_completed
