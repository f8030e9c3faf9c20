"""Rows that the store writes about itself, one at a time: pins, prices, policies, the audit, the ledger of migrations.

The engine takes a block that it has had for one that is sent again, and drops it: a run that was pinned, unpinned and pinned
would stay unpinned. So each of these comes under its own token. (``insert_deduplicate = 0`` is ignored by 26.9, and what
stands in its place is not known to older engines.)
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from freezeframe_collector.store.engine import Engine


def as_new() -> str:
    """Return the setting by which the rows of an INSERT count, however often the same came before."""
    return f"insert_deduplication_token = '{uuid.uuid4().hex}'"


def insert_row(engine: Engine, table: str, row: Mapping[str, str]) -> None:
    """Insert a row of SQL expressions, by column.

    Raises:
        StoreError: as the engine answers.
    """
    engine.command(f"INSERT INTO {table} ({', '.join(row)}) SETTINGS {as_new()} VALUES ({', '.join(row.values())})")
