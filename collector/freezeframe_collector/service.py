"""The service: wires receivers, pipeline, log, writer and store together, and starts and stops them."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from types import MappingProxyType
from typing import Final

from aiohttp import web

from freezeframe_collector import facade
from freezeframe_collector.admission import BudgetState
from freezeframe_collector.casts.book import RunCasts
from freezeframe_collector.files import DirectoryLock, replace_durably
from freezeframe_collector.front import (
    Front,
    build_authenticator,
    build_pipeline,
    build_redaction,
    build_sealer,
    listen,
    load_keys,
    refuse_ports_in_use,
)
from freezeframe_collector.memory import collect_rarely, return_large_blocks
from freezeframe_collector.pipeline import Meter
from freezeframe_collector.processors.redact import RedactStage
from freezeframe_collector.processors.rewrite import Rewriter
from freezeframe_collector.readers.sandbox import sandbox_state
from freezeframe_collector.receivers.connections import BoundedRunner
from freezeframe_collector.receivers.pages import PagesReceiver
from freezeframe_collector.settings.check import warnings
from freezeframe_collector.settings.config import (
    CollectorConfig,
    config_from_values,
    config_values,
    is_reloaded,
    parse_tenant_days,
)
from freezeframe_collector.settings.policies import Policies, load_policies, may_read_prose
from freezeframe_collector.settler import Settler
from freezeframe_collector.store import Rejected, Store, open_store
from freezeframe_collector.store.parts import PartWatch
from freezeframe_collector.store.retention import Retention, expire
from freezeframe_collector.store.tiers import ColdTier
from freezeframe_collector.telemetry import Reporter
from freezeframe_collector.wal.log import Log
from freezeframe_collector.workers.pool import WorkerPool
from freezeframe_collector.writer import SpanSink, Writer
from freezeframe_redaction.keyring.keys import KeyRing
from freezeframe_schemas.data_directory import PORTS_FILE
from freezeframe_schemas.errors import ConfigError, FreezeframeError, RetryableStoreError
from freezeframe_schemas.local_tokens import ADMIN, READER, load_or_create_token
from freezeframe_schemas.span import SpanRecord

# -- A ClickHouse server that may be down when the collector starts ----------------------------------------------------
# Opened by the writer, again and again, until it answers.
# Senders are served from the log meanwhile. (The embedded store is opened at the start: a failure there is permanent.)


class LateStore:
    """The writer's view of a store on a server that is opened on first use. Used by one thread at a time."""

    def __init__(self, dsn: str, *, policies: Mapping[str, str] = MappingProxyType({}), cold: ColdTier | None = None) -> None:
        """`policies` and `cold`: as `open_store` takes them."""
        self._dsn = dsn
        self._policies = policies
        self._cold = cold
        self._store: Store | None = None

    def insert(self, spans: Sequence[SpanRecord], token: str) -> None:
        """Store the spans.

        Raises:
            RetryableStoreError: the server is down, or its schema is not (yet) one that this version can write to.
            PermanentStoreError: these spans cannot be stored.
        """
        self.opened().insert(spans, token)

    def insert_rejected(self, rejected: Sequence[Rejected], token: str) -> None:
        """Store the reasons of rejected spans; raises as `insert`."""
        self.opened().insert_rejected(rejected, token)

    def holds(self, spans: Sequence[SpanRecord]) -> bool:
        """Return whether the store has these spans; raises as `insert`."""
        return self.opened().holds(spans)

    def close(self) -> None:
        """Close the connection if there is one."""
        if self._store is not None:
            self._store.close()

    def opened(self) -> Store:
        """Return the store, opened if it was not; raises a RetryableStoreError as long as it cannot be."""
        if self._store is None:
            try:
                store = open_store(self._dsn, policies=self._policies, cold=self._cold)
                store.migrate()
            except FreezeframeError as error:
                # Whatever keeps the store from opening is not the fault of a span, so no span may be set aside for it.
                raise RetryableStoreError(f"the store cannot be opened: {error.message}") from error
            self._store = store
            _LOG.info("the store is open")
        return self._store


# -- The service -------------------------------------------------------------------------------------------------------

# -- The sweeper: drops the expired days from the embedded store, once an hour, except failed and pinned runs ----------
# The first sweep is an hour after the start, so that a collector that was started on old data by mistake can be
# stopped in time. For a server, the operator runs the retention: `freezeframe store expire --store URL`.


INTERVAL_S: Final = 3600.0


