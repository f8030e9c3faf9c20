"""One page: a question in SQL, its answer as a table and a chart, the schema, and questions to start from. Pure."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final
from urllib.parse import urlencode

from freezeframe_replay.report.answered_rows import is_number_column
from freezeframe_replay.web.markup import render

MAX_ROWS: Final = 10_000
MAX_SECONDS: Final = 10
_SHOWN: Final = 1000
_MAX_CELL_LENGTH: Final = 300
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_MAX_BARS: Final = 400
_MAX_COLUMNS: Final = 6
_PLAIN_BELOW: Final = 1e15
_RAW: Final = re.compile(r"(_rows|_dict|^otel_|^audit$|^\.)")
"""Tables on which views are built."""

Schema = Sequence[tuple[str, Sequence[tuple[str, str]]]]
"""Each table or view, with its columns: name and type."""

COOKBOOK: Final = {
    "What failed lately": "SELECT start_time, trace_id, name, service, first_error FROM runs\n"
    "WHERE status = 'error' ORDER BY start_time DESC LIMIT 20",
    "Runs and failures per hour": "SELECT toStartOfHour(start_time) AS hour, count() AS runs,\n"
    "    countIf(status = 'error') AS failed FROM runs GROUP BY hour ORDER BY hour",
    "Runs, failures and times per day": "SELECT toDate(start_time) AS day, count() AS runs,\n"
    "    countIf(status = 'error') AS failed, round(quantile(0.5)(ms)) AS median_ms,\n"
    "    round(quantile(0.95)(ms)) AS p95_ms FROM runs GROUP BY day ORDER BY day",
    "Where these words occur": "SELECT trace_id, attribute, snippet FROM search(words = 'order') LIMIT 50",
    "Slowest steps": "SELECT trace_id, step, name, ms FROM exchanges ORDER BY ms DESC LIMIT 20",
    "Tokens and cost per model": "SELECT model, count() AS calls, sum(input_tokens) AS asked,\n"
    "    sum(output_tokens) AS answered, sum(cost_usd) AS usd FROM model_calls GROUP BY model ORDER BY usd DESC",
    "Tools that fail": "SELECT tool, count() AS calls, countIf(status = 'error') AS failed FROM tool_calls\n"
    "GROUP BY tool ORDER BY failed DESC",
    "Why runs cannot be re-enacted": "SELECT cause, uniq(trace_id) AS runs FROM cold_cases GROUP BY cause ORDER BY runs DESC",
    "Labels and notes": "SELECT trace_id, label, note, author, applied_at FROM labels FINAL\n"
    "WHERE label != '' OR note != '' ORDER BY applied_at DESC LIMIT 50",
    "What was redacted, by day, service and class": "SELECT toDate(start_time) AS day, service, class,\n"
    "    uniq(surrogate) AS values, uniq(trace_id) AS runs\n"
    "FROM redactions GROUP BY day, service, class ORDER BY day DESC, service, class",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlAnswer:
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    cut: bool = False
    """True if there are more rows."""
    seconds: float = 0.0
    wrong: str = ""
    """The store's error message for the question."""


def sql_page(query: str, answer: SqlAnswer | None, schema: Schema) -> str:
    rows = [] if answer is None else answer.rows[:_SHOWN]
    views = [(name, columns) for name, columns in schema if not _RAW.search(name)]
    return render(
        "sql.html",
        query=query,
        lines=min(max(query.count("\n") + 2, 4), 24),
        answer=answer,
        numbers=[is_number_column(rows, index) for index in range(len(answer.columns))] if answer is not None else [],
        rows=[[_cell(cell) for cell in row] for row in rows],
        plots=[] if answer is None else plots_of_answer(answer),
        views=views,
        tables=[(name, columns) for name, columns in schema if _RAW.search(name)],
        cookbook={title: (text, f"/sql?{urlencode({'q': text})}") for title, text in COOKBOOK.items()},
        csv_link=f"/sql?{urlencode({'q': query, 'as': 'csv'})}",
        most_rows=MAX_ROWS,
        most_s=MAX_SECONDS,
    )


def plots_of_answer(answer: SqlAnswer) -> list[Plot]:
    """Return the plots of an answer whose columns after the first are a few of numbers, and that has few rows; else none."""
    rows, count = answer.rows, len(answer.columns)
    if not 2 <= len(rows) <= _MAX_BARS or not 2 <= count <= _MAX_COLUMNS or _TRACE_ID.fullmatch(str(rows[0][0])):
        return []
    if not all(is_number_column(rows, index) for index in range(1, count)):
        return []
    columns = [(answer.columns[index], [float(row[index] or 0) for row in rows]) for index in range(1, count)]
    if min(min(values) for _, values in columns) < 0:
        return []
    return plots_of([row[0] for row in rows], columns, _text)


def _cell(cell: Any) -> dict[str, str]:
    text = _text(cell)
    return {
        "text": text[:_MAX_CELL_LENGTH] + (" …" if len(text) > _MAX_CELL_LENGTH else ""),
        "run": text if _TRACE_ID.fullmatch(text) else "",
    }


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:,.0f}" if cell.is_integer() and abs(cell) < _PLAIN_BELOW else f"{cell:,.6g}"
    if isinstance(cell, dt.datetime):
        return cell.isoformat(" ", "seconds")
    return str(cell)


# -- Bars with axes, as SVG that needs no script: columns of numbers over the column before them. Pure -----------------


WIDTH, HEIGHT = 1000, 160
_COLOURS: Final = ("model", "tool", "retrieval", "http")
_FAILED: Final = ("fail", "error", "reject", "wrong")
"""Substring of column names to draw in red."""
_SAME_SCALE: Final = 50
"""Maximum ratio of two columns' largest values for both to share an axis."""
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
    """Labels of the axis at its top, middle and foot."""
    places: Sequence[str]
    """Names below, evenly spread: of each place, or from the first to the last."""
    each: bool
    """True if there is a name for each place."""
    middles: str
    """Horizontal positions of the places, from 0 to `WIDTH`."""

    @property
    def name(self) -> str:
        return ", ".join(name for _, name in self.legend)


def plots_of(places: Sequence[Any], columns: Sequence[tuple[str, Sequence[float]]], words: Words) -> list[Plot]:
    """Return the plots of columns of numbers, none below 0, each with its name, over places: times, numbers or names.

    Columns of very different size have separate plots. A column of zeros has none.
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
    """Return the middle of each place, the width of a place, and whether they are on a scale: times or numbers that grow."""
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
    """Return the labels at even distances from the first place to the last, each a whole number of steps from the first."""
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
