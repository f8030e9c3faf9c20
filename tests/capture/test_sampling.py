"""Sampling: a run is kept whole or not at all, the same in every process, and failed ones if that is asked for."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider

import freezeframe
from freezeframe import _instrument, seams
from freezeframe._config import load_settings
from freezeframe.export import sampling as _sampling
from freezeframe.export.sampling import HeldRuns, RunSampler, RunSampling, remote_parent
from freezeframe.export.tracing import make_provider
from freezeframe.testing import MemoryExporter
from freezeframe_schemas.lifecycle import replace_pending
from freezeframe_schemas.run import build_run
from freezeframe_schemas.span import SpanRecord

Runs = dict[str, list[SpanRecord]]


class Recording:
    """Recording into memory with a share of runs kept; on freezeframe's provider or on the user's."""

    def __init__(self, *, ours: bool, **options: Any) -> None:
        self.exporter = MemoryExporter()
        settings = load_settings({"root": "never", **options}, environ={})
        sampling = RunSampling(share=settings.sample, keep_errors=settings.sample_errors)
        self.provider = make_provider("shop", RunSampler(sampling)) if ours else TracerProvider()
        self.handle = _instrument.start_recording(settings, self.exporter, provider=self.provider, environment=dict)
        seams.install()

    @property
    def runs(self) -> Runs:
        self.handle.flush(10)
        found: Runs = {}
        for record in replace_pending(self.exporter.records):
            found.setdefault(record.trace_id, []).append(record)
        return found


@pytest.fixture(params=["our provider", "the user's provider"])
def ours(request: pytest.FixtureRequest) -> bool:
    return request.param == "our provider"


@pytest.fixture
def recording(ours: bool) -> Iterator[Any]:
    started: list[Recording] = []

    def start(**options: Any) -> Recording:
        started.append(Recording(ours=ours, **options))
        return started[-1]

    yield start
    for one in started:
        one.handle.uninstrument()


@freezeframe.tool
def step(number: int, *, fails: bool = False) -> int:
    if fails:
        raise ValueError(number)
    return number


@freezeframe.run
def agent(*, fails: bool = False) -> int:
    step(1)
    with suppress(ValueError):
        step(2, fails=fails)
    return step(3)


@pytest.mark.proof
@pytest.mark.long
def test_a_run_is_kept_whole_or_not_at_all(recording: Any) -> None:
    running: Recording = recording(sample=0.5)
    for _ in range(60):
        assert agent() == 3
    assert {len(spans) for spans in running.runs.values()} == {4}
    assert 10 < len(running.runs) < 50


@pytest.mark.parametrize(("share", "kept"), [(0.0, 0), (1.0, 10)])
def test_none_and_all(recording: Any, share: float, kept: int) -> None:
    running: Recording = recording(sample=share)
    for _ in range(10):
        agent()
    assert len(running.runs) == kept


def test_a_run_with_an_id_is_kept_or_not_by_its_id(recording: Any) -> None:
    running: Recording = recording(sample=0.5)
    for number in range(40):
        for _ in range(2):  # the second time is another trace, as in another process
            with freezeframe.run("turn", id=f"ticket-{number}"):
                step(number)
    ids = [build_run(spans).entry.run_id for spans in running.runs.values()]
    assert {ids.count(one) for one in ids} == {2}
    first_bits = {f"ticket-{number}": hashlib.sha256(f"ticket-{number}".encode()).digest()[0] for number in range(40)}
    assert set(ids) == {one for one, byte in first_bits.items() if byte < 128}


def test_an_error_keeps_the_whole_run(recording: Any) -> None:
    running: Recording = recording(sample=0.0, sample_errors=True)
    agent()
    agent(fails=True)
    agent()
    assert [len(spans) for spans in running.runs.values()] == [4]
    assert len(build_run(next(iter(running.runs.values()))).exchanges) == 3


def test_without_the_option_an_error_changes_nothing(recording: Any) -> None:
    running: Recording = recording(sample=0.0)
    agent(fails=True)
    assert running.runs == {}


def test_what_ends_after_a_failed_run_is_kept_with_it(recording: Any) -> None:
    running: Recording = recording(sample=0.0, sample_errors=True)
    tracer = running.provider.get_tracer("app")
    late: list[Any] = []
    with pytest.raises(ValueError), freezeframe.run("turn"):
        late.append(tracer.start_span("late"))
        step(1, fails=True)
    late[0].end()
    assert sorted(span.name for spans in running.runs.values() for span in spans) == ["execute_tool step", "late", "turn"]


@pytest.mark.parametrize("sampled", [True, False])
def test_below_a_remote_parent_its_decision_holds(recording: Any, sampled: bool) -> None:
    running: Recording = recording(sample=0.0 if sampled else 0.999)
    remote = trace.SpanContext(7 << 64 | 7, 9, is_remote=True, trace_flags=trace.TraceFlags(int(sampled)))
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(remote)))
    try:
        agent()
    finally:
        context.detach(token)
    assert [len(spans) for spans in running.runs.values()] == ([4] if sampled else [])


def test_runs_that_wait_are_bounded_and_the_latest_errors_are_kept(recording: Any) -> None:
    running: Recording = recording(sample=0.0, sample_errors=True, max_queue_bytes=20_000)
    with pytest.raises(ValueError), freezeframe.run("long"):
        for number in range(50):
            step(number)
        step(0, fails=True)
    agent(fails=True)
    assert [len(spans) for spans in running.runs.values()] == [4]


def test_the_decision_travels_downstream() -> None:
    """A service that is called from a run that is not kept sees that in the traceparent's flags."""
    for keep_errors in (False, True):
        provider = make_provider("shop", RunSampler(RunSampling(share=0.0, keep_errors=keep_errors)))
        assert provider.sampler.get_description() == "freezeframe.RunSampler"
        span: Any = provider.get_tracer("app").start_span("run", attributes={"order": 7})
        assert dict(getattr(span, "attributes", {})) == ({"order": 7} if keep_errors else {})
        child = provider.get_tracer("app").start_span("call", context=trace.set_span_in_context(span))
        assert not span.get_span_context().trace_flags.sampled
        assert not child.get_span_context().trace_flags.sampled
        assert span.is_recording() == child.is_recording() == keep_errors


