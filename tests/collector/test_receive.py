"""OTLP senders are understood, and hear "accepted" only for what is durable."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
import socket
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import zstandard
from google.protobuf.json_format import MessageToDict
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter

from freezeframe.export.delivery import Destination
from freezeframe.export.otlp_grpc import GrpcWire
from freezeframe.export.otlp_http import HttpWire
from freezeframe_collector.settings.config import WalConfig
from freezeframe_schemas import genai
from freezeframe_schemas.otlp.decode import Limits
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.otlp.json_form import spans_to_otlp_json

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
PROTOBUF = {"content-type": "application/x-protobuf"}


def _send_one_span(exporter: SpanExporter) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("tests").start_as_current_span("hello") as span:
        span.set_attribute("answer", 42)
        span.add_event("happened", {"how": "well"})
    provider.shutdown()


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_the_python_grpc_exporter_is_understood(start_collector: Callable[..., Any], compression: grpc.Compression) -> None:
    """A span of the SDK arrives whole, compressed or not."""
    collector = start_collector()
    _send_one_span(GrpcExporter(endpoint=f"127.0.0.1:{collector.grpc_port}", insecure=True, compression=compression))
    collector.flush()
    [span] = collector.store.spans
    assert (span.name, span.attributes, span.scope.name) == ("hello", {"answer": 42}, "tests")
    assert [(event.name, event.attributes) for event in span.events] == [("happened", {"how": "well"})]


@pytest.mark.parametrize("compression", list(Compression))
def test_the_python_http_exporter_is_understood(start_collector: Callable[..., Any], compression: Compression) -> None:
    """A span of the SDK arrives whole over HTTP, compressed or not."""
    collector = start_collector()
    endpoint = f"http://127.0.0.1:{collector.http_port}/v1/traces"
    _send_one_span(HttpExporter(endpoint=endpoint, compression=compression))
    collector.flush()
    assert [(span.name, span.attributes) for span in collector.store.spans] == [("hello", {"answer": 42})]


def _gzip_of_two_members(data: bytes) -> bytes:
    return gzip.compress(data[:20]) + gzip.compress(data[20:])


def _zstd_of_two_frames(data: bytes) -> bytes:
    return zstandard.compress(data[:20]) + zstandard.compress(data[20:])


def _deflate_raw(data: bytes) -> bytes:
    engine = zlib.compressobj(wbits=-15)
    return engine.compress(data) + engine.flush()


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [
        ("identity", bytes),
        ("gzip", gzip.compress),
        ("gzip", _gzip_of_two_members),
        ("deflate", zlib.compress),
        ("deflate", _deflate_raw),
        ("zstd", zstandard.compress),
        ("zstd", _zstd_of_two_frames),
    ],
)
def test_each_content_encoding_is_read(
    start_collector: Callable[..., Any], make_span: Callable[..., Any], encoding: str, compress: Callable[[bytes], bytes]
) -> None:
    """gzip, deflate (both forms that senders use) and zstd give the same span."""
    collector = start_collector()
    body = compress(encode_traces([make_span(1)]))
    response = httpx.post(
        f"http://127.0.0.1:{collector.http_port}/v1/traces", content=body, headers={**PROTOBUF, "content-encoding": encoding}
    )
    assert response.status_code == 200
    assert ExportTraceServiceResponse.FromString(response.content) == ExportTraceServiceResponse()
    collector.flush()
    assert collector.store.spans == [make_span(1)]


@pytest.mark.parametrize(
    ("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("zstd", zstandard.compress)]
)
@pytest.mark.parametrize("rest", [b"x", bytes(300)])
def test_bytes_behind_a_compressed_body_are_refused(
    start_collector: Callable[..., Any],
    make_span: Callable[..., Any],
    encoding: str,
    compress: Callable[[bytes], bytes],
    rest: bytes,
) -> None:
    """They were silently lost after zstd."""
    body = compress(encode_traces([make_span(1)])) + rest
    url = f"http://127.0.0.1:{start_collector().http_port}/v1/traces"
    response = httpx.post(url, content=body, headers={**PROTOBUF, "content-encoding": encoding})
    assert response.status_code == 400
    assert encoding.encode() in response.content


def test_json_is_understood(start_collector: Callable[..., Any], make_span: Callable[..., Any]) -> None:
    """OTLP/JSON gives the same span as protobuf, and is answered in JSON."""
    collector = start_collector()
    url = f"http://127.0.0.1:{collector.http_port}/v1/traces"
    response = httpx.post(url, json=spans_to_otlp_json([make_span(1)]))
    assert (response.status_code, response.json()) == (200, {})
    collector.flush()
    assert collector.store.spans == [make_span(1)]


def test_one_bad_json_span_does_not_take_its_batch(start_collector: Callable[..., Any], make_span: Callable[..., Any]) -> None:
    """The good span lands, the sender hears of the other, and its content is nowhere in the reason."""
    collector = start_collector()
    request = spans_to_otlp_json([make_span(1), make_span(2)])
    request["resourceSpans"][0]["scopeSpans"][0]["spans"][1]["startTimeUnixNano"] = "secret@example.com"
    response = httpx.post(f"http://127.0.0.1:{collector.http_port}/v1/traces", json=request)
    assert response.json()["partialSuccess"]["rejectedSpans"] == "1"
    collector.flush()
    assert collector.store.names() == ["span-000001"]
    assert [item.reason for item in collector.store.rejected] == ["unreadable span"]
    assert "secret" not in str(collector.store.rejected)


def test_half_an_emoji_in_json_is_mended_and_its_span_says_so(
    start_collector: Callable[..., Any], make_span: Callable[..., Any]
) -> None:
    """What ``JSON.stringify`` makes of a cut emoji becomes U+FFFD; whole pairs, escaped backslashes and other spans stay."""
    collector = start_collector()
    spans = [make_span(1, {"text": "HERE"}), make_span(2, {"text": "\ufffd"})]
    body = json.dumps(spans_to_otlp_json(spans)).replace("HERE", r"\ud83d\ude00 \\ud83d cut \ud83d, \ude00")
    for raw in (body.encode(), body.replace(r"cut \ud83d", "cut \x00").encode().replace(b"\x00", b"\xed\xa0\xbd")):
        headers = {"content-type": "application/json"}
        answer = httpx.post(f"http://127.0.0.1:{collector.http_port}/v1/traces", content=raw, headers=headers)
        assert (answer.status_code, answer.json()) == (200, {})
    collector.flush()
    first, second = collector.store.spans[:2]
    assert first.attributes == {"text": "\U0001f600 \\ud83d cut \ufffd, \ufffd", genai.MENDED_TEXTS: 2}
    assert second == spans[1]
    assert collector.log.audit().counts.duplicate == 2  # both forms were repaired into the same spans


def test_a_json_span_nested_too_deeply_costs_only_itself(
    start_collector: Callable[..., Any], make_span: Callable[..., Any]
) -> None:
    """Deeper than the JSON parser itself allows: the other spans land, and the answer says that one was rejected."""
    collector = start_collector()
    deep = '{"stringValue": "x"}'
    for _ in range(300):
        deep = f'{{"kvlistValue": {{"values": [{{"key": "a", "value": {deep}}}]}}}}'
    body = json.dumps(spans_to_otlp_json([make_span(1, {"text": "HERE"}), make_span(2)]))
    body = body.replace('{"stringValue": "HERE"}', deep)
    url = f"http://127.0.0.1:{collector.http_port}/v1/traces"
    answer = httpx.post(url, content=body, headers={"content-type": "application/json"})
    assert answer.json()["partialSuccess"]["rejectedSpans"] == "1"
    collector.flush()
    assert collector.store.spans == [make_span(2)]
    assert [item.reason for item in collector.store.rejected] == ["unreadable span"]


def test_what_a_request_holds_is_counted_before_objects_are_made(start_collector: Callable[..., Any]) -> None:
    """Too many spans or values cost a refusal that names the limit, in JSON and in protobuf."""
    collector = start_collector(limits=Limits(spans=1_000, values=5_000))
    url = f"http://127.0.0.1:{collector.http_port}/v1/traces"
    answer = httpx.post(url, json={"resourceSpans": [[]] * 5_000})
    assert (answer.status_code, answer.json()["message"]) == (
        400,
        "OTLP/JSON: more than 5000 values, the limit is limits.values_per_request",
    )
    assert httpx.post(url, json={"resourceSpans": [], "text": "[{," * 5_000}).status_code == 200  # signs in a text do not count
    empty = ExportTraceServiceRequest()
    empty.resource_spans.add().scope_spans.add().spans.extend([Span()] * 1_001)
    answer = httpx.post(url, content=empty.SerializeToString(), headers=PROTOBUF)
    assert Status.FromString(answer.content).message == "the request has 1001 spans, the limit is 1000"


def test_an_empty_key_may_be_left_out_in_json(start_collector: Callable[..., Any], make_span: Callable[..., Any]) -> None:
    """As any empty field may, among a span's attributes and in a value."""
    collector = start_collector()
    request = spans_to_otlp_json([make_span(1)])
    pair = {"value": {"stringValue": "x"}}
    inner = {"key": "inner", "value": {"kvlistValue": {"values": [pair]}}}
    request["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"] = [pair, inner]
    assert httpx.post(f"http://127.0.0.1:{collector.http_port}/v1/traces", json=request).json() == {}
    collector.flush()
    assert collector.store.spans[0].attributes == {"": "x", "inner": {"": "x"}}


