"""The way to a collector: compression, what each answer means, requested delays, batches that are too large, forks."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
import time_machine
from bare_spans import bare_span
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from otlp_receiver import Receiver

from freezeframe import _guard
from freezeframe._config import load_settings
from freezeframe._instrument import make_collector_exporter
from freezeframe.export.compression import make_compression
from freezeframe.export.delivery import CollectorExporter, Unreachable
from freezeframe.export.export_queue import BatchDeadline, BatchResult
from freezeframe_schemas import genai
from freezeframe_schemas.installing import install_command
from freezeframe_schemas.span import Scope, SpanRecord


def span(number: int, body: str = "") -> SpanRecord:
    attributes = {genai.REQUEST_BODY: body} if body else {}
    return bare_span(attributes, span_id=f"{number:016x}", name=f"span {number}", scope=Scope(name="test"))


def exporter_to(url: str, **options: Any) -> CollectorExporter:
    return make_collector_exporter(load_settings({"endpoint": url, **options}, environ={}))


class Waits(BatchDeadline):
    """A deadline that notes how long it is asked to wait, and does not."""

    def __init__(self, timeout_s: float = 1000.0) -> None:
        super().__init__(timeout_s)
        self.waited: list[float] = []

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


class GrpcCollector(trace_service_pb2_grpc.TraceServiceServicer):
    """A collector made with grpcio, with its usual limit of 4 MiB per message; fails as `failures` say, then accepts."""

    def __init__(self) -> None:
        self.failures: list[Callable[[grpc.ServicerContext], None]] = []
        self.names: list[str] = []
        self.spans: list[Any] = []
        self.answer = trace_service_pb2.ExportTraceServiceResponse()
        self.port = 0
        self.start()
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen; on the same port as before, once there was one."""
        self._server = grpc.server(futures.ThreadPoolExecutor(2))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        self._server.start()

    def Export(self, request: Any, context: Any) -> Any:
        if self.failures:
            self.failures.pop(0)(context)
        self.spans += [one for r in request.resource_spans for s in r.scope_spans for one in s.spans]
        self.names = [one.name for one in self.spans]
        return self.answer

    def stop(self) -> None:
        self._server.stop(0).wait()


@pytest.fixture
def collector() -> Iterator[GrpcCollector]:
    running = GrpcCollector()
    yield running
    running.stop()


def fails(code: grpc.StatusCode, delay_s: float | None = None) -> Callable[[Any], None]:
    """Return a failure with that code, with RetryInfo if a delay is given."""

    def fail(context: Any) -> None:
        if delay_s is not None:
            status = Status(code=code.value[0], message="later")
            delay = Duration(seconds=int(delay_s), nanos=int(delay_s % 1 * 1e9))
            status.details.add().Pack(RetryInfo(retry_delay=delay))
            context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(code, "later")

    return fail


# -- compression --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["none", "gzip", "deflate", "zstd"])
def test_a_compressed_batch_says_how_and_can_be_read(name: str, receiver: Receiver) -> None:
    exporter = exporter_to(receiver.url, compression=name)
    assert exporter.export([span(1, "x" * 100_000)], BatchDeadline(5)) == BatchResult(delivered=1)
    exporter.close()
    assert receiver.headers[0].get("content-encoding", "none") == name
    assert (int(receiver.headers[0]["content-length"]) < 1000) == (name != "none")


def test_zstd_that_is_not_installed_becomes_gzip_and_is_said(monkeypatch: pytest.MonkeyPatch, receiver: Receiver) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert install_command("zstd") in make_compression("zstd", "http/protobuf").notice
    exporter = exporter_to(receiver.url, compression="zstd")
    assert exporter.export([span(1)], BatchDeadline(5)) == BatchResult(delivered=1)
    exporter.close()
    assert receiver.headers[0]["content-encoding"] == "gzip"


def test_zstd_over_grpc_becomes_gzip_and_is_said(collector: GrpcCollector) -> None:
    assert "not zstd" in make_compression("zstd", "grpc").notice
    exporter = exporter_to(collector.url, protocol="grpc", compression="zstd")
    assert exporter.export([span(1)], BatchDeadline(5)) == BatchResult(delivered=1)
    exporter.close()


