"""A collector that cannot take more says so in the words that senders understand, and loses nothing."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

import grpc
import httpx
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from hostile_senders import send_unfinished_message
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter

from freezeframe_collector.settings.config import WalConfig
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.span import SpanRecord

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
PROTOBUF = {"content-type": "application/x-protobuf"}


@pytest.fixture
def full(start_collector: Callable[..., Any], make_span: Callable[..., Any]) -> tuple[Any, threading.Event]:
    """Return a collector whose store hangs and whose log is full, and the event that lets the store go on."""
    collector = start_collector(log=WalConfig(flush_interval_s=0.01, max_bytes=2048))
    proceed = threading.Event()

    def hang(spans: Sequence[SpanRecord]) -> None:
        proceed.wait()

    collector.store.fault = hang
    number = 0
    while collector.log.backlog_bytes < 1600:
        collector.pipeline.export(encode_traces([make_span(number)]))
        number += 1
    return collector, proceed


def test_grpc_senders_are_told_when_to_come_back(full: tuple[Any, threading.Event], make_span: Callable[..., Any]) -> None:
    """RESOURCE_EXHAUSTED with RetryInfo in both trailers: the specification's and the one that Python's exporter reads."""
    collector, proceed = full
    body = encode_traces([make_span(number) for number in range(100, 120)])
    with grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}") as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(EXPORT)(body)
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    trailers = dict(error.trailing_metadata())
    status = Status.FromString(trailers["grpc-status-details-bin"])
    info = RetryInfo()
    assert status.details[0].Unpack(info)
    assert info.retry_delay.ToMilliseconds() == 300
    assert RetryInfo.FromString(trailers["google.rpc.retryinfo-bin"]) == info
    proceed.set()


def test_http_senders_are_told_when_to_come_back(full: tuple[Any, threading.Event], make_span: Callable[..., Any]) -> None:
    """429 with Retry-After in whole seconds, and a body in the sender's format."""
    collector, proceed = full
    url = f"http://127.0.0.1:{collector.http_port}/v1/traces"
    body = encode_traces([make_span(number) for number in range(100, 120)])
    response = httpx.post(url, content=body, headers=PROTOBUF)
    assert (response.status_code, response.headers["retry-after"]) == (429, "1")
    assert Status.FromString(response.content).code == 8
    python = {**PROTOBUF, "user-agent": "OTel-OTLP-Exporter-Python/1.38.0"}
    response = httpx.post(url, content=body, headers=python)
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")  # this one loses what is answered with 429
    assert httpx.get(f"http://127.0.0.1:{collector.http_port}/healthz").status_code == 200
    proceed.set()


@pytest.mark.proof
@pytest.mark.parametrize("transport", ["grpc", "http"])
@pytest.mark.long
def test_the_python_exporter_waits_and_then_delivers(full: tuple[Any, threading.Event], transport: str) -> None:
    """Told to wait, the SDK sends again once the store has taken the backlog; the span arrives once."""
    collector, proceed = full
    exporter: SpanExporter
    if transport == "grpc":
        exporter = GrpcExporter(endpoint=f"127.0.0.1:{collector.grpc_port}", insecure=True)
    else:
        exporter = HttpExporter(endpoint=f"http://127.0.0.1:{collector.http_port}/v1/traces")
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    threading.Timer(0.2, proceed.set).start()
    with provider.get_tracer("tests").start_as_current_span("late") as span:
        span.set_attribute("filler", "x" * 1000)
    provider.shutdown()
    collector.flush()
    assert collector.store.names().count("late") == 1


@pytest.mark.proof
@pytest.mark.long
def test_bodies_that_dribble_in_hold_what_they_sent_and_give_it_up(
    start_collector: Callable[..., Any], make_span: Callable[..., Any]
) -> None:
    """Bytes that are only announced hold nothing; a request that has held the most for longest gives way to another one."""
    collector = start_collector(in_flight_bytes=10_000)
    body = encode_traces([make_span(1)])
    url = f"http://127.0.0.1:{collector.http_port}/v1/traces"
    head = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
    with socket.create_connection(("127.0.0.1", collector.http_port)) as slow:
        slow.sendall(head + b"Content-Length: 9999\r\n\r\na")
        while not collector.receiving.used_bytes:
            threading.Event().wait(0.005)
        assert collector.receiving.used_bytes == 1
        assert httpx.post(url, content=body, headers=PROTOBUF).status_code == 200
        slow.sendall(bytes(9_900))
        while collector.receiving.used_bytes < 9_000:
            threading.Event().wait(0.005)
        assert httpx.post(url, content=body, headers=PROTOBUF).status_code == 200
        assert slow.recv(100).startswith(b"HTTP/1.1 429")
    assert collector.receiving.used_bytes == 0