def test_json_logs_say_the_same_as_protobuf(start_collector: Callable[..., Any]) -> None:
    """Recorded GenAI events, sent in both forms: the second time each is a duplicate. One bad record costs only itself."""
    collector = start_collector()
    url = f"http://127.0.0.1:{collector.http_port}/v1/logs"
    [recorded] = sorted((Path(__file__).parents[1] / "data" / "otlp" / "openai-chat-v2old").glob("*.logs.pb"))
    body = recorded.read_bytes()
    assert httpx.post(url, content=body, headers=PROTOBUF).status_code == 200
    request: Any = MessageToDict(ExportLogsServiceRequest.FromString(body))
    for resource_logs in request["resourceLogs"]:
        for scope_logs in resource_logs["scopeLogs"]:
            for record in scope_logs["logRecords"]:
                record |= {name: base64.b64decode(record[name]).hex() for name in ("traceId", "spanId")}
    assert httpx.post(url, json=request).json() == {}
    audit = collector.log.audit().counts
    assert audit.received == 2 * audit.duplicate == 18
    request["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["timeUnixNano"] = "secret@example.com"
    answer = httpx.post(url, json=request).json()
    assert answer["partialSuccess"]["rejectedLogRecords"] == "1"
    assert "secret" not in json.dumps(answer)
    assert httpx.post(url, json={"resourceLogs": 5}).status_code == 400


def _nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"stringValue": "deep"}
    for _ in range(levels):
        value = {"arrayValue": {"values": [value]}}
    return value


