"""The views of exchanges, of what retrievals gave and of how responses came, against the spans that they describe."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import agent_loops
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freezeframe_collector.store import Store
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.run import build_run
from freezeframe_schemas.span import SpanRecord, StatusCode
from freezeframe_schemas.tables import piece_hash

pytestmark = pytest.mark.long

DATABASE = "exchanges"
_numbers = itertools.count()
LONG = 128
"""Size in bytes from which a text is stored separately."""


@pytest.fixture(scope="module")
def own(store: Store) -> Iterator[Store]:
    made = Store(store.engine, database=DATABASE)
    made.migrate()
    yield made
    store.engine.command(f"DROP DATABASE {DATABASE}")


@pytest.fixture(scope="module")
def spans(own: Store) -> list[SpanRecord]:
    """Runs with retrievals, retries and failures, stored."""
    made = [in_three_chunks(span) for number in range(12) for span in agent_loops.agent_run(number, turns=4)]
    own.insert(made, token="runs")
    return made


def in_three_chunks(span: SpanRecord) -> SpanRecord:
    """Return a model's answer as it comes when streamed; any other span unchanged."""
    body = span.attributes.get(genai.RESPONSE_BODY)
    if span.attributes.get(genai.EXCHANGE_KIND) != Kind.MODEL or not isinstance(body, str) or len(body) < 10:
        return span
    sizes = (4, 5, len(body.encode()) - 9)
    offsets = (1_000_000, 1_500_000, 4_000_000 + sizes[2])
    return span.with_attributes({genai.RESPONSE_CHUNK_SIZES: sizes, genai.RESPONSE_CHUNK_OFFSETS_NS: offsets})


def rows_of(store: Store, sql: str) -> list[dict[str, Any]]:
    columns, rows = store.query(sql)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def of_each_run(spans: list[SpanRecord]) -> Iterator[list[SpanRecord]]:
    for trace_id in dict.fromkeys(span.trace_id for span in spans):
        yield [span for span in spans if span.trace_id == trace_id]


@pytest.mark.proof
def test_an_exchange_is_a_row_with_its_step_kind_seam_and_sizes(own: Store, spans: list[SpanRecord]) -> None:
    rows = {row["span_id"]: row for row in rows_of(own, f"SELECT * FROM {DATABASE}.exchanges")}
    expected = {exchange.span_id: (step, exchange) for run in map(build_run, of_each_run(spans))
                for step, exchange in enumerate(run.exchanges, 1)}  # fmt: skip
    assert set(rows) == set(expected)
    for span_id, (step, exchange) in expected.items():
        row, response = rows[span_id], exchange.response
        assert (row["step"], row["kind"], row["name"]) == (step, exchange.kind, exchange.name)
        assert (row["seam"], row["dialect"], row["http_status"]) == (exchange.seam, exchange.dialect or "", response.status)
        assert (row["response_bytes"], row["response_chunks"]) == (len(response.body), len(response.chunks))
        assert row["completion"] == response.completion
        assert (row["request_hash"] == "", row["response_hash"] == "") == (not exchange.request.body, not response.body)
        assert row["first_chunk_ms"] == (response.chunks[0].offset_ns / 1e6 if response.chunks else None)
    failed = {span.span_id for span in spans if span.status_code is StatusCode.ERROR}
    assert {span_id for span_id, row in rows.items() if row["status"] == "error"} >= failed & set(rows)


def test_hashes_of_bodies_are_the_same_where_the_bodies_are(own: Store, spans: list[SpanRecord]) -> None:
    """In whatever run: the same question asked again is found by its hash, among those that quote the same texts."""
    bodies: dict[bytes, set[str]] = {}
    texts: dict[str, set[str]] = {}
    hashes: dict[str, set[bytes]] = {}
    rows = {
        row["span_id"]: row
        for row in rows_of(own, f"SELECT span_id, request_hash, request_texts, response_hash FROM {DATABASE}.exchanges")
    }
    for run in map(build_run, of_each_run(spans)):
        for exchange in run.exchanges:
            row = rows[exchange.span_id]
            texts.setdefault(row["request_hash"], set()).add(repr(row["request_texts"]))
            for body, name in ((exchange.request.body, row["request_hash"]), (exchange.response.body, row["response_hash"])):
                bodies.setdefault(body, set()).add(name)
                hashes.setdefault(name, set()).add(body)
    assert all(len(names) == 1 for names in bodies.values())
    assert all(len(values) == 1 for values in hashes.values())
    assert all(len(lists) == 1 for lists in texts.values())
    assert len(bodies) < 2 * len(rows), "expected a body that came twice"


