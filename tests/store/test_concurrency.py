"""Inserts at full rate with eight readers and a replay's reading: no error, nothing lost, nothing seen twice."""

from __future__ import annotations

import threading
import urllib.request

import agent_loops
import pytest

from freezeframe_collector.store import Store
from freezeframe_replay.sources.store import open_runs

READERS = 8
BATCHES = 5


@pytest.mark.long
def test_eight_readers_and_a_replay_read_while_spans_come_in(store: Store, reader_url: str) -> None:
    first = 5000
    spans = list(agent_loops.agent_runs(first, 12, turns=5))
    size = len(spans) // BATCHES + 1
    failures: list[str] = []
    done = threading.Event()

    def read(number: int) -> None:
        questions = (
            "SELECT count() FROM runs",
            "SELECT tool, count() FROM tool_calls GROUP BY tool",
            "SELECT name, status FROM steps ORDER BY start_time DESC LIMIT 20 FORMAT JSON",
            "SELECT level, count() FROM readiness GROUP BY level",
        )
        while not done.is_set():
            request = urllib.request.Request(reader_url, data=questions[number % len(questions)].encode())
            try:
                with urllib.request.urlopen(request, timeout=400) as answer:
                    answer.read()
            except OSError as error:
                failures.append(f"{questions[number % len(questions)]}: {error}")

    def replay() -> None:
        runs = open_runs(reader_url)
        while not done.is_set():
            found = runs.list_runs(limit=1)
            if found:
                loaded = runs.load_spans(found[0].trace_id)
                if len({span.span_id for span in loaded}) != len(loaded):
                    failures.append(f"run {found[0].trace_id}: a span twice")
        runs.close()

    readers = [threading.Thread(target=read, args=(number,)) for number in range(READERS)]
    readers.append(threading.Thread(target=replay))
    for reader in readers:
        reader.start()
    for number in range(BATCHES):
        store.insert(spans[number * size : (number + 1) * size], token=f"concurrent-{number}")
    done.set()
    for reader in readers:
        reader.join()
    assert failures == []
    ids = ", ".join(sorted({f"'{span.trace_id}'" for span in spans}))
    _, rows = store.query(f"SELECT count() FROM freezeframe.spans WHERE trace_id IN ({ids})")
    assert rows == [[len(spans)]]
