"""Several collectors on one ClickHouse, behind a balancer: a run's spans come through all of them, some through two."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence

import agent_loops
import pytest

from freezeframe_collector.store import Store
from freezeframe_replay.sources.store import open_runs
from freezeframe_schemas.errors import RetryableStoreError
from freezeframe_schemas.run import build_run, readiness
from freezeframe_schemas.span import SpanRecord

COLLECTORS = 3
FIRST = 91_000
"""Runs that no other test of the session makes."""


@pytest.mark.long
def test_a_run_that_came_through_several_collectors_is_whole_and_counted_once(store: Store, facade_url: str) -> None:
    """Each has its own memory of hours and pieces; a sender that got no answer sends to another one."""
    spans = list(agent_loops.agent_runs(FIRST, 12, turns=4))
    stores = [Store(store.engine) for _ in range(COLLECTORS)]
    shares = [
        [span for at, span in enumerate(spans) if at % COLLECTORS in {number, (number + at // 7) % COLLECTORS}]
        for number in range(COLLECTORS)
    ]
    assert sum(map(len, shares)) > len(spans), "some spans came twice"

    def insert(number: int, share: Sequence[SpanRecord], token: str) -> None:
        for _ in range(20):  # like a collector: an engine that many use at once may not know whether it stored a batch
            with contextlib.suppress(RetryableStoreError):
                return stores[number].insert(share, token=token)
        raise AssertionError("20 attempts, none stored")

    def write(number: int, share: Sequence[SpanRecord]) -> None:
        half = len(share) // 2
        insert(number, share[half:], f"beside-{number}-b")  # late spans first
        insert(number, share[:half], f"beside-{number}-a")

    writers = [threading.Thread(target=write, args=pair) for pair in enumerate(shares)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    runs = open_runs(facade_url)
    sent: dict[str, list[SpanRecord]] = {}
    for span in spans:
        sent.setdefault(span.trace_id, []).append(span)
    for trace_id, members in sent.items():
        ordered = sorted(members, key=lambda span: (span.start_time_unix_nano, span.span_id))
        assert runs.load_spans(trace_id) == ordered
    ids = ", ".join(f"'{trace_id}'" for trace_id in sent)
    _, counted = runs.sql(f"SELECT trace_id, spans FROM runs WHERE trace_id IN ({ids})")
    assert {row[0]: row[1] for row in counted} == {trace_id: len(members) for trace_id, members in sent.items()}
    _, levels = runs.sql(f"SELECT trace_id, level FROM readiness WHERE trace_id IN ({ids})")
    assert {row[0]: row[1] for row in levels} == {trace_id: readiness(build_run(m)).level for trace_id, m in sent.items()}
    runs.close()
