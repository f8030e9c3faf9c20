"""Reading without a collector: the ClickHouse protocol over a data directory's store, for as long as one command needs it.

The command starts ``freezeframe-collector --read --data DIR`` and reads a line of JSON, ``{"port": 40123, "password": "..."}``.
The program ends when its standard input closes, which it does however the command ends.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from pathlib import Path

from aiohttp import web

from freezeframe_collector.facade.app import build_reading_app, store_paths
from freezeframe_collector.facade.protocol import User
from freezeframe_collector.store.tiers import cold_directory
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.tables.ddl import DATABASE


async def serve_reading(store: Path) -> int:
    """Serve the embedded store in `store` on a free port of loopback until standard input closes.

    Raises:
        ConfigError: the store does not exist.
    """
    if not (store / "clickhouse" / "metadata" / f"{DATABASE}.sql").is_file():
        raise ConfigError(f"{store}: no store here; nothing was ever recorded in it")
    password = secrets.token_urlsafe(24)
    paths = store_paths(store, DATABASE, cold=cold_directory(store, ""))
    app = build_reading_app(paths, User(name="default", password=password))
    runner = web.AppRunner(app, handle_signals=False, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        print(json.dumps({"port": runner.addresses[0][1], "password": password}), flush=True)
        await asyncio.to_thread(sys.stdin.buffer.read)
    finally:
        await runner.cleanup()
    return 0
