"""Delivery: what reaches a collector, what happens while it is down, and what other exporters see."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any

import httpx
import pytest
from capture_provider import Provider
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once

import freezeframe
from freezeframe import _instrument, seams
from freezeframe._config import load_settings
from freezeframe.testing import MemoryExporter, capture
from freezeframe_schemas import genai
from freezeframe_schemas.lifecycle import COLLECTOR_HEADER


class Collector:
    """An OTLP/HTTP receiver that answers with `statuses` first, then 200."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.names: list[str] = []
        self.requests: list[ExportTraceServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.is_ours = False
        """It answers as a freezeframe collector does, not as any backend."""
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
                """Keep quiet."""

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                status = collector.statuses.pop(0) if collector.statuses else 200
                if status == 200:
                    request = ExportTraceServiceRequest.FromString(body)
                    collector.requests.append(request)
                    collector.headers.append({name.lower(): value for name, value in self.headers.items()})
                    collector.names += [s.name for r in request.resource_spans for x in r.scope_spans for s in x.spans]
                self.send_response(status)
                self.send_header("content-length", "0")
                if collector.is_ours:
                    self.send_header(COLLECTOR_HEADER, "1")
                if status == 429:
                    self.send_header("retry-after", "0")
                self.end_headers()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def collector() -> Iterator[Collector]:
    running = Collector()
    yield running
    running.stop()


def recording_to(url: str, environ: dict[str, str] | None = None, **options: Any) -> freezeframe.Handle:
    """Record into a collector with a separate provider, so that the process's global one stays unset.

    `environ`: variables that name the address instead.
    """
    from freezeframe.export.tracing import make_provider

    endpoint = None if environ else url
    settings = load_settings(
        {"endpoint": endpoint, "root": "never", "spool": False, "batch_interval_s": 0.01, **options}, environ=environ or {}
    )
    exporter = _instrument.make_exporter(settings)
    handle = _instrument.start_recording(settings, exporter, provider=make_provider("shop"), environment=dict)
    seams.install()
    return handle


@freezeframe.tool
def work(text: Any) -> Any:
    return text


def test_spans_reach_the_collector_as_otlp(collector: Collector) -> None:
    handle = recording_to(collector.url, headers={"authorization": "Bearer t"})
    work("one")
    assert handle.flush(5)
    handle.uninstrument()
    assert collector.names == ["execute_tool work"]
    assert collector.headers[0]["authorization"] == "Bearer t"
    resource = collector.requests[0].resource_spans[0].resource
    assert {item.key: item.value.string_value for item in resource.attributes}["service.name"] == "shop"


@pytest.mark.parametrize(
    ("variable", "is_ours", "names"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", False, ["execute_tool work", "answer"]),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", True, ["answer", "execute_tool work", "answer"]),
        ("FREEZEFRAME_ENDPOINT", False, ["answer", "execute_tool work", "answer"]),
    ],
)
def test_only_a_collector_is_sent_the_mark_that_a_run_began(
    collector: Collector, variable: str, is_ours: bool, names: list[str]
) -> None:
    """The standard variable may name any backend, so the receiver is asked; our own names a collector, or the way to one."""
    collector.is_ours = is_ours
    handle = recording_to("", {variable: collector.url})

    @freezeframe.run
    def answer(question: str) -> str:
        return work(question)

    assert answer("why?") == "why?"
    assert handle.flush(5)
    handle.uninstrument()
    assert collector.names == names
    assert handle.counts is not None
    assert (handle.counts.exported, handle.counts.lost) == (3, 0)


@pytest.mark.proof
@pytest.mark.long
def test_a_busy_collector_is_asked_again_and_nothing_is_lost(collector: Collector) -> None:
    collector.statuses = [429, 503]
    handle = recording_to(collector.url)
    work("one")
    assert handle.flush(10)
    handle.uninstrument()
    assert collector.names == ["execute_tool work"]
    assert handle.counts is not None
    assert (handle.counts.exported, handle.counts.failed) == (1, 0)


