"""OTLP over HTTP, protobuf and JSON, and the collector's own pages.

Source: OTLP 1.x specification, "OTLP/HTTP": 200 with ``partial_success``; 400 and 413 permanent; 429 and 503 with
``Retry-After``.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsPartialSuccess, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTracePartialSuccess, ExportTraceServiceResponse

from freezeframe_collector.admission import SMALL_BYTES, BusyError, ByteBudget, Lease
from freezeframe_collector.pipeline import Decoder, Outcome, Pipeline
from freezeframe_collector.receivers.compression import decompress
from freezeframe_collector.receivers.connections import BoundedRunner
from freezeframe_collector.receivers.cross_origin import admit_origins, parse_origins
from freezeframe_collector.receivers.pages import Pages, PagesReceiver
from freezeframe_collector.settings.auth import Authenticator, UnauthenticatedError
from freezeframe_collector.settings.config import HttpConfig
from freezeframe_schemas.decompression import UnpacksTooFarError
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.lifecycle import COLLECTOR_HEADER
from freezeframe_schemas.otlp.decode import decode_traces
from freezeframe_schemas.otlp.json_body import decode_json_traces
from freezeframe_schemas.same_origin import is_loopback

_PROTOBUF: Final = "application/x-protobuf"
_JSON: Final = "application/json"
_SMALL_BYTES: Final = 16 << 10
"""A body up to this size is worked on in the event loop: a millisecond at most, and a thread costs half of one."""
_GRACE_S: Final = 5.0
_MIN_PACE: Final = 4 << 10
"""Bytes per second that a body must reach on average, once the grace time is over."""
_TICK_S: Final = 0.25
_GIVES_UP_ON_429: Final = "OTel-OTLP-Exporter-Python/"
"""The Python HTTP exporter before 1.45 loses a batch that gets a 429. The specification allows 503 for the same."""
_GRPC_INVALID, _GRPC_EXHAUSTED, _GRPC_UNIMPLEMENTED, _GRPC_UNAVAILABLE, _GRPC_UNAUTHENTICATED = 3, 8, 12, 14, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signal:
    """Encoding of one signal's partial success; a full success is an empty message."""

    json_field: str
    answer: Callable[[Outcome], Message]


def _answer_traces(outcome: Outcome) -> Message:
    partial = ExportTracePartialSuccess(rejected_spans=outcome.rejected, error_message=outcome.message)
    return ExportTraceServiceResponse(partial_success=partial)


def _answer_logs(outcome: Outcome) -> Message:
    partial = ExportLogsPartialSuccess(rejected_log_records=outcome.rejected, error_message=outcome.message)
    return ExportLogsServiceResponse(partial_success=partial)


_TRACES: Final = _Signal(json_field="rejectedSpans", answer=_answer_traces)
_LOGS: Final = _Signal(json_field="rejectedLogRecords", answer=_answer_logs)


