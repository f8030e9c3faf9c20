"""``docs/tables.md``, made from the columns and views: ``python tests/support/tables_page.py > docs/tables.md``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from freezeframe_schemas.tables.columns import (
    PAYLOAD_COLUMNS,
    PIECE_NAME,
    REJECTED_COLUMNS,
    SPAN_COLUMNS,
    Column,
)
from freezeframe_schemas.tables.ddl import migrations
from freezeframe_schemas.tables.views import VIEW_NAME, view_columns, views

_TABLES: Final = (
    (
        "span_rows",
        "Spans, one row each. Read them through the view `spans`, which has hashes in hex, and the columns that are computed.",
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
_SHARED: Final = 4
"""A column of so many views is explained once."""
_LACKS: Final = "lacks_"
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
    listed = {_described_view(sql)[0]: view_columns(sql) for _, sql in views()}
    listed = {name: columns for name, columns in listed.items() if name not in _AS_THEIR_TABLES}
    counts = Counter(row for columns in listed.values() for row in columns.items())
    shared = {column: what for (column, what), number in counts.items() if number >= _SHARED}
    lines += ["", "## Columns that views share", "", *_view_table(shared)]
    for name, columns in listed.items():
        own = {column: what for column, what in columns.items() if shared.get(column) != what}
        lines += ["", f"## {name}", "", *_view_table(_folded(own))]
        lines += (
            ["", f"Also: {', '.join(f'`{column}`' for column in columns if column not in own)}."]
            if len(own) < len(columns)
            else []
        )
    return "\n".join(lines) + "\n"


def _view_table(columns: Mapping[str, str]) -> list[str]:
    return ["| column | what it is |", "|---|---|", *(f"| `{column}` | {what} |" for column, what in columns.items())]


def _folded(columns: Mapping[str, str]) -> Mapping[str, str]:
    """Return columns in which those that say of each field of the replay kit how many spans lack it are one row."""
    lacking = [column.removeprefix(_LACKS) for column in columns if column.startswith(_LACKS)]
    kept = {column: what for column, what in columns.items() if not column.startswith(_LACKS)}
    fields = ", ".join(f"`{field}`" for field in lacking)
    return kept | ({f"{_LACKS}FIELD": f"Spans that should carry the field and do not, for each of {fields}"} if lacking else {})


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
