"""The descriptions of a view's columns, read from its SQL file for the database and the page of tables.

A file has one SELECT that makes the columns, with one or more lines for each; the description follows the last of them::

    row_number() OVER (...) AS step, -- Place in the run, from 1

A column without one has the description of the table's column of that name. ``*`` is all columns of the table in FROM.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from freezeframe_schemas.tables.columns import SPAN_COLUMNS
from freezeframe_schemas.tables.ddl import TABLES, described, quoted

VIEW_NAME: Final = re.compile(r"VIEW \{db\}\.(\w+)(\{sfx\})?")
_SELECT: Final = r"^{0}SELECT\b(.*?)^{0}FROM "
_OUTER: Final = re.compile(_SELECT.format(""), re.DOTALL | re.MULTILINE)
_INNER: Final = re.compile(_SELECT.format("    "), re.DOTALL | re.MULTILINE)
_ALL: Final = re.compile(r"^\s*(?:\w+\.)?\*(?: EXCEPT \(([\w, ]+)\))?")
_TABLE: Final = re.compile(r"^FROM \{db\}\.(\w+)", re.MULTILINE)
_NAMED: Final = re.compile(r"(?:\bAS|^) ?`?([\w.]+)`?(?=,|$)")
_SPAN_TEXTS: Final = {column.name: described(column) for column in SPAN_COLUMNS}


def view_columns(sql: str) -> dict[str, str]:
    """Return the columns of a view in order, each with its description."""
    select = _OUTER.search(sql)
    if select is None:
        raise ValueError(f"{sql[:60]!r}: found no SELECT at the start of a line, expected one that makes the view's columns")
    return dict(_columns(select[1], sql))


def comments_sql(sql: str) -> str:
    """Return the statement that stores a view's column descriptions in the database; none if they depend on a parameter."""
    name = VIEW_NAME.search(sql)
    if name is None or ":String}" in sql:
        return ""
    comments = ", ".join(f"COMMENT COLUMN `{column}` {quoted(text)}" for column, text in view_columns(sql).items())
    return (
        f"{'' if sql.rstrip().endswith(';') else ';'}\nALTER TABLE {{db}}.{name[1]}{name[2] or ''} {{on_cluster}} {comments};\n"
    )


def _columns(select: str, sql: str) -> Iterator[tuple[str, str]]:
    depth = 0
    for line in select.splitlines():
        made, _, text = line.partition(" -- ")
        if not depth and (every := _ALL.match(made)):
            yield from _all_columns(sql, {name.strip() for name in (every[1] or "").split(",")})
        depth += made.count("(") - made.count(")")
        names = _NAMED.findall(made.strip()) if not depth else []
        for name in names:
            yield name, text if text and name == names[-1] else _SPAN_TEXTS.get(name, "")


def _all_columns(sql: str, left_out: set[str]) -> Iterator[tuple[str, str]]:
    inner = _INNER.search(sql)
    if inner is not None:
        yield from _columns(inner[1], sql)
        return
    table = _TABLE.search(sql)
    assert table is not None
    stored = (column for column in dict(TABLES)[table[1]] if not column.alias and column.name not in left_out)
    yield from ((column.name, described(column)) for column in stored)
