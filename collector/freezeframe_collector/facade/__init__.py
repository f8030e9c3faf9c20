"""The ClickHouse HTTP protocol over the embedded store, so that every ClickHouse client can read it.

chDB lets one process in: the collector. Everybody else (the command line, notebooks, Grafana, curl) asks here. Read-only, with
three layers that are all needed: an engine without grants to files, URLs or other hosts (`store.embedded`), a check of each
statement by the engine's own parser (`guard`), and ``readonly=2`` with bounds on the handle that runs it (`execute`).

    app = build_app(store)          # aiohttp; serve it on loopback, or give it users with passwords
"""

from __future__ import annotations

from freezeframe_collector.facade.app import build_app
from freezeframe_collector.facade.protocol import User

__all__ = ["User", "build_app"]
