"""Races: the tasks and futures that a program found done, in their order; a replay finds the same.

`wait` and `as_completed`, of asyncio and of `concurrent.futures`, return whatever has ended by then. That
depends on how many turns of the loop or slices of the scheduler an SDK takes after its answer came, and for
futures on their addresses in memory. So the results of these four functions are noted, and a replay waits for
exactly those.

Readings are kept as for `uuids`: ``race LANE FILE`` holds, for each call, the marks of the actions: for a task or future, the
lane that it works in, else its position.
"""

from __future__ import annotations

import concurrent.futures
import functools
import sys
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from freezeframe._guard import guard
from freezeframe.context.current import Place, current_place
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.recorder.readings import feed_of, note, recall
from freezeframe_schemas.exchange import Lane, format_lane

_LANE: Final = "_freezeframe_lane"
_LANES: Final[WeakKeyDictionary[Any, Lane]] = WeakKeyDictionary()
"""The same for objects that accept no attributes."""

Found = tuple[set[Any], set[Any]]


def set_lane(member: Any, lane: Lane) -> None:
    """Note the lane that a task or future works in: as an attribute, which takes a tenth of the time of a weak dictionary."""
    try:
        member._freezeframe_lane = lane
    except AttributeError:
        _LANES[member] = lane


def _lane_of(member: Any) -> Lane | None:
    return getattr(member, _LANE, None) or _LANES.get(member)


def install(patches: Patches) -> None:
    """Replace the two functions of `concurrent.futures`, wherever they were imported to."""
    module = concurrent.futures._base
    ours = {"wait": _wrap_wait(module.wait), "as_completed": _wrap_as_completed(module.as_completed)}
    patches.everywhere(module, ours)


class Race:
    """One call of one of the functions: the tasks that the run found, and those noted in this call."""

    __slots__ = ("_found", "_marks", "_row", "_row_at", "members", "recorded")

    def __init__(self, members: Sequence[Any], *, ordered: bool, caller: str) -> None:
        self.members = list(dict.fromkeys(members))
        self.recorded: list[Any] | None = None
        """The tasks that the run found, in order; None if unknown."""
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
        lanes = [_lane_of(member) for member in self.members]
        if ordered or None not in lanes:
            self._marks = {
                member: f"#{number}" if lane is None else format_lane(lane)
                for number, (member, lane) in enumerate(zip(self.members, lanes, strict=True))
            }

    def _begin(self, place: Place, file: str) -> None:
        feed = feed_of("race", place, file)
        known_order = recall(feed)
        if known_order is not None:
            by_mark = {mark: member for member, mark in self._marks.items()}
            marks = known_order.split()
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


def is_off() -> bool:
    return switch.serving() is None and switch.recorder() is None


def split(race: Race, recorded: Iterable[Any]) -> Found:
    done = set(recorded)
    return done, set(race.members) - done


def caller() -> str:
    """Return the file that calls one of the functions below."""
    return sys._getframe(2).f_code.co_filename


def _wrap_wait(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def wait(fs: Any, timeout: float | None = None, return_when: str = concurrent.futures.ALL_COMPLETED) -> Any:
        decided = timeout is None and return_when == concurrent.futures.ALL_COMPLETED
        if decided or is_off() or not isinstance(fs, (list, tuple, set, frozenset)):
            return original(fs, timeout, return_when)
        race = Race(list(fs), ordered=isinstance(fs, (list, tuple)), caller=caller())
        found = original(fs, timeout, return_when)
        if race.recorded is not None:
            late = set(race.recorded) - found.done
            if late:
                original(late)
            found = type(found)(*split(race, race.recorded))
        race.note(found.done)
        return found

    return wait


def _wrap_as_completed(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def as_completed(fs: Any, timeout: float | None = None) -> Generator[Any]:
        if is_off():
            yield from original(fs, timeout)
            return
        ends_at = None if timeout is None else time.monotonic() + timeout
        futures = list(fs)
        race = Race(futures, ordered=isinstance(fs, (list, tuple)), caller=caller())
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
