"""Runs over time: how many there were, how many failed, how long they took and what they cost, by hour or day."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from freezeframe_replay.sources.costs import CALLS
from freezeframe_replay.sources.run_list import RunQuery, conditions_of
from freezeframe_replay.sources.store import RunStore
from freezeframe_schemas.tables.run_list import STATUSES

_HOURS_UP_TO: Final = dt.timedelta(days=3)
"""A longer period is shown by day."""
_MAX_PERIODS: Final = 400
"""Maximum number of hours or days; of a longer period, the newest are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An hour or a day."""

    start: dt.datetime
    length: dt.timedelta
    runs: int = 0
    failed: int = 0
    p50_ms: float = 0.0
    p95_ms: float = 0.0
    usd: float = 0.0
    """Of the calls of models whose cost is known."""
    unknown: int = 0
    """Calls of models whose cost is not known."""


def find_trend(store: RunStore, query: RunQuery, now: dt.datetime) -> Sequence[Moment]:
    """Return each hour or day (UTC) from the start of the query's period to now.

    Raises:
        PermanentStoreError: the store refuses the query.
        RetryableStoreError: the store does not answer.
    """
    since = query.since or now - _HOURS_UP_TO
    length = dt.timedelta(hours=1) if now - since <= _HOURS_UP_TO else dt.timedelta(days=1)
    width = int(length.total_seconds())
    conditions, parameters = conditions_of(query)
    runs = f"SELECT * FROM runs WHERE {conditions} AND ({STATUSES[query.status]})"
    calls = CALLS.replace("{ids:Array(String)}", f"(SELECT trace_id FROM ({runs}))")
    # one statement: each runs in a separate process, and opening the store there takes longer than this
    _, rows = store.sql(
        f"SELECT intDiv(toUnixTimestamp(start_time), {width}) AS part, count(), countIf({STATUSES['failed']}), "
        "quantileExactInclusive(0.5)(ms), quantileExactInclusive(0.95)(ms), sum(paid.usd), sum(paid.unknown) "
        f"FROM ({runs}) AS found "
        f"LEFT JOIN (SELECT trace_id AS run, sumIf(cost_usd, known) AS usd, countIf(NOT known) AS unknown FROM ({calls}) "
        f"GROUP BY run) AS paid ON found.trace_id = paid.run GROUP BY part",
        parameters,
    )
    named = {int(row[0]): row[1:] for row in rows}
    last = int(now.timestamp()) // width
    first = max(int(since.timestamp()) // width, last - _MAX_PERIODS + 1)
    return [_moment(part, length, named.get(part, (0, 0, 0, 0, 0, 0))) for part in range(first, last + 1)]


def _moment(part: int, length: dt.timedelta, found: Sequence[float]) -> Moment:
    runs, failed, p50_ms, p95_ms, usd, unknown = found
    return Moment(
        start=dt.datetime.fromtimestamp(part * length.total_seconds(), dt.UTC),
        length=length,
        runs=int(runs),
        failed=int(failed),
        p50_ms=p50_ms,
        p95_ms=p95_ms,
        usd=usd,
        unknown=int(unknown),
    )
