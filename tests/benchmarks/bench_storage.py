"""Bytes, CPU and latency of the store, beside the layout of the OpenTelemetry Collector's ClickHouse exporter, in one run.

    python tests/benchmarks/bench_storage.py [--spans 1000000] [--days 2] [--agent-runs DIR] [--grow-to 10000000] [--alone] ...

Both layouts get the same spans by the same writer (Native blocks, fsync on), first of generated agent loops (histories resent
each turn, tools, retrieval, no streams), in batches that interleave `--concurrent` runs; then, in a new store, of recorded
traffic (`recorded_runs`: real dialogues and provider exchanges, streams, random states, several services), `--days` of it.
Without `--agent-runs`, the folder with recorded trajectories of other agents, these are left out. Questions are asked at a
tenth of the generated spans, at all of each kind, and, with `--grow-to`, as each run is copied inside the engine
(`store_copies`): whenever there are ten times as many, and at the end. At last, generated spans come in while eight readers and
a replay ask. `--spans 0` or `--days 0` leaves one kind out. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import resource
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import agent_loops
import recorded_runs
from serving import serving
from store_copies import Originals
from store_questions import GOALS, READERS, Latencies, ask_all, load_and_read

from freezeframe_collector.memory import collect_rarely
from freezeframe_collector.store import Store, open_store
from freezeframe_replay.sources.store import open_runs
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.tables.cells import to_cells
from freezeframe_schemas.tables.native import encode_block

BATCH_SPANS: Final = 5000
SPANS_PER_RUN: Final = 18
_BATCHES_UNDER_LOAD: Final = 4
_MEMORY_TO_COPY: Final = 8_000_000_000
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
# Source: opentelemetry-collector-contrib, clickhouseexporter, traces_table.sql
_OTEL_TABLE: Final = f"""CREATE TABLE {OTEL}.otel_traces (
    {", ".join(f"{n} {t} CODEC({'Delta, ' if n == 'Timestamp' else ''}ZSTD(1))" for n, t in _OTEL_COLUMNS.items())},
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
            # those of a group start within a minute, which is about as long as they take: they are side by side
            start_ns = agent_loops.START_NS + group * 14 * agent_loops.DAY_NS // groups
            yield from agent_loops.agent_runs(group * concurrent, concurrent, start_ns=start_ns, spread_ns=60 * 10**9)

    stream = islice(spans(), total)
    while batch := list(islice(stream, BATCH_SPANS)):
        yield batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Spans that fill a store, and what to ask of them."""

    name: str
    batches: Iterator[list[SpanRecord]]
    expected: int = 0
    """Spans, where they are known before."""
    words: str
    runs: str = "1"
    """Condition on the row of a run that is loaded by id."""
    verified: bool = False
    """Whether every run is loaded and compared with what was inserted."""


def generated(total: int, concurrent: int) -> Traffic:
    """Return generated agent loops."""
    return Traffic(name="generated", batches=batches(total, concurrent), expected=total, words="generator coroutine")


def recorded(days: int, agent_runs: Path | None) -> Traffic:
    """Return recorded traffic; a run by id is one of an agent, not one exchange."""

    def parts() -> Iterator[list[SpanRecord]]:
        for day in recorded_runs.record_days(days, agent_runs):
            for start in range(0, len(day), BATCH_SPANS):
                yield day[start : start + BATCH_SPANS]

    return Traffic(
        name="recorded", batches=parts(), words="cancel insurance", runs=f"service IN {recorded_runs.AGENTS}", verified=True
    )


def digest(span: SpanRecord) -> bytes:
    """Return a hash of all that a span holds, types included; not of the order of attributes."""
    shared = replace(span.resource, attributes=dict(sorted(span.resource.attributes.items())))
    ordered = replace(span, attributes=dict(sorted(span.attributes.items())), resource=shared)
    return hashlib.sha256(encode_traces([ordered])).digest()


def cpu_s() -> float:
    """Return the CPU seconds of this process, engine's threads included."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Insert:
    """CPU and wall time spent on one layout."""

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0

    def measure(self, work: Callable[[], None]) -> None:
        """Add what `work` takes. (Merges that run meanwhile count for the layout that is running: both take turns.)"""
        cpu, wall = cpu_s(), time.perf_counter()
        work()
        self.cpu += cpu_s() - cpu
        self.wall += time.perf_counter() - wall


def disk_bytes(store: Store, database: str, tables: str = "") -> int:
    """Return the bytes on disk of a database's tables."""
    _, rows = store.query(f"SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = '{database}' {tables}")
    return int(rows[0][0] or 0)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=1_000_000, help="of generated agent loops")
    parser.add_argument("--days", type=int, default=2, help="of recorded traffic, some 10,000 spans each")
    parser.add_argument("--agent-runs", type=Path, help="folder with `swe-agent` and `who-and-when`, recorded trajectories")
    parser.add_argument("--grow-to", type=int, default=0, help="spans to reach by copies inside the engine, for latencies")
    parser.add_argument("--concurrent", type=int, default=1000, help="runs that interleave")
    parser.add_argument("--times", type=int, default=30, help="how often each question is asked")
    parser.add_argument("--alone", action="store_true", help="without otel_traces: half the time, for 10^7 spans")
    parser.add_argument("--keep", type=Path, help="directory of the store, kept afterwards")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if arguments.spans:
        rows += run_one(arguments, generated(arguments.spans, arguments.concurrent))
    if arguments.days:
        if arguments.agent_runs is None:
            print("without --agent-runs: recorded trajectories other than the airline's are left out", file=sys.stderr)
        rows += run_one(arguments, recorded(arguments.days, arguments.agent_runs))
    width = max(len(row["name"]) for row in rows)
    print(f"\n{'':{width}}  {'value':>12}  unit        goal")
    for row in rows:
        met = "" if row["met"] is None else "met" if row["met"] else "NOT met"
        print(f"{row['name']:{width}}  {row['value']:>12,.2f}  {row['unit']:<10}  {row['goal'] or '':<22} {met}")
    print(json.dumps({"bench": "storage", "rows": rows}))