class Sweeper:
    """A thread that sweeps until it is stopped."""

    def __init__(self, store: Store, retention: Retention, *, interval_s: float = INTERVAL_S) -> None:
        self._store = store
        self._retention = retention
        self._interval_s = interval_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="freezeframe-sweeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Wait for a sweep under way; return whether the thread has ended."""
        self._stopping.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            self.sweep(dt.datetime.now(dt.UTC).date())

    def sweep(self, today: dt.date) -> None:
        """Drop expired days; a failure is logged, and the next sweep tries again."""
        try:
            for day in expire(self._store, self._retention, today=today):
                _LOG.info("retention: %s: %d runs dropped, %d kept", day.day, day.dropped_runs, day.kept_runs)
        except FreezeframeError as error:
            _LOG.error("retention: %s", error)


# -- The service -------------------------------------------------------------------------------------------------------

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundPorts:
    """Ports on which the collector listens; 0 if it does not."""

    grpc: int = 0
    http: int = 0
    clickhouse: int = 0
    pages: int = 0


class Service:
    """A collector over one data directory, from `start` to `stop`."""

    def __init__(self, config: CollectorConfig) -> None:
        self._config = config
        self._lock = DirectoryLock(config.data_directory)
        refuse_ports_in_use(config)
        load_keys(config)  # first of all: once there is data, a missing key is lost
        self.ports = BoundPorts()
        self._facade: web.AppRunner | None = None
        self._pages: web.AppRunner | None = None
        self._policies: dict[str, str] = {}
        self._in_force: Policies | None = None
        self._redact: RedactStage | None = None
        several = config.service.workers > 1
        with ThreadPoolExecutor(1) as beside:
            # The redactor compiles its patterns and the engine opens its tables: seconds each, and both outside the GIL.
            redact_later = None if several else beside.submit(build_redaction, config)
            self._store = _open(config, self._policies)
        self._casts = RunCasts(config.data_directory / "wal", config.cast) if config.cast.enabled else None
        self._log = Log(
            config.data_directory / "wal", config.wal, retry_after_s=config.admission.retry_after_s, casts=self._casts
        )
        self._parts = PartWatch(self._store) if isinstance(self._store, Store) and self._store.engine.embedded else None
        storing = threading.Lock()
        self._writer = Writer(self._log, _sink(config, self._store), config.data_directory / "set-aside", config.store, storing)
        if redact_later is None:
            # The workers redact. A fault of the policy shows here all the same, and the keys are made once.
            self._note(load_policies(config.redaction))
            keys = load_keys(config)
            self.meter, pipeline = Meter(), None
        else:
            redact = redact_later.result()
            self._note(redact.policies)
            keys, self._redact = load_keys(config), redact
            if self._casts is not None and redact.casts is not None:
                self._casts.listen(redact.casts.learn)
            pipeline = build_pipeline(config, self._log, redact)
            self.meter = pipeline.meter
        self._settler = self._build_settler(keys, storing)
        self._reporter = Reporter(
            log=self._log,
            writer=self._writer,
            meter=self.meter,
            budget=self._budget_state if pipeline is None else pipeline.budget.state,
            max_log_bytes=config.wal.max_bytes,
            describe=self._describe_all,
            parts=self._parts,
            casts=self._casts,
            settler=self._settler,
        )
        self._sweeper = _sweeper(config, self._store)
        self._readers = sandbox_state() if config.clickhouse.enabled and isinstance(self._store, Store) else None
        self._authenticator = build_authenticator(config)
        self._front = None if pipeline is None else Front(config, pipeline, self._reporter)
        self._pool = (
            None if pipeline is not None else WorkerPool(config, self._log, self.meter, self._reporter.pages(), self._casts)
        )

    async def start(self) -> None:
        """Start every part; on return requests are answered and ``ports.json`` lists the ports.

        Raises:
            ConfigError: a port is taken.
        """
        config = self._config
        if self._settler is not None:
            self._settler.start()
        self._writer.start()
        if self._sweeper is not None:
            self._sweeper.start()
        if self._parts is not None:
            self._parts.start()
        clickhouse = 0
        if config.clickhouse.enabled and isinstance(self._store, Store):
            reader, admin = (load_or_create_token(config.data_directory, name) for name in (READER, ADMIN))
            app = facade.build_app(self._store, users=[facade.User(name="default", password=reader)], admin_token=admin)
            shutdown_s = config.service.shutdown_s / 4
            self._facade = BoundedRunner(app, shutdown_s=shutdown_s)
            clickhouse = await listen(self._facade, config.clickhouse.host, config.clickhouse.port, "clickhouse")
        if self._front is not None:
            grpc, http = await self._front.start()
        else:
            assert self._pool is not None
            grpc, http = await asyncio.to_thread(self._pool.start)
        self.ports = BoundPorts(grpc=grpc, http=http, clickhouse=clickhouse, pages=await self._open_pages())
        replace_durably(config.data_directory / PORTS_FILE, json.dumps(self._describe()).encode())
        for warning in warnings(config):
            _LOG.warning("%s", warning)
        _LOG.info("ready: grpc %d, http %d, clickhouse %d, data %s", grpc, http, clickhouse, config.data_directory)

    async def _open_pages(self) -> int:
        """Listen in plain text for monitoring: a probe or a command on this machine has no certificate to show."""
        pages = self._config.pages
        if not (pages.port or self._config.tls.cert_file):
            return 0
        self._pages = PagesReceiver(self._reporter, self._authenticator).build_runner(self._config.service.shutdown_s / 4)
        return await listen(self._pages, pages.host, pages.port, "pages")

    async def stop(self) -> bool:
        """Accept no more requests, answer the ones in progress, store the content of the log.

        Return whether all of it was stored. Spans not stored in time stay in the log until the next start.
        """
        deadline = time.monotonic() + self._config.service.shutdown_s
        self._reporter.stopping = True
        (self._config.data_directory / PORTS_FILE).unlink(missing_ok=True)
        if self._front is not None:
            await self._front.stop(max(0.0, deadline - time.monotonic()))
        if self._pool is not None:
            await asyncio.to_thread(self._pool.stop, max(0.1, deadline - time.monotonic()))
        for runner in (self._facade, self._pages):
            if runner is not None:
                await runner.cleanup()
        await asyncio.to_thread(self._log.close)
        swept = self._sweeper is None or await asyncio.to_thread(self._sweeper.stop, max(0.1, deadline - time.monotonic()))
        ended = swept and await asyncio.to_thread(self._writer.stop, max(0.0, deadline - time.monotonic()))
        if self._settler is not None:
            ended = await asyncio.to_thread(self._settler.stop, max(0.1, deadline - time.monotonic())) and ended
        # A part that is being read is not waited for long: nothing is lost with it, and the engine ends with the process.
        has_read = self._parts is None or await asyncio.to_thread(self._parts.stop, 1.0)
        if ended and has_read:
            self._store.close()
            self._lock.release()
        left = self._log.segment_count
        _LOG.info("stopped: %d spans in the log", self._log.audit().in_log)
        return ended and not left

    async def reload(self, config: CollectorConfig) -> None:
        """Apply the new configuration, except what needs a restart, which the log names. Nothing in progress is dropped.

        If there are workers, each in turn is replaced by one with the new settings, while the others serve.

        Raises:
            ConfigError: the policy has faults, or a worker cannot start; the remaining parts stay unchanged.
        """
        before, after = config_values(self._config), config_values(config)
        changed = [path for path in after if before[path] != after[path]]
        reloaded = {path: after[path] for path in changed if is_reloaded(path)}
        renewed = config_from_values(before | reloaded)
        if self._front is not None:
            casts = None if self._redact is None else self._redact.casts
            redact = self._redact = await asyncio.to_thread(build_redaction, renewed, casts)
            self._note(redact.policies)
            self._front.renew(renewed, redact)
        if self._pool is not None:
            self._note(load_policies(renewed.redaction))
            await asyncio.to_thread(self._pool.renew, renewed)
        logging.getLogger().setLevel(renewed.service.log_level.upper())
        self._config = renewed
        waiting = [path for path in changed if path not in reloaded]
        _LOG.info("reloaded: %s", ", ".join(reloaded) or "the policy's file; no setting has changed")
        if waiting:
            _LOG.warning("these settings changed and need a restart: %s", ", ".join(waiting))

    def tick(self) -> None:
        """Note the counts, once a second."""
        self._reporter.tick()

    def fault(self) -> str:
        """Return the reason why the collector cannot usefully go on, or an empty text."""
        return self._reporter.health()

    def _note(self, policies: Policies) -> None:
        """Pass the store the text of each policy, before the first span that went through it arrives."""
        self._policies.update({policy.label: policy.text for policy in policies})
        self._in_force = policies

    def _build_settler(self, keys: KeyRing, storing: threading.Lock) -> Settler | None:
        """Return the settler of runs, which has separate redactors, since it may have to redact under an older key."""
        if self._casts is None:
            return None
        store = self._store
        if isinstance(store, Store):
            store.on_deleted = lambda: self._settler and self._settler.forget_deleted()
        return Settler(
            self._casts,
            Rewriter(
                keys,
                lambda: self._in_force or load_policies(self._config.redaction),
                build_sealer(self._config),
                stage=lambda: self._redact,
            ).rewrite,
            lambda: store if isinstance(store, Store) else store.opened(),
            self._config.data_directory,
            lambda segment: not self._log.holds_up_to(segment),
            storing,
        )

    def _budget_state(self) -> BudgetState:
        assert self._pool is not None
        return self._pool.budget_state()

    def _describe_all(self) -> dict[str, object]:
        return {
            **self._describe(),
            "workers": [] if self._pool is None else self._pool.describe(),
            "readers": self._readers,
        }

    def _describe(self) -> dict[str, object]:
        return {
            "version": version("freezeframe"),
            "pid": os.getpid(),
            "data": str(self._config.data_directory),
            "grpc": self.ports.grpc,
            "http": self.ports.http,
            "clickhouse": self.ports.clickhouse,
            "pages": self.ports.pages,
            "tls": bool(self._config.tls.cert_file),
        }


