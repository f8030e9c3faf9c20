"""One page: runs over time, as charts and as a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from freezeframe_replay.report.render import cost, duration
from freezeframe_replay.sources.trend import Moment
from freezeframe_replay.web.markup import render
from freezeframe_replay.web.plots import plots_of
from freezeframe_schemas.tables.run_list import FACETS

_FILTERS: Final = (*FACETS, "status", "words")
"""What the page takes from its address besides the time, as the list does."""


def trends_page(found: Sequence[Moment], filters: Mapping[str, str], *, wrong: str = "") -> str:
    """Return the page; `filters` are those of the address, and `wrong` says what is wrong with one."""
    kept = {name: filters.get(name, "") for name in _FILTERS}
    by_day = bool(found) and found[0].length.days > 0
    shape = "%Y-%m-%d" if by_day else "%Y-%m-%d %H:00"
    names = [item.start.strftime(shape) for item in found]
    places = [item.start for item in found]
    plots = [
        (title, plot)
        for title, words, columns in (
            ("Runs", "{:,.6g}".format, (("runs", "runs"), ("failed", "failed"))),
            ("Time", duration, (("median", "p50_ms"), ("p95", "p95_ms"))),
            ("Known cost", cost, (("cost", "usd"),)),
        )
        for plot in plots_of(places, [(name, [getattr(item, key) for item in found]) for name, key in columns], words)
    ]
    some = [(name, item, _day(item, kept)) for name, item in zip(names, found, strict=True) if item.runs]
    return render(
        "trends.html",
        plots=plots,
        some=some[::-1],
        unit="day" if by_day else "hour",
        since=filters.get("since", ""),
        kept=kept,
        wrong=wrong,
    )


def _day(item: Moment, kept: Mapping[str, str]) -> str:
    return f"/?{urlencode({name: text for name, text in kept.items() if text} | {'day': item.start.strftime('%Y-%m-%d')})}"
