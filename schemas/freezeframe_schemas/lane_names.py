"""Names of lanes for people: ``task 2, tools`` for what a recording calls ``1.6.0.1.0``. Pure.

Frameworks start a task for each step of an agent, so one conversation has many lanes. Those that never ran at the same time
share a name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from heapq import heappop, heappush
from typing import Final, TypeVar

from freezeframe_schemas.exchange import Exchange, Kind, Lane, format_lane

ROOT_LANE: Final = "root"
"""Name of the entry point's own lane."""
_WORDS: Final[Mapping[str, str]] = {Kind.TOOL.value: "tools", Kind.MODEL.value: "models"}
_T = TypeVar("_T", bound=Hashable)
_Time = tuple[int, int]


def lane_names(exchanges: Iterable[Exchange]) -> Mapping[str, str]:
    """Return lane, as recordings write it -> name, of all lanes in which a run made calls.

    The first task or thread below the common ones makes the number, and the kind of its calls the rest, if the task has lanes
    of several kinds.
    """
    times: dict[Lane, _Time] = {}
    kinds: dict[Lane, set[str]] = defaultdict(set)
    for exchange in exchanges:
        begin, end = times.get(exchange.lane, (exchange.start_time_unix_nano, exchange.end_time_unix_nano))
        times[exchange.lane] = min(begin, exchange.start_time_unix_nano), max(end, exchange.end_time_unix_nano)
        kinds[exchange.lane].add(exchange.kind.value)
    below = [lane for lane in times if lane]
    at = _shared(below)
    tasks: dict[int, list[Lane]] = defaultdict(list)
    for lane in below:
        tasks[lane[at]].append(lane)
    numbers = _tracks({task: _together(times[lane] for lane in lanes) for task, lanes in tasks.items()})
    by_number: dict[int, list[Lane]] = defaultdict(list)
    for task, lanes in tasks.items():
        by_number[numbers[task]] += lanes
    names = {lane: f"task {number}{rest}" for number, lanes in by_number.items() for lane, rest in _rest(lanes, kinds, times)}
    return {format_lane(lane): names.get(lane, ROOT_LANE) for lane in times}


def _rest(lanes: Iterable[Lane], kinds: Mapping[Lane, set[str]], times: Mapping[Lane, _Time]) -> Iterable[tuple[Lane, str]]:
    """Return the name of each lane of a task within it, with a comma before it."""
    alike: dict[str, list[Lane]] = defaultdict(list)
    for lane in lanes:
        alike[next(iter(kinds[lane])) if len(kinds[lane]) == 1 else ""].append(lane)
    found: dict[Lane, str] = {}
    for kind, those in alike.items():
        words = f", {_WORDS.get(kind, kind)}" if kind else ""
        for lane, number in _tracks({lane: times[lane] for lane in those}).items():
            found[lane] = f"{words} {number}" if number > 1 and kind else f", part {number}" if number > 1 else words
    return found.items() if len(set(found.values())) > 1 else ((lane, "") for lane in found)


def _shared(lanes: Iterable[Lane]) -> int:
    """Return how many numbers at the beginning all lanes have, the last one of each left out."""
    first, last = min(lanes, default=()), max(lanes, default=())
    most = max(min(map(len, lanes), default=0) - 1, 0)
    return next((at for at in range(most) if first[at] != last[at]), most)


def _together(times: Iterable[_Time]) -> _Time:
    begins, ends = zip(*times, strict=True)
    return min(begins), max(ends)


def _tracks(times: Mapping[_T, _Time]) -> Mapping[_T, int]:
    """Return each item -> the first number, from 1, that no item has at the same time."""
    found: dict[_T, int] = {}
    busy: list[_Time] = []
    free: list[int] = []
    for item, (begin, end) in sorted(times.items(), key=lambda pair: pair[1]):
        while busy and busy[0][0] <= begin:
            heappush(free, heappop(busy)[1])
        number = heappop(free) if free else len(busy) + 1
        found[item] = number
        heappush(busy, (end, number))
    return found