@pytest.mark.proof
@pytest.mark.long
def test_a_body_that_is_too_late_or_too_large_is_answered_in_the_senders_format(
    start_collector: Callable[..., Any], make_span: Callable[..., Any]
) -> None:
    """Late: 503, on which senders try again. Too large: 413, on which they do not. Both bodies are a ``Status``."""
    collector = start_collector(read_timeout_s=0.2, max_bytes=2_000)
    head = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
    with socket.create_connection(("127.0.0.1", collector.http_port)) as slow:
        slow.sendall(head + b"Content-Length: 999\r\n\r\nab")
        status, *headers = iter(slow.makefile("rb").readline, b"\r\n")
    assert status.startswith(b"HTTP/1.1 503")
    assert b"Retry-After: 1\r\n" in headers
    url = f"http://127.0.0.1:{collector.http_port}/v1/traces"
    large = httpx.post(url, content=encode_traces([make_span(1, {"text": "x" * 3_000})]), headers=PROTOBUF)
    assert (large.status_code, large.headers["content-type"]) == (413, "application/x-protobuf")
    assert "the body has more than 2000 bytes" in Status.FromString(large.content).message
    assert collector.budget.used_bytes == 0


@pytest.mark.proof
@pytest.mark.long
def test_silent_grpc_calls_hold_up_nobody(start_collector: Callable[..., Any], make_span: Callable[..., Any]) -> None:
    """Four times as many silent calls as there is room for at their largest, and more than there are workers."""
    collector = start_collector(in_flight_bytes=1 << 20, max_bytes=1 << 20)
    never = threading.Event()

    def silent() -> Iterator[bytes]:
        never.wait()
        yield b""

    with grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}") as channel:
        calls = [channel.stream_unary(EXPORT).future(silent()) for _ in range(40)]
        for number in range(20):
            channel.unary_unary(EXPORT)(encode_traces([make_span(number)]))
        for call in calls:
            call.cancel()
        never.set()
    while collector.receiving.used_bytes:  # a connection holds its bytes until they are counted again
        threading.Event().wait(0.005)
    collector.flush()
    assert len(collector.store.spans) == 20


@pytest.mark.proof
@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts what came of a message")
def test_unfinished_grpc_messages_take_room_by_their_bytes(
    start_collector: Callable[..., Any], make_span: Callable[..., Any]
) -> None:
    """As HTTP bodies do: when there is no room for more, one of them ends, and what it held is free."""
    collector = start_collector(in_flight_bytes=100_000, max_bytes=100_000)
    address = ("127.0.0.1", collector.grpc_port)
    with ThreadPoolExecutor(2) as pool, socket.create_connection(address) as one, socket.create_connection(address) as other:
        first = pool.submit(send_unfinished_message, one, 90_000)
        while collector.receiving.used_bytes < 90_000:
            threading.Event().wait(0.005)
        second = pool.submit(send_unfinished_message, other, 90_000)
        wait([first, second], return_when=FIRST_COMPLETED)
        assert collector.receiving.used_bytes <= 100_000
        with grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}") as channel:
            channel.unary_unary(EXPORT)(encode_traces([make_span(1)]))
        for connection in (one, other):
            connection.shutdown(socket.SHUT_RDWR)
    while collector.receiving.used_bytes:
        threading.Event().wait(0.005)


def test_a_grpc_message_that_does_not_arrive_in_time_is_cancelled(
    start_collector: Callable[..., Any],
) -> None:
    collector = start_collector(read_timeout_s=0.05)
    never = threading.Event()

    def silent() -> Iterator[bytes]:
        never.wait()
        yield b""

    with grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}") as channel:
        assert channel.stream_unary(EXPORT).future(silent()).exception() is not None
        never.set()


def test_the_byte_budget_bounds_what_is_in_work(start_collector: Callable[..., Any], make_span: Callable[..., Any]) -> None:
    """While requests fill the budget another one waits a moment, then is refused; after they are done it is taken."""
    proceed, entered = threading.Event(), threading.Event()

    def slow(span: SpanRecord, tenant: str) -> SpanRecord:
        entered.set()
        proceed.wait()
        return span

    from freezeframe_collector.pipeline import Stage

    collector = start_collector(stages=(Stage(name="slow", apply=slow),), in_flight_bytes=100)
    first = threading.Thread(target=collector.pipeline.export, args=(encode_traces([make_span(1)]),))
    first.start()
    entered.wait()
    url = f"http://127.0.0.1:{collector.http_port}/v1/traces"
    second = encode_traces([make_span(2)])
    assert httpx.post(url, content=second, headers=PROTOBUF).status_code == 429
    proceed.set()
    first.join()
    assert httpx.post(url, content=second, headers=PROTOBUF).status_code == 200
    assert (collector.budget.used_bytes, collector.budget.refused) == (0, 1)