def test_a_refused_batch_is_counted_and_said_and_the_next_one_goes(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    collector.statuses = [400]
    handle = recording_to(collector.url)
    work("refused")
    handle.flush(5)
    work("taken")
    handle.flush(5)
    with caplog.at_level(logging.WARNING, logger="freezeframe"):
        handle.uninstrument()
    assert handle.counts is not None
    assert (handle.counts.exported, handle.counts.failed) == (1, 1)
    assert "1 could not be sent" in caplog.text


def test_batches_are_cut_by_bytes(collector: Collector) -> None:
    handle = recording_to(collector.url, batch_bytes=50_000, batch_interval_s=5.0)
    for _ in range(10):
        work("x" * 20_000)
    handle.flush(10)
    handle.uninstrument()
    assert len(collector.names) == 10
    assert len(collector.requests) >= 5


def test_a_full_queue_drops_and_counts_and_the_application_goes_on(collector: Collector) -> None:
    class Stuck(MemoryExporter):
        def __init__(self) -> None:
            super().__init__()
            self.free = threading.Event()

        def export(self, records: Any, deadline: Any) -> Any:
            self.free.wait()
            return super().export(records, deadline)

    from freezeframe.export.tracing import make_provider

    exporter = Stuck()
    settings = load_settings({"max_queue_bytes": 100_000, "batch_interval_s": 0.0, "root": "never"}, environ={})
    handle = _instrument.start_recording(settings, exporter, provider=make_provider("x"), environment=dict)
    assert [len(work("x" * 10_000)) for _ in range(30)] == [10_000] * 30
    exporter.free.set()
    handle.flush(10)
    handle.uninstrument()
    assert handle.counts is not None
    assert handle.counts.dropped > 10
    assert handle.counts.dropped + handle.counts.exported == 30


def test_values_that_otlp_cannot_carry_lose_nothing_else(collector: Collector) -> None:
    handle = recording_to(collector.url)
    work({"lone": "\ud800", "huge": 2**80, "nan": float("nan"), "bytes": b"\xff"})
    work("after")
    assert handle.flush(5)
    handle.uninstrument()
    assert collector.names == ["execute_tool work"] * 2


def test_the_users_provider_and_its_exporters_go_on_beside_ours(provider: Provider) -> None:
    theirs = InMemorySpanExporter()
    users = TracerProvider(span_limits=SpanLimits(max_span_attribute_length=50))
    users.add_span_processor(SimpleSpanProcessor(theirs))
    ours = MemoryExporter()
    settings = load_settings({"root": "never"}, environ={})
    handle = _instrument.start_recording(settings, ours, provider=users, environment=dict)
    seams.install()
    with users.get_tracer("app").start_as_current_span("request"):
        body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "x" * 500}]}
        httpx.post(f"{provider.url}/v1/chat/completions", json=body)
    handle.flush(5)
    handle.uninstrument()
    seen = {span.name: span for span in theirs.get_finished_spans()}
    assert set(seen) == {"request", "chat gpt-4o"}
    assert (seen["chat gpt-4o"].attributes or {})[genai.REQUEST_MODEL] == "gpt-4o"
    assert genai.REQUEST_BODY not in (seen["chat gpt-4o"].attributes or {})
    mine = {record.name: record for record in ours.records}
    assert len(mine["chat gpt-4o"].text(genai.REQUEST_BODY) or "") > 500
    assert mine["chat gpt-4o"].parent_span_id == mine["request"].span_id


def test_a_run_that_is_not_sampled_leaves_nothing_and_still_works() -> None:
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    ours = MemoryExporter()
    users = TracerProvider(sampler=ALWAYS_OFF)
    handle = _instrument.start_recording(load_settings({"root": "never"}, environ={}), ours, provider=users, environment=dict)
    assert freezeframe.run(work)("x") == "x"
    handle.flush(5)
    handle.uninstrument()
    assert ours.records == []


