"""Every query of the cookbook, run through the facade on runs of agents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import agent_loops
import pytest

from freezeframe_collector.facade.query_log import LoggedStatement, QueryLog
from freezeframe_collector.readers.guard import Guard
from freezeframe_collector.store import Rejected, Store
from freezeframe_collector.store.embedded import EmbeddedEngine
from freezeframe_collector.store.retention import label
from freezeframe_replay.sources.store import RunStore, open_runs
from freezeframe_replay.web import sql as sql_page
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Completion, Kind
from freezeframe_schemas.lifecycle import NO_PARENT
from freezeframe_schemas.span import AttributeValue, SpanRecord

pytestmark = pytest.mark.long  # a filled store and thirty queries

COOKBOOK = Path(__file__).parents[2] / "docs" / "cookbook.md"
POLICY = "strict@0123456789ab"
"""Of the runs of this module; others may be in the store."""
QUERIES = re.findall(r"```sql\n(.*?)```", COOKBOOK.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def runs(store: Store, facade_url: str) -> Iterator[RunStore]:
    # a list of surrogates that is stored with the span, and one so long that it is stored with the payloads
    surrogates = [
        {"ann@x.example.com": "EMAIL"},
        {f"n{number}@x.example.com": "EMAIL" for number in range(30)} | {"Ann": "PERSON"},
    ]
    stamp = {genai.REDACTION_POLICY: POLICY}
    listed = [{**stamp, genai.REDACTION_SURROGATES: json.dumps(found)} for found in surrogates]
    spans = [
        span.with_attributes(listed[number % 2] | in_chunks(span)) for number, span in enumerate(agent_loops.agent_runs(0, 20))
    ]
    store.insert(spans, token="cookbook")
    # a run as another vendor's instrumentation sends it, without exchanges, by a model that has no price
    foreign = [
        replace(
            span,
            trace_id="e" * 32,
            attributes={
                name: value
                for name, value in span.attributes.items()
                if not name.startswith((genai.EXCHANGE_KIND, genai.HTTP_REQUEST_METHOD))
            }
            | ({genai.RESPONSE_MODEL: "homegrown-7b"} if genai.RESPONSE_MODEL in span.attributes else {}),
        )
        for span in spans
        if span.trace_id == spans[0].trace_id
    ]
    store.insert(foreign, token="cookbook-foreign")
    store.insert_rejected(
        [
            Rejected(
                trace_id="f" * 32, span_id="f" * 16, name="chat", reason="bad_id", detail="found 3 bytes, expected 16",
                time_unix_nano=agent_loops.START_NS,
            )
        ],
        token="cookbook",
    )  # fmt: skip
    begun = {genai.ENTRY_BEGUN: NO_PARENT, genai.ENTRY_KIND: "function", genai.ENTRY_TARGET: "agent:answer"}
    pending = replace(
        spans[0], trace_id="d" * 32, span_id="d" * 16, parent_span_id="c" * 16, attributes={**spans[0].attributes, **begun}
    )
    store.insert([pending], token="cookbook-unfinished")
    label(store, spans[0].trace_id, {"span_id": "", "label": "bad", "note": "asked twice", "author": "ann"})
    opened = open_runs(facade_url)
    log = QueryLog(store)
    log.add(
        LoggedStatement(
            time_ms=1_790_000_000_000, user="default", address="127.0.0.1", client="notebook", statement="SELECT ?",
            named=sorted({span.trace_id for span in spans}), duration_ms=12, outcome="ok",
        )
    )  # fmt: skip
    log.start()
    log.close()
    yield opened
    opened.close()


def test_redactions_are_counted_by_service_and_class_wherever_their_list_lies(runs: RunStore) -> None:
    ours = f"FROM redactions WHERE redaction_policy = '{POLICY}' AND service = 'ops-agent' GROUP BY ALL ORDER BY class"
    _, rows = runs.sql(f"SELECT service, class, uniq(surrogate) {ours}")
    assert [tuple(row) for row in rows] == [("ops-agent", "EMAIL", 31), ("ops-agent", "PERSON", 1)]


def test_spans_say_when_they_were_stored(runs: RunStore) -> None:
    _, rows = runs.sql("SELECT count() FROM spans WHERE abs(dateDiff('minute', stored_at, now())) > 30")
    assert tuple(rows[0]) == (0,)


def in_chunks(span: SpanRecord) -> dict[str, AttributeValue]:
    """Return attributes that make a model's answer come in two chunks; some the application stopped reading."""
    body = span.attributes.get(genai.RESPONSE_BODY)
    if span.attributes.get(genai.EXCHANGE_KIND) != Kind.MODEL or not isinstance(body, str) or len(body) < 2:
        return {}
    completion = Completion.CLOSED_EARLY if int(span.span_id, 16) % 11 == 0 else Completion.COMPLETE
    sizes, offsets = (1, len(body.encode()) - 1), (1_000_000, 3_000_000)
    return {
        genai.RESPONSE_CHUNK_SIZES: sizes,
        genai.RESPONSE_CHUNK_OFFSETS_NS: offsets,
        genai.RESPONSE_COMPLETION: completion.value,
    }


@pytest.fixture(scope="module")
def parameters(runs: RunStore) -> dict[str, object]:
    _, rows = runs.sql(
        "SELECT trace_id, run_id, user_id FROM runs WHERE trace_id IN (SELECT trace_id FROM errors) AND run_id LIKE 'ticket%'"
        " ORDER BY spans DESC LIMIT 1"
    )
    trace_id, run_id, user = rows[0]
    _, rows = runs.sql("SELECT response_id FROM model_calls WHERE response_id != '' LIMIT 1")
    _, chunks = runs.sql("SELECT chunk_id FROM chunks WHERE chunk_id != '' LIMIT 1")
    return {"chunk": chunks[0][0], "trace_id": trace_id, "run_id": run_id, "user": user, "response_id": rows[0][0], "times": 1}


def test_they_are_numbered() -> None:
    numbers = re.findall(r"^(\d+)\. ", COOKBOOK.read_text(encoding="utf-8"), re.MULTILINE)
    assert [*map(int, numbers)] == list(range(1, len(QUERIES) + 1))


@pytest.fixture(scope="module")
def handle(store: Store) -> Iterator[Any]:
    """A handle of the engine, as readers have one: to start a reader for each query takes half a second."""
    assert isinstance(store.engine, EmbeddedEngine)
    opened = store.engine.open_handle()
    opened.query("USE freezeframe")
    yield opened
    opened.close()


@pytest.mark.parametrize("number", range(1, len(QUERIES) + 1))
def test_a_query_of_the_cookbook_is_allowed_and_answers(handle: Any, parameters: dict[str, object], number: int) -> None:
    query = QUERIES[number - 1]
    needed = {name: parameters[name] for name in re.findall(r"\{(\w+):", query)}
    Guard(handle._conn, "freezeframe").check(query.encode(), {name: str(value) for name, value in needed.items()})
    answer = json.loads(handle.query(query, "JSONCompact", params=needed).bytes())
    assert answer["meta"]
    assert answer["data"]


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("title", sql_page.COOKBOOK)
def test_a_question_of_the_sql_page_is_allowed_and_answers(handle: Any, title: str) -> None:
    query = sql_page.COOKBOOK[title]
    Guard(handle._conn, "freezeframe").check(query.encode(), {})
    assert json.loads(handle.query(query, "JSONCompact").bytes())["meta"]