def _open(config: CollectorConfig, policies: Mapping[str, str]) -> Store | LateStore:
    """Return the embedded store, ready for use, or a server that need not answer yet."""
    dsn = config.store_dsn
    cold = ColdTier(after_days=config.store.cold_after_days, volume=config.store.cold_volume)
    if not dsn.startswith("chdb:"):
        return LateStore(dsn, policies=policies, cold=cold)
    store = open_store(dsn, policies=policies, cold=cold)
    store.migrate()
    return store


def _sweeper(config: CollectorConfig, store: Store | LateStore) -> Sweeper | None:
    """Return the sweeper of expired days, if this collector holds the store and days ever expire."""
    retention = config.retention
    tenants = parse_tenant_days(retention.tenants)
    if not isinstance(store, Store) or not retention.days:
        return None
    return Sweeper(store, Retention(days=retention.days, failed_days=retention.failed_days, tenant_days=tenants))


def _sink(config: CollectorConfig, store: SpanSink) -> SpanSink:
    """Return the writer's sink: the store, with the model tier of redaction in front if a policy uses it."""
    if not may_read_prose(config.redaction):
        return store
    policies = load_policies(config.redaction)
    if not any(policy.model_tier and policy.redacts for policy in policies):
        return store
    from freezeframe_collector.processors.read_prose import ProseReader

    return ProseReader(store, policies, load_keys(config), build_sealer(config))


