"""Rows that the store writes about itself, one at a time: pins, prices, policies, the audit, the ledger of migrations.

The engine drops a block that it has seen before, as a repeated insert: a run that was pinned, unpinned and pinned would stay
unpinned. So each of these has its own token. (26.9 ignores ``insert_deduplicate = 0``, and older engines do not know its
replacement.)
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from freezeframe_collector.store.engine import Engine


def as_new() -> str:
    """Return the setting that makes the rows of an INSERT count even if the same rows were inserted before."""
    return f"insert_deduplication_token = '{uuid.uuid4().hex}'"


def insert_row(engine: Engine, table: str, row: Mapping[str, str]) -> None:
    """Insert a row of SQL expressions, by column.

    Raises:
        StoreError: as the engine answers.
    """
    engine.command(f"INSERT INTO {table} ({', '.join(row)}) SETTINGS {as_new()} VALUES ({', '.join(row.values())})")
