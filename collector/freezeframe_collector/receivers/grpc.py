"""OTLP over gRPC.

Source: OTLP 1.x specification, "OTLP/gRPC": ``partial_success``, retryable statuses, RetryInfo.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsPartialSuccess, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTracePartialSuccess, ExportTraceServiceResponse

from freezeframe_collector.admission import SMALL_BYTES, BusyError, ByteBudget, Lease
from freezeframe_collector.pipeline import Decoder, Outcome, Pipeline
from freezeframe_collector.receivers.compression import decompress
from freezeframe_collector.settings.auth import Authenticator, UnauthenticatedError
from freezeframe_collector.settings.config import GrpcConfig
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.lifecycle import COLLECTOR_HEADER
from freezeframe_schemas.otlp.decode import decode_traces

_TRACES: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_LOGS: Final = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
_METRICS: Final = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
_EMPTY_ANSWER: Final = ExportTraceServiceResponse().SerializeToString()

_WATCH_S: Final = 0.005
"""Interval between two counts of the received bytes, and so the time in which more than the limit may arrive."""
_PAUSE_SHARE: Final = 10
"""Ratio of the pause after a count to the count's CPU time: counting takes at most a tenth of a core."""
_SLOW_S: Final = 2.0
_WINDOW_BYTES: Final = 65_536
"""Bytes of a message that gRPC takes before the handler asks for it."""
_CONNECTIONS_REMEMBERED: Final = 4_096
_THREADS_THAT_READ: Final = 240
_MAX_READING: Final = 192
"""Calls whose message may be on its way at once. One more ends the oldest, so that a thread is always free for a new call."""
_STREAMS_PER_CONNECTION: Final = 64
_ENCODINGS: Final = {0x1F: "gzip", 0x78: "deflate"}
"""Compression by first byte: an OTLP request in protobuf begins with neither."""
_Messages = Iterator[bytes]
_Handler = Callable[[_Messages, grpc.ServicerContext], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """A call whose message is on its way."""

    since: float
    connection: str
    sender: str


class _Receiving:
    """Bounds the messages that are on their way in.

    A call takes room once its message has arrived. Before that its connection holds the bytes received, which
    are counted every few milliseconds; if there is no room for them, the connection's calls end. If they cannot
    be counted (macOS), a call holds the maximum size of a message, from `_SLOW_S` on. The calls are bounded by
    number too, so that a thread is free for each: the oldest of too many ends, and so does one whose message
    does not arrive in time. Messages arrive still compressed, so that the decompressed bytes are counted.
    """

    def __init__(self, budget: ByteBudget, max_message_bytes: int, timeout_s: float) -> None:
        self._budget = budget
        self._max_message_bytes = max_message_bytes
        self._timeout_s = timeout_s
        self._waiting: dict[grpc.ServicerContext, _Waiting] = {}
        self._unfinished = Unfinished()
        self._leases: dict[str, Lease] = {}
        """Connection -> its lease for unfinished messages."""
        self._begun = threading.Event()
        """Set while calls wait."""
        self._stopped = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="freezeframe-grpc-watch", daemon=True)
        self.port = 0

    def lease(self, context: grpc.ServicerContext, tenant: str) -> Lease:
        """Return the room that the call's message will take."""
        return self._budget.lease(f"{context.peer().rpartition(':')[0]} {tenant}")

    def receive(self, messages: _Messages, context: grpc.ServicerContext, lease: Lease) -> bytes:
        """Return the request's one message, decompressed.

        Raises:
            BusyError: there was no room for it.
            WireError: the message is missing, or does not decompress.
        """
        message = self._next(messages, context, lease.peer)
        lease.grow(len(message))
        plain = decompress(message, _ENCODINGS.get(message[0], "") if message else "", self._max_message_bytes, lease.grow)
        lease.pin()
        return plain

    def _next(self, messages: _Messages, context: grpc.ServicerContext, sender: str) -> bytes:
        connection = context.peer()
        with self._watched(context, _Waiting(since=time.monotonic(), connection=connection, sender=sender)):
            for message in messages:
                self._unfinished.took(connection, len(message))
                return message
        raise WireError("the request holds no message")

    def start(self, port: int) -> None:
        """Watch the connections to `port`."""
        self.port = port
        self._watcher.start()

    def stop(self) -> None:
        """End the watcher."""
        self._stopped.set()
        self._begun.set()

    @contextmanager
    def _watched(self, context: grpc.ServicerContext, call: _Waiting) -> Generator[None]:
        waiting = self._waiting.copy()
        if len(waiting) >= _MAX_READING:
            min(waiting, key=lambda one: waiting[one].since).cancel()
        self._waiting[context] = call
        self._begun.set()
        try:
            yield
        finally:
            del self._waiting[context]

    def _watch(self) -> None:
        pause_s = _WATCH_S
        while self._begun.wait() and not self._stopped.wait(pause_s):
            self._begun.clear()
            if self._waiting or self._leases:
                self._begun.set()
            before, pause_s = time.monotonic() - pause_s, _WATCH_S
            if (
                self._leases
                or any(call.since < before for call in self._waiting.copy().values())
                or len(self._unfinished) > _CONNECTIONS_REMEMBERED
            ):
                began = time.thread_time()
                self._bound()
                pause_s += _PAUSE_SHARE * (time.thread_time() - began)

    def _bound(self) -> None:
        """Charge each connection for its unfinished messages, and end the calls that exceed the limit."""
        received = received_bytes(self.port)
        calls: dict[str, dict[grpc.ServicerContext, _Waiting]] = {}
        for context, call in self._waiting.copy().items():
            calls.setdefault(call.connection, {})[context] = call
        came = self._unfinished.count(received, {peer: len(own) * self._max_message_bytes for peer, own in calls.items()})
        now = time.monotonic()
        for peer in self._leases.keys() - calls.keys():
            self._budget.end(self._leases.pop(peer))
        for peer, own in calls.items():
            slow = sum(now - call.since > _SLOW_S for call in own.values())
            lease = self._leases.get(peer) or self._budget.lease(next(iter(own.values())).sender)
            has_room = lease.hold(came.get(peer, slow * self._max_message_bytes))
            if has_room:
                self._leases[peer] = lease
            else:
                self._leases.pop(peer, None)
                self._unfinished.dropped(peer, came.get(peer, 0))
            for context, call in own.items():
                if not has_room or now - call.since > self._timeout_s:
                    context.cancel()