# -- HTTP ---------------------------------------------------------------------------------------------------------------


def test_the_delay_that_the_collector_asks_for_is_kept(receiver: Receiver) -> None:
    receiver.statuses, receiver.retry_after = [429, 503], "17"
    exporter, deadline = exporter_to(receiver.url), Waits()
    assert exporter.export([span(1)], deadline) == BatchResult(delivered=1)
    exporter.close()
    assert deadline.waited == [17.0, 17.0]


@pytest.mark.parametrize(("at", "waits"), [("Sat, 28 Nov 2026 12:00:17 GMT", 17.0), ("Sat, 28 Nov 2026 11:59:00 GMT", 0.0)])
def test_the_time_that_the_collector_names_is_kept(at: str, waits: float, receiver: Receiver) -> None:
    receiver.statuses, receiver.retry_after = [429, 503], at
    exporter, deadline = exporter_to(receiver.url), Waits()
    with time_machine.travel("2026-11-28T12:00:00Z", tick=False):
        assert exporter.export([span(1)], deadline) == BatchResult(delivered=1)
    exporter.close()
    assert deadline.waited == [waits, waits]


def test_a_connection_that_is_cut_is_made_again(receiver: Receiver) -> None:
    """Before an answer, and in the middle of one; and a kept connection that the collector closed meanwhile."""
    receiver.faults = [
        lambda handler: None,
        lambda handler: handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"),
    ]
    exporter, deadline = exporter_to(receiver.url), Waits()
    assert exporter.export([span(1)], deadline) == BatchResult(delivered=1)
    assert len(deadline.waited) == 2
    receiver.stop()
    receiver.start()
    assert exporter.export([span(2)], deadline) == BatchResult(delivered=1)
    exporter.close()
    assert receiver.names == ["span 1", "span 2"]


def test_without_a_delay_the_waits_grow_and_are_not_in_step(receiver: Receiver) -> None:
    receiver.statuses = [502] * 6
    exporter, deadline = exporter_to(receiver.url), Waits()
    exporter.export([span(1)], deadline)
    exporter.close()
    assert deadline.waited[:3] == sorted(deadline.waited[:3])
    assert deadline.waited[0] == 1.0
    assert 6.0 < deadline.waited[-1] <= 8.0
    assert len(set(deadline.waited)) == 6


@pytest.mark.parametrize("status", [400, 415, 422])
def test_a_batch_that_is_wrong_is_not_tried_again(status: int, receiver: Receiver) -> None:
    receiver.statuses = [status]
    exporter, deadline = exporter_to(receiver.url), Waits()
    assert exporter.export([span(1), span(2)], deadline).failed == 2
    exporter.close()
    assert deadline.waited == []


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_collector_that_takes_nothing_from_us_is_named_at_once(status: int, receiver: Receiver) -> None:
    receiver.statuses = [status]
    exporter, deadline = exporter_to(receiver.url), Waits()
    with pytest.raises(Unreachable, match=rf"127.0.0.1:\d+/v1/traces: answered {status}"):
        exporter.export([span(1)], deadline)
    exporter.close()
    assert deadline.waited == []


def test_a_batch_over_the_limit_is_halved_until_it_fits(receiver: Receiver) -> None:
    receiver.limit_bytes = 25_000
    exporter = exporter_to(receiver.url)
    assert exporter.export([span(number, "x" * 10_000) for number in range(9)], BatchDeadline(5)) == BatchResult(delivered=9)
    exporter.close()
    assert receiver.names == [f"span {number}" for number in range(9)]


def test_a_span_over_the_limit_goes_without_its_bodies_and_names_the_reason(receiver: Receiver) -> None:
    receiver.limit_bytes = 25_000
    exporter = exporter_to(receiver.url)
    assert exporter.export([span(1, "x" * 50_000)], BatchDeadline(5)) == BatchResult(delivered=1)
    exporter.close()
    attributes = {item.key: item.value.string_value for item in receiver.spans[0].attributes}
    assert attributes[genai.REQUEST_BODY] == ""
    assert "answered 413" in attributes[genai.REQUEST_BODY_OMITTED]
    assert "50000 bytes, sha256" in attributes[genai.REQUEST_BODY_OMITTED]


