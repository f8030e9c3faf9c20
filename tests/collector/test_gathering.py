"""Small requests of one event loop share a record of the log, and each keeps its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from freezeframe_collector.admission import BusyError
from freezeframe_collector.batch import Appended, Batch, encode_spans
from freezeframe_collector.pipeline import Gathering
from freezeframe_collector.settings.config import WalConfig
from freezeframe_collector.store import Rejected
from freezeframe_collector.wal.format import read_segment
from freezeframe_collector.wal.log import Log
from freezeframe_schemas.span import SpanRecord

Maker = Callable[..., SpanRecord]


class HeldLog:
    """A log whose answers wait until the test gives them."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.answers: list[Future[Appended]] = []

    def submit(self, batch: Batch) -> Future[Appended]:
        self.batches.append(batch)
        self.answers.append(Future[Appended]())
        return self.answers[-1]


def batch_of(*spans: SpanRecord, rejected: tuple[Rejected, ...] = ()) -> Batch:
    return Batch(encoded=encode_spans(spans), spans=spans, rejected=rejected)


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until the condition holds."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


async def test_requests_that_come_together_are_one_record_and_duplicates_count_once(tmp_path: Path, make_span: Maker) -> None:
    """Four requests at once, one of them with the first one's span: one record, one sync, one duplicate, in the books too."""
    log = Log(tmp_path, WalConfig(flush_interval_s=3600))
    gathering = Gathering(log)
    reason = Rejected(trace_id="", span_id="", name="", reason="over limit", detail="", time_unix_nano=1)
    batches = [
        batch_of(make_span(1)),
        batch_of(make_span(2), rejected=(reason,)),
        batch_of(make_span(1)),
        batch_of(make_span(3)),
    ]
    assert await asyncio.gather(*map(gathering.append, batches)) == [1, 0, 0, 0]
    assert log.syncs == 1
    log.close()
    [path] = tmp_path.glob("*.wal")
    [record] = read_segment(path).records
    assert (len(record.keys), record.counts.received, record.counts.duplicate, record.rejected) == (3, 5, 1, (reason,))
    segment = log.next_sealed()
    assert segment is not None
    assert segment.load_spans().spans == [make_span(1), make_span(2), make_span(3)]


async def test_what_comes_during_a_sync_is_the_next_group(make_span: Maker) -> None:
    """The first goes alone and at once; the two that come while it is written go together after it."""
    log = HeldLog()
    gathering = Gathering(log)
    first = asyncio.ensure_future(gathering.append(batch_of(make_span(1))))
    await until(lambda: len(log.batches) == 1)
    rest = [asyncio.ensure_future(gathering.append(batch_of(make_span(number)))) for number in (2, 3)]
    await asyncio.sleep(0)
    assert len(log.batches) == 1
    log.answers[0].set_result(Appended(segment=1, duplicate=0))
    await until(lambda: len(log.batches) == 2)
    assert await first == 0
    assert not any(task.done() for task in rest)
    assert [span.name for span in log.batches[1].spans or ()] == [make_span(2).name, make_span(3).name]
    log.answers[1].set_result(Appended(segment=1, duplicate=0))
    assert await asyncio.gather(*rest) == [0, 0]


async def test_a_log_that_is_busy_is_heard_by_each_and_the_next_group_goes(make_span: Maker) -> None:
    """Nothing of a refused group was kept, so all of its senders come again; later requests are not held up."""
    log = HeldLog()
    gathering = Gathering(log)
    tasks = [asyncio.ensure_future(gathering.append(batch_of(make_span(number)))) for number in (1, 2)]
    await until(lambda: len(log.batches) == 1)
    log.answers[0].set_exception(BusyError("the log's disk is full", retry_after_s=1.0))
    for task in tasks:
        with pytest.raises(BusyError, match="disk is full"):
            await task
    later = asyncio.ensure_future(gathering.append(batch_of(make_span(3))))
    await until(lambda: len(log.batches) == 2)
    log.answers[1].set_result(Appended(segment=1, duplicate=0))
    assert await later == 0


async def test_a_sender_that_goes_away_takes_no_answer_from_the_others(make_span: Maker) -> None:
    """A cancelled request's span is logged with its group; the other request is answered."""
    log = HeldLog()
    gathering = Gathering(log)
    gone, here = (asyncio.ensure_future(gathering.append(batch_of(make_span(number)))) for number in (1, 2))
    await until(lambda: len(log.batches) == 1)
    gone.cancel()
    log.answers[0].set_result(Appended(segment=1, duplicate=0))
    assert await here == 0
    assert gone.cancelled()
    assert len(log.batches[0].encoded) == 2


async def test_a_group_has_all_of_its_spans_at_hand_or_none(make_span: Maker) -> None:
    """The writer takes the spans that it is handed for all that the record holds; without them, it reads the record."""
    log = HeldLog()
    gathering = Gathering(log)
    known, unknown = batch_of(make_span(1)), Batch(encoded=encode_spans([make_span(2)]), spans=None)
    waiting = [asyncio.ensure_future(gathering.append(batch)) for batch in (known, unknown)]
    await until(lambda: bool(log.batches))
    (merged,) = log.batches
    assert (len(merged.encoded), merged.spans) == (2, None)
    log.answers[0].set_result(Appended(segment=1, duplicate=0))
    assert await asyncio.gather(*waiting) == [0, 0]


async def test_a_group_is_bounded(make_span: Maker) -> None:
    """The first thousand go; later requests go next, so that the first need not wait for a write of any length."""
    log = HeldLog()
    gathering = Gathering(log)
    one = batch_of(make_span(1))
    waiting = [asyncio.ensure_future(gathering.append(one)) for _ in range(1_003)]
    await until(lambda: bool(log.batches))
    log.answers[0].set_result(Appended(segment=1, duplicate=0))
    await until(lambda: len(log.batches) == 2)
    log.answers[1].set_result(Appended(segment=1, duplicate=0))
    await asyncio.gather(*waiting)
    assert [len(batch.encoded) for batch in log.batches] == [1_000, 3]


def test_an_answer_after_the_loops_end_is_nobodys(make_span: Maker, caplog: pytest.LogCaptureFixture) -> None:
    """The log's thread goes on with what it has when the receivers are gone, and nothing breaks in it."""
    log = HeldLog()
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(Gathering(log).append(batch_of(make_span(1))))
    loop.run_until_complete(until(lambda: bool(log.batches)))
    waiting.cancel()
    loop.run_until_complete(asyncio.wait([waiting]))
    loop.close()
    log.answers[0].set_result(Appended(segment=1, duplicate=0))
    assert not caplog.records