def test_a_chunk_that_a_retrieval_gave_is_a_row_and_its_text_is_found(own: Store, spans: list[SpanRecord]) -> None:
    rows = rows_of(
        own,
        "SELECT c.span_id AS span_id, c.rank AS rank, c.chunk_id AS chunk_id, c.score AS score, c.source AS source,"
        " c.content_hash AS hash, if(c.content != '', c.content, p.body) AS text"
        f" FROM {DATABASE}.chunks AS c"
        f" LEFT JOIN {DATABASE}.payloads AS p ON p.trace_id = c.trace_id AND p.hash = c.content_hash"
        " ORDER BY c.span_id, c.rank",
    )
    expected = [
        {"span_id": span.span_id, "rank": rank, "chunk_id": chunk["id"], "score": chunk["score"], "source": "policies",
         **named(chunk["content"])}
        for span in sorted(spans, key=lambda span: span.span_id)
        if span.attributes.get(genai.EXCHANGE_KIND) == Kind.RETRIEVAL
        for rank, chunk in enumerate(json.loads(span.text(genai.RETRIEVAL_DOCUMENTS) or ""), 1)
    ]  # fmt: skip
    assert expected
    assert rows == expected


def named(text: str) -> dict[str, str]:
    """Return the name of a chunk's text and the text, as the store has it: a long one as the bytes of its JSON."""
    raw = json.dumps(text)[1:-1]
    if len(raw) >= LONG:
        return {"hash": piece_hash(raw.encode()).hex(), "text": raw}
    return {"hash": hashlib.sha256(text.encode()).hexdigest()[:24], "text": text}


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\1\2"), max_size=200)
DOCUMENTS = st.lists(
    st.fixed_dictionaries(
        {"content": st.one_of(TEXT, TEXT.map(lambda text: f"{text}-" + "x" * LONG))},
        optional={
            "id": st.one_of(TEXT.filter(lambda text: len(json.dumps(text)) < LONG), st.integers(0, 999)),
            "score": st.floats(0, 1),
        },
    ),
    max_size=6,
)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(DOCUMENTS, st.booleans())
def test_whatever_a_retriever_gives_its_chunks_are_rows_in_order(
    own: Store, documents: list[dict[str, Any]], ascii_only: bool
) -> None:
    """Read from the template alone; or one row of rank 0, if that is not possible."""
    trace_id = f"{next(_numbers):016x}" + "e" * 16
    source = next(span for span in agent_loops.agent_run(3, turns=4) if span.attributes.get(genai.EXCHANGE_KIND))
    span = replace(
        source, trace_id=trace_id, attributes={genai.RETRIEVAL_DOCUMENTS: json.dumps(documents, ensure_ascii=ascii_only)}
    )
    own.insert([span], token=trace_id)
    rows = rows_of(own, f"SELECT rank, chunk_id, score FROM {DATABASE}.chunks WHERE trace_id = '{trace_id}' ORDER BY rank")
    if rows and not rows[0]["rank"]:
        assert len(json.dumps(documents)) > 2048
        return
    assert rows == [
        {"rank": rank, "chunk_id": str(document.get("id", "")), "score": document.get("score")}
        for rank, document in enumerate(documents, 1)
    ]


def test_a_list_that_cannot_be_read_without_its_texts_is_told_of(own: Store) -> None:
    documents = [{"id": f"c{number}", "content": "short"} for number in range(200)]
    source = agent_loops.agent_run(3, turns=2)[0]
    span = replace(source, trace_id="d" * 32, attributes={genai.RETRIEVAL_DOCUMENTS: json.dumps(documents)})
    own.insert([span], token="many short ones")
    rows = rows_of(own, f"SELECT rank, chunk_id, content_hash FROM {DATABASE}.chunks WHERE trace_id = '{'d' * 32}'")
    assert rows == [{"rank": 0, "chunk_id": "", "content_hash": ""}]
    [whole] = rows_of(own, f"SELECT body FROM {DATABASE}.contents WHERE trace_id = '{'d' * 32}'")
    assert json.loads(whole["body"]) == documents


@pytest.mark.proof
def test_the_chunks_of_a_stream_are_rows_with_the_time_between_them(own: Store, spans: list[SpanRecord]) -> None:
    rows = rows_of(
        own, f"SELECT span_id, place, bytes, offset_ms, gap_ms FROM {DATABASE}.stream_chunks ORDER BY span_id, place"
    )
    expected: list[dict[str, Any]] = []
    for run in map(build_run, of_each_run(spans)):
        for exchange in run.exchanges:
            before: int | None = None
            for place, chunk in enumerate(exchange.response.chunks, 1):
                gap = None if before is None else (chunk.offset_ns - before) / 1e6
                before = chunk.offset_ns
                expected.append({"span_id": exchange.span_id, "place": place, "bytes": len(chunk.data),
                                 "offset_ms": chunk.offset_ns / 1e6, "gap_ms": gap})  # fmt: skip
    assert any(row["gap_ms"] for row in expected)
    assert rows == sorted(expected, key=lambda row: (row["span_id"], row["place"]))