def test_instrument_twice_is_one_and_uninstrument_puts_everything_back(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # The provider that instrument() sets would be the process's for good, and later tests' MCP clients put spans into it.
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    monkeypatch.setattr("freezeframe._guard._reported", set[str]())
    originals = (httpx.Client._send_single_request, threading.Thread.start)
    first = freezeframe.instrument(file=str(tmp_path / "spans.jsonl"), root=False)
    try:
        assert freezeframe.instrument() is first
        assert "stay in effect" not in caplog.text
        assert freezeframe.instrument(root=False) is first
        assert "the first call's options stay in effect" in caplog.text
        assert httpx.Client._send_single_request is not originals[0]
        states = {row.library: row.state.value for row in freezeframe.doctor()}
        assert states["httpx"] == "captured"
        assert states["websockets"] == "not captured"
    finally:
        first.uninstrument()
    assert (httpx.Client._send_single_request, threading.Thread.start) == originals
    assert isinstance(trace.get_tracer_provider(), TracerProvider)


def test_a_disk_that_cannot_be_written_is_said_and_the_application_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    handle = recording_to("http://127.0.0.1:1", file="/dev/full")
    with caplog.at_level(logging.WARNING, logger="freezeframe"):
        assert work("one") == "one"
        handle.flush(5)
        handle.uninstrument()
    assert handle.counts is not None
    assert (handle.counts.exported, handle.counts.failed) == (0, 1)
    assert "1 could not be sent" in caplog.text


@pytest.mark.proof
@pytest.mark.long
def test_the_export_thread_waits_as_soon_as_all_is_delivered_even_if_the_flusher_is_slow(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With gevent a thread runs on until it waits: one that only looks again and again would be the last to run."""
    waited = threading.Event()
    wait = threading.Condition.wait

    def slow_to_wake(self: threading.Condition, timeout: float | None = None) -> bool:
        if threading.current_thread().name == "freezeframe-export":
            waited.set()
            return wait(self, timeout)
        attempts = iter(range(1000))
        while not (collector.names and waited.is_set()) and next(attempts, None) is not None:
            wait(self, 0.001)
            if not collector.names:
                waited.clear()
        return True

    handle = recording_to(collector.url, batch_interval_s=60)
    work("one")
    monkeypatch.setattr(threading.Condition, "wait", slow_to_wake)
    assert handle.flush(5)
    assert waited.is_set()
    monkeypatch.undo()
    handle.uninstrument()


def test_a_batch_that_is_given_up_at_the_end_is_counted_once_whatever_becomes_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, may_fail = threading.Event(), threading.Event()

    def export(self: MemoryExporter, *_: Any) -> None:
        asked.set()
        assert may_fail.wait(100)
        raise ConnectionError("too late")

    monkeypatch.setattr(MemoryExporter, "export", export)
    settings = load_settings({"root": "never", "batch_interval_s": 0.0, "exit_timeout_s": 0.0}, environ={})
    handle = _instrument.start_recording(settings, MemoryExporter(), provider=TracerProvider(), environment=dict)
    seams.install()
    work("x")
    assert asked.wait(100)
    [exporting] = [thread for thread in threading.enumerate() if thread.name == "freezeframe-export"]
    handle.uninstrument()
    assert handle.counts is not None
    lost = handle.counts.lost
    may_fail.set()
    exporting.join()
    assert (lost, handle.counts.lost) == (1, 1)


def test_the_queue_has_no_thread_while_the_threads_of_the_process_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """As gevent and eventlet do, and usually after `freezeframe run` has turned capture on."""
    seen: list[list[str]] = []

    def monkey_patch() -> str:
        """Replace nothing."""
        work("meanwhile")
        seen.append([thread.name for thread in threading.enumerate() if thread.name == "freezeframe-export"])
        return "patched"

    library: Any = ModuleType("eventlet.patcher")
    library.monkey_patch = monkey_patch
    program: Any = ModuleType("program")
    program.__file__, program.go_green = "program.py", monkey_patch
    monkeypatch.setitem(sys.modules, "eventlet.patcher", library)
    monkeypatch.setitem(sys.modules, "program", program)
    with capture() as captured:
        work("before")
        captured.handle.watch_green_threads()
        assert program.go_green() == library.monkey_patch() == "patched"
        work("after")
        names = [span.name for span in captured.spans]
    assert seen == [[], []]
    assert names == ["execute_tool work"] * 4
    assert program.go_green is library.monkey_patch is monkey_patch


def test_a_forked_child_starts_no_threads_of_ours_and_of_our_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between ``fork`` and ``exec`` a thread that starts lets other greenlets run, which go on with the program and fork."""

    start = threading.Thread.start

    def by_others_only(thread: threading.Thread) -> None:
        """Start it unless our provider wants it."""
        frame = sys._getframe(1)
        while frame := frame.f_back:
            if frame.f_locals.get("self") is captured.provider:
                os._exit(1)
        start(thread)

    with capture() as captured:
        resource = captured.provider.resource
        work("before")
        monkeypatch.setattr(threading.Thread, "start", by_others_only)
        child = os.fork()
        if not child:
            os._exit(0 if captured.provider.resource.attributes.keys() == resource.attributes.keys() else 2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        monkeypatch.undo()


@pytest.mark.long
def test_a_run_of_ten_thousand_spans_arrives_whole(collector: Collector) -> None:
    handle = recording_to(collector.url)

    @freezeframe.run
    def agent() -> None:
        for number in range(10_000):
            work(number)

    agent()
    assert handle.flush(60)
    handle.uninstrument()
    assert len(collector.names) == 10_002  # calls, the entry, and its pending span


def test_a_plain_function_gets_the_id_of_the_call_that_it_answers(provider: Provider) -> None:
    tools = [{"type": "function", "function": {"name": "get_order", "parameters": {}}}]

    @freezeframe.tool
    def get_order(order_id: str) -> str:
        return order_id

    with capture() as captured:
        with freezeframe.run("loop"):
            body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "x"}], "tools": tools}
            answer = httpx.post(f"{provider.url}/v1/chat/completions", json=body).json()
            asked = answer["choices"][0]["message"]["tool_calls"][0]["id"]
            get_order("AC-1")
        exchanges = captured.exchanges
    assert [exchange.call_id for exchange in exchanges] == [None, asked]


def test_the_traces_that_an_sdk_sends_for_itself_are_not_recorded(provider: Provider) -> None:
    with capture(record_hosts=["*"]) as captured:
        httpx.post(f"{provider.url}/v1/traces/ingest", json={})
        httpx.get(f"{provider.url}/other")
        assert [exchange.name for exchange in captured.exchanges] == ["GET /other"]
