"""The questions that name one thing are answered by an index: EXPLAIN says so, through the views that people ask."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from handmade_runs import make_run, model_call

from freezeframe_collector.store import Store
from freezeframe_schemas import genai

pytestmark = pytest.mark.long
DATABASE = "of_indexes"
ID = "0" * 31 + "7"


@pytest.fixture(scope="module")
def many(store: Store) -> Iterator[Store]:
    """A database of forty runs, each with ids of its own."""
    made = Store(store.engine, database=DATABASE)
    made.migrate()
    for number in range(40):
        own = {genai.USER_ID: f"u{number}", genai.SESSION_ID: f"s{number}", genai.RUN_ID: f"r{number}"}
        spans = make_run(*(model_call("where?", f"there {turn}") for turn in range(9)))
        made.insert(
            [
                replace(span.with_attributes({**own, genai.RESPONSE_ID: f"c{number}"}), trace_id=f"{number:032x}")
                for span in spans
            ],
            token=str(number),
        )
    store.engine.command(f"OPTIMIZE TABLE {DATABASE}.span_rows FINAL")
    yield made
    store.engine.command(f"DROP DATABASE {DATABASE}")


@pytest.mark.parametrize(
    ("question", "index"),
    [
        (f"SELECT name FROM spans WHERE trace_id = '{ID}'", "ix_trace"),
        (f"SELECT kind, name FROM steps WHERE trace_id = '{ID}'", "ix_trace"),
        (f"SELECT attribute, body FROM contents WHERE trace_id = '{ID}'", "ix_trace"),
        (f"SELECT seam, url FROM exchanges WHERE trace_id = '{ID}'", "ix_trace"),
        (f"SELECT gap_ms FROM stream_chunks WHERE trace_id = '{ID}'", "ix_trace"),
        (f"SELECT message FROM errors WHERE trace_id = '{ID}'", "ix_trace"),
        (f"SELECT cost_usd FROM model_calls WHERE trace_id = '{ID}'", "ix_trace"),
        (f"SELECT tool FROM tool_calls WHERE trace_id = '{ID}'", "ix_trace"),
        (f"SELECT level FROM readiness WHERE trace_id = '{ID}'", "ix_trace"),
        (f"SELECT status, ms FROM runs WHERE trace_id = '{ID}'", "ix_trace"),
        ("SELECT DISTINCT trace_id FROM run_rows WHERE run_id = 'r7'", "ix_run"),  # as replay finds it
        ("SELECT trace_id FROM spans WHERE run_id = 'r7'", "ix_run"),
        ("SELECT trace_id FROM spans WHERE user_id = 'u7'", "ix_user"),
        ("SELECT trace_id FROM spans WHERE session_id = 's7'", "ix_session"),
        ("SELECT trace_id, span_id FROM model_calls WHERE response_id = 'c7'", "ix_response"),
        ("SELECT trace_id FROM spans WHERE response_id = 'c7'", "ix_response"),
        ("SELECT model, sum(cost_usd) FROM model_calls WHERE start_time > '2100-01-01' GROUP BY model", "ix_start"),
        ("SELECT quantile(0.95)(ms) FROM tool_calls WHERE start_time > '2100-01-01'", "ix_start"),
        ("SELECT max(stored_at - end_time) FROM spans WHERE start_time > '2100-01-01'", "ix_start"),
        ("SELECT status FROM runs WHERE run_hour > '2100-01-01 00:00:00'", "PrimaryKey"),
    ],
)
def test_a_question_that_names_one_thing_reads_by_an_index(many: Store, question: str, index: str) -> None:
    view = question.partition(" FROM ")[2].partition(" ")[0]
    _, rows = many.query(f"EXPLAIN indexes = 1 {question.replace(f' FROM {view}', f' FROM {DATABASE}.{view}')}")
    plan = "\n".join(str(row[0]) for row in rows)
    assert index in plan, plan


@pytest.mark.parametrize(
    ("view", "by_index"),
    [
        ("steps", ["span_rows"]),
        ("model_calls", ["run_rows", "span_rows"]),
        ("tool_calls", ["run_rows", "span_rows"]),
        ("retrievals", ["run_rows", "span_rows"]),
    ],
)
def test_what_one_run_did_is_told_without_the_other_runs(many: Store, view: str, by_index: list[str]) -> None:
    """Whether a run has exchanges is asked of this run: EXPLAIN would not show a set that is made of all."""
    _, rows = many.query(f"EXPLAIN indexes = 1 SELECT * FROM {DATABASE}.{view} WHERE trace_id = '{ID}'")
    reads = "\n".join(str(row[0]) for row in rows).split(f"ReadFromMergeTree ({DATABASE}.")[1:]
    tables = sorted((read.partition(")")[0], "ix_trace" in read) for read in reads if "_rows" in read.partition(")")[0])
    assert [table for table, indexed in tables if indexed] == by_index
    assert [table for table, indexed in tables if not indexed] == []


@pytest.mark.parametrize(("view", "first"), [("chunks", "has(refs.keys"), ("exchanges", "exchange_kind")])
def test_large_columns_are_not_read_for_the_rows_of_other_views(many: Store, view: str, first: str) -> None:
    """FINAL alone would read them all: the engine moves no condition before it by itself."""
    _, rows = many.query(f"EXPLAIN actions = 1 SELECT * FROM {DATABASE}.{view}")
    plan = "\n".join(str(row[0]) for row in rows)
    assert re.search(rf"Prewhere filter column: +{re.escape(first)}", plan), plan
