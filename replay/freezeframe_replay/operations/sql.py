"""Query the store, read-only."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from freezeframe_replay.operations.operation import Operation
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.report.answered_rows import csv_text
from freezeframe_schemas.errors import ConfigError

_FORMAT: Final = re.compile(r"\bFORMAT\s+(?!(?:ASC|DESC)\b)(\w+)\s*;?\s*\Z", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SqlParameters:
    query: str
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    """Values of ``{name:Type}`` in it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QueryRows:
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def sql(source: RunSource, parameters: SqlParameters) -> QueryRows:
    """Return the rows.

    Raises:
        ConfigError: the query names a format.
        StoreError: the store does not answer, or refuses the query.
    """
    if named := _FORMAT.search(parameters.query):
        # The driver appends its own format to the query; a second one is a syntax error that explains nothing.
        raise ConfigError(
            f"query: must not end with FORMAT {named[1]}",
            do="leave it out; on the command line, give --format table, json or csv",
        )
    columns, rows = source.use(lambda store: store.sql(parameters.query, parameters.values))
    return QueryRows(columns=columns, rows=rows)


SQL: Final = Operation(
    name="sql",
    parameters=SqlParameters,
    compute=sql,
    to_json=dataclasses.asdict,
    to_text=lambda found, _: csv_text(found.columns, found.rows),
)
