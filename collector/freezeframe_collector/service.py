"""The service: wires receivers, pipeline, log, writer and store together, and carries them from start to stop."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from aiohttp import web

from freezeframe_collector import facade
from freezeframe_collector.admission import ByteBudget
from freezeframe_collector.auth import Authenticator
from freezeframe_collector.config import CollectorConfig
from freezeframe_collector.files import DirectoryLock, replace_durably
from freezeframe_collector.late_store import LateStore
from freezeframe_collector.otlp import Limits
from freezeframe_collector.pipeline import Meter, Pipeline, Stage
from freezeframe_collector.processors.normalise import normalise
from freezeframe_collector.processors.redact import RedactStage
from freezeframe_collector.receivers.grpc import GrpcReceiver
from freezeframe_collector.receivers.http import HttpReceiver
from freezeframe_collector.store import Store, open_store
from freezeframe_collector.telemetry import Reporter
from freezeframe_collector.tls import grpc_credentials, http_context
from freezeframe_collector.wal import Log, LogSettings
from freezeframe_collector.writer import RetrySettings, Writer
from freezeframe_redaction.keys import load_or_create_keys
from freezeframe_redaction.policy import load_policy
from freezeframe_schemas.errors import ConfigError

_LOG = logging.getLogger(__name__)
PORTS_FILE = "ports.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Where the collector listens; 0 where it does not."""

    grpc: int
    http: int
    clickhouse: int


class Service:
    """A collector over one data directory, from `start` to `stop`."""

    def __init__(self, config: CollectorConfig) -> None:
        self._config = config
        self._lock = DirectoryLock(config.data_directory)
        self._runners: list[web.AppRunner] = []
        self._grpc: GrpcReceiver | None = None
        self.ports = Ports(grpc=0, http=0, clickhouse=0)

        tokens_file = config.auth.tokens_file
        self._authenticator = Authenticator(Path(tokens_file) if tokens_file else None)
        policy = load_policy(config.redaction.policy)
        keys = load_or_create_keys(config.keys_directory)
        with ThreadPoolExecutor(1) as beside:
            # The redactor compiles its patterns and the engine opens its tables: seconds each, and both outside the GIL.
            redact_later = beside.submit(RedactStage, policy, keys)
            self._store = _open(config.store_dsn)
            redact = redact_later.result()
        self._log = Log(config.data_directory / "wal", _log_settings(config))
        self._writer = Writer(self._log, self._store, config.data_directory / "set-aside", _retry_settings(config))
        self._budget = _budget(config)
        self._pipeline = Pipeline(
            stages=(Stage(name="normalise", apply=normalise), Stage(name="redaction", apply=redact)),
            log=self._log,
            budget=self._budget,
            limits=_limits(config),
            spans_per_request=config.limits.spans_per_request,
            meter=Meter(),
        )
        self._reporter = Reporter(
            log=self._log,
            writer=self._writer,
            meter=self._pipeline.meter,
            budget=self._budget,
            max_log_bytes=config.wal.max_bytes,
            describe=self._describe,
        )

    async def start(self) -> None:
        """Start every part; on return requests are answered and ``ports.json`` says where.

        Raises:
            ConfigError: a port is taken.
        """
        config = self._config
        self._writer.start()
        shutdown_s = config.service.shutdown_s / 4
        runner = HttpReceiver(config.http, self._pipeline, self._reporter, self._authenticator, _budget(config)).build_runner(
            shutdown_s
        )
        http = await self._listen(runner, config.http.host, config.http.port, "http", http_context(config.tls))
        clickhouse = 0
        if config.clickhouse.enabled and isinstance(self._store, Store):
            app = facade.build_app(self._store)
            runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=shutdown_s)
            clickhouse = await self._listen(runner, config.clickhouse.host, config.clickhouse.port, "clickhouse")
        grpc_port = 0
        if config.grpc.enabled:
            self._grpc = GrpcReceiver(config.grpc, self._pipeline, self._authenticator, grpc_credentials(config.tls))
            try:
                self._grpc.start()
            except RuntimeError:
                raise _port_taken("grpc", config.grpc.host, config.grpc.port) from None
            grpc_port = self._grpc.port
        self.ports = Ports(grpc=grpc_port, http=http, clickhouse=clickhouse)
        replace_durably(config.data_directory / PORTS_FILE, json.dumps(self._describe()).encode())
        _LOG.info("ready: grpc %d, http %d, clickhouse %d, data %s", grpc_port, http, clickhouse, config.data_directory)

    async def stop(self) -> bool:
        """Stop taking requests, answer the ones in work, store what is in the log; return whether all of it was stored.

        What is not stored in time stays in the log and is stored at the next start.
        """
        deadline = time.monotonic() + self._config.service.shutdown_s
        self._reporter.stopping = True
        (self._config.data_directory / PORTS_FILE).unlink(missing_ok=True)
        if self._grpc is not None:
            await asyncio.to_thread(self._grpc.stop, max(0.1, (deadline - time.monotonic()) / 2))
        for runner in self._runners:
            await runner.cleanup()
        await asyncio.to_thread(self._budget.wait_idle, max(0.0, deadline - time.monotonic()))
        await asyncio.to_thread(self._log.close)
        ended = await asyncio.to_thread(self._writer.stop, max(0.0, deadline - time.monotonic()))
        if ended:
            self._store.close()
            self._lock.release()
        left = self._log.segment_count
        _LOG.info("stopped: %d spans in the log", self._log.audit().in_log)
        return ended and not left

    def fault(self) -> str:
        """Return what makes going on senseless, or an empty text."""
        return self._reporter.health()

    async def _listen(self, runner: web.AppRunner, host: str, port: int, name: str, tls: ssl.SSLContext | None = None) -> int:
        await runner.setup()
        site = web.TCPSite(runner, host, port, ssl_context=tls)
        try:
            await site.start()
        except OSError:
            await runner.cleanup()
            raise _port_taken(name, host, port) from None
        self._runners.append(runner)
        return int(runner.addresses[0][1])

    def _describe(self) -> dict[str, object]:
        return {
            "version": version("freezeframe"),
            "pid": os.getpid(),
            "data": str(self._config.data_directory),
            "grpc": self.ports.grpc,
            "http": self.ports.http,
            "clickhouse": self.ports.clickhouse,
        }


