"""OTLP over gRPC, on grpcio's channel with our own encoding of the spans. Needs the extra ``freezeframe[grpc]``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

from freezeframe.export.delivery import DeliveryError, Destination, Refused, TooLarge, TryAgain, Unreachable, show_token
from freezeframe.export.otlp_http import HOW_TO_GET_IN, rejected_spans
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.installing import install_command
from freezeframe_schemas.lifecycle import COLLECTOR_HEADER

_METHOD: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_MAX_MESSAGE_BYTES: Final = 256 * 1024 * 1024
_RETRYABLE: Final = frozenset({"CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS"})
_STATUS_DETAILS: Final = "grpc-status-details-bin"
_RETRY_INFO: Final = "google.rpc.RetryInfo"


class GrpcWire:
    """One channel, opened at the first batch and again after a fork: a channel does not survive a fork."""

    def __init__(self, to: Destination) -> None:
        try:
            import grpc
        except ImportError:
            raise ConfigError("protocol grpc: grpcio is not installed", do=install_command("grpc")) from None
        from urllib.parse import urlsplit

        parts = urlsplit(to.endpoint)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 4317
        self.target = f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"
        self.is_collector: bool | None = None
        self._own = to.own
        self._secure = parts.scheme == "https"
        self._tls = to.tls
        self._metadata = tuple((name.lower(), value) for name, value in to.headers)
        codings: dict[str, Any] = {"gzip": grpc.Compression.Gzip, "deflate": grpc.Compression.Deflate}
        self._compression = codings.get(to.encoding, grpc.Compression.NoCompression)
        self._channel: Any = None
        self._parents: list[Any] = []
        """Channels of the parent process: never used, never closed: closing would wait for threads that do not exist here."""
        self._pid = os.getpid()

    def send(self, body: bytes, timeout_s: float) -> int:
        """Make one call."""
        import grpc
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

        try:
            call = self._connect().unary_unary(_METHOD, response_deserializer=ExportTraceServiceResponse.FromString)
        except OSError as error:  # a certificate or key is just being renewed
            raise TryAgain(f"{type(error).__name__}: {error}") from error
        try:
            token = self._local_token()
            answer, ended = call.with_call(body, timeout=timeout_s, metadata=(*self._metadata, *token))
            self.is_collector = any(name == COLLECTOR_HEADER for name, _ in ended.trailing_metadata() or ())
            return rejected_spans(answer)
        except grpc.RpcError as error:
            explained = self._explain(error, len(body))
            if isinstance(explained, TryAgain):
                self.close()  # a channel that could not connect does not try again for up to two minutes
            raise explained from error

    def _local_token(self) -> Iterable[tuple[str, str]]:
        """Look up the token for each batch: the collector may have started after this process."""
        if any(name == "authorization" for name, _ in self._metadata):
            return ()
        return [(name.lower(), value) for name, value in show_token(self._host, self._port, self._own).items()]

    def _explain(self, error: Any, size: int) -> DeliveryError:
        """Return the consequence of a failed call for the batch."""
        code = getattr(error.code(), "name", "UNKNOWN")
        reason = f"{code}: {(error.details() or '')[:200]}{HOW_TO_GET_IN if code == 'UNAUTHENTICATED' else ''}"
        delay_s = retry_delay_s(error.trailing_metadata() or ())
        if code in _RETRYABLE:
            return TryAgain(reason, delay_s, is_down="failed to connect" in reason)
        if code == "RESOURCE_EXHAUSTED":
            if delay_s is not None:  # without RetryInfo the specification does not allow a retry
                return TryAgain(reason, delay_s)
            if "larger than max" in reason:
                return TooLarge(f"{self.target}: {reason}, {size} bytes")
        return Refused(reason) if code == "INVALID_ARGUMENT" else Unreachable(reason)

    def _connect(self) -> Any:
        import grpc

        if self._pid != os.getpid():
            self._parents.append(self._channel)
            self._channel, self._pid = None, os.getpid()
        if self._channel is None:
            # By default a new channel goes on where another one to the same address gave up.
            options = [("grpc.max_send_message_length", _MAX_MESSAGE_BYTES), ("grpc.use_local_subchannel_pool", 1)]
            if self._secure:
                credentials = self._tls.channel_credentials()
                self._channel = grpc.secure_channel(self.target, credentials, options, compression=self._compression)
            else:
                self._channel = grpc.insecure_channel(self.target, options, compression=self._compression)
        return self._channel

    def close(self) -> None:
        if self._channel is not None and self._pid == os.getpid():
            self._channel.close()
            self._channel = None


def retry_delay_s(metadata: Iterable[tuple[str, str | bytes]]) -> float | None:
    """Return the delay of the RetryInfo in a call's trailing metadata, or None.

    The messages of ``google.rpc`` are read field by field: they are not part of protobuf itself, and only one number is needed.

    Source: google/rpc/status.proto (details = 3), google/protobuf/any.proto (type_url = 1, value = 2),
    google/rpc/error_details.proto (RetryInfo.retry_delay = 1), google/protobuf/duration.proto (seconds = 1, nanos = 2).
    """
    for name, value in metadata:
        if name != _STATUS_DETAILS or not isinstance(value, bytes):
            continue
        for detail in _fields(value, 3):
            if any(url.decode("utf-8", "replace").endswith(_RETRY_INFO) for url in _fields(detail, 1)):
                for delay in (delay for info in _fields(detail, 2) for delay in _fields(info, 1)):
                    return sum(_fields(delay, 1)) + sum(_fields(delay, 2)) / 1_000_000_000
                return 0.0  # a zero delay is not written
    return None


def _fields(message: bytes, number: int) -> list[Any]:
    """Return the values of one field of a protobuf message whose type is not known here."""
    from google.protobuf.empty_pb2 import Empty
    from google.protobuf.unknown_fields import UnknownFieldSet

    return [field.data for field in UnknownFieldSet(Empty.FromString(message)) if field.field_number == number]
