"""The writer: what the store refuses, delays or lies about costs at most the span that is at fault."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import time_machine

from freezeframe_collector.pipeline import Stage
from freezeframe_collector.settings.config import StoreConfig, WalConfig
from freezeframe_schemas.errors import PermanentStoreError, RetryableStoreError, WireError
from freezeframe_schemas.otlp.decode import decode_traces
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.span import SpanRecord

Starter = Callable[..., Any]


class Trouble:
    """A store's fault that the test switches."""

    def __init__(self) -> None:
        self.poison: set[str] = set()
        self.failures_left = 0
        self.calls = 0
        self.open = threading.Event()
        self.open.set()
        self.permanent = False

    def __call__(self, spans: Sequence[SpanRecord]) -> None:
        self.calls += 1
        self.open.wait()
        if self.failures_left:
            self.failures_left -= 1
            raise RetryableStoreError("connection refused")
        if self.permanent:
            raise PermanentStoreError("no such table")
        if any(span.name in self.poison for span in spans):
            raise PermanentStoreError("cannot parse a value")


@pytest.fixture
def trouble() -> Trouble:
    """Return a fault that does nothing yet."""
    return Trouble()


def _start(start_collector: Starter, trouble: Trouble, **changes: Any) -> Any:
    collector = start_collector(**changes)
    collector.store.fault = trouble
    return collector


def send(collector: Any, make_span: Callable[..., Any], count: int) -> None:
    """Send so many requests of one span each."""
    for number in range(count):
        collector.pipeline.export(encode_traces([make_span(number)]))


def test_a_store_that_is_down_delays_and_loses_nothing(
    start_collector: Starter, make_span: Callable[..., Any], trouble: Trouble
) -> None:
    """Failures that may pass are tried again; senders are acked from the log all the while."""
    collector = _start(start_collector, trouble)
    trouble.failures_left = 20
    send(collector, make_span, 5)
    collector.flush()
    assert collector.store.names() == [f"span-{number:06d}" for number in range(5)]
    assert collector.writer.state.retries == 20
    assert collector.log.audit().missing == 0


def test_a_store_that_hangs_does_not_hold_the_senders(
    start_collector: Starter, make_span: Callable[..., Any], trouble: Trouble
) -> None:
    """While an insert hangs, requests are acked and the books say that they are in the log."""
    collector = _start(start_collector, trouble)
    trouble.open.clear()
    send(collector, make_span, 5)
    audit = collector.log.audit()
    assert (audit.counts.received, audit.counts.stored, audit.in_log, audit.missing) == (5, 0, 5, 0)
    assert not collector.reporter.flush(0.05)
    trouble.open.set()
    collector.flush()
    assert len(collector.store.spans) == 5


def test_what_comes_while_the_store_is_busy_goes_in_one_insert(
    start_collector: Starter, make_span: Callable[..., Any], trouble: Trouble
) -> None:
    """A store that was away finds one large segment, not one for each flush interval that passed."""
    collector = _start(start_collector, trouble)
    trouble.open.clear()
    send(collector, make_span, 100)
    assert collector.log.segment_count <= 2
    trouble.open.set()
    collector.flush()
    assert len(collector.store.spans) == 100
    assert collector.writer.state.segments <= 3


def test_a_store_that_takes_spans_and_keeps_none_is_not_believed(
    start_collector: Starter, make_span: Callable[..., Any], tmp_path: Path
) -> None:
    """A success is checked: until the spans are shown they stay in the log, and are inserted again under another token."""
    retry = StoreConfig(retry_initial_s=0.001, retry_max_s=0.002, permanent_attempts=2)
    collector = start_collector(retry=retry)
    collector.store.lies_left = 2
    collector.pipeline.export(encode_traces([make_span(number) for number in range(30)]))
    collector.flush()
    assert collector.store.names() == [f"span-{number:06d}" for number in range(30)]
    assert len([token for token in collector.store.tokens if "-again" in token]) == 2
    audit = collector.log.audit()
    assert (audit.counts.stored, audit.missing, audit.in_log) == (30, 0, 0)


def test_a_clock_that_jumps_changes_nothing(start_collector: Starter, make_span: Callable[..., Any], trouble: Trouble) -> None:
    """The wall clock goes back thirty years and on a hundred, between requests and between a failure and the next try."""
    collector = _start(start_collector, trouble)
    trouble.failures_left = 3
    for number, year in enumerate((2026, 1996, 2096, 2026)):
        with time_machine.travel(datetime(year, 1, 1, tzinfo=UTC), tick=True):
            collector.pipeline.export(encode_traces([make_span(number)]))
            collector.pipeline.export(encode_traces([make_span(number)]))
            collector.flush()
    # While a segment is in the writer's hands and waits in the log, too: a hundred years are not a lag.
    trouble.open.clear()
    with time_machine.travel(datetime(1996, 1, 1, tzinfo=UTC), tick=True):
        collector.pipeline.export(encode_traces([make_span(4)]))
        while collector.writer.state.busy_since is None:
            threading.Event().wait(0.001)
    with time_machine.travel(datetime(2096, 1, 1, tzinfo=UTC), tick=True):
        assert collector.reporter.readiness() == ""
        assert 0 < collector.reporter.status()["lag_s"] < 60
    trouble.open.set()
    collector.flush()
    audit = collector.log.audit()
    assert (audit.counts.stored, audit.counts.duplicate, audit.missing) == (5, 4, 0)
    assert collector.reporter.status()["lag_s"] == 0.0


