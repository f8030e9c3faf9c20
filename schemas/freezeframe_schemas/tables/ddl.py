"""The store's migrations: SQL files, with names filled in from where each is defined.

The files are what was and will be run; `columns` says what they lead to, and a test holds that a migrated database has exactly
those columns, types and comments (``tests/store/test_views.py``).
"""

from __future__ import annotations

import hashlib
import re
from importlib import resources
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.lifecycle import RunStatus, status_sql
from freezeframe_schemas.tables.columns import (
    ATTRIBUTE_COLUMNS,
    PAYLOAD_COLUMNS,
    PIECE_NAME,
    REJECTED_COLUMNS,
    RUN_COLUMNS,
    SPAN_COLUMNS,
    Column,
)

_NAME: Final = re.compile(r"\{([A-Z_]+)\}")
UNFINISHED: Final = "NOT hasAll(mapKeys(r.marks), r.begun)"
"""Condition on a row `r` of `run_rows`: an entry span began, and did not end."""
DATABASE: Final = "freezeframe"
"""Default database of readers. Never chDB's ``default``: that one serves files of the host."""

TABLES: Final[tuple[tuple[str, tuple[Column, ...]], ...]] = (
    ("span_rows", SPAN_COLUMNS),
    ("piece_rows", (*PAYLOAD_COLUMNS, PIECE_NAME)),
    ("run_rows", RUN_COLUMNS),
    ("rejected_rows", REJECTED_COLUMNS),
)
"""The tables whose columns `columns` names, as they are after all migrations."""


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
        if match[1] == "TELLS_OF_MODEL_CALL":
            return _tells_of_model_call()
        if match[1] == "RUN_STATUS":
            return status_sql(unfinished=UNFINISHED, failed="r.entry.failed")
        if match[1] == "UNFINISHED":
            return RunStatus.UNFINISHED.value
        if match[1] == "ATTRIBUTE_PAIRS":
            return _attribute_pairs()
        return str(getattr(genai, match[1]))

    return _NAME.sub(value, sql)


def _tells_of_model_call() -> str:
    """Return whether a row `s` of spans is one in which another instrumentation tells of a model call.

    A log record that carries a call's content has become a span of its own below the call's (`otlp_logs`), with its usage
    once more: one without duration, named as the event.
    """
    operations = ", ".join(quoted(name) for name in sorted(genai.MODEL_OPERATIONS))
    event = f"s.duration_ns = 0 AND startsWith(s.name, {quoted(genai.EVENT_PREFIX)})"
    return f"(s.exchange_kind = '' AND s.operation IN ({operations}) AND NOT ({event}))"


def _attribute_pairs() -> str:
    """Return the typed columns as ``'name', text`` pairs for a map of all attributes."""
    pairs: list[str] = []
    for column in ATTRIBUTE_COLUMNS:
        if column.attribute == genai.ENTRY_BEGUN:  # the view `spans` has no pending spans
            continue
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
