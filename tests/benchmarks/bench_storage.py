"""Bytes, CPU and latency of the store, beside the layout of the OpenTelemetry Collector's ClickHouse exporter, in one run.

    python tests/benchmarks/bench_storage.py [--spans 1000000] [--concurrent 1000] [--alone] [--keep DIR]

Both layouts get the same spans of generated agent loops (histories resent each turn, tools, retrieval), in batches that
interleave `--concurrent` runs, by the same writer (Native blocks, fsync on). The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import agent_loops

from freezeframe_collector.otlp import encode_traces
from freezeframe_collector.store import Store, open_store
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.tables import piece_hash, span_select, spans_from_rows
from freezeframe_schemas.tables.cells import to_cells
from freezeframe_schemas.tables.native import encode_block

BATCH_SPANS: Final = 5000
SPANS_PER_RUN: Final = 18
BY_ID: Final = "run by id, rebuilt and hash-checked"
LIST: Final = "run list of a day, filtered"
SEARCH: Final = "search of two words"
GOALS: Final = {BY_ID: 30, LIST: 100, SEARCH: 400}
"""Milliseconds of the median, at 10^7 spans on 2 cores."""
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
    """Yield batches of spans, by end, `concurrent` runs at a time, the whole over two weeks."""
    groups = max(1, total // (concurrent * SPANS_PER_RUN))

    def spans() -> Iterator[SpanRecord]:
        for group in count():
            # those of a group start within a minute, which is about as long as they take: they lie side by side
            start_ns = agent_loops.START_NS + group * 14 * agent_loops.DAY_NS // groups
            yield from agent_loops.agent_runs(group * concurrent, concurrent, start_ns=start_ns, spread_ns=60 * 10**9)

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
    db = store.database
    _, places = store.query(
        f"SELECT DISTINCT tenant, toUnixTimestamp(run_hour) FROM {db}.run_rows WHERE trace_id = '{trace_id}'"
    )
    tenants = ", ".join(f"'{tenant}'" for tenant, _ in places)
    hours = ", ".join(f"toDateTime({hour}, 'UTC')" for _, hour in places)
    where = f"tenant IN ({tenants}) AND run_hour IN ({hours}) AND trace_id = '{trace_id}'"
    order = "ORDER BY start_time, span_id LIMIT 1 BY span_id"
    with ThreadPoolExecutor(1) as beside:
        pieces = beside.submit(store.query, f"SELECT body FROM {db}.piece_rows WHERE {where}")
        columns, rows = store.query(f"SELECT {span_select()} FROM {db}.span_rows WHERE {where} {order}")
    bodies = {piece_hash(raw).hex(): raw for (body,) in pieces.result()[1] if (raw := body.encode())}
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    return len(spans_from_rows(found, bodies))


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=1_000_000)
    parser.add_argument("--concurrent", type=int, default=1000, help="runs that interleave")
    parser.add_argument("--times", type=int, default=30, help="how often each question is asked")
    parser.add_argument("--alone", action="store_true", help="without otel_traces: half the time, for 10^7 spans")
    parser.add_argument("--keep", type=Path, help="directory of the store, kept afterwards")
    arguments = parser.parse_args()
    directory = arguments.keep or Path(tempfile.mkdtemp(prefix="bench-storage-"))
    store = open_store(f"chdb://{directory.resolve()}")
    try:
        bench = Bench(store, arguments.spans, arguments.concurrent, arguments.times, beside=not arguments.alone)
        rows = bench.run()
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


class Bench:
    """One store, filled with both layouts and asked at a tenth of its size and at the whole."""

    def __init__(self, store: Store, total: int, concurrent: int, times: int, *, beside: bool) -> None:
        self._store = store
        self._total = total
        self._concurrent = concurrent
        self._times = times
        self._beside = beside
        self._ours, self._theirs = Insert(), Insert()
        self._count = self._wire = self._wire_spans = 0
        self._report: list[dict[str, Any]] = []

    def run(self) -> list[dict[str, Any]]:
        """Fill and ask; return the rows of the report."""
        self._store.migrate()
        if self._beside:
            self._store.engine.command(f"CREATE DATABASE IF NOT EXISTS {OTEL} ENGINE = Atomic")
            self._store.engine.command(_OTEL_TABLE)
        small: dict[str, tuple[float, float]] = {}
        first = 1
        for number, batch in enumerate(batches(self._total, self._concurrent)):
            self._insert(number, batch)
            if not small and self._count >= self._total / 10:
                small = self._ask()
                first = self._count
        self._compact()
        self._row("spans", self._count, "spans")
        self._row("raw OTLP (protobuf)", self._wire / self._wire_spans, "bytes/span")
        self._sizes()
        for name, (p50, p99) in self._ask().items():
            goal = GOALS.get(name)
            met = None if goal is None else p50 <= goal
            self._row(f"{name}, p50", p50, "ms", None if goal is None else f"p50 <= {goal} ms", met=met)
            self._row(f"{name}, p99", p99, "ms")
            if first < self._count:
                # how it grows: 1 as the data, 0 not at all
                growth = math.log(p50 / small[name][0]) / math.log(self._count / first)
                self._row(f"{name}, exponent of growth from {first:,}", growth, "", "< 1", met=growth < 1)
        return self._report

    def _insert(self, number: int, batch: list[SpanRecord]) -> None:
        engine = self._store.engine

        def insert_otel() -> None:
            engine.insert(f"{OTEL}.otel_traces", list(_OTEL_COLUMNS), otel_block(batch), f"otel-{number}")

        def insert_ours() -> None:
            self._store.insert(batch, f"bench-{number}")

        # taking turns, so that neither always finds the caches of the other
        sides = [(self._ours, insert_ours), (self._theirs, insert_otel)] if self._beside else [(self._ours, insert_ours)]
        for side, work in sides[:: 1 if number % 2 else -1]:
            side.measure(work)
        if number % 10 == 0:
            self._wire += len(encode_traces(batch))
            self._wire_spans += len(batch)
        self._count += len(batch)
        print(f"\r{self._count:,} spans", end="", flush=True, file=sys.stderr)

    def _compact(self) -> None:
        """Bring both layouts to the state that merges lead to."""
        db = self._store.database
        tables = [f"{db}.span_rows", f"{db}.piece_rows", f"{db}.run_rows", *([f"{OTEL}.otel_traces"] if self._beside else [])]
        for table in tables:
            for side, name in ((self._ours, db), (self._theirs, OTEL)):
                if table.startswith(name):
                    side.measure(lambda table=table: self._store.engine.command(f"OPTIMIZE TABLE {table} FINAL"))

    def _sizes(self) -> None:
        spans, db = self._count, self._store.database
        mine = disk_bytes(self._store, db)
        self._row("disk, freezeframe", mine / spans, "bytes/span")
        for table in ("piece_rows", "span_rows", "run_rows"):
            self._row(f"disk, of that {table}", disk_bytes(self._store, db, f"AND table = '{table}'") / spans, "bytes/span")
        self._row("insert CPU with merges, freezeframe", self._ours.cpu / spans * 1e6, "us/span")
        self._row("insert wall with merges, freezeframe", self._ours.wall / spans * 1e6, "us/span")
        if self._beside:
            other = disk_bytes(self._store, OTEL)
            self._row("disk, otel_traces", other / spans, "bytes/span")
            self._row("disk, otel_traces : freezeframe", other / mine, "x", ">= 5", met=other / mine >= 5)
            self._row("insert CPU with merges, otel_traces", self._theirs.cpu / spans * 1e6, "us/span")
            ratio = self._ours.cpu / self._theirs.cpu
            self._row("insert CPU, freezeframe : otel_traces", ratio, "x", "< 1", met=ratio < 1)

    def _ask(self) -> dict[str, tuple[float, float]]:
        """Return p50 and p99 in milliseconds of each question."""
        store, db = self._store, self._store.database
        _, ids = store.query(f"SELECT trace_id FROM {db}.runs ORDER BY cityHash64(trace_id) LIMIT {self._times + 1}")
        _, days = store.query(f"SELECT toString(toDate(min(run_hour))) FROM {db}.run_rows")
        day = f"toDateTime('{days[0][0]} 00:00:00', 'UTC')"
        questions: dict[str, Callable[[int], object]] = {
            BY_ID: lambda i: load_run(store, ids[i % len(ids)][0]),
            LIST: lambda _: store.query(
                f"SELECT trace_id, name, status, ms, input_tokens FROM {db}.runs WHERE run_hour >= {day}"
                f" AND run_hour < {day} + INTERVAL 1 DAY AND status = 'error' ORDER BY start_time DESC LIMIT 50"
            ),
            SEARCH: lambda _: store.query(f"SELECT trace_id, snippet FROM {db}.search(words = 'generator coroutine') LIMIT 20"),
            "cost by model and day": lambda _: store.query(
                f"SELECT toDate(start_time) AS d, model, sum(cost_usd) FROM {db}.model_calls GROUP BY d, model"
            ),
            "readiness by week": lambda _: store.query(
                f"SELECT toStartOfWeek(start_time) AS w, level, count() FROM {db}.readiness GROUP BY w, level"
            ),
        }
        if self._beside:
            by_id = f"SELECT * FROM {OTEL}.otel_traces WHERE TraceId = "
            questions["run by id in otel_traces"] = lambda i: store.query(f"{by_id}'{ids[i % len(ids)][0]}'")
        return {name: percentiles(work, self._times if name in GOALS else 5) for name, work in questions.items()}

    def _row(self, name: str, value: float, unit: str, goal: str | None = None, *, met: bool | None = None) -> None:
        self._report.append({"name": name, "value": round(value, 3), "unit": unit, "goal": goal, "met": met})


if __name__ == "__main__":
    main()
