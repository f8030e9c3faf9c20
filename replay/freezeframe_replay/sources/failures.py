"""Failures: errors of the store, grouped by a signature that is the same for similar failures, with a run of each group."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

_QUERY: Final = """
SELECT signature, count() AS failures, uniqExact(trace_id) AS runs, any(service) AS service, any(kind) AS kind,
    any(subject) AS subject, any(type) AS type, argMax(message, start_time) AS message, max(start_time) AS last,
    argMax(trace_id, tuple(trace_id IN (SELECT trace_id FROM readiness WHERE NOT cold), start_time)) AS newest
FROM (SELECT * FROM errors WHERE {condition})
GROUP BY signature ORDER BY runs DESC, failures DESC, signature LIMIT {limit}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """A group of similar failures."""

    signature: str
    failures: int
    runs: int
    service: str
    kind: str
    subject: str
    """Tool or model."""
    type: str
    """Class of the error."""
    message: str
    """The newest one's message."""
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
    """Return groups of failures, those of most runs first.

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
