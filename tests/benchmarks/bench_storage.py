"""Bytes, CPU and latency of the store, beside the layout of the OpenTelemetry Collector's ClickHouse exporter, in one run.

    python tests/benchmarks/bench_storage.py [--spans 50000] [--concurrent 1000] [--keep DIR]

Both layouts get the same spans of generated agent loops (histories resent each turn, tools, retrieval), in batches that
interleave `--concurrent` runs, by the same writer (Native blocks, fsync on). The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import agent_loops
import orjson

from freezeframe_collector.store import Store, open_store
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.tables import piece_hash, span_select, spans_from_rows
from freezeframe_schemas.tables.cells import to_cells
from freezeframe_schemas.tables.native import encode_block

BATCH_SPANS: Final = 5000
OTEL: Final = "otel"
_TEXTS: Final = "Map(LowCardinality(String), String)"
_OTEL_COLUMNS: Final = {
    "Timestamp": "DateTime64(9)",
    "TraceId": "String",
    "SpanId": "String",
    "ParentSpanId": "String",
    "TraceState": "String",
    "SpanName": "LowCardinality(String)",
    "SpanKind": "LowCardinality(String)",
    "ServiceName": "LowCardinality(String)",
    "ResourceAttributes": _TEXTS,
    "ScopeName": "String",
    "ScopeVersion": "String",
    "SpanAttributes": _TEXTS,
    "Duration": "UInt64",
    "StatusCode": "LowCardinality(String)",
    "StatusMessage": "String",
}
# Source: opentelemetry-collector-contrib, clickhouseexporter, traces_table.sql; payload codec as the store's own, ZSTD(3)
_OTEL_TABLE: Final = f"""CREATE TABLE {OTEL}.otel_traces (
    {
    ", ".join(
        f"{n} {t} CODEC({'Delta, ZSTD(1)' if n == 'Timestamp' else 'ZSTD(3)' if n == 'SpanAttributes' else 'ZSTD(1)'})"
        for n, t in _OTEL_COLUMNS.items()
    )
},
    INDEX idx_trace_id TraceId TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX idx_res_attr_key mapKeys(ResourceAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX idx_res_attr_value mapValues(ResourceAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX idx_span_attr_key mapKeys(SpanAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX idx_span_attr_value mapValues(SpanAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX idx_duration Duration TYPE minmax GRANULARITY 1
) ENGINE = MergeTree PARTITION BY toDate(Timestamp) ORDER BY (ServiceName, SpanName, toDateTime(Timestamp))
SETTINGS index_granularity = 8192, ttl_only_drop_parts = 1, fsync_after_insert = 1, fsync_part_directory = 1"""


def otel_block(spans: Sequence[SpanRecord]) -> bytes:
    """Return the spans as rows of otel_traces, as the exporter makes them."""
    texts = [to_cells(span.attributes)[0] for span in spans]
    resources = [to_cells(span.resource.attributes)[0] for span in spans]
    values: dict[str, list[Any]] = {
        "Timestamp": [span.start_time_unix_nano for span in spans],
        "TraceId": [span.trace_id for span in spans],
        "SpanId": [span.span_id for span in spans],
        "ParentSpanId": [span.parent_span_id for span in spans],
        "TraceState": [span.trace_state for span in spans],
        "SpanName": [span.name for span in spans],
        "SpanKind": [span.kind.name.capitalize() for span in spans],
        "ServiceName": [str(span.resource.attributes["service.name"]) for span in spans],
        "ResourceAttributes": resources,
        "ScopeName": [span.scope.name for span in spans],
        "ScopeVersion": [span.scope.version for span in spans],
        "SpanAttributes": texts,
        "Duration": [span.end_time_unix_nano - span.start_time_unix_nano for span in spans],
        "StatusCode": [span.status_code.name.capitalize() for span in spans],
        "StatusMessage": [span.status_message for span in spans],
    }
    return encode_block({name: (type_, values[name]) for name, type_ in _OTEL_COLUMNS.items()})


def batches(total: int, concurrent: int) -> Iterator[list[SpanRecord]]:
    """Yield batches of spans, by end, `concurrent` runs at a time."""

    def spans() -> Iterator[SpanRecord]:
        first = 0
        while True:
            # all start within a minute, which is about as long as they take: they lie side by side
            yield from agent_loops.agent_runs(first, concurrent, spread_ns=60 * 10**9)
            first += concurrent

    stream = islice(spans(), total)
    while batch := list(islice(stream, BATCH_SPANS)):
        yield batch


def cpu_s() -> float:
    """Return the CPU seconds of this process, engine's threads included."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Insert:
    """CPU and wall time spent on one layout."""

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0

    def measure(self, work: Callable[[], None]) -> None:
        """Add what `work` takes. (Merges that run meanwhile are counted to whoever runs: both layouts take turns.)"""
        cpu, wall = cpu_s(), time.perf_counter()
        work()
        self.cpu += cpu_s() - cpu
        self.wall += time.perf_counter() - wall


def percentiles(work: Callable[[int], object], times: int) -> tuple[float, float]:
    """Return p50 and p99 in milliseconds of `work`, warm."""
    work(0)
    taken: list[float] = []
    for index in range(times):
        start = time.perf_counter()
        work(index)
        taken.append((time.perf_counter() - start) * 1000)
    taken.sort()
    return taken[len(taken) // 2], taken[min(len(taken) - 1, int(len(taken) * 0.99))]


def disk_bytes(store: Store, database: str, tables: str = "") -> int:
    """Return the bytes on disk of a database's tables."""
    _, rows = store.query(f"SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = '{database}' {tables}")
    return int(rows[0][0] or 0)


def load_run(store: Store, trace_id: str) -> int:
    """Load a run as replay does: rows and payloads, hash-checked, rebuilt to spans."""
    handle_rows = store.engine.rows
    where = f"trace_id = '{trace_id}'"
    db = store.database
    order = "ORDER BY start_time, span_id LIMIT 1 BY span_id"
    columns, rows = handle_rows(f"SELECT {span_select()} FROM {db}.span_rows WHERE {where} {order}")
    _, pieces = handle_rows(f"SELECT body FROM {db}.piece_rows WHERE {where}")
    bodies = {piece_hash(raw).hex(): raw for (body,) in pieces if (raw := body.encode())}
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    return len(spans_from_rows(found, bodies))


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=50_000)
    parser.add_argument("--concurrent", type=int, default=1000)
    parser.add_argument("--times", type=int, default=30)
    parser.add_argument("--keep", type=Path, help="directory of the store, kept afterwards")
    arguments = parser.parse_args()
    directory = arguments.keep or Path(tempfile.mkdtemp(prefix="bench-storage-"))
    store = open_store(f"chdb://{directory.resolve()}")
    try:
        rows = measure(store, arguments.spans, arguments.concurrent, arguments.times)
    finally:
        store.close()
        if not arguments.keep:
            shutil.rmtree(directory)
    width = max(len(row["name"]) for row in rows)
    print(f"\n{'':{width}}  {'value':>12}  unit        goal")
    for row in rows:
        met = "" if row["met"] is None else "met" if row["met"] else "NOT met"
        print(f"{row['name']:{width}}  {row['value']:>12,.2f}  {row['unit']:<10}  {row['goal'] or '':<22} {met}")
    print(json.dumps({"bench": "storage", "rows": rows}))


def measure(store: Store, total: int, concurrent: int, times: int) -> list[dict[str, Any]]:
    """Fill both layouts, and return the rows of the report."""
    store.migrate()
    engine = store.engine
    engine.command(f"CREATE DATABASE IF NOT EXISTS {OTEL} ENGINE = Atomic")
    engine.command(_OTEL_TABLE)
    ours, theirs = Insert(), Insert()
    count = wire = 0
    days: set[dt.date] = set()
    for number, batch in enumerate(batches(total, concurrent)):
        count += len(batch)
        wire += sum(len(orjson.dumps(dict(span.attributes), default=str)) for span in batch)
        days |= {dt.datetime.fromtimestamp(span.start_time_unix_nano / 1e9, dt.UTC).date() for span in batch[:1]}

        def insert_otel(batch: list[SpanRecord] = batch, number: int = number) -> None:
            engine.insert(f"{OTEL}.otel_traces", list(_OTEL_COLUMNS), otel_block(batch), f"otel-{number}")

        def insert_ours(batch: list[SpanRecord] = batch, number: int = number) -> None:
            store.insert(batch, f"bench-{number}")

        # taking turns, so that neither always finds the caches of the other
        for side, work in ((ours, insert_ours), (theirs, insert_otel))[:: 1 if number % 2 else -1]:
            side.measure(work)
        print(f"\r{count:,} spans", end="", flush=True, file=sys.stderr)
    db = store.database
    for table in (f"{db}.span_rows", f"{db}.piece_rows", f"{db}.run_rows", f"{OTEL}.otel_traces"):
        engine.command(f"OPTIMIZE TABLE {table} FINAL")
    mine, other = disk_bytes(store, db), disk_bytes(store, OTEL)
    payloads = disk_bytes(store, db, "AND table = 'piece_rows'")
    _, ids = store.query(f"SELECT trace_id FROM {db}.runs ORDER BY cityHash64(trace_id) LIMIT {times + 1}")
    day = min(days)
    report: list[dict[str, Any]] = []

    def row(name: str, value: float, unit: str, goal: str | None = None, met: bool | None = None) -> None:
        report.append({"name": name, "value": round(value, 3), "unit": unit, "goal": goal, "met": met})

    row("spans", count, "spans")
    row("attributes as JSON", wire / count, "bytes/span")
    row("disk, otel_traces", other / count, "bytes/span")
    row("disk, freezeframe", mine / count, "bytes/span")
    row("disk, of that payloads", payloads / count, "bytes/span")
    row("disk, otel_traces : freezeframe", other / mine, "x", ">= 5", other / mine >= 5)
    row("insert CPU, otel_traces", theirs.cpu / count * 1e6, "us/span")
    row("insert CPU, freezeframe", ours.cpu / count * 1e6, "us/span", "< otel_traces", ours.cpu < theirs.cpu)
    row("insert wall, freezeframe", ours.wall / count * 1e6, "us/span")
    questions: list[tuple[str, Callable[[int], object], str | None, float]] = [
        ("run by id, rebuilt and hash-checked", lambda i: load_run(store, ids[i % len(ids)][0]), "p50 <= 30 ms", 30),
        (
            "run list of a day, filtered",
            lambda _: store.query(
                f"SELECT trace_id, name, status, ms, input_tokens FROM {db}.runs"
                f" WHERE run_hour >= toDateTime('{day} 00:00:00', 'UTC')"
                f" AND run_hour < toDateTime('{day} 00:00:00', 'UTC') + INTERVAL 1 DAY AND status = 'error'"
                " ORDER BY start_time DESC LIMIT 50"
            ),
            "p50 <= 100 ms",
            100,
        ),
        (
            "search of two words",
            lambda _: store.query(f"SELECT trace_id, snippet FROM {db}.search(words = 'generator coroutine') LIMIT 20"),
            "p50 <= 400 ms",
            400,
        ),
        (
            "cost by model and day",
            lambda _: store.query(
                f"SELECT toDate(start_time) AS d, model, sum(cost_usd) FROM {db}.model_calls GROUP BY d, model"
            ),
            None,
            0,
        ),
        (
            "readiness by week",
            lambda _: store.query(
                f"SELECT toStartOfWeek(start_time) AS w, level, count() FROM {db}.readiness GROUP BY w, level"
            ),
            None,
            0,
        ),
    ]
    for name, work, goal, limit in questions:
        p50, p99 = percentiles(work, times if goal else max(3, times // 6))
        row(f"{name}, p50", p50, "ms", goal, None if goal is None else p50 <= limit)
        row(f"{name}, p99", p99, "ms")
    otel_id = f"SELECT * FROM {OTEL}.otel_traces WHERE TraceId = "
    p50, _ = percentiles(lambda i: store.query(f"{otel_id}'{ids[i % len(ids)][0]}'"), max(3, times // 3))
    row("run by id in otel_traces, p50", p50, "ms")
    return report


if __name__ == "__main__":
    main()
