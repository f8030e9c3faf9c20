"""Destinations of spans: OTLP over HTTP, and the special needs of each backend."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from freezeframe_replay.sources.http_door import credentials, deliver, headers_in
from freezeframe_schemas.address import shown_address
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.span import SpanRecord

HEADERS_VARIABLE: Final = "FREEZEFRAME_EXPORT_HEADERS"
"""Headers of the requests, in the form of ``OTEL_EXPORTER_OTLP_HEADERS``, whose own value must not go to every receiver."""
_PATH: Final = "/v1/traces"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A backend that takes OTLP over HTTP."""

    form: str
    """Form of its URL."""
    path: str = _PATH
    """Of the requests."""
    headers: Callable[[str], Mapping[str, str]] = lambda named: {}
    """Name in the path of the URL (a project, an experiment) -> headers."""
    resource: Callable[[str], Mapping[str, str]] = lambda named: {}
    """Likewise -> attributes of the resource."""
    named_by_path: bool = True


OTLP: Final = Endpoint(form="http://HOST:4318", named_by_path=False)
PHOENIX: Final = Endpoint(
    form="http://HOST:6006/PROJECT", resource=lambda named: {"openinference.project.name": named or "default"}
)
MLFLOW: Final = Endpoint(form="http://HOST:5000/EXPERIMENT_ID", headers=lambda named: {"x-mlflow-experiment-id": named or "0"})
LANGFUSE: Final = Endpoint(form="https://PUBLIC_KEY:SECRET_KEY@HOST", path="/api/public/otel/v1/traces")
LANGSMITH: Final = Endpoint(
    form="https://HOST/PROJECT", path="/otel/v1/traces", headers=lambda named: {"Langsmith-Project": named} if named else {}
)


@dataclass(slots=True, kw_only=True)
class Sender:
    """Sends spans to one backend."""

    endpoint: Endpoint
    url: str
    """As typed: the credentials in it become a header, and are never shown."""
    environ: Mapping[str, str]
    rejected: int = 0
    """Spans that the backend did not accept, by its answer."""
    pause: Callable[[float], None] = time.sleep
    _sent: int = field(default=0, init=False)

    def send(self, spans: Sequence[SpanRecord]) -> None:
        """Send spans, again if the backend is busy.

        Raises:
            PermanentStoreError: it refuses them.
            RetryableStoreError: it does not answer, or stays busy.
        """
        parts = urlsplit(self.url)
        named = unquote(parts.path.strip("/")) if self.endpoint.named_by_path else ""
        extra = self.endpoint.resource(named)
        body = encode_traces([_with_resource(span, extra) for span in spans] if extra else spans)
        headers = {
            "content-type": "application/x-protobuf",
            **credentials(self.url),
            **self.endpoint.headers(named),
            **headers_in(self.environ, HEADERS_VARIABLE),
        }
        request = urllib.request.Request(self._address(parts), data=body, headers=headers)  # noqa: S310 - http or https, as the command checks
        again = f"{self._sent:,} spans were accepted before it; you can repeat the command, because spans keep their ids. "
        again += f"A backend's key goes into {HEADERS_VARIABLE}=authorization=Bearer%20KEY"
        self.rejected += rejected_spans(deliver(request, what=shown_address(request.full_url), again=again, pause=self.pause))
        self._sent += len(spans)

    def _address(self, parts: SplitResult) -> str:
        base = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        if self.endpoint.named_by_path:
            return base + self.endpoint.path
        path = parts.path.rstrip("/")
        return base + (path if path.endswith(_PATH) else path + _PATH)


def _with_resource(span: SpanRecord, extra: Mapping[str, str]) -> SpanRecord:
    return replace(span, resource=replace(span.resource, attributes={**span.resource.attributes, **extra}))


def rejected_spans(body: bytes) -> int:
    """Return the number of spans not accepted, from a protobuf answer; other answers do not have it."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    try:
        return ExportTraceServiceResponse.FromString(body).partial_success.rejected_spans
    except DecodeError:
        return 0
