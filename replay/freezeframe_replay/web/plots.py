"""Bars with axes, as SVG that needs no script: columns of numbers over the column before them. Pure."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

WIDTH, HEIGHT = 1000, 160
_COLOURS: Final = ("model", "tool", "retrieval", "http")
_FAILED: Final = ("fail", "error", "reject", "wrong")
"""What the name of a column of failures holds: it is red."""
_SAME_SCALE: Final = 50
"""How many times larger the largest value of another column may be for both to share an axis."""
_TICKS: Final = 5
_MAX_NAMED: Final = 12
"""Places that each have their name below them."""
Words = Callable[[float], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Columns that share an axis."""

    legend: Sequence[tuple[str, str]]
    """Colour and name of each."""
    bars: Sequence[tuple[str, str, str, str, str, str]]
    """Colour, x, y, width, height, and its content."""
    levels: Sequence[str]
    """What the axis says at its top, in its middle and at its foot."""
    places: Sequence[str]
    """Names below, evenly spread: of each place, or from the first to the last."""
    each: bool
    """True if there is a name for each place."""
    middles: str
    """Where the places are, from 0 to `WIDTH`."""

    @property
    def name(self) -> str:
        """Return the names of the columns."""
        return ", ".join(name for _, name in self.legend)


def plots_of(places: Sequence[Any], columns: Sequence[tuple[str, Sequence[float]]], words: Words) -> list[Plot]:
    """Return the plots of columns of numbers, none below 0, each with its name, over places: times, numbers or names.

    Columns of very different size have plots of their own. None is returned for a column of zeros.
    """
    groups: list[list[tuple[str, Sequence[float]]]] = []
    for column in columns:
        most = max(column[1], default=0)
        if most <= 0:
            continue
        fitting = (group for group in groups if max(_most(group), most) <= _SAME_SCALE * min(_most(group), most))
        if (group := next(fitting, None)) is None:
            groups.append(group := [])
        group.append(column)
    return [_plot(places, group, words) for group in groups]


def _most(group: Sequence[tuple[str, Sequence[float]]]) -> float:
    return max(max(values) for _, values in group)


def _plot(places: Sequence[Any], columns: Sequence[tuple[str, Sequence[float]]], words: Words) -> Plot:
    top = _round_up(_most(columns))
    at, slot, is_scale = _spread(places)
    width = slot * 0.9 / len(columns)
    names = [_name(place) for place in places]
    colours = _colours([name for name, _ in columns])
    bars = [
        (
            colour,
            f"{middle - slot * 0.45 + number * width:.1f}",
            f"{HEIGHT - height:.1f}",
            f"{max(width, 0.8):.1f}",
            f"{height:.1f}",
            f"{place}: {name} {words(value)}",
        )
        for number, (colour, (name, values)) in enumerate(zip(colours, columns, strict=True))
        for middle, place, value in zip(at, names, values, strict=True)
        if (height := max(value / top * HEIGHT, 1) if value else 0)
    ]
    each = not is_scale and len(places) <= _MAX_NAMED
    return Plot(
        legend=[(colour, name) for colour, (name, _) in zip(colours, columns, strict=True)],
        bars=bars,
        levels=[words(top), words(top / 2), words(0)],
        places=names if each else _scale(places) if is_scale else [names[0], names[-1]],
        each=each,
        middles=" ".join(f"{middle:.1f}" for middle in at),
    )


def _colours(names: Sequence[str]) -> list[str]:
    left = iter(_COLOURS * len(names))
    return ["bad" if any(word in name.lower() for word in _FAILED) else next(left) for name in names]


def _round_up(value: float) -> float:
    """Return the next of 1, 2, 5, 10, ... of the value's size."""
    unit = 10 ** math.floor(math.log10(value))
    return next(float(unit * step) for step in (1, 2, 5, 10) if unit * step >= value)


def _spread(places: Sequence[Any]) -> tuple[list[float], float, bool]:
    """Return the middle of each place, how wide a place is, and whether they are on a scale: times or numbers that grow."""
    numbers = [_number(place) for place in places]
    known = [number for number in numbers if number is not None]
    steps = [later - earlier for earlier, later in pairwise(known)]
    if len(known) < len(places) or not steps or min(steps) <= 0:
        slot = WIDTH / len(places)
        return [(number + 0.5) * slot for number in range(len(places))], slot, False
    step = min(steps)
    span = known[-1] - known[0] + step
    slot = max(step / span * WIDTH, WIDTH / 400)
    return [(number - known[0] + step / 2) / span * WIDTH for number in known], slot, True


def _number(place: Any) -> float | None:
    if isinstance(place, dt.datetime):
        return place.timestamp()
    if isinstance(place, dt.date):
        return float(place.toordinal())
    return float(place) if isinstance(place, int | float) and not isinstance(place, bool) else None


def _scale(places: Sequence[Any]) -> list[str]:
    """Return what to say at even distances from the first place to the last, each a whole number of steps from the first."""
    first, last = places[0], places[-1]
    steps = round((last - first) / min(later - earlier for earlier, later in pairwise(places)))
    count = next(count for count in range(min(_TICKS, len(places)), 1, -1) if steps % (count - 1) == 0)
    return [_name(first + (last - first) * number / (count - 1)) for number in range(count)]


def _name(place: Any) -> str:
    if isinstance(place, dt.datetime):
        return place.strftime("%d %b %H:%M").removesuffix(" 00:00")
    if isinstance(place, dt.date):
        return place.strftime("%d %b")
    return f"{place:,.6g}" if isinstance(place, float) else str(place)