def test_a_log_file_that_the_disk_damaged_does_not_hold_up_those_behind_it(
    start_collector: Starter, make_span: Callable[..., Any], trouble: Trouble
) -> None:
    """What can still be read is stored; the rest is counted as lost, with a row that says so, and the file is kept."""
    collector = _start(start_collector, trouble, log=WalConfig(flush_interval_s=0.01, memory_bytes=0))
    trouble.open.clear()
    collector.pipeline.export(encode_traces([make_span(0)]))
    while not trouble.calls:  # the first segment is in the writer's hands, so the next ones grow together
        threading.Event().wait(0.001)
    for number in (1, 2):
        collector.pipeline.export(encode_traces([make_span(number)]))
    collector.log.seal()
    collector.pipeline.export(encode_traces([make_span(3)]))
    damaged = sorted(collector.log.directory.glob("*.wal"))[1]
    content = bytearray(damaged.read_bytes())
    content[-5] ^= 0xFF
    damaged.write_bytes(content)
    trouble.open.set()
    collector.flush()
    assert collector.store.names() == ["span-000000", "span-000001", "span-000003"]
    [row] = collector.store.rejected
    assert row.reason == "the log was damaged"
    assert "1 spans in 1 records are lost" in row.detail
    assert damaged.stem in row.detail
    audit = collector.log.audit()
    assert (audit.counts.stored, audit.counts.lost, audit.missing, audit.in_log) == (3, 1, 0, 0)
    assert not audit.balanced
    assert damaged.with_suffix(".damaged").read_bytes() == content
    assert collector.reporter.status()["log"]["damaged_files"] == 1
    assert "freezeframe_collector_log_damaged_files 1\n" in collector.reporter.metrics()


def test_poison_spans_are_found_and_set_aside(
    start_collector: Starter, make_span: Callable[..., Any], trouble: Trouble, tmp_path: Path
) -> None:
    """The store gets every other span once; the bad ones are kept as a file, with a row that says why."""
    collector = _start(start_collector, trouble)
    trouble.poison = {"span-000003", "span-000077"}
    collector.pipeline.export(encode_traces([make_span(number) for number in range(100)]))
    collector.flush()
    assert len(collector.store.spans) == len(set(collector.store.names())) == 98
    assert [(item.name, item.reason, item.detail) for item in collector.store.rejected] == [
        ("span-000003", "refused by the store", "cannot parse a value"),
        ("span-000077", "refused by the store", "cannot parse a value"),
    ]
    [kept] = (tmp_path / "set-aside").glob("*.traces.pb")
    assert decode_traces(kept.read_bytes()).spans == [make_span(3), make_span(77)]
    audit = collector.log.audit()
    assert (audit.counts.stored, audit.counts.rejected, audit.missing) == (98, 2, 0)


def test_a_store_that_refuses_everything_is_tried_again_before_spans_are_set_aside(
    start_collector: Starter, make_span: Callable[..., Any], trouble: Trouble, tmp_path: Path
) -> None:
    """A missing table is not the spans' fault: after the operator fixes it, everything is stored."""
    collector = _start(start_collector, trouble)
    trouble.permanent = True
    mended = threading.Event()

    def mend(spans: Sequence[SpanRecord]) -> None:
        if trouble.calls > 6:
            trouble.permanent = False
            mended.set()
        trouble(spans)

    collector.store.fault = mend
    collector.pipeline.export(encode_traces([make_span(number) for number in range(64)]))
    collector.flush()
    assert mended.is_set()
    assert len(collector.store.spans) == 64
    assert not (tmp_path / "set-aside").exists()


def test_a_store_that_refuses_everything_is_not_asked_for_every_span(
    start_collector: Starter, make_span: Callable[..., Any], trouble: Trouble
) -> None:
    """After a few refusals in a row the search is given up until later: once the store is repaired, large inserts go on."""
    collector = _start(
        start_collector, trouble, retry=StoreConfig(retry_initial_s=0.001, retry_max_s=0.01, permanent_attempts=9)
    )
    trouble.permanent = True
    taken: list[int] = []

    def mend(spans: Sequence[SpanRecord]) -> None:
        trouble.permanent = trouble.calls < 40
        trouble(spans)
        taken.append(len(spans))

    collector.store.fault = mend
    collector.pipeline.export(encode_traces([make_span(number) for number in range(64)]))
    collector.flush()
    assert sum(taken) == len(collector.store.spans) == 64
    assert len(taken) <= 12


