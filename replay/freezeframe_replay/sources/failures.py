"""Failures: what ended runs, in groups of a signature that is the same for similar failures, with a run of each group.

An error after which a run went on is not a cause: errors of calls form separate groups, after the others.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from freezeframe_schemas import genai

_OF_RUNS: Final = (genai.OP_INVOKE_WORKFLOW, genai.OP_INVOKE_AGENT)
_QUERY: Final = f"""
SELECT signature, count() AS failures, uniqExact(trace_id) AS runs, any(service) AS service,
    any(if(handled, kind, 'run')) AS kind, any(if(handled, subject, span_name)) AS subject, any(type) AS type,
    argMax(message, start_time) AS message, argMax(frame, start_time) AS frame, handled, max(start_time) AS last,
    argMax(trace_id, tuple(trace_id IN (SELECT trace_id FROM readiness WHERE NOT cold), start_time)) AS newest
FROM (
    WITH failed AS (SELECT trace_id FROM run_rows FINAL WHERE entry.failed)
    SELECT *, false AS handled FROM (
        SELECT * FROM errors
        WHERE (entry_kind != '' OR parent_span_id = '') AND trace_id IN failed AND {{condition}}
        ORDER BY entry_kind = '', start_time LIMIT 1 BY trace_id
    )
    UNION ALL
    SELECT *, true AS handled FROM errors
    WHERE entry_kind = '' AND kind NOT IN ('span', {", ".join(f"'{name}'" for name in _OF_RUNS)})
        AND trace_id NOT IN failed AND {{condition}}
)
GROUP BY signature, handled ORDER BY handled, runs DESC, failures DESC, signature LIMIT {{limit}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    signature: str
    failures: int
    runs: int
    service: str
    kind: str
    subject: str
    """Entry point; of a handled error, tool or model."""
    type: str
    """Class of the error."""
    message: str
    """The newest one's message."""
    frame: str
    """The program's innermost frame of the newest one: ``shop.py:31 in total``; empty if it is not known."""
    handled: bool
    """True for errors of calls in runs that went on."""
    last: dt.datetime
    newest: str
    """The newest run that can be re-enacted; if none can, the newest."""


class FailureSource(Protocol):
    """The part of `freezeframe_replay.sources.store.RunStore` that is needed."""

    def sql(self, query: str, parameters: Mapping[str, Any] | None = None) -> tuple[list[str], list[Any]]:
        """Return column names and rows."""
        ...


def list_failures(
    store: FailureSource, *, limit: int = 20, since: dt.datetime | None = None, where: str = ""
) -> list[FailureGroup]:
    """Return groups of failures: of those that ended runs, and then of handled ones, those of most runs first.

    Args:
        store: the store to query.
        limit: maximum number of groups.
        since: only failures at or after this time.
        where: a further condition in SQL over the view ``errors``.

    Raises:
        PermanentStoreError: the condition is not valid SQL, or names an unknown column.
    """
    tests = [f"({where})" if where else "1"]
    parameters: dict[str, Any] = {}
    if since is not None:
        tests.append("start_time >= {_since:DateTime64(6)}")
        parameters["_since"] = since
    query = _QUERY.replace("{condition}", " AND ".join(tests)).replace("{limit}", str(int(limit)))
    columns, rows = store.sql(query, parameters)
    return [FailureGroup(**dict(zip(columns, row, strict=True))) for row in rows]