def test_a_span_that_is_too_large_without_bodies_is_counted_as_lost(receiver: Receiver) -> None:
    receiver.limit_bytes = 10
    exporter = exporter_to(receiver.url)
    assert exporter.export([span(1, "x" * 50_000)], BatchDeadline(5)).failed == 1
    exporter.close()


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_forked_child_has_a_connection_of_its_own(
    protocol: str, receiver: Receiver, collector: GrpcCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = exporter_to(collector.url if protocol == "grpc" else receiver.url, protocol=protocol)
    wire: Any = exporter._wire
    assert exporter.export([span(1)], BatchDeadline(5)) == BatchResult(delivered=1)
    parents = wire._connection if protocol != "grpc" else wire._channel
    child = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: child)
    assert exporter.export([span(2)], BatchDeadline(5)) == BatchResult(delivered=1)
    assert (wire._connection if protocol != "grpc" else wire._channel) is not parents
    exporter.close()
    parents.close()


# -- over both --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Both:
    """A receiver and how to reach it, over one of the protocols."""

    exporter: Callable[..., CollectorExporter]
    is_slow_once: Callable[[], None]
    rejects: Callable[[int, str], None]
    names: Callable[[], list[str]]


@pytest.fixture(params=["http/protobuf", "grpc"])
def either(request: pytest.FixtureRequest) -> Both:
    def answer(spans: int, why: str) -> Any:
        partial = trace_service_pb2.ExportTracePartialSuccess(rejected_spans=spans, error_message=why)
        return trace_service_pb2.ExportTraceServiceResponse(partial_success=partial)

    if request.param == "grpc":
        collector: GrpcCollector = request.getfixturevalue("collector")

        def hang_until_given_up(context: Any) -> None:
            given_up = threading.Event()
            context.add_callback(given_up.set)
            given_up.wait()
            context.abort(grpc.StatusCode.CANCELLED, "too late")

        return Both(
            exporter=functools.partial(exporter_to, collector.url, protocol="grpc"),
            is_slow_once=lambda: collector.failures.append(hang_until_given_up),
            rejects=lambda spans, why: setattr(collector, "answer", answer(spans, why)),
            names=lambda: collector.names,
        )
    receiver: Receiver = request.getfixturevalue("receiver")
    return Both(
        exporter=functools.partial(exporter_to, receiver.url),
        is_slow_once=lambda: receiver.faults.append(lambda handler: handler.connection.recv(1)),
        rejects=lambda spans, why: setattr(receiver, "answer", answer(spans, why).SerializeToString()),
        names=lambda: receiver.names,
    )


@pytest.mark.long  # waits for a time limit
def test_a_request_that_takes_too_long_is_sent_again(either: Both) -> None:
    either.is_slow_once()
    exporter, deadline = either.exporter(request_timeout_s=0.3), Waits()
    assert exporter.export([span(1)], deadline) == BatchResult(delivered=1)
    exporter.close()
    assert len(deadline.waited) == 1
    assert either.names() == ["span 1"]


@pytest.mark.parametrize(("rejected", "failed"), [(1, 1), (2, 2), (1000, 2), (-1, 0)])
def test_spans_that_the_collector_rejects_are_counted_with_its_reason(
    rejected: int, failed: int, either: Both, caplog: pytest.LogCaptureFixture
) -> None:
    """Not more than there were, whatever it says; and they are not sent again."""
    either.rejects(rejected, "no room for these")
    exporter = either.exporter()
    fate = exporter.export([span(1), span(2)], BatchDeadline(5))
    exporter.close()
    assert (fate.delivered, fate.failed) == (2 - failed, failed)
    assert either.names() == ["span 1", "span 2"]
    assert failed == 0 or "no room for these" in caplog.text


def test_what_the_collector_remarks_on_a_batch_that_it_took_is_logged_once(
    either: Both, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_guard, "_reported", set[str]())
    either.rejects(0, "this endpoint goes away in March")
    exporter = either.exporter()
    for number in range(2):
        assert exporter.export([span(number)], BatchDeadline(5)) == BatchResult(delivered=1)
    exporter.close()
    assert caplog.text.count("this endpoint goes away in March") == 1


# -- gRPC ---------------------------------------------------------------------------------------------------------------