def test_the_reason_of_a_refused_span_is_its_tenants(
    start_collector: Starter, make_span: Callable[..., Any], trouble: Trouble
) -> None:
    """Each tenant reads why its own spans are missing, and no other's."""
    collector = _start(start_collector, trouble)
    trouble.poison = {"span-000001"}
    collector.pipeline.export(encode_traces([make_span(1), make_span(2)]), tenant="acme")
    collector.flush()
    assert [item.tenant for item in collector.store.rejected] == ["acme"]


def test_a_set_aside_directory_that_cannot_be_written_is_tried_again(
    start_collector: Starter, make_span: Callable[..., Any], trouble: Trouble, tmp_path: Path
) -> None:
    """A refused span has no other place: the writer waits for one, and says meanwhile what is wrong."""
    collector = _start(start_collector, trouble)
    (tmp_path / "set-aside").write_text("a file where the directory is to be")
    trouble.poison = {"span-000001"}
    collector.pipeline.export(encode_traces([make_span(1)]))
    assert not collector.reporter.flush(0.2)
    assert "set-aside" in collector.writer.state.last_error
    (tmp_path / "set-aside").unlink()
    collector.flush()
    assert [*(tmp_path / "set-aside").glob("*.traces.pb")]
    assert (collector.log.audit().counts.rejected, collector.log.audit().missing) == (1, 0)
    assert collector.writer.state.last_error == ""


def test_a_store_that_refuses_everything_for_good_sets_all_aside(
    start_collector: Starter, make_span: Callable[..., Any], trouble: Trouble, tmp_path: Path
) -> None:
    """The log does not stand still for ever, and nothing is lost: the spans are in a file."""
    collector = _start(start_collector, trouble)
    trouble.permanent = True
    collector.pipeline.export(encode_traces([make_span(number) for number in range(8)]))
    collector.flush()
    [kept] = (tmp_path / "set-aside").glob("*.traces.pb")
    assert len(decode_traces(kept.read_bytes()).spans) == 8
    assert collector.log.audit().missing == 0


def test_a_stage_that_fails_costs_one_span_and_shows_no_content(
    start_collector: Starter, make_span: Callable[..., Any]
) -> None:
    """A span that cannot be redacted is not stored, and neither its name nor the error's text is."""

    def redact(span: SpanRecord, tenant: str) -> SpanRecord:
        if span.name == "card 4111":
            raise ValueError("cannot redact 4111 1111 1111 1111")
        if span.name == "deep":
            raise WireError("nested over 100 levels")
        return span

    collector = start_collector(stages=(Stage(name="redaction", apply=redact),))
    spans = [make_span(1), make_span(2, name="card 4111"), make_span(3, name="deep")]
    outcome = collector.pipeline.export(encode_traces(spans))
    assert (outcome.received, outcome.rejected) == (3, 2)
    collector.flush()
    assert collector.store.names() == ["span-000001"]
    assert [(item.name, item.reason, item.detail) for item in collector.store.rejected] == [
        ("", "redaction failed", "ValueError"),
        ("", "redaction failed", "nested over 100 levels"),
    ]
    assert b"4111" not in b"".join(path.read_bytes() for path in collector.log.directory.iterdir())


def test_a_request_whose_spans_are_all_rejected_is_in_the_books(
    start_collector: Starter, make_span: Callable[..., Any]
) -> None:
    """There is nothing to store, and the reasons are durable all the same."""

    def refuse(span: SpanRecord, tenant: str) -> SpanRecord:
        raise WireError("nested over 100 levels")

    collector = start_collector(stages=(Stage(name="redaction", apply=refuse),))
    collector.pipeline.export(encode_traces([make_span(1), make_span(2)]))
    collector.flush()
    counts = collector.log.audit().counts
    assert (counts.received, counts.rejected, len(collector.store.rejected)) == (2, 2, 2)


def test_the_books_balance_whatever_happens(start_collector: Starter, make_span: Callable[..., Any], trouble: Trouble) -> None:
    """received = stored + duplicate + rejected + in the log, at every moment of a random history."""
    collector = _start(start_collector, trouble)
    trouble.poison = {f"span-{number:06d}" for number in range(0, 300, 37)}
    chance = random.Random(7)
    for _ in range(60):
        trouble.failures_left = chance.choice([0, 0, 2])
        body = encode_traces([make_span(chance.randrange(300)) for _ in range(chance.randrange(1, 9))])
        collector.pipeline.export(body)
        assert collector.log.audit().missing == 0
    collector.flush()
    audit = collector.log.audit()
    assert (audit.in_log, audit.missing) == (0, 0)
    assert audit.counts.stored == len(collector.store.spans) == len(set(collector.store.names()))