def run_one(arguments: argparse.Namespace, traffic: Traffic) -> list[dict[str, Any]]:
    """Fill a store of its own with one kind of traffic; return the rows of its report."""
    directory = arguments.keep / traffic.name if arguments.keep else Path(tempfile.mkdtemp(prefix="bench-storage-"))
    # copying millions of rows at a time takes more memory than a collector ever does
    store = open_store(f"chdb://{directory.resolve()}" + (f"?memory_bytes={_MEMORY_TO_COPY}" if arguments.grow_to else ""))
    try:
        store.migrate()
        collect_rarely()  # as the collector's processes do
        with serving(store) as url:
            bench = Bench(store, url, traffic, arguments.times, beside=not arguments.alone)
            bench.run(arguments.grow_to)
            if traffic.name == "generated":
                bench.load(arguments.concurrent)
            return bench.report
    finally:
        store.close()
        if not arguments.keep:
            shutil.rmtree(directory)


class Bench:
    """One store, filled with both layouts and asked at a tenth of its size and at the whole."""

    def __init__(self, store: Store, url: str, traffic: Traffic, times: int, *, beside: bool) -> None:
        self._store = store
        self._url = url
        self._traffic = traffic
        self._times = times
        self._beside = beside
        self._ours, self._theirs = Insert(), Insert()
        self._count = self._wire = self._wire_spans = 0
        self._sent: defaultdict[str, dict[str, bytes]] = defaultdict(dict)
        """Run -> span -> `digest`."""
        self.report: list[dict[str, Any]] = []

    def run(self, grow_to: int = 0) -> None:
        """Fill and ask."""
        if self._beside:
            self._store.engine.command(f"CREATE DATABASE IF NOT EXISTS {OTEL} ENGINE = Atomic")
            self._store.engine.command(_OTEL_TABLE)
        asked: list[tuple[int, Latencies]] = []
        for number, batch in enumerate(self._traffic.batches):
            self._insert(number, batch)
            if not asked and 0 < self._traffic.expected <= self._count * 10:
                asked.append((self._count, self._ask()))
        self._compact()
        self._row("spans", self._count, "spans")
        self._row("raw OTLP (protobuf)", self._wire / self._wire_spans, "bytes/span")
        self._sizes()
        if self._traffic.verified:
            self._verify()
        asked.append((self._count, self._ask()))
        asked += [(spans, self._ask()) for spans in self._grow(grow_to)]
        self._latencies(asked)

    def _verify(self) -> None:
        """Load every run as replay does, and compare each span with what was inserted."""
        with closing(open_runs(self._url)) as runs:
            loaded = {trace_id: {span.span_id: digest(span) for span in runs.load_spans(trace_id)} for trace_id in self._sent}
        differing = sum(loaded[trace_id] != sent for trace_id, sent in self._sent.items())
        self._row("runs loaded and compared with what was inserted", len(loaded), "runs")
        self._row("runs that differ from it", differing, "runs", "0", met=not differing)

    def _grow(self, grow_to: int) -> Iterator[int]:
        """Copy every run, and yield how many spans there are whenever they are ten times as many, and at the end."""
        if grow_to <= self._count:
            return
        originals = Originals(self._store)
        count = originals.spans
        while count < grow_to:
            wanted = min(count * 10, grow_to)
            while count < wanted:
                originals.copy()
                count += originals.spans
                print(f"\r{count:,} spans, by copies", end="", flush=True, file=sys.stderr)
            if count >= grow_to:
                originals.drop()
            self._compact()
            yield count

    def _latencies(self, asked: list[tuple[int, Latencies]]) -> None:
        for name in asked[-1][1]:
            goal = GOALS.get(name)
            for spans, latencies in asked:
                took = latencies[name]
                met = None if goal is None else took.p50 <= goal
                wanted = None if goal is None else f"<= {goal} ms"
                self._row(f"{name}, {spans:,} spans, p50", took.p50, "ms", wanted, met=met)
                self._row(f"{name}, {spans:,} spans, p99", took.p99, "ms")
                self._row(f"{name}, {spans:,} spans, CPU time", took.cpu, "ms")
            (first, small), (last, large) = asked[0], asked[-1]
            if first < last:
                # how it grows: 1 as the data, 0 not at all
                growth = math.log(large[name].cpu / small[name].cpu) / math.log(last / first)
                self._row(f"{name}, exponent of growth of the CPU time", growth, "", "< 1", met=growth < 1)

    def load(self, concurrent: int) -> None:
        """Ask while generated spans come in."""
        total = self._traffic.expected
        more = islice(batches(total * 2, concurrent), total // BATCH_SPANS, None)
        load = load_and_read(self._store, self._url, list(islice(more, _BATCHES_UNDER_LOAD)))
        for failure in load.failures[:5]:
            print(f"under load: {failure}", file=sys.stderr)
        self._row("under load: inserted", load.spans / load.seconds, "spans/s")
        self._row(f"under load: {READERS} readers, p50", load.quantile(0.5), "ms")
        self._row(f"under load: {READERS} readers, p99", load.quantile(0.99), "ms")
        self._row("under load: questions answered", len(load.read_ms) + len(load.replay_ms), "")
        self._row("under load: errors", len(load.failures), "", "0", met=not load.failures)
        self._row("under load: peak memory of the process", load.peak_bytes / 1e6, "MB", "<= 4000", met=load.peak_bytes < 4e9)

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
        for span in batch if self._traffic.verified else ():
            self._sent[span.trace_id][span.span_id] = digest(span)
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
        for column, size in self._columns():
            self._row(f"disk, of that column {column}", size / spans, "bytes/span")
        self._row("insert CPU with merges, freezeframe", self._ours.cpu / spans * 1e6, "us/span")
        self._row("insert wall with merges, freezeframe", self._ours.wall / spans * 1e6, "us/span")
        if self._beside:
            other = disk_bytes(self._store, OTEL)
            self._row("disk, otel_traces", other / spans, "bytes/span")
            self._row("disk, otel_traces : freezeframe", other / mine, "x", ">= 3", met=other / mine >= 3)
            self._row("insert CPU with merges, otel_traces", self._theirs.cpu / spans * 1e6, "us/span")
            ratio = self._ours.cpu / self._theirs.cpu
            self._row("insert CPU, freezeframe : otel_traces", ratio, "x", "<= 0.9", met=ratio <= 0.9)

    def _columns(self) -> Sequence[tuple[str, int]]:
        """Return the columns that take a hundredth of our bytes or more."""
        _, rows = self._store.query(
            "SELECT concat(table, '.', column) AS name, sum(column_data_compressed_bytes) AS size FROM system.parts_columns"
            f" WHERE active AND database = '{self._store.database}' GROUP BY name"
            " HAVING size * 100 > (SELECT sum(bytes_on_disk) FROM system.parts"
            f" WHERE active AND database = '{self._store.database}') ORDER BY size DESC"
        )
        return [(str(name), int(size)) for name, size in rows]

    def _ask(self) -> Latencies:
        by_id = f"SELECT * FROM {OTEL}.otel_traces WHERE TraceId = "
        more: dict[str, Callable[[str], object]] = {}
        if self._beside:
            more["run by id in otel_traces"] = lambda trace_id: self._store.query(f"{by_id}'{trace_id}'")
        return ask_all(self._store, self._url, self._times, more, words=self._traffic.words, runs=self._traffic.runs)

    def _row(self, name: str, value: float, unit: str, goal: str | None = None, *, met: bool | None = None) -> None:
        self.report.append(
            {"name": f"{self._traffic.name}: {name}", "value": round(value, 3), "unit": unit, "goal": goal, "met": met}
        )


if __name__ == "__main__":
    main()