@pytest.mark.proof
@pytest.mark.long
@pytest.mark.parametrize("levels", [60, 300])
@pytest.mark.parametrize("place", ["span", "event", "resource", "scope"])
def test_json_that_nests_deeper_than_the_log_can_be_read_is_refused(
    start_collector: Callable[..., Any], make_span: Callable[..., Any], place: str, levels: int
) -> None:
    """JSON has no bound on depth and protobuf has: a span that was acked and could not be read back would stop the writer."""
    collector = start_collector(log=WalConfig(flush_interval_s=0.02, memory_bytes=0))
    request = spans_to_otlp_json([make_span(1)])
    good = spans_to_otlp_json([make_span(2)])["resourceSpans"]
    scope = request["resourceSpans"][0]["scopeSpans"][0]
    holder: dict[str, Any] = {
        "span": scope["spans"][0],
        "event": {"name": "e", "timeUnixNano": "1"},
        "resource": request["resourceSpans"][0]["resource"],
        "scope": scope["scope"],
    }[place]
    holder.setdefault("attributes", []).append({"key": "deep", "value": _nested(levels)})
    if place == "event":
        scope["spans"][0]["events"] = [holder]
    url = f"http://127.0.0.1:{collector.http_port}/v1/traces"
    answer = httpx.post(url, json={"resourceSpans": request["resourceSpans"] + good})
    assert answer.json()["partialSuccess"]["rejectedSpans"] == "1"
    collector.flush()
    assert collector.store.names() == ["span-000002"]
    assert collector.log.audit().missing == 0


@pytest.mark.proof
@pytest.mark.long
@pytest.mark.parametrize("place", ["record", "body", "resource", "scope"])
def test_json_log_records_that_nest_too_deeply_are_refused(start_collector: Callable[..., Any], place: str) -> None:
    """As for spans; a fault above the records costs the request."""
    collector = start_collector(log=WalConfig(flush_interval_s=0.02, memory_bytes=0))
    deep: dict[str, Any] = {"attributes": [{"key": "deep", "value": _nested(60)}]}
    ids: dict[str, Any] = {"traceId": "1" * 32, "spanId": "2" * 16, "timeUnixNano": "1", "eventName": "gen_ai.user.message"}
    record = ids | {"record": deep, "body": {"body": _nested(60)}}.get(place, {})
    scope_logs = {"scope": deep if place == "scope" else {}, "logRecords": [record, ids]}
    content = {"resource": deep if place == "resource" else {}, "scopeLogs": [scope_logs]}
    answer = httpx.post(f"http://127.0.0.1:{collector.http_port}/v1/logs", json={"resourceLogs": [content]})
    if place in ("resource", "scope"):
        assert answer.status_code == 400
        return
    assert answer.json()["partialSuccess"]["rejectedLogRecords"] == "1"
    collector.flush()
    assert collector.store.names() == ["gen_ai.user.message"]