@pytest.mark.long
def test_the_option_reaches_the_provider_that_instrument_makes() -> None:
    code = (
        "import freezeframe; from opentelemetry import trace;"
        "freezeframe.instrument(file='/dev/null', root=False, sample=0.25);"
        "print(trace.get_tracer_provider().sampler.get_description())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=400, check=True)
    assert done.stdout.strip() == "freezeframe.RunSampler"


def context_of(trace_id: int, *, is_remote: bool, sampled: bool = True) -> trace.SpanContext:
    return trace.SpanContext(trace_id, 9, is_remote=is_remote, trace_flags=trace.TraceFlags(int(sampled)))


def test_the_share_counts_by_the_low_64_bits_of_the_trace_id() -> None:
    """As the SDK's own ratio sampler, so that both keep the same traces: at a share of 2**-64 that is the number 0 alone."""
    sampling = RunSampling(share=2**-64, keep_errors=False)
    assert [sampling.keeps(number) for number in (0, 7 << 64, 1, 1 << 63)] == [True, True, False, False]
    assert not RunSampling(share=0.0, keep_errors=False).keeps(0)


def test_the_last_runs_are_remembered_and_an_older_one_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sampling, "_REMEMBERED", 2)
    sampling = RunSampling(share=0.0, keep_errors=False)
    for number in (1, 2, 3):
        assert sampling.begin(number, context_of(number, is_remote=True))
        assert sampling.begin(number, context_of(number, is_remote=True, sampled=False)), "the first answer holds"
    assert [sampling.keeps(number) for number in (1, 2, 3)] == [False, True, True]


def test_only_a_valid_parent_in_another_process_is_remote() -> None:
    parents = [context_of(7, is_remote=True), context_of(7, is_remote=False), context_of(0, is_remote=True)]
    found = [remote_parent(trace.set_span_in_context(trace.NonRecordingSpan(parent))) for parent in parents]
    assert found == [parents[0], None, None]


def test_what_waits_fills_the_bound_and_one_byte_more_drops_the_oldest_run(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def note(place: str, *_: object) -> None:
        said.append(place)

    monkeypatch.setattr(_sampling, "log_once", note)
    held = HeldRuns[str](10)
    assert [held.add(run, f"{run}", 5, failed=True, ends=False) for run in (1, 2)] == [[], []]
    assert said == []
    assert held.add(3, "3", 1, failed=False, ends=False) == []
    assert said == ["sampling.held"]
    assert held.add(1, "late", 1, failed=True, ends=True) == [], "it gave way, whole"
    assert held.add(2, "end", 1, failed=False, ends=True) == ["2", "end"]
    assert held.add(3, "end", 1, failed=False, ends=True) == []
    assert held.add(4, "4", 10, failed=False, ends=False) == []
    assert said == ["sampling.held"], "what ended makes room"


def test_what_comes_late_goes_the_way_of_its_run_as_long_as_that_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sampling, "_REMEMBERED", 2)
    held = HeldRuns[str](100)
    for run in (1, 2, 3):
        assert held.add(run, "end", 1, failed=True, ends=True) == ["end"]
    assert [held.add(run, "late", 1, failed=False, ends=False) for run in (1, 2, 3)] == [[], ["late"], ["late"]]
