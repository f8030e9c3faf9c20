"""``docs/tables.md``, generated: ``python -m freezeframe_schemas.tables.reference > docs/tables.md``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from freezeframe_schemas.tables.columns import PAYLOAD_COLUMNS, PIECE_NAME, REJECTED_COLUMNS, RUN_COLUMNS, SPAN_COLUMNS, Column
from freezeframe_schemas.tables.views import views

_TABLES: Final = (
    (
        "span_rows",
        "Spans, one row each. Read them through the view `spans`, which has the same columns, hashes in hex.",
        SPAN_COLUMNS,
    ),
    (
        "piece_rows",
        "Pieces of large values, each once per run. Read them through `payloads` or, joined, `contents`.",
        (*PAYLOAD_COLUMNS, PIECE_NAME),
    ),
    ("run_rows", "What the list of runs needs, gathered as spans come. Read it through `runs`.", RUN_COLUMNS),
    ("rejected_rows", "Spans that were set aside. Read them through `rejected`.", REJECTED_COLUMNS),
)
_VIEW: Final = re.compile(r"VIEW \{db\}\.(\w+)")
_COMMENT: Final = re.compile(r"COMMENT '((?:[^']|'')*)'")
_LEAD: Final = re.compile(r"\A((?:-- [^\n]*\n)+)")


def tables_page() -> str:
    """Return the page: the views, then the tables' columns."""
    lines = [
        "# Tables and views",
        "",
        "Generated from `freezeframe_schemas.tables`; the database itself says the same (`SHOW CREATE TABLE span_rows`).",
        "",
        "## Views: what to ask",
        "",
        "| view | what it holds |",
        "|---|---|",
    ]
    lines += [f"| `{name}` | {text} |" for name, text in map(_described_view, (sql for _, sql in views()))]
    for name, text, columns in _TABLES:
        lines += ["", f"## {name}", "", text, "", *_column_table(columns)]
    return "\n".join(lines) + "\n"


def _described_view(sql: str) -> tuple[str, str]:
    name, comment, lead = _VIEW.search(sql), _COMMENT.search(sql), _LEAD.match(sql)
    assert name is not None
    text = comment[1].replace("''", "'") if comment else lead[1].replace("-- ", "").strip() if lead else ""
    return name[1], text.replace("|", "\\|").replace("\n", " ")


def _column_table(columns: Sequence[Column]) -> list[str]:
    rows = ["| column | type | from | what it is |", "|---|---|---|---|"]
    for column in columns:
        origin = f"`{column.attribute}`" if column.attribute else column.source.value
        rows.append(f"| `{column.name}` | `{column.type}` | {origin} | {column.comment} |")
    return rows


if __name__ == "__main__":
    print(tables_page(), end="")