def _port_taken(name: str, host: str, port: int) -> ConfigError:
    return ConfigError(
        f"{name}.port: cannot listen on {host}:{port}: it is taken",
        do=f"stop what listens there, or choose another port with --{name}-port (0 takes a free one)",
    )


def _open(dsn: str) -> Store | LateStore:
    """Return the embedded store, ready, or a server that need not answer yet."""
    if not dsn.startswith("chdb:"):
        return LateStore(dsn)
    store = open_store(dsn)
    store.migrate()
    return store


def _budget(config: CollectorConfig) -> ByteBudget:
    admission = config.admission
    return ByteBudget(admission.in_flight_bytes, wait_s=admission.wait_s, retry_after_s=admission.retry_after_s)


def _limits(config: CollectorConfig) -> Limits:
    limits = config.limits
    return Limits(span_bytes=limits.span_bytes, attributes=limits.attributes, events=limits.events, links=limits.links)


def _log_settings(config: CollectorConfig) -> LogSettings:
    wal = config.wal
    return LogSettings(
        flush_interval_s=wal.flush_interval_s,
        segment_bytes=wal.segment_bytes,
        max_bytes=wal.max_bytes,
        memory_bytes=wal.memory_bytes,
        remembered_spans=wal.remembered_spans,
        retry_after_s=config.admission.retry_after_s,
    )


def _retry_settings(config: CollectorConfig) -> RetrySettings:
    store = config.store
    return RetrySettings(initial_s=store.retry_initial_s, max_s=store.retry_max_s, permanent_attempts=store.permanent_attempts)


async def run(config: CollectorConfig) -> int:
    """Run a collector until SIGTERM or SIGINT; return the exit code: 0 stored all, 1 broke, 4 left spans in the log."""
    service = Service(config)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    try:
        await service.start()
    except ConfigError:
        await service.stop()
        raise
    fault = ""
    while not stopping.is_set() and not fault:
        try:
            await asyncio.wait_for(stopping.wait(), timeout=1.0)
        except TimeoutError:
            fault = service.fault()
    if fault:
        _LOG.critical("%s: stopping; what was acked is in the log", fault)
    finished = await service.stop()
    if not finished or threading.active_count() > 1:
        # A thread that hangs in the store cannot be ended. All that was acked is in the log, so the process just ends.
        logging.shutdown()
        os._exit(1 if fault else 0 if finished else 4)
    return 1 if fault else 0
