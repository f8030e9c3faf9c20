"""A run that began and has no end is unfinished, in SQL as in Python, in whatever order and batches its spans come."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import agent_loops
import pytest

from freezeframe_collector.store import Store
from freezeframe_replay.sources.store import RunStore, open_runs
from freezeframe_schemas import genai
from freezeframe_schemas.lifecycle import NO_PARENT, RunStatus
from freezeframe_schemas.run import build_run, readiness
from freezeframe_schemas.span import SpanRecord, StatusCode

pytestmark = pytest.mark.long  # a store

TENANT = "unfinished"
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def runs(facade_url: str) -> Iterator[RunStore]:
    opened = open_runs(facade_url, tenant=TENANT)
    yield opened
    opened.close()


def parts() -> tuple[SpanRecord, list[SpanRecord], SpanRecord]:
    """Return a run as its pending span, its steps and its entry span."""
    trace_id = f"{next(_NUMBERS):032x}".replace("0", "e", 4)
    spans = [
        replace(span, trace_id=trace_id).with_attributes({genai.TENANT: TENANT}) for span in agent_loops.agent_run(1, turns=3)
    ]
    entry = build_run(spans).entry
    [own] = [span for span in spans if span.span_id == entry.span_id]
    ended = {genai.ENTRY_OUTPUT, genai.ERROR_CHAIN}
    pending = replace(
        own,
        span_id="ab" * 8,
        parent_span_id=own.span_id,
        end_time_unix_nano=own.start_time_unix_nano,
        status_code=StatusCode.UNSET,
        attributes={name: value for name, value in own.attributes.items() if name not in ended}
        | {genai.ENTRY_BEGUN: own.parent_span_id or NO_PARENT},
    )
    return pending, [span for span in spans if span is not own], own


def insert(store: Store, batches: Sequence[Sequence[SpanRecord]]) -> list[SpanRecord]:
    for number, batch in enumerate(batches):
        store.insert(list(batch), token=f"{batch[0].trace_id}-{number}")
    return [span for batch in batches for span in batch]


def same_in_both(runs: RunStore, spans: Sequence[SpanRecord]) -> RunStatus:
    """Return the run's status, after checking that SQL and Python give the same."""
    trace_id = spans[0].trace_id
    run = build_run(spans)
    [row] = runs.list_runs(where="trace_id = {t:String}", parameters={"t": trace_id})
    assert RunStatus(row.status) is run.status
    assert row.name == run.entry.name
    assert row.exchanges == len(run.exchanges)
    _, [(level, missing, gaps)] = runs.sql(
        "SELECT level, missing, gaps FROM readiness WHERE trace_id = {t:String}", {"t": trace_id}
    )
    reached = readiness(run)
    assert (level, set(missing), len(gaps)) == (reached.level, {item.field.name for item in reached.missing}, len(run.gaps))
    assert build_run(runs.load_spans(trace_id)).status is run.status
    counted = "SELECT count() FROM {table:Identifier} WHERE trace_id = {t:String}"
    finished = sum(genai.ENTRY_BEGUN not in span.attributes for span in {span.span_id: span for span in spans}.values())
    assert runs.sql(counted, {"table": "spans", "t": trace_id})[1] == [(finished,)]
    assert row.spans == finished
    exported = "SELECT count() FROM otel_traces WHERE TraceId = {t:String}"
    assert runs.sql(exported, {"t": trace_id})[1] == [(len({span.span_id for span in spans}),)]  # pending spans are there, too
    _, [(in_kit,)] = runs.sql("SELECT spans FROM replay_kit WHERE trace_id = {t:String}", {"t": trace_id})
    assert in_kit == finished
    return run.status


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_the_entry_span_replaces_its_beginning_in_whatever_order_they_come(
    store: Store, runs: RunStore, order: tuple[int, ...]
) -> None:
    pending, steps, entry = parts()
    batches = [[pending], steps, [entry]]
    assert same_in_both(runs, insert(store, [batches[index] for index in order])) is build_run([*steps, entry]).status


@pytest.mark.proof
def test_a_run_without_its_end_is_unfinished_and_carries_what_it_began_with(store: Store, runs: RunStore) -> None:
    pending, steps, entry = parts()
    sent = insert(store, [[pending], steps[:1], steps[1:]])
    assert same_in_both(runs, sent) is RunStatus.UNFINISHED
    found = build_run(runs.load_spans(pending.trace_id)).entry
    assert (found.input, found.target, found.span_id) == (
        entry.text(genai.ENTRY_INPUT),
        entry.text(genai.ENTRY_TARGET),
        entry.span_id,
    )
    assert found.end_time_unix_nano == max(span.end_time_unix_nano for span in steps)
    question = "SELECT span_id, exchanges FROM unfinished_runs WHERE trace_id = {t:String}"
    assert runs.sql(question, {"t": pending.trace_id})[1] == [(entry.span_id, len(build_run(sent).exchanges))]


def test_a_beginning_alone_is_an_unfinished_run(store: Store, runs: RunStore) -> None:
    pending, _, _ = parts()
    assert same_in_both(runs, insert(store, [[pending]])) is RunStatus.UNFINISHED


def test_a_second_entry_point_without_an_end_makes_its_run_unfinished(store: Store, runs: RunStore) -> None:
    pending, steps, entry = parts()
    other = replace(pending, span_id="cd" * 8, parent_span_id="cd" * 7 + "00")
    assert same_in_both(runs, insert(store, [[pending, *steps, entry], [other]])) is RunStatus.UNFINISHED
