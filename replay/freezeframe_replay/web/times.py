"""Numbers of runs by their start, as bars over their list; each bar leads to its day or hour. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from freezeframe_schemas.tables.run_list import MAX_TIMES

HEIGHT: Final = 40
_FORMS: Final = {"day": "%Y-%m-%d", "hour": "%Y-%m-%d %H:00"}
_STEPS: Final = {"day": dt.timedelta(days=1), "hour": dt.timedelta(hours=1)}


def time_bars(times: Mapping[str, Sequence[tuple[str, int, int]]], link: Callable[[str, str], str]) -> dict[str, Any] | None:
    """Return the bars of the hours if these are few enough, else of the days; None if all runs began in the same one.

    `times`: as a page of the list has them; `link`: the address of the list at a day or an hour: its name and its text.
    """
    name = next((name for name in ("hour", "day") if _count(times, name) <= MAX_TIMES), "day")
    found = {_read(text, name): (number, failed) for text, number, failed in times.get(name, ())}
    if len(found) < 2:
        return None
    last, most = max(found), max(number for number, _ in found.values())
    count = min(_count(times, name), MAX_TIMES)
    places = [last - _STEPS[name] * back for back in reversed(range(count))]
    bars = [
        {
            "x": place * 10,
            "height": f"{HEIGHT * number / most:.1f}",
            "failed": f"{HEIGHT * failed / most:.1f}",
            "text": f"{text}: {number:,} run{'s' * (number != 1)}{f', {failed:,} failed' if failed else ''}",
            "link": link(name, text),
        }
        for place, time in enumerate(places)
        if time in found
        for number, failed in [found[time]]
        for text in [time.strftime(_FORMS[name])]
    ]
    return {
        "bars": bars,
        "width": count * 10,
        "first": places[0].strftime(_FORMS[name]),
        "last": bars[-1]["text"],
        "most": most,
    }


def _count(times: Mapping[str, Sequence[tuple[str, int, int]]], name: str) -> int:
    """Return how many days or hours there are from the first to the last."""
    found = [_read(text, name) for text, *_ in times.get(name, ())]
    return (max(found) - min(found)) // _STEPS[name] + 1 if found else 0


def _read(text: str, name: str) -> dt.datetime:
    return dt.datetime.strptime(text, _FORMS[name]).replace(tzinfo=dt.UTC)
