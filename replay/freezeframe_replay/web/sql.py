"""One page: a question in SQL, its answer as a table and a chart, what can be asked for, and questions to start from. Pure."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from freezeframe_replay.report.answered_rows import is_number_column
from freezeframe_replay.web.markup import render
from freezeframe_replay.web.plots import Plot, plots_of

MAX_ROWS: Final = 10_000
MAX_SECONDS: Final = 10
_SHOWN: Final = 1000
_MAX_CELL_LENGTH: Final = 300
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_MAX_BARS: Final = 400
_MAX_COLUMNS: Final = 6
_PLAIN_BELOW: Final = 1e15
_RAW: Final = re.compile(r"(_rows|_dict|^otel_|^audit$|^\.)")
"""Tables that other views are made of."""

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
    "Where these words were said": "SELECT trace_id, attribute, snippet FROM search(words = 'order') LIMIT 50",
    "Slowest steps": "SELECT trace_id, step, name, ms FROM exchanges ORDER BY ms DESC LIMIT 20",
    "Tokens and cost per model": "SELECT model, count() AS calls, sum(input_tokens) AS asked,\n"
    "    sum(output_tokens) AS answered, sum(cost_usd) AS usd FROM model_calls GROUP BY model ORDER BY usd DESC",
    "Tools that fail": "SELECT tool, count() AS calls, countIf(status = 'error') AS failed FROM tool_calls\n"
    "GROUP BY tool ORDER BY failed DESC",
    "Why runs cannot be re-enacted": "SELECT cause, uniq(trace_id) AS runs FROM cold_cases GROUP BY cause ORDER BY runs DESC",
    "Labels and notes": "SELECT trace_id, label, note, author, applied_at FROM labels FINAL\n"
    "WHERE label != '' OR note != '' ORDER BY applied_at DESC LIMIT 50",
    "What was redacted, by day and class": "SELECT toDate(start_time) AS day, class, uniq(surrogate) AS values\n"
    "FROM redactions GROUP BY day, class ORDER BY day, class",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlAnswer:
    """Answer of the store."""

    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    cut: bool = False
    """True if there are more rows."""
    seconds: float = 0.0
    wrong: str = ""
    """What the store says is wrong with the question."""


def sql_page(query: str, answer: SqlAnswer | None, schema: Schema) -> str:
    """Return the page."""
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