def refuse(context: grpc.ServicerContext, error: BusyError) -> NoReturn:
    """Answer RESOURCE_EXHAUSTED with the delay in both trailers that senders look at.

    ``grpc-status-details-bin`` is the specification's; opentelemetry-python reads ``google.rpc.retryinfo-bin``. The status is
    not UNAVAILABLE: on that its exporter rebuilds the channel.
    """
    delay = Duration()
    delay.FromNanoseconds(int(error.retry_after_s * 1e9))
    info = RetryInfo(retry_delay=delay)
    detail = AnyMessage()
    detail.Pack(info)
    code, _ = grpc.StatusCode.RESOURCE_EXHAUSTED.value
    status = Status(code=code, message=error.message, details=[detail])
    context.set_trailing_metadata(
        (
            ("grpc-status-details-bin", status.SerializeToString()),
            ("google.rpc.retryinfo-bin", info.SerializeToString()),
        )
    )
    context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, error.message)


class _Services(grpc.GenericRpcHandler):
    """Routes the OTLP methods; messages pass as bytes, so that only the pipeline parses them.

    They are served as streams of one message, which is the same on the wire, so that the handler decides when it is read.
    """

    def __init__(self, pipeline: Pipeline, authenticator: Authenticator, receiving: _Receiving, workers: int) -> None:
        self._turns = threading.BoundedSemaphore(workers)
        self._turns_of_large = threading.BoundedSemaphore(max(1, workers // 4))
        self._pipeline = pipeline
        self._authenticator = authenticator
        self._receiving = receiving
        handlers: dict[str, _Handler] = {_TRACES: self._traces, _LOGS: self._logs, _METRICS: self._metrics}
        self._methods = {path: grpc.stream_unary_rpc_method_handler(handler) for path, handler in handlers.items()}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return self._methods.get(handler_call_details.method)

    def _traces(self, messages: _Messages, context: grpc.ServicerContext) -> bytes:
        outcome = self._export(messages, context, decode_traces)
        context.set_trailing_metadata(((COLLECTOR_HEADER, "1"),))
        if not outcome.rejected:
            return _EMPTY_ANSWER
        partial = ExportTracePartialSuccess(rejected_spans=outcome.rejected, error_message=outcome.message)
        return ExportTraceServiceResponse(partial_success=partial).SerializeToString()

    def _logs(self, messages: _Messages, context: grpc.ServicerContext) -> bytes:
        outcome = self._export(messages, context, self._pipeline.decode_events)
        if not outcome.rejected:
            return _EMPTY_ANSWER
        partial = ExportLogsPartialSuccess(rejected_log_records=outcome.rejected, error_message=outcome.message)
        return ExportLogsServiceResponse(partial_success=partial).SerializeToString()

    def _export(self, messages: _Messages, context: grpc.ServicerContext, decode: Decoder) -> Outcome:
        try:
            tenant = self._authenticator.tenant_of(_authorization(context))
            with self._receiving.lease(context, tenant) as lease:
                body = self._receiving.receive(messages, context, lease)
                with self._turns if len(body) <= SMALL_BYTES else self._turns_of_large:
                    return self._pipeline.export(body, tenant=tenant, decode=decode)
        except UnauthenticatedError as error:
            self._pipeline.meter.add(unauthenticated=1)
            context.abort(grpc.StatusCode.UNAUTHENTICATED, error.message)
        except BusyError as error:
            refuse(context, error)
        except WireError as error:
            self._pipeline.meter.add(malformed=1)
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, error.message)

    def _metrics(self, messages: _Messages, context: grpc.ServicerContext) -> bytes:
        del messages
        self._pipeline.meter.add(metrics_refused=1)
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "freezeframe keeps traces and log events; send metrics elsewhere")


