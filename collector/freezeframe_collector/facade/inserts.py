"""The inserts that are accepted: into the user's own tables, prices and pins, by anyone who has the admin token.

Only the collector writes recorded runs. Values are data: no expression in them is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from freezeframe_collector.facade.protocol import User
from freezeframe_collector.readers.errors import ClickHouseError, from_engine
from freezeframe_collector.store.embedded import insert_rows
from freezeframe_collector.store.engine import quote_identifier
from freezeframe_collector.store.own_rows import as_new

TABLES: Final = frozenset({"prices", "pins"})
FORMATS: Final = frozenset({"Values", "Native", "JSONEachRow", "JSONCompactEachRow", "TabSeparated", "TSV", "CSV", "RowBinary"})

_INSERT: Final = re.compile(
    rb"\s*INSERT\s+INTO\s+(?:TABLE\s+)?(?:(?P<database>`?\w+`?)\s*\.\s*)?`?(?P<table>\w+)`?\s*(?P<columns>\([\w`,\s]*\))?\s*"
    rb"(?:VALUES|FORMAT\s+(?P<format>\w+))(?:[ \t]*\r?\n|[ \t]|(?=\()|\Z)",
    re.IGNORECASE,
)
_IS_INSERT: Final = re.compile(rb"\s*INSERT\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """Rows for one table."""

    table: str
    columns: str
    """As given, in parentheses; empty for all."""
    format: str
    data: bytes


def is_insert(sql: bytes) -> bool:
    """Return whether a statement begins as an INSERT."""
    return _IS_INSERT.match(sql) is not None


def parse_insert(sql: bytes, user: User, database: str) -> Insert:
    """Return the statement as an insert.

    Raises:
        ClickHouseError: the user may not insert, or may not insert this.
    """
    found = _INSERT.match(sql)
    table = found["table"].decode() if found else ""
    named = (found["database"] or b"").decode().strip("`") if found else ""
    if found is None or table not in TABLES or named not in {"", database} or not user.may_insert:
        raise ClickHouseError(
            164,
            "READONLY",
            "Cannot execute query in readonly mode: this endpoint takes INSERT INTO prices or pins, with VALUES or FORMAT, from"
            " the user admin, whose password is the token in the data directory",
        )
    name = (found["format"] or b"Values").decode()
    if name not in FORMATS:
        raise ClickHouseError(73, "UNKNOWN_FORMAT", f"Unknown format {name}; known are {', '.join(sorted(FORMATS))}")
    return Insert(table=table, columns=(found["columns"] or b"").decode(), format=name, data=sql[found.end() :])


def insert(open_handle: Callable[[], Any], database: str, statement: Insert) -> None:
    """Insert the rows.

    Raises:
        ClickHouseError: they are not of the table's types, or the engine met a fault and may not have stored them.
    """
    handle = open_handle()
    try:
        # the same rows again say something new: a run may be pinned, unpinned and pinned
        handle.query(f"SET input_format_values_interpret_expressions = 0, {as_new()}")
        target = f"{quote_identifier(database)}.{quote_identifier(statement.table)} {statement.columns}"
        insert_rows(handle, f"INSERT INTO {target}", statement.format, statement.data)
    except RuntimeError as error:
        raise from_engine(error) from error
    finally:
        handle.close()
