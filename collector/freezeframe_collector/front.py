"""The front: the part of a collector that senders deal with, from the sockets to the entrance of the log.

It runs in the collector's process, or in each of several worker processes (`workers`).
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from aiohttp import web

from freezeframe_collector.admission import ByteBudget
from freezeframe_collector.batch import LogWriter
from freezeframe_collector.casts.known import KnownCasts
from freezeframe_collector.casts.sealing import Seal
from freezeframe_collector.pipeline import Meter, Pipeline, Stage
from freezeframe_collector.processors.clock import in_the_present
from freezeframe_collector.processors.content import ContentOfRequest
from freezeframe_collector.processors.redact import RedactStage
from freezeframe_collector.processors.seal import Sealer
from freezeframe_collector.receivers.grpc import GrpcReceiver
from freezeframe_collector.receivers.http import HttpReceiver
from freezeframe_collector.receivers.pages import Pages
from freezeframe_collector.settings.auth import Authenticator
from freezeframe_collector.settings.config import CollectorConfig
from freezeframe_collector.settings.policies import load_policies
from freezeframe_collector.settings.tls import grpc_credentials, http_context
from freezeframe_redaction.keyring.keys import KeyRing, keys_apart, load_or_create_keys
from freezeframe_redaction.keyring.vault_keys import vault_of
from freezeframe_schemas.content_references import make_reader
from freezeframe_schemas.data_directory import KEYS, VAULT_KEYS
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.listeners import who_listens
from freezeframe_schemas.local_tokens import READER, SENDER, load_or_create_token
from freezeframe_schemas.otlp.decode import Limits
from freezeframe_schemas.vendors.normalise import normalise


def build_redaction(config: CollectorConfig, casts: KnownCasts | None = None) -> RedactStage:
    """Return the redaction stage; compiling its patterns takes seconds, most of them outside the GIL.

    `casts` are those of open runs that this process already knows, if any.
    """
    redaction, keys = config.redaction, load_keys(config)
    if casts is None and config.cast.enabled:
        casts = KnownCasts(Seal(keys), config.cast.runs)
    return RedactStage(
        load_policies(redaction),
        keys,
        build_sealer(config),
        casts=casts,
        span_cpu_s=redaction.span_cpu_s,
        request_cpu_s=redaction.request_cpu_s,
    )


def load_keys(config: CollectorConfig) -> KeyRing:
    """Return the surrogate keys, created if missing and the data directory is new.

    Raises:
        ConfigError: a key cannot be read, or is lost.
    """
    data = config.data_directory
    redacted = next((data / name for name in ("store", "wal") if (data / name).exists()), None)
    return load_or_create_keys(keys_apart(data, KEYS, _directory(config.redaction.keys)), redacted=redacted)


def build_sealer(config: CollectorConfig) -> Sealer | None:
    """Return the sealer of originals; None if the vault is off."""
    redaction = config.redaction
    if not redaction.vault:
        return None
    keys = keys_apart(config.data_directory, VAULT_KEYS, _directory(redaction.vault_keys))
    return Sealer(vault_of(config.data_directory, keys).open())


def _directory(named: str) -> Path | None:
    return Path(named).expanduser().absolute() if named else None


def build_pipeline(config: CollectorConfig, log: LogWriter, redact: RedactStage) -> Pipeline:
    """Return the pipeline into `log`."""
    meter = Meter()
    return Pipeline(
        stages=_stages(config, redact, meter),
        log=log,
        budget=_budget(config),
        limits=_limits(config),
        meter=meter,
    )


def _stages(config: CollectorConfig, redact: RedactStage, meter: Meter) -> tuple[Stage, ...]:
    redact.on_collisions = lambda count: meter.add(surrogate_collisions=count)
    redact.on_unread = lambda: meter.add(spans_not_read=1)
    redact.on_detector_failure = lambda: meter.add(detector_failures=1)
    return (
        *content_stages(config.content.named),
        Stage(name="clock", apply=lambda span, _: in_the_present(span, time.time_ns())),
        Stage(name="normalise", apply=lambda span, _: normalise(span)),
        Stage(name="redaction", apply=redact, begin=redact.begin),
    )


def content_stages(places: Sequence[str]) -> tuple[Stage, ...]:
    """Return the stage that reads what spans point to, if there is a place for it."""
    if not places:
        return ()
    reader = make_reader(places)
    begin = partial(ContentOfRequest, reader)
    return (Stage(name="content", apply=lambda span, tenant: begin()(span, tenant), begin=begin, waits=True),)


def _limits(config: CollectorConfig) -> Limits:
    limits = config.limits
    return Limits(
        spans=limits.spans_per_request,
        values=limits.values_per_request,
        span_bytes=limits.span_bytes,
        attributes=limits.attributes,
        events=limits.events,
        links=limits.links,
    )


def build_authenticator(config: CollectorConfig) -> Authenticator:
    """Return the check of tokens; those of the data directory are created on first use.

    Raises:
        ConfigError: a file of tokens has faults.
    """
    return Authenticator(
        config.tokens_path,
        sender_token=load_or_create_token(config.data_directory, SENDER) if config.tokens_path is None else None,
        reader_token=load_or_create_token(config.data_directory, READER),
        open_senders=config.auth.open_senders,
    )


class Front:
    """The receivers over a pipeline, from `start` to `stop`."""

    def __init__(self, config: CollectorConfig, pipeline: Pipeline, pages: Pages, *, shares_ports: bool = False) -> None:
        """`shares_ports`: other processes of this collector listen on the same ports."""
        self._config = config
        self._pipeline = pipeline
        self._shares_ports = shares_ports
        self._grpc: GrpcReceiver | None = None
        self._authenticator = build_authenticator(config)
        self._arriving = _budget(config)
        http = HttpReceiver(config.http, pipeline, pages, self._authenticator, self._arriving)
        self._runner = http.build_runner(config.service.shutdown_s / 4)

    async def start(self) -> tuple[int, int]:
        """Listen; return the gRPC port (0 if it is off) and the HTTP port.

        Raises:
            ConfigError: a port is taken.
        """
        config = self._config
        tls = http_context(config.tls)
        http = await listen(
            self._runner, config.http.host, config.http.port, "http", tls=tls, shares_port=self._shares_ports or None
        )
        if not config.grpc.enabled:
            return 0, http
        self._grpc = GrpcReceiver(
            config.grpc,
            self._pipeline,
            self._authenticator,
            self._arriving,
            grpc_credentials(config.tls),
            shares_port=self._shares_ports,
        )
        try:
            self._grpc.start()
        except RuntimeError:
            raise port_in_use("grpc", config.grpc.host, config.grpc.port) from None
        return self._grpc.port, http

    def renew(self, config: CollectorConfig, redact: RedactStage) -> None:
        """Apply the configuration's limits and admission, and redact with `redact`, from the next request on."""
        admission = config.admission
        for budget in (self._pipeline.budget, self._arriving):
            budget.renew(admission.in_flight_bytes, wait_s=admission.wait_s, retry_after_s=admission.retry_after_s)
        stages = _stages(config, redact, self._pipeline.meter)
        self._pipeline.renew(stages=stages, limits=_limits(config))

    async def stop(self, timeout_s: float) -> None:
        """Accept no more requests and answer the ones in progress, for up to about `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        if self._grpc is not None:
            await asyncio.to_thread(self._grpc.stop, max(0.1, timeout_s / 2))
        await self._runner.cleanup()
        await asyncio.to_thread(self._pipeline.budget.wait_idle, max(0.0, deadline - time.monotonic()))


async def listen(
    runner: web.AppRunner,
    host: str,
    port: int,
    name: str,
    *,
    tls: ssl.SSLContext | None = None,
    shares_port: bool | None = None,
) -> int:
    """Let the application listen; return its port.

    Raises:
        ConfigError: the port is taken.
    """
    await runner.setup()
    site = web.TCPSite(runner, host, port, ssl_context=tls, reuse_port=shares_port)
    try:
        await site.start()
    except OSError as error:
        await runner.cleanup()
        raise port_in_use(name, host, port, error) from None
    return int(runner.addresses[0][1])


def refuse_ports_in_use(config: CollectorConfig) -> None:
    """Refuse a port that is taken before anything is opened.

    Raises:
        ConfigError: a port is taken, or this machine does not have an address.
    """
    listeners = [("http", config.http), ("pages", config.pages)]
    listeners += [("grpc", config.grpc)] if config.grpc.enabled else []
    listeners += [("clickhouse", config.clickhouse)] if config.clickhouse.enabled else []
    for name, listener in listeners:
        if listener.port:
            probe_port(name, listener.host, listener.port)


def probe_port(name: str, host: str, port: int) -> tuple[socket.AddressFamily, tuple[str | int, ...]]:
    """Return the family and address to listen on; for port 0 with a free one.

    Raises:
        ConfigError: the port is taken, even if its holder shares it, or this machine does not have the address.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family, kind) as probe:
            # Connections of an earlier process that are about to end hold nothing.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind(address)
            return family, probe.getsockname()
    except OSError as error:
        raise port_in_use(name, host, port, error) from None


def port_in_use(name: str, host: str, port: int, error: OSError | None = None) -> ConfigError:
    """Return the error for a port that another program listens on, or for an address that this machine does not have."""
    if error is not None and error.errno != errno.EADDRINUSE:
        return ConfigError(
            f"{name}.host: cannot listen on {host}:{port}: {error.strerror}", do="name an address of this machine"
        )
    return ConfigError(
        f"{name}.port: cannot listen on {host}:{port}: it is taken by {who_listens(port) or 'another process'}",
        do=f"stop what listens there, or choose another port with --{name}-port (0: any free one)",
    )


def _budget(config: CollectorConfig) -> ByteBudget:
    admission = config.admission
    return ByteBudget(admission.in_flight_bytes, wait_s=admission.wait_s, retry_after_s=admission.retry_after_s)
