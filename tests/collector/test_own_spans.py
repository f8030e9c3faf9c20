"""The collector's spans about itself: they say what it did, and cause no further ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from freezeframe_collector.batch import Batch
from freezeframe_collector.encoded import encode_spans
from freezeframe_collector.own_spans import SELF, OwnSpans, is_own
from freezeframe_collector.settings.config import WalConfig
from freezeframe_collector.wal.log import Log
from freezeframe_collector.writer import Writer
from freezeframe_schemas.otlp.decode import decode_traces
from freezeframe_schemas.span import SpanRecord


class KeptSpans:
    """A store that keeps everything."""

    def __init__(self) -> None:
        self.spans: list[SpanRecord] = []

    def insert(self, spans: Any, token: str) -> None:
        """Keep the spans."""
        self.spans.extend(spans)

    def insert_rejected(self, rejected: Any, token: str) -> None:
        """Keep nothing."""

    def holds(self, spans: Any) -> bool:
        """Say yes."""
        return True


@pytest.fixture
def endpoint() -> Generator[tuple[str, list[bytes]]]:
    """Return the URL of an OTLP/HTTP endpoint, and the bodies that it was sent."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/traces", bodies
    server.shutdown()
    thread.join()
    server.server_close()


def test_own_spans_in_the_own_store_make_no_further_ones(tmp_path: Path, make_span: Callable[..., SpanRecord]) -> None:
    """A segment of a sender's spans gets a span; the segment that holds this span gets none."""
    log, store = Log(tmp_path / "wal", WalConfig(flush_interval_s=0.01)), KeptSpans()
    own = OwnSpans(SELF, 1.0, log)
    writer = Writer(log, store, tmp_path / "set-aside", own_spans=own)
    writer.start()
    spans = [make_span(number) for number in range(3)]
    log.append(Batch(encoded=encode_spans(spans), spans=spans))
    assert writer.wait_retired(log.seal(), 10.0)
    own.close()
    assert writer.wait_retired(log.seal(), 10.0)
    log.close()
    assert writer.stop(10.0)
    [about] = [span for span in store.spans if is_own(span)]
    assert about.name == "store segment"
    assert about.attributes["spans"] == 3
    assert len(store.spans) == 4
    assert log.audit().missing == 0


@pytest.mark.long
def test_own_spans_go_to_an_endpoint(tmp_path: Path, endpoint: tuple[str, list[bytes]]) -> None:
    """They are OTLP like everyone else's."""
    url, bodies = endpoint
    log = Log(tmp_path / "wal")
    own = OwnSpans(url, 1.0, log)
    assert own.wants_request()
    own.add("take request", 1, {"spans": 2})
    own.close()
    log.close()
    [span] = decode_traces(b"".join(bodies)).spans
    assert (span.name, dict(span.attributes)) == ("take request", {"spans": 2})
    assert log.audit().counts.received == 0


def test_an_endpoint_that_is_away_costs_only_the_own_spans(tmp_path: Path) -> None:
    """They are dropped and counted, and no one waits."""
    log = Log(tmp_path / "wal")
    own = OwnSpans("http://127.0.0.1:1/v1/traces", 0.0, log)
    assert not own.wants_request()
    for _ in range(1_100):
        own.add("take request", 1, {})
    own.close()
    log.close()
    assert own.dropped == 1_100
