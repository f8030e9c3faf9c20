"""``docs/tables.md``, made from the columns and views: ``python tests/support/tables_page.py > docs/tables.md``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from freezeframe_schemas.tables.columns import (
    PAYLOAD_COLUMNS,
    PIECE_NAME,
    REJECTED_COLUMNS,
    SPAN_COLUMNS,
    Column,
)
from freezeframe_schemas.tables.ddl import migrations
from freezeframe_schemas.tables.view_columns import VIEW_NAME, view_columns
from freezeframe_schemas.tables.views import views

_TABLES: Final = (
    (
        "span_rows Spans, one row each. Read them through the view `spans`, which has hashes in hex, and the",
        "columns that are computed.",
        SPAN_COLUMNS,
    ),
    (
        "piece_rows",
        "Pieces of large values, each once per run. Read them through `payloads` or, joined, `contents`.",
        (*PAYLOAD_COLUMNS, PIECE_NAME),
    ),
    ("rejected_rows", "Spans that were set aside. Read them through `rejected`.", REJECTED_COLUMNS),
)
_WHOLE: Final = re.compile(
    r"TABLE IF NOT EXISTS \{db\}\.(\w+) \{on_cluster\} \(\n(.*?)\n\) ENGINE.*?\nCOMMENT '([^']*)'", re.DOTALL
)
"""A table that is whole on each node of a cluster: its columns are only in its migration."""
_WHOLE_COLUMN: Final = re.compile(r"^    (\w+) (.+?)(?: DEFAULT \S+)? COMMENT '([^']*)',?$", re.MULTILINE)
_AS_THEIR_TABLES: Final = ("spans", "payloads", "rejected")
_COMMENT: Final = re.compile(r"COMMENT '((?:[^']|'')*)'")
_LEAD: Final = re.compile(r"\A((?:-- [^\n]*\n)+)")


def tables_page() -> str:
    """Return the page: the views and their columns, then the tables' columns."""
    lines = [
        "# Tables and views",
        "",
        "Generated from `freezeframe_schemas.tables`; `SHOW CREATE TABLE span_rows` has the same comments.",
        "Two tables are not listed, since everything in them is in a view: `run_rows` (read `runs`) and",
        "`call_rows` (read `model_calls`).",
        "",
        "## Views: what to ask",
        "",
        "| view | what it holds |",
        "|---|---|",
    ]
    lines += [f"| `{name}` | {text} |" for name, text in map(_described_view, (sql for _, sql in views()))]
    for name, text, columns in _TABLES:
        lines += ["", f"## {name}", "", text, "", *_column_table(columns)]
    for _, sql in migrations():
        for name, columns, text in _WHOLE.findall(sql):
            lines += ["", f"## {name}", "", f"{text}.", "", "| column | type | what it is |", "|---|---|---|"]
            lines += [f"| `{column}` | `{type_}` | {what} |" for column, type_, what in _WHOLE_COLUMN.findall(columns)]
    lines += ["", "# Columns of the views", "", "`spans`, `payloads` and `rejected` have the columns of their tables, above."]
    for name, columns in ((_described_view(sql)[0], view_columns(sql)) for _, sql in views()):
        if name not in _AS_THEIR_TABLES:
            lines += ["", f"## {name}", "", "| column | what it is |", "|---|---|"]
            lines += [f"| `{column}` | {what} |" for column, what in columns.items()]
    return "\n".join(lines) + "\n"


def _described_view(sql: str) -> tuple[str, str]:
    name, comment, lead = VIEW_NAME.search(sql), _COMMENT.search(sql), _LEAD.match(sql)
    assert name is not None
    text = comment[1].replace("''", "'") if comment else lead[1].replace("-- ", "").strip() if lead else ""
    return name[1], text.replace("|", "\\|").replace("\n", " ")


def _column_table(columns: Sequence[Column]) -> list[str]:
    rows = ["| column | type | from | what it is |", "|---|---|---|---|"]
    for column in columns:
        origin = f"`{column.attribute}`" if column.attribute else column.source.value
        origin += ", computed" if column.alias else ""
        rows.append(f"| `{column.name}` | `{column.type}` | {origin} | {column.comment} |")
    return rows


if __name__ == "__main__":
    print(tables_page(), end="")
