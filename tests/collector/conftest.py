"""Parts for the collector's tests: spans, a store in memory that keeps the contract, and a collector with real sockets."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from aiohttp import web

from freezeframe_collector.admission import ByteBudget
from freezeframe_collector.pipeline import Meter, Pipeline, Stage
from freezeframe_collector.receivers.grpc import GrpcReceiver
from freezeframe_collector.receivers.http import HttpReceiver
from freezeframe_collector.settings.auth import Authenticator
from freezeframe_collector.settings.config import GrpcConfig, HttpConfig, StoreConfig, WalConfig
from freezeframe_collector.store import Rejected
from freezeframe_collector.telemetry import Reporter
from freezeframe_collector.wal.log import Log
from freezeframe_collector.writer import Writer
from freezeframe_schemas.otlp.decode import Limits
from freezeframe_schemas.span import Attributes, Resource, Scope, SpanRecord

SpanMaker = Callable[..., SpanRecord]


@dataclass(slots=True)
class MemoryStore:
    """A store that does what the contract says: an insert is idempotent by token. `fault` may raise or wait before it."""

    spans: list[SpanRecord] = field(default_factory=list[SpanRecord])
    rejected: list[Rejected] = field(default_factory=list[Rejected])
    tokens: set[str] = field(default_factory=set[str])
    fault: Callable[[Sequence[SpanRecord]], None] = lambda spans: None
    lies_left: int = 0
    """Inserts that will be reported as done and not kept."""

    def insert(self, spans: Sequence[SpanRecord], token: str) -> None:
        """Keep the spans once per token."""
        self.fault(spans)
        if token not in self.tokens:
            self.tokens.add(token)
            if self.lies_left:
                self.lies_left -= 1
                return
            self.spans.extend(spans)

    def insert_rejected(self, rejected: Sequence[Rejected], token: str) -> None:
        """Keep the reasons once per token."""
        if token not in self.tokens:
            self.tokens.add(token)
            self.rejected.extend(rejected)

    def holds(self, spans: Sequence[SpanRecord]) -> bool:
        """Return whether all of the spans are kept."""
        kept = {(span.trace_id, span.span_id) for span in self.spans}
        return all((span.trace_id, span.span_id) in kept for span in spans)

    def names(self) -> list[str]:
        """Return the names of the stored spans, sorted."""
        return sorted(span.name for span in self.spans)


READER_TOKEN = "a-token-that-reads"


@dataclass(slots=True, kw_only=True)
class Collector:
    """A collector in this process: everything but the command line and the engine."""

    grpc_port: int
    http_port: int
    store: MemoryStore
    log: Log
    writer: Writer
    pipeline: Pipeline
    reporter: Reporter
    budget: ByteBudget
    receiving: ByteBudget
    """Of requests on their way in."""

    reader: dict[str, str] = field(default_factory=lambda: {"authorization": f"Bearer {READER_TOKEN}"})
    """The header that opens the pages."""

    def flush(self) -> None:
        """Wait until all that was acked is stored."""
        assert self.reporter.flush(30.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a test may change."""

    stages: tuple[Stage, ...] = ()
    log: WalConfig = field(default_factory=lambda: WalConfig(flush_interval_s=0.02))
    limits: Limits = field(default_factory=Limits)
    in_flight_bytes: int = 64 << 20
    retry_after_s: float = 0.3
    max_bytes: int = 64 << 20
    read_timeout_s: float = 30.0
    allowed_origins: str = ""
    tokens_file: Path | None = None
    grpc_credentials: grpc.ServerCredentials | None = None
    http_tls: ssl.SSLContext | None = None
    retry: StoreConfig = field(
        default_factory=lambda: StoreConfig(retry_initial_s=0.001, retry_max_s=0.01, permanent_attempts=2)
    )


