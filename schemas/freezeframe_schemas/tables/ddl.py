"""The store's tables as SQL, generated from the columns.

``python -m freezeframe_schemas.tables.ddl`` prints the first migration, which `sql/0001_tables.sql` holds as a file, so that a
person can read what will run; a test holds that the two agree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import Final

from freezeframe_schemas.tables.columns import PAYLOAD_COLUMNS, REJECTED_COLUMNS, SPAN_COLUMNS, Column

DATABASE: Final = "freezeframe"
"""Default database of readers. Never chDB's ``default``: that one serves files of the host."""

_HEADER: Final = """\
-- Generated from freezeframe_schemas.tables.columns; see tables.ddl. Placeholders are filled in by the migration runner:
-- {db} the database, {on_cluster} '' or ON CLUSTER, {sfx} '' or '_local', {replacing} the engine, {durable} its settings.
"""

_KEY: Final = "PARTITION BY toDate(run_hour)\nORDER BY (tenant, run_hour, trace_id"

_SPAN_TABLE: Final = (
    "    INDEX ix_trace trace_id TYPE bloom_filter(0.001) GRANULARITY 1,\n"
    "    INDEX ix_conversation conversation_id TYPE bloom_filter(0.01) GRANULARITY 1,\n"
    "    INDEX ix_user user_id TYPE bloom_filter(0.01) GRANULARITY 1,\n"
    "    INDEX ix_start start_time TYPE minmax GRANULARITY 1\n"
    f") ENGINE = {{replacing}}\n{_KEY}, start_time, span_id)\n"
    "SETTINGS index_granularity = 1024{durable}\n"
)
_PAYLOAD_TABLE: Final = (
    "    INDEX ix_trace trace_id TYPE bloom_filter(0.001) GRANULARITY 1\n"
    f") ENGINE = {{replacing}}\n{_KEY}, hash)\n"
    "SETTINGS index_granularity = 256{durable}\n"
)
_REJECTED_TABLE: Final = (
    "    INDEX ix_trace trace_id TYPE bloom_filter(0.01) GRANULARITY 1\n"
    ") ENGINE = {merge_tree}\nPARTITION BY toYYYYMM(time)\nORDER BY (tenant, time)\n"
    "SETTINGS index_granularity = 1024{durable}\n"
)


def tables_sql() -> str:
    """Return the first migration: the tables of spans, payloads and rejected spans, hot and kept."""
    return "\n".join(
        (
            _HEADER,
            _create("spans_hot", SPAN_COLUMNS, _SPAN_TABLE, "Spans, one row each; read them through the view spans"),
            _create(
                "payloads_hot",
                PAYLOAD_COLUMNS,
                _PAYLOAD_TABLE,
                "Pieces of large values, each once per run; an attribute is its pieces joined (spans.refs)",
            ),
            _create("rejected_spans", REJECTED_COLUMNS, _REJECTED_TABLE, "Spans that were set aside, with the reason"),
            "CREATE TABLE IF NOT EXISTS {db}.spans_kept{sfx} {on_cluster} AS {db}.spans_hot{sfx};\n",
            "CREATE TABLE IF NOT EXISTS {db}.payloads_kept{sfx} {on_cluster} AS {db}.payloads_hot{sfx};\n",
        )
    )


def _create(table: str, columns: Sequence[Column], tail: str, comment: str) -> str:
    lines = [
        f"    `{column.name}` {column.type} COMMENT {quoted(described(column))} CODEC({column.codec}),\n" for column in columns
    ]
    return (
        f"CREATE TABLE IF NOT EXISTS {{db}}.{table}{{sfx}} {{on_cluster}} (\n{''.join(lines)}{tail}COMMENT {quoted(comment)};\n"
    )


def described(column: Column) -> str:
    """Return the column's comment with its source attribute."""
    return f"{column.comment} [{column.attribute}]" if column.attribute else column.comment


def quoted(text: str) -> str:
    """Return `text` as a SQL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def migrations() -> list[tuple[str, str]]:
    """Return the numbered migrations as (file name, SQL), in order."""
    folder = resources.files("freezeframe_schemas") / "sql"
    names = sorted(item.name for item in folder.iterdir() if item.name[:4].isdigit() and item.name.endswith(".sql"))
    return [(name, (folder / name).read_text(encoding="utf-8")) for name in names]


def checksum(sql: str) -> str:
    """Return the SHA-256 of a migration's text, hex."""
    return hashlib.sha256(sql.encode()).hexdigest()


if __name__ == "__main__":
    print(tables_sql(), end="")
