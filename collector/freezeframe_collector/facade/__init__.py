"""The ClickHouse HTTP protocol over the embedded store, so that every ClickHouse client can read it.

chDB lets one process write: the collector. Everyone else (the command line, notebooks, Grafana, curl) asks here. Nothing that
they send is parsed or run in the collector: each statement has its own process (`freezeframe_collector.readers`).

    app = build_app(store)          # aiohttp; serve it on loopback, or give it users with passwords
"""

from __future__ import annotations

from freezeframe_collector.facade.app import build_app
from freezeframe_collector.facade.protocol import User

__all__ = ["User", "build_app"]
