"""The store: spans in, durable on return; SQL out. Embedded (chDB) and server (ClickHouse) are the same except for the engine.

store = open_store("chdb:///var/lib/freezeframe")   # or clickhouse://user:password@host:8123/freezeframe
store.migrate()
store.insert(spans, token="segment-17")             # on disk when it returns; the same token again is a no-op
"""

from __future__ import annotations

from freezeframe_collector.store.engine import Engine
from freezeframe_collector.store.store import Rejected, Stats, Store, TableStats, open_store

__all__ = ["Engine", "Rejected", "Stats", "Store", "TableStats", "open_store"]