class _Loop:
    """An event loop in a thread, for the HTTP side."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def serve(self, runner: web.AppRunner, tls: ssl.SSLContext | None) -> int:
        async def start() -> int:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
            return int(runner.addresses[0][1])

        return asyncio.run_coroutine_threadsafe(start(), self.loop).result(10)

    def stop(self, runner: web.AppRunner) -> None:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


CollectorStarter = Callable[..., Collector]


@pytest.fixture
def start_collector(tmp_path: Path) -> Generator[CollectorStarter]:
    """Return a function that starts a collector; all are stopped after the test."""
    stops: list[Callable[[], None]] = []

    def start(store: MemoryStore | None = None, **changes: Any) -> Collector:
        options = Options(**changes)
        store = store or MemoryStore()
        log = Log(tmp_path / "wal", options.log, retry_after_s=options.retry_after_s)
        writer = Writer(log, store, tmp_path / "set-aside", options.retry)
        budget = ByteBudget(options.in_flight_bytes, wait_s=0.05, retry_after_s=options.retry_after_s)
        pipeline = Pipeline(
            stages=options.stages,
            log=log,
            budget=budget,
            limits=options.limits,
            meter=Meter(),
        )
        reporter = Reporter(
            log=log,
            writer=writer,
            meter=pipeline.meter,
            budget=budget.state,
            max_log_bytes=options.log.max_bytes,
            describe=lambda: {"version": "test"},
        )
        authenticator = Authenticator(options.tokens_file, reader_token=READER_TOKEN, open_senders=options.tokens_file is None)
        receiving = ByteBudget(options.in_flight_bytes, wait_s=0.05, retry_after_s=options.retry_after_s)
        grpc_receiver = GrpcReceiver(
            GrpcConfig(port=0, max_message_bytes=options.max_bytes, read_timeout_s=options.read_timeout_s),
            pipeline,
            authenticator,
            receiving,
            options.grpc_credentials,
        )
        loop = _Loop()
        http_config = HttpConfig(
            port=0,
            max_body_bytes=options.max_bytes,
            read_timeout_s=options.read_timeout_s,
            allowed_origins=options.allowed_origins,
        )
        http = HttpReceiver(http_config, pipeline, reporter, authenticator, receiving)
        runner = http.build_runner(1.0)
        http_port = loop.serve(runner, options.http_tls)
        grpc_receiver.start()
        writer.start()

        def stop() -> None:
            grpc_receiver.stop(1.0)
            loop.stop(runner)
            log.close()
            writer.stop(5.0)

        stops.append(stop)
        return Collector(
            grpc_port=grpc_receiver.port,
            http_port=http_port,
            store=store,
            log=log,
            writer=writer,
            pipeline=pipeline,
            reporter=reporter,
            budget=budget,
            receiving=receiving,
        )

    yield start
    for stop in stops:
        stop()


@pytest.fixture
def make_span() -> SpanMaker:
    """Return a function that makes a span; its number makes its ids."""
    resource = Resource(attributes={"service.name": "orders"})
    scope = Scope(name="test", version="1")

    def make(number: int = 1, attributes: Attributes | None = None, name: str = "") -> SpanRecord:
        return SpanRecord(
            trace_id=f"{number // 10 + 1:032x}",
            span_id=f"{number + 1:016x}",
            name=name or f"span-{number:06d}",
            start_time_unix_nano=1_780_000_000_000_000_000 + number,
            end_time_unix_nano=1_780_000_000_000_001_000 + number,
            attributes=attributes or {"number": number},
            resource=resource,
            scope=scope,
        )

    return make


@pytest.fixture
def data(tmp_path: Path) -> Generator[Path]:
    """Return a data directory; a collector that is still running over it is ended."""
    directory = tmp_path / "data"
    yield directory
    ports = directory / "ports.json"
    if ports.exists():
        try:
            os.kill(json.loads(ports.read_text())["pid"], signal.SIGKILL)
        except ProcessLookupError:
            return
