"""OTLP over gRPC, with the OpenTelemetry project's exporter for the channel and our encoding of the spans.

Needs the extra ``freezeframe[grpc]``. Batches stay below the protocol's usual limit of 4 MiB a message except where one span
alone is larger; our collector takes those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from freezeframe._export import Deadline
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.span import SpanRecord

_METHOD: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_MAX_MESSAGE_BYTES: Final = 256 * 1024 * 1024
_RETRYABLE: Final = frozenset({"CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "UNAVAILABLE", "DATA_LOSS", "RESOURCE_EXHAUSTED"})


class GrpcExporter:
    """Sends batches over one channel, made at the first batch: a channel does not survive a fork."""

    def __init__(self, *, endpoint: str, headers: Sequence[tuple[str, str]], compression: str) -> None:
        try:
            import grpc
        except ImportError:
            raise ConfigError("protocol grpc: grpcio is not installed", do="pip install 'freezeframe[grpc]'") from None
        from urllib.parse import urlsplit

        parts = urlsplit(endpoint)
        self._target = f"{parts.hostname}:{parts.port or 4317}"
        self._secure = parts.scheme == "https"
        self._metadata = tuple((name.lower(), value) for name, value in headers)
        self._compression: Any = grpc.Compression.Gzip if compression == "gzip" else grpc.Compression.NoCompression
        self._channel: Any = None

    def export(self, records: Sequence[SpanRecord], deadline: Deadline) -> None:
        """Send one batch; try again while the collector is down or busy, as long as the deadline allows."""
        import grpc

        from freezeframe._otlp import encode_request

        body = encode_request(records)
        wait_s = 0.5
        while True:
            try:
                self._call()(body, timeout=max(0.1, min(10.0, deadline.left_s)), metadata=self._metadata)
            except grpc.RpcError as error:
                code: Any = getattr(error, "code", lambda: None)()
                wait_s = min(wait_s * 2, 8.0)
                if getattr(code, "name", "") not in _RETRYABLE or deadline.left_s < 0:
                    raise ConnectionError(f"{self._target}: {getattr(code, 'name', error)}") from error
                deadline.wait(min(wait_s, deadline.left_s))
            else:
                return

    def _call(self) -> Any:
        import grpc

        if self._channel is None:
            options = [("grpc.max_send_message_length", _MAX_MESSAGE_BYTES)]
            if self._secure:
                credentials = grpc.ssl_channel_credentials()
                self._channel = grpc.secure_channel(self._target, credentials, options, compression=self._compression)
            else:
                self._channel = grpc.insecure_channel(self._target, options, compression=self._compression)
        return self._channel.unary_unary(_METHOD)

    def close(self) -> None:
        """Close the channel."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
