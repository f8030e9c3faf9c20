"""One page: runs over time, as charts and as a table. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from freezeframe_replay.report.render import cost, duration
from freezeframe_replay.sources.trend import Moment
from freezeframe_replay.web.markup import render

_WIDTH: Final = 1000
_HEIGHT: Final = 110
_FILTERS: Final = ("service", "agent", "model", "user", "label", "status", "words")
"""What the page takes from its address besides the time, as the list does."""


def trends_page(found: Sequence[Moment], filters: Mapping[str, str], *, wrong: str = "") -> str:
    """Return the page; `filters` are those of the address, and `wrong` says what is wrong with one."""
    kept = {name: filters.get(name, "") for name in _FILTERS}
    by_day = bool(found) and found[0].length.days > 0
    shape = "%Y-%m-%d" if by_day else "%Y-%m-%d %H:00"
    names = [item.start.strftime(shape) for item in found]
    charts = [
        _chart(found, names, lambda item: (item.runs, item.failed), lambda value: f"{value:,.0f}"),
        _chart(found, names, lambda item: (item.p95_ms, item.p50_ms), duration),
        _chart(found, names, lambda item: (item.usd, 0), cost),
    ]
    some = [(name, item, _day(item, kept)) for name, item in zip(names, found, strict=True) if item.runs]
    return render(
        "trends.html",
        charts=charts,
        some=some[::-1],
        first=names[0] if names else "",
        last=names[-1] if names else "",
        unit="day" if by_day else "hour",
        since=filters.get("since", ""),
        kept=kept,
        wrong=wrong,
    )


def _day(item: Moment, kept: Mapping[str, str]) -> str:
    return f"/?{urlencode({name: text for name, text in kept.items() if text} | {'day': item.start.strftime('%Y-%m-%d')})}"


def _chart(
    found: Sequence[Moment],
    names: Sequence[str],
    pair_of: Callable[[Moment], tuple[float, float]],
    words: Callable[[float], str],
) -> dict[str, object]:
    """Return the bars of a chart: a whole and a part of it, the part in front."""
    pairs = [pair_of(item) for item in found]
    most = max((whole for whole, _ in pairs), default=0)
    width = _WIDTH / max(len(pairs), 1)
    bars = [
        {
            "x": f"{place * width:.1f}",
            "width": f"{max(width - min(2, width / 4), 0.5):.1f}",
            "title": f"{name}: {words(whole)}{f', {words(part)}' if part else ''}",
            "whole": _upright(whole, most),
            "part": _upright(part, most) if part else None,
        }
        for place, (name, (whole, part)) in enumerate(zip(names, pairs, strict=True))
        if whole
    ]
    return {"bars": bars, "most": words(most)}


def _upright(value: float, most: float) -> tuple[str, str]:
    height = max(value / most * _HEIGHT, 1)
    return f"{_HEIGHT - height:.1f}", f"{height:.1f}"