def test_a_damaged_span_does_not_take_its_batch(start_collector: Callable[..., Any], make_span: Callable[..., Any]) -> None:
    """A text that is not UTF-8 costs its own span only; the others land and the sender hears partial_success."""
    collector = start_collector()
    body = encode_traces([make_span(1), make_span(2, name="badbad"), make_span(3)]).replace(b"badbad", b"\xff\xfe\xfdbad")
    with grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}") as channel:
        answer = ExportTraceServiceResponse.FromString(channel.unary_unary(EXPORT)(body))
    assert answer.partial_success.rejected_spans == 1
    assert "not UTF-8" in answer.partial_success.error_message
    collector.flush()
    assert collector.store.names() == ["span-000001", "span-000003"]
    assert [item.span_id for item in collector.store.rejected] == [make_span(2).span_id]


def test_a_span_over_a_limit_is_set_aside(start_collector: Callable[..., Any], make_span: Callable[..., Any]) -> None:
    """An oversize span is rejected with the limit named; its batch lands."""
    collector = start_collector(limits=Limits(span_bytes=10_000, attributes=100))
    large = make_span(2, attributes={"text": "x" * 20_000})
    many = make_span(3, attributes={f"key{n}": n for n in range(101)})
    body = encode_traces([make_span(1), large, many])
    response = httpx.post(f"http://127.0.0.1:{collector.http_port}/v1/traces", content=body, headers=PROTOBUF)
    assert ExportTraceServiceResponse.FromString(response.content).partial_success.rejected_spans == 2
    collector.flush()
    assert collector.store.names() == ["span-000001"]
    assert [item.detail for item in collector.store.rejected] == [
        "the span has 20079 bytes, the limit is 10000",
        "the span has 101 attributes, the limit is 100",
    ]


@pytest.mark.proof
@pytest.mark.long
def test_garbage_is_refused_for_good(start_collector: Callable[..., Any]) -> None:
    """Bytes that are not OTLP are a permanent error on both receivers, in the receiver's own form."""
    collector = start_collector()
    with grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}") as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(EXPORT)(b"\xff\xff\xff")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT  # pyright: ignore[reportAttributeAccessIssue]
    url = f"http://127.0.0.1:{collector.http_port}/v1/traces"
    assert httpx.post(url, content=b"\xff\xff\xff", headers=PROTOBUF).status_code == 400
    assert httpx.post(url, content=b"{", headers={"content-type": "application/json"}).status_code == 400
    assert httpx.post(url, content=b"[]", headers={"content-type": "application/json"}).json()["code"] == 3
    assert httpx.post(url, content=b"x", headers={"content-type": "text/plain"}).status_code == 415


def test_metrics_are_refused_clearly(start_collector: Callable[..., Any]) -> None:
    """Metrics have no home here, and the sender is told so."""
    collector = start_collector()
    with grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}") as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export")(b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED  # pyright: ignore[reportAttributeAccessIssue]
    response = httpx.post(f"http://127.0.0.1:{collector.http_port}/v1/metrics", content=b"", headers=PROTOBUF)
    assert response.status_code == 404
    assert collector.reporter.status()["since_start"] == {"metrics_refused": 2}


@pytest.mark.proof
@pytest.mark.long
def test_a_decompression_bomb_is_refused(start_collector: Callable[..., Any]) -> None:
    """A small body that would fill the memory is refused without being unpacked past the limit."""
    collector = start_collector(max_bytes=1 << 20)
    url = f"http://127.0.0.1:{collector.http_port}/v1/traces"
    zeros = bytes(64 << 20)
    bombs = {"gzip": gzip.compress(zeros), "zstd": zstandard.compress(zeros), "deflate": zlib.compress(zeros)}
    for encoding, bomb in bombs.items():
        response = httpx.post(url, content=bomb, headers={**PROTOBUF, "content-encoding": encoding})
        assert response.status_code == 400, encoding
    with grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}") as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(EXPORT)(zeros, compression=grpc.Compression.Gzip)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT  # pyright: ignore[reportAttributeAccessIssue]


