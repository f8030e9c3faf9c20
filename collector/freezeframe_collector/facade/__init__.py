"""The ClickHouse HTTP protocol over the embedded store, so that every ClickHouse client can read it.

chDB lets one process write: the collector. All other clients (the command line, notebooks, Grafana, curl) use
this port. The collector neither parses nor runs their statements: each has its own process
(`freezeframe_collector.readers`).

    app = build_app(store)          # aiohttp; serve it on loopback, or give it users with passwords
"""

from __future__ import annotations

from freezeframe_collector.facade.app import build_app
from freezeframe_collector.facade.protocol import User

__all__ = ["User", "build_app"]
