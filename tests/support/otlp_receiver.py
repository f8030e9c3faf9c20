"""An OTLP/HTTP receiver on loopback: decodes what it gets, answers as it is told, can be stopped and started on its port."""

from __future__ import annotations

import gzip
import threading
import zlib
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

import zstandard
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Receiver:
    """Answers with `statuses` first (with `retry_after`), then 200; refuses bodies over `limit_bytes` with 413.

    Before that, each of `faults` spoils one request.
    """

    def __init__(self, *, limit_bytes: int = 1 << 30) -> None:
        self.statuses: list[int] = []
        self.faults: list[Callable[[BaseHTTPRequestHandler], object]] = []
        self.retry_after = "0"
        self.answer = b""
        """The body of what it answers with 200, an ``ExportTraceServiceResponse``."""
        self.limit_bytes = limit_bytes
        self.requests: list[ExportTraceServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.port = 0
        self.changed = threading.Condition()
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def spans(self) -> list[Any]:
        return [span for request in self.requests for r in request.resource_spans for s in r.scope_spans for span in s.spans]

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.spans]

    def wait_until(self, is_enough: Callable[[], bool]) -> None:
        """Wait for requests until there are enough; the test's own time limit bounds it."""
        with self.changed:
            self.changed.wait_for(is_enough)

    def save(self, folder: Path) -> Path:
        """Write what came as files of OTLP; return their folder."""
        folder.mkdir()
        for number, request in enumerate(self.requests):
            (folder / f"{number:04}.pb").write_bytes(request.SerializeToString())
        return folder

    def start(self) -> None:
        """Listen; on the same port as before, once there was one."""
        handler = type("Handler", (_Handler,), {"receiver": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Refuse every later connection."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> Receiver:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


class _Handler(BaseHTTPRequestHandler):
    receiver: Receiver
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        receiver = self.receiver
        if receiver.faults:
            receiver.faults.pop(0)(self)
            self.close_connection = True
            return
        status = receiver.statuses.pop(0) if receiver.statuses else 413 if len(body) > receiver.limit_bytes else 200
        if status == 200:
            plain = _plain(body, self.headers.get("content-encoding"))
            with receiver.changed:
                receiver.requests.append(ExportTraceServiceRequest.FromString(plain))
                receiver.headers.append({name.lower(): value for name, value in self.headers.items()})
                receiver.changed.notify_all()
        answer = receiver.answer if status == 200 else b""
        self.send_response(status)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        if status in (429, 503):
            self.send_header("retry-after", receiver.retry_after)
        self.end_headers()
        self.wfile.write(answer)


def _plain(body: bytes, encoding: str | None) -> bytes:
    match encoding:
        case "gzip":
            return gzip.decompress(body)
        case "deflate":
            return zlib.decompress(body)
        case "zstd":
            return zstandard.ZstdDecompressor().decompress(body)
        case _:
            return body