async def run(config: CollectorConfig, load_again: Callable[[], CollectorConfig]) -> int:
    """Run a collector until SIGTERM or SIGINT; return the exit code: 0 stored all, 1 broke, 4 left spans in the log.

    SIGHUP applies the configuration from `load_again`; if it has faults, they are logged and nothing changes.
    """
    return_large_blocks()
    service = Service(config)
    stopping, reloading = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    loop.add_signal_handler(signal.SIGHUP, reloading.set)
    try:
        await service.start()
    except ConfigError as error:
        print(f"freezeframe-collector: {error}", file=sys.stderr)
        await service.stop()
        return _leave(2)
    collect_rarely()
    fault = ""
    while not stopping.is_set() and not fault:
        try:
            await asyncio.wait_for(stopping.wait(), timeout=1.0)
        except TimeoutError:
            service.tick()
            fault = service.fault()
        if reloading.is_set() and not stopping.is_set():
            reloading.clear()
            try:
                await service.reload(load_again())
            except FreezeframeError as error:
                _LOG.error("not reloaded: %s", error.message)
                service.meter.add(reloads_failed=1)
    if fault:
        _LOG.critical("%s: stopping; what was acked is in the log", fault)
    finished = await service.stop()
    return _leave(1 if fault else 0 if finished else 4)


def _leave(code: int) -> int:
    """Return the exit code, or end the process if a thread is still working.

    A thread inside the store cannot be ended, and the engine crashes if the interpreter ends under it. All
    acked spans are in the log.
    """
    if threading.active_count() > 1:
        logging.shutdown()
        sys.stderr.flush()
        os._exit(code)
    return code
