"""Races: which tasks and futures a program found done, and in what order; in a replay it finds the same.

`wait` and `as_completed`, of asyncio and of `concurrent.futures`, tell a program what has ended by the time they look. That
depends on how many turns of the loop or slices of the scheduler an SDK takes after its answer came, and for futures on their
addresses in memory. So what these four functions gave is noted, and a replay waits for just that.

Readings are kept as for `uuids`: ``race LANE FILE`` holds, for each call, the marks of what was done: of a task or future the
lane that it works in, else its position. From Python 3.13 on `asyncio.as_completed` is left as it is.
"""

from __future__ import annotations

import asyncio
import asyncio.tasks
import concurrent.futures
import functools
import os
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary

from freezeframe._context import Place, current_place
from freezeframe._guard import guard
from freezeframe.seams import _port
from freezeframe.seams.patching import Patches, importers
from freezeframe_schemas.exchange import Lane, format_lane

LANES: Final[WeakKeyDictionary[Any, Lane]] = WeakKeyDictionary()
"""Task or future -> the lane that it works in."""

_Found = tuple[set[Any], set[Any]]


def install(patches: Patches) -> None:
    """Stand in for the four functions, wherever they were imported to."""
    modules: list[tuple[ModuleType, ModuleType, Mapping[str, Callable[[Any], Any]]]] = [
        (asyncio, asyncio.tasks, {"wait": _wrap_wait_in_task, "as_completed": _wrap_as_completed_in_task}),
        (concurrent.futures, concurrent.futures._base, {"wait": _wrap_wait, "as_completed": _wrap_as_completed}),
    ]
    for public, private, wraps in modules:
        originals = {name: getattr(private, name) for name in wraps if hasattr(public, name)}
        if private is asyncio.tasks and sys.version_info >= (3, 13):
            del originals["as_completed"]
        ours = {name: wraps[name](original) for name, original in originals.items()}
        for importer, alias, name in list(importers(originals)):
            patches.replace(importer, alias, lambda _, mine=ours[name]: mine)


class _Race:
    """One call of one of the functions: what the run found, and what is noted of this one."""

    __slots__ = ("_found", "_marks", "_row", "_row_at", "members", "recorded")

    def __init__(self, members: Sequence[Any], *, ordered: bool) -> None:
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
                self._begin(place)

    def _mark(self, ordered: bool) -> None:
        lanes = [LANES.get(member) for member in self.members]
        if ordered or None not in lanes:
            self._marks = {
                member: f"#{number}" if lane is None else format_lane(lane)
                for number, (member, lane) in enumerate(zip(self.members, lanes, strict=True))
            }

    def _begin(self, place: Place) -> None:
        file = os.path.basename(sys._getframe(3).f_code.co_filename)
        feed = f"{'race' if place.run else 'race-outside'} {format_lane(place.lane.path)} {file}"
        responder, recorder = _port.serving(), _port.recorder()
        told = None if responder is None else responder.recall(_port.Feed.READING, feed)
        if told is not None:
            by_mark = {mark: member for member, mark in self._marks.items()}
            marks = told.split()
            if all(mark in by_mark for mark in marks):  # otherwise the program races others than it did
                self.recorded = [by_mark[mark] for mark in marks]
        if recorder is not None:
            self._row = (place.run or recorder.root).note_reading(feed, "")
            self._row_at = len(self._row or ()) - 1

    def note(self, found: Iterable[Any]) -> None:
        """Note that the program found these done, after those before."""
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


# -- tasks --------------------------------------------------------------------------------------------------------------


def _wrap_wait_in_task(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def wait(fs: Any, *, timeout: float | None = None, return_when: str = asyncio.ALL_COMPLETED) -> _Found:
        decided = timeout is None and return_when == asyncio.ALL_COMPLETED
        if decided or _is_off() or not isinstance(fs, (list, tuple, set, frozenset)):
            return await original(fs, timeout=timeout, return_when=return_when)
        race = _Race(list(fs), ordered=isinstance(fs, (list, tuple)))
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
    def as_completed(fs: Any, *, timeout: float | None = None) -> Generator[Any]:
        loop = asyncio._get_running_loop()
        if loop is None or _is_off() or asyncio.isfuture(fs) or asyncio.iscoroutine(fs):
            yield from original(fs, timeout=timeout)
            return
        # Made into tasks in the program's order: the original does it in the order of their addresses.
        race = _Race([asyncio.ensure_future(item, loop=loop) for item in fs], ordered=isinstance(fs, (list, tuple)))
        ends_at = None if timeout is None else loop.time() + timeout
        if race.recorded is None:
            yield from _noted(original(race.members, timeout=timeout), race, ends_at)
            return
        for task in race.recorded:
            race.note((task,))
            yield _result_of(task, ends_at)
        left = [task for task in race.members if task not in race.recorded]
        if left:
            yield from original(left, timeout=None if ends_at is None else max(ends_at - loop.time(), 0))

    return as_completed


def _noted(items: Generator[Any], race: _Race, ends_at: float | None) -> Generator[Any]:
    """Yield what `asyncio.as_completed` does, and note the order in which its tasks end."""

    def note(task: Any) -> None:
        if ends_at is None or task.get_loop().time() < ends_at:
            race.note((task,))

    for number, item in enumerate(items):
        if not number:  # the original has added its callbacks: ours come in the same order (that of a set made as it makes one)
            for task in {task for task in set(race.members)}:  # noqa: C416 - made anew, it may have another order
                task.add_done_callback(note)
        yield item


async def _result_of(task: Any, ends_at: float | None) -> Any:
    left_s = None if ends_at is None else max(ends_at - asyncio.get_running_loop().time(), 0)
    if not task.done():
        await asyncio.tasks._wait((task,), left_s, asyncio.ALL_COMPLETED, asyncio.get_running_loop())  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue] - what `asyncio.wait` calls
    if not task.done():
        raise TimeoutError
    return task.result()


# -- threads ------------------------------------------------------------------------------------------------------------


def _wrap_wait(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def wait(fs: Any, timeout: float | None = None, return_when: str = concurrent.futures.ALL_COMPLETED) -> Any:
        decided = timeout is None and return_when == concurrent.futures.ALL_COMPLETED
        if decided or _is_off() or not isinstance(fs, (list, tuple, set, frozenset)):
            return original(fs, timeout, return_when)
        race = _Race(list(fs), ordered=isinstance(fs, (list, tuple)))
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
        race = _Race(futures, ordered=isinstance(fs, (list, tuple)))
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