def test_an_empty_request_is_accepted(start_collector: Callable[..., Any]) -> None:
    """The specification asks for success; nothing is written."""
    collector = start_collector()
    response = httpx.post(f"http://127.0.0.1:{collector.http_port}/v1/traces", content=b"", headers=PROTOBUF)
    assert response.status_code == 200
    assert collector.log.audit().counts.received == 0


def test_a_slow_body_does_not_hold_a_worker(start_collector: Callable[..., Any], make_span: Callable[..., Any]) -> None:
    """While one sender is slow, others are served."""
    collector = start_collector()
    with socket.create_connection(("127.0.0.1", collector.http_port)) as slow:
        slow.sendall(
            b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 999\r\n\r\nab"
        )
        url = f"http://127.0.0.1:{collector.http_port}/v1/traces"
        assert httpx.post(url, content=encode_traces([make_span(1)]), headers=PROTOBUF).status_code == 200


def test_pages_answer(start_collector: Callable[..., Any], make_span: Callable[..., Any]) -> None:
    """Health, readiness, metrics, status and flush tell the truth about one span."""
    collector = start_collector()
    base = f"http://127.0.0.1:{collector.http_port}"
    httpx.post(f"{base}/v1/traces", content=encode_traces([make_span(1)]), headers=PROTOBUF)
    assert httpx.post(f"{base}/v1/flush", headers=collector.reader).json() == {"flushed": True}
    assert httpx.get(f"{base}/healthz").text == "ok\n"
    assert httpx.get(f"{base}/readyz").status_code == 200
    assert "freezeframe_collector_spans_stored_total 1\n" in httpx.get(f"{base}/metrics", headers=collector.reader).text
    status = httpx.get(f"{base}/status", headers=collector.reader).json()
    nothing = dict.fromkeys(("duplicate", "rejected", "lost", "damaged", "in_log", "missing"), 0)
    assert status["audit"] == {"received": 1, "stored": 1, **nothing, "balanced": True}
    assert (status["lag_s"], status["rates"]["over_s"]) == (0.0, 0.0)
    collector.reporter.tick()
    httpx.post(f"{base}/v1/traces", content=encode_traces([make_span(2)]), headers=PROTOBUF)
    assert httpx.post(f"{base}/v1/flush", headers=collector.reader).json() == {"flushed": True}
    collector.reporter.tick()
    rates = httpx.get(f"{base}/status", headers=collector.reader).json()["rates"]
    assert rates["received"] == rates["stored"] > 0


def test_metrics_count_what_was_no_request_and_give_bytes_whole(start_collector: Callable[..., Any], tmp_path: Path) -> None:
    """A sender of anything else shows up, whatever is wrong with it; and no figure is rounded to six digits."""
    collector = start_collector(max_bytes=1000)
    url = f"http://127.0.0.1:{collector.http_port}/v1/traces"
    assert httpx.post(url, content=b"\xff" * 9, headers=PROTOBUF).status_code == 400
    assert httpx.post(url, content=b"x", headers={"content-type": "text/csv"}).status_code == 415
    assert httpx.post(url, content=bytes(1001), headers=PROTOBUF).status_code == 413
    with grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}") as channel, pytest.raises(grpc.RpcError):
        channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")(b"\xff" * 9)
    lines = httpx.get(f"http://127.0.0.1:{collector.http_port}/metrics", headers=collector.reader).text.splitlines()
    figures = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert figures["freezeframe_collector_requests_malformed_total"] == "4"
    free = shutil.disk_usage(tmp_path).free
    assert int(figures["freezeframe_collector_log_disk_free_bytes"]) == pytest.approx(free, rel=0.2)
    assert collector.reporter.status()["log"]["disk_free_bytes"] == pytest.approx(free, rel=0.2)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_sender_learns_from_an_empty_request_that_it_talks_to_a_collector(
    start_collector: Callable[..., Any], protocol: str
) -> None:
    """It sends marks of runs that began to no one else."""
    collector = start_collector()
    port = collector.http_port if protocol == "http" else collector.grpc_port
    wire = (HttpWire if protocol == "http" else GrpcWire)(Destination(endpoint=f"http://127.0.0.1:{port}"))
    assert (wire.is_collector, wire.send(b"", 10.0), wire.is_collector) == (None, 0, True)
    wire.close()
