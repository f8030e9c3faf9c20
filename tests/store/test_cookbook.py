"""Every query of the cookbook, run through the facade on runs of agents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import agent_loops
import pytest

from freezeframe_collector.store import Rejected, Store
from freezeframe_replay.sources.store import RunStore, open_runs
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Completion, Kind
from freezeframe_schemas.span import AttributeValue, SpanRecord

pytestmark = pytest.mark.long  # a filled store and thirty queries

COOKBOOK = Path(__file__).parents[2] / "docs" / "cookbook.md"
QUERIES = re.findall(r"```sql\n(.*?)```", COOKBOOK.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def runs(store: Store, facade_url: str) -> Iterator[RunStore]:
    stamp = {genai.REDACTION_POLICY: "strict@0123456789ab"}
    spans = [span.with_attributes(stamp | in_chunks(span)) for span in agent_loops.agent_runs(0, 60)]
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
    opened = open_runs(facade_url)
    yield opened
    opened.close()


def in_chunks(span: SpanRecord) -> dict[str, AttributeValue]:
    """Return what makes a model's answer one that came in two chunks; some the application stopped reading."""
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


@pytest.mark.parametrize("number", range(1, len(QUERIES) + 1))
def test_a_query_of_the_cookbook_answers(runs: RunStore, parameters: dict[str, object], number: int) -> None:
    query = QUERIES[number - 1]
    needed = {name: parameters[name] for name in re.findall(r"\{(\w+):", query)}
    columns, rows = runs.sql(query, needed)
    assert columns
    assert rows
