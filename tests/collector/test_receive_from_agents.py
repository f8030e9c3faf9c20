"""The project's exporter against its receivers, over real sockets: each protocol and compression, spans that are too large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from freezeframe._config import load_settings
from freezeframe._instrument import make_collector_exporter
from freezeframe.export.delivery import CollectorExporter
from freezeframe.export.export_queue import BatchDeadline, BatchResult
from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord


def exporter_to(collector: Any, protocol: str, compression: str = "none") -> CollectorExporter:
    port = collector.grpc_port if protocol == "grpc" else collector.http_port
    given = {"endpoint": f"http://127.0.0.1:{port}", "protocol": protocol, "compression": compression}
    return make_collector_exporter(load_settings(given, environ={}))


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_batch_arrives_whole_over_every_protocol_and_compression(
    protocol: str, compression: str, start_collector: Callable[..., Any], make_span: Callable[..., SpanRecord]
) -> None:
    collector = start_collector()
    exporter = exporter_to(collector, protocol, compression)
    sent = [make_span(number, {"text": "grüße " * 1000, "raw": b"\xff\x00", "list": ("a", "b")}) for number in range(20)]
    assert exporter.export(sent, BatchDeadline(10)) == BatchResult(delivered=20)
    exporter.close()
    collector.flush()
    stored = {span.span_id: span.attributes for span in collector.store.spans}
    assert stored == {span.span_id: span.attributes for span in sent}


@pytest.mark.proof
@pytest.mark.long
@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_span_of_twenty_megabytes_arrives_whole(
    protocol: str, start_collector: Callable[..., Any], make_span: Callable[..., SpanRecord]
) -> None:
    collector = start_collector()
    exporter = exporter_to(collector, protocol)
    body = "x" * (20 << 20)
    assert exporter.export([make_span(1, {genai.REQUEST_BODY: body})], BatchDeadline(20)) == BatchResult(delivered=1)
    exporter.close()
    collector.flush()
    assert collector.store.spans[0].attributes[genai.REQUEST_BODY] == body


@pytest.mark.long
@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_what_is_over_the_collectors_limit_is_sent_smaller_and_says_so(
    protocol: str, start_collector: Callable[..., Any], make_span: Callable[..., SpanRecord]
) -> None:
    collector = start_collector(max_bytes=1 << 20)
    exporter = exporter_to(collector, protocol)
    body = "x" * (3 << 20)
    batch = [make_span(1), make_span(2, {genai.REQUEST_BODY: body}), make_span(3)]
    assert exporter.export(batch, BatchDeadline(20)) == BatchResult(delivered=3)
    exporter.close()
    collector.flush()
    stored = {span.span_id: span for span in collector.store.spans}
    assert len(stored) == 3
    why = stored[batch[1].span_id].attributes[genai.REQUEST_BODY_OMITTED]
    assert "over the receiver's limit" in str(why)
    assert f"{len(body)} bytes, sha256 " in str(why)