def test_the_delay_of_a_retry_info_is_kept(collector: GrpcCollector) -> None:
    exhausted, unavailable = grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE
    collector.failures = [fails(exhausted, 2.5), fails(unavailable, 0.0), fails(unavailable)]
    exporter, deadline = exporter_to(collector.url, protocol="grpc"), Waits()
    assert exporter.export([span(1)], deadline) == BatchResult(delivered=1)
    exporter.close()
    assert deadline.waited[:2] == [2.5, 0.0]
    assert len(deadline.waited) == 3


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.INTERNAL]
)
def test_what_the_specification_forbids_to_retry_is_not(code: grpc.StatusCode, collector: GrpcCollector) -> None:
    collector.failures = [fails(code)]
    exporter, deadline = exporter_to(collector.url, protocol="grpc"), Waits()
    with pytest.raises(Unreachable, match=code.name):
        exporter.export([span(1)], deadline)
    exporter.close()
    assert deadline.waited == []


def test_an_invalid_batch_is_lost_and_counted(collector: GrpcCollector) -> None:
    collector.failures = [fails(grpc.StatusCode.INVALID_ARGUMENT)]
    exporter = exporter_to(collector.url, protocol="grpc")
    assert exporter.export([span(1)], BatchDeadline(5)).failed == 1
    exporter.close()


@pytest.mark.proof
@pytest.mark.long
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_receiver_of_four_mebibytes_gets_all_spans(compression: str, collector: GrpcCollector) -> None:
    exporter, deadline = exporter_to(collector.url, protocol="grpc", compression=compression), Waits()
    bodies = [1 << 20, 1 << 20, 3 << 20, 6 << 20, 10]
    batch = [span(number, "x" * size) for number, size in enumerate(bodies)]  # the limit is on what is decompressed
    assert exporter.export(batch, deadline) == BatchResult(delivered=5)
    exporter.close()
    kept = [len({item.key: item.value.string_value for item in one.attributes}[genai.REQUEST_BODY]) for one in collector.spans]
    assert kept == [1 << 20, 1 << 20, 3 << 20, 0, 10]
    assert deadline.waited == []


class Restarts(Waits):
    """Brings the collector back while the exporter waits to try again."""

    def __init__(self, collector: GrpcCollector) -> None:
        super().__init__()
        self._collector = collector

    def wait(self, seconds: float) -> None:
        super().wait(seconds)
        if len(self.waited) == 1:
            self._collector.stop()
            self._collector.start()


def test_a_collector_that_is_back_is_reached_at_once(collector: GrpcCollector) -> None:
    """By another exporter, too: grpcio keeps the time of the next attempt to connect for each address."""
    collector.stop()
    for _ in range(2):
        exporter, deadline = exporter_to(collector.url, protocol="grpc"), Restarts(collector)
        assert exporter.export([span(1)], deadline) == BatchResult(delivered=1)
        exporter.close()
        assert len(deadline.waited) == 1
        collector.stop()


def test_a_call_that_is_cut_is_made_again(collector: GrpcCollector) -> None:
    """The collector goes away in the middle of it, and is back when the exporter tries again."""

    def go_away(context: Any) -> None:
        gone = threading.Event()
        context.add_callback(gone.set)
        threading.Thread(target=collector.stop).start()
        gone.wait()
        context.abort(grpc.StatusCode.CANCELLED, "gone")

    collector.failures = [go_away]
    exporter, deadline = exporter_to(collector.url, protocol="grpc"), Restarts(collector)
    assert exporter.export([span(1)], deadline) == BatchResult(delivered=1)
    exporter.close()
    assert collector.names == ["span 1"]


def test_an_address_of_version_six_keeps_its_brackets() -> None:
    exporter = exporter_to("http://[::1]:1", protocol="grpc")
    with pytest.raises(Unreachable, match=r"^\[::1\]:1: "):
        exporter.export([span(1)], BatchDeadline(0))
    exporter.close()


def test_a_collector_that_is_down_is_named(collector: GrpcCollector) -> None:
    collector.stop()
    exporter = exporter_to(collector.url, protocol="grpc")
    with pytest.raises(Unreachable, match=rf"127.0.0.1:{collector.port}"):
        exporter.export([span(1)], BatchDeadline(0))
    exporter.close()