class HttpReceiver:
    """The HTTP application; work on a request happens in its own threads."""

    def __init__(
        self, config: HttpConfig, pipeline: Pipeline, pages: Pages, authenticator: Authenticator, bodies: ByteBudget
    ) -> None:
        """`bodies` bounds the bytes that all connections together have sent for requests that are not in progress yet."""
        self._bodies = bodies
        self._authenticator = authenticator
        self._config = config
        self._pipeline = pipeline
        self._pages = PagesReceiver(pages, authenticator)
        self._workers = ThreadPoolExecutor(config.workers, thread_name_prefix="freezeframe-http")
        # Large bodies have their own threads, so that small ones never wait for them.
        self._workers_on_large = ThreadPoolExecutor(max(1, config.workers // 4), thread_name_prefix="freezeframe-http-large")

    def build_runner(self, shutdown_s: float) -> web.AppRunner:
        """Return the server, not yet listening. Bodies are left compressed: `decompress` bounds their output."""
        return BoundedRunner(self._build_app(), shutdown_s=shutdown_s, auto_decompress=False)

    def _build_app(self) -> web.Application:
        origins = parse_origins(self._config.allowed_origins)
        app = web.Application(
            client_max_size=self._config.max_body_bytes,
            middlewares=[admit_origins(origins, loopback=is_loopback(self._config.host))],
        )
        app.add_routes(
            [
                web.post("/v1/traces", self._traces),
                web.post("/v1/logs", self._logs),
                web.post("/v1/metrics", self._metrics),
                *self._pages.routes(),
            ]
        )
        return app

    async def _traces(self, request: web.Request) -> web.Response:
        return await self._export(request, {_PROTOBUF: decode_traces, _JSON: decode_json_traces}, _TRACES)

    async def _logs(self, request: web.Request) -> web.Response:
        decoders = {_PROTOBUF: self._pipeline.decode_events, _JSON: self._pipeline.decode_json_events}
        return await self._export(request, decoders, _LOGS)

    async def _export(self, request: web.Request, decoders: Mapping[str, Decoder], signal: _Signal) -> web.Response:
        kind = request.content_type
        try:
            tenant = self._authenticator.tenant_of(request.headers.get("Authorization"))
        except UnauthenticatedError as error:
            return self._unauthenticated(kind, error)
        decoder = decoders.get(kind)
        if decoder is None:
            self._pipeline.meter.add(malformed=1)
            return _error(_JSON, 415, _GRPC_INVALID, f"content type {kind[:80]!r}, expected {' or '.join(decoders)}")
        encoding = request.headers.get("Content-Encoding", "").strip().lower()
        try:
            with self._bodies.lease(f"{request.remote} {tenant}") as lease:
                body = await self._read(request, lease)
                answer = await self._work(kind, body, encoding, tenant, decoder, signal, lease)
                answer.headers[COLLECTOR_HEADER] = "1"
                return answer
        except BusyError as error:
            agent = request.headers.get("User-Agent", "")
            return _refuse(kind, 503 if agent.startswith(_GIVES_UP_ON_429) else 429, _GRPC_EXHAUSTED, error)
        except web.HTTPRequestEntityTooLarge:
            self._pipeline.meter.add(malformed=1)
            limit = self._config.max_body_bytes
            return _error(kind, 413, _GRPC_INVALID, f"the body has more than {limit} bytes: http.max_body_bytes")
        except TimeoutError:
            # Not 408: the specification has senders give up on that.
            late = BusyError("the body arrived too slowly: see http.read_timeout_s", retry_after_s=1.0)
            return _refuse(kind, 503, _GRPC_UNAVAILABLE, late)

    def _unauthenticated(self, kind: str, error: UnauthenticatedError) -> web.Response:
        self._pipeline.meter.add(unauthenticated=1)
        answer = _error(kind, 401, _GRPC_UNAUTHENTICATED, error.message)
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer

    async def _read(self, request: web.Request, lease: Lease) -> bytes:
        """Return the body as it was sent; the lease grows as it arrives.

        Raises:
            BusyError: there was no room for it.
            HTTPRequestEntityTooLarge: it has, or announces, too many bytes.
            TimeoutError: it arrives too slowly.
        """
        if request.content.is_eof():  # all of it came with the head, as that of a small request does: no clock is needed
            body = await request.read()
            await lease.grow_in_loop(len(body))
            return body
        limit = self._config.max_body_bytes
        if (request.content_length or 0) > limit:
            raise web.HTTPRequestEntityTooLarge(max_size=limit, actual_size=request.content_length or 0)
        began = time.monotonic()
        parts: list[bytes] = []
        size = 0
        while not request.content.at_eof():
            lease.check()
            late = began + min(self._config.read_timeout_s, _GRACE_S + size / _MIN_PACE) - time.monotonic()
            try:
                async with asyncio.timeout(min(_TICK_S, late)):
                    part = await request.content.readany()
            except TimeoutError:
                if late <= _TICK_S:
                    raise
                continue  # to look at the lease
            size += len(part)
            if size > limit:
                raise web.HTTPRequestEntityTooLarge(max_size=limit, actual_size=size)
            await lease.grow_in_loop(len(part))
            parts.append(part)
        return b"".join(parts)

    async def _work(
        self, kind: str, body: bytes, encoding: str, tenant: str, decoder: Decoder, signal: _Signal, lease: Lease
    ) -> web.Response:
        most = self._config.max_body_bytes
        run = asyncio.get_running_loop().run_in_executor

        def work(limit_bytes: int) -> Outcome:
            plain = decompress(body, encoding, limit_bytes, lease.grow)
            lease.pin()
            return self._pipeline.export(plain, tenant=tenant, decode=decoder)

        try:
            if len(body) <= _SMALL_BYTES and not encoding:
                lease.pin()
                outcome = await self._pipeline.export_small(body, tenant=tenant, decode=decoder)
            elif len(body) > SMALL_BYTES:
                outcome = await run(self._workers_on_large, work, most)
            else:
                try:
                    outcome = await run(self._workers, work, min(SMALL_BYTES, most))
                except UnpacksTooFarError:
                    outcome = await run(self._workers_on_large, work, most)
        except WireError as error:
            self._pipeline.meter.add(malformed=1)
            return _error(kind, 400, _GRPC_INVALID, error.message)
        if kind == _JSON:
            partial = {signal.json_field: str(outcome.rejected), "errorMessage": outcome.message} if outcome.rejected else None
            return web.json_response({"partialSuccess": partial} if partial else {})
        return _protobuf(200, signal.answer(outcome)) if outcome.rejected else web.Response(content_type=_PROTOBUF)

    async def _metrics(self, request: web.Request) -> web.Response:
        try:
            self._authenticator.tenant_of(request.headers.get("Authorization"))
        except UnauthenticatedError as error:
            return self._unauthenticated(request.content_type, error)
        self._pipeline.meter.add(metrics_refused=1)
        text = "freezeframe keeps traces and log events; send metrics elsewhere"
        return _error(request.content_type, 404, _GRPC_UNIMPLEMENTED, text)


def _protobuf(status: int, message: Message) -> web.Response:
    return web.Response(body=message.SerializeToString(), status=status, content_type=_PROTOBUF)


def _refuse(kind: str, status: int, code: int, error: BusyError) -> web.Response:
    answer = _error(kind, status, code, error.message)
    answer.headers["Retry-After"] = str(math.ceil(error.retry_after_s))
    return answer


def _error(kind: str, status: int, code: int, message: str) -> web.Response:
    """Return a ``google.rpc.Status`` in the sender's own format, as the specification asks."""
    if kind == _PROTOBUF:
        return _protobuf(status, Status(code=code, message=message))
    return web.Response(text=json.dumps({"code": code, "message": message}), status=status, content_type=_JSON)
