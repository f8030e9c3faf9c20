"""Every view over the demo, tau-bench, recorded OTLP of all instrumentations and a run made by hand: golden, row by row.

Long texts and lists are in the files as length and hash: `test_round_trip` and `test_views` check that contents are whole.
To accept a change: delete the golden file, run the test, which writes it and fails once, and read the difference as code.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import airline
import pytest
from handmade_runs import make_run, model_call, tool_call

from freezeframe_collector.store import Rejected, Store
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Exchange, Kind
from freezeframe_schemas.otlp.decode import decode_traces
from freezeframe_schemas.span import Event, SpanRecord, StatusCode
from freezeframe_schemas.tables.views import views
from freezeframe_schemas.vendors.normalise import normalise

pytestmark = pytest.mark.long

TESTS = Path(__file__).parents[1]
RECORDED = TESTS / "data" / "otlp"
GOLDEN = TESTS / "golden" / "views"
DEMO = TESTS / "data" / "demo_runs" / "streamed.traces.pb.gz"
SHOWN = 30
"""Characters that are shown of a long text."""
MANY = 6
"""Number of items from which a list is shown by its length and hash."""
VIEWS = sorted({re.findall(r"VIEW \{db\}\.(\w+)", sql)[0] for _, sql in views()} - {"search"})
DATABASE = "golden_views"
VERDICT = {genai.EVALUATION_NAME: "helpful", genai.EVALUATION_VALUE: 0.25, genai.EVALUATION_LABEL: "no"}
DOCUMENTS = '[{"id": "chunk-7", "score": 0.5, "content": "thirty days"}, {"document_id": "returns.md", "content": "none"}]'


@pytest.fixture(scope="module")
def filled(store: Store) -> Iterator[Store]:
    """A database with all that was recorded, as the collector stores it."""
    made = Store(store.engine, database=DATABASE, policies={"acme@0123456789ab": 'name = "acme"\n'})
    made.migrate()
    recorded = [path.read_bytes() for path in sorted(RECORDED.glob("*/*.traces.pb"))] + [gzip.decompress(DEMO.read_bytes())]
    made.insert([normalise(span) for raw in recorded for span in decode_traces(raw).spans], token="recorded")
    for number, spans in enumerate(airline_runs(2)):
        made.insert(spans, token=f"airline/{number}")
    made.insert(odd_run(), token="odd")
    reject = Rejected(trace_id="0" * 31, span_id="1" * 16, name="chat", reason="ids", detail="31 digits", time_unix_nano=10**18)
    made.insert_rejected([reject], token="rejected")
    yield made
    store.engine.command(f"DROP DATABASE {DATABASE}")


def airline_runs(count: int) -> Iterator[list[SpanRecord]]:
    """Yield tau-bench's first runs as the seams would have recorded them: one model call per turn, and the tools."""
    for number, recorded in enumerate(airline.load_runs()[:count]):
        exchanges: list[Exchange] = []
        asked = ""
        for message in recorded["traj"]:
            text = str(message["content"] or "")[:200]
            match message["role"]:
                case "assistant":
                    exchanges.append(model_call(asked, text, model="gpt-4o"))
                case "tool":
                    exchanges.append(tool_call(message["name"], text))
                case _:
                    asked = text
        spans = make_run(*exchanges, question=asked)
        failed = StatusCode.UNSET if recorded["reward"] else StatusCode.ERROR
        yield [
            replace(span, trace_id=f"{number + 1:032x}", status_code=failed if not span.parent_span_id else span.status_code)
            for span in spans
        ]


def odd_run() -> list[SpanRecord]:
    """Return a run with what the others lack: flags, a retrieval, a tool that fails, a rate limit, tokens that cost."""
    limited = model_call("where?", "slow down")
    assert limited.response is not None
    limited = replace(limited, response=replace(limited.response, status=429))
    search = replace(tool_call("policies", [{"id": "chunk-7", "content": "thirty days"}], "returns"), kind=Kind.RETRIEVAL)
    spans = make_run(limited, model_call("where?", "there", model="gpt-4o"), search, tool_call("refund", None, "A-1057"))
    entry, rate_limit, call, retrieval, tool = spans
    return [
        replace(span, trace_id="f" * 32)
        for span in (
            entry.with_attributes(
                {
                    genai.FLAGS: '{"new_ranker": true}',
                    genai.USER_ID: "anna#3f",
                    genai.TENANT: "acme",
                    genai.REDACTION_POLICY: "acme@0123456789ab",
                }
            ),
            rate_limit.with_attributes({genai.TENANT: "acme", genai.REQUEST_MODEL: "gpt-4o", genai.ERROR_TYPE: "429"}),
            call.with_attributes(
                {
                    genai.TENANT: "acme",
                    genai.REQUEST_MODEL: "gpt-4o",
                    genai.RESPONSE_MODEL: "gpt-4o-2024-11-20",
                    genai.USAGE_INPUT_TOKENS: 1200,
                    genai.USAGE_OUTPUT_TOKENS: 80,
                }
            ),
            retrieval.with_attributes(
                {genai.TENANT: "acme", genai.DATA_SOURCE_ID: "policies", genai.RETRIEVAL_DOCUMENTS: DOCUMENTS}
            ),
            replace(
                tool.with_attributes({genai.TENANT: "acme", genai.TOOL_NAME: "refund", genai.ERROR_TYPE: "TimeoutError"}),
                status_code=StatusCode.ERROR,
                status_message="no answer within 5 s",
                events=(Event(time_unix_nano=10**18, name=genai.EVALUATION_EVENT, attributes=VERDICT),),
            ),
        )
    ]


def rows_of(store: Store, view: str) -> list[Any]:
    but_now = " EXCEPT stored_at" if view == "spans" else ""
    columns, rows = store.query(f"SELECT *{but_now} FROM {DATABASE}.{view}")
    found = [{name: shown(value) for name, value in zip(columns, row, strict=True) if is_told(value)} for row in rows]
    return sorted(found, key=lambda row: json.dumps(row, sort_keys=True))


def shown(value: Any) -> Any:
    """Return a cell as the file has it."""
    if isinstance(value, dict):
        return {name: shown(item) for name, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [shown(item) for item in items] if len(items) < MANY else f"{len(items)} items, {digest(json.dumps(items))}"
    if isinstance(value, str) and len(value) > 2 * SHOWN:
        return f"{value[:SHOWN]}… {len(value)} characters, {digest(value)}"
    return value


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def is_told(value: Any) -> bool:
    """Return whether a cell says something: a row has a hundred columns, most of them empty."""
    return value not in (None, "", 0, [], {}, "0")


@pytest.mark.proof("view each")
@pytest.mark.parametrize("view", VIEWS)
def test_the_view_says_of_recorded_traces_what_it_said(filled: Store, view: str) -> None:
    found = rows_of(filled, view)
    path = GOLDEN / f"{view}.json"
    lines = [json.dumps(row, ensure_ascii=False, sort_keys=True) for row in found]
    text = "[\n" + ",\n".join(lines) + "\n]\n"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        pytest.fail(f"{path.name} was not there and is written: read it, and run again")
    assert json.loads(text) == json.loads(path.read_text(encoding="utf-8"))