def _authorization(context: grpc.ServicerContext) -> str | None:
    for name, value in context.invocation_metadata() or ():
        if name == "authorization":
            return value if isinstance(value, str) else None
    return None


class GrpcReceiver:
    """A running gRPC server."""

    def __init__(
        self,
        config: GrpcConfig,
        pipeline: Pipeline,
        authenticator: Authenticator,
        receiving: ByteBudget,
        credentials: grpc.ServerCredentials | None = None,
        *,
        shares_port: bool = False,
    ) -> None:
        self._credentials = credentials
        self._receiving = _Receiving(receiving, config.max_message_bytes, config.read_timeout_s)
        options = [
            ("grpc.max_receive_message_length", config.max_message_bytes),
            ("grpc.so_reuseport", int(shares_port)),  # two collectors on one port is a mistake that should show
            ("grpc.per_message_decompression", 0),  # `decompress` bounds what comes out
            ("grpc.max_concurrent_streams", _STREAMS_PER_CONNECTION),
            ("grpc.http2.lookahead_bytes", _WINDOW_BYTES),
            ("grpc.http2.bdp_probe", 0),  # it would let a connection send megabytes before anyone asks for them
            ("grpc.server_handshake_timeout_ms", 10_000),
            ("grpc.max_connection_idle_ms", 300_000),  # senders open another without a loss
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ]
        self._server = grpc.server(
            futures.ThreadPoolExecutor(_THREADS_THAT_READ + config.workers, thread_name_prefix="freezeframe-grpc"),
            handlers=[_Services(pipeline, authenticator, self._receiving, config.workers)],
            options=options,
        )
        self._address = f"{config.host}:{config.port}"
        self.port = 0

    def start(self) -> None:
        """Listen.

        Raises:
            RuntimeError: the port is taken.
        """
        if self._credentials is None:
            self.port = self._server.add_insecure_port(self._address)
        else:
            self.port = self._server.add_secure_port(self._address, self._credentials)
        self._server.start()
        self._receiving.start(self.port)

    def stop(self, grace_s: float) -> None:
        """Accept no new requests; wait for the ones in progress up to `grace_s`."""
        self._server.stop(grace_s).wait(grace_s + 1.0)
        self._receiving.stop()


