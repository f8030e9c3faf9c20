"""The questions that `bench_storage` asks, and how long their answers take: alone, and while spans come in."""

from __future__ import annotations

import resource
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from freezeframe_collector.store import Store
from freezeframe_replay.sources.store import LAST, open_runs
from freezeframe_schemas.span import SpanRecord

BY_ID: Final = "run by id, as replay loads it"
LIST: Final = "run list of a day, filtered"
SEARCH: Final = "search of two words"
GOALS: Final = {BY_ID: 10, LIST: 100, SEARCH: 400}
"""Milliseconds of the median, at 10^7 spans on 2 cores."""
READERS: Final = 8


class Latency(NamedTuple):
    """Milliseconds that a question takes."""

    p50: float
    p99: float
    cpu: float
    """Median of the CPU time of the whole process: client, facade and engine."""


Latencies = dict[str, Latency]


def ask_all(
    store: Store, url: str, times: int, more: dict[str, Callable[[str], object]] | None = None, *, words: str, runs: str = "1"
) -> Latencies:
    """Return the latencies of each question; a run by id as replay loads it: over HTTP at `url`, rebuilt and hash-checked.

    Args:
        store: asked directly, except for the run by id.
        url: of its facade.
        times: how often the questions with a goal are asked; the others are asked five times.
        more: further questions, asked with a trace id.
        words: to search for.
        runs: condition on the row of a run that is loaded by id.
    """
    db = store.database
    _, found = store.query(
        f"SELECT DISTINCT trace_id FROM {db}.run_rows WHERE {runs} ORDER BY cityHash64(trace_id) LIMIT {times + 1}"
    )
    ids = [str(row[0]) for row in found]
    _, days = store.query(f"SELECT toString(toDate(run_hour)) FROM {db}.run_rows GROUP BY 1 ORDER BY count() DESC LIMIT 1")
    day = f"toDateTime('{days[0][0]} 00:00:00', 'UTC')"
    with closing(open_runs(url)) as loaded:
        questions: dict[str, Callable[[int], object]] = {
            BY_ID: lambda i: loaded.load_spans(ids[i % len(ids)]),
            LIST: lambda _: store.query(
                f"SELECT trace_id, name, status, ms, input_tokens FROM {db}.runs WHERE run_hour >= {day}"
                f" AND run_hour < {day} + INTERVAL 1 DAY AND status = 'error' ORDER BY start_time DESC LIMIT 50"
            ),
            SEARCH: lambda _: store.query(f"SELECT trace_id, snippet FROM {db}.search(words = '{words}') LIMIT 20"),
            "cost by model and day": lambda _: store.query(
                f"SELECT toDate(start_time) AS d, model, sum(cost_usd) FROM {db}.model_calls GROUP BY d, model"
            ),
            "readiness by week": lambda _: store.query(
                f"SELECT toStartOfWeek(start_time) AS w, level, count() FROM {db}.readiness GROUP BY w, level"
            ),
        }
        for name, ask in (more or {}).items():
            questions[name] = lambda i, ask=ask: ask(ids[i % len(ids)])
        return {name: percentiles(work, times if name in GOALS else 5) for name, work in questions.items()}


def percentiles(work: Callable[[int], object], times: int) -> Latency:
    """Return what `work` takes, warm."""
    work(0)
    taken: list[float] = []
    spent: list[float] = []
    for index in range(times):
        start, cpu = time.perf_counter(), time.process_time()
        work(index)
        taken.append((time.perf_counter() - start) * 1000)
        spent.append((time.process_time() - cpu) * 1000)
    return Latency(_quantile(taken, 0.5), _quantile(taken, 0.99), _quantile(spent, 0.5))


@dataclass(slots=True, kw_only=True)
class Load:
    """What happened while spans came in and were read."""

    spans: int = 0
    seconds: float = 0.0
    read_ms: list[float] = field(default_factory=list[float])
    replay_ms: list[float] = field(default_factory=list[float])
    failures: list[str] = field(default_factory=list[str])
    peak_bytes: int = 0

    def quantile(self, share: float) -> float:
        """Return the time in milliseconds that a share of the readers' questions stayed below."""
        return _quantile(self.read_ms, share)


def load_and_read(store: Store, url: str, batches: Sequence[list[SpanRecord]]) -> Load:
    """Insert the batches as fast as they go, while eight readers and a replay ask over HTTP; return what happened."""
    load = Load()
    done = threading.Event()
    questions = (
        "SELECT count() FROM runs",
        "SELECT tool, count() FROM tool_calls GROUP BY tool",
        "SELECT trace_id, status, ms FROM runs ORDER BY start_time DESC LIMIT 20 FORMAT JSON",
        "SELECT model, sum(input_tokens) FROM model_calls GROUP BY model",
    )

    def timed(into: list[float], work: Callable[[], Any]) -> None:
        started = time.perf_counter()
        try:
            work()
        except Exception as error:  # each is counted, and reported
            load.failures.append(f"{type(error).__name__}: {error}"[:200])
        into.append((time.perf_counter() - started) * 1000)

    def ask(sql: str) -> None:
        with urllib.request.urlopen(urllib.request.Request(url, data=sql.encode()), timeout=120) as answer:
            if b"__exception__" in answer.read():
                raise RuntimeError(f"{sql}: an error after the first bytes")

    def read(number: int) -> None:
        while not done.is_set():
            timed(load.read_ms, lambda: ask(questions[number % len(questions)]))

    def replay() -> None:
        with closing(open_runs(url)) as runs:
            while not done.is_set():
                timed(load.replay_ms, lambda: runs.load_spans(LAST))

    readers = [threading.Thread(target=read, args=(number,)) for number in range(READERS)]
    readers.append(threading.Thread(target=replay))
    for reader in readers:
        reader.start()
    started = time.perf_counter()
    for number, batch in enumerate(batches):
        store.insert(batch, f"under-load-{number}")
        load.spans += len(batch)
    load.seconds = time.perf_counter() - started
    done.set()
    for reader in readers:
        reader.join()
    load.peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return load


def _quantile(taken: list[float], share: float) -> float:
    ordered = sorted(taken)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
