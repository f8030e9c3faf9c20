"""The store's tables as SQL, generated from the columns.

``python -m freezeframe_schemas.tables.ddl`` prints the first migration, which `sql/0001_tables.sql` holds as a file, so that a
person can read what will run; a test holds that the two agree.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from importlib import resources
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.tables.columns import (
    ATTRIBUTE_COLUMNS,
    PAYLOAD_COLUMNS,
    REJECTED_COLUMNS,
    RUN_COLUMNS,
    SPAN_COLUMNS,
    Column,
)

_NAME: Final = re.compile(r"\{([A-Z_]+)\}")
DATABASE: Final = "freezeframe"
"""Default database of readers. Never chDB's ``default``: that one serves files of the host."""

_HEADER: Final = """\
-- Generated from freezeframe_schemas.tables.columns; see tables.ddl. Placeholders are filled in by the migration runner:
-- {db} the database, {on_cluster} '' or ON CLUSTER, {sfx} '' or '_local', {replacing} and {aggregating} the engines,
-- {durable} their settings.
"""

_KEY: Final = "PARTITION BY (kept, toDate(run_hour))\nORDER BY (tenant, run_hour, trace_id"
_TRACE: Final = "    INDEX ix_trace trace_id TYPE bloom_filter(0.001) GRANULARITY 1"
_SPAN_TABLE: Final = (
    f"{_TRACE},\n"
    "    INDEX ix_run run_id TYPE bloom_filter(0.001) GRANULARITY 1,\n"
    "    INDEX ix_conversation conversation_id TYPE bloom_filter(0.01) GRANULARITY 1,\n"
    "    INDEX ix_user user_id TYPE bloom_filter(0.01) GRANULARITY 1,\n"
    "    INDEX ix_start start_time TYPE minmax GRANULARITY 1\n"
    f") ENGINE = {{replacing}}\n{_KEY}, start_time, span_id)\n"
    "SETTINGS index_granularity = 1024{durable}\n"
)
_PAYLOAD_TABLE: Final = f"{_TRACE}\n) ENGINE = {{replacing}}\n{_KEY}, hash)\nSETTINGS index_granularity = 256{{durable}}\n"
_RUN_TABLE: Final = (
    f"{_TRACE},\n"
    "    INDEX ix_run run_id TYPE bloom_filter(0.001) GRANULARITY 1\n"
    f") ENGINE = {{aggregating}}\n{_KEY})\nSETTINGS index_granularity = 1024{{durable}}\n"
)
_REJECTED_TABLE: Final = (
    "    INDEX ix_trace trace_id TYPE bloom_filter(0.01) GRANULARITY 1\n"
    ") ENGINE = {merge_tree}\nPARTITION BY toYYYYMM(time)\nORDER BY (tenant, time)\n"
    "SETTINGS index_granularity = 1024{durable}\n"
)
_TABLES: Final = (
    ("span_rows", SPAN_COLUMNS, _SPAN_TABLE, "Spans, one row each; read them through the view spans"),
    (
        "payload_rows",
        PAYLOAD_COLUMNS,
        _PAYLOAD_TABLE,
        "Pieces of large values, each once per run; an attribute is its pieces joined (spans.refs)",
    ),
    ("run_rows", RUN_COLUMNS, _RUN_TABLE, "What the list of runs needs, gathered as spans come; read it through the view runs"),
    ("rejected_rows", REJECTED_COLUMNS, _REJECTED_TABLE, "Spans that were set aside, with the reason"),
)


def tables_sql() -> str:
    """Return the first migration: the tables, each column with its comment."""
    return "\n".join((_HEADER, *(_create(*table) for table in _TABLES)))


def _create(table: str, columns: Sequence[Column], tail: str, comment: str) -> str:
    lines = [
        f"    `{column.name}` {column.type} COMMENT {quoted(described(column))} {_stored(column)},\n" for column in columns
    ]
    return (
        f"CREATE TABLE IF NOT EXISTS {{db}}.{table}{{sfx}} {{on_cluster}} (\n{''.join(lines)}{tail}COMMENT {quoted(comment)};\n"
    )


def _stored(column: Column) -> str:
    codec = f"CODEC({column.codec})"
    if column.block_bytes is None:
        return codec
    least, most = column.block_bytes, 2 * column.block_bytes
    return f"{codec} SETTINGS (min_compress_block_size = {least}, max_compress_block_size = {most})"


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
    return [(name, with_names((folder / name).read_text(encoding="utf-8"))) for name in names]


def with_names(sql: str) -> str:
    """Fill in attribute names and operations, ``{ERROR_CHAIN}``, from `genai`, so that no SQL file spells one."""

    def value(match: re.Match[str]) -> str:
        if match[1] == "MODEL_OPERATIONS":
            return ", ".join(quoted(name) for name in sorted(genai.MODEL_OPERATIONS))
        if match[1] == "ATTRIBUTE_PAIRS":
            return _attribute_pairs()
        return str(getattr(genai, match[1]))

    return _NAME.sub(value, sql)


def _attribute_pairs() -> str:
    """Return the typed columns as ``'name', text`` pairs for a map of all attributes."""
    pairs: list[str] = []
    for column in ATTRIBUTE_COLUMNS:
        text = f"toString(s.{column.name})"
        if column.type.startswith("Nullable"):
            text = f"ifNull({text}, '')"
        elif column.type.startswith("Array"):
            text = f"if(empty(s.{column.name}), '', {text})"
        pairs.append(f"{quoted(column.attribute)}, {text}")
    return ", ".join(pairs)


def checksum(sql: str) -> str:
    """Return the SHA-256 of a migration's text, hex."""
    return hashlib.sha256(sql.encode()).hexdigest()


if __name__ == "__main__":
    print(tables_sql(), end="")