# -- How much has arrived of gRPC messages that are not complete -------------------------------------------------------
# gRPC does not show a message before it is complete, but the kernel counts the bytes of each connection: the
# bytes received, less the messages taken, are unfinished. Only Linux counts them (``tcp_info``, since 4.1).


_TCP_INFO: Final = 11
_BYTES_RECEIVED: Final = struct.Struct("128xQ")
"""The field ``tcpi_bytes_received``. Source: Linux, include/uapi/linux/tcp.h."""
_FRAMING: Final = 64
"""Frames, headers and TLS: an extra byte per this many of a message, and `_HEAD` per call. Too high on purpose: see `count`."""
_HEAD: Final = 1024


class Unfinished:
    """Counts the bytes of unfinished messages, by connection."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: dict[str, int] = {}
        """Connection -> its bytes that belong to no unfinished message."""

    def __len__(self) -> int:
        """Return how many connections are remembered; `count` forgets those that are closed."""
        return len(self._taken)

    def took(self, peer: str, size_bytes: int) -> None:
        """Note that a message arrived."""
        with self._lock:
            self._taken[peer] = self._taken.get(peer, 0) + size_bytes + size_bytes // _FRAMING + _HEAD

    def dropped(self, peer: str, size_bytes: int) -> None:
        """Note that a connection's calls ended, and the number of bytes of their messages."""
        with self._lock:
            self._taken[peer] = self._taken.get(peer, 0) + size_bytes

    def count(self, received: Mapping[str, int], waiting: Mapping[str, int]) -> dict[str, int]:
        """Return the unfinished bytes of the connections in `waiting`, which gives the maximum that each may hold.

        Bytes outside messages (pings, for example) count too until the connection has no waiting call. A connection that
        always has one should not be charged for them, so `took` notes more than arrived, capped at what was received.
        """
        with self._lock:
            counted = {
                peer: min(self._taken.get(peer, 0), came) if peer in waiting else came for peer, came in received.items()
            }
            self._taken = counted
        return {peer: min(received[peer] - counted[peer], most) for peer, most in waiting.items() if peer in counted}


def received_bytes(port: int) -> dict[str, int]:
    """Return peer -> bytes received, of this process's connections to its own `port`; nothing if they are not counted.

    **Shape**: peers are written as gRPC writes them, ``ipv4:127.0.0.1:4711``.
    """
    found: dict[str, int] = {}
    for descriptor in _descriptors():
        with contextlib.suppress(OSError, struct.error), _borrowed(descriptor) as one:
            if one.type == socket.SOCK_STREAM and one.family in _INET and one.getsockname()[1] == port:
                info = one.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _BYTES_RECEIVED.size)
                found[_written(*one.getpeername()[:2])] = _BYTES_RECEIVED.unpack(info)[0]
    return found


_INET: Final = (socket.AF_INET, socket.AF_INET6)


def _descriptors() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]
    except FileNotFoundError:
        return []


@contextlib.contextmanager
def _borrowed(descriptor: int) -> Generator[socket.socket]:
    """Read from a socket that gRPC owns, without changing or closing it."""
    one = socket.socket(fileno=descriptor)
    try:
        yield one
    finally:
        one.detach()


def _written(host: str, port: int) -> str:
    plain = host.removeprefix("::ffff:")
    return f"ipv6:%5B{host.replace('%', '%25')}%5D:{port}" if ":" in plain else f"ipv4:{plain}:{port}"
