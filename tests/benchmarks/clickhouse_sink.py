"""A ClickHouse HTTP endpoint over chDB that takes inserts: the store of a peer that has none of its own.

    python clickhouse_sink.py PORT DIRECTORY

Serves ``POST /?query=INSERT INTO otel_traces ... FORMAT RowBinary`` and ``GET /rows``, the count of rows inserted.
"""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Any

from aiohttp import web

_CODEC = "CODEC(ZSTD(1))"
# The table that the OpenTelemetry Collector's ClickHouse exporter and rotel both write to.
_TABLE = f"""
CREATE TABLE IF NOT EXISTS otel.otel_traces (
  Timestamp DateTime64(9) CODEC(Delta, ZSTD(1)), TraceId String {_CODEC}, SpanId String {_CODEC}, ParentSpanId String {_CODEC},
  TraceState String {_CODEC}, SpanName LowCardinality(String) {_CODEC}, SpanKind LowCardinality(String) {_CODEC},
  ServiceName LowCardinality(String) {_CODEC}, ResourceAttributes Map(LowCardinality(String), String) {_CODEC},
  ScopeName String {_CODEC}, ScopeVersion String {_CODEC}, SpanAttributes Map(LowCardinality(String), String) {_CODEC},
  Duration Int64 {_CODEC}, StatusCode LowCardinality(String) {_CODEC}, StatusMessage String {_CODEC},
  Events Nested(Timestamp DateTime64(9), Name LowCardinality(String), Attributes Map(LowCardinality(String), String)),
  Links Nested(TraceId String, SpanId String, TraceState String, Attributes Map(LowCardinality(String), String))
) ENGINE = MergeTree ORDER BY (ServiceName, SpanName, Timestamp)
"""
_INSERT = re.compile(r"(INSERT\s+INTO\s+)(otel_traces.*?)\s+FORMAT\s+(\w+)\s*", re.IGNORECASE | re.DOTALL)


class Sink:
    """The one session; inserts are taken one at a time."""

    def __init__(self, directory: str) -> None:
        from chdb.session import Session  # pyright: ignore[reportMissingTypeStubs]

        self._session: Any = Session(directory)
        self._session.query("CREATE DATABASE IF NOT EXISTS otel")
        self._session.query(_TABLE)
        self.rows = 0

    def insert(self, query: str, body: bytes) -> None:
        """Run the insert; the body is its data."""
        match = _INSERT.fullmatch(query)
        if match is None:
            raise ValueError(f"no insert into otel_traces: {query[:80]}")
        stream = self._session.send_insert(f"{match[1]}otel.{match[2]}", match[3])
        stream.append(body)
        self.rows += int(stream.finish().rows_written)


def main() -> None:
    """Serve until killed."""
    sink, lock = Sink(sys.argv[2]), asyncio.Lock()

    async def insert(request: web.Request) -> web.Response:
        body = await request.read()
        query = request.query.get("query", "")
        if not query.upper().startswith("INSERT"):
            return web.Response()
        async with lock:
            await asyncio.to_thread(sink.insert, query, body)
        return web.Response()

    async def rows(request: web.Request) -> web.Response:
        return web.Response(text=str(sink.rows))

    app = web.Application(client_max_size=1 << 30)
    app.add_routes([web.post("/", insert), web.get("/rows", rows), web.get("/{any:.*}", lambda request: insert(request))])
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)


if __name__ == "__main__":
    main()
